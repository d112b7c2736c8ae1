"""Trees of dicts, lists, tuples and named tuples: flattened, rebuilt, mapped over."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = [
    "GetAttrKey", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "keystr",
    "register_dataclass", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_flatten_with_path",
    "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_map_with_path",
    "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
Context = Any

# type -> (flatten: children and context, unflatten: from children and context)
_NODES: dict[type, tuple[Callable, Callable]] = {
    dict: (lambda d: (list(d.values()), list(d)), lambda c, keys: dict(zip(keys, c, strict=True))),
    OrderedDict: (
        lambda d: (list(d.values()), list(d)),
        lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
    ),
    defaultdict: (
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda c, made: defaultdict(made[0], zip(made[1], c, strict=True)),
    ),
    list: (lambda x: (list(x), None), lambda c, _: list(c)),
    tuple: (lambda x: (list(x), None), lambda c, _: tuple(c)),
    deque: (lambda x: (list(x), x.maxlen), deque),
}


SUPPORTED_NODES = _NODES
_WITH_KEYS: dict[type, Callable] = {}  # type -> (key, child) of its children, and context


def register_pytree_node(
    cls: type, flatten_fn: Callable, unflatten_fn: Callable, *,
    flatten_with_keys_fn: Callable | None = None, **_: Any,
) -> None:  # fmt: skip
    """Let instances of a class be nodes: `flatten_fn(x)` is (children, context).

    `flatten_with_keys_fn(x)` is ((key, child) pairs, context), for the functions of paths.
    """
    _NODES[cls] = (flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _WITH_KEYS[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node


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


class TreeSpec(NamedTuple):
    """The structure of a tree: its node type (None: a leaf), the context to rebuild it, its children's structures."""

    type: Any
    context: Any
    children_specs: tuple

    @property
    def num_leaves(self) -> int:
        """The number of leaves of a tree with this structure."""
        if self.type is None:
            return 1
        return sum([1 if c.type is None else c.num_leaves for c in self.children_specs])

    def is_leaf(self) -> bool:
        """True if the tree is a single leaf."""
        return self.type is None


class LeafSpec(TreeSpec):
    """The structure of a leaf. There is one object: `LeafSpec() is LeafSpec()`."""

    def __new__(cls) -> LeafSpec:
        return _leaf

    def __reduce__(self) -> tuple:
        return LeafSpec, ()


_leaf: LeafSpec = TreeSpec.__new__(LeafSpec, None, None, ())


def _get_node_type(tree: Any) -> Any:
    """What a node is registered as: its class, or `namedtuple` for each class of named tuples."""
    kind = type(tree)
    if kind not in _NODES and isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return namedtuple
    return kind


def _node(tree: Any, is_leaf: Callable | None) -> tuple | None:
    """(kind, children, context) of a node; None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    if kind in _NODES:
        children, context = _NODES[kind][0](tree)
        return kind, children, context
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return kind, list(tree), kind
    return None


def tree_flatten(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """(leaves, form).

    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([10, 20, 30], spec)
    {'a': [10, 20], 'b': (30,)}
    """
    leaves: list = []

    def form(tree: Any) -> TreeSpec:
        node = _node(tree, is_leaf)
        if node is None:
            leaves.append(tree)
            return _leaf
        kind, children, context = node
        return TreeSpec(kind, context, tuple([form(child) for child in children]))

    spec = form(tree)
    return leaves, spec


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of that form with these leaves. ValueError if there are too many or too few."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a "
            f"pytree that holds {treespec.num_leaves} items"
        )
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        children = [build(child) for child in spec.children_specs]
        if spec.type in _NODES:
            return _NODES[spec.type][1](children, spec.context)
        return (
            spec.type(children)
            if hasattr(spec.type, "__match_args__") and not hasattr(spec.type, "_make")
            else spec.type(*children)
        )

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable | None = None) -> list:
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable | None = None) -> Any:
    """An iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Callable | None = None) -> TreeSpec:
    """The form of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """The tree of func(leaf, the leaves at the same position in `rests`)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """Call `func` for the leaves; the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Callable, tree: Any, is_leaf: Callable | None = None) -> Any:
    """`tree_map` over the leaves of a type; the others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


# -- paths -----------------------------------------------------------------------------------------


class MappingKey(NamedTuple):
    """The way to a value of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """The way to an item of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The item."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """The way to an attribute, as of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)


def keystr(kp: Any) -> str:
    """A path as Python would write it: `['a'][0].x`."""
    return "".join(map(str, kp))


def _dict_flatten(d: dict) -> tuple[list, Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Any, context: Any) -> dict:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict) -> tuple[list, Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _keys(tree: Any, kind: type, children: Any) -> list:
    if kind in _WITH_KEYS:
        return [key for key, _ in _WITH_KEYS[kind](tree)[0]]
    if issubclass(kind, dict):
        return [MappingKey(key) for key in tree]
    if hasattr(kind, "_fields"):
        return [GetAttrKey(name) for name in kind._fields]
    return [SequenceKey(i) for i in range(len(children))]


def tree_flatten_with_path(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """((path, leaf) pairs, form).

    >>> pairs, _ = tree_flatten_with_path({"a": [1, 2]})
    >>> [(keystr(path), leaf) for path, leaf in pairs]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list = []

    def walk(tree: Any, path: tuple) -> None:
        node = _node(tree, is_leaf)
        if node is None:
            found.append((path, tree))
            return
        kind, children, _ = node
        for key, child in zip(_keys(tree, kind, children), children, strict=True):
            walk(child, (*path, key))

    walk(tree, ())
    return found, tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None
) -> Any:
    """The tree of func(path, leaf, the leaves at the same position in `rests`)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    made = [func(*pair, *each) for pair, *each in zip(pairs, *others, strict=True)]
    return tree_unflatten(made, spec)


def tree_all(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """True if the predicate holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """True if the predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
