"""Fake tensors: shape, strides, dtype and device without memory, and the mode in which all tensors are fake.

Note [How a fake tensor computes]
    A `FakeTensor` wraps nothing; its array is a shell that says which device it is on. `FakeTensorMode` calls an
    operator on meta tensors of the same shapes, and makes what comes back fake tensors of the device that the
    arguments are on. Views share the memory that is not there, so that aliasing is as on real tensors.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import rushlight
from rushlight._backends.meta import Meta
from rushlight._backends.shell import NO_STORAGE, Shell
from rushlight.autograd.graph import AccumulateGrad
from rushlight.autograd.state import thread
from rushlight.core.device import device as Device
from rushlight.core.storage import offset
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import index
from rushlight.dispatch.handlers import Undispatched, make_wrapper
from rushlight.dispatch.overrides import disabled
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorConverter",
    "FakeTensorMode", "UnsupportedFakeTensorException", "UnsupportedOperatorException", "is_fake",
    "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor of which there is no fake one."""


class UnsupportedOperatorException(RuntimeError):
    """An operator that cannot be called on fake tensors; `func`."""

    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func


class DynamicOutputShapeException(UnsupportedOperatorException):
    """An operator whose result has a shape that depends on values."""


class DataDependentOutputException(UnsupportedOperatorException):
    """An operator whose result is a value."""


VALUES = frozenset("_local_scalar_dense equal allclose is_nonzero".split())
SHAPES = frozenset(
    "nonzero masked_select unique_consecutive _unique2 unique_dim bincount repeat_interleave".split()
)


class MetadataMismatchError(RuntimeError):
    """Two tensors that should be alike differ in shape, dtype, device or strides."""


class FakeTensor(Tensor):
    """A tensor without memory. `fake_mode` makes it: `FakeTensorMode().from_tensor(x)`."""

    fake_mode: FakeTensorMode
    constant: Any = None  # the value, where the program gave it

    __torch_function__ = disabled  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls: type, fake_mode: FakeTensorMode, elem: Tensor, device: Any, constant: Any = None
    ) -> FakeTensor:
        made = make_wrapper(
            cls, elem.shape, elem.stride(), offset(elem), dtype=elem.dtype, device=device
        )
        if isinstance(elem._array, Meta):  # a view of its memory
            array = elem._array.view(Shell)
            array.device = made._array.device
            made._array = array
        made.fake_mode = fake_mode
        if constant is not None:
            fake_mode.keep(made, constant)
        return made

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """The fake tensor of the mode that stands for `t`."""
        return fake_mode.from_tensor(t)

    @property
    def fake_device(self) -> Device:
        """The device that the tensor says it is on."""
        return self._array.device  # type: ignore[attr-defined]

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return self.fake_device.type == "cuda"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mode = maybe_get_fake_mode((args, kwargs))
        if mode is None:
            return NotImplemented
        return mode.__torch_dispatch__(func, types, args, kwargs or {})

    def data_ptr(self) -> NoReturn:
        """RuntimeError: there is no memory."""
        raise RuntimeError(NO_STORAGE)

    def tolist(self) -> Any:
        """The values, where the program gave them."""
        if self.constant is None:
            raise DataDependentOutputException(rushlight.ops.aten._local_scalar_dense.default)
        return self.constant.tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        said = ["..."]
        if self.fake_device.type != "cpu":
            said.append(f"device='{self.fake_device}'")
        said.append(f"size={tuple(self.shape)}")
        if self.dtype is not rushlight.get_default_dtype():
            said.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            said.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            said.append("requires_grad=True")
        return f"FakeTensor({', '.join(said)})"


def meta_of(t: Tensor) -> Tensor:
    """A meta tensor on the memory that a fake tensor does not have."""
    return _wrap(t._array.view(Meta))


def is_random(name: str) -> bool:
    """Whether an operator draws numbers."""
    family = index.FUNCTIONS.get(name) or index.FUNCTIONS.get(f"Tensor.{name}")
    return family in ("factories.random", "factories.distributions")


def memory_of(t: FakeTensor) -> int:
    """Says of two fake tensors whether they are on one memory."""
    with Undispatched():
        return t.untyped_storage()._cdata


