"""Indexing: `x[...]` and `x[...] = v`, and the views they are made of.

Note [How an index is read]
    `x[index]` is done in two steps, as in PyTorch. The basic part (ints, slices, None, Ellipsis)
    gives one view, which NumPy makes in one step and the graph records as one node, named after the
    last basic item. What is left, index tensors and masks, goes to the operator `index`.
"""

from __future__ import annotations

from operator import index as integer
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, sparse
from rushlight._backends.meta import Meta
from rushlight.autograd.state import thread
from rushlight.autograd.views import check_writable, edge_of, hides_history
from rushlight.core import geometry
from rushlight.core.dtype_sets import BOOL, I64
from rushlight.core.tensor import INFERENCE, Tensor, _bump, _wrap
from rushlight.dispatch import general, overrides, results
from rushlight.dispatch.inplace import check_inplace
from rushlight.dispatch.registry import public
from rushlight.ops.indexing import advanced
from rushlight.ops.indexing.gather import quick_number
from rushlight.ops.layout.regions import (
    alias,
    basic_new,
    basic_new_select,
    basic_new_slice,
    basic_select,
    basic_slice,
    region,
    region_with_new_dims,
)
from rushlight.ops.layout.shape import unsqueeze

ndarray = np.ndarray
OWN = frozenset(
    {int, slice, type(None), type(Ellipsis), Tensor, bool}
)  # indices without an override
EVERYTHING = slice(None)
LARGE = 32768  # elements from which kernels write rows sooner than NumPy


