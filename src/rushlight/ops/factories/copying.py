"""Copies and conversions: `clone`, `contiguous`, `to`, `copy_`, `fill_`.

A copy keeps the order of its source's memory (PyTorch's preserve_format) unless told otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from rushlight._backends import devices, math_bits, meta, sparse
from rushlight._backends.compressed import Compressed
from rushlight.autograd.graph import INFERENCE, version_of
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import View, edge_of, rebase
from rushlight.core import dtypes, geometry, settings
from rushlight.core.device import device as Device
from rushlight.core.dtype_sets import COMPLEX, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import general, handlers, overrides, results
from rushlight.dispatch.inplace import check_inplace, copied_plainly, edge_before, unwritten, write
from rushlight.dispatch.record import make_node, unbroadcast
from rushlight.dispatch.registry import Array, op, public
from rushlight.dispatch.transforms import Lifted, at_one_level, follow, opened
from rushlight.ops.factories import arguments, creation

if TYPE_CHECKING:
    from collections.abc import Callable

    DType = dtypes.dtype | None
    MemoryFormat = dtypes.memory_format | None

CONTIGUOUS = dtypes.contiguous_format
QUICK = frozenset({float, int, bool})  # classes of numbers that are looked at in one step


# -- out of place ----------------------------------------------------------------------------------


@op(out=False)
def clone(xp, input: Array, *, memory_format: MemoryFormat = None):
    """A copy of the tensor that gradients go through.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> x.clone().sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    return creation.copied(xp, input, memory_format)


clone.grad(input=lambda g: g)


@op(name="_to_copy", node="ToCopyBackward0", method=False, out=False)
def to_copy(xp, input: Array, dtype: DType = None, memory_format: MemoryFormat = None):
    """A copy in another dtype or memory format."""
    return creation.copied(xp, input, memory_format, None if dtype is None else dtype.np)


def cast_back(g: Tensor, input_dtype: dtypes.dtype) -> Tensor:
    """A gradient in the dtype of the input: the real part, where that is real."""
    if g.is_complex() and not input_dtype.is_complex:
        g = g.real
    return g.to(input_dtype)


to_copy.grad(input=cast_back)


# A node that is named by a function keeps the call on the general way: the result is no array of the input's class.
@op(name="_to_device", node=lambda **_: "ToCopyBackward0", method=False, out=False)
def to_device(xp, input: Array, device: Any, source: Device):
    """A copy on another device, with the same order of dimensions in memory. `source`: the device of `input`."""
    target = devices.for_device(device)
    if target is meta:
        return creation.empty_array(input.shape, input.dtype, creation.preserved(input), meta)
    return target.from_numpy(xp.to_numpy(input))


to_device.grad(input=lambda g, source: g.to(source))


@public(overridable=True)
def detach(input):
    """A tensor on the same memory without history; see `Tensor.detach`."""
    return input.detach()


@public(overridable=True)
def detach_(input):
    """Cut a tensor off its history; see `Tensor.detach_`."""
    return input.detach_()


@public("Tensor")
def contiguous(self, *, memory_format=dtypes.contiguous_format):
    """The tensor itself if it lies in memory in that order, else a copy that does."""
    a = self._array
    if memory_format is CONTIGUOUS and a.__class__ is ndarray and not active.modes:
        return self if self._row_major else clone(self, memory_format=memory_format)
    if a.__class__ is not ndarray or active.modes:
        given = {} if memory_format is CONTIGUOUS else {"memory_format": memory_format}
        got = overrides.call_overrides(contiguous, (self,), given)
        if got is not overrides.NOTHING:
            return got
    if memory_format is CONTIGUOUS:
        return self if a.flags.c_contiguous else clone(self, memory_format=memory_format)
    if memory_format is dtypes.preserve_format:
        if a.flags.c_contiguous:
            return self
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if self.is_contiguous(memory_format=memory_format):
        return self
    return clone(self, memory_format=memory_format)


