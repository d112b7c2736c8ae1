"""`torch.utils._device`: a default device for a block or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.grad_mode import Switch
from rushlight.core.device import device as Device

__all__ = ["DeviceContext", "set_device"]


class DeviceContext(Switch):
    """A block in which tensors are made on `device` unless a call names another, as `with torch.device(...)`; also a decorator."""

    def __init__(self, device: Any) -> None:
        self.device = Device(device)

    def clone(self) -> DeviceContext:
        return type(self)(self.device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.device.__exit__(*exception)


def set_device(device: Any) -> Callable[[Callable], Callable]:
    """A decorator of functions and generator functions: inside, tensors are made on `device` unless a call names another."""
    return DeviceContext(device)