# -- reading an index ------------------------------------------------------------------------------


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`: a view for ints, slices, None and `...`; a copy for index tensors and masks."""
    a = self._array
    if a.__class__ is not ndarray and a.__class__ is not Meta:
        got = overrides.call_overrides(Tensor.__getitem__, (self, index), {})
        if got is not overrides.NOTHING:
            return got
        if isinstance(a, sparse.Sparse):
            from rushlight.ops.sparse import shapes as sparse_shapes

            return sparse_shapes.getitem(self, index)
    c = index.__class__
    if c is int:
        if -len(a) <= index < len(a) if a.ndim else False:
            return basic_select(self, (index, ...))
        raise out_of_range(a, 0, index)
    if c is slice:
        if not a.ndim:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        return basic_slice(
            self, (index if index.step is None and plain_ends(index) else checked(index),)
        )
    if c is Tensor:
        b = index._array
        if (
            b.ndim
            and a.ndim
            and b.__class__ is a.__class__
            and (b.dtype is I64 or b.dtype is BOOL and a.shape[: b.ndim] == b.shape)
        ):
            return advanced.index_at(self, advanced.At((b,), (index,)))
        index = (index,)
    elif index is None:
        return unsqueeze(self, 0)
    elif c is tuple:
        if a.__class__ is ndarray and (at := advanced.usual(a, index)) is not None:
            return advanced.index_at(self, at)
        if (d := new_dim(index, a.ndim)) is not None:
            return unsqueeze(self, d)
    else:
        index = as_tuple(index)
    if not OWN.issuperset(map(type, index)) and any(map(overrides.overriding, index)):
        got = overrides.call_overrides(Tensor.__getitem__, (self, index), {})
        if got is not overrides.NOTHING:
            return got
    return by_items(self, index)


public("Tensor", name="getitem")(getitem)
getitem.__name__ = "__getitem__"
for _op in (basic_new, basic_new_select, basic_new_slice, basic_select, basic_slice):
    _op.op.public_function = getitem  # what overrides are told is called
getitem.__name__ = "__getitem__"  # as `__torch_function__` is told


def new_dim(index: tuple, n: int) -> int | None:
    """Where the one new dimension comes in `x[:, None]` and its like; None for all other indices."""
    at = None
    dims = after = 0  # full slices, and those behind the new dimension
    filled = False
    for i in index:
        if i is None:
            if at is not None:
                return None
            at, after = (dims, 0) if not filled else (-1, 0)
        elif i is Ellipsis:
            if filled:
                return None
            filled = True
        elif i.__class__ is slice and i.start is None and i.stop is None and i.step is None:
            dims += 1
            after += 1
        else:
            return None
    if at is None or dims > n:
        return None
    return at if at >= 0 else -1 - after


def plain_ends(i: slice) -> bool:
    """No tensor among the ends of a slice: a view remembers them, and a tensor may change."""
    start, stop = i.start, i.stop
    return (start is None or start.__class__ is int) and (stop is None or stop.__class__ is int)


def out_of_range(a: np.ndarray, dim: int, i: int) -> IndexError:
    if not a.ndim:
        return IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
            "C++ to convert a 0-dim tensor to a number"
        )
    return IndexError(f"index {i} is out of bounds for dimension {dim} with size {a.shape[dim]}")


def by_items(self: Tensor, index: tuple) -> Tensor:
    basic, made, found = read(self._array, index)
    view = self if made is None else made(self, basic)
    if found is not None:
        return advanced.index_at(view, advanced.positions(view._array, found))
    return alias(self) if view is self else view


def read(a: np.ndarray, index: tuple) -> tuple[tuple, Any, list | None]:
    """(basic, operator, tensors): the basic part and the operator that makes the view.

    The operator is None when the basic part changes nothing; `tensors` is None or one index tensor
    (or None) for each dimension of that view.
    """
    n = a.ndim
    if len(index) == 1 and index[0] is Ellipsis:
        return index, None, None
    specified = 0
    for i in index:
        c = i.__class__
        if c is int or c is slice:
            specified += 1
        elif i is not None and i is not Ellipsis and c is not bool:
            specified += dims_of(i)
    if specified > n:
        if not n:
            raise (
                IndexError("slice() cannot be applied to a 0-dim tensor.")
                if any(i.__class__ is slice for i in index)
                else out_of_range(a, 0, 0)
            )
        raise IndexError(f"too many indices for tensor of dimension {n}")
    basic: list = []
    found: dict[int, Tensor] = {}
    selects = slices = news = filled = False
    p = r = 0  # the dimension of `a`, and of the result, that the next item is about
    for i in index:
        c = i.__class__
        if c is slice:
            if i.start is not None or i.stop is not None or i.step is not None:
                i = checked(i)
                if i.indices(a.shape[p]) == (0, a.shape[p], 1):
                    i = EVERYTHING
                else:
                    selects, slices = False, True
            basic.append(i)
            p += 1
            r += 1
            continue
        if i is None:
            basic.append(None)
            news = True
            selects = slices = False
            r += 1
            continue
        if i is Ellipsis:
            if not filled:
                basic.append(Ellipsis)
                filled = True
                p += n - specified
                r += n - specified
            continue
        if c is not int:
            i = item(i)
            c = i.__class__
        if c is int:
            if not -a.shape[p] <= i < a.shape[p]:
                raise out_of_range(a, p, i)
            basic.append(i)
            p += 1
            selects = True
            continue
        if not i._array.ndim:  # a truth value: a new dimension of size 1 or 0
            basic.append(None)
            news = True
            found[r] = _wrap(i._array.astype(bool).reshape(1))
            r += 1
            continue
        found[r] = i
        k = i._array.ndim if i._array.dtype.kind == "b" or i._array.dtype.itemsize == 1 else 1
        basic += [EVERYTHING] * k
        p += k
        r += k
    if not filled:
        basic.append(Ellipsis)
    if news:
        made = basic_new_select if selects else basic_new_slice if slices else basic_new
    else:
        made = basic_select if selects else basic_slice if slices else None
        if made is None and any(i.__class__ is int for i in basic):
            made = basic_select
    tensors: list | None = None
    if found:
        tensors = []
        while len(tensors) <= max(found):
            t = found.get(d := sum(width(t) for t in tensors))
            if d > max(found):
                break
            tensors.append(t)
    return tuple(basic), made, tensors


def width(t: Tensor | None) -> int:
    """How many dimensions an index tensor stands for."""
    if t is None:
        return 1
    b = t._array
    return b.ndim if b.dtype.kind == "b" or b.dtype.itemsize == 1 else 1


def dims_of(i: Any) -> int:
    if i.__class__ is Tensor or isinstance(i, Tensor):
        return width(i)
    if isinstance(i, np.ndarray) and i.dtype.kind == "b":
        return i.ndim
    if isinstance(i, (list, tuple)) and i and not isinstance(i[0], int):
        t = item(i)
        return width(t) if isinstance(t, Tensor) else 1
    if isinstance(i, np.bool_):
        return 0
    return 1


def checked(i: slice) -> slice:
    """A slice with Python numbers; ValueError unless its step is positive."""
    step = 1 if i.step is None else integer(i.step)
    if step <= 0:
        raise ValueError(
            "slice step cannot be zero" if not step else "step must be greater than zero"
        )
    try:
        return slice(
            None if i.start is None else integer(i.start),
            None if i.stop is None else integer(i.stop),
            step,
        )
    except TypeError:
        raise TypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None


def item(i: Any) -> Any:
    """An index item that is no slice, None or Ellipsis: as an int or a tensor of indices."""
    if isinstance(i, Tensor):
        b = i._array
        if (
            not b.ndim
            and b.dtype.kind in "iu"
            and not (b.dtype.kind == "u" and b.dtype.itemsize == 1)
        ):
            return int(b.item())
        if not (
            b.dtype.kind == "b"
            or b.dtype.kind == "i"
            and b.dtype.itemsize >= 4
            or b.dtype.kind == "u"
            and b.dtype.itemsize == 1
        ):
            raise IndexError(advanced.NOT_AN_INDEX)
        return i
    if isinstance(i, (bool, np.bool_)):
        return _wrap(xp.asarray(bool(i)))
    if isinstance(i, (int, np.integer)):
        return int(i)
    if isinstance(i, (list, tuple, range, np.ndarray)):
        b = xp.asarray(opened(i))
        if not b.size and b.dtype.kind == "f":
            b = b.astype(np.int64)
        if not b.ndim and b.dtype.kind in "iu":
            return int(b)
        return item(_wrap(b))
    if hasattr(i, "__index__"):
        return integer(i)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(i).__name__})"
    )


def opened(i: Any) -> Any:
    """Nested sequences with their tensors as NumPy arrays."""
    if isinstance(i, Tensor):
        return i._array
    return [opened(x) for x in i] if isinstance(i, (list, tuple)) else i


def as_tuple(index: Any) -> tuple:
    """An index that is no tuple. A list with sequences or slices in it counts as one, still."""
    if (
        isinstance(index, list)
        and len(index) < 32
        and any(
            x is None or x is Ellipsis or isinstance(x, (slice, Tensor, list, tuple, np.ndarray))
            for x in index
        )
    ):
        import warnings

        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed "
            "in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be "
            "interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error "
            "or a different result",
            UserWarning,
            stacklevel=3,
        )
        return tuple(index)
    return (index,)


# -- writing ---------------------------------------------------------------------------------------


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`: a number, or a tensor that broadcasts to the region."""
    a = self._array
    if self._edge is None and a.__class__ is ndarray and self._counter is not INFERENCE:
        c = index.__class__
        put = c is Tensor or c is tuple and any(i.__class__ is Tensor for i in index)
        if (quick_put if put else quick_write)(a, index, value):
            _bump(self)
            return
    if a.__class__ is not ndarray and a.__class__ is not Meta or overrides.overriding(value):
        got = overrides.call_overrides(Tensor.__setitem__, (self, index, value), {})
        if got is not overrides.NOTHING:
            return
    if index is False:  # PyTorch does not even look at the value
        return
    c = index.__class__
    if c is int:
        if not (a.ndim and -len(a) <= index < len(a)):
            raise out_of_range(a, 0, index)
        basic: tuple = (index, ...)
        made, found = basic_select, None
    elif c is slice and a.ndim:
        basic, made, found = (checked(index),), basic_slice, None
    else:
        if c is not tuple:
            index = (index,) if c is slice or isinstance(index, Tensor) else as_tuple(index)
        basic, made, found = read(a, index)
    if value.__class__ is not Tensor and not isinstance(value, Tensor):
        value = scalar_for(self, value)
    if thread.grad and (edge_of(self) is not None or value._edge is not None):
        view = self if made is None else made(self, basic)
        if found is None:
            view.copy_(without_leading_ones(value, view._array))
        else:
            value = without_leading_ones(value, None)
            advanced.index_put_(view, advanced.positions(view._array, found), value)
        return
    if hides_history(self):
        check_writable(self, "setitem")
    own = devices.of(a)
    area = a if made is None else (region_with_new_dims if None in basic else region)(own, a, basic)
    if (
        found is None
        and value._array.ndim
        and 0 in area.strides
        and geometry.has_internal_overlap(area.shape, area.strides)
    ):
        check_inplace(_wrap(area), "setitem", False)  # raises
    if found is None:
        v = value._array
        if v.ndim and v.shape != area.shape:
            v = without_leading_ones(value, area)._array
        if v.dtype.kind == "c" and area.dtype.kind != "c":
            v = v.real
        results.copy(area, advanced.on_device_of(a, v))
    else:
        at = advanced.positions(area, found)
        v = without_leading_ones(value, None)._array
        v = advanced.on_device_of(a, v)
        if devices.of(a).shares_memory(v, a):
            v = v.copy()
        if a.__class__ is not Meta:
            with np.errstate(all="ignore"):
                advanced.put(area, at, v, False)
    _bump(self)


public("Tensor", name="setitem")(setitem)
setitem.__name__ = "__setitem__"


def quick_write(a: np.ndarray, index: Any, value: Any) -> bool:
    """Write what NumPy writes as PyTorch does; False (and nothing written) for all else."""
    if value.__class__ is Tensor:
        if value._array.dtype is not a.dtype or thread.grad and edge_of(value) is not None:
            return False
        value = value._array
        if value.__class__ is not ndarray:
            return False
    elif (value := quick_number(value, a.dtype)) is None:
        return False
    if 0 in a.strides and a.size:
        return False
    c = index.__class__
    if c is slice:
        if index.step is not None and not onward(index.step):
            return False
    elif c is tuple:
        for i in index:
            c = i.__class__
            if c is slice:
                if i.step is not None and not onward(i.step):
                    return False
            elif c is not int and i is not Ellipsis:
                return False
    elif c is not int:
        return False
    try:
        area = a[index]
        if area.__class__ is not ndarray:  # a number
            a[index] = value
        else:
            xp.copy_into(area, value)
    except (IndexError, ValueError, TypeError, OverflowError):  # again, for PyTorch's error
        return False
    return True


def onward(step: Any) -> bool:
    return step.__class__ is int and step > 0


def quick_put(a: np.ndarray, index: Any, value: Any) -> bool:
    """As `quick_write`, at int64 tensors of one shape, or at a mask."""
    if value.__class__ is Tensor:
        if value._array.dtype is not a.dtype or thread.grad and edge_of(value) is not None:
            return False
        value = value._array
        if value.__class__ is not ndarray or xp.shares_memory(a, value):
            return False
    elif (value := quick_number(value, a.dtype)) is None:
        return False
    if 0 in a.strides:
        return False
    if index.__class__ is Tensor and index._array.dtype is BOOL:
        mask = index._array
        if value.ndim or mask.__class__ is not ndarray:
            return False
        if mask.shape == a.shape:
            xp.fill_masked(a, mask, value)
            return True
        if a.size >= LARGE or not mask.ndim or mask.shape != a.shape[: mask.ndim]:
            return False
        a[mask] = value  # whole rows
        return True
    at = advanced.usual(a, index if index.__class__ is tuple else (index,))
    if at is None:
        return False
    try:
        xp.index_put(a, at.key, value)
    except (IndexError, ValueError):  # again, for PyTorch's error
        return False
    return True


def scalar_for(t: Tensor, value: Any) -> Tensor:
    """A number as a 0-d tensor of the dtype of `t`."""
    if not isinstance(value, general.NUMBERS):
        raise TypeError(f"can't assign a {type(value).__name__} to a {tensor_type(t)}")
    d = t._array.dtype
    if isinstance(value, complex) and d.kind != "c":
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {t.dtype.name} without overflow: {value}"
            )
        value = value.real
    return _wrap(devices.of(t._array).number(value, d))


def tensor_type(t: Tensor) -> str:
    """`torch.FloatTensor` and its like."""
    return f"torch.{t.dtype.scalar_name}Tensor"


def without_leading_ones(value: Tensor, region: Any) -> Tensor:
    """`value` without leading dimensions of size 1, which PyTorch ignores in an assignment.

    RuntimeError if it does not broadcast to `region` (an array, or None: not checked here).
    """
    v = value._array
    drop = 0
    while drop < v.ndim and v.shape[drop] == 1:
        drop += 1
    if drop and (region is None or v.ndim > region.ndim):
        value = value.reshape(v.shape[drop:])
    if region is not None:
        v = value._array
        geometry.expand_strides(v.shape, (0,) * v.ndim, region.shape)
    return value
