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
from rushlight._backends import devices, math_bits, sparse
from rushlight._backends.math_bits import Marked
from rushlight._backends.meta import Meta
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import check_writable, edge_of, hides_history
from rushlight.core import geometry, settings
from rushlight.core.dtype_sets import BOOL, COMPLEX, I64, REDUCED, U8
from rushlight.core.tensor import INFERENCE, Tensor, _bump, _plain_classes, _wrap
from rushlight.dispatch import general, handlers, overrides, results
from rushlight.dispatch.inplace import check_inplace, copied_plainly, on_device_of
from rushlight.dispatch.registry import public
from rushlight.dispatch.transforms import opened as opened_levels
from rushlight.ops.factories import arguments
from rushlight.ops.factories.construct import add_types, array_from
from rushlight.ops.factories.copying import copy_into, fill_tensor
from rushlight.ops.indexing import advanced
from rushlight.ops.indexing.advanced import lifted, width
from rushlight.ops.layout.regions import basic_index

ndarray = np.ndarray
OWN = frozenset(
    {int, slice, type(None), type(Ellipsis), Tensor, bool}
)  # indices without an override
BASIC = frozenset({int, slice, type(None), type(Ellipsis)})
EVERYTHING = slice(None)


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
        if isinstance(a, Marked) and index.__class__ is Tensor:
            index = index.resolve_neg()
    c = index.__class__
    if c is Tensor or c is list:
        index = plain_index(index)
        if (c := index.__class__) is Tensor:
            if (taken := read_at_tensors(self, a, index)) is not None:
                return taken
            b = index._array
            if (
                b.ndim
                and a.ndim
                and b.__class__ is a.__class__
                and not opened_levels
                and (b.dtype is I64 or b.dtype is BOOL and a.shape[: b.ndim] == b.shape)
            ):
                return advanced.index_at(self, advanced.At((b,), (index,)))
    for i in index if c is tuple else (index,):
        c = i.__class__
        if c is slice:
            if i.start is not None and i.start.__class__ is not int:
                break
            if i.stop is not None and i.stop.__class__ is not int:
                break
            if i.step is not None and i.step.__class__ is not int:
                break
        elif c is not int and i is not None and i is not Ellipsis:
            break
    else:
        return basic_index(self, index)
    if index.__class__ is tuple and (taken := read_at_tensors(self, a, index)) is not None:
        return taken
    if opened_levels and lifted().among(self, index if c is tuple else (index,)):
        return lifted().getitem(self, index)
    if index.__class__ is not tuple:
        index = as_tuple(index)
    if a.__class__ is ndarray and (found := split_index(self, a, index)) is not None:
        return advanced.index_at(*found)
    if not OWN.issuperset(map(type, index)) and any(map(overrides.overriding, index)):
        got = overrides.call_overrides(Tensor.__getitem__, (self, index), {})
        if got is not overrides.NOTHING:
            return got
    return by_items(self, index)


def read_at_tensors(self: Tensor, a: Any, index: Any) -> Tensor | None:
    """`self[index]` with index tensors in it, where no history is recorded; None where that is so, or the kernel for it
    does not know the index."""
    if a.__class__ is not ndarray or active.modes or self.__class__ not in _plain_classes:
        return None
    if not advanced.unrecorded(self):
        return None
    taken = xp.at_index(a, index)
    return taken if taken is None else _wrap(taken)


def split_index(self: Tensor, a: Any, index: tuple) -> tuple[Tensor, advanced.At] | None:
    """(the view that the basic part of an index makes, what index tensors say of it) of plain index tensors; else None."""
    found = advanced.parted(a, index)
    if found is None:
        return None
    basic, key, tensors = found
    view = self if basic is None else basic_index(self, basic)
    if advanced.unfit_mask(view._array, key):
        return None
    return view, advanced.At(key, tensors)


