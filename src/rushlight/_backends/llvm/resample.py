"""Images resampled as machine code; see `__init__.py` for when it runs, `_codegen/kernels/resample.py`
for how."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import resample as reference
from rushlight._backends.tables import Tables
from rushlight._codegen.kernels import grid as places
from rushlight._codegen.kernels import resample as kernels
from rushlight._codegen.types import f32, f64, of
from rushlight.core.dtype_sets import FULL, REDUCED

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = tuple[int, ...]
    Taps = tuple[np.ndarray, np.ndarray | None]

SMALL = threshold(64)  # elements from which on a kernel takes less time than NumPy's passes
KEPT = 256  # lists that are kept
MOST = 1 << 16  # elements, and entries of lists, of two dimensions that are taken as one
VECTOR = 64  # bytes of the longest vectors
TAPS = (1, 2, 4)  # lengths of lists that kernels are compiled for


class Lists(NamedTuple):
    """What each of `m` elements is made of, of `n`: as kernels want it."""

    n: int
    m: int
    taps: int  # in each list, where that is the same number; else 0
    same: bool  # whether all stays as it is
    begin: np.ndarray
    place: np.ndarray
    weight: np.ndarray
    ends: np.ndarray


def lists(
    n: int, m: int, at: np.ndarray, place: np.ndarray, weight: np.ndarray, rows: bool = True
) -> Lists | None:
    """Of entries (at, place, weight), in the order of `at`; None where `across`, which takes `rows`, has
    too little room."""
    count = np.bincount(at, minlength=m)
    begin = np.zeros(m + 1, np.int64)
    np.cumsum(count, out=begin[1:])
    ends = np.zeros((-(-m // kernels.BLOCK), 2), np.int64)
    for i, pair in enumerate(ends):
        mine = place[begin[i * kernels.BLOCK] : begin[min(i * kernels.BLOCK + kernels.BLOCK, m)]]
        if mine.size:
            pair[:] = mine.min(), mine.max() + 1
    if rows and (ends[:, 1] - ends[:, 0]).max() > kernels.WINDOW:
        return None
    taps = int(count[0]) if count[0] in TAPS and (count == count[0]).all() else 0
    first = slice(0, None, max(taps, 1))
    same = taps > 0 and np.array_equal(place[first], np.arange(n)) and (weight[first] == 1).all()
    place, weight = np.array(place, np.int64), np.array(weight)  # nobody else writes to them
    return Lists(n, m, taps, bool(same), begin, place, weight, ends)


_kept, _joined = Tables(KEPT), Tables(KEPT)


def lists_of(taps: Taps, n: int, dtype: np.dtype, adjoint: bool) -> Lists | None:
    """The lists of taps that resample n elements, or of the transpose of that."""
    positions, weights = taps
    if positions.ndim != 2 or (weights is not None and weights.shape != positions.shape):
        return None
    key = (id(positions), n, dtype, adjoint)
    if (found := _kept.get(key)) is not None:
        return found[1]
    k, m = positions.shape
    if not positions.size or positions.min() < 0 or positions.max() >= n:
        return None
    if (np.diff(positions, axis=1) < 0).any():  # those of a tap grow
        return None
    place = positions.T.reshape(-1)
    at = np.repeat(np.arange(m), k)
    weight = np.ones(k * m, dtype) if weights is None else weights.T.reshape(-1).astype(dtype)
    if adjoint:
        order = np.argsort(place, kind="stable")
        made = lists(m, n, place[order], at[order], weight[order])
    else:
        made = lists(n, m, at, place, weight)
    # Kept with what it was made of: no other array gets that id.
    return _kept.keep(key, (positions, made))[1]


def together(first: Lists, second: Lists) -> Lists | None:
    """The lists of two dimensions as those of one; None where they would be long."""
    if max(first.n * second.n, len(first.place) * len(second.place)) > MOST:
        return None
    key = (id(first), id(second))
    if (found := _joined.get(key)) is not None:
        return found[2]
    one, two = (np.repeat(np.arange(made.m), np.diff(made.begin)) for made in (first, second))
    at = np.add.outer(one * second.m, two).reshape(-1)
    order = np.argsort(at, kind="stable")
    place = np.add.outer(first.place * second.n, second.place).reshape(-1)[order]
    weight = np.outer(first.weight, second.weight).reshape(-1)[order]
    made = lists(first.n * second.n, first.m * second.m, at[order], place, weight, False)
    return _joined.keep(key, (first, second, made))[2]


class Plan(NamedTuple):
    """How arrays of one shape, layout and dtype are resampled."""

    steps: list[
        tuple
    ]  # (kernel, size and dtype of its result, the arrays and numbers that it is told)
    shape: Ints
    last: bool  # whether channels are innermost
    each: Sequence[Lists | None]  # kept with what it was made of, as in `lists_of`


_plans = Tables(KEPT)


def along(shape: Ints, made: Lists, source: np.dtype, dtype: np.dtype) -> tuple:
    """The step from [outer, n, inner] of `source` to [outer, m, inner] of `dtype`."""
    outer, n, inner = shape
    known = {"A": of(source), "B": of(dtype), "R": of(made.weight.dtype), "TAPS": made.taps}
    size, lists = outer * made.m * inner, (made.begin, made.place, made.weight)
    if inner == 1:
        return kernels.across.compiled(**known), size, dtype, (*lists, made.ends, outer, n, made.m)
    lanes = next((k for k in (4, 8) if inner <= k), VECTOR // made.weight.itemsize)
    run = kernels.down.compiled(L=lanes, **known)
    return run, size, dtype, (*lists, outer, n, made.m, inner)


def planned(x: np.ndarray, each: Sequence[Lists | None], backwards: bool) -> Plan | None:
    """The plan for arrays like `x`; None for what kernels are not lists for."""
    nd = len(each)
    k = x.ndim - nd
    if (
        x.size < SMALL
        or not x.size
        or x.dtype.kind not in "fV"
        or of(x.dtype) is None
        or not all(each)
        or any(lists.n != n for lists, n in zip(each, x.shape[k:], strict=True) if lists)
    ):
        return None
    last = not x.flags.c_contiguous
    if last and (k != 2 or not x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous):
        return None
    outer, channels = (x.shape[0], x.shape[1]) if last else (prod(x.shape[:k]), 1)
    sizes, out = list(x.shape[k:]), [lists.m for lists in each if lists]
    passes = [(i, lists) for i, lists in enumerate(each) if lists is not None and not lists.same]
    if backwards:
        passes.reverse()
    if last and len(passes) == nd == 2 and (a := each[0]) and (b := each[1]):
        # Few entries: in one go, what lies between is not written down.
        joined = together(a, b) if a.taps * b.taps in TAPS else None
        if joined is not None:
            passes, sizes = [(0, joined)], [joined.n]
    wide = np.dtype(np.float64 if x.dtype.itemsize == 8 else np.float32)
    steps, source = [], x.dtype
    for i, lists in passes:
        shape = (outer * prod(sizes[:i]), sizes[i], prod(sizes[i + 1 :]) * channels)
        steps.append(along(shape, lists, source, x.dtype if i == passes[-1][0] else wide))
        source, sizes[i] = wide, lists.m
    result_shape = (outer, *out, channels) if last else (*x.shape[:k], *out)
    return Plan(steps, result_shape, last, each)


def by_lists(x: np.ndarray, each: Sequence[Lists | None], backwards: bool) -> np.ndarray | None:
    """`x` with its last dimensions made others, one after the other; None for what kernels are not
    made for. Arrays are C-contiguous or have their channels innermost."""
    if x.__class__ is not np.ndarray or not x.flags.aligned:
        return None
    key = (x.shape, x.strides, x.dtype, backwards, *map(id, each))
    found = _plans.get(key)
    if found is None:
        found = _plans.keep(key, (each, planned(x, each, backwards)))
    return None if found[1] is None else carried_out(found[1], x)


def carried_out(plan: Plan, x: np.ndarray) -> np.ndarray:
    """What a plan makes of an array that it is for."""
    if not plan.steps:
        return x.copy(order="K")
    nd = x.ndim
    y = x.transpose(0, *range(2, nd), 1) if plan.last else x
    for run, size, dtype, told in plan.steps:
        made = np.empty(size, dtype)
        run(y, made, *told)
        y = made
    y = y.reshape(plan.shape)
    return y.transpose(0, nd - 1, *range(1, nd - 1)) if plan.last else y


def weights_dtype(a: np.ndarray) -> np.dtype:
    return (f64 if a.dtype.itemsize == 8 else f32).np


_of_taps = Tables(KEPT)


def by_taps(x: np.ndarray, taps: Sequence[Taps], sizes: Ints, adjoint: bool) -> np.ndarray | None:
    """`resample`, or `resample_adjoint`, of arrays that kernels are made for; None of others."""
    if x.__class__ is not np.ndarray or not x.flags.aligned:
        return None
    key = (x.shape, x.strides, x.dtype, adjoint, sizes, *map(id, taps))
    found = _of_taps.get(key)
    if found is None:
        plan = None
        if x.dtype.kind in "fV":
            dtype = weights_dtype(x)
            each = [lists_of(t, n, dtype, adjoint) for t, n in zip(taps, sizes, strict=True)]
            plan = planned(x, each, not adjoint)
        found = _of_taps.keep(key, (taps, plan))
    return None if found[1] is None else carried_out(found[1], x)


@implements("resample")
def resample(x: np.ndarray, taps: Sequence[Taps]) -> np.ndarray:
    """`x` resampled along its last `len(taps)` dimensions. uint8 is rounded after each of them."""
    y = by_taps(x, taps, x.shape[x.ndim - len(taps) :], False)
    return reference.resample(x, taps) if y is None else y


@implements("resample_adjoint")
def resample_adjoint(g: np.ndarray, taps: Sequence[Taps], sizes: Ints) -> np.ndarray:
    """The transpose of `resample`."""
    x = by_taps(g, taps, sizes, True)
    return reference.resample_adjoint(g, taps, sizes) if x is None else x


# -- at given places -------------------------------------------------------------------------------

VALUES, IMAGE_GRADIENT, GRID_GRADIENT = map(
    Compiled, (places.values, places.image_gradient, places.grid_gradient)
)


def taken(x: Any, grid: Any) -> tuple[Ints, Ints] | None:
    """(the shape of the images, in three dimensions, and the number of places; the shape of the result) of images
    and a grid of places in them that are for the kernels, else None."""
    if not (
        x.__class__ is np.ndarray is grid.__class__
        and x.dtype in FULL
        and x.dtype is grid.dtype
        and x.flags.aligned
        and grid.flags.aligned
    ):
        return None
    return places_in(x.shape, grid.shape)


@lru_cache(maxsize=4096)
def places_in(shape: Ints, at: Ints) -> tuple[Ints, Ints] | None:
    """`taken` of these shapes."""
    n = len(shape)
    if n not in (4, 5) or len(at) != n or at[0] != shape[0] or at[-1] != n - 2:
        return None
    if not prod(at) or not prod(shape) > 0 or prod(shape[2:]) >= places.FAR:
        return None
    sizes = (*shape[:2], *(1,) * (5 - n), *shape[2:], prod(at[1:-1]))
    return sizes, (*shape[:2], *at[1:-1])


@implements("grid_sample")
def grid_sample(
    x: np.ndarray, grid: np.ndarray, mode: str, padding: str, corners: bool
) -> np.ndarray:
    """`x` (N, C, *in) at the places `grid` (N, *out, nd), coordinates from -1 to 1: (N, C, *out)."""
    if x.dtype in REDUCED:
        wide = grid_sample(x.astype("f"), grid.astype("f"), mode, padding, corners)
        return wide.astype(x.dtype)
    found = taken(x, grid)
    if found is None:
        return reference.grid_sample(x, grid, mode, padding, corners)
    sizes, shape = found
    y = np.empty(shape, x.dtype)
    VALUES[x.ndim - 2, mode, padding, corners, x.dtype](in_order(x), in_order(grid), y, *sizes)
    return y


@implements("grid_sample_gradients")
def grid_sample_gradients(
    g: np.ndarray,
    x: np.ndarray,
    grid: np.ndarray,
    mode: str,
    padding: str,
    corners: bool,
    needs: tuple[bool, bool],
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `grid_sample` by the image and by the grid; zeros where not needed."""
    how = mode, padding, corners
    if x.dtype in REDUCED:
        wide = grid_sample_gradients(*(a.astype("f") for a in (g, x, grid)), *how, needs)
        return wide[0].astype(x.dtype), wide[1].astype(grid.dtype)
    found = taken(x, grid)
    if found is None or g.shape != found[1] or g.dtype is not x.dtype:
        return reference.grid_sample_gradients(g, x, grid, *how, needs)
    g, x, grid = (in_order(a) for a in (g, x, grid))
    sizes = found[0]
    if needs[0]:
        gx = np.empty(x.shape, x.dtype)
        IMAGE_GRADIENT[x.ndim - 2, *how, x.dtype](g, grid, gx, *sizes)
    else:
        gx = np.zeros(x.shape, x.dtype)
    if needs[1] and mode != "nearest":
        by_grid = np.empty(grid.shape, grid.dtype)
        GRID_GRADIENT[x.ndim - 2, *how, x.dtype](g, x, grid, by_grid, *sizes)
    else:
        by_grid = np.zeros(grid.shape, grid.dtype)
    return gx, by_grid
