"""A module's tensors moved to another device, dtype or memory format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import is_lazy

if TYPE_CHECKING:
    from rushlight.nn.module import Module

Convert = Callable[[Tensor], Tensor]


class Devices:
    """The methods of `Module` that name a device, or memory."""

    _apply: Callable[..., Any]
    parameters: Callable[..., Any]
    buffers: Callable[..., Any]

    def cpu(self) -> Any:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Move everything to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self, device: Any = None) -> Any:
        """Raise AssertionError: Rushlight has no such device."""
        return self._apply(lambda t: t.ipu(device))

    def mtia(self, device: Any = None) -> Any:
        """Raise AssertionError: Rushlight has no such device."""
        return self._apply(lambda t: t.mtia(device))

    def xpu(self, device: Any = None) -> Any:
        """Raise AssertionError: Rushlight has no such device."""
        return self._apply(lambda t: t.xpu(device))

    def share_memory(self) -> Any:
        """Move all parameters and buffers into shared memory."""
        for t in (*self.parameters(), *(p.grad for p in self.parameters()), *self.buffers()):
            if t is not None:
                t.share_memory_()
        return self


def apply(module: Module, fn: Convert, recurse: bool) -> Module:
    """Replace the data of every parameter, gradient and buffer by `fn(data)`; see `Module.to`."""
    if recurse:
        for child in module.children():
            child._apply(fn)
    for param in module._parameters.values():
        if param is None:
            continue
        # Parameters stay the same objects: an optimizer may hold them already.
        grad = param.grad
        with rushlight.no_grad():
            param.data = fn(param.data)
            changed = None if grad is None else fn(grad)
        if changed is not None:
            param.grad = changed.requires_grad_(grad.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None and is_lazy(buffer):
            buffer.data = fn(buffer.data)
        elif buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


def like_to(*args: Any, **kwargs: Any) -> Convert:
    """The conversion that the arguments of `Module.to` ask for."""
    device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype}"
        )

    def convert(t: Tensor) -> Tensor:
        wanted = dtype if t.is_floating_point() or t.is_complex() else None
        if memory_format is not None and t.dim() in (4, 5):
            return t.to(device, wanted, non_blocking, memory_format=memory_format)
        return t.to(device, wanted, non_blocking)

    return convert


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, non_blocking and memory_format in any of the forms of `to`."""
    device = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("copy", None)
    other = kwargs.pop("tensor", None)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], rushlight.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], rushlight.dtype)):
            dtype = rest.pop(0)
    if other is not None:
        device, dtype = other.device, other.dtype
    if rest and isinstance(rest[0], bool):
        non_blocking = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        rest.pop(0)
    if rest or kwargs:
        got = ", ".join([*(type(a).__name__ for a in args), *(f"{k}=..." for k in kwargs)])
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({got}), but expected "
            "(device, dtype, non_blocking, copy), (dtype, non_blocking, copy) or (tensor, ...)"
        )
    if device is not None and not isinstance(device, rushlight.device):
        device = rushlight.device(device)
    return device, dtype, bool(non_blocking), memory_format
