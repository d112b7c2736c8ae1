"""Trees of dicts, lists, tuples and named tuples: flattened, rebuilt, mapped over.

`_pytree_nodes.py` says which classes are nodes, `_treespec_json.py` writes the structure of a tree as text.
"""

from __future__ import annotations

import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight.utils._pytree_nodes import (  # noqa: F401 - PyTorch has these names here
    BUILTIN_TYPES,
    CONSTANT_NODES,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    ConstantNode,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _sequence_flatten,
    _sequence_flatten_with_keys,
    definition,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    key_get,
    keystr,
    register_constant,
    register_dataclass,
    register_pytree_node,
    tree_is_leaf,
)

__all__ = [
    "Context", "GetAttrKey", "LeafSpec", "MappingKey", "PyTree", "PyTreeSpec", "SequenceKey", "TreeSpec",
    "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "register_constant", "register_dataclass", "register_pytree_node",
    "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf",
    "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip

PyTree = Any
Context = Any
# Names that other packages register their own lists by.
_list_flatten, _list_flatten_with_keys = _sequence_flatten, _sequence_flatten_with_keys


def _list_unflatten(values: Iterable, context: Any) -> list:
    """The list that `_list_flatten` took apart."""
    return list(values)


# -- structures ------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: its node type (None: a leaf), the context to rebuild it, its children's structures."""

    __slots__ = ("children_specs", "context", "type")

    def __init__(self, type: Any, context: Any, children_specs: Iterable) -> None:
        self.type = type
        self.context = context
        self.children_specs = list(children_specs)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, _hashable(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        return self._text(2)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        children = f",\n{' ' * indent}".join([c._text(indent + 2) for c in self.children_specs])
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    @property
    def num_leaves(self) -> int:
        """The number of leaves of a tree with this structure."""
        if self.type is None:
            return 1
        return sum([1 if c.type is None else c.num_leaves for c in self.children_specs])

    @property
    def num_nodes(self) -> int:
        """The number of nodes and leaves."""
        return 1 + sum([c.num_nodes for c in self.children_specs])

    @property
    def num_children(self) -> int:
        """The number of children of the outermost node."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """True if the tree is a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable) -> Any:
        """The tree of this structure with these leaves."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list:
        """The parts of `tree` at the places where this structure has leaves. ValueError if it has other nodes.

        >>> tree_structure((1, 2)).flatten_up_to(([3], {"a": 4}))
        [[3], {'a': 4}]
        """
        parts: list = []
        _flatten_up_to(self, tree, parts)
        return parts


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf. There is one object: `LeafSpec() is LeafSpec()`."""

    __slots__ = ()

    def __new__(cls) -> LeafSpec:
        return _leaf

    def __init__(self) -> None:
        pass

    def __reduce__(self) -> tuple:
        return LeafSpec, ()


_leaf: LeafSpec = object.__new__(LeafSpec)
TreeSpec.__init__(_leaf, None, None, ())


def _hashable(context: Any) -> Any:
    """Something with a hash that is equal for equal contexts."""
    if isinstance(context, list | tuple):
        return tuple(map(_hashable, context))
    try:
        hash(context)
    except TypeError:
        return None
    return context


def _flatten_up_to(spec: TreeSpec, tree: Any, parts: list) -> None:
    if spec.type is None:
        parts.append(tree)
        return
    kind = _get_node_type(tree)
    dicts = kind in STANDARD_DICT_TYPES and spec.type in STANDARD_DICT_TYPES
    if kind is not spec.type and not dicts:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}.")
    node = definition(tree)
    assert node is not None
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}."
        )
    if dicts:
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        missing, extra = set(keys) - set(tree), set(tree) - set(keys)
        if missing or extra:
            raise ValueError(
                f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}."
            )
        children = [tree[key] for key in keys]
    elif kind is not deque and context != spec.context:
        if kind in BUILTIN_TYPES:
            raise ValueError(
                f"Node context mismatch for node type {kind!r}; expected {spec.context!r}, but got {context!r}."
            )
        raise ValueError(f"Node context mismatch for custom node type {kind!r}.")
    for child, child_spec in zip(children, spec.children_specs, strict=True):
        _flatten_up_to(child_spec, child, parts)


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _leaf


def treespec_tuple(iterable: Iterable[TreeSpec] = ()) -> TreeSpec:
    """The structure of a tuple of trees of these structures."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict of trees of these structures."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), specs.values())


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as the tree itself with `*` for its leaves.

    >>> treespec_pprint(tree_structure({"a": [1, 2]}))
    "{'a': [*, *]}"
    """
    return repr(tree_unflatten([_asterisk] * treespec.num_leaves, treespec))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


_asterisk = _Asterisk()


