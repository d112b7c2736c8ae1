"""What operators do with arrays of one layout, for the native entries that carry it out (`_codegen/planned_entry.py`).

Each planner gets a `Plan`, then what the operator gets. It makes the arrays and notes the calls of kernels that the operator
comes to, or returns None where it comes to something else. Those here need the kernels of no family; the others stand in
`window_plans.py`, `row_plans.py` and `matrix_plans.py`, so that a program reads the files of what it does and no others.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm.views import COPY
from rushlight._codegen.kernels import edges, few, index
from rushlight._codegen.native_entry import ByDtype, bind
from rushlight._codegen.types import UNITS, i64, of
from rushlight.core.dtype_sets import FULL, I64

if TYPE_CHECKING:
    from rushlight._codegen.planned_entry import Plan

    Ints = tuple[int, ...]


def numbers_alone(infer: Any) -> ByDtype:
    return ByDtype(lambda d: bind((infer, {}), [d], [], (index.clear, {"T": i64})))


CLEARED, STILL_ZERO = numbers_alone(few.cleared), numbers_alone(few.still_zero)


def copy_into(plan: Plan, out: np.ndarray, a: np.ndarray) -> None:
    """`out[...] = a`, both of one shape."""
    if a.itemsize not in UNITS:
        raise LookupError(f"no kernel copies elements of {a.itemsize} bytes")
    plan.call(COPY[a.dtype], out, a)


def report(plan: Plan) -> np.ndarray:
    """An array of 0, in which kernels tell that something is wrong; see `good`."""
    wrong = plan.new((1,), I64)
    plan.call(CLEARED[I64], wrong)
    return wrong


def good(plan: Plan, wrong: np.ndarray) -> None:
    """Note that what follows is done if no kernel said that something is wrong."""
    plan.call(STILL_ZERO[I64], wrong)


def row_major(plan: Plan, a: np.ndarray) -> np.ndarray:
    """`a`, or a row-major copy of it."""
    if a.flags.c_contiguous:
        return a
    made = plan.new(a.shape, a.dtype)
    copy_into(plan, made, a)
    return made


def innermost(a: np.ndarray) -> bool:
    """Whether the channels of an array (N, C, H, W) are last in memory, and no size leaves that open."""
    return (
        a.ndim == 4
        and min(a.shape[1:]) > 1
        and not a.flags.c_contiguous
        and a.transpose(0, 2, 3, 1).flags.c_contiguous
    )


def undecided(a: np.ndarray) -> bool:
    """Whether sizes leave open that the channels are last in memory: then other kernels might run, with other rounding."""
    return (
        not a.flags.c_contiguous and not innermost(a) and a.ndim > 2 and a.strides[1] == a.itemsize
    )


def regular(plan: Plan, a: np.ndarray, nd: int) -> np.ndarray:
    """An array over whose last `nd` dimensions windows go, row-major or with channels last."""
    return a if nd == 2 and innermost(a) else row_major(plan, a)


def room(plan: Plan, x: np.ndarray, out: Ints, dtype: np.dtype) -> np.ndarray:
    """The result of windows over `x`, which lies as `regular` has it."""
    shape = (*x.shape[: x.ndim - len(out)], *out)
    return plan.new(shape, dtype, None if x.flags.c_contiguous else (0, 2, 3, 1))


# -- elements in another order ---------------------------------------------------------------------


def split_up(a: np.ndarray, shape: Ints) -> np.ndarray | None:
    """A view in another shape; None where only a copy has it."""
    try:
        return a.reshape(shape, copy=False)
    except ValueError:
        return None


def reshaped_copy(plan: Plan, input: np.ndarray, a: np.ndarray, shape: Ints) -> Any:
    """A copy of `a` in `shape`, whose channels are last in memory where those of `input` are."""
    if input.flags.c_contiguous:
        order = None
    elif innermost(input) and min(shape[1:]) > 1:
        order = (0, 2, 3, 1)
    else:
        order = None
    y = plan.new(shape, input.dtype, order)
    whole = split_up(y, a.shape)
    if whole is None:
        return None
    copy_into(plan, whole, a)
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
    return reshaped_copy(plan, input, a, (*lead, c // (r * r), h * r, w * r))


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
        return reshaped_copy(plan, input, a, shape)
    y = plan.new(shape, input.dtype, (0, 2, 3, 1))
    copy_into(plan, y.transpose(0, 2, 3, 1).reshape(*a.shape[:1], *a.shape[4:], *a.shape[1:4], copy=False), a.transpose(0, 4, 5, 1, 2, 3))  # fmt: skip
    return y


def channel_shuffle(plan: Plan, input: np.ndarray, groups: int) -> Any:
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        return None
    n, c, *rest = input.shape
    a = split_up(input, (n, groups, c // groups, *rest))
    return None if a is None else reshaped_copy(plan, input, a.swapaxes(1, 2), input.shape)


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
        parts = [(to[(*at, t)], a[(*at, s)]) for to, a in parts for t, s in cut if s.start < s.stop]
    for to, part in parts:
        copy_into(plan, to, part)
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
    copy_into(plan, y, input[tuple([slice(None, None, -1 if d in axes else 1) for d in range(n)])])
    return y


def rot90(plan: Plan, input: np.ndarray, k: int = 1, dims: Any = (0, 1)) -> Any:
    n, k = input.ndim, k % 4
    a, b = (d % n for d in dims)
    if not k:
        return None
    order, by_stride = [*range(n)], sorted(range(n), key=lambda d: -abs(input.strides[d]))
    if k != 2:
        order[a], order[b] = b, a
    shape = tuple([input.shape[d] for d in order])
    y = plan.new(shape, input.dtype, tuple([order[d] for d in by_stride]))
    flipped = (a, b) if k == 2 else (b,) if k == 1 else (a,)
    way = tuple([slice(None, None, -1 if d in flipped else 1) for d in range(n)])
    copy_into(plan, y.transpose(order), input[way])
    return y


def reshaped(plan: Plan, input: np.ndarray, size: Any) -> Any:
    y = plan.new(tuple(size), input.dtype)
    whole = split_up(y, input.shape)
    if whole is not None:
        copy_into(plan, whole, input)
    return None if whole is None else y


def diagonals(plan: Plan, input: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:  # fmt: skip
    n = input.ndim + 1
    d1, d2 = dim1 % n, dim2 % n
    shape = [*input.shape[:-1]]
    for d in sorted((d1, d2)):
        shape.insert(d, input.shape[-1] + abs(offset))
    y = plan.new(tuple(shape), input.dtype)
    copy_into(plan, y, np.broadcast_to(np.zeros((), input.dtype), y.shape))
    copy_into(plan, np.asarray(y.diagonal(offset, d1, d2)), input)
    return y


def padded(plan: Plan, input: np.ndarray, pad: Any, value: Any = 0) -> Any:
    n = input.ndim
    if len(pad) % 2 or len(pad) > 2 * n:
        return None
    sides = [(0, 0)] * (n - len(pad) // 2)
    sides += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    last = innermost(input)
    shape = tuple([m + low + high for m, (low, high) in zip(input.shape, sides, strict=True)])
    if min(shape) <= 0:
        return None
    y = plan.new(shape, input.dtype, (0, 2, 3, 1) if last else None)
    number = np.zeros((), input.dtype) if value == 0 else np.asarray(value).astype(input.dtype)
    copy_into(plan, y, np.broadcast_to(number, shape))
    into = [
        slice(max(low, 0), m - max(high, 0)) for m, (low, high) in zip(shape, sides, strict=True)
    ]
    part = [
        slice(max(-low, 0), m - max(-high, 0))
        for m, (low, high) in zip(input.shape, sides, strict=True)
    ]
    if all(s.start < s.stop for s in into):
        copy_into(plan, y[tuple(into)], input[tuple(part)])
    return y


def continued(plan: Plan, input: np.ndarray, pad: Any, mode: str) -> Any:
    """`padded` by what the elements themselves continue to."""
    last = input.ndim == 4 == len(pad) and innermost(input) and mode != "circular"
    x = input.transpose(0, 2, 3, 1) if last else row_major(plan, input)
    sides = [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)] + [(0, 0)] * last
    lead, n = [(0, 0)] * (3 - len(sides)), len(sides)
    sizes = [*[1] * len(lead), *x.shape[x.ndim - n :]]
    low, high = zip(*lead, *sides, strict=True)
    for m, *ends in zip(sizes, low, high, strict=True):
        most = {"reflect": m - 1, "circular": m}.get(mode, max(ends))
        if min(ends) < 0 or max(ends) > most:
            return None
    wide = [m + b + a for m, b, a in zip(sizes, low, high, strict=True)]
    outer = prod(x.shape[: x.ndim - n])
    shape = (*x.shape[: x.ndim - n], *wide[3 - n :])
    y = (
        plan.new(tuple([shape[d] for d in (0, 3, 1, 2)]), x.dtype, (0, 2, 3, 1))
        if last
        else plan.new(shape, x.dtype)
    )
    run = edges.pad.compiled(MODE=mode, U=UNITS[x.itemsize])
    plan.call(run, x, y, 0, outer, *sizes, *low, *wide)
    return y


def reflected(plan: Plan, input: np.ndarray, pad: Any) -> Any:
    return continued(plan, input, pad, "reflect")


def replicated(plan: Plan, input: np.ndarray, pad: Any) -> Any:
    return continued(plan, input, pad, "replicate")


def circular(plan: Plan, input: np.ndarray, pad: Any) -> Any:
    return continued(plan, input, pad, "circular")


def complex(plan: Plan, real: np.ndarray, imag: np.ndarray) -> Any:
    """Complex numbers of two arrays that broadcast."""
    t = of(real.dtype)
    if real.dtype not in FULL or real.dtype is not imag.dtype or t is None:
        return None
    shape, both = np.broadcast_shapes(real.shape, imag.shape), []
    for a in (real, imag):
        if a.shape == shape and a.flags.c_contiguous:
            both.append(a)
        else:
            both.append(plan.new(shape, a.dtype))
            copy_into(plan, both[-1], np.broadcast_to(a, shape))
    y = plan.new(shape, np.result_type(real.dtype, np.complex64))
    plan.call(few.complex_of.compiled(T=t), *both, y, prod(shape))
    return y
