"""Copies as machine code; see `__init__.py` for when it runs, `_codegen/kernels/copy.py` for how."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from operator import is_not
from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import views as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import copy as kernels
from rushlight._codegen.kernels import shape_inference
from rushlight._codegen.native_entry import ByDtype, ListOf, bind
from rushlight._codegen.types import UNITS

BYTES = max(1, threshold(1 << 13))  # from which a kernel takes less time than NumPy's copy
LINE = 64  # bytes of a cache line


COPY = entries(
    lambda d, u: bind(
        (shape_inference.copied, {"SIZE": u.size}), [d, d], [],
        (kernels.move_over, {"U": u}), (kernels.copy, {"U": u}),
    ),
    UNITS,
)  # fmt: skip


@implements("copy_into")
def copy_into(out: np.ndarray, a: np.ndarray) -> None:
    """`out[...] = a`, where both have one dtype, and `a` broadcasts. ValueError where it does not."""
    if a.nbytes >= kernels.STREAM and out.shape == a.shape and streamed(out, a):
        return
    if COPY[a.dtype](out, a) is None:
        np.copyto(out, a)


def streamed(out: np.ndarray, a: np.ndarray) -> bool:
    """A copy of what is much larger than the caches, in order; False where it is not, or of another dtype."""
    if (
        a.__class__ is not np.ndarray
        or out.__class__ is not np.ndarray
        or out.dtype is not a.dtype
        or (unit := UNITS.get(a.dtype.itemsize)) is None
        or not (a.flags.c_contiguous and out.flags.c_contiguous)
        or not (a.flags.aligned and out.flags.behaved)
        or np.may_share_memory(a, out)
    ):
        return False
    wide = out.ctypes.data % LINE == 0
    kernels.move_all.compiled(STREAMED=wide, U=unit)(a, out, a.size)
    return True


ROWS = entries(
    lambda d, u: bind(
        (shape_inference.in_rows, {"MOST": kernels.STREAM // u.size}), [d], [d],
        (kernels.move_all, {"STREAMED": False, "U": u}), (kernels.put_in_rows, {"U": u}),
    ),
    UNITS,
)  # fmt: skip


@implements("row_major")
@put_entries_before(ROWS)
def row_major(a: np.ndarray) -> np.ndarray:
    """A row-major copy of `a`."""
    if a.nbytes < BYTES:
        return a.copy()
    out = np.empty(a.shape, a.dtype)
    copy_into(out, a)
    return out


@implements("contiguous")
def contiguous(a: np.ndarray) -> np.ndarray:
    """`a`, or a row-major copy of it."""
    return a if a.flags.c_contiguous else row_major(a)


def out_of_order(a: Any) -> bool:
    """Whether it is an array that is worth a row-major copy: one that repeats no element."""
    return a.__class__ is np.ndarray and not a.flags.c_contiguous and 0 not in a.strides


def in_memory_order(a: np.ndarray) -> np.ndarray:
    """A view with the dimensions in the order that they have in memory."""
    if a.flags.f_contiguous:
        return a.T
    return a.transpose(sorted(range(a.ndim), key=lambda d: -abs(a.strides[d])))


def of_copies(entries: ByDtype, any_order: bool = False) -> Callable[[Callable], Callable]:
    """Put native entries before a function, which get arrays of another order in memory as row-major copies;
    with `any_order`, where all dimensions are reduced (axis None), the array as it lies in memory."""

    def decorated(function: Callable) -> Callable:
        def behind(*given: Any) -> Any:
            if any_order and given[1] is None and out_of_order(given[0]):
                copies = [in_memory_order(given[0]), *given[1:]]
            else:
                copies = [*given]
            for k, a in enumerate(copies):
                if out_of_order(a):
                    copies[k] = row_major(a)
            if not any(map(is_not, given, copies)):
                return function(*given)
            found = entries[given[0].dtype](*copies)
            return function(*copies) if found is None else found

        return put_entries_before(entries, None if any_order else row_major)(behind)

    return decorated


def in_order(a: np.ndarray) -> np.ndarray:
    """`a`, or a row-major copy of it, as kernels read arrays."""
    return a if a.flags.carray else row_major(a)


@implements("cat")
def cat(arrays: list, axis: int) -> np.ndarray:
    """Arrays of one dtype, whose shapes agree but for `axis`, one after the other; row-major."""
    first: Any = arrays[0]
    shape = list(first.shape)
    sizes = [a.shape[axis] for a in arrays]
    shape[axis] = sum(sizes)
    out = np.empty(shape, first.dtype)
    key: tuple = (slice(None),) * (axis % first.ndim)
    at = 0
    for a, n in zip(arrays, sizes, strict=True):
        copy_into(out[(*key, slice(at, at + n))], a)
        at += n
    return out


CAT, STACK = [
    entries(
        lambda d, u, infer=(shape_inference.joined, {"STACK": stack}): bind(
            infer,
            [ListOf(d)],
            [d],
            (kernels.join, {"U": u}),
            (kernels.join_any, {"U": u, **infer[1]}),
        ),
        UNITS,
    )
    for stack in (False, True)
]


@implements("cat_contiguous")
@put_entries_before(CAT)
def cat_contiguous(arrays: list, axis: int) -> np.ndarray | None:
    """Arrays of one dtype one after the other along an axis, row-major; None for others."""
    return None


@implements("stack_contiguous")
@put_entries_before(STACK)
def stack_contiguous(arrays: list, axis: int) -> np.ndarray | None:
    """Arrays of one dtype and shape along a new axis, row-major; None for others."""
    small = arrays and arrays[0].__class__ is np.ndarray and not arrays[0].ndim
    return reference.stack_contiguous(arrays, axis) if small else None


ROLL = entries(
    lambda d, u: bind((shape_inference.rolled, {}), [d], [d], (kernels.roll, {"U": u})), UNITS
)


@implements("roll")
def roll(a: np.ndarray, shifts: tuple, dims: tuple) -> np.ndarray:
    """The elements moved on by `shifts` along `dims`, round the end; row-major."""
    if len(dims) == 1:
        r = ROLL[a.dtype](a, shifts[0], dims[0])
        if r is not None:
            return r
    if not a.size or len(dims) > 2 or len({d % a.ndim for d in dims}) < len(dims):
        return reference.roll(a, shifts, dims)
    parts: list[tuple[list, list]] = [([slice(None)] * a.ndim, [slice(None)] * a.ndim)]
    for shift, d in zip(shifts, dims, strict=True):
        n = a.shape[d]
        k = shift % n
        cut = []
        for to, of in parts:
            for t, s in ((slice(k, n), slice(0, n - k)), (slice(0, k), slice(n - k, n))):
                cut.append((to.copy(), of.copy()))
                cut[-1][0][d], cut[-1][1][d] = t, s
        parts = cut
    out = np.empty(a.shape, a.dtype)
    for to, of in parts:
        copy_into(out[tuple(to)], a[tuple(of)])
    return out


@implements("tile")
def tile(a: np.ndarray, repeats: tuple) -> np.ndarray:
    """Copies side by side, repeats[d] of them along each dimension; row-major."""
    if a.nbytes * prod(repeats) < BYTES or len(repeats) < a.ndim:
        return reference.tile(a, repeats)
    shape = (1,) * (len(repeats) - a.ndim) + a.shape
    apart = tuple([n for r, s in zip(repeats, shape, strict=True) for n in (r, s)])
    a = a.reshape(tuple([n for s in shape for n in (1, s)]))
    whole = tuple([r * s for r, s in zip(repeats, shape, strict=True)])
    return row_major(np.broadcast_to(a, apart)).reshape(whole)


LOWER, UPPER = [
    entries(
        lambda d, u, lower=lower: bind(
            (shape_inference.triangular, {}), [d], [d], (kernels.triangle, {"LOWER": lower, "U": u})
        ),
        UNITS,
    )
    for lower in (True, False)
]


@implements("triangle")
def triangle(a: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    """The matrices of `a` with zeros on one side of a diagonal."""
    r = (LOWER if lower else UPPER)[a.dtype](contiguous(a), diagonal)
    return reference.triangle(a, diagonal, lower) if r is None else r
