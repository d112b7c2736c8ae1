"""What stands before kernels in direct calls: shapes read, arguments checked, results planned.

See `compiler/direct.py` for what a plan is.
"""

from __future__ import annotations

from rushlight.compiler.direct import DIMS, NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight.compiler.kernel import kernel
from rushlight.compiler.language import bits, inline
from rushlight.compiler.types import HEAD, Header, Ptr, i32, i64


@inline
def dims_of(a):
    return i64(bits(a + HEAD + 1, Ptr[i32])[0])


@inline
def shape_of(a):
    return bits(a[HEAD + 2], Ptr[i64])


@inline
def in_order(a):
    """Whether an array is C-contiguous."""
    return (bits(a + HEAD + 6, Ptr[i32])[0] & 1) != 0


# Runs of a reduction: of whole rows, of columns, and of one row cut into parts.
ROWS, COLUMNS, PARTS = 1, 2, 3
TILE = 64  # columns that are reduced together
SHORT = 131072  # elements that need not be cut for a second thread


@kernel
def reduction(LONGEST, DEEPEST, MOST, FEW, a: Header, axis: i64, keep: i64, plan: Ptr[i64]):
    """[outer, n, inner] reduced over n, a dimension or all of them.

    Rows (inner = 1) are at most LONGEST long, or it is one row of at most MOST parts of that length;
    columns are at most DEEPEST long, and of more than SHORT elements there are FEW tiles at least: fewer
    would not keep two threads busy. The numbers are outer, n, and the length of a part; of columns
    outer, n, inner, and the length of a part.
    """
    nd = dims_of(a)
    shape = shape_of(a)
    whole = axis == NONE
    d = axis + nd if axis < 0 else axis
    fits = in_order(a) & (nd <= DIMS) & ((keep == 0) | (keep == 1))
    fits = fits & (whole | ((d >= 0) & (d < nd)))
    plan[RUN] = 0
    if fits:
        outer, n, inner, kept = i64(1), i64(1), i64(1), i64(0)
        for k in range(nd):
            size = shape[k]
            if whole | (k == d):
                n = n * size
                if keep == 1:
                    plan[SHAPE + kept] = 1
                    kept = kept + 1
            else:
                if k < d:
                    outer = outer * size
                else:
                    inner = inner * size
                plan[SHAPE + kept] = size
                kept = kept + 1
        work = outer * n * inner
        plan[NDIM] = kept
        plan[WORK] = work
        plan[NUMBERS] = outer
        plan[NUMBERS + 1] = n
        plan[NUMBERS + 2] = inner
        plan[NUMBERS + 3] = n
        if work > 0:
            if inner == 1:
                plan[NUMBERS + 2] = n
                if n <= LONGEST:
                    plan[RUN] = ROWS
                elif (outer == 1) & (n <= LONGEST * MOST):
                    plan[RUN] = PARTS
            elif n <= DEEPEST:
                tiles = outer * ((inner + (TILE - 1)) // TILE)
                if (work <= SHORT) | (tiles >= FEW):
                    plan[RUN] = COLUMNS
