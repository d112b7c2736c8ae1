"""Trees flattened by the shape that they are expected to have: the inputs of modules traced with trees."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

from rushlight.utils._pytree import TreeSpec, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

# type -> (children in the order of a spec's context, whether the tree has exactly as many)
_FLATTEN: dict[type, tuple[Callable[[Any, TreeSpec], list], Callable[[Any, TreeSpec], bool] | None]]
_FLATTEN = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[[Any, TreeSpec], list],
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Set how a tree of class `cls` is flattened to fit a spec."""
    _FLATTEN[cls] = (flatten_fn_spec, flatten_fn_exact_match_spec)


def tree_flatten_spec(pytree: Any, spec: TreeSpec, exact_structural_match: bool = False) -> list:
    """The leaves of `pytree` at the places where `spec` has leaves."""
    if spec.is_leaf():
        return [pytree]
    found = _FLATTEN.get(tuple if spec.type is namedtuple else spec.type)
    if found is None:  # of a class that was registered as a node alone
        leaves, real = tree_flatten(pytree)
        if real != spec:
            raise RuntimeError(
                f"Real spec {real} of object {pytree} is different from expected spec {spec}."
            )
        return leaves
    children, exact = found
    parts = children(pytree, spec)
    if exact_structural_match and exact is not None and not exact(pytree, spec):
        raise RuntimeError(f"Cannot flatten pytree {pytree}, given spec: {spec}")
    return [
        leaf
        for child, child_spec in zip(parts, spec.children_specs, strict=False)
        for leaf in tree_flatten_spec(child, child_spec, exact_structural_match)
    ]


def _same_length(tree: Any, spec: TreeSpec) -> bool:
    return len(tree) == len(spec.children_specs)


def _by_key(tree: Any, spec: TreeSpec) -> list:
    return [tree[key] for key in spec.context]


def _in_order(tree: Any, spec: TreeSpec) -> list:
    return [tree[i] for i in range(len(spec.children_specs))]


for _cls in (dict, OrderedDict):
    register_pytree_flatten_spec(_cls, _by_key, _same_length)
for _cls in (list, tuple):
    register_pytree_flatten_spec(_cls, _in_order, _same_length)
