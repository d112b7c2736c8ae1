"""Structures of trees as text: `[1, {"type": ..., "context": ..., "children_spec": [...]}]`, as PyTorch writes them."""

from __future__ import annotations

import enum
import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from rushlight.core.size import Size
from rushlight.utils._pytree import TreeSpec, treespec_leaf
from rushlight.utils._pytree_nodes import SERIALIZED

PROTOCOL = 1
# Names are those that PyTorch writes, so that either reads the other's text.
_NAMES: dict[Any, str] = {
    tuple: "builtins.tuple",
    list: "builtins.list",
    dict: "builtins.dict",
    namedtuple: "collections.namedtuple",
    OrderedDict: "collections.OrderedDict",
    defaultdict: "collections.defaultdict",
    deque: "collections.deque",
    Size: "torch.Size",
}


def dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The text of a structure. NotImplementedError if it has a class that was registered without a name."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    _check(PROTOCOL if protocol is None else protocol)
    return json.dumps([PROTOCOL, _written(treespec)])


def loads(serialized: str) -> TreeSpec:
    """The structure that a text of `dumps` says."""
    protocol, written = json.loads(serialized)
    _check(protocol)
    return _read(written)


def _check(protocol: Any) -> None:
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")


def _written(spec: TreeSpec) -> dict:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    name, to_dumpable, _ = SERIALIZED.get(spec.type, (_NAMES.get(spec.type), None, None))
    if name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if to_dumpable is not None:
        context = to_dumpable(spec.context)
    else:
        context = _context_written(spec.type, spec.context)
    children = [_written(child) for child in spec.children_specs]
    return {"type": name, "context": context, "children_spec": children}


def _context_written(kind: Any, context: Any) -> Any:
    """A context as JSON can write it."""
    if kind is namedtuple:
        if context not in SERIALIZED:
            raise NotImplementedError(
                f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
                "serializated_type_name. Please register using `_register_namedtuple`."
            )
        return SERIALIZED[context][0]
    if kind is defaultdict:
        factory, keys = context
        return {
            "default_factory_module": factory.__module__,
            "default_factory_name": factory.__qualname__,
            "dict_context": keys,
        }
    try:
        return json.dumps(context, default=_enum_written)
    except TypeError as e:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom "
            f"serializer using _register_pytree_node. The context is {context!r}, of {kind}."
        ) from e


def _read(written: dict) -> TreeSpec:
    name, context = written["type"], written["context"]
    if name is None:
        return treespec_leaf()
    children = [_read(child) for child in written["children_spec"]]
    kind = next((k for k, n in _NAMES.items() if n == name), None)
    back = None
    if kind is None:
        kind, back = next(
            ((k, entry[2]) for k, entry in SERIALIZED.items() if entry[0] == name),
            (None, None),
        )
    if kind is None:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    context = back(context) if back is not None else _context_read(kind, context)
    return TreeSpec(kind, context, children)


def _context_read(kind: Any, context: Any) -> Any:
    if kind is namedtuple:
        for cls, (name, _, _) in SERIALIZED.items():
            if name == context:
                return cls
        raise NotImplementedError(f"Can't deserialize TreeSpec of namedtuple class {context}.")
    if kind is defaultdict:
        module = importlib.import_module(context["default_factory_module"])
        return [getattr(module, context["default_factory_name"]), context["dict_context"]]
    return json.loads(context, object_hook=_enum_read)


def _enum_written(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        cls = type(value)
        return {
            "__enum__": True,
            "fqn": f"{cls.__module__}:{cls.__qualname__}",
            "name": value.name,
        }
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _enum_read(found: dict) -> Any:
    if "__enum__" not in found:
        return found
    module, _, path = found["fqn"].partition(":")
    cls: Any = importlib.import_module(module)
    for part in path.split("."):
        cls = getattr(cls, part)
    return cls[found["name"]]
