"""The attributes of a module are after an export what they were before it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import Module
from rushlight.utils._pytree import keystr, tree_flatten_with_path

__all__ = ["kept_attributes"]

OWN = frozenset(Module().__dict__) - {"training"}  # where a module keeps parameters, hooks...


@contextmanager
def kept_attributes(mod: Module, warn: bool = False) -> Iterator[None]:
    """Afterwards all attributes of the module and of those in it are what they were, and so are the lists and dicts
    in them and their tensors that are no parameters or buffers.

    `warn`: UserWarning with the names of those that were other tensors meanwhile. What a program keeps in them has no
    part in its graph.
    """
    modules = dict(mod.named_modules())
    state = {id(t) for t in (*mod.parameters(), *mod.buffers())}
    before = {path: _attributes(m) for path, m in modules.items()}
    tensors = _tensors(before)
    values = [(t, t.detach().clone()) for t in tensors.values() if id(t) not in state]
    containers: dict[int, tuple[Any, Any]] = {}
    for attributes in before.values():
        _note(attributes, containers)
    try:
        yield
        found = _tensors({path: _attributes(m) for path, m in modules.items()})
    finally:
        for path, m in modules.items():
            for name in _attributes(m).keys() - before[path].keys():
                del m.__dict__[name]
            m.__dict__.update(before[path])
        for container, items in containers.values():
            container.clear()
            container.update(items) if isinstance(items, dict) else container.extend(items)
        with rushlight.no_grad():
            for t, value in values:
                if t.shape != value.shape or not rushlight.equal(t, value):
                    t.set_(value)
    names = [name for name, t in found.items() if tensors.get(name) is not t]
    if names and warn:
        what = "attribute" if len(names) == 1 else "attributes"
        verb = "was" if len(names) == 1 else "were"
        warnings.warn(
            f"The tensor {what} {', '.join(names)} {verb} assigned during export. Such attributes must be registered "
            "as buffers using the `register_buffer` API",
            UserWarning,
            stacklevel=5,
        )


def _attributes(m: Module) -> dict[str, Any]:
    return {name: value for name, value in m.__dict__.items() if name not in OWN}


def _tensors(attributes: dict[str, dict[str, Any]]) -> dict[str, Tensor]:
    """The tensors in attributes of modules, by what a program calls them."""
    found = {}
    for path, values in attributes.items():
        owner = f"self.{path}." if path else "self."
        for name, value in values.items():
            for keys, leaf in tree_flatten_with_path(value)[0]:
                if isinstance(leaf, Tensor):
                    found[f"{owner}{name}{keystr(keys)}"] = leaf
    return found


def _note(value: Any, found: dict[int, tuple[Any, Any]]) -> None:
    """Note the lists and dicts in `value`, each with a copy of its items."""
    if isinstance(value, (list, dict)):
        if id(value) in found:
            return
        found[id(value)] = value, value.copy() if isinstance(value, dict) else [*value]
    if isinstance(value, (list, dict, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            _note(item, found)