def plain_index(index: Any) -> Any:
    """A tensor without dimensions as an int, a list of ints as a tensor; any other index as it is."""
    if index.__class__ is list:
        return _wrap(array_from(index, None)) if index and {*map(type, index)} == {int} else index
    b = index._array
    number = b.__class__ is ndarray and b.dtype is I64 and not b.ndim and not active.modes
    return b.item() if number else index


public("Tensor", name="getitem")(getitem)
basic_index.op.public_function = getitem  # what overrides are told is called
getitem.__name__ = "__getitem__"  # as `__torch_function__` is told


def by_items(self: Tensor, index: tuple) -> Tensor:
    basic, found = read(self._array, index)
    if found is None:
        return basic_index(self, basic)
    view = basic_index(self, basic) if is_more_than_full(basic) else self
    at = advanced.positions(view._array, found)
    if handlers.made and handlers.asked(found):  # an index is of a class that is asked
        return general.call(advanced.index_at.op, [view, at, None])
    return advanced.index_at(view, at)


def is_more_than_full(basic: tuple) -> bool:
    """Whether the basic part of an index is more than full slices."""
    return any(i is not Ellipsis and i != EVERYTHING for i in basic)


def read(a: np.ndarray, index: tuple) -> tuple[tuple, list | None]:
    """(basic, tensors): the basic part, and None or one index tensor (or None) for each dimension of that
    view."""
    specified = 0
    for i in index:
        if i.__class__ is int or i.__class__ is slice:
            specified += 1
        elif isinstance(i, Tensor):
            specified += width(i)
        elif i is not None and i is not Ellipsis and i.__class__ is not bool:
            specified += 1
    if specified > a.ndim:
        raise IndexError(f"too many indices for tensor of dimension {a.ndim}")
    basic: list = []
    tensors: list = []  # what stands for the dimensions of the view, in order
    for i in index:
        c = i.__class__
        if c is slice:
            basic.append(checked(i))
            tensors.append(None)
            continue
        if i is None:
            basic.append(None)
            tensors.append(None)
            continue
        if i is Ellipsis:
            if Ellipsis not in basic:
                basic.append(Ellipsis)
                tensors += [None] * (a.ndim - specified)
            continue
        i = i if c is int else item(i)
        if i.__class__ is int:
            basic.append(i)
            continue
        if not i._array.ndim:  # a truth value: a new dimension of size 1 or 0
            basic.append(None)
            truth = i.bool().reshape(1)
            if (
                truth._array.__class__ is ndarray and not active.modes
            ):  # an index in PyTorch: no mask
                truth = _wrap(xp.nonzero(truth._array)[0])
            tensors.append(truth)
            continue
        tensors.append(i)
        basic += [EVERYTHING] * width(i)
    while tensors and tensors[-1] is None:
        tensors.pop()
    return tuple(basic), tensors or None


def checked(i: slice) -> slice:
    """A slice with Python numbers."""
    if i.start is i.stop is i.step is None:
        return i
    try:
        return slice(*[None if k is None else integer(k) for k in (i.start, i.stop, i.step)])
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
            return int(i.item())  # (not of the array: a tracer refuses)
        if not (
            b.dtype.kind == "b"
            or b.dtype.kind == "i"
            and b.dtype.itemsize >= 4
            or b.dtype.kind == "u"
            and b.dtype.itemsize == 1
        ):
            raise IndexError(advanced.NOT_AN_INDEX)
        return i
    if isinstance(i, bool):
        return _wrap(xp.asarray(i))
    if isinstance(i, (int, np.integer)):
        return int(i)
    if isinstance(i, (list, tuple, range, np.ndarray)):
        try:
            b = array_from(i, None)
        except ValueError:
            add_types(i, [])  # raises first where there is something that is no number
            raise
        if b.dtype is not BOOL and b.dtype is not U8 and b.dtype is not I64:
            b = b.astype(np.int64)  # of a sequence PyTorch makes a tensor of integers
        return item(_wrap(b))
    if hasattr(i, "__index__") and not isinstance(i, np.bool_):
        return integer(i)
    if isinstance(i, str):
        raise TypeError("new(): invalid data type 'str'")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {results.kind(i)})"
    )


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
        settings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed "
            "in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be "
            "interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error "
            "or a different result"
        )
        return tuple(index)
    return (index,)


