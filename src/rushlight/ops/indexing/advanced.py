"""Indexing by index tensors and masks: `x[idx]`, `x[mask] = v`, `index_put_`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, math_bits, meta
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import check_writable, edge_of, hides_history, rebase
from rushlight.core import dtypes, geometry, settings
from rushlight.core.dtype_sets import BOOL, I64
from rushlight.core.tensor import INFERENCE, Tensor, _bump
from rushlight.dispatch import handlers, overrides, results
from rushlight.dispatch.inplace import execute_write, unwritten
from rushlight.dispatch.record import make_node
from rushlight.dispatch.registry import Array, Op, Sizes, op, public
from rushlight.dispatch.transforms import opened as opened_levels
from rushlight.ops.factories import arguments

ndarray = np.ndarray
EVERYTHING = slice(None)
NOT_AN_INDEX = "tensors used as indices must be long, int, byte or bool tensors"


class At:
    """Index tensors as NumPy takes them, and the versions they had: a later write to one is noticed.

    `key` is a tuple of full slices and arrays (integers, or one truth value per element).
    """

    __slots__ = ("given", "key", "seen")

    def __init__(self, key: tuple, tensors: Any, given: Any = None) -> None:
        self.key = key
        self.given = given  # the index tensors, None for a full slice; where it is None, one for each item of the key
        self.seen = [
            (t, None if (c := t._counter) is INFERENCE else 0 if c is None else c.n)
            for t in tensors
        ]  # tensors of inference mode count no writes

    def indices(self) -> list:
        """The index tensors as PyTorch's operators take them, None for a full slice."""
        if self.given is not None:
            return [*self.given]
        rest = iter([t for t, _ in self.seen])
        return [None if k.__class__ is slice else next(rest) for k in self.key]

    def check(self) -> tuple:
        """The key; RuntimeError when an index was written to since."""
        for t, version in self.seen:
            if version is not None and t._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: index [{t.dtype} {list(t.shape)}] is at version {t._version}; "
                    f"expected version {version} instead. Index with a clone() of it."
                )
        return self.key


handlers.HOLDERS[At] = At.indices


def positions(a: np.ndarray, indices: Any) -> At:
    """The `At` of a list of index tensors (None for a full slice), checked against the array `a`.

    IndexError for other dtypes, for masks of another shape, for index shapes that do not broadcast.
    """
    if a.__class__ is ndarray:
        at = index_without_basic_part(a, tuple([EVERYTHING if t is None else t for t in indices]))
        if at is not None:
            return at
    shape, n = a.shape, a.ndim
    key: list = []
    tensors: list = []
    d = 0
    for t in indices:
        if t is None:
            key.append(EVERYTHING)
            d += 1
            continue
        b = t._array
        b = index_array(a, b)
        kind = b.dtype.kind
        if kind == "u" and b.dtype.itemsize == 1:
            warn_uint8()
            b = b.astype(bool)
            kind = "b"
        if kind == "b":
            k = b.ndim
            for i in range(k):
                if d + i >= n or b.shape[i] != shape[d + i]:
                    raise IndexError(
                        f"The shape of the mask {list(b.shape)} at index {i} does not match the shape "
                        f"of the indexed tensor {list(shape)} at index {d + i}"
                    )
            d += k
        elif kind == "i" and b.dtype.itemsize >= 4:
            d += 1
        else:
            raise IndexError(NOT_AN_INDEX)
        key.append(b)
        tensors.append(t)
    if d > n:
        raise IndexError(f"too many indices for tensor of dimension {n} (got {d})")
    if len(tensors) > 1:
        masks = sum(k.__class__ is not slice and k.dtype.kind == "b" for k in key)
        if masks:  # as index arrays, since a mask next to other indices pairs up with them
            opened: list = []
            for k in key:
                mask = k.__class__ is not slice and k.dtype.kind == "b"
                opened.extend(devices.of(k).nonzero(k) if mask else (k,))
            key = opened
        shapes = [k.shape for k in key if k.__class__ is not slice]
        try:
            if any(s != shapes[0] for s in shapes):
                geometry.broadcast_shapes(*shapes)
        except RuntimeError:
            raise IndexError(
                "shape mismatch: indexing tensors could not be broadcast together with shapes "
                + ", ".join(str(list(s)) for s in shapes)
            ) from None
    return At(tuple(key), tensors, indices)


