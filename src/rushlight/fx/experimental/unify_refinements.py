"""`infer_symbolic_types`: sizes that are not known become symbols, equal ones the same."""

from __future__ import annotations

from typing import Any

from rushlight.fx.experimental.graph_gradual_typechecker import Refine
from rushlight.fx.experimental.refinement_types import Equality
from rushlight.fx.graph import Graph
from rushlight.fx.tensor_type import TensorType

__all__ = [
    "check_for_type_equality", "infer_symbolic_types", "infer_symbolic_types_single_pass",
    "substitute_all_types", "substitute_solution_one_type", "unify_eq",
]  # fmt: skip


def infer_symbolic_types(traced: Any) -> None:
    """Give the nodes of a graph that is type checked sizes in symbols, and in expressions of them (sympy's)."""
    infer_symbolic_types_single_pass(traced)
    infer_symbolic_types_single_pass(traced)  # what is equal now says more of the sums
    Refine(traced).symbolic_relations()


def infer_symbolic_types_single_pass(traced: Any) -> None:
    """Put the solution of a graph's equalities into its types."""
    refined = Refine(traced)
    refined.refine()
    substitute_all_types(traced.graph, unify_eq(refined.constraints))


def unify_eq(list_of_eq: list[Equality]) -> dict:
    """{symbol: what it is} by which all equalities hold; TypeError if there is none."""
    solution: dict = {}
    for equality in list_of_eq:
        a, b = (
            substitute_solution_one_type(solution, side) for side in (equality.lhs, equality.rhs)
        )
        if a == b:
            continue
        if getattr(a, "is_Symbol", False):
            solution[a] = b
        elif getattr(b, "is_Symbol", False):
            solution[b] = a
        elif isinstance(a, int) and isinstance(b, int):
            raise TypeError("No unification")
    return solution


def substitute_solution_one_type(mapping: dict, t: Any) -> Any:
    """A type with symbols replaced, also those in what replaces them."""
    if isinstance(t, TensorType):
        sizes = (substitute_solution_one_type(mapping, size) for size in t.__args__)
        return TensorType(tuple(sizes))
    if isinstance(t, (list, tuple)):
        return type(t)(substitute_solution_one_type(mapping, each) for each in t)
    while getattr(t, "free_symbols", None) and not mapping.keys().isdisjoint(t.free_symbols):
        new = t.subs(mapping)
        t = int(new) if new.is_Integer else new
    return t


def substitute_all_types(graph: Graph, mapping: dict) -> None:
    """Replace symbols in the types of all nodes."""
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether the nodes of two graphs have equal types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes, strict=True))