def convert(
    t: Tensor, dtype: Any = None, device: Any = None, copy: bool = False, memory_format: Any = None
) -> Tensor:
    """What `to` and its relatives do: `t` itself when nothing changes and no copy is asked for."""
    a = t._array
    if device is memory_format is None and dtype.__class__ is dtypes.dtype and t._edge is None:
        d = dtype.np  # the commonest calls: what `to_copy` comes to
        if a.__class__ is ndarray and a.dtype is not d and not active.modes:
            if a.dtype.kind != "c":
                try:
                    return _wrap(general.xp.cast(a, d))
                except (
                    RuntimeWarning
                ):  # warnings are errors: operators call again with NumPy silent
                    pass
    if dtype is not None and dtype.__class__ is not dtypes.dtype:
        dtype = dtypes.OF[arguments.element_type("to", dtype)]
    if memory_format is dtypes.preserve_format:
        memory_format = None
    if device.__class__ is str and device == "cpu" and a.__class__ is np.ndarray:
        device = None
    if device is not None and handlers.asked((t,)):
        if (device := Device(device)) != t.device:
            t, copy = to_device(t, device, t.device), False
        a = t._array
    elif device is not None and devices.for_device(device) is not devices.of(a):
        if a.__class__ is meta.Meta:
            raise NotImplementedError(
                "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead "
                "of torch.nn.Module.to() when moving module from meta to a different device."
            )
        t = to_device(t, device, t.device)
        a, copy = t._array, False
    if dtype is None or dtype.np is a.dtype:
        if not copy and (
            memory_format is None
            or geometry.suggest_memory_format(a.shape, t.stride()) is memory_format
        ):
            return t
        dtype = None
    elif dtype.kind < 2:  # no gradient goes through integers
        if t._edge is not None:
            t = t.detach()
    if dtype is not None and dtype.kind not in (0, 3) and a.dtype in COMPLEX:
        settings.warn_once("Casting complex values to real discards the imaginary part")
    return to_copy(t, dtype, memory_format)


@public("Tensor")
def to(self, *args, **kwargs):
    """The tensor as another dtype, on another device: `to(dtype)`, `to(device, dtype)`, `to(other)`.

    The tensor itself when nothing would change and `copy` is False; gradients go through.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).to(torch.float16)
    tensor([1., 2.], dtype=torch.float16)
    """
    a = self._array
    if len(args) == 1 and not kwargs and a.__class__ is np.ndarray and not active.modes:
        first = args[0]  # the commonest calls
        if first.__class__ is dtypes.dtype:
            return self if first.np is a.dtype else convert(self, first)
        if first.__class__ is str and first == "cpu":
            return self
        if first.__class__ is Device and first.type == "cpu":
            return self
    elif a.__class__ is np.ndarray and not active.modes and by_place(args, kwargs):
        return convert(self, args[1], None, len(args) == 4 and args[3], kwargs.get("memory_format"))
    elif not (
        a.__class__ is np.ndarray
        and not active.modes
        and overrides.all_plain(args)
        and overrides.all_plain(kwargs.values())
    ):
        got = overrides.call_overrides(to, (self, *args), kwargs)
        if got is not overrides.NOTHING:
            return got
    return converted(self, *args, **kwargs)


def by_place(args: tuple, kwargs: dict) -> bool:
    """Whether arguments of `to` are the CPU and a dtype, then perhaps `non_blocking` and `copy`; by name a memory
    format at most."""
    if len(args) < 2 or len(args) > 4 or args[1].__class__ is not dtypes.dtype:
        return False
    device = args[0]
    if not (
        device == "cpu"
        if device.__class__ is str
        else device.__class__ is Device and device.type == "cpu"
    ):
        return False
    if len(args) > 2 and not (args[2].__class__ is args[-1].__class__ is bool):
        return False
    return (
        not kwargs
        or len(kwargs) == 1
        and kwargs.get("memory_format").__class__ is dtypes.memory_format
    )


def converted(self, *args, device=None, dtype=None, tensor=None, non_blocking=None, copy=None,
              memory_format=None):  # fmt: skip
    """`to`, of all its arguments."""
    if not args and dtype.__class__ is dtypes.dtype:
        if device is tensor is non_blocking is copy is None:  # the commonest names
            return convert(self, dtype, None, False, memory_format)
    named = {
        "device": device, "dtype": dtype, "tensor": tensor, "non_blocking": non_blocking, "copy": copy,
        "memory_format": memory_format,
    }  # fmt: skip
    named = {k: v for k, v in named.items() if v is not None}
    given = arguments.of_conversion(args, named)
    device, dtype = given.get("device"), given.get("dtype")
    if "tensor" in given:
        dtype, device = given["tensor"].dtype, given["tensor"].device
    return convert(self, dtype, device, given.get("copy", False), memory_format)


converted.__qualname__ = "to"
to.__wrapped__ = converted  # whose signature is to's


