"""`SubgraphMatcher`: finds the places of a graph where another one, the pattern, stands."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One place: what each node of the pattern is there."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
            list(self.returning_nodes), dict(self.name_node_map),
        )  # fmt: skip


def _attribute(node: Node) -> Any:
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Inputs of the pattern match any value; other nodes match nodes of the same operation and target and equal
    arguments. What the pattern does not return may not be used outside of the place, no node matches twice, and no
    input may need what the place gives.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = (
            [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]
        )

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        a, b = _attribute(pn), _attribute(gn)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return True
        return a.__class__ is b.__class__ and not isinstance(a, Tensor)

    def _nodes_are_equal(self, pn: Node, gn: Node) -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        if pn.op == "call_module" and pn.graph.owning_module and gn.graph.owning_module:
            a, b = _attribute(pn), _attribute(gn)
            return type(a).__name__ == type(b).__name__ and (
                type(a) is type(b) or hasattr(a, "graph")
            )
        return pn.target == gn.target

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        returning = set(self.pattern_returning_nodes)
        inside = {gn for gn in nodes_map.values() if isinstance(gn, Node)}
        for pn, gn in nodes_map.items():
            if pn.op == "placeholder" or pn in returning or not isinstance(gn, Node):
                continue
            if any(user not in inside for user in gn.users):
                return False
        return validate_partition(
            gn for pn, gn in nodes_map.items() if pn.op != "placeholder" and isinstance(gn, Node)
        )

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node):
            if pn.op == "placeholder" and not self.match_placeholder:  # an input may be a number
                if pn in match.nodes_map:
                    return match.nodes_map[pn] == gn
                match.nodes_map[pn] = gn
                return True
            return False
        if isinstance(gn, Node):
            return False
        return self.ignore_literals or (type(pn) is type(gn) and pn == gn)

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if gn in match.nodes_map.values():
            return False
        if not self._nodes_are_equal(pn, gn):
            return False
        saved = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match):
            return True
        match.nodes_map = saved.nodes_map
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch) -> bool:
        if pn.op in ("call_module", "output", "call_method") or len(pn.args) == len(gn.args):
            pairs = [(pn.args, gn.args), (pn.kwargs, gn.kwargs)]
        else:
            from rushlight.fx.operator_schemas import normalize_function

            bound = [
                normalize_function(n.target, n.args, n.kwargs, normalize_to_only_use_kwargs=True)
                for n in (pn, gn)
            ]
            if None in bound:
                return False
            pairs = [(bound[0].kwargs, bound[1].kwargs)]
        return all(self._match_values(a, b, match) for a, b in pairs)

    def _match_values(self, a: Any, b: Any, match: InternalMatch) -> bool:
        """Whether arguments match: nodes by node, containers by element, an input of the pattern anything."""
        if isinstance(a, Node):
            return (self._match_nodes if isinstance(b, Node) else self._match_literals)(a, b, match)
        for kind in (list, tuple):
            if isinstance(a, kind):
                return (
                    isinstance(b, kind)
                    and len(a) == len(b)
                    and all(self._match_values(x, y, match) for x, y in zip(a, b, strict=True))
                )
        if isinstance(a, dict):
            return (
                isinstance(b, dict)
                and a.keys() == b.keys()
                and all(self._match_values(a[k], b[k], match) for k in a)
            )
        if isinstance(a, slice) and isinstance(b, slice):
            parts = ("start", "stop", "step")
            return all(self._match_values(getattr(a, p), getattr(b, p), match) for p in parts)
        return self._match_literals(a, b, match)

    def _without_overlaps(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept, used = [], set()
        for match in matches:
            own = {
                gn for pn, gn in match.nodes_map.items()
                if pn.op not in ("placeholder", "output") and isinstance(gn, Node)
            }  # fmt: skip
            if not own & used:
                kept.append(match)
                used |= own
        return kept

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places where the pattern stands; later ones first."""
        candidates: list[tuple[Node, list[Node]]] = []
        for anchor in self.pattern_anchors:
            found = [n for n in graph.nodes if self._nodes_are_equal(anchor, n)]
            if node_name_match:
                found = [n for n in found if node_name_match in n.name]
            candidates.append((anchor, found))
        matches: list[InternalMatch] = []

        def search(index: int, match: InternalMatch) -> None:
            if index == len(candidates):
                match.placeholder_nodes = [
                    match.nodes_map[p] for p in self.pattern_placeholder_nodes
                    if p in match.nodes_map
                ]  # fmt: skip
                match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
                matches.append(match)
                return
            anchor, nodes = candidates[index]
            for node in nodes:
                attempt = copy.copy(match)
                if self._match_nodes(anchor, node, attempt):
                    search(index + 1, attempt)

        search(0, InternalMatch(anchors=self.pattern_anchors))
        seen = set()
        distinct = []
        for match in matches:
            key = frozenset((p, id(g)) for p, g in match.nodes_map.items())
            if key not in seen and self._is_contained(match.nodes_map):
                seen.add(key)
                distinct.append(match)
        return self._without_overlaps(distinct) if self.remove_overlapping_matches else distinct
