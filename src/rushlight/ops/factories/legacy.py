"""The older constructors: `Tensor(2, 3)`, `FloatTensor([1, 2])`, and types named by strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core import dtypes, modes, settings, storage
from rushlight.core.device import device as Device
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.factories import arguments, construct, creation


def legacy_new(cls: type, args: tuple, kwargs: dict) -> Any:
    """`Tensor(2, 3)` (uninitialised), `Tensor([1, 2])`, `Tensor(other)`, `Tensor()`."""
    if (
        cls is not Tensor
        and args
        and args[0].__class__ is not Tensor
        and isinstance(args[0], Tensor)
    ):
        return Tensor.as_subclass(args[0], cls)
    t = make_legacy(modes._default_dtype.np, args, kwargs, any_dtype=True)
    return t if cls is Tensor else t.as_subclass(cls)


def make_legacy(d: np.dtype, args: tuple, kwargs: dict, any_dtype: bool = False) -> Tensor:
    device = kwargs.pop("device", None)
    if "size" in kwargs:
        args = (*args, Size(arguments.only_sequence("new", kwargs.pop("size"))))
    args = (*args, *[kwargs.pop(k) for k in ("data", "other") if k in kwargs])
    if kwargs:
        raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if device is not None and Device(device).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {Device(device).type} was passed"
        )
    if not args:
        return _wrap(xp.empty(0, d))
    if len(args) > 1 and isinstance(args[0], (tuple, list)):
        raise TypeError(
            f"new() received an invalid combination of arguments - got "
            f"({', '.join(type(a).__name__ for a in args)})"
        )
    first = args[0]
    if device is not None and isinstance(first, Tensor) and len(args) == 1:
        raise RuntimeError(
            "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported. Use "
            "torch.tensor(...) or torch.as_tensor(...) instead."
        )
    if len(args) == 1:
        if isinstance(first, Tensor):
            if not any_dtype and first._array.dtype is not d:
                raise TypeError(
                    f"expected a tensor of dtype {dtypes.OF[d]} (got {first.dtype}): use .to(dtype)"
                )
            return first[...]  # a view with its history
        if isinstance(first, (storage.UntypedStorage, storage.TypedStorage)):
            return _wrap(construct.of_storage(first, d))
        if isinstance(first, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{type(first).__name__}'")
        if isinstance(first, bool) or not isinstance(first, (int, np.integer)):
            if isinstance(first, Size):
                return _wrap(xp.empty(first, d))
            if not hasattr(first, "__len__"):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return _wrap(construct.array_from(first, d))
    return _wrap(creation.empty_array(arguments.sizes("new", args), d))


@public("Tensor", overridable=True)
def new(self, *args, **kwargs):
    """As the constructor of this tensor's type: `t.new(2, 3)`, `t.new([1, 2])`; of a sparse one, also of indices
    and values."""
    if self.is_sparse:
        import rushlight

        return getattr(rushlight.sparse, f"{self.dtype.scalar_name}Tensor")(*args, **kwargs)
    sizes = args[0] if len(args) == 1 and args[0].__class__ is Size else args
    if sizes and not kwargs and all(n.__class__ is int for n in sizes):
        return self.new_empty(sizes)
    return make_legacy(self._array.dtype, args, kwargs).to(self.device)


# -- the types -------------------------------------------------------------------------------------


class TensorType(type):
    """`isinstance(t, FloatTensor)`: whether dtype and layout of `t` are those of the type."""

    dtype: dtypes.dtype
    layout: dtypes.layout

    def __new__(mcls, name: str, bases: tuple, body: dict) -> Any:
        for base in bases:
            raise TypeError(f"type 'torch.{base.__name__}' is not an acceptable base type")
        return super().__new__(mcls, name, bases, body)

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Tensor) or instance.dtype is not cls.dtype:
            return False
        return instance.is_cpu and instance.layout is cls.layout

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _type(d: dtypes.dtype) -> TensorType:
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Tensor:
        return make_legacy(cls.dtype.np, args, kwargs)

    body = {
        "__new__": __new__, "dtype": d, "layout": dtypes.strided, "is_cuda": False,
        "is_sparse": False, "__module__": "torch",
        "__doc__": f"Makes tensors of dtype {d}: sizes give an uninitialised one, a sequence its values.",
    }  # fmt: skip
    return TensorType(f"{d.scalar_name}Tensor", (), body)


TYPES = {f"{d.scalar_name}Tensor": _type(d) for d in dtypes.ALL}


def __getattr__(name: str) -> TensorType:
    if name in TYPES:
        return TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dtype_named(kind: Any) -> dtypes.dtype:
    """The dtype meant by a dtype, `torch.FloatTensor`, or `"torch.FloatTensor"`."""
    if isinstance(kind, dtypes.dtype):
        return kind
    if isinstance(kind, TensorType):
        return kind.dtype
    if kind is Tensor:
        return modes.get_default_dtype()
    if isinstance(kind, type) and kind in dtypes.OF_PYTHON:
        return dtypes.OF_PYTHON[kind]
    if isinstance(kind, str):
        name = kind.removeprefix("torch.").removeprefix("sparse.")
        if name == "Tensor":
            return modes.get_default_dtype()
        if name in TYPES:
            return TYPES[name].dtype
        if name.startswith("cuda."):
            from rushlight.core.device import check_available, device

            check_available(device("cuda"))
        raise ValueError(f"invalid type: {kind!r}")
    if isinstance(kind, type) and kind.__module__.endswith(".cuda") and "Tensor" in kind.__name__:
        kind()  # raises: there is no such device
    raise RuntimeError(f"invalid type object: {kind!r}")


@public()
def set_default_tensor_type(t: Any) -> None:
    """The older form of `set_default_dtype`: takes a tensor type or its name."""
    if isinstance(t, dtypes.dtype):
        raise TypeError(f"invalid type object: {t}; set_default_dtype takes a dtype")
    d = dtype_named(t)
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    settings.warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    modes.set_default_dtype(d)