# -- flatten, rebuild, map -------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """(leaves, form).

    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([10, 20, 30], spec)
    {'a': [10, 20], 'b': (30,)}
    """
    leaves: list = []
    return leaves, _form(tree, leaves, is_leaf)


# Functions that call themselves stand at the module's level: one inside of another is a cycle, which keeps the
# leaves until the garbage collector comes by.


def _form(tree: Any, leaves: list, is_leaf: Callable | None) -> TreeSpec:
    """The form of a tree, whose leaves are appended to `leaves`."""
    if (is_leaf is not None and is_leaf(tree)) or (node := definition(tree)) is None:
        leaves.append(tree)
        return _leaf
    children, context = node.flatten_fn(tree)
    forms: list[TreeSpec] = []
    for child in children:
        if is_leaf is None and definition(child) is None:
            leaves.append(child)
            forms.append(_leaf)
        else:
            forms.append(_form(child, leaves, is_leaf))
    return TreeSpec(node.type, context, forms)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree of that form with these leaves. ValueError if there are too many or too few."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
        )
    leaves = list(leaves)
    if treespec is _leaf and len(leaves) == 1:
        return leaves[0]
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a "
            f"pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _built(treespec, iter(leaves))


def _built(spec: TreeSpec, rest: Iterator) -> Any:
    """The tree of a form with the next leaves of `rest`."""
    if spec.type is None:
        return next(rest)
    children = [
        next(rest) if child.type is None else _built(child, rest) for child in spec.children_specs
    ]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def tree_leaves(tree: Any, is_leaf: Callable | None = None) -> list:
    """The leaves, in order."""
    leaves: list = []
    _gather(tree, leaves, is_leaf)
    return leaves


def _gather(tree: Any, leaves: list, is_leaf: Callable | None) -> None:
    """Append the leaves of a tree to `leaves`."""
    if (is_leaf is not None and is_leaf(tree)) or (node := definition(tree)) is None:
        leaves.append(tree)
        return
    for child in node.flatten_fn(tree)[0]:
        if is_leaf is None and definition(child) is None:
            leaves.append(child)
        else:
            _gather(child, leaves, is_leaf)


def tree_iter(tree: Any, is_leaf: Callable | None = None) -> Iterator:
    """An iterator over the leaves."""
    if (is_leaf is not None and is_leaf(tree)) or (node := definition(tree)) is None:
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list:
    """The leaves of the arguments of a call, in order."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: Any, is_leaf: Callable | None = None) -> TreeSpec:
    """The form of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """The tree of func(leaf, what stands at the same place in `rests`).

    `rests` have the nodes of `tree`, else ValueError, and may have others below; dicts are matched by their keys.

    >>> tree_map(lambda a, b: (a, b), {"x": 1, "y": 2}, {"y": [3], "x": 4})
    {'x': (1, 4), 'y': (2, [3])}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return tree_unflatten(map(func, leaves, *others), spec)


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """Call `func` for the leaves as `tree_map` does; the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    deque(map(func, leaves, *others), maxlen=0)
    return tree


def _predicate(kind: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of the type, of one of the types, or such that the function holds."""
    if isinstance(kind, type | tuple | types.UnionType):
        return lambda x: isinstance(x, kind)
    if callable(kind):
        return kind
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """A decorator: the function for what is of the type, everything else stays as it is."""
    holds = _predicate(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if holds(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable, tree: Any, is_leaf: Callable | None = None
) -> Any:
    """`tree_map` over the leaves of a type; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable, tree: Any, is_leaf: Callable | None = None
) -> Any:
    """`tree_map_` over the leaves of a type."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """True if the predicate holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """True if the predicate holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable, tree: Any, is_leaf: Callable | None = None
) -> bool:
    """True if the predicate holds for all leaves of a type."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable, tree: Any, is_leaf: Callable | None = None
) -> bool:
    """True if the predicate holds for some leaf of a type."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Callable | None = None
) -> list | None:
    """For each leaf of the structure the leaf of `tree` at its place or above it; None if they do not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.type != _get_node_type(tree):
        return None
    node = definition(tree)
    assert node is not None
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# -- paths -----------------------------------------------------------------------------------------


def tree_flatten_with_path(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """((path, leaf) pairs, form).

    >>> pairs, _ = tree_flatten_with_path({"a": [1, 2]})
    >>> [(keystr(path), leaf) for path, leaf in pairs]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list = []
    return found, _form_with_path(tree, (), found, is_leaf)


def _form_with_path(tree: Any, path: tuple, found: list, is_leaf: Callable | None) -> TreeSpec:
    """As `_form`; (path, leaf) pairs are appended to `found`."""
    if (is_leaf is not None and is_leaf(tree)) or (node := definition(tree)) is None:
        found.append((path, tree))
        return _leaf
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    pairs, context = node.flatten_with_keys_fn(tree)
    parts = [_form_with_path(child, (*path, key), found, is_leaf) for key, child in pairs]
    return TreeSpec(node.type, context, parts)


def tree_leaves_with_path(tree: Any, is_leaf: Callable | None = None) -> list:
    """The (path, leaf) pairs, in order."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None
) -> Any:
    """The tree of func(path, leaf, what stands at the same place in `rests`)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    made = [func(*pair, *each) for pair, *each in zip(pairs, *others, strict=True)]
    return tree_unflatten(made, spec)


# -- structures as text ----------------------------------------------------------------------------


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON, in PyTorch's form; `treespec_loads` reads it."""
    from rushlight.utils._treespec_json import dumps

    return dumps(treespec, protocol)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    from rushlight.utils._treespec_json import loads

    return loads(serialized)


pytree_to_str = treespec_dumps
str_to_pytree = treespec_loads
