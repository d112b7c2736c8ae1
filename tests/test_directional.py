"""The gradient check finds what is wrong: a wrong rule, a wrong second rule, a missing one."""

from __future__ import annotations

import numpy as np
import pytest

import directional
import rushlight as torch


class Cube(torch.autograd.Function):
    """x**3 with rules of the given factors: 3 and 6 are right."""

    @staticmethod
    def forward(ctx, x, first):
        ctx.save_for_backward(x)
        ctx.first = first
        return x.detach() ** 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.first * g * x * x, None


class FrozenCube(Cube):
    """x**3 whose rule is right, but forgets that it depends on x itself."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x.detach() ** 2, None


X = [np.array([0.3, -1.2, 2.0])]


def test_right_rules_pass():
    directional.check(lambda x: Cube.apply(x, 3.0), X, order=2)
    directional.check(lambda x, y: (x @ y, x.exp()), [np.eye(2), np.ones((2, 2))], order=2)


def test_complex_rules_pass():
    directional.check(lambda z: z * z.conj() + z**2, [np.array([1 + 2j, -0.5j])], order=2)


def test_linear_functions_have_no_second_derivative():
    directional.check(lambda x: 2 * x, X, order=2)


@pytest.mark.parametrize("factor", [2.0, 3.001, -3.0])
def test_wrong_rule_is_found(factor):
    with pytest.raises(AssertionError, match="first derivative"):
        directional.check(lambda x: Cube.apply(x, factor), X)


def test_wrong_second_rule_is_found():
    directional.check(lambda x: FrozenCube.apply(x, 3.0), X)
    with pytest.raises(AssertionError, match="second derivative"):
        directional.check(lambda x: FrozenCube.apply(x, 3.0), X, order=2)


def test_missing_conjugate_is_found():
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.detach() * 2j

        @staticmethod
        def backward(ctx, g):
            return g * 2j  # must be -2j

    with pytest.raises(AssertionError, match="first derivative"):
        directional.check(Times.apply, [np.array([1 + 2j])])


def test_no_gradient_at_all_is_an_error():
    with pytest.raises(AssertionError, match="no output requires a gradient"):
        directional.check(lambda x: x.detach(), X)
