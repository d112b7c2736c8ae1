"""`CapabilityBasedPartitioner`: finds the largest parts of a graph that another program can run, and fuses them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.names import qualified_name
from rushlight.fx.node import Node
from rushlight.fx.passes.operator_support import OperatorSupportBase
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions, topo_sort

__all__ = ["CapabilityBasedPartitioner", "Partition"]

_NOT_COMPUTING = frozenset({"torch.ops.aten.view", "_operator.getitem"})


class Partition:
    """Nodes that are to become one; each may have a number that orders them."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None,
    ) -> None:  # fmt: skip
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())
        if nodes is not None and node_orders is not None:
            self.nodes = dict(zip(self.nodes, node_orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of nodes."""
        return len(self.nodes)


class _Grouping:
    """Nodes in groups, each of which is to become one node, so that no cycle comes about.

    A set of nodes is an integer with a bit for each node. `below[i]` is node i and all that needs its value, where
    a group needs what any of its nodes needs. With `only_neighbours` groups join only where one needs the other.
    """

    def __init__(self, nodes: Sequence[Node], only_neighbours: bool) -> None:
        self.position = {node: i for i, node in enumerate(nodes)}
        self.users = [0] * len(nodes)  # direct ones
        self.below = [1 << i for i in range(len(nodes))]
        for i in reversed(range(len(nodes))):
            for user in nodes[i].users:
                self.users[i] |= 1 << self.position[user]
                self.below[i] |= self.below[self.position[user]]
        self.only_neighbours = only_neighbours
        self.groups: list[list[int]] = []  # in the order in which they are tried

    @staticmethod
    def _bits(members: Iterable[int]) -> int:
        return sum(1 << i for i in members)

    def _makes_a_cycle(self, members: list[int], inside: int) -> bool:
        outside = 0
        for i in members:
            outside |= self.users[i]
        outside &= ~inside
        while outside:
            last = outside.bit_length() - 1
            if self.below[last] & inside:
                return True
            outside ^= 1 << last
        return False

    def _are_linked(self, a: list[int], b: list[int]) -> bool:
        bits_a, bits_b = self._bits(a), self._bits(b)
        return any(self.users[i] & bits_b for i in a) or any(self.users[i] & bits_a for i in b)

    def add(self, node: Node) -> None:
        """Put a node into a group of its own, then join every group with it that makes no cycle."""
        own = [self.position[node]]
        kept = []
        joined = False
        for other in self.groups:
            both = own + other
            inside = self._bits(both)
            linked = not self.only_neighbours or self._are_linked(own, other)
            if linked and not self._makes_a_cycle(both, inside):
                own, joined = both, True
            else:
                kept.append(other)
        key = min if self.only_neighbours else max  # groups stand by their first or last nodes
        self.groups = sorted([*kept, own], key=key, reverse=True)
        if joined:
            inside, below = self._bits(own), 0
            for i in own:
                below |= self.below[i]
            self.below = [b | below if b & inside else b for b in self.below]


class CapabilityBasedPartitioner:
    """Parts of a graph whose nodes are all supported, and which can each become one node.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.operator_support import OperatorSupport
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.neg(torch.relu(x + 1) * 2))
    >>> support = OperatorSupport({"_operator.add": None, "torch.relu": None, "_operator.mul": None})
    >>> fused = CapabilityBasedPartitioner(gm, support).partition_and_fuse()
    >>> [node.name for node in fused.graph.nodes]
    ['x', 'fused_0', 'neg', 'output']
    """

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None, skip_horizontal_fusion: bool = False,
    ) -> None:  # fmt: skip
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self._submodules = dict(graph_module.named_modules())

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(self._submodules, node)

    def propose_partitions(self) -> list[Partition]:
        """The parts, the last ones first; those with one operation only if that is allowed."""
        nodes = list(self.graph_module.graph.nodes)
        supported = [
            n for n in nodes
            if n.op not in ("placeholder", "output") and self._is_node_supported(n)
        ]  # fmt: skip
        grouping = _Grouping(nodes, self.skip_horizontal_fusion)
        for node in reversed(supported):
            grouping.add(node)
        order = {node: len(nodes) - 1 - i for i, node in enumerate(nodes)}
        groups = [[nodes[i] for i in sorted(group)] for group in grouping.groups]
        partitions = [
            Partition(i, group, [order[n] for n in group]) for i, group in enumerate(groups)
        ]  # fmt: skip
        self._move_elements_to_their_tuples(partitions, nodes)
        return [p for p in partitions if p.nodes and self._is_worth_it(p)]

    def _move_elements_to_their_tuples(
        self, partitions: list[Partition], nodes: list[Node]
    ) -> None:
        """Where all that uses a node takes elements of it, the elements go where the node is: in its part or in none."""
        home = {node: p for p in partitions for node in p.nodes}
        for node in nodes:
            if not node.users or any(
                _name_of_call(user) != "_operator.getitem" for user in node.users
            ):
                continue  # fmt: skip
            new = home.get(node)
            for user in node.users:
                old = home.pop(user, None)
                number = None
                if old is not None:
                    number = old.nodes[user]
                    old.remove_node(user)
                if new is not None:
                    new.add_node(user, number)
                    home[user] = new

    def _is_worth_it(self, partition: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        names = [name for n in partition.nodes if (name := _name_of_call(n)) is not None]
        if any(name in self.allowed_single_node_partition_ops for name in names):
            return True
        return sum(name not in _NOT_COMPUTING | {*self.non_compute_ops} for name in names) > 1

    def fuse_partitions(
        self, partitions: Sequence[Partition], prefix: str = "fused_"
    ) -> GraphModule:
        """Make each part a submodule, and return the module of the graph."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: Sequence[Partition]) -> None:
        """Take out of each part the nodes of `non_compute_ops` with no other operation before or none after them."""
        for partition in partitions:
            moving = {n for n in partition.nodes if _name_of_call(n) in self.non_compute_ops}
            for at_border in (
                _reached_through(partition, moving, forwards=True),
                _reached_through(partition, moving, forwards=False),
            ):
                for node in at_border:
                    if node in partition.nodes:
                        partition.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Find the parts and fuse them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _name_of_call(node: Node) -> str | None:
    return qualified_name(node.target) if node.op == "call_function" else None


def _reached_through(partition: Partition, moving: set[Node], *, forwards: bool) -> set[Node]:
    """Those of `moving` that have only such nodes of the part before them (or, not `forwards`, after them)."""
    reached: set[Node] = set()
    order = topo_sort(partition.nodes)
    for node in order if forwards else reversed(order):
        near = node.all_input_nodes if forwards else node.users
        if node in moving and all(n in reached or n not in partition.nodes for n in near):
            reached.add(node)
    return reached
