"""What operators do with arrays of one layout, for the native entries that carry it out (`_codegen/planned_entry.py`).

Each planner gets a `Plan`, then what the operator gets. It makes the arrays and notes the calls of kernels that the operator
comes to, or returns None where it comes to something else.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm import pool, resample
from rushlight._backends.llvm.views import COPY
from rushlight._backends.windows import Windows
from rushlight.core.dtype_sets import FLOATING, FULL, I64

if TYPE_CHECKING:
    from rushlight._codegen.planned_entry import Plan

    Ints = tuple[int, ...]

GRIDS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def copied(plan: Plan, out: np.ndarray, a: np.ndarray) -> None:
    """`out[...] = a`, both of one shape."""
    plan.call(COPY[a.dtype], out, a)


def row_major(plan: Plan, a: np.ndarray) -> np.ndarray:
    """`a`, or a row-major copy of it."""
    if a.flags.c_contiguous:
        return a
    made = plan.new(a.shape, a.dtype)
    copied(plan, made, a)
    return made


def innermost(a: np.ndarray) -> bool:
    """Whether the channels of an array (N, C, H, W) are last in memory, and no size leaves that open."""
    return (
        a.ndim == 4
        and min(a.shape[1:]) > 1
        and not a.flags.c_contiguous
        and a.transpose(0, 2, 3, 1).flags.c_contiguous
    )


def regular(plan: Plan, a: np.ndarray, nd: int) -> np.ndarray | None:
    """An array over whose last `nd` dimensions windows go, row-major or with channels last; None for other layouts whose
    results are not row-major."""
    if a.flags.c_contiguous or nd == 2 and innermost(a):
        return a
    if a.ndim not in (4, 5) or 1 in a.shape[1:] or a.strides[1] == a.itemsize:
        return None
    return row_major(plan, a)


def room(plan: Plan, x: np.ndarray, out: Ints, dtype: np.dtype) -> np.ndarray:
    """The result of windows over `x`, which lies as `regular` has it."""
    shape = (*x.shape[: x.ndim - len(out)], *out)
    return plan.new(shape, dtype, None if x.flags.c_contiguous else (0, 2, 3, 1))


# -- pools -----------------------------------------------------------------------------------------


def averages(plan: Plan, input: np.ndarray, windows: Windows, divisor: tuple) -> Any:
    x = regular(plan, input, len(windows.sizes))
    found = None if x is None else pool.averages_call(x, windows, divisor)
    if x is None or found is None:
        return None
    run, counts, _, numbers, _ = found
    y = room(plan, x, windows.out, x.dtype)
    plan.call(run, x, counts, y, *numbers)
    return y


def maxima(plan: Plan, input: np.ndarray, windows: Windows) -> Any:
    x = regular(plan, input, len(windows.sizes))
    if x is None:
        return None
    last = not x.flags.c_contiguous
    found = pool.max_plan(windows, True, x.dtype, last)
    if found is None or found.whole and not last:
        return None
    y, at = (room(plan, x, windows.out, d) for d in (x.dtype, I64))
    planes = x.shape[:2] if last else (x.size // found.volume,)
    plan.call(found.run, x, y, at, *planes, *found.numbers)
    return y, at


def adaptive_averages(plan: Plan, input: np.ndarray, output_size: Ints) -> Any:
    x, nd = regular(plan, input, len(output_size)), len(output_size)
    spans = pool.adaptive_spans(input.shape[input.ndim - nd :], output_size)
    if x is None or spans is None or x.dtype not in FLOATING:
        return None
    if spans.even is not None:
        return averages(plan, x, spans.even, pool.WHOLE)
    y, channels = room(plan, x, output_size, x.dtype), 1 if x.flags.c_contiguous else x.shape[1]
    planes = y.size // (prod(output_size) * channels)
    run = pool.AVERAGES[channels > 1, x.dtype]
    plan.call(run, x, y, planes, channels, *spans.numbers, *spans.arrays)
    return y


def adaptive_maxima(plan: Plan, input: np.ndarray, output_size: Ints) -> Any:
    x, nd = regular(plan, input, len(output_size)), len(output_size)
    spans = pool.adaptive_spans(input.shape[input.ndim - nd :], output_size)
    if x is None or spans is None or pool.laid_out(x, nd) is None:
        return None
    if spans.even is not None:
        return maxima(plan, x, spans.even)
    y, at = (room(plan, x, output_size, d) for d in (x.dtype, I64))
    channels = 1 if x.flags.c_contiguous else x.shape[1]
    planes = y.size // (prod(output_size) * channels)
    run = pool.SPANS_MAXIMA[channels > 1, x.dtype]
    plan.call(run, x, y, at, planes, channels, *spans.numbers, *spans.arrays, 0)
    return y, at


# -- other sizes and places ------------------------------------------------------------------------


def resampled(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any, mode: str) -> Any:  # fmt: skip
    x, sizes = regular(plan, input, len(out)), input.shape[2:]
    if x is None or x.dtype not in FLOATING or min(out) <= 0:
        return None
    each = zip(sizes, out, scales or (None,) * len(out), strict=True)
    taps = [cpu.taps_of(*of, mode, corners, False, x.dtype) for of in each]
    dtype = resample.weights_dtype(x)
    lists = [resample.lists_of(t, n, dtype, False) for t, n in zip(taps, sizes, strict=True)]
    found = resample.planned(x, lists, True)
    if found is None:
        return None
    y = room(plan, x, out, x.dtype)
    if not found.steps:
        copied(plan, y, x)
    for run, size, made_dtype, told in found.steps:
        made = y if told is found.steps[-1][3] else plan.new((size,), made_dtype)
        plan.call(run, x, made, *told)
        x = made
    return y


def nearest(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any) -> Any:
    return resampled(plan, input, out, corners, scales, "nearest")


def nearest_exact(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any) -> Any:
    return resampled(plan, input, out, corners, scales, "nearest-exact")


def linear(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any) -> Any:
    return resampled(plan, input, out, corners, scales, "linear")


def cubic(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any) -> Any:
    return resampled(plan, input, out, corners, scales, "cubic")


def grid_sampler(
    plan: Plan, input: np.ndarray, grid: np.ndarray, mode: int, padding: int, corners: bool
) -> Any:
    found = resample.taken(input, grid) if input.dtype in FULL else None
    if found is None or input.ndim == 5 and mode == 2:
        return None
    sizes, shape = found
    x, at, y = row_major(plan, input), row_major(plan, grid), plan.new(shape, input.dtype)
    how = GRIDS[0][mode], GRIDS[1][padding], corners
    plan.call(resample.VALUES[input.ndim - 2, *how, input.dtype], x, at, y, *sizes)
    return y


# -- elements in another order ---------------------------------------------------------------------


def split_up(a: np.ndarray, shape: Ints) -> np.ndarray | None:
    """A view in another shape; None where only a copy has it."""
    try:
        return a.reshape(shape, copy=False)
    except ValueError:
        return None


def joined(plan: Plan, input: np.ndarray, a: np.ndarray, shape: Ints) -> Any:
    """A copy of `a` in `shape`, whose channels are last in memory where those of `input` are."""
    if input.flags.c_contiguous:
        order = None
    elif innermost(input) and min(shape[1:]) > 1:
        order = (0, 2, 3, 1)
    elif input.ndim in (4, 5) and (1 in input.shape[1:] or input.strides[1] == input.itemsize):
        return None
    else:
        order = None
    y = plan.new(shape, input.dtype, order)
    whole = split_up(y, a.shape)
    if whole is None:
        return None
    copied(plan, whole, a)
    return y


def pixel_shuffle(plan: Plan, input: np.ndarray, upscale_factor: int) -> Any:
    r = upscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-3] % (r * r):
        return None
    *lead, c, h, w = input.shape
    n = len(lead)
    a = split_up(input, (*lead, c // (r * r), r, r, h, w))
    if a is None:
        return None
    a = a.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return joined(plan, input, a, (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(plan: Plan, input: np.ndarray, downscale_factor: int) -> Any:
    r = downscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-1] % r or input.shape[-2] % r:
        return None
    *lead, c, h, w = input.shape
    n = len(lead)
    a = split_up(input, (*lead, c, h // r, r, w // r, r))
    if a is None:
        return None
    a = a.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    shape = (*lead, c * r * r, h // r, w // r)
    if input.flags.c_contiguous or not innermost(input):
        return joined(plan, input, a, shape)
    y = plan.new(shape, input.dtype, (0, 2, 3, 1))
    copied(plan, y.transpose(0, 2, 3, 1).reshape(*a.shape[:1], *a.shape[4:], *a.shape[1:4], copy=False), a.transpose(0, 4, 5, 1, 2, 3))  # fmt: skip
    return y


def channel_shuffle(plan: Plan, input: np.ndarray, groups: int) -> Any:
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        return None
    n, c, *rest = input.shape
    a = split_up(input, (n, groups, c // groups, *rest))
    return None if a is None else joined(plan, input, a.swapaxes(1, 2), input.shape)


def roll(plan: Plan, input: np.ndarray, shifts: Any, dims: Any = None) -> Any:
    shifts = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    dims = () if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
    a, y = input, plan.new(input.shape, input.dtype)
    out = y
    if not dims and len(shifts) == 1:
        a, out, dims = row_major(plan, input).reshape(-1), y.reshape(-1), (0,)
    if not len(shifts) == len(dims) <= 2 or not all(-a.ndim <= d < a.ndim for d in dims):
        return None
    parts = [(out, a)]
    for shift, d in zip(shifts, dims, strict=True):
        n = a.shape[d]
        k, axis = shift % n, d % a.ndim
        if [e % a.ndim for e in dims].count(axis) > 1:
            return None
        cut = ((slice(k, n), slice(0, n - k)), (slice(0, k), slice(n - k, n)))
        at = (slice(None),) * axis
        parts = [
            (to[(*at, t)], of[(*at, s)]) for to, of in parts for t, s in cut if s.start < s.stop
        ]
    for to, of in parts:
        copied(plan, to, of)
    return y


def flip(plan: Plan, input: np.ndarray, dims: Any) -> Any:
    n, dims = input.ndim, (dims,) if dims.__class__ is int else dims
    axes = {d % n for d in dims} if n else set()
    if not axes or len(axes) < len(dims) or not all(-n <= d < n for d in dims):
        return None
    order = sorted(range(n), key=lambda d: -abs(input.strides[d]))
    y = plan.new(input.shape, input.dtype, None if input.flags.c_contiguous else tuple(order))
    if y.strides != input.strides:
        return None
    copied(plan, y, input[tuple([slice(None, None, -1 if d in axes else 1) for d in range(n)])])
    return y
