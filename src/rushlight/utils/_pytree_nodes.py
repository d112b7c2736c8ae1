"""Which classes are nodes of trees, and the keys of their children.

A class is a node when it is registered: with a function that takes an object apart into its children and a context, and
one that puts it together. Everything else is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rushlight.core import return_types
from rushlight.core.size import Size

# -- named tuples ----------------------------------------------------------------------------------


def is_namedtuple_class(cls: type) -> bool:
    """True for a class that `collections.namedtuple` or `typing.NamedTuple` made, and for classes below one."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_make")


def is_namedtuple_instance(obj: object) -> bool:
    """True for an object of such a class."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """True for such a class or an object of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """True for a class of tuples with names and no `_make`, like those of `torch.return_types`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def is_structseq_instance(obj: object) -> bool:
    """True for an object of such a class."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """True for such a class or an object of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


# -- keys of children ------------------------------------------------------------------------------


class _Key:
    """The way from a node to one of its children: equal to keys of the same class with the same value."""

    __slots__ = ("_value",)
    _field = ""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value == other._value  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __reduce__(self) -> tuple:
        return type(self), (self._value,)


class MappingKey(_Key):
    """The way to a value of a dict."""

    __slots__ = ()
    _field = "key"

    def __init__(self, key: Any) -> None:
        self._value = key

    @property
    def key(self) -> Any:
        """The key in the dict."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self._value]


class SequenceKey(_Key):
    """The way to an item of a list or tuple."""

    __slots__ = ()
    _field = "idx"

    def __init__(self, idx: int) -> None:
        self._value = idx

    @property
    def idx(self) -> int:
        """The index."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"

    def get(self, sequence: Any) -> Any:
        """The item."""
        return sequence[self._value]


class GetAttrKey(_Key):
    """The way to an attribute, as of a named tuple."""

    __slots__ = ()
    _field = "name"

    def __init__(self, name: str) -> None:
        self._value = name

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self._value

    def __str__(self) -> str:
        return f".{self._value}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self._value)


def keystr(kp: Any) -> str:
    """A path as Python would write it: `['a'][0].x`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable) -> Any:
    """What stands at the path `kp` in `obj`."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- classes that are nodes ------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How objects of a class are taken apart and put together."""

    type: Any
    flatten_fn: Callable[[Any], tuple]
    unflatten_fn: Callable[[Iterable, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple] | None = None


def _dict_flatten(d: dict) -> tuple[list, Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable, context: Any) -> dict:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict) -> tuple[list, Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _defaultdict_flatten(d: defaultdict) -> tuple[list, Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict) -> tuple[list, Any]:
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _sequence_flatten(x: Any) -> tuple[list, Any]:
    return list(x), None


def _sequence_flatten_with_keys(x: Any) -> tuple[list, Any]:
    return [(SequenceKey(i), item) for i, item in enumerate(x)], None


def _namedtuple_flatten_with_keys(x: Any) -> tuple[list, Any]:
    return [(GetAttrKey(k), item) for k, item in zip(x._fields, x, strict=True)], type(x)


def _sequence(cls: type) -> NodeDef:
    return NodeDef(cls, _sequence_flatten, lambda c, _: cls(c), _sequence_flatten_with_keys)


SUPPORTED_NODES: dict[Any, NodeDef] = {
    tuple: _sequence(tuple),
    list: _sequence(list),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    namedtuple: NodeDef(
        namedtuple,
        lambda x: (list(x), type(x)),
        lambda c, cls: cls(*c),
        _namedtuple_flatten_with_keys,
    ),
    OrderedDict: NodeDef(
        OrderedDict,
        _dict_flatten,
        lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
        _dict_flatten_with_keys,
    ),
    defaultdict: NodeDef(
        defaultdict,
        _defaultdict_flatten,
        lambda c, made: defaultdict(made[0], zip(made[1], c, strict=True)),
        _defaultdict_flatten_with_keys,
    ),
    deque: NodeDef(
        deque,
        lambda x: (list(x), x.maxlen),
        deque,
        lambda x: (_sequence_flatten_with_keys(x)[0], x.maxlen),
    ),
    Size: _sequence(Size),
}
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, namedtuple, deque}) | STANDARD_DICT_TYPES
CONSTANT_NODES: set[type] = set()

