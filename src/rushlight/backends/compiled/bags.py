"""Bags of embeddings as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends.compiled import threshold
from rushlight.backends.reference import bags as reference
from rushlight.compiler.kernels import bags as kernels
from rushlight.compiler.types import bf16, f16, f32, f64, of

SMALL = max(1, threshold(256))  # elements that are added up


def bags(
    weight: Any, indices: Any, offsets: Any, factors: Any, mode: int, padding_idx: int
) -> tuple[Any, Any, Any, Any]:
    """(reduced rows, bag of each index, indices in each bag, of a maximum the row it is in)."""
    t, n = of(weight.dtype), len(offsets)
    ends = np.empty(n + 1, np.int64)
    ends[:n], ends[n] = offsets, indices.size
    lengths = ends[1:] - ends[:-1]
    if (
        mode == 2
        or t not in (f32, f64, f16, bf16)
        or weight.__class__ is not np.ndarray
        or not n
        or indices.size * weight.shape[1] < SMALL
        or not weight.flags.c_contiguous
        or not weight.flags.aligned
        or ends[0] < 0
        or lengths.min() < 0
        or (
            factors is not None
            and (factors.dtype is not weight.dtype or factors.shape != indices.shape)
        )
    ):
        return reference.bags(weight, indices, offsets, factors, mode, padding_idx)
    i = np.ascontiguousarray(indices, np.int64)
    inner = weight.shape[1]
    result, sizes = np.empty((n, inner), weight.dtype), np.empty(n, np.int64)
    given = weight if factors is None else np.ascontiguousarray(factors)
    run = kernels.bags.compiled(WEIGHTED=factors is not None, MEAN=mode == 1, T=t)
    run(weight, i, ends, given, result, sizes, n, inner, padding_idx, max(1, i.size // n))
    return result, np.repeat(np.arange(n), lengths), sizes, np.zeros(0, np.int64)
