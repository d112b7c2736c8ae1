"""`torch.fx.replace_pattern`: subgraphs that look like a pattern are replaced by another subgraph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from rushlight.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place that was replaced: its last node, and {node of the pattern: node of the graph}."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, with the nodes that stand there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copy from the replacement what the new nodes name and the module lacks; remove what none names any more."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path = str(node.target)
        if _at(gm, path) is not _NONE:
            continue
        value = _at(replacement, path)
        if value is _NONE:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {path}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        prefix, _, name = path.rpartition(".")
        owner: Any = gm
        for part in prefix.split(".") if prefix else ():
            if not hasattr(owner, part):
                setattr(owner, part, Module())
            owner = getattr(owner, part)
        setattr(owner, name, copy.deepcopy(value))
    gm.graph.lint()


_NONE = object()


def _at(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, _NONE)
        if module is _NONE:
            return _NONE
    return module


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule
) -> list[Match]:
    """Replace every place in `gm` that looks like `pattern`, a function or module, by `replacement`.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(torch.neg(x)))
    >>> len(replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.tanh(x)))
    1
    >>> [str(node) for node in traced.graph.nodes]
    ['x', 'neg', 'tanh', 'output']
    """
    replaced = _replace(gm, pattern, replacement)
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map) for m in replaced]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Callable | Graph | GraphModule,
    replacement: Callable | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """`replace_pattern` at the places for which each filter, of (match, graph, pattern's graph), is true."""
    return _replace(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
        node_name_match,
    )  # fmt: skip


def _graph_of(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace(
    gm: GraphModule, pattern: Any, replacement: Any, match_filters: Any = None,
    ignore_literals: bool = False, replacement_callback: Any = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    graph, filters = gm.graph, match_filters or []
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        m for m in matcher.match(graph, node_name_match)
        if all(f(m, graph, pattern_graph) for f in filters)
    ]  # fmt: skip
    common = _graph_of(replacement) if replacement is not None else None
    if common is None and replacement_callback is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement callback")
    replaced_by: dict[Node, Node] = {}
    made = []
    for match in matches:
        new = common if common is not None else replacement_callback(match, graph, pattern_graph)
        made.append(_replace_one(graph, match, pattern_graph, new, replaced_by))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return made


def _replace_one(
    graph: Graph, match: InternalMatch, pattern: Graph, replacement: Graph,
    replaced_by: dict[Node, Node],
) -> ReplacedPatterns:  # fmt: skip
    inputs = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            "the replacement must have as many inputs as the pattern: "
            f"{len(inputs)} and {len(match.placeholder_nodes)}"
        )
    values: dict[Node, Any] = {}
    for node, value in zip(inputs, match.placeholder_nodes, strict=True):
        while isinstance(value, Node) and value in replaced_by:
            value = replaced_by[value]
        values[node] = value
    with graph.inserting_before(_first_user(graph, match)):
        result = graph.graph_copy(replacement, values)
    outputs = [result] if isinstance(result, Node) else list(result)
    if len(outputs) != len(match.returning_nodes):
        raise AssertionError(
            "the replacement must return as many values as the pattern: "
            f"{len(outputs)} and {len(match.returning_nodes)}"
        )
    new_nodes = [values[n] for n in replacement.nodes if n in values and n.op != "placeholder"]
    for old, new in zip(match.returning_nodes, outputs, strict=True):
        old.replace_all_uses_with(new)
        replaced_by[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output") and node in match.nodes_map:
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, new_nodes)


def _first_user(graph: Graph, match: InternalMatch) -> Node:
    """The first node that uses a result of the place: there the replacement goes."""
    users = {user for node in match.returning_nodes for user in node.users}
    users -= {node for node in match.nodes_map.values() if isinstance(node, Node)}
    return next((n for n in graph.nodes if n in users), None) or graph.output_node()