def plain_positions(a: Any, indices: Any) -> At | None:
    """The same of int64 tensors that broadcast, or of one mask; None for all else."""
    if a.__class__ is not ndarray or not TENSOR.issuperset(map(type, indices)):
        return None
    found = parted(a, indices)
    return None if found is None or unfit_mask(a, found[1]) else At(found[1], indices, indices)


def index_array(a: Any, b: Any) -> Any:
    """The array of an index tensor, where `a` is; indices may come from the CPU."""
    if a.__class__ is ndarray and b.__class__ is ndarray:
        return b
    space = devices.of(a)
    if (own := devices.of(b)) is space or isinstance(a, meta.Meta) or isinstance(b, meta.Meta):
        return b.view(ndarray) if b.__class__ is overrides.Tagged else math_bits.resolved(b)
    if own is not xp:
        raise RuntimeError(
            "indices should be either on cpu or on the same device as the indexed tensor "
            f"({space.device_of(a).type})"
        )
    return space.from_numpy(xp.to_numpy(b))


def parted(a: np.ndarray, index: tuple) -> tuple[tuple | None, tuple, list] | None:
    """An index with int64 tensors that broadcast, or one mask, as (basic part, None where it changes nothing; key of the view
    that it makes; index tensors). None for all else; whether a mask has the shape of its dimensions is not looked at."""
    key: list = []
    tensors: list = []
    taken, dots, masks, changes = 0, -1, 0, False
    for i in index:
        c = i.__class__
        if c is Tensor:
            b = i._array
            if b.__class__ is not ndarray or not b.ndim:
                return None
            if b.dtype is BOOL:
                taken += b.ndim
                masks += 1
            elif b.dtype is I64:
                taken += 1
            else:
                return None
            key.append(b)
            tensors.append(i)
            continue
        if c is slice:
            if i != EVERYTHING:
                if not INTS.issuperset((i.start.__class__, i.stop.__class__, i.step.__class__)):
                    return None
                changes = True
            taken += 1
        elif c is int:
            changes = True
            taken += 1
            continue
        elif i is None:
            changes = True
        elif i is Ellipsis and dots < 0:
            dots = len(key)
            continue
        else:
            return None
        key.append(EVERYTHING)
    if not tensors or taken > a.ndim or len(tensors) > 1 and (masks or not broadcast(tensors)):
        return None
    if dots >= 0:
        key[dots:dots] = [EVERYTHING] * (a.ndim - taken)
    while key[-1].__class__ is slice:
        key.pop()
    if not changes:
        return None, tuple(key), tensors
    basic: list = []
    for i in index:
        basic += (EVERYTHING,) * width(i) if i.__class__ is Tensor else (i,)
    return tuple(basic), tuple(key), tensors


INTS, TENSOR = frozenset({int, type(None)}), frozenset({Tensor})


def width(t: Tensor | None) -> int:
    """How many dimensions an index tensor stands for."""
    if t is None:
        return 1
    b = t._array
    return b.ndim if b.dtype.kind == "b" or b.dtype.itemsize == 1 else 1


def broadcast(tensors: list) -> bool:
    """Whether the shapes of tensors broadcast."""
    shapes = [t._array.shape for t in tensors]
    if shapes[0] == shapes[-1] and shapes.count(shapes[0]) == len(shapes):
        return True
    try:
        geometry.broadcast_shapes(*shapes)
    except RuntimeError:
        return False
    return True


def all_have_dimensions(indices: Any) -> bool:
    """Whether indices are tensors with dimensions, all."""
    for t in indices:  # noqa: SIM110 - a generator takes twice as long
        if t.__class__ is not Tensor or not t._array.ndim:
            return False
    return True


def unfit_mask(a: Any, key: tuple) -> bool:
    """Whether the last item of a key is a mask of another shape than the dimensions that it stands for."""
    last, d = key[-1], len(key) - 1
    return last.dtype is BOOL and a.shape[d : d + last.ndim] != last.shape


