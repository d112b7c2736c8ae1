"""Sums of gradients that stand in memory which several processes see: one pass each to write them there and to add them up.

A row that others read is written around the caches. Written into them, each line of it would have to be taken from the
cache of a processor that has read it, and would push out the gradients, which the sum needs once more.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.elementwise import GRAIN, WIDTH, streamed
from rushlight._codegen.kernels.shape_inference import item_of, size_of
from rushlight._codegen.kernels.update import WHOLE, plain
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, i64, of


@kernel
def written(T, items: Header, kind: Header, dtype: Header, factor: T, refused: Ptr[i64], n: i64):
    """row = gradient * factor, for n of both, side by side in the list `items`; rows are arrays without gaps.

    A gradient that is not as large, of the class `kind`, of `dtype` and without gaps is left, counted in refused[0] and
    marked in refused[1 + its number].
    """
    L = streamed(T)
    refused[0] = 0
    for j in range(n):
        array, row = item_of(items, 2 * j), item_of(items, 2 * j + 1)
        size = i64(-1)
        if plain(array, kind, dtype, WHOLE):
            size = size_of(array)
        refused[1 + j] = i64(1)
        if size != size_of(row):
            refused[0] += 1
        else:
            refused[1 + j] = i64(0)
            a, out = bits(array[abi.DATA], Ptr[T]), bits(row[abi.DATA], Ptr[T])
            first = (-row[abi.DATA] & (WIDTH - 1)) // T.size  # elements before a line of the cache
            first = first if first < size else size
            for at in range(first):
                out[at] = a[at] * factor
            for lo, hi in parallel(size - first, GRAIN):
                for i in range(first + lo, first + hi - L + 1, L):
                    store(out + i, load(a + i, L) * factor, None, True)
                for i in range(first + hi - (hi - lo) % L, first + hi):
                    out[i] = a[i] * factor


@kernel
def added(T, ROWS, OWN, items: Header, factor: T, n: i64):
    """gradient = the sum of rows in their order, for n gradients; `items` has ROWS arrays for each.

    In the place of the row OWN stands the gradient itself, one that `written` took: times the factor it is what that row holds.
    """
    for j in range(n):
        arrays = [item_of(items, j * ROWS + k) for k in range(ROWS)]
        rows = [bits(a[abi.DATA], Ptr[T]) for a in arrays]
        for lo, hi in parallel(size_of(arrays[OWN]), GRAIN):
            for i in lanes(lo, hi):
                parts = [row[i] for row in rows]
                parts = parts[:OWN] + [parts[OWN] * factor] + parts[OWN + 1 :]
                total = parts[0]
                for k in unroll(ROWS - 1):
                    total = total + parts[k + 1]
                rows[OWN][i] = total


@cache
def kernels(dtype: np.dtype, rows: int, own: int) -> tuple[Any, Any]:
    """The kernels for gradients of a dtype and so many rows, of which `own` is this process's."""
    t = of(dtype)
    assert t is not None
    return written.compiled(T=t), added.compiled(T=t, ROWS=rows, OWN=own)