class FakeTensorConverter:
    """Makes one fake tensor for each real one."""

    def __init__(self) -> None:
        self.made: dict[int, tuple[Any, FakeTensor]] = {}

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **_: Any) -> FakeTensor:
        """The fake tensor that stands for `t`."""
        known = self.made.get(id(t))
        if known is not None and known[0]() is t:
            return known[1]
        if t.layout is not rushlight.strided:
            raise UnsupportedFakeTensorException("sparse tensors cannot be fake")
        with Undispatched(), rushlight.no_grad():
            if t.is_meta:
                meta = t.detach()
            else:
                held = (
                    t.untyped_storage().nbytes() // t.element_size()
                )  # a view may ask for all of it
                meta = rushlight.empty(held, dtype=t.dtype, device="meta")
                meta = meta.as_strided(t.shape, t.stride(), t.storage_offset())
        made = FakeTensor(fake_mode, meta, t.device)
        if t.requires_grad:
            made._set_leaf_edge(AccumulateGrad(made))
        if getattr(t, "_is_param", False) or isinstance(t, rushlight.nn.Parameter):
            made._is_param = True
        self.made[id(t)] = (weakref.ref(t), made)
        return made


class FakeTensorMode(TorchDispatchMode):
    """A block in which tensors are made without memory, and operators compute shapes, strides, dtypes and devices.

    >>> import rushlight as torch
    >>> with FakeTensorMode() as mode:
    ...     x = torch.empty(1000000, 1000000)
    >>> x @ mode.from_tensor(torch.ones(1000000))
    FakeTensor(..., size=(1000000,))
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
        shape_env: Any = None, static_shapes: bool | None = None, export: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.allow_non_fake_inputs, self.shape_env = allow_non_fake_inputs, shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.fake_tensor_converter = FakeTensorConverter()
        # memory -> the fake tensors on it whose values are known: a write of something unknown ends that for all
        self.known: dict[int, list[weakref.ref[FakeTensor]]] = {}

    def keep(self, fake: FakeTensor, constant: Tensor) -> None:
        """Keep the value of a fake tensor; that of a view is a view of the value."""
        fake.constant = constant
        found = self.known.setdefault(memory_of(fake), [])
        found[:] = [r for r in found if r() is not None] + [weakref.ref(fake)]

    def forget(self, memory: int) -> None:
        """The values on a memory are known no more."""
        for known in self.known.pop(memory, ()):
            if (fake := known()) is not None:
                fake.constant = None

    def from_tensor(self, tensor: Tensor, **options: Any) -> FakeTensor:
        """The fake tensor that stands for `tensor`."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("the tensor is fake already, of another mode")
            return tensor
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: tracers use it."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(not issubclass(t, FakeTensor) for t in types):
            return NotImplemented
        name = func._opname
        flat = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if name in ("lift_fresh", "lift_fresh_copy"):
            return self._lifted(args[0])
        if name in VALUES:
            known = [t.constant if isinstance(t, FakeTensor) else t for t in flat]
            if any(t is None for t in known):
                raise DataDependentOutputException(func)
            with Undispatched():
                return func(*known)
        self._check(func, name, args, flat)
        device = kwargs.get("device")
        device = self._common_device(func, flat) if device is None else Device(device)
        if name == "detach" and flat[0].__class__ is FakeTensor:
            with Undispatched():
                return FakeTensor(self, meta_of(flat[0]), flat[0].fake_device, flat[0].constant)
        if "device" in kwargs or not flat:
            kwargs["device"] = "meta"
        known_arrays = {}

        def unwrap(t: Tensor) -> Tensor:
            fake = t if isinstance(t, FakeTensor) else self._converted(func, t)
            meta = meta_of(fake)
            known_arrays[id(meta)] = (meta, fake)
            return meta

        given, options = pytree.tree_map_only(Tensor, unwrap, (args, kwargs))
        written = self._written(name, args, kwargs)
        with Undispatched():
            result = func(*given, **options)
        constant = self._constant(func, args, kwargs, flat)
        if constant is None:
            for memory in written:
                self.forget(memory)

        def wrap(t: Tensor) -> Tensor:
            if (known := known_arrays.get(id(t))) is not None:
                return known[1]
            return FakeTensor(self, t, device, constant if t.numel() == 1 else None)

        return pytree.tree_map_only(Tensor, wrap, result)

    def _written(self, name: str, args: Any, kwargs: dict) -> set[int]:
        """The memory that a call writes to, as far as values on it are known."""
        if not self.known or not (name.endswith("_") or "out" in kwargs):
            return set()
        leaves = pytree.tree_leaves((args[:1], kwargs.get("out")))
        return {memory_of(t) for t in leaves if isinstance(t, FakeTensor)}

    def _constant(self, func: Any, args: Any, kwargs: dict, flat: list) -> Tensor | None:
        """The value of a call, where those of all arguments are known. A write is made to the values too."""
        known = [t.constant if isinstance(t, FakeTensor) else None for t in flat]
        if not flat or any(t is None for t in known) or is_random(func._opname):
            return None
        args, kwargs = pytree.tree_map_only(FakeTensor, lambda t: t.constant, (args, kwargs))
        kwargs.pop("device", None)
        with Undispatched():
            found = func(*args, **kwargs)
        return found if isinstance(found, Tensor) and found.numel() == 1 else None

    def _check(self, func: Any, name: str, args: Any, flat: list) -> None:
        masks = name == "index" and any(
            isinstance(i, Tensor) and i.dtype in (rushlight.bool, rushlight.uint8) for i in args[1]
        )
        sizes = name == "repeat_interleave" and not isinstance(args[-1], int)
        if masks or name in SHAPES and (name != "repeat_interleave" or sizes):
            raise DynamicOutputShapeException(func)

    def _converted(self, func: Any, t: Tensor) -> FakeTensor:
        """A real tensor among the arguments: one without dimensions may be, others only where that is allowed."""
        if not self.allow_non_fake_inputs and t.dim():
            raise AssertionError(
                f"Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. "
                f"Found in {func}(...)"
            )
        return self.from_tensor(t)

    def _common_device(self, func: Any, flat: list) -> Device:
        """The device of a result. RuntimeError for two; a tensor without dimensions may be on the CPU."""
        found = None
        number = True
        for t in flat:
            if found is None or (number and t.dim() and found.type == "cpu"):
                found, number = t.device, not t.dim()
            elif t.device != found and (t.dim() or t.device.type != "cpu"):
                if number and found.type == "cpu":
                    found, number = t.device, not t.dim()
                    continue
                raise RuntimeError(
                    f"Unhandled FakeTensor Device Propagation for {func}, found two different devices {found}, {t.device}"
                )
        return Device("cpu") if found is None else found

    def _lifted(self, t: Tensor) -> FakeTensor:
        """The fake tensor for one that was made of data; it keeps the value where that is one number."""
        if isinstance(t, FakeTensor):
            return t
        made = FakeTensor(self, t.detach().to("meta"), t.device)
        if t.numel() == 1:
            self.keep(made, t.detach().clone())
        return made