def _declare_conversions() -> None:
    """Declare the methods that are named for a dtype: `x.float()`, `x.long()`..."""
    names = {
        "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16,
        "bfloat16": dtypes.bfloat16, "int": dtypes.int32, "long": dtypes.int64,
        "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8, "bool": dtypes.bool_,
        "chalf": dtypes.complex32, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
    }  # fmt: skip

    def declare(name: str, dtype: dtypes.dtype) -> None:
        d = dtype.np

        @public("Tensor", name=name, doc=f"`self.to(torch.{dtype.name})`.")
        def conversion(self, memory_format=None):
            a = self._array
            if a.__class__ is not np.ndarray or active.modes:
                got = overrides.call_overrides(conversion, (self,), {})
                if got is not overrides.NOTHING:
                    return got
            elif memory_format is None and a.dtype is d:
                return self
            return convert(self, dtype, None, False, memory_format)

    for name, dtype in names.items():
        declare(name, dtype)

    def declare_device(name: str) -> None:
        def conversion(self, device=None, non_blocking=False, memory_format=None):
            if name == "cpu" and device is memory_format is None:
                if self._array.__class__ is np.ndarray:
                    return self
            if device is not None and device.__class__ is not int and Device(device).type != name:
                raise RuntimeError(
                    f"Invalid device, must be {'MTIA' if name == 'mtia' else name} device"
                )
            return convert(self, None, name if device is None else device, False, memory_format)

        doc = f"`self.to('{name}')`; AssertionError where there is no such device."
        public("Tensor", name=name, doc=doc, overridable=True)(conversion)

    for name in ("cpu", "cuda", "xpu", "hpu", "ipu", "mtia"):
        declare_device(name)


_declare_conversions()


@public("Tensor", overridable=True)
def type_as(self, other):
    """`self.to(other.dtype)`."""
    if not isinstance(other, Tensor):
        raise TypeError(
            f"type_as(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}"
        )
    return convert(self, other.dtype, other.device)


