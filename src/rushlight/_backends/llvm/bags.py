"""Bags of embeddings as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import cast
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import bags as reference
from rushlight._codegen.kernels import bags as kernels
from rushlight._codegen.types import bf16, f16, f32, f64, of, width
from rushlight.core.dtype_sets import F32, FLOATING, I64, REDUCED

MODES = ("sum", "mean", "most")


@implements("embedding_bag")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, factors: Any, mode: int, padding_idx: int
) -> tuple[Any, Any, Any, Any]:
    """(reduced rows, bag of each index, indices in each bag, of a maximum the row it is in)."""
    t, n, count = of(weight.dtype), len(offsets), indices.size
    if (
        t not in (f32, f64, f16, bf16)
        or weight.__class__ is not np.ndarray
        or not n
        or not 0 <= mode < len(MODES)
        or not count * weight.shape[1]
        or (
            factors is not None
            and (mode == 2 or factors.dtype is not weight.dtype or factors.shape != indices.shape)
        )
    ):
        return reference.embedding_bag(weight, indices, offsets, factors, mode, padding_idx)
    i, starts = np.ascontiguousarray(indices, I64), np.ascontiguousarray(offsets, I64)
    weight, inner = in_order(weight), weight.shape[1]
    result, bag = np.empty((n, inner), weight.dtype), np.empty(count, I64)
    sizes, bad = np.empty(n, I64), np.zeros(1, I64)
    max_indices = np.empty((n, inner) if mode == 2 else 0, I64)
    given = weight if factors is None else np.ascontiguousarray(factors)
    side = 1 if inner <= width(t) or mode == 2 else 4
    run = kernels.bags.compiled(WEIGHTED=factors is not None, MODE=MODES[mode], SIDE=side, T=t)
    run(
        weight, i, starts, given, result, bag, sizes, max_indices, bad, n, count, inner, padding_idx
    )
    if bad[0]:
        return reference.embedding_bag(weight, indices, offsets, factors, mode, padding_idx)
    if starts[0]:  # what comes before the first bag
        bag = bag[starts[0] :]
    return result, bag, sizes, max_indices


GRADIENT, FACTORS = Compiled(kernels.bags_gradient), Compiled(kernels.bag_factors_gradient)


@implements("embedding_bag_gradient", dtypes=FLOATING, least=1)
def embedding_bag_gradient(
    g: Any, indices: Any, bags: Any, sizes: Any, factors: Any, n: int, mode: int, padding_idx: int
) -> Any:
    if not fit(g, indices, bags) or sizes.dtype != I64 or sizes.shape != g.shape[:1]:
        return NotImplemented
    if factors is not None and (
        mode == 1 or factors.dtype is not g.dtype or factors.size != indices.size
    ):
        return NotImplemented
    if g.dtype in REDUCED:
        wide = None if factors is None else cast(factors, F32)
        found = embedding_bag_gradient(
            cast(g, F32), indices, bags, sizes, wide, n, mode, padding_idx
        )
        return cast(found, g.dtype)
    g, bags, sizes = in_order(g), in_order(bags), in_order(sizes)
    i = np.ascontiguousarray(indices, I64)
    given = g if factors is None else in_order(factors)
    out, bad = np.empty((n, g.shape[1]), g.dtype), np.zeros(1, I64)
    run = GRADIENT[factors is not None, mode == 1, g.dtype]
    run(g, i, bags, sizes, given, out, bad, i.size, g.shape[1], len(g), n, padding_idx)
    return NotImplemented if bad[0] else out


@implements("bag_factors_gradient", dtypes=FLOATING, least=1)
def bag_factors_gradient(g: Any, weight: Any, indices: Any, bags: Any, padding_idx: int) -> Any:
    if not fit(g, indices, bags) or weight.dtype is not g.dtype or weight.shape[1:] != g.shape[1:]:
        return NotImplemented
    if g.dtype in REDUCED:
        wide = bag_factors_gradient(cast(g, F32), cast(weight, F32), indices, bags, padding_idx)
        return cast(wide, g.dtype)
    out, i = np.empty(indices.size, g.dtype), np.ascontiguousarray(indices, I64)
    g, weight, bad = in_order(g), in_order(weight), np.zeros(1, I64)
    FACTORS[(g.dtype,)](
        g, weight, i, in_order(bags), out, bad, i.size, g.shape[1], len(g), len(weight), padding_idx
    )
    return NotImplemented if bad[0] else out


def fit(g: Any, indices: Any, bags: Any) -> bool:
    """Whether kernels take the gradients of bags, and the bag of each index."""
    return g.ndim == 2 and bags.dtype == I64 and bags.size == indices.size > 0