def index_without_basic_part(a: np.ndarray, index: tuple) -> At | None:
    """The `At` of an index without a basic part that `parted` knows; None for all else."""
    found = parted(a, index)
    if found is None or found[0] is not None or unfit_mask(a, found[1]):
        return None
    return At(found[1], found[2])


def unrecorded(t: Tensor) -> bool:
    """Whether what is done with a tensor is not recorded for it."""
    return t._edge is None or not thread.grad or edge_of(t) is None


def warn_uint8() -> None:
    settings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
    )


def out_of_bounds(e: IndexError) -> IndexError:
    """NumPy's error in PyTorch's words."""
    text = str(e).replace("for axis", "for dimension")
    if text.endswith("with size 0") or "empty axes" in text:
        text = "index is out of bounds for dimension with size 0"
    return IndexError(text)


def refuse_nothing(shape: tuple, key: tuple) -> None:
    """IndexError where a dimension of size 0 is indexed, unless by no index at all."""
    d, sizes, empty = 0, [], False
    for k in key:
        if k.__class__ is slice or k.dtype.kind == "b":
            d += 1 if k.__class__ is slice else k.ndim
            continue
        sizes.append(shape[d])
        empty = empty or 0 in k.shape
        d += 1
    if 0 in sizes and not empty:
        raise IndexError("index is out of bounds for dimension with size 0")


def shape_at(a: ndarray, key: tuple) -> tuple | None:
    """The shape of `a[key]`, whatever the numbers in the index arrays; None without any place."""
    try:
        return a[
            tuple(k if k.__class__ is slice or k.dtype.kind == "b" else k * 0 for k in key)
        ].shape
    except IndexError:
        return None


# -- reading ---------------------------------------------------------------------------------------


@op(where="aten", name="index", node="IndexBackward0", method=False)
def index_at(xp, input: Array, at: Any):
    """`input[indices]`."""
    if 0 in input.shape:
        refuse_nothing(input.shape, at.key)
    try:
        return xp.index_take(input, at.key)
    except IndexError as e:
        if 0 in input.shape:  # where nothing is read, PyTorch does not look at the indices
            shape = shape_at(input, at.key)
            if shape is not None and 0 in shape:
                return xp.zeros(shape, input.dtype)
        raise out_of_bounds(e) from None


index_at.grad(input=lambda g, input_shape, at: index_gradient(g, input_shape, at))


@op(where="aten", name="index_gradient", node="IndexBackwardBackward0", method=False)
def index_gradient(xp, grad: Array, shape: Sizes, at: Any):
    """Zeros of `shape` with `grad` added at the indices."""
    key = at.check()
    if len(key) == 1 and key[0].dtype.kind == "b" and key[0].shape == shape and shape:
        return xp.masked_expand(grad, key[0])
    z = xp.zeros(shape, grad.dtype)
    if 0 not in grad.shape:
        xp.index_add_at(z, key, grad)
    return z


index_gradient.grad(grad=lambda g, at: index_at(g, at))


# -- writing ---------------------------------------------------------------------------------------


@op(where="aten", name="index_put", node="IndexPutBackward0", method=False, writes="K")
def index_put_at(xp, input: Array, values: Array, at: Any, accumulate: bool):
    """A copy of `input` with `values` written (or added) at the indices."""
    put(input, at, values, accumulate)


def put_input_back(g: Tensor, at: At, accumulate: bool) -> Tensor:
    if accumulate:
        return g
    at.check()
    return index_put_at(g, g.new_zeros(()), at, False)


def put_values_back(g: Tensor, at: At, values_shape: tuple) -> Tensor:
    at.check()
    return index_at(g, at).sum_to_size(values_shape)


INDEX_PUT: Op = index_put_at.grad(input=put_input_back, values=put_values_back).op