def is_fake(x: Any) -> bool:
    """Whether `x` is a `FakeTensor`, or wraps only such.

    >>> import rushlight as torch
    >>> is_fake(torch.zeros(2))
    False
    """
    if isinstance(x, FakeTensor):
        return True
    if rushlight.utils._python_dispatch.is_traceable_wrapper_subclass(x):
        names, _ = x.__tensor_flatten__()
        return all(is_fake(getattr(x, name)) for name in names)
    return False


def maybe_get_fake_mode(tree: Any) -> FakeTensorMode | None:
    """The mode of the fake tensors in a tree, or None."""
    modes = {t.fake_mode for t in pytree.tree_leaves(tree) if isinstance(t, FakeTensor)}
    if len(modes) > 1:
        raise AssertionError("Mixing fake modes NYI")
    return next(iter(modes), None)


class unset_fake_temporarily:
    """A block in which tensors are real, in a `FakeTensorMode`."""

    def __enter__(self) -> Any:
        self._before = thread.dispatch_modes
        thread.dispatch_modes = tuple(m for m in self._before if not isinstance(m, FakeTensorMode))
        return next((m for m in reversed(self._before) if isinstance(m, FakeTensorMode)), None)

    def __exit__(self, *error: object) -> None:
        thread.dispatch_modes = self._before
