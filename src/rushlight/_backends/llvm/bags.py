"""Bags of embeddings as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import bags as reference
from rushlight._codegen.kernels import bags as kernels
from rushlight._codegen.kernels.rows import width
from rushlight._codegen.types import bf16, f16, f32, f64, of
from rushlight.core.dtype_sets import I64

SMALL = max(1, threshold(64))  # elements that are added up
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
        or count * weight.shape[1] < SMALL
        or not weight.flags.c_contiguous
        or not weight.flags.aligned
        or (
            factors is not None
            and (mode == 2 or factors.dtype is not weight.dtype or factors.shape != indices.shape)
        )
    ):
        return reference.embedding_bag(weight, indices, offsets, factors, mode, padding_idx)
    i, starts = np.ascontiguousarray(indices, I64), np.ascontiguousarray(offsets, I64)
    inner = weight.shape[1]
    result, bag = np.empty((n, inner), weight.dtype), np.empty(count, I64)
    sizes, bad = np.empty(n, I64), np.zeros(1, I64)
    places = np.empty((n, inner) if mode == 2 else 0, I64)
    given = weight if factors is None else np.ascontiguousarray(factors)
    side = 1 if inner <= width(t) or mode == 2 else 4
    run = kernels.bags.compiled(WEIGHTED=factors is not None, MODE=MODES[mode], SIDE=side, T=t)
    run(weight, i, starts, given, result, bag, sizes, places, bad, n, count, inner, padding_idx)
    if bad[0]:
        return reference.embedding_bag(weight, indices, offsets, factors, mode, padding_idx)
    if starts[0]:  # what comes before the first bag
        bag = bag[starts[0] :]
    return result, bag, sizes, places