def put(a: np.ndarray, at: At, values: np.ndarray, accumulate: bool) -> None:
    """Write or add into `a`; RuntimeError when `values` does not broadcast.

    One number at a mask is converted to the dtype of `a`; other values have it.
    """
    xp = devices.of(a)
    if 0 in a.shape:
        refuse_nothing(a.shape, at.key)
    if values.size == 1 and not accumulate and fills_at(at):
        values = arguments.one_number(values, a)
    check_dtype(a, at, values)
    try:
        if (
            a.__class__ is ndarray
            and values.__class__ is ndarray
            and xp.at_index(a, at.key, values, accumulate)
        ):
            return
        if values.ndim > 1 and values.shape[0] == 1:  # NumPy leaves out leading sizes of 1
            check_values(values, shape_at(a, at.key) or values.shape)
        if accumulate:
            a[at.key]  # bounds are checked before anything is written
            xp.index_add_at(a, at.key, values)
        elif (
            values.ndim == 0
            and len(at.key) == 1
            and at.key[0].dtype.kind == "b"
            and (at.key[0].shape == a.shape)
        ):
            xp.fill_masked(a, at.key[0], values)
        else:
            xp.index_put(a, at.key, values)
    except IndexError as e:
        shape = shape_at(a, at.key)
        if shape is not None:
            check_values(values, shape)
            if 0 in shape:  # where nothing is written, PyTorch does not look at the indices
                return
        raise out_of_bounds(e) from None
    except (ValueError, TypeError):
        check_values(values, shape_at(a, at.key) or ())
        raise


def fills_at(at: At) -> bool:
    """Whether one number for all places is one of a `masked_fill_`: a mask stands among full slices."""
    key = [k for k in at.key if k.__class__ is not slice]
    return len(key) == 1 and key[0].dtype.kind == "b"


def refuse_bytes(at: At, values: Any) -> None:
    """RuntimeError where one number is to be written at a mask of uint8."""
    if values.size == 1 and fills_at(at) and at.seen[0][0]._array.dtype.kind == "u":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
        )


def refuse_own_indices(at: At, a: Any, values: Any, accumulate: bool) -> None:
    """RuntimeError where what is written to is among its own indices, unless one number is written at a mask."""
    for i in at.key:
        if i.__class__ is ndarray and i.dtype is a.dtype:  # only these can be of one memory
            if accumulate or values.size != 1 or not fills_at(at):
                results.refuse_overlap("index_put_", i, a)


def check_dtype(a: Any, at: At, values: Any) -> None:
    """RuntimeError unless `values` have the dtype of `a`."""
    if values.dtype is not a.dtype and values.dtype != a.dtype:
        check_values(values, shape_at(a, at.key) or ())
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{dtypes.OF[a.dtype].scalar_name} for the destination and "
            f"{dtypes.OF[values.dtype].scalar_name} for the source."
        )


def check_values(values: ndarray, shape: tuple) -> None:
    """RuntimeError unless `values` can be broadcast to what an index selects."""
    try:
        fits = geometry.broadcast_shapes(values.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        )


def fill_at_mask(a: Any, mask: Any, v: Any) -> bool:
    """`a[mask] = v` for a mask of the first dimensions and one number of the dtype; False, and nothing is written, for others."""
    if v.ndim or v.dtype is not a.dtype or mask.__class__ is not ndarray or mask.dtype is not BOOL:
        return False
    if not mask.ndim or a.shape[: mask.ndim] != mask.shape:
        return False
    if mask.shape == a.shape:
        xp.fill_masked(a, mask, v)
    else:
        xp.index_put(a, (mask,), v)
    return True


def write_at(a: np.ndarray, key: tuple, v: np.ndarray, accumulate: bool) -> bool:
    """`a[key] = v`, or += v, by one kernel; False, and nothing is written, for what is left to others."""
    if not (v.ndim or accumulate) and len(key) == 1 and a.dtype is not BOOL and 0 not in a.strides:
        if fill_at_mask(a, key[0], v):
            return True
    return bool(xp.at_index(a, key, v, accumulate))


