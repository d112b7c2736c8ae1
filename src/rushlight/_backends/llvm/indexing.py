"""Reading and writing at indices as machine code; see `__init__.py` for when it runs.

No index reaches a kernel before it was seen to be in range.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from operator import gt
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu, devices
from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.registration import Binding, implements
from rushlight._backends.llvm.views import contiguous
from rushlight._backends.reference import indexing as reference
from rushlight._codegen import index_entry
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import index as kernels
from rushlight._codegen.kernels import index_calls
from rushlight._codegen.native_entry import ByDtype, bind
from rushlight._codegen.types import UNITS, Type, bf16, f16, f32, f64, i32, i64
from rushlight.core.dtype_sets import BF16, BOOL, F16, F32, F64, I32, I64, REDUCED
from rushlight.core.settings import get_num_threads

SMALL = max(1, threshold(512))  # elements from which a kernel takes less time than NumPy
ROWS = max(1, threshold(8192))  # whole rows are what NumPy is good at
ADDED = {F16: f16, BF16: bf16, F32: f32, F64: f64, I32: i32, I64: i64}
INDEX = {I64: i64, I32: i32}
SHARED = 1 << 16  # elements from which threads share the rows of one matrix
PARTS = 4  # in so many parts
SHORT = 4096  # elements that are better cast than given to a kernel of their own
Ints = tuple[int, ...]

if TYPE_CHECKING:
    from collections.abc import Callable


def both(kernel: Any, **known: Any) -> tuple:
    """A kernel's forms for elements and for slices."""
    return (kernel, {**known, "ONE": True}), (kernel, {**known, "ONE": False})


def taking(infer: Any, kernel: Any) -> ByDtype:
    """Of an array and indices, a result."""
    return entries(lambda d, u: bind((infer, {}), [d, I64], [d], *both(kernel, U=u, I=i64)), UNITS)


def pairing(d: np.dtype, u: Type) -> Any:
    arrays = [d, I64, I64]
    return bind((index_calls.taken_in_pairs, {}), arrays, [d], (kernels.take_pairs, {"U": u}))


def putting(how: str) -> ByDtype:
    """Slices into an array."""

    def make(d: np.dtype, t: Type) -> Any:
        fill = kernels.fill_slices, {"HOW": how, "T": t, "I": i64}
        runs = *both(kernels.put_slices, HOW=how, T=t, V=t, I=i64), fill
        return bind((index_calls.slices_put, {"SIZE": d.itemsize}), [d, I64, d], [], *runs)

    return entries(make, TAKEN[how])


WIDE_ADDED = {d: t for d, t in ADDED.items() if d not in REDUCED}  # halves: see `added_widely`
TAKEN = {"put": UNITS, "add": WIDE_ADDED, "times": ADDED, "most": ADDED, "least": ADDED}
TAKE = taking(index_calls.taken, kernels.take_slices)
PAIRS = entries(pairing, UNITS)
PUT = {how: putting(how) for how in TAKEN}


def plain(a: Any) -> bool:
    return a.__class__ is np.ndarray and a.flags.c_contiguous and a.flags.aligned


def index_type(index: Any) -> Type | None:
    """The type of an array of indices, in order; None for what kernels do not read."""
    if not plain(index) or not index.size:
        return None
    return INDEX.get(index.dtype)


def apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share no memory: NumPy is asked where not both are known to lie in arrays that own theirs."""
    of_a = a if (base := a.base) is None else base
    of_b = b if (base := b.base) is None else base
    owned = of_a.__class__ is of_b.__class__ is np.ndarray and of_a.base is of_b.base is None
    return (owned and of_a is not of_b) or not np.may_share_memory(a, b)


def in_memory(z: np.ndarray) -> Ints | None:
    """The order of dimensions in which an array is row-major; None where there is none."""
    strides = z.strides
    order = tuple(sorted(range(z.ndim), key=lambda d: -strides[d]))
    return order if z.transpose(order).flags.c_contiguous else None


def in_range(index: np.ndarray, t: Type, n: int) -> bool:
    out = np.zeros(1, np.int64)
    kernels.look.compiled(I=t)(index, out, index.size, n)
    return not out[0]


@implements("out_of_range")
def out_of_range(index: np.ndarray, size: int) -> int | None:
    """An index that is negative or not below `size`, or None."""
    t = index_type(index)
    if t is None or not index.size:
        return reference.out_of_range(index, size)
    return None if in_range(index, t, size) else reference.out_of_range(index, size)


def from_start(index: np.ndarray, n: int) -> np.ndarray:
    """Indices of which negative ones count from the end `n`, counted from 0."""
    return np.where(index < 0, index + n, index)


class AtIndex(Binding):
    """The native entry for any index."""

    def bind(self, reference: Callable) -> Callable:
        return index_entry.bind(devices.tensor_class)


at_index = implements("at_index")(AtIndex())


# -- one index for a slice -------------------------------------------------------------------------


@implements("index_select")
@put_entries_before(TAKE, contiguous)
def index_select(a: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    """The slices of `a` along `axis` that `index`, of any shape, names; None where an index is out of
    range."""
    if index.dtype is I32 and index.size < SHORT:
        return index_select(a, index.astype(I64), axis)
    t, size, shape = index_type(index), a.size, a.shape
    gaps = not a.flags.c_contiguous and -a.ndim <= axis < a.ndim
    if gaps and t is not None and in_range(index, t, shape[axis]):
        key = *(slice(None),) * (axis % a.ndim), index
        if (r := cpu.at_index(a, key)) is not None:
            return contiguous(r)
    if gaps and shape[axis] <= 2 * index.size:
        a = contiguous(a)
        if (r := TAKE[a.dtype](a, index, axis)) is not None:
            return r
    if (
        t is None
        or not size
        or not plain(a)
        or (unit := UNITS.get(a.dtype.itemsize)) is None
        or not -a.ndim <= axis < a.ndim
    ):
        return reference.index_select(a, index, axis)
    n = shape[axis]
    if axis == 0:
        outer, inner = 1, size // n
        out_shape = (*index.shape, *shape[1:])
    else:
        axis %= a.ndim
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        out_shape = (*shape[:axis], *index.shape, *shape[axis + 1 :])
    k = index.size
    if outer * k * inner < (ROWS if outer == 1 else SMALL):
        return reference.index_select(a, index, axis)
    out, bad = np.empty(out_shape, a.dtype), np.zeros(1, np.int64)
    run = kernels.take_slices.compiled(ONE=inner == 1, U=unit, I=t)
    run(a, index, out, bad, outer, n, k, inner)
    return None if bad[0] else out


def added_widely(
    z: np.ndarray, values: np.ndarray, add: Callable[[np.ndarray, np.ndarray], Any]
) -> Any:
    """What `add(z, values)` gives, with the sums of a half type made in float32 and rounded once; see the reference."""
    wide = cpu.cast(z, F32)
    done = add(wide, cpu.cast(values, F32) if values.size < SHORT else values)
    if done is not False:
        z[...] = cpu.cast(wide, z.dtype)
    return done


def put(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray, how: str) -> bool | None:
    """`z` along `axis` at index[k] becomes what `how` makes of it and the k-th slice of `values`, or one number;
    False, and nothing is written, where an index is out of range; None where no kernel can do it."""
    if PUT[how][z.dtype](z, index, values, axis):
        return True
    if not z.flags.c_contiguous:
        order, axes = in_memory(z), values.ndim
        if order is None or axes and axes != z.ndim or not 0 <= axis < z.ndim:
            return None
        across = values.transpose(order) if axes else values
        return put(z.transpose(order), index, order.index(axis), across, how)
    if not (index.flags.c_contiguous and values.flags.c_contiguous):
        return put(z, contiguous(index), axis, contiguous(values), how)
    t, dtype, shape = index_type(index), z.dtype, z.shape
    halves = how == "add" and dtype is F32 and values.dtype in REDUCED
    if t is None or not plain(z) or not z.flags.writeable:
        return None
    if not 0 <= axis < z.ndim or values.__class__ is not np.ndarray:
        return None
    kind = UNITS.get(dtype.itemsize) if how == "put" else ADDED.get(dtype)
    if kind is None or not z.size or values.dtype is not dtype and not halves:
        return None
    n, k = shape[axis], index.size
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    work, step = outer * k * inner, inner
    if values.ndim == 0:
        values, step = np.full(inner, values), 0
    else:
        if values.shape != (*shape[:axis], k, *shape[axis + 1 :]):
            return None
        if not values.flags.aligned or not apart(z, values):
            return None
    if not apart(z, index):
        return None
    bad = np.zeros(1, np.int64)
    given = ADDED[values.dtype] if halves else kind
    run = kernels.put_slices.compiled(HOW=how, ONE=inner == 1, T=kind, V=given, I=t)
    parts = 0
    if outer == 1 and work >= SHARED and inner >= 16 and n >= PARTS:
        parts = PARTS if get_num_threads() > 1 else 1
    run(z, index, values, bad, outer, n, k, inner, step, parts)
    return not bad[0]


@implements("put_slices")
def put_slices(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray, add: bool) -> bool:
    """`z` along `axis` at index[k] = (or +=) the k-th slice of `values`, or one number, in place; False,
    and nothing is written, where an index is out of range."""
    if add and values.dtype is z.dtype and reference.sums_are_wide(z, index, axis):
        if z.size > values.size:  # the slices that are written to alone
            return into_touched(z, index, axis, values)
        return added_widely(
            z, values, lambda wide, given: put_slices(wide, index, axis, given, True)
        )
    done = put(z, index, axis, values, "add" if add else "put")
    return reference.put_slices(z, index, axis, values, add) if done is None else done


def into_touched(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray) -> bool:
    """`put_slices` of sums on a copy of the slices that `index` names."""
    if reference.out_of_range(index, z.shape[axis]) is not None:
        return False
    touched, places = np.unique(index, return_inverse=True)
    part = z.take(touched, axis)
    added_widely(part, values, lambda wide, given: put_slices(wide, places, axis, given, True))
    z[(*(slice(None),) * axis, touched)] = part
    return True


def added(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray) -> bool:
    """`z` along `axis` at index[k] += the k-th slice of `values`; False where no kernel can do it."""
    return put(z, index, axis, values, "add") is True


@implements("add_rows")
def add_rows(z: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """`z[rows[k]] += values[k]` for each k in turn; rows may repeat. `z` (R, C), `values` (K, C)."""
    if not added(z, rows, 0, values):
        reference.add_rows(z, rows, values)


def slices_only(key: tuple) -> bool:
    return not key or all(k.__class__ is slice for k in key)


def gapped(index: Any) -> bool:
    """Whether an array of indices has gaps, and its dimensions are in the order of rows: its copy gives results of the same layout."""
    if index.__class__ is slice or index.flags.c_contiguous or index.dtype is BOOL:
        return False
    strides = index.strides
    rows = all(map(gt, strides, (*strides[1:], 0)))
    return rows and 1 not in index.shape


@implements("index_take")
def index_take(a: np.ndarray, key: tuple) -> np.ndarray:
    """`a[key]` for a tuple of full slices and index arrays, in the layout PyTorch gives it."""
    last = key[-1]
    if len(key) == 1 or slices_only(key[:-1]):
        r = TAKE[a.dtype](a, last, len(key) - 1)
        if r is not None:
            return r
    elif len(key) == 2:
        r = PAIRS[a.dtype](a, key[0], last)
        if r is not None:
            return r
    whole = len(key) == 1 and last.shape == a.shape and last.dtype is BOOL
    if not whole and (r := cpu.at_index(a, key)) is not None:
        return r
    if any(map(gapped, key)):
        return index_take(a, tuple([contiguous(k) if gapped(k) else k for k in key]))
    if a.__class__ is np.ndarray and a.flags.c_contiguous:
        r = None
        if plain(last) and last.dtype.kind == "i" and a.size and last.size >= SMALL // 16:
            if slices_only(key[:-1]):
                d = len(key) - 1
                r = index_select(a, last, d)
                if r is None and a.shape[d]:
                    r = index_select(a, from_start(last, a.shape[d]), d)
        if r is not None:
            return r
    return reference.index_take(a, key)


@implements("index_put")
def index_put(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] = values` for a tuple of full slices and index arrays."""
    if not put_at(z, key, values, "put"):
        z[key] = values


