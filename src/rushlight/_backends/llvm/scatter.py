"""Reading and writing at an index for each element as machine code: `gather`, `scatter` and their relatives."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm.indexing import (
    ADDED,
    INDEX,
    ONE,
    SHORT,
    SMALL,
    TAKEN,
    WORDS,
    Ints,
    added_widely,
    apart,
    averaged,
    both,
    first_of,
    fit,
    in_memory,
    index_type,
    plain,
    taking,
)
from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous
from rushlight._backends.reference import indexing as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import index as kernels
from rushlight._codegen.kernels import index_calls
from rushlight._codegen.native_entry import ByDtype, bind
from rushlight._codegen.types import UNITS, Type, f32, i64
from rushlight.core.dtype_sets import F32, I32, I64, REDUCED


def writing(how: str) -> ByDtype:
    """Elements into an array."""

    def make(d: np.dtype, t: Type) -> Any:
        known = {"HOW": how, "NEW": False, "T": t, "V": t, "I": i64}
        runs = [
            form for same in (False, True) for form in both(kernels.write_along, **known, SAME=same)
        ]
        return bind((index_calls.scattered, {"SIZE": d.itemsize}), [d, I64, d], [], *runs)

    return entries(make, TAKEN[how])


GATHER = taking(index_calls.gathered, kernels.gather_along)
WRITE = {how: writing(how) for how in TAKEN}


def sizes(shape: Ints, index: np.ndarray, dim: int) -> tuple[int, int, int, int] | None:
    """(outer, n, k, inner) where `index` has all sizes of `shape` but that of `dim`."""
    if len(shape) != index.ndim or not index.size or not 0 <= dim < index.ndim:
        return None
    if shape[:dim] != index.shape[:dim] or shape[dim + 1 :] != index.shape[dim + 1 :]:
        return None
    return prod(shape[:dim]), shape[dim], index.shape[dim], prod(shape[dim + 1 :])


def nameable_part(a: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray | None:
    """The part of an array that an index of smaller sizes can name; None where it has all sizes but that of `dim`, or
    other dimensions, and where the part is long and has gaps."""
    sizes = index.shape
    if len(sizes) != a.ndim or not index.size or not 0 <= dim < a.ndim:
        return None
    if sizes[:dim] == a.shape[:dim] and sizes[dim + 1 :] == a.shape[dim + 1 :]:
        return None
    part = a[tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(sizes)])]
    return part if part.flags.c_contiguous or part.size <= 4 * index.size else None


@implements("gather")
@put_entries_before(GATHER, contiguous)
def gather(a: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray | None:
    """`result[i][j] = a[i][index[i][j]]` for dim 1, and so on; None where an index is out of range."""
    if index.dtype is I32 and index.size < SHORT:
        return gather(a, index.astype(I64), dim)
    if not (a.flags.c_contiguous and index.flags.c_contiguous) and a.size <= 2 * index.size:
        a, index = contiguous(a), contiguous(index)
        if (r := GATHER[a.dtype](a, index, dim)) is not None:
            return r
    if (part := nameable_part(a, index, dim)) is not None:
        return gather(contiguous(part), index, dim)
    if index.size >= SMALL and plain(a) and a.dtype.itemsize in UNITS:
        index = contiguous(index)
        t, found = index_type(index), sizes(a.shape, index, dim)
        if t is not None and found is not None:
            out, bad = np.empty(index.shape, a.dtype), np.zeros(1, np.int64)
            run = kernels.gather_along.compiled(ONE=found[3] == 1, U=UNITS[a.dtype.itemsize], I=t)
            run(a, index, out, bad, *found)
            return None if bad[0] else out
    return reference.gather(a, index, dim)


@implements("scatter")
def scatter(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, add: bool = False
) -> bool:
    """`z` at the places that `index` names along `dim` = values, or += values, in place; False, and
    nothing is written, where an index is out of range."""
    if add and z.dtype in REDUCED and values.dtype is z.dtype:
        return added_widely(z, values, lambda wide, given: scatter(wide, index, dim, given, True))
    done = written(z, index, dim, values, "add" if add else "put")
    return reference.scatter(z, index, dim, values, add) if done is None else done


def written(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, how: str
) -> bool | None:
    """`scatter` by a kernel, `how` being its word; None where there is none."""
    if WRITE[how][z.dtype](z, index, values, dim):
        return True
    if (part := nameable_part(z, index, dim)) is not None:
        array = contiguous(part)
        done = written(array, index, dim, values, how)
        if done and array is not part:
            part[...] = array
        return done
    if not z.flags.c_contiguous:
        order, axes = in_memory(z), values.ndim
        if (
            order is None
            or index.ndim != z.ndim
            or axes
            and axes != z.ndim
            or not 0 <= dim < z.ndim
        ):
            return None
        across = values.transpose(order) if axes else values
        return written(z.transpose(order), index.transpose(order), order.index(dim), across, how)
    if not (index.flags.c_contiguous and values.flags.c_contiguous):
        return written(z, contiguous(index), dim, contiguous(values), how)
    dtype = z.dtype
    kind = UNITS.get(dtype.itemsize) if how == "put" else ADDED.get(dtype)
    halves = how == "add" and dtype is F32 and values.dtype in REDUCED
    if (
        kind is not None
        and plain(z)
        and z.flags.writeable
        and (values.dtype is dtype or halves)
        and values.__class__ is np.ndarray
        and (values.ndim == 0 or values.shape == index.shape)
    ):
        t, found = index_type(index), sizes(z.shape, index, dim)
        if (
            t is not None
            and found is not None
            and values.flags.aligned
            and apart(z, values)
            and apart(z, index)
        ):
            bad = np.zeros(1, np.int64)
            given = ADDED[values.dtype] if halves else kind
            run = kernels.write_along.compiled(
                HOW=how, NEW=False, ONE=found[3] == 1, SAME=values.ndim == 0, T=kind, V=given, I=t
            )
            run(z, index, values, bad, *found)
            return not bad[0]
    return None


@implements("scatter_reduce")
def scatter_reduce(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, reduce: str, include: bool
) -> bool:
    """`z` at the places that `index` names along `dim`, and `values` there, reduced in place; `include`
    False: without what stood there. False, and nothing is written, where an index is out of range."""
    word = WORDS[reduce]
    if reduce in ("sum", "prod") and z.dtype in REDUCED and values.dtype is z.dtype:
        return added_widely(
            z, cpu.cast(values, F32),
            lambda wide, given: scatter_reduce(wide, index, dim, given, reduce, include),
        )  # fmt: skip
    if not include and reduce != "mean" and apart(z, values):
        # Native entries: what they begin, the way behind them does again from the start.
        begun = WRITE["put"][z.dtype](z, index, first_of(reduce, z.dtype), dim)
        if begun and WRITE[word][z.dtype](z, index, values, dim):
            return True
    if include and reduce != "mean":
        done = written(z, index, dim, values, word)
        return (
            reference.scatter_reduce(z, index, dim, values, reduce, include)
            if done is None
            else done
        )
    if not in_reach(z, index, values, dim):
        return reference.scatter_reduce(z, index, dim, values, reduce, include)
    index, values = contiguous(index), contiguous(values)
    if not include and not scatter(z, index, dim, first_of(reduce, z.dtype)):
        return False
    done = (
        scatter(z, index, dim, values, True)
        if word == "add"
        else written(z, index, dim, values, word)
    )
    if not done:
        return False
    if reduce == "mean":
        count = np.zeros(z.shape, np.int64)
        scatter(count, index, dim, ONE, True)
        averaged(z, count, include)
    return True


def in_reach(z: np.ndarray, index: np.ndarray, values: np.ndarray, dim: int) -> bool:
    """Whether `written` has a kernel for all that is reduced here."""
    return (
        fit(z, values)
        and values.shape == index.shape
        and index.dtype in INDEX
        and index.__class__ is np.ndarray
        and index.flags.aligned
        and sizes(z.shape, index, dim) is not None
        and apart(z, index)
    )


@implements("gather_gradient")
def gather_gradient(shape: Ints, index: np.ndarray, dim: int, values: np.ndarray) -> np.ndarray:
    """Zeros of `shape` with `values` added where `index` says along `dim`."""
    kind = ADDED.get(values.dtype)
    if kind is not None and index.size >= SMALL and values.shape == index.shape:
        index, values = np.ascontiguousarray(index), np.ascontiguousarray(values)
        t, found = index_type(index), sizes(shape, index, dim)
        if t is not None and found is not None and values.flags.aligned:
            halves = values.dtype in REDUCED  # see `added_widely`
            to = f32 if halves else kind
            z, bad = np.empty(shape, to.np), np.zeros(1, np.int64)
            run = kernels.write_along.compiled(
                HOW="add", NEW=True, ONE=found[3] == 1, SAME=False, T=to, V=kind, I=t
            )
            run(z, index, values, bad, *found)
            if bad[0]:
                raise IndexError(f"an index is out of range for dimension {dim} of {shape[dim]}")
            return cpu.cast(z, values.dtype) if halves else z
    return reference.gather_gradient(shape, index, dim, values)
