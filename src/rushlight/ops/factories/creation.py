"""New tensors of a given shape: `zeros`, `full`, `empty_strided`, `ones_like`, `Tensor.new_zeros`...

Every function takes `dtype=` (default: `get_default_dtype()`, for the `_like` and `new_` functions
that of the tensor), `device=`, `requires_grad=`, `layout=` (sparse only for zeros and empty) and `pin_memory=` (needs an
accelerator); the functions of the top namespace also `out=`.
"""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import complex32, compressed, devices, meta, sparse
from rushlight._backends import cpu as xp
from rushlight.autograd.state import thread
from rushlight.core import dtypes, errors, geometry, modes
from rushlight.core.dtype_sets import BOOL, C32, C64, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import results
from rushlight.dispatch.inplace import check_inplace
from rushlight.dispatch.registry import public
from rushlight.dispatch.transforms import Lifted
from rushlight.ops.factories.arguments import (
    check_options,
    converted,
    element_type,
    factory,
    factory_like,
    number,
    only_sequence,
    scalar,
    shaped,
    shaped_as,
    sizes,
    valued,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = tuple[int, ...]


def finished(array: np.ndarray, requires_grad: bool = False) -> Tensor:
    """A new tensor around `array`."""
    t = _wrap(complex32.fresh(array) if array.dtype is C32 else array)
    if requires_grad:
        d = t.dtype
        if not (d.is_floating_point or d.is_complex):
            raise RuntimeError(
                f"Only Tensors of floating point and complex dtype can require gradients, got {d}"
            )
        t._set_requires_grad(True)
    return t


# -- arrays ----------------------------------------------------------------------------------------


def empty_array(
    shape: Shape, dtype: np.dtype, strides: Shape | None = None, space: Any = xp
) -> Any:
    """Uninitialised memory of the back end `space`; `strides` in elements."""
    try:
        if strides is None:
            made = space.empty(shape, dtype)
        else:
            made = space.empty_strided(shape, dtype, strides)
        return complex32.fresh(made) if dtype is C32 else made
    except (ValueError, MemoryError) as e:
        raise too_large(shape, dtype, e) from None


def too_large(shape: Shape, dtype: np.dtype, e: Exception) -> RuntimeError:
    if isinstance(e, MemoryError):
        return errors.no_memory(e, geometry.numel(shape) * dtype.itemsize)
    what = "Stride" if 0 in shape else "Storage size"
    return RuntimeError(f"{what} calculation overflowed with sizes={list(shape)}")


def check_size(shape: Shape, itemsize: int) -> None:
    """RuntimeError for a shape whose bytes no machine can count."""
    if math.prod([n for n in shape if n]) * itemsize >= 1 << 63:
        raise too_large(shape, np.dtype(np.uint8), OverflowError())


def preserved(a: Any, memory_format: Any = None) -> Shape | None:
    """The strides (in elements) of a new tensor like `a`; None where they are the contiguous ones."""
    if memory_format is None or memory_format is dtypes.preserve_format:
        if a.flags.c_contiguous and 1 not in a.shape and a.size:
            return None
        size = a.itemsize
        strides = geometry.known_strides(a.shape, tuple([s // size for s in a.strides]))
        return geometry.preserve_strides(a.shape, strides)
    if memory_format is dtypes.contiguous_format:
        return None
    if not isinstance(memory_format, dtypes.memory_format):
        raise TypeError(
            f"argument 'memory_format' must be torch.memory_format, not {type(memory_format).__name__}"
        )
    return geometry.format_strides(a.shape, memory_format)


LARGE = 16384  # elements from which a copy by the back end's kernel pays


def fill(a: Any, value: Any) -> None:
    """`a[...] = value`, a number of its dtype."""
    xp.fill(a, value)


def copied(xp: Any, a: Any, memory_format: Any = None, dtype: np.dtype | None = None) -> Any:
    """A copy of `a`, in another memory format, another dtype."""
    if dtype is not None and dtype is not a.dtype:
        source = a
        a = xp.cast(a, dtype)
        if a.__class__ is np.ndarray and memory_format in (None, dtypes.preserve_format):
            return a
        strides = preserved(source, memory_format)
        if strides is None and a.flags.c_contiguous:
            return a
    else:
        made = None
        if memory_format in (None, dtypes.preserve_format) and a.__class__ is np.ndarray:
            if a.size < LARGE:
                made = a.copy("K")
            elif a.flags.c_contiguous:
                made = xp.row_major(a)
            elif (made := xp.empty_with_strides_of(a)) is not None:
                xp.copy_into(made, a)
            if made is not None and made.strides == a.strides:  # they may differ where a size is 1
                return made
        strides = preserved(a, memory_format)
        if made is not None and strides is not None:
            if made.strides == tuple([s * a.itemsize for s in strides]):
                return made
        elif strides is None:
            return a.copy() if a.size < LARGE else xp.row_major(a)
    made = empty_array(a.shape, a.dtype, strides, xp)
    xp.copy_into(made, a)
    return made


# -- shape given -----------------------------------------------------------------------------------


def make_filled(
    name: str, fill: str | Callable, shape: Shape, out: Any, dtype: Any, layout: Any, device: Any,
    pin_memory: bool, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """What all of these functions do.

    `fill`: the name of a kernel of (shape, dtype), or a function of (shape, dtype) that returns a NumPy array.
    """
    if out is not None:
        if layout is not None and layout is not out.layout:
            raise RuntimeError(
                f"layout {layout} does not match layout of out parameter ({out.layout})"
            )
        t = filled_out(name, fill, shape, out, dtype)
        return t._set_requires_grad(True) if requires_grad else t
    d = element_type(name, dtype)
    if layout in SPARSE and name in ("zeros", "empty"):
        return sparse_zeros(name, shape, d, layout, device, requires_grad)
    if layout is not None or pin_memory:
        check_options(name, layout, pin_memory)
    space = xp
    if device is not None or modes.thread.device is not None:
        space = devices.for_device(device)
    array = filled(space, fill, shape, d)
    return finished(array, requires_grad) if requires_grad or d is C32 else _wrap(array)


def filled(space: Any, fill: str | Callable, shape: Shape, d: np.dtype) -> Any:
    """A new array of the back end `space`; `fill` as for `make_filled`. Nothing is computed on the meta device."""
    try:
        if fill.__class__ is str:
            return getattr(space, fill)(shape, d)
        return space.empty(shape, d) if space is meta else space.from_numpy(fill(shape, d))
    except (ValueError, MemoryError) as e:
        if isinstance(e, ValueError) and not any(
            w in str(e) for w in ("too big", "Maximum allowed")
        ):
            raise  # what `fill` says of its arguments
        raise too_large(shape, d, e) from None


def sparse_zeros(
    name: str, shape: Shape, d: np.dtype, layout: Any, device: Any, requires_grad: bool
) -> Tensor:
    """A sparse tensor that stores no element: that is what `empty` makes, too."""
    if (space := devices.for_device(device)) is not xp:
        sparse.refuse(name, "SparseMeta" if space is meta else "SparsePrivateUse1")
    made: Any = compressed.zeros(name, shape, d, layout)
    return finished(made, requires_grad)


def filled_out(
    name: str, fill: str | Callable, shape: Shape, out: Tensor, dtype: Any = None
) -> Tensor:
    """The values into `out`, resized when its shape differs."""
    target = check_out(name, out, dtype)
    if isinstance(out._array, sparse.Sparse):
        out._array = compressed.zeros(name, shape, target, out._array.layout)
        results.bump(out)
        return out
    results.give_shape(out, shape)
    if fill != "empty" and not out.is_meta:
        results.copy(out._array, filled(devices.of(out._array), fill, shape, target))
    results.bump(out)
    return out


def check_out(name: str, out: Any, dtype: Any = None) -> np.dtype:
    """The dtype of `out`; raises where it differs from `dtype=`, or where out wants a gradient."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if dtype is not None and element_type(name, dtype) is not out._array.dtype:
        raise RuntimeError(
            f"dtype {dtypes.OF[element_type(name, dtype)].scalar_name} does not match dtype of out "
            f"parameter ({out.dtype.scalar_name})"
        )
    if thread.grad and out.requires_grad:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad."
        )
    if not isinstance(out._array, sparse.Sparse) or name not in ("zeros", "empty"):
        check_inplace(out, name, False)
    return out._array.dtype


@shaped(xp.zeros)
def zeros(*args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):  # fmt: skip
    """Zeros of a shape: `zeros(2, 3)` or `zeros((2, 3))`.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    shape = sizes("zeros", args, size)
    return make_filled(
        "zeros", "zeros", shape, out, dtype, layout, device, pin_memory, requires_grad
    )


@shaped(xp.ones)
def ones(*args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
         requires_grad=False):  # fmt: skip
    """Ones of a shape: `ones(2, 3)` or `ones((2, 3))`."""
    shape = sizes("ones", args, size)
    return make_filled("ones", "ones", shape, out, dtype, layout, device, pin_memory, requires_grad)


@shaped(xp.empty)
def empty(*args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False, memory_format=None):  # fmt: skip
    """Memory of a shape, with whatever it held before."""
    shape = sizes("empty", args, size)
    if memory_format is not None and memory_format is not dtypes.contiguous_format:
        if memory_format is dtypes.preserve_format:
            raise RuntimeError("[empty] unsupported memory format Preserve")
        strides = geometry.format_strides(shape, memory_format)
        if out is None:
            check_options("empty", layout, pin_memory)
            d = element_type("empty", dtype)
            array = empty_array(shape, d, strides, devices.for_device(device))
            return finished(array, requires_grad)
    return make_filled(
        "empty", "empty", shape, out, dtype, layout, device, pin_memory, requires_grad
    )


def _full(args: tuple, d: np.dtype | None) -> Any:
    """`full` of a shape and a real number of Python's."""
    size, value = args
    kind = value.__class__
    if size.__class__ is not tuple or not (kind is float or kind is int or kind is bool):
        return None
    for n in size:
        if n.__class__ is not int:
            return None
    d = d or (I64 if kind is int else BOOL if kind is bool else modes._default_dtype.np)
    return None if d is C32 else xp.full(size, scalar(value, d), d)


@valued(_full)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
         requires_grad=False):  # fmt: skip
    """`fill_value` everywhere, of the shape `size`; its type decides the dtype where none is given."""
    if layout in SPARSE:
        raise RuntimeError("full(...) is not implemented for sparse layout")
    shape = only_sequence("full", size)
    value = number("full", fill_value, 2)
    if out is not None:
        d = check_out("full", out, dtype)
    else:
        own = modes.scalar_dtype(value).np
        d = element_type("full", dtype, C64 if own is C32 else own)
        dtype = dtypes.OF[d]
    scalar = converted(value, d)

    def fill(shape: Shape, d: np.dtype) -> np.ndarray:
        return xp.full(shape, scalar, d)

    return make_filled("full", fill, shape, out, dtype, layout, device, pin_memory, requires_grad)


@factory
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False,
                  pin_memory=False):  # fmt: skip
    """Memory of a shape with the given strides, which may overlap or leave gaps."""
    shape = only_sequence("empty_strided", size)
    steps = tuple(index(s) for s in stride)
    check_options("empty_strided", layout, pin_memory)
    d = element_type("empty_strided", dtype)
    return finished(_strided(shape, steps, d, devices.for_device(device)), requires_grad)


def _strided(shape: Shape, steps: Shape, d: np.dtype, space: Any) -> Any:
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    if any(s < 0 for s in steps):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}: "
            "strides must not be negative"
        )
    return empty_array(shape, d, steps, space)


@factory
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None,
                   requires_grad=False, pin_memory=False):  # fmt: skip
    """Dense memory of a shape whose dimensions lie in the order `physical_layout`, outermost first.

    >>> import rushlight as torch
    >>> torch.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    shape = only_sequence("empty_permuted", size)
    if len(shape) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    order = []
    for p in physical_layout:
        if not 0 <= p < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {p})"
            )
        if p in order:
            raise RuntimeError(f"Duplicate dim not allowed, got physical_layout {physical_layout}")
        order.append(p)
    check_options("empty_permuted", layout, pin_memory)
    steps, step = [0] * len(shape), 1
    for p in reversed(order):
        steps[p] = step
        step *= max(shape[p], 1)
    d = element_type("empty_permuted", dtype)
    return finished(_strided(shape, tuple(steps), d, devices.for_device(device)), requires_grad)


# -- shape of a tensor -----------------------------------------------------------------------------

ZEROS_LIKE = ("zeros_like", "empty_like")
SPARSE = (dtypes.sparse_coo, *compressed.LAYOUTS)


def like(
    name: str, fill: Callable | None, input: Any, dtype: Any, layout: Any, device: Any,
    pin_memory: bool, requires_grad: bool, memory_format: Any,
) -> Tensor:  # fmt: skip
    """A tensor with the shape and the memory order of `input`; `fill(array)` gives it values."""
    try:
        a = input._array
    except AttributeError:
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        ) from None
    d = a.dtype if dtype is None else element_type(name, dtype)
    if isinstance(a, sparse.Sparse):
        layout = a.layout if layout is None else layout
        if memory_format is not None and layout is not dtypes.strided:
            raise RuntimeError("memory format option is only supported by strided tensors")
        if a.__class__ is sparse.Coo and layout is dtypes.sparse_coo and name in ZEROS_LIKE:
            empty: Any = sparse.Coo(a.indices[:, :0].copy(), a.values[:0].astype(d), a.shape, True)
            return finished(empty, requires_grad)
        if a.__class__ is compressed.Compressed and not (
            name == "zeros_like" and layout in SPARSE and layout is not a.layout and not a.block
        ):
            if layout is not a.layout:
                raise RuntimeError(
                    "empty_like with different sparse layout is not supported (self is "
                    f"{compressed.NAMES[a.layout]} but you requested {compressed.NAMES[layout]})"
                )
            a = a.without_entries() if name == "zeros_like" else a.own_pattern()
            values = like(name, fill, _wrap(a.values), dtype, None, device, pin_memory, False, None)
            return finished(a.with_values(values._array), requires_grad)
        a = xp.empty(a.shape, a.dtype)
    if layout in SPARSE and name in ZEROS_LIKE:
        return sparse_zeros(name, a.shape, d, layout, device, requires_grad)
    if layout is not None or pin_memory:
        check_options(name, layout, pin_memory)
    strides = preserved(a, memory_format)
    array = empty_array(a.shape, d, strides, devices.like(a, device))
    if fill is not None and array.__class__ is not meta.Meta:
        fill(array)
    if isinstance(a, Lifted):
        array = a.at_level(array)
    return finished(array, requires_grad) if requires_grad or d is C32 else _wrap(array)


def declare_like(name: str, what: str, fill: Callable | None) -> Callable:
    """Declare `name_like`, of which `fill(array)` gives the values."""

    def function(input, *, dtype=None, layout=None, device=None, pin_memory=False,
                 requires_grad=False, memory_format=None):  # fmt: skip
        options = (dtype, layout, device, pin_memory, requires_grad, memory_format)
        return like(f"{name}_like", fill, input, *options)

    function.__name__ = f"{name}_like"
    function.__doc__ = f"{what} of the shape, dtype and (by default) memory order of `input`."
    return factory_like(getattr(xp, name), fill or (lambda a: None))(function)


zeros_like = declare_like("zeros", "Zeros", lambda a: fill(a, scalar(0, a.dtype)))
declare_like("ones", "Ones", lambda a: fill(a, scalar(1, a.dtype)))
empty_like = declare_like("empty", "Memory", None)


@factory_like(xp.full, fill, numbers=1)
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False, memory_format=None):  # fmt: skip
    """`fill_value` in the shape, dtype and (by default) memory order of `input`."""
    value = number("full_like", fill_value, 2)
    if isinstance(input, Tensor):
        scalar = converted(value, element_type("full_like", dtype, input._array.dtype))
    return like(
        "full_like", lambda a: fill(a, scalar), input, dtype, layout, device, pin_memory,
        requires_grad, memory_format,
    )  # fmt: skip


# -- dtype and device of a tensor ------------------------------------------------------------------


def new_one(
    name: str, self: Tensor, fill: str | Callable, shape: Shape, dtype: Any, layout: Any, device: Any,
    pin_memory: bool, requires_grad: bool,
) -> Tensor:  # fmt: skip
    a = self._array
    d = a.dtype if dtype is None else element_type(name, dtype)
    layout = a.layout if layout is None and isinstance(a, sparse.Sparse) else layout
    if layout in SPARSE and name in ("new_zeros", "new_empty"):
        return sparse_zeros(name, shape, d, layout, device, requires_grad)
    if layout is not None or pin_memory:
        check_options(name, layout, pin_memory)
    array = filled(devices.like(a, device), fill, shape, d)
    if isinstance(a, Lifted):
        array = a.at_level(array)
    return finished(array, requires_grad) if requires_grad or d is C32 else _wrap(array)


def declare_new(name: str, what: str) -> None:
    """Declare `Tensor.new_<name>`, filled by the kernel `name`."""
    doc = f"{what} of a shape, with the dtype and device of this tensor."

    def function(self, *args, size=None, dtype=None, layout=None, device=None, pin_memory=False,
                 requires_grad=False):  # fmt: skip
        shape = sizes(f"new_{name}", args, size)
        options = (dtype, layout, device, pin_memory, requires_grad)
        return new_one(f"new_{name}", self, name, shape, *options)

    function.__name__, function.__doc__ = f"new_{name}", doc
    public("Tensor")(shaped_as(getattr(xp, name))(function))


declare_new("zeros", "Zeros")
declare_new("ones", "Ones")
declare_new("empty", "Memory")


@public("Tensor")
@shaped_as(xp.full, numbers=1)
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False):  # fmt: skip
    """`fill_value` in a shape, with the dtype and device of this tensor."""
    shape = only_sequence("new_full", size)
    d = element_type("new_full", dtype, self._array.dtype)
    scalar = converted(number("new_full", fill_value, 2), d)

    def fill(shape: Shape, d: np.dtype) -> np.ndarray:
        return xp.full(shape, scalar, d)

    return new_one("new_full", self, fill, shape, dtype, layout, device, pin_memory, requires_grad)


@public("Tensor", overridable=True, primitive=True)
def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, pin_memory=False,
                      requires_grad=False):  # fmt: skip
    """As `empty_strided`, with the dtype and device of this tensor."""
    shape = only_sequence("new_empty_strided", size)
    check_options("new_empty_strided", layout, pin_memory)
    d = element_type("new_empty_strided", dtype, self._array.dtype)
    space = devices.like(self._array, device)
    array = _strided(shape, tuple(index(s) for s in stride), d, space)
    if isinstance(self._array, Lifted):
        array = self._array.at_level(array)
    return finished(array, requires_grad)


def zero(g: Tensor) -> Tensor:
    """The gradient of what is constant between its jumps."""
    return zeros_like(g)