# -- writing ---------------------------------------------------------------------------------------


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`: a number, or a tensor that broadcasts to the region."""
    a = self._array
    c = value.__class__
    if (
        a.__class__ is not ndarray
        and a.__class__ is not Meta
        or (c is not Tensor and c is not float and c is not int and overrides.overriding(value))
    ):
        if taken_over(self, index, value):
            return
        if isinstance(a, sparse.Sparse):
            raise TypeError("Cannot assign to a sparse tensor")
    if index.__class__ is bool:
        if not index:  # PyTorch does not even look at the value
            return
        index = None  # a new dimension, into which the value is copied, whatever its dtype
    if opened_levels and lifted().among(self, value, index if type(index) is tuple else (index,)):
        lifted().setitem(self, index, value)
        return
    given = c is Tensor or isinstance(value, Tensor)
    if math_bits.made and math_bits.among((a, value._array if given else None)):
        written = (
            value.resolve_conj().resolve_neg() if given else scalar_tensor(value, dtype=self.dtype)
        )
        recorded_write(self, index, written, not given)
        return
    if active.modes or handlers.made:
        if thread.function_modes and taken_over(self, index, value):
            return
        if handlers.asked((self, value, index)):
            written = value if given else scalar_tensor(value, dtype=self.dtype)
            recorded_write(self, index, written, not given)
            return
    if index.__class__ is Tensor or index.__class__ is list:
        index = plain_index(index)
    own = xp if a.__class__ is ndarray else devices.of(a)
    v = value._array if given else arguments.quick_number(value, a.dtype)
    if v is None or own is not xp and not given:
        v = number_for(self, value)
    e, f = self._edge, value._edge if given else None
    if (e is not None or f is not None) and thread.grad:
        if e is not None and edge_of(self) or f is not None and edge_of(value):
            if index_takes_over(self, index, value):
                return
            recorded_write(self, index, value if given else _wrap(v))
            return
        if e is not None and hides_history(self):
            check_writable(self, "setitem")
    c, area, at = index.__class__, a, None
    if self._counter is INFERENCE:
        results.refuse_inference_write()
    if c in BASIC or c is tuple and BASIC.issuperset(map(type, index)):
        area = own.basic_index(a, index)
    else:
        if own is xp:
            if (
                c is Tensor
                and advanced.fill_at_mask(a, index._array, v)
                or xp.at_index(a, index, v, False)
            ):
                _bump(self)
                return
        index = index if c is tuple else (index,) if c is Tensor else as_tuple(index)
        if (
            a.__class__ is not ndarray
            or (at := advanced.index_without_basic_part(a, index)) is None
        ):
            if index_takes_over(self, index, value):
                return
            basic, found = read(a, index)
            area = own.basic_index(a, basic) if is_more_than_full(basic) else a
            at = advanced.positions(area, found) if found is not None else None
    if at is None:
        assign(area, v)
    elif a.__class__ is not Meta:
        put_into(area, at, v, given and not a.ndim)
    _bump(self)


def put_into(area: Any, at: advanced.At, v: Any, exact: bool = False) -> None:
    """Write an array, which broadcasts, or a number at the indices of a region. `exact`: one number at a mask is not
    converted."""
    advanced.refuse_bytes(at, v)
    if v.ndim:
        if v.shape[0] == 1:
            v = without_leading_ones(_wrap(v), None)._array
        v = on_device_of(area, v)
        if devices.of(area).shares_memory(v, area):
            results.refuse_overlap("index_put_", v, area)
            v = v.copy()
    if exact:
        advanced.check_dtype(area, at, v)
    advanced.refuse_own_indices(at, area, v, False)
    advanced.put(area, at, v if v.__class__ is area.__class__ else on_device_of(area, v), False)


def index_takes_over(self: Tensor, index: Any, value: Any) -> bool:
    """Whether a part of the index overrides functions, and was asked to carry out `self[index] = value`."""
    parts = index if index.__class__ is tuple else (index,)
    if OWN.issuperset(map(type, parts)) or not any(map(overrides.overriding, parts)):
        return False
    return taken_over(self, index, value)


def taken_over(self: Tensor, index: Any, value: Any) -> bool:
    """Whether a function mode or an argument was asked to carry out `self[index] = value`."""
    got = overrides.call_overrides(Tensor.__setitem__, (self, index, value), {})
    return got is not overrides.NOTHING


def scalar_tensor(value: Any, dtype: Any) -> Tensor:
    """A number as a tensor without dimensions, as a `__torch_dispatch__` gets it."""
    import rushlight

    return rushlight.tensor(value, dtype=dtype)


def recorded_write(self: Tensor, index: Any, value: Tensor, fills: bool = False) -> None:
    """`self[index] = value` where one of them has a history; `fills`: it was a number."""
    items = index if index.__class__ is tuple else (index,)
    if not fills and BASIC.issuperset(map(type, items)):
        view = basic_index(self, index) if is_more_than_full(items) else self
        node_op = copy_into if value._array.ndim or not view._array.ndim else fill_tensor
        if not opened_levels and copied_plainly(node_op, view, value, "copy_"):
            return
    elif not fills and self._array.__class__ is ndarray and not opened_levels:
        if (place := split_index(self, self._array, items)) is not None:
            value = without_leading_ones(value, None)
            if not advanced.wrote_plainly(*place, value, False):
                advanced.index_put_(*place, value)
            return
    basic, found = read(self._array, index if index.__class__ is tuple else as_tuple(index))
    view = basic_index(self, basic) if is_more_than_full(basic) else self
    if found is None:
        if fills and thread.grad and edge_of(view) is not None:
            check_writable(view, "copy_")  # in the words of a call that nobody watches
        if fills:
            if not opened_levels:
                refuse_repeated(view._array)
            view.fill_(value)
            return
        value = without_leading_ones(value, view._array)
        if value.shape != view.shape:  # a source that is expanded may share memory with `view`
            value = value.expand(view.shape)
        view.copy_(value)
    else:
        value, at = without_leading_ones(value, None), advanced.positions(view._array, found)
        if not self._array.ndim:
            advanced.check_dtype(view._array, at, value._array)
        advanced.index_put_(view, at, value)


def refuse_repeated(area: Any) -> None:
    """RuntimeError where several elements of a region that is written to share memory."""
    if 0 in area.strides and geometry.has_internal_overlap(area.shape, area.strides):
        check_inplace(_wrap(area), "setitem", False)  # raises


def assign(area: Any, v: Any) -> None:
    """Write an array, which broadcasts, over a region."""
    refuse_repeated(area)
    if v.ndim:
        if v.shape != area.shape:
            v = without_leading_ones(_wrap(v), area)._array
        elif (v.base is not None or area.base is v) and v.__class__ is area.__class__:
            results.refuse_overlap("copy_", v, area, whole=False)
    if v.dtype is area.dtype and v.__class__ is ndarray and area.__class__ is ndarray:
        xp.copy_into(area, v)
        return
    if v.dtype in COMPLEX and area.dtype not in COMPLEX:
        v = v.real
    results.copy(area, on_device_of(area, v))


public("Tensor", name="setitem")(setitem)
setitem.__name__ = "__setitem__"


def number_for(t: Tensor, value: Any) -> Any:
    """A number as a 0-d array of the dtype of `t`."""
    if not isinstance(value, general.NUMBERS):
        raise TypeError(f"can't assign a {results.kind(value)} to a {tensor_type(t)}")
    d = t._array.dtype
    if isinstance(value, int) and not -(2**63) <= value < 2**63 and d != np.uint64:
        raise ValueError("Overflow when unpacking long long")
    own = devices.of(t._array)
    if d in REDUCED and not isinstance(value, complex):
        return own.number(value, d)
    return own.from_numpy(arguments.converted(value, d))


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
