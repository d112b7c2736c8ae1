"""Activations that write over their input: gradients, later writes, views, second derivatives."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._backends import llvm

FUNCTIONS = {
    "relu": F.relu, "silu": F.silu, "mish": F.mish, "hardswish": F.hardswish, "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid, "selu": F.selu,
    "elu": lambda x, inplace: F.elu(x, 0.5, inplace), "celu": lambda x, inplace: F.celu(x, 0.5, inplace),
    "leaky_relu": lambda x, inplace: F.leaky_relu(x, 0.1, inplace),
    "hardtanh": lambda x, inplace: F.hardtanh(x, -0.5, 1.0, inplace),
    "threshold": lambda x, inplace: F.threshold(x, 0.25, 2.0, inplace),
    "sigmoid": lambda x, inplace: x.sigmoid_() if inplace else x.sigmoid(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def activated():
    llvm.activate()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_out_of_place(name, dtype):
    f = FUNCTIONS[name]
    torch.manual_seed(0)
    x = torch.randn(3, 40).to(dtype).requires_grad_()
    g = torch.randn(3, 40).to(dtype)
    y = x * 1
    written = f(y, True)
    assert written is y and y._version == 1
    given = f(x * 1, False)
    assert torch.equal(y, given) and y.grad_fn.name() == given.grad_fn.name()
    (a,), (b,) = torch.autograd.grad(y, x, g), torch.autograd.grad(given, x, g)
    assert a.dtype is dtype
    torch.testing.assert_close(a, b)
    with torch.no_grad():
        z = x * 1
        assert f(z, True) is z and torch.equal(z, given)


@pytest.mark.parametrize("name", ["relu", "silu", "sigmoid"])
def test_second_derivatives(name):
    f = FUNCTIONS[name]
    x = torch.linspace(-2, 2, 8, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: f(x * 1, True) ** 2, x)


def test_a_later_write_to_a_saved_result_is_found():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.relu_()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()
    y = x * 2
    y.sigmoid()  # another node that saved its own result, before
    z = y.sigmoid()
    z.relu_()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()
    y = x * 2
    y.mul_(3)
    y.relu_()  # an earlier one does no harm
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 6.0))


def test_views_and_leaves():
    x = torch.tensor([-1.0, 2.0, -3.0], requires_grad=True)
    y = x * 1
    part = y[1:]
    y.relu_()
    assert part.tolist() == [2.0, 0.0]
    part.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    y = x * 1
    y[:2].relu_()
    assert y.tolist() == [0.0, 2.0, -3.0]
    with pytest.raises(RuntimeError, match="leaf"):
        F.relu(x, inplace=True)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(1).expand(3).relu_()
    numbers = torch.tensor([-1, 2])
    assert F.relu(numbers, inplace=True).tolist() == [0, 2]


NEGATIVE = [
    lambda y: F.leaky_relu_(y, -2.0),
    lambda y: F.leaky_relu(y, -2.0, inplace=True),
    lambda y: F.elu(y, -1.0, inplace=True),
    lambda y: F.celu_(y, -1.0),
    lambda y: torch.celu_(y, -1.0),
    lambda y: F.rrelu(y, -2.0, 1.0, inplace=True),
]


@pytest.mark.parametrize("f", NEGATIVE)
def test_a_negative_slope_in_place_has_no_gradient(f):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = f(x * 1)
    with pytest.raises(RuntimeError, match="call out-of-place version"):
        y.sum().backward()
    with torch.no_grad():
        assert f(x * 1).tolist() == y.tolist()


def test_random_slopes_in_place():
    x = torch.tensor([-1.0, 2.0, -3.0], requires_grad=True)
    torch.manual_seed(0)
    expected = F.rrelu(x, training=True)
    torch.manual_seed(0)
    y = x * 1
    assert F.rrelu(y, training=True, inplace=True) is y and torch.equal(y, expected)
    (given,), (wanted,) = torch.autograd.grad(y.sum(), x), torch.autograd.grad(expected.sum(), x)
    assert torch.equal(given, wanted)
    with pytest.raises(RuntimeError, match="Lower bound"):
        torch.rrelu_(x.detach(), 1.0, 0.5)
    torch.manual_seed(0)
    with torch.inference_mode():  # operator by operator, as under any mode
        assert torch.equal(F.rrelu(x.detach(), training=True), expected)


def test_the_numbers_of_threshold_are_those_of_whole_dtypes():
    x = torch.arange(4, dtype=torch.uint8)
    assert torch.nn.functional.threshold(x, -9, 3).tolist() == [3, 3, 3, 3]  # 247: it wraps around
    assert torch.nn.functional.threshold(x, 2, -9).tolist() == [247, 247, 247, 3]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.nn.functional.threshold(x, 2, 300)


def test_random_slopes_are_rounded_twice():
    """Not once, as uniform_ rounds: PyTorch draws them by other code."""
    torch.manual_seed(4)
    slopes = -F.rrelu(-torch.ones(1000, dtype=torch.float64), 0.1, 0.6, training=True)
    torch.manual_seed(4)
    assert torch.equal(slopes, torch.rand(1000, dtype=torch.float64) * (0.6 - 0.1) + 0.1)