# class -> (its name in text, context to what JSON can write, and back)
SERIALIZED: dict[Any, tuple[str | None, Callable | None, Callable | None]] = {}


def register_pytree_node(
    cls: Any, flatten_fn: Callable, unflatten_fn: Callable, *,
    serialized_type_name: str | None = None, to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None, flatten_with_keys_fn: Callable | None = None,
) -> None:  # fmt: skip
    """Let instances of a class be nodes: `flatten_fn(x)` is (children, context), `unflatten_fn(children, context)` is x.

    `flatten_with_keys_fn(x)` is ((key, child) pairs, context), for the functions of paths. The others are for
    `treespec_dumps`: the class's name in text and how its context is written, where JSON cannot.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SERIALIZED[cls] = (serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register_pytree_node(
    cls: Any, flatten_fn: Callable, unflatten_fn: Callable, to_str_fn: Any = None,
    maybe_from_str_fn: Any = None, **options: Any,
) -> None:  # fmt: skip
    """`register_pytree_node` under its older name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Let instances of a class be leaves again."""
    del SUPPORTED_NODES[cls]
    SERIALIZED.pop(cls, None)
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a class of named tuples, all of which are nodes, its name in text."""
    SERIALIZED[cls] = (serialized_type_name, None, None)


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Let instances of a dataclass be nodes; fields that are None have no part in the tree.

    `field_names`: those that are children, all by default; `drop_field_names` are left out and have their defaults.
    """
    import dataclasses

    if not dataclasses.is_dataclass(cls):
        raise AssertionError(
            f"Only dataclasses can be registered with this function: {cls} is not a dataclass."
        )
    known = {f.name for f in dataclasses.fields(cls) if f.init}
    dropped = set(drop_field_names or ())
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    names = names if field_names is None else field_names
    if set(names) | dropped != known:
        raise ValueError(
            f"Dataclass fields mismatch with {cls}: {sorted(known ^ (set(names) | dropped))}"
        )

    def flatten(x: Any) -> tuple:
        given = [n for n in names if getattr(x, n) is not None]
        return [getattr(x, n) for n in given], [given, [n for n in names if n not in given]]

    def flatten_with_keys(x: Any) -> tuple:
        children, context = flatten(x)
        return [(GetAttrKey(n), c) for n, c in zip(context[0], children, strict=True)], context

    def unflatten(children: Iterable, context: Any) -> Any:
        given, absent = context
        return cls(**dict(zip(given, children, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )  # fmt: skip


class ConstantNode(NamedTuple):
    """The context of a constant in the structure of a tree."""

    value: Any


def register_constant(cls: type) -> None:
    """Let instances of a class belong to the structure of a tree: nodes without children, compared by `==`."""
    for name in ("__eq__", "__hash__"):
        if getattr(cls, name) is getattr(object, name):
            raise TypeError(
                f"register_constant(cls) expects `cls` to have a non-default `{name}` implementation."
            )

    def flatten(x: Any) -> tuple:
        return [], ConstantNode(x)

    register_pytree_node(cls, flatten, lambda _, c: c.value, flatten_with_keys_fn=flatten)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """True if the class was given to `register_constant`."""
    return cls in CONSTANT_NODES


def _get_node_type(tree: Any) -> Any:
    """What a node is registered as: its class, or `namedtuple` for each class of named tuples."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and hasattr(kind, "_make") and isinstance(tree, tuple):
        return namedtuple
    return kind


def definition(tree: Any) -> NodeDef | None:
    """How `tree` is taken apart; None for a leaf."""
    kind = type(tree)
    found = SUPPORTED_NODES.get(kind)
    if found is None and isinstance(tree, tuple):
        if hasattr(kind, "_make"):
            return SUPPORTED_NODES[namedtuple]
        if isinstance(tree, return_types.Results):
            found = SUPPORTED_NODES[kind] = _sequence(kind)
    return found


def tree_is_leaf(tree: Any, is_leaf: Callable | None = None) -> bool:
    """True if `tree` is no node, or `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or definition(tree) is None
