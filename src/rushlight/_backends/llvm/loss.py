"""Losses of elements, and their gradients, as machine code; see llvm/elementwise.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import Elementwise
from rushlight._backends.llvm.reduce import sum
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order, row_major
from rushlight._backends.reference import loss as reference
from rushlight._codegen import types
from rushlight._codegen.dtype_entry import entries_alone, put_entries_before
from rushlight._codegen.kernels import activations, likelihood, math, reduce
from rushlight._codegen.kernels.pointwise import CHEAP
from rushlight._codegen.language import select
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight.core.dtype_sets import FLOATING, I64


def in_memory_order(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of one shape with their dimensions in the order of `a` in memory, both row-major, or copied so."""
    order = sorted(range(a.ndim), key=lambda d: -abs(a.strides[d]))
    return in_order(a.transpose(order)), in_order(b.transpose(order))


@implements("squared_distance", dtypes=FLOATING, least=1024)
def squared_distance(a: Any, b: Any) -> Any:
    """The sum of (a - b)**2; of half types in float32."""
    if b.__class__ is not np.ndarray or b.dtype is not a.dtype or a.shape != b.shape:
        return NotImplemented
    a, b = (a, b) if a.flags.carray and b.flags.carray else in_memory_order(a, b)
    t = types.of(a.dtype)
    assert t is not None
    parts = np.empty(-(-a.size // reduce.APART), t.loaded.np)
    reduce.squares_apart.compiled(T=t, R=t.loaded)(a, b, parts, a.size)
    return sum(parts, None, False) if parts.size > 1 else parts.reshape(())


# `a` is the prediction and `b` the target.


@implements("smooth_l1")
@Elementwise.of(arrays=2, numbers=1, grain=CHEAP)
def smooth_l1(a, b, beta):
    """Squared where |a - b| < beta, else absolute (Girshick 2015)."""
    z = abs(a - b)
    return select(z < beta, z * z * 0.5 / beta, z - 0.5 * beta)


@implements("smooth_l1_gradient")
@Elementwise.of(arrays=3, numbers=1, grain=CHEAP)
def smooth_l1_gradient(g, a, b, beta):
    return g * activations.hardtanh((a - b) / beta, -1, 1)


@implements("huber")
@Elementwise.of(arrays=2, numbers=1, grain=CHEAP)
def huber(a, b, delta):
    """Squared where |a - b| <= delta, else linear (Huber 1964)."""
    z = abs(a - b)
    return select(z <= delta, z * z * 0.5, delta * (z - 0.5 * delta))


@implements("huber_gradient")
@Elementwise.of(arrays=3, numbers=1, grain=CHEAP)
def huber_gradient(g, a, b, delta):
    return g * activations.hardtanh(a - b, -delta, delta)


@implements("mse_gradient")
@Elementwise.of(arrays=3, numbers=1, grain=CHEAP)
def mse_gradient(g, a, b, factor):
    """g * factor * (a - b)."""
    return (a - b) * (g * factor)


@implements("bce_with_logits")
@Elementwise.of(arrays=2)
def bce_with_logits(a, b):
    """max(a, 0) - a * b + log(1 + exp(-|a|))."""
    high = 0 if a < 0 else a
    return high - a * b + math.log1p_of_exp(-abs(a))


@implements("bce_with_logits_gradient")
@Elementwise.of(arrays=3)
def bce_with_logits_gradient(g, a, b):
    return g * (math.sigmoid(a) - b)


@cache
def losses_of_pairs() -> Callable:
    """The losses alone, of arrays of any strides."""
    return Elementwise(likelihood.cross_entropy_of, 2).bind(reference.losses_of_pairs)


PAIRS = ByDtype(
    lambda d: (
        bind((likelihood.infer_pairs, {}), [d, d], [d], (likelihood.losses_of_pairs, {"T": types.of(d)}))
        if d in FLOATING
        else unbound
    )
)  # fmt: skip


@implements("binary_cross_entropy")
@put_entries_before(PAIRS)
def binary_cross_entropy(a: Any, b: Any) -> Any | None:
    """-(b log(a) + (1 - b) log(1 - a)), each logarithm at least -100. None where an element of a is not in [0, 1]."""
    return losses_of_pairs()(a, b) if reference.are_probabilities(a) else None


@implements("binary_cross_entropy_gradient")
@Elementwise.of(arrays=3)
def binary_cross_entropy_gradient(a, b, g):
    d = (1 - a) * a
    d = 1e-12 if d < 1e-12 else d
    return g * (a - b) / d


@implements("binary_cross_entropy_target_gradient")
@Elementwise.of(arrays=2)
def binary_cross_entropy_target_gradient(a, g):
    low, high = math.log(a), math.log(1 - a)
    low, high = -100 if low < -100 else low, -100 if high < -100 else high
    return g * (high - low)


REDUCTIONS = {"none": likelihood.EACH, "sum": likelihood.SUM, "mean": likelihood.MEAN}


def likelihoods(infer: Any, kernel: Any) -> ByDtype:
    """Entries of an array, classes and numbers."""
    return ByDtype(
        lambda d: (
            bind((infer, {}), [d, I64], [d], (kernel, {"T": types.of(d)}))
            if d in FLOATING
            else unbound
        )
    )


_nll = entries_alone(likelihoods(likelihood.infer_losses, likelihood.losses_of_rows), row_major)
_nll_gradient = entries_alone(
    likelihoods(likelihood.infer_gradient, likelihood.gradient_of_rows), row_major
)


@implements("nll_loss")
def nll_loss(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """-w[t] * x[t] for log probabilities [n, c] and classes [n]: each, their sum or weighted mean."""
    if weight is None:
        r = _nll(input, target, REDUCTIONS[reduction], ignore_index)
        if r is not None:
            return r
    return reference.nll_loss(input, target, weight, reduction, ignore_index)


@implements("nll_loss_gradient")
def nll_loss_gradient(
    g: Any, target: Any, weight: Any, reduction: str, ignore_index: int, shape: tuple
) -> Any:
    """The gradient of `nll_loss`: -w[t] * g at the target's place of each row, zeros elsewhere."""
    if weight is None:
        r = _nll_gradient(g, target, shape[1], REDUCTIONS[reduction], ignore_index)
        if r is not None:
            return r
    return reference.nll_loss_gradient(g, target, weight, reduction, ignore_index, shape)
