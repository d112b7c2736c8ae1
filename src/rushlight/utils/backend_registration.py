"""A device of one's own: the name of the device type "privateuseone", and the methods that go with it.

PyTorch's way to add a device from outside. `rushlight._backends.devices.register` says what computes on it.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import device as devices
from rushlight.core.tensor import Tensor

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Let the device type "privateuseone" be called `backend_name`; RuntimeError for a second name."""
    devices.rename_private(backend_name)


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: list | None = None,
) -> None:
    """Give tensors, modules, packed sequences and storages `is_<name>` and `<name>()`.

    RuntimeError where a class has an attribute of that name already.
    """
    name = devices.renamed[0] if devices.renamed else "privateuseone"
    if for_tensor:
        _attach(Tensor, f"is_{name}", _is_on(name))
        _attach(Tensor, name, _moves_to(name))
    if for_module:
        from rushlight.nn import Module

        _attach(Module, name, _module_moves_to(name))
    if for_packed_sequence:
        from rushlight.nn.utils.rnn import PackedSequence

        _attach(PackedSequence, f"is_{name}", property(lambda self: self.data.device.type == name))
        _attach(PackedSequence, name, _packed_moves_to(name))
    if for_storage:
        from rushlight.storage import TypedStorage, UntypedStorage

        for cls in (UntypedStorage, TypedStorage):
            _attach(cls, f"is_{name}", _is_on(name))
            _attach(cls, name, _storage_moves_to(name, unsupported_dtype or []))


def _attach(cls: type, name: str, attribute: Any) -> None:
    if hasattr(cls, name):
        raise RuntimeError(
            f"Can not automatically generate {name}() method for {cls.__module__}.{cls.__name__}. "
            "Because it is defined already: register it by hand"
        )
    setattr(cls, name, attribute)


def _is_on(name: str) -> property:
    return property(lambda self: self.device.type == name)


def _device_of_kind(name: str, device: Any) -> devices.device:
    """The device that `x.<name>(device)` names; ValueError for one of another type."""
    if device is None:
        return devices.device(name)
    if isinstance(device, int):
        return devices.device(name, device)
    device = devices.device(device)
    if device.type != name:
        raise ValueError(f"Invalid device, must be {name} device but got {device.type}")
    return device


def _moves_to(name: str) -> Any:
    def move(self: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        return self.to(device=_device_of_kind(name, device), non_blocking=non_blocking, **kwargs)

    move.__name__, move.__doc__ = name, f"The tensor on the {name} device."
    return move


def _module_moves_to(name: str) -> Any:
    def move(self: Any, device: Any = None) -> Any:
        return self._apply(lambda t: t.to(_device_of_kind(name, device)))

    move.__name__, move.__doc__ = name, f"Move parameters and buffers to the {name} device."
    return move


def _packed_moves_to(name: str) -> Any:
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.to(*args, device=_device_of_kind(name, kwargs.pop("device", None)), **kwargs)

    move.__name__, move.__doc__ = name, f"The packed sequence on the {name} device."
    return move


def _storage_moves_to(name: str, unsupported: list) -> Any:
    def move(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        if getattr(self, "dtype", None) in unsupported:
            raise RuntimeError(f"Cannot copy {self.dtype} storage to the {name} device")
        return self._to(_device_of_kind(name, device))

    move.__name__, move.__doc__ = name, f"The storage on the {name} device."
    return move