@public(
    "Tensor", name="type", overridable=True,
    doc="The name of the tensor's type, such as `torch.FloatTensor`; with `dtype`, a conversion to it.",
)  # fmt: skip
def type_(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        on = "" if self.is_cpu else f"{self.device.type}."
        on = on if self.layout is dtypes.strided else "sparse."
        return f"torch.{on}{self.dtype.scalar_name}Tensor"
    from rushlight.ops.factories import legacy

    return convert(self, legacy.dtype_named(dtype), None)


# -- in place --------------------------------------------------------------------------------------


def overwriting(name: str, node: str) -> Any:
    """The operator that stands in the graph for a write which does not read: no gradient passes."""

    def forward(xp, input: Array):
        return input

    forward.__name__ = name
    forward.__module__ = __name__
    declared = op(where="Tensor", name=name, node=node, method=False, out=False)(forward)
    return declared.grad(input=lambda g: g.new_zeros(g.shape))


def overwrite(
    t: Tensor, label: str, write: Callable, recorded: Any, given: tuple = (), **statics: Any
) -> Tensor:
    """Let `write(array)` fill the memory of `t`, count the write, record it; `given`: the arguments of `label`."""
    recording = thread.grad and edge_of(t) is not None
    check_inplace(t, label, recording)
    a = t._array
    if isinstance(a, Lifted):
        a.overwrite(lambda t: overwrite(t, label, write, recorded, given, **statics), label, given)
        results.bump(t)
    elif handlers.asked((t, *given)):
        handlers.carried["overwrite"](t, label, given)
    else:
        if a.__class__ is not meta.Meta:
            if isinstance(a, math_bits.Marked):
                math_bits.write(a, write)
            else:
                write(a.view(np.ndarray) if a.__class__ is overrides.Tagged else a)
        results.bump(t)
    if recording:
        before = unwritten(t, edge_before(t))
        if a.__class__ is np.ndarray and not active.modes:
            node = recorded(before, **statics)._edge
        else:
            node = make_node(recorded.op, {"input": before, **statics}, [t])
        rebase(t, node)
    return t


zero_node = overwriting("zero", "ZeroBackward0")
fill_node = overwriting("fill_number_", "FillBackward2")
fill_copy_node = overwriting("fill_number", "FillBackward0")


def _filling(name: str, node: str) -> Any:
    def forward(xp, input: Array, value: Array):
        return xp.expand(value, input.shape)

    forward.__name__, forward.__module__ = name, __name__
    declared = op(where="Tensor", name=name, node=node, method=False, out=False)(forward)
    return declared.grad(input=lambda g: g.new_zeros(g.shape), value=lambda g: g.sum())


fill_tensor = _filling("fill_tensor_", "FillBackward3")
fill_copy_tensor = _filling("fill_tensor", "FillBackward1")


def free(t: Tensor) -> bool:
    """Whether a write to `t` concerns nothing but its memory, without gaps, and its counter."""
    e, a = t._edge, t._array
    if e is not None:
        if e.__class__ is not View or e.node is not None or e.base._edge is not None:
            return False
        if (
            a.__class__ is not np.ndarray or not a.flags.forc
        ):  # an expanded one must not be written to
            return False
    return a.__class__ is np.ndarray and t._counter is not INFERENCE and not active.modes


@lru_cache(64)
def zero(d: np.dtype) -> np.ndarray:
    """The number 0 of a dtype; nobody writes to the array."""
    return arguments.converted(0, d)


@public(method=True)
def zero_(self):
    """Overwrite by zeros."""
    a, counter = self._array, self._counter
    quick = self._edge is None and a.__class__ is np.ndarray and counter is not INFERENCE
    if not (quick and not active.modes or free(self)):
        got = overrides.call_overrides(zero_, (self,), {})
        if got is not overrides.NOTHING:
            return got
        if isinstance(a, sparse.Sparse):
            from rushlight.ops.sparse import calls as sparse_calls

            return sparse_calls.zero_(self)
        return overwrite(self, "zero_", lambda a: a.fill(0), zero_node)
    general.xp.fill(a, zero(a.dtype))
    (counter or version_of(self)).n += 1
    return self


@public(method=True)
def fill_(self, value):
    """Overwrite every element by a number, or by the value of a 0-d tensor."""
    c = value.__class__
    if not (c is float or c is int or c is bool) or not free(self):
        got = overrides.call_overrides(fill_, (self, value), {})
        if got is not overrides.NOTHING:
            return got
        if self._array.__class__ is Compressed:
            from rushlight.ops.sparse import compressed

            return compressed.fill_(self, value)
        return _filled(self, value, "fill_", fill_node, fill_tensor)
    a = self._array
    general.xp.fill(a, arguments.scalar(value, a.dtype))
    version_of(self).n += 1
    return self


def _filled(self: Tensor, value: Any, label: str, number_node: Any, tensor_node: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
            )
        if 0 in self._array.strides:  # unlike a number, which PyTorch lets through
            check_inplace(self, "fill_tensor_", False)
        return _copied_into(self, value, label, tensor_node, "value")
    if not isinstance(value, arguments.NUMBERS):
        raise TypeError(
            f"{label}(): argument 'value' (position 1) must be Number, not {type(value).__name__}"
        )
    scalar = arguments.converted(arguments.number(label, value, 1, "value"), self._array.dtype)
    write = lambda a: devices.of(a).fill(a, scalar)
    return overwrite(self, label, write, number_node, (value,))


@public(overridable=True)
def fill(input, value):
    """A copy of `input` with every element overwritten by `value`."""
    a = input._array
    if value.__class__ in QUICK and input._edge is None and a.__class__ is np.ndarray:
        made = None if active.modes else general.xp.empty_with_strides_of(a)
        if made is not None:
            general.xp.fill(made, arguments.scalar(value, a.dtype))
            return _wrap(made)
        return fill_(creation.empty_like(input), value)
    return _filled(input.clone(), value, "fill", fill_copy_node, fill_copy_tensor)


@op(where="Tensor", name="fill_diagonal", node="FillDiagonalBackward0", method=False, out=False)
def fill_diagonal_node(xp, input: Array, wrap: bool = False):
    """Stands in the graph for `fill_diagonal_`."""
    return input


fill_diagonal_node.grad(input=lambda g, wrap: g.clone().fill_diagonal_(0, wrap))


@public("Tensor", overridable=True)
def fill_diagonal_(self, fill_value, wrap=False):
    """Overwrite the main diagonal by a number; `wrap`: of a tall matrix, again after n + 1 rows."""
    shape, strides = self._array.shape, self._array.strides
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    scalar = arguments.converted(
        arguments.number("fill_diagonal_", fill_value, 1), self._array.dtype
    )

    def write(a: Any) -> None:
        n = min(shape)
        for row in range(0, shape[0] if wrap and len(shape) == 2 else 1, n + 1 if n else 1):
            part = a[row:]
            k = min(part.shape)
            devices.of(a).as_strided(part, (k,), (sum(strides),))[...] = scalar

    return overwrite(
        self, "fill_diagonal_", write, fill_diagonal_node, (fill_value, wrap), wrap=wrap
    )


@op(where="Tensor", name="copy", node="CopyBackwards", method=False, out=False)
def copy_into(xp, input: Array, src: Array):
    """The forward of `copy_`: the values of `src` in the shape of `input`."""
    return src if src.shape == input.shape else xp.expand(src, input.shape)


copy_into.grad(
    input=lambda g: g.new_zeros(g.shape),
    src=lambda g, src_shape, src_dtype: unbroadcast(g, src_shape, src_dtype.np),
)


@public("Tensor")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor's values by those of `src`, which is broadcast and converted."""
    if src.__class__ is Tensor and free(self) and src is not self and not opened:
        a, b = self._array, src._array
        if (
            a.dtype is b.dtype
            and a.ndim >= b.ndim
            and 0 not in a.strides
            and b.__class__ is np.ndarray
        ):
            if src._edge is None or not thread.grad or edge_of(src) is None:
                shared = (a.base is b or b.base is not None) and results.have_common_memory(b, a)
                try:
                    if not shared:
                        general.xp.copy_into(a, b)
                        (self._counter or version_of(self)).n += 1
                        return self
                except ValueError:  # shapes do not broadcast, which is said below
                    pass
    if isinstance(src, arguments.NUMBERS):
        src = _wrap(general.xp.asarray(src, I64 if src.__class__ is int else None))
    if not isinstance(src, Tensor):
        raise TypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {results.kind(src)}"
        )
    plain = self._array.__class__ is np.ndarray is src._array.__class__
    if not plain or active.modes:
        got = overrides.dispatch(Tensor.copy_, copy_into.op, [self, src], None)
        if got is not overrides.NOTHING:
            return got
    if self is src:
        return self
    if src.dtype.kind == 3 and self.dtype.kind not in (0, 3):
        settings.warn_once("Casting complex values to real discards the imaginary part")
    if sparse.made and general.some_sparse((self, src)):
        from rushlight.ops.sparse import calls as sparse_calls

        return sparse_calls.copy_(self, src)
    return _copied_into(self, src, "copy_", copy_into, "src")


