"""Arrays on the memory of other arrays: any shape and strides, without a copy."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

import numpy as np

from rushlight._backends import cpu as xp

KERNELS = (
    "address as_strided cat_contiguous contiguous copy_into copy_like element_strides "
    "empty_with_strides_of empty_strided extent flip plain roll root row_major stack_contiguous tile triangle"
).split()

make = np.ndarray.__new__
EVERYTHING, BACKWARDS = slice(None), slice(None, None, -1)
FAR = 1 << 40
FEW = 4096  # elements that NumPy's own copy takes least time for


def root(a: np.ndarray) -> np.ndarray:
    """The array over the whole memory that `a` is a part of."""
    while True:
        base = a.base
        if base.__class__ is not np.ndarray:
            if not isinstance(base, np.ndarray):
                base = getattr(base, "base", None)  # `_Interface`, and what NumPy's as_strided uses
            if not isinstance(base, np.ndarray):
                return a
        a = base


def contiguous(a: np.ndarray) -> np.ndarray:
    """`a`, or a row-major copy of it."""
    return a if a.flags.c_contiguous else a.copy(order="C")


def row_major(a: np.ndarray) -> np.ndarray:
    """A row-major copy of `a`."""
    return a.copy(order="C")


def copy_into(out: np.ndarray, a: np.ndarray) -> None:
    """`out[...] = a`, where both have one dtype, and `a` broadcasts. ValueError where it does not."""
    np.copyto(out, a)


def cat_contiguous(arrays: list, axis: int) -> np.ndarray | None:
    """Arrays of one dtype one after the other along an axis, row-major; None for others, and for four dimensions
    in another order: they may be joined as they lie."""
    if all(a.__class__ is np.ndarray and (a.flags.c_contiguous or a.ndim < 4) for a in arrays):
        return _joined(arrays, axis)
    return None


def _joined(arrays: list, axis: int) -> np.ndarray | None:
    try:  # without casts: NumPy's promotion is not PyTorch's
        r = np.concatenate(arrays, axis, dtype=arrays[0].dtype, casting="no")
    except (TypeError, ValueError, IndexError):
        return None
    return np.ascontiguousarray(r)


def _in_a_row(numbers: list) -> np.ndarray | None:
    """Arrays without dimensions as one; None if they are of several dtypes."""
    r = np.empty(len(numbers), numbers[0].dtype)
    for k, a in enumerate(numbers):
        if a.dtype is not r.dtype:
            return None
        r[k] = a
    return r


def stack_contiguous(arrays: list, axis: int) -> np.ndarray | None:
    """Arrays of one dtype and shape along a new axis, row-major; None for others."""
    if not arrays or not all(a.__class__ is np.ndarray for a in arrays):
        return None
    shape = arrays[0].shape
    if not all(a.shape == shape for a in arrays):
        return None
    if axis.__class__ is not int or not -len(shape) - 1 <= axis <= len(shape):
        return None
    if not shape:
        return _in_a_row(arrays)
    if len(shape) > 3 and not all(a.flags.c_contiguous for a in arrays):
        return None  # channels may be last
    axis %= len(shape) + 1
    new = (*shape[:axis], 1, *shape[axis:])
    return _joined([a.reshape(new) for a in arrays], axis)


def roll(a: np.ndarray, shifts: tuple, dims: tuple) -> np.ndarray:
    """The elements moved on by `shifts` along `dims`, round the end; row-major."""
    from rushlight._backends.reference.layout import as_new

    return as_new(np.roll(a, shifts, dims))


def tile(a: np.ndarray, repeats: tuple) -> np.ndarray:
    """Copies side by side, repeats[d] of them along each dimension; row-major."""
    from rushlight._backends.reference.layout import as_new

    return as_new(np.tile(a, repeats))


def address(a: np.ndarray) -> int:
    """Where the first element is in memory, in bytes."""
    if DATA > 0 and isinstance(a, np.ndarray):
        return _word(id(a) + DATA).value or 0
    if DATA == 0:
        _probe()
        return address(a)
    return a.__array_interface__["data"][0]


# NumPy's object holds it too, and is read in a quarter of the time: its field's place in bytes, 0 before that
# is probed, -1 where it cannot be read.
DATA, _word = 0, ctypes.c_void_p.from_address


def _probe() -> None:
    from rushlight._codegen.runtime import abi

    global DATA
    readable = sys.implementation.name == "cpython" and abi.arrays_hold()
    DATA = 8 * abi.DATA if readable else -1


class _Interface:
    """What NumPy reads to make an array on foreign memory."""

    __slots__ = ("__array_interface__", "base")


def as_strided(
    a: np.ndarray, shape: tuple, strides: tuple, offset: int = 0, dtype: np.dtype | None = None
) -> np.ndarray:
    """An array on the memory of `a`, `offset` bytes after its first element; `strides` in bytes.

    The caller answers for the bounds: they are those of the whole memory, not those of `a`.
    """
    if dtype is None:
        dtype = a.dtype
    if offset == 0:
        try:  # quick, for contiguous arrays whose own memory suffices
            return make(a.__class__, shape, dtype, a, 0, strides)
        except (ValueError, TypeError, BufferError):
            pass
    whole = root(a)
    try:
        return make(a.__class__, shape, dtype, whole, address(a) - address(whole) + offset, strides)
    except (ValueError, TypeError, BufferError):
        pass
    d = _Interface()  # memory that is no plain buffer: foreign, with gaps
    i = a.__array_interface__
    pointer = (i["data"][0] + offset, i["data"][1])
    d.__array_interface__ = {
        "shape": shape, "typestr": f"|V{dtype.itemsize}", "strides": strides, "data": pointer, "version": 3,
    }  # fmt: skip
    d.base = a
    r = np.asarray(d).view(dtype)
    return r if a.__class__ is np.ndarray else r.view(a.__class__)


def empty_strided(shape: tuple, dtype: np.dtype, strides: tuple) -> np.ndarray:
    """Uninitialised memory of `shape`; `strides` in elements."""
    k = dtype.itemsize
    flat = np.empty(extent(shape, strides), dtype)
    if 0 in shape:  # strides that are never used; beyond these NumPy cannot count
        strides = tuple([s if abs(s) < FAR else 0 for s in strides])
    return make(np.ndarray, shape, dtype, flat, 0, tuple([s * k for s in strides]))


def empty_with_strides_of(a: np.ndarray) -> np.ndarray | None:
    """Uninitialised memory in the dtype, shape and strides of `a`; None where that has gaps or overlaps."""
    if a.flags.c_contiguous and 1 not in a.shape:  # NumPy's `empty_like` takes longer
        made = np.empty(a.shape, a.dtype)
        return made if made.size else None
    made = np.empty_like(a)
    return made if made.strides == a.strides and made.size else None


def element_strides(a: np.ndarray) -> tuple[int, ...]:
    """Strides in elements, as PyTorch counts them."""
    k = a.itemsize
    strides = tuple([s // k for s in a.strides])
    if a.size:
        return strides
    from rushlight.core import geometry

    return geometry.known_strides(a.shape, strides)


def plain(a: np.ndarray) -> bool:
    """Row-major without gaps, and the strides of size-1 dimensions are row-major too."""
    return a.flags.c_contiguous and (
        1 not in a.shape or _strides_are_plain(a.shape, a.strides, a.itemsize)
    )


@lru_cache(4096)
def _strides_are_plain(shape: tuple, strides: tuple, step: int) -> bool:
    for n, s in zip(shape[::-1], strides[::-1]):
        if s != step:
            return False
        step *= n
    return True


def extent(shape: tuple, strides: tuple) -> int:
    """One more than the greatest distance of an element from the first, in the unit of `strides`."""
    if 0 in shape:
        return 0
    return sum([(n - 1) * s for n, s in zip(shape, strides)]) + 1


def flip(a: np.ndarray, dims: tuple) -> np.ndarray:
    """`a` in reverse order along `dims`: negative strides, for copying from only."""
    return a[tuple([BACKWARDS if d in dims else EVERYTHING for d in range(a.ndim)])]


def copy_like(a: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A copy of `a` with the order of dimensions in memory that `like` has."""
    if a is like and a.size < FEW and a.flags.c_contiguous:
        r = a.copy()
        if r.strides == a.strides:  # they may differ where a size is 1
            return r
    if a.shape == like.shape and 1 not in a.shape and a.size:  # these strides are the usual ones
        if like.flags.c_contiguous:
            return xp.row_major(a)
        if like.flags.f_contiguous:
            return xp.row_major(a.T).T
    r = empty_with_strides_of(like) if a.dtype is like.dtype else None
    if r is None:
        from rushlight.core import geometry

        strides = geometry.preserve_strides(like.shape, element_strides(like))
        k = a.itemsize
        r = as_strided(np.empty(a.size, a.dtype), a.shape, tuple([s * k for s in strides]))
    xp.copy_into(r, a)
    return r


def triangle(a: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    """The matrices of `a` with zeros on one side of a diagonal."""
    rows, columns = a.shape[-2:]
    mask = np.arange(columns) - np.arange(rows)[:, None] <= (diagonal if lower else diagonal - 1)
    zero = np.zeros((), a.dtype)
    r = np.where(mask, a, zero) if lower else np.where(mask, zero, a)
    return r if r.flags.c_contiguous else r.copy(order="C")
