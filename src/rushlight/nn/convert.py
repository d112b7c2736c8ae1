"""A module's tensors moved to another device, dtype or memory format."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import __future__
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.ops.factories.arguments import of_conversion

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

    def _replicate_for_data_parallel(self) -> Any:
        """A copy that has the same things in dictionaries of its own, and no parameters: they are assigned to it."""
        replica = self.__new__(type(self))
        vars(replica).update(vars(self), _parameters={}, _is_replica=True)
        vars(replica).update(_buffers=self._buffers.copy(), _modules=self._modules.copy())
        return replica

    def share_memory(self) -> Any:
        """Move all parameters and buffers into shared memory."""
        for t in (*self.parameters(), *(p.grad for p in self.parameters()), *self.buffers()):
            if t is not None:
                t.share_memory_()
        return self


def apply(module: Module, fn: Convert, recurse: bool) -> Module:
    """Replace every parameter, gradient and buffer by `fn` of it; see `Module.to`."""
    if recurse:
        for child in module.children():
            child._apply(fn)
    for name, param in module._parameters.items():
        if param is None:
            continue
        grad = param.grad
        kept = module._parameters[name] = converted(param, fn)
        if grad is not None:
            kept.grad = converted(grad, fn)
    for name, buffer in module._buffers.items():
        if buffer is not None and is_lazy(buffer):
            buffer.data = fn(buffer.data)
        elif buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


def converted(t: Any, fn: Convert) -> Any:
    """`t` with the memory of `fn(t)`: an optimizer may hold it already.

    Another tensor where a switch of `torch.__future__` asks for it, or where layout or device say that the
    memory is of another kind. A tensor that is made of others is exchanged with the new one: `.data` is not all it has.
    """
    with rushlight.no_grad():
        new = fn(t)
    if new is t:
        return t
    swap = __future__.get_swap_module_params_on_conversion() or (
        new.__class__ not in (Tensor, Parameter)
        and rushlight.utils._python_dispatch.is_traceable_wrapper_subclass(new)
    )
    same_kind = new.layout is t.layout and new.is_meta == t.is_meta
    if same_kind and not swap and not __future__.get_overwrite_module_params_on_conversion():
        t.data = new
        return t
    if isinstance(t, Parameter):
        new = Parameter(new, t.requires_grad)
    else:
        new.requires_grad_(t.requires_grad)
    if not swap:
        return new
    rushlight.utils.swap_tensors(t, new)
    return t


def like_to(*args: Any, **kwargs: Any) -> Convert:
    """The conversion that the arguments of `Module.to` ask for."""
    device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype}"
        )
    if dtype is not None and dtype.is_complex:
        warnings.warn(
            "Complex modules are a new feature under active development whose design may change, and "
            "some modules might not work as expected when using complex tensors as parameters or buffers.",
            stacklevel=3,
        )

    def convert(t: Tensor) -> Tensor:
        new_dtype = dtype if t.is_floating_point() or t.is_complex() else None
        if memory_format is not None and t.dim() in (4, 5):
            return t.to(device, new_dtype, non_blocking, memory_format=memory_format)
        return t.to(device, new_dtype, non_blocking)

    return convert


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, non_blocking and memory_format in any of the forms of `to`."""
    given = of_conversion(args, kwargs)
    if "copy" in given:
        raise RuntimeError(".to() does not accept copy argument")
    device, dtype, other = given.get("device"), given.get("dtype"), given.get("tensor")
    if other is not None:
        device, dtype = other.device, other.dtype
    if device is not None and not isinstance(device, rushlight.device):
        device = rushlight.device(device)
    dtype = dtypes.OF_PYTHON.get(dtype, dtype)
    return device, dtype, given.get("non_blocking", False), given.get("memory_format")
