"""What pools, their gradients and changes of size do with arrays of one layout; see plans.py."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm import pool, resample
from rushlight._backends.llvm.plans import (
    copy_into,
    good,
    regular,
    report,
    room,
    row_major,
    undecided,
)
from rushlight._backends.windows import Windows
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FLOATING, FULL, I64

if TYPE_CHECKING:
    from rushlight._codegen.planned_entry import Plan

    Ints = tuple[int, ...]

GRIDS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def averages(plan: Plan, input: np.ndarray, windows: Windows, divisor: tuple) -> Any:
    x = regular(plan, input, len(windows.sizes))
    if undecided(input):
        return None
    found = pool.averages_call(x, windows, divisor)
    if found is None and not x.flags.c_contiguous:  # of integers, which have no kernel for it
        y = room(plan, x, windows.out, x.dtype)
        rows = averages(plan, row_major(plan, input), windows, divisor)
        if rows is not None:
            copy_into(plan, y, rows)
        return None if rows is None else y
    if found is None:
        return None
    run, counts, _, numbers, _ = found
    y = room(plan, x, windows.out, x.dtype)
    plan.call(run, x, counts, y, *numbers)
    return y


def maxima(plan: Plan, input: np.ndarray, windows: Windows) -> Any:
    x = regular(plan, input, len(windows.sizes))
    last = not x.flags.c_contiguous
    found = pool.max_plan(windows, True, x.dtype, last)
    if found is None or found.whole and not last:
        return None
    y, at = (room(plan, x, windows.out, d) for d in (x.dtype, I64))
    planes = x.shape[:2] if last else (x.size // found.volume,)
    plan.call(found.run, x, y, at, *planes, *found.numbers)
    return y, at


def maximum(plan: Plan, input: np.ndarray, windows: Windows) -> Any:
    """The maxima alone."""
    x = regular(plan, input, len(windows.sizes))
    last = not x.flags.c_contiguous
    found = pool.max_plan(windows, False, x.dtype, last)
    if found is None or found.whole and not last:
        return None
    y = room(plan, x, windows.out, x.dtype)
    planes = x.shape[:2] if last else (x.size // found.volume,)
    plan.call(found.run, x, y, pool.NOWHERE, *planes, *found.numbers)
    return y


def adaptive_averages(plan: Plan, input: np.ndarray, output_size: Ints) -> Any:
    x, nd = regular(plan, input, len(output_size)), len(output_size)
    spans = pool.adaptive_spans(input.shape[input.ndim - nd :], output_size)
    if spans is None or x.dtype not in FLOATING or undecided(input):
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
    if spans is None or pool.laid_out(x, nd) is None:
        return None
    if spans.even is not None:
        return maxima(plan, x, spans.even)
    y, at = (room(plan, x, output_size, d) for d in (x.dtype, I64))
    channels = 1 if x.flags.c_contiguous else x.shape[1]
    planes = y.size // (prod(output_size) * channels)
    run = pool.SPANS_MAXIMA[channels > 1, x.dtype]
    plan.call(run, x, y, at, planes, channels, *spans.numbers, *spans.arrays, 0)
    return y, at


def fractional_maxima(
    plan: Plan, input: np.ndarray, samples: np.ndarray, kernel: Ints, output_size: Ints
) -> Any:
    nd, out = len(kernel), tuple(output_size)
    sizes, lead = input.shape[input.ndim - nd :], input.shape[: input.ndim - nd]
    order = tuple(range(nd)) if nd == 3 else (1, 0)  # as the operator has it
    known = input.dtype in FLOATING and samples.dtype is input.dtype and 0 < len(lead) < 3
    if not known or samples.shape != (*(1, *lead)[-2:], nd) or undecided(input):
        return None
    numbers = pool.fractional_numbers(sizes, tuple(kernel), out, order)
    if numbers is None:
        return None
    x, drawn, planes = regular(plan, input, nd), row_major(plan, samples), prod(lead)
    spans, wrong = [plan.new((planes, m, 2), I64) for m in out], report(plan)
    for a, *of_one in zip(spans, order, sizes, kernel, out, strict=True):
        plan.call(pool.FRACTIONAL_SPANS[(x.dtype,)], drawn, a, wrong, planes, nd, *of_one)
    good(plan, wrong)
    y, at = (room(plan, x, out, d) for d in (x.dtype, I64))
    channels = 1 if x.flags.c_contiguous else x.shape[1]
    ends = [pool.whole(planes), *spans] if nd == 2 else spans
    run = pool.SPANS_MAXIMA[channels > 1, x.dtype]
    plan.call(run, x, y, at, planes // channels, channels, *numbers, *ends, 1)
    return y, at


# -- their gradients -------------------------------------------------------------------------------------


def averages_gradient(plan: Plan, grad_output: np.ndarray, windows: Windows, divisor: tuple) -> Any:
    w, nd = windows, len(windows.sizes)
    g = regular(plan, grad_output, nd)
    if g.dtype not in FULL or not pool.fits(w, g.dtype) or undecided(grad_output):
        return None
    by = pool.divisors(w, divisor, g.dtype)
    gx = room(plan, g, w.sizes, g.dtype)
    if not g.flags.c_contiguous:
        apart, tiled = pool.windows_overlap(w)
        run = pool.pool_last.averages_gradient.compiled(APART=apart, TILED=tiled, R=of(g.dtype))
        plan.call(run, g, by, gx, *g.shape[:2], *pool.plane_numbers(w))
        return gx
    if pool.is_whole(w) or max(w.stride) == 1 or not w.stride[-1] == w.kernel[-1] == 2:
        return None
    run = pool.kernels.averages_gradient.compiled(R=of(g.dtype))
    plan.call(run, g, by, gx, g.size // prod(w.out), *pool.numbers(w))
    return gx


def adaptive_gradient(plan: Plan, grad_output: np.ndarray, sizes: Ints) -> Any:
    nd = len(sizes)
    g = regular(plan, grad_output, nd)
    spans = pool.adaptive_spans(tuple(sizes), grad_output.shape[grad_output.ndim - nd :])
    if spans is None or g.dtype not in FLOATING or undecided(grad_output):
        return None
    gx, channels = room(plan, g, sizes, g.dtype), 1 if g.flags.c_contiguous else g.shape[1]
    run = pool.AVERAGES_GRADIENT[(g.dtype,)]
    planes = gx.size // (prod(sizes) * channels)
    plan.call(run, g, gx, planes, channels, *spans.numbers, *spans.arrays, *spans.back)
    return gx


# -- other sizes and places ------------------------------------------------------------------------


def resampled(plan: Plan, input: np.ndarray, out: Ints, corners: bool, scales: Any, mode: str) -> Any:  # fmt: skip
    x, sizes = regular(plan, input, len(out)), input.shape[2:]
    if x.dtype not in FLOATING or min(out) <= 0 or undecided(input):
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
        copy_into(plan, y, x)
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
