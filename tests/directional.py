"""Checks gradients along one random direction, in float64, against central differences; raises when they differ.

The derivative of `s(x) = sum(w * f(x))` (random `w`) along a random direction `v` costs one backward pass and
two calls, whatever the number of inputs. For second derivatives half the squares of `f(x)` are added: then the gradient that
arrives at `f` depends on x too, and backward of a rule is checked in both its arguments. For complex numbers `s` is the real part of `sum(conj(w) * f(x))`, and a gradient
`g` means a change of `Re(conj(g) * v)`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rushlight
from rushlight import Tensor
from rushlight.core.tensor import _wrap


def noise(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    value = rng.standard_normal(array.shape)
    return value + 1j * rng.standard_normal(array.shape) if array.dtype.kind == "c" else value


def inner(gradients: list, directions: list[np.ndarray]) -> Tensor | float:
    """The sum of `Re(conj(g) * v)` over the gradients that are there, recorded like any computation."""
    total: Tensor | float = 0.0
    for g, v in zip(gradients, directions, strict=True):
        if g is not None:
            product = (g.conj() * _wrap(np.array(v))).sum()
            total = total + (product.real if product.is_complex() else product)
    return total


def number(value: Tensor | float) -> float:
    return float(value.detach()._array) if isinstance(value, Tensor) else value


def outputs(result: object) -> list[Tensor]:
    """The tensors in a result that a gradient flows from."""
    if isinstance(result, Tensor):
        return [result] if result.requires_grad else []
    if isinstance(result, tuple | list):
        return [t for item in result for t in outputs(item)]
    return []


def check(
    f: Callable,
    arrays: list[np.ndarray],
    order: int = 1,
    eps: float = 1e-5,
    tol: float = 1e-6,
    seed: int = 0,
) -> None:
    """Check the first (and second, for `order=2`) derivatives of `f(*tensors)` at `arrays`.

    AssertionError when a derivative is wrong, or when nothing that `f` returns has one.
    """
    rng = np.random.default_rng(seed)
    directions = [noise(rng, a) for a in arrays]
    weights: list[np.ndarray] = []

    def gradients(at: list[np.ndarray], create_graph: bool) -> tuple[list[Tensor], list, float]:
        inputs = [_wrap(np.array(a)).requires_grad_() for a in at]
        found = outputs(f(*inputs))
        assert found, "no output requires a gradient"
        if not weights:
            weights.extend(noise(rng, o._array) for o in found)
        s = inner(found, weights)
        for o in found if order > 1 else ():
            square = (o.conj() * o).sum() / 2
            s = s + (square.real if square.is_complex() else square)
        return (
            inputs,
            list(rushlight.autograd.grad(s, inputs, create_graph=create_graph, allow_unused=True)),
            number(s),
        )

    def moved(step: float) -> list[np.ndarray]:
        return [a + step * v for a, v in zip(arrays, directions, strict=True)]

    def compare(what: str, exact: float, plus: float, minus: float) -> None:
        numeric = (plus - minus) / (2 * eps)
        # rounding in s itself is divided by eps: what is large cannot be compared more closely
        scale = max(1.0, abs(numeric), 1e-4 * max(abs(plus), abs(minus)))
        assert abs(numeric - exact) <= tol * scale, (
            f"{what} derivative: {exact!r} by the rule, {numeric!r} by differences"
        )

    inputs, first, _ = gradients(arrays, create_graph=order > 1)
    slope = inner(first, directions)
    compare(
        "first", number(slope), gradients(moved(eps), False)[2], gradients(moved(-eps), False)[2]
    )
    for x, g in zip(inputs, first, strict=True):
        assert g is None or (g.shape == x.shape and g.dtype == x.dtype), f"{g=} for {x=}"
    if order > 1:
        second = [noise(rng, a) for a in arrays]
        slopes = [
            number(inner(gradients([a + e * u for a, u in zip(arrays, second, strict=True)], False)[1], directions))
            for e in (eps, -eps)
        ]  # fmt: skip
        bend: Tensor | float = 0.0
        if isinstance(slope, Tensor) and slope.requires_grad:
            bend = inner(list(rushlight.autograd.grad(slope, inputs, allow_unused=True)), second)
        compare("second", number(bend), *slopes)
