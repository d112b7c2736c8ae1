"""Checks of what may be registered in a module and under which name; the messages are PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.nn import hooks

if TYPE_CHECKING:
    from rushlight.nn.module import Module


def typename(value: Any) -> str:
    """The name of a value's type in PyTorch's messages: `torch.FloatTensor`, `int`, `pkg.Class`."""
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    if cls.__module__ in ("builtins", "__builtin__", None):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def check_new_name(module: Module, kind: str, name: Any, table: Mapping[str, Any]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
    got = f", got: {name}" if kind == "module" else ""
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."{got}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in table and hasattr(module, name):
        raise KeyError(f"attribute '{name}' already exists")


def check_assigned(name: str, value: Any, cls: Any, what: str, expected: str) -> None:
    if value is not None and not (cls is not None and isinstance(value, cls)):
        raise TypeError(
            f"cannot assign '{typename(value)}' as {what} '{name}' ({expected} expected)"
        )


def forget(module: Module, name: str, except_for: str) -> None:
    """Drop a name from everywhere but the table it will go into."""
    own = module.__dict__
    own.pop(name, None)
    for table in ("_parameters", "_buffers", "_modules"):
        if table != except_for:
            own[table].pop(name, None)
    if except_for != "_buffers":
        own["_non_persistent_buffers_set"].discard(name)


def put_module(module: Module, name: str, child: Module | None) -> None:
    for hook in hooks.module_registration_hooks.values():
        changed = hook(module, name, child)
        child = child if changed is None else changed
    module._modules[name] = child