def wrote_plainly(t: Tensor, at: At, values: Tensor, accumulate: bool) -> bool:
    """`t.index_put_(...)` of plain tensors in no mode by one kernel, and recorded; False, and nothing is done, for what is left
    to the general way."""
    a, v = t._array, values._array
    if active.modes or t.__class__ is not Tensor or values.__class__ is not Tensor:
        return False
    if a.__class__ is not ndarray or v.__class__ is not ndarray or t._counter is INFERENCE:
        return False
    edge = edge_of(t)
    recording = thread.grad and (edge is not None or edge_of(values) is not None)
    if recording or hides_history(t):
        check_writable(t, "index_put_")
    if not write_at(a, at.key, v, accumulate):
        return False
    results.bump(t)
    if recording:
        named = {"input": unwritten(t, edge), "values": values, "at": at, "accumulate": accumulate}
        rebase(t, make_node(INDEX_PUT, named, [t]))
    return True


def index_put_(t: Tensor, at: At, values: Tensor, accumulate: bool = False) -> Tensor:
    named = {"input": t, "values": values, "at": at, "accumulate": accumulate}
    if not accumulate:
        refuse_bytes(at, values._array)
    if wrote_plainly(t, at, values, accumulate):
        return t
    refuse_own_indices(at, t._array, values._array, accumulate)
    return execute_write(INDEX_PUT, named)


def check_arguments(name: str, indices: Any, values: Any, accumulate: Any) -> None:
    """TypeError for arguments of other types. None among the indices is a full slice, as for `torch.ops.aten.index_put`."""
    for k, (argument, what, fits) in enumerate(
        (
            ("indices", "tuple of Tensors", isinstance(indices, (tuple, list))),
            ("values", "Tensor", isinstance(values, Tensor)),
            ("accumulate", "bool", isinstance(accumulate, bool)),
        )
    ):
        if not fits:
            given = results.kind((indices, values, accumulate)[k])
            raise TypeError(
                f"{name}(): argument '{argument}' (position {k + 1}) must be {what}, not {given}"
            )
    for k, i in enumerate(indices):
        if i is not None and not isinstance(i, Tensor):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got {results.kind(i)}"
            )


def lifted() -> Any:
    """The indexing of function transforms."""
    from rushlight.ops.indexing import lifted

    return lifted


@public(name="index_put", method=True, overridable=True)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` in which `values` stands at `indices` (is added there: `accumulate`).

    >>> import rushlight as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 2]),), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    a, at = input._array, None
    if a.__class__ is ndarray and values.__class__ is Tensor and accumulate.__class__ is bool:
        if indices.__class__ is tuple or indices.__class__ is list:
            at = plain_positions(a, indices)
    if at is None:
        check_arguments("index_put", indices, values, accumulate)
    if opened_levels and lifted().among(input, indices, values):
        return lifted().index_put(input, indices, values, accumulate)
    if at is None:
        at = positions(a, indices)
        if not accumulate:
            refuse_bytes(at, values._array)
    return index_put_at(input, values, at, accumulate)


@public("Tensor", name="index_put_")
def index_put_method(
    self: Tensor, indices: Any, values: Tensor, accumulate: bool = False
) -> Tensor:
    """In-place version of `index_put`."""
    plain = values.__class__ is Tensor and not active.modes and accumulate.__class__ is bool
    if plain and (indices.__class__ is tuple or indices.__class__ is list):
        free = self._edge is None and values._edge is None and self.__class__ is Tensor
        free = free and self._counter is not INFERENCE
        if free and all_have_dimensions(indices):
            a, v = self._array, values._array
            plain = a.__class__ is v.__class__ is ndarray
            key = tuple([t._array for t in indices])
            if plain and write_at(a, key, v, accumulate):
                _bump(self)
                return self
        at = plain_positions(self._array, indices)
        if at is not None and wrote_plainly(self, at, values, accumulate):
            return self
    check_arguments("index_put_", indices, values, accumulate)
    tagged = overrides.Tagged in (self._array.__class__, values._array.__class__)
    if tagged or active.modes:
        got = overrides.call_overrides(
            Tensor.index_put_, (self, indices, values), {"accumulate": accumulate}
        )
        if got is not overrides.NOTHING:
            return got
    if opened_levels and lifted().among(self, indices, values):
        return self.copy_(lifted().index_put(self, indices, values, accumulate))
    return index_put_(self, positions(self._array, indices), values, accumulate)


index_put_method.__name__ = index_put_method.__qualname__ = "index_put_"
