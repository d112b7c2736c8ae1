"""Tensors and submodules of a module, replaced by name without checks, as libraries for functional modules do it."""

from __future__ import annotations

from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

__all__: list[str] = []


def swap_tensor(
    module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False
) -> Tensor | None:
    """Put a tensor, or None, in the place of the parameter, buffer or attribute `name` and return what was there.

    AttributeError where there is none, unless `allow_missing`; KeyError for a name with a dot; TypeError for what is no tensor.

    >>> from rushlight import nn, ones
    >>> layer = nn.Linear(1, 1)
    >>> _ = swap_tensor(layer, "weight", ones(1, 1))
    >>> layer.weight
    tensor([[1.]])
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers):
        if name in table:
            before, table[name] = table[name], tensor
            return before
    before = getattr(module, name, None)
    if before is None and not hasattr(module, name) and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        setattr(module, name, tensor)
    return before


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Put a tensor in the place of the parameter, buffer or attribute `name`, whether there is one or not."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of the submodule `name` and return the one that was there."""
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before, module._modules[name] = module._modules[name], submodule
    return before  # type: ignore[return-value]  # None only where a program registered it
