"""How results lie in memory: brought into the order that Note [Layouts of results] in core/geometry.py states."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numpy import asarray, generic, ndarray

from rushlight._backends.reference import views
from rushlight.core import geometry

KERNELS = "laid_out with_strides".split()

NUMBER = ((), (), 1)
NUMBERS = generic, int, float, complex


def laid_out(r: ndarray, *operands: Any) -> ndarray:
    """`r`, the result of an elementwise function of `operands`, as Note [Layouts of results] wants it: itself, or a
    copy. A Python number is an operand without dimensions, None is none; what is no result of them stays as it is.
    NumPy gives numbers for arrays without dimensions: they become arrays."""
    if r.__class__ is not ndarray:
        return asarray(r) if isinstance(r, NUMBERS) else r
    given = []
    for a in operands:
        if a.__class__ is ndarray:
            if a is r or a.ndim > r.ndim:
                return r
            given.append((a.shape, a.strides, a.itemsize))
        elif a is not None:
            given.append(NUMBER)
    return with_strides(r, strides_of_result(r.shape, tuple(given)))


@lru_cache(4096)
def strides_of_result(shape: tuple, operands: tuple) -> tuple[int, ...]:
    """`geometry.elementwise_strides` of operands of (shape, strides in bytes, bytes of an element)."""
    given = [
        (own, geometry.known_strides(own, tuple([s // size for s in strides])))
        for own, strides, size in operands
    ]
    return geometry.elementwise_strides(shape, given)


def channels_last(a: ndarray) -> bool:
    """(N, C, *) whose channels are next to each other in memory."""
    if a.ndim < 4 or a.flags.c_contiguous:
        return False
    return a.transpose(0, *range(2, a.ndim), 1).flags.c_contiguous


def in_format(r: ndarray, a: ndarray) -> ndarray:
    """`r`, which nobody else holds, in the memory format that `a`, of as many dimensions, suggests."""
    if r.__class__ is not ndarray or a.__class__ is not ndarray:
        return r
    if a.flags.c_contiguous and r.flags.c_contiguous and 1 not in a.shape and 1 not in r.shape:
        return r
    return with_strides(r, strides_in_format(r.shape, a.shape, a.strides, a.itemsize))


@lru_cache(4096)
def strides_in_format(shape: tuple, own: tuple, strides: tuple, itemsize: int) -> tuple[int, ...]:
    """The strides of a result of a shape after an array of a shape and strides in bytes."""
    own_strides = geometry.known_strides(own, tuple([s // itemsize for s in strides]))
    return geometry.format_strides(shape, geometry.suggest_memory_format(own, own_strides))


def copied_as(a: ndarray, r: ndarray) -> ndarray:
    """`r`, which has the shape of `a` and nobody else holds, with the strides of a copy of `a`: see
    `geometry.preserve_strides`."""
    if a.__class__ is not ndarray or r.__class__ is not ndarray:
        return r
    if a.flags.c_contiguous and 1 not in a.shape and r.flags.c_contiguous:
        return r
    return with_strides(r, strides_of_copy(a.shape, a.strides, a.itemsize))


def as_new(r: ndarray) -> ndarray:
    """`r`, which nobody else holds, with the strides of a new row-major array."""
    if not r.flags.c_contiguous:
        return r.copy(order="C")
    if 1 not in r.shape or views.plain(r):
        return r
    return with_strides(r, geometry.contiguous_strides(r.shape))


@lru_cache(4096)
def strides_of_copy(shape: tuple, strides: tuple, itemsize: int) -> tuple[int, ...]:
    """`geometry.preserve_strides`, of strides in bytes."""
    own = geometry.known_strides(shape, tuple([s // itemsize for s in strides]))
    return geometry.preserve_strides(shape, own)


def with_strides(r: ndarray, strides: tuple) -> ndarray:
    """An array with the elements of `r`, which nobody else holds, and `strides`, counted in elements and without
    gaps: `r` itself, a view of it where only strides that say nothing differ, or a copy."""
    k = r.itemsize
    steps = tuple([s * k for s in strides])
    have = r.strides
    if have == steps:
        return r
    if not r.size:
        return views.empty_strided(r.shape, r.dtype, strides)
    if all(s == h or n == 1 for s, h, n in zip(steps, have, r.shape, strict=True)):
        return views.as_strided(r, r.shape, steps)
    made = views.empty_strided(r.shape, r.dtype, strides)
    views.xp.copy_into(made, r)
    return made