def _copied_into(self: Tensor, src: Tensor, label: str, recorded: Any, name: str) -> Tensor:
    """Write `src` into `self` by any way; `label` names who asks, `recorded` is the operator of the graph."""
    if not opened and copied_plainly(recorded, self, src, label):
        return self
    if src._edge is not None and self.dtype.kind < 2:  # no gradient goes through integers
        src = src.detach()
    if opened:
        follow((self, src))
    if isinstance(self._array, Lifted) or isinstance(src._array, Lifted):
        self, src = at_one_level(self, src, label)
    recording = thread.grad and (edge_of(self) is not None or edge_of(src) is not None)
    check_inplace(self, label, recording)
    a, b = self._array, math_bits.resolved(src._array)
    if handlers.asked((self, src)) and not isinstance(a, Lifted):
        handlers.carried["overwrite"](self, label, (src,))
        if recording:
            record_copy(self, src, recorded, name)
        return self
    if b.__class__ is meta.Meta and a.__class__ is not meta.Meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    space = devices.of(a)
    if space is not meta and devices.of(b) is not space and not isinstance(a, Lifted):
        src = src.to(self.device)
        b = src._array
    if label == "copy_" and b.__class__ is a.__class__:
        results.refuse_overlap(label, b, a, whole=False)
    if a.shape != b.shape:
        shape = geometry.broadcast_shapes(a.shape, b.shape)
        if shape != a.shape:
            raise RuntimeError(
                f"[{label}] output with shape {list(a.shape)} doesn't match the broadcast shape "
                f"{list(shape)}: the source has shape {list(b.shape)}"
            )
        if not isinstance(a, Lifted):
            b = space.broadcast_to(b, a.shape)
    if a.dtype is not b.dtype and a.__class__ is not meta.Meta and not isinstance(a, Lifted):
        b = space.cast(b, a.dtype)
    write(self, b)
    if recording:
        record_copy(self, src, recorded, name)
    return self


def record_copy(t: Tensor, src: Tensor, recorded: Any, name: str) -> None:
    """Record that `src`, the parameter `name` of `recorded`, was just written to `t`."""
    named = {"input": unwritten(t, edge_before(t)), name: src}
    rebase(t, make_node(recorded.op, named, [t]))