def put_at(z: np.ndarray, key: tuple, values: np.ndarray, how: str) -> bool:
    """`z[key] = values`, or += values, where a kernel can do it."""
    last = key[-1]
    if (len(key) == 1 or slices_only(key[:-1])) and PUT[how][z.dtype](
        z, last, values, len(key) - 1
    ):
        return True
    if (how == "put" or how == "add") and cpu.at_index(z, key, values, how == "add"):
        return True
    if not plain(z) or last.__class__ is slice or last.dtype.kind != "i" or not z.size:
        return False
    if not slices_only(key[:-1]):
        return False
    d, index = len(key) - 1, last
    shape, flat = z.shape, index.reshape(-1)
    if values.ndim:
        if values.shape != (*shape[:d], *index.shape, *shape[d + 1 :]):
            return False
        values = values.reshape((*shape[:d], flat.size, *shape[d + 1 :]))
    done = put(z, flat, d, values, how)
    if done is False:
        done = put(z, from_start(flat, shape[d]), d, values, how)
    return bool(done)


@implements("index_add_at")
def index_add_at(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] += values`, where positions that occur several times add up."""
    if not put_at(z, key, values, "add"):
        reference.index_add_at(z, key, values)


def cleared(shape: Ints, dtype: np.dtype) -> np.ndarray:
    """Zeros that threads write."""
    z = np.empty(shape, dtype)
    if z.nbytes < 1 << 16:
        z.fill(0)
    else:
        kernels.clear.compiled(T=UNITS[dtype.itemsize])(z, z.size)
    return z


@implements("index_select_gradient")
def index_select_gradient(
    shape: Ints, index: np.ndarray, axis: int, values: np.ndarray
) -> np.ndarray:
    """Zeros of `shape`; along `axis` at index[k] += the k-th slice of `values`, one after the other."""
    if values.dtype.itemsize not in UNITS:
        return reference.index_select_gradient(shape, index, axis, values)
    z = cleared(shape, values.dtype)
    if reference.sums_are_wide(z, index, axis):
        put_slices(z, index, axis, values, True)
    elif not added(z, index, axis, values):
        reference.index_add_at(z, (*(slice(None),) * axis, index), values)
    return z


# -- reductions into slices -------------------------------------------------------------------------

WORDS = {"sum": "add", "mean": "add", "prod": "times", "amax": "most", "amin": "least"}
ONE = np.array(1)


@lru_cache(64)
def first_of(reduce: str, dtype: np.dtype) -> np.ndarray:
    """What a reduction starts with."""
    return np.array(reference.identity(reduce, dtype)).astype(dtype)


def averaged(z: np.ndarray, count: np.ndarray, include: bool) -> None:
    """Divide sums by how many values came to them, and by one more if what stood there is included."""
    if include:
        count += 1
    else:
        np.maximum(count, 1, out=count)
    divide = np.floor_divide if z.dtype.kind in "iu" else np.divide
    divide(z, count, out=z, casting="unsafe")


@implements("reduce_slices")
def reduce_slices(
    z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray, reduce: str, include: bool
) -> bool:
    """`z` along `axis` at index[k], and the k-th slice of `values`, reduced in place; `include` False: without what
    stood there. False, and nothing is written, where an index is out of range."""
    direct = reduce in ("amax", "amin") or reduce != "mean" and z.dtype not in REDUCED
    if include and direct:
        done = put(z, index, axis, values, WORDS[reduce])
        if done is not None:
            return done
    if not include and direct and apart(z, values):
        # Native entries: what they begin, the way behind them does again from the start.
        begun = PUT["put"][z.dtype](z, index, first_of(reduce, z.dtype), axis)
        if begun and PUT[WORDS[reduce]][z.dtype](z, index, values, axis):
            return True
    slices = (*z.shape[:axis], index.size, *z.shape[axis + 1 :])
    index = contiguous(index)
    if (
        not fit(z, values)
        or values.shape != slices
        or index_type(index) is None
        or not apart(z, index)
    ):
        return reference.reduce_slices(z, index, axis, values, reduce, include)
    values = contiguous(values)
    if not include and not put_slices(z, index, axis, first_of(reduce, z.dtype), False):
        return False
    if not put(z, index, axis, values, WORDS[reduce]):
        return False
    if reduce == "mean":
        count = np.zeros(z.shape[axis], np.int64)
        put(count, index, 0, ONE, "add")
        averaged(z, count.reshape(-1, *(1,) * (z.ndim - axis - 1)), include)
    return True


def fit(z: np.ndarray, values: np.ndarray) -> bool:
    """Whether kernels reduce `values`, in whatever order, into `z`."""
    return (
        z.dtype in ADDED
        and values.dtype is z.dtype
        and values.__class__ is np.ndarray
        and values.flags.aligned
        and z.size > 0
        and plain(z)
        and z.flags.writeable
        and apart(z, values)
    )
