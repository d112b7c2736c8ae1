"""Fusing: some nodes of a graph become a graph module of their own, which the graph calls instead."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.tools_common import stable_topological_sort

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: Collection[Node]) -> list[Node]:
    """These nodes in an order in which each stands after those of its arguments that are among them."""
    missing = {node: sum(arg in nodes for arg in node.all_input_nodes) for node in nodes}
    order = [node for node in nodes if not missing[node]]
    for node in order:  # which grows
        for user in node.users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    order.append(user)
    if len(order) != len(nodes):
        raise AssertionError(
            f"topological sorted nodes doesn't have same length as input nodes: {len(order)} of {len(nodes)}"
        )
    return order


def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether the nodes can become one: no value that leaves them comes back by way of other nodes."""
    inside = set(partition)
    seen = {user for node in inside for user in node.users if user not in inside}
    pending = list(seen)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True


def fuse_as_graphmodule(
    gm: GraphModule, nodes: Sequence[Node], module_name: str,
    partition_lookup_table: Mapping[Node, int | None] | None = None, *, always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:  # fmt: skip
    """A module of its own that computes `nodes`, which are sorted; with the nodes that it takes and gives.

    `gm` stays as it is. The module returns a tuple if it gives several values, or if `always_return_tuple`.
    """
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(inside):
        raise AssertionError(f"Invalid partition, found dependency cycles: {list(nodes)}")
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Node] = []

    def copy_of(arg: Node) -> Node:
        if arg not in copies:  # a value from outside
            inputs.append(arg)
            copies[arg] = graph.placeholder(arg.name, type_expr=arg.type)
            copies[arg].meta = arg.meta.copy()
        return copies[arg]

    for node in nodes:
        for arg in node.all_input_nodes:
            if arg not in copies and arg in inside:
                raise AssertionError(f"nodes are not sorted: {node} stands before {arg}")
        copies[node] = graph.node_copy(node, copy_of)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    given = tuple(copies[node] for node in outputs)
    graph.output(given[0] if len(given) == 1 and not always_return_tuple else given)
    graph.lint()
    return GraphModule(gm, graph, class_name=module_name), tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: Sequence[Node], orig_outputs: Sequence[Node],
    insertion_point: Node | None = None,
) -> GraphModule:  # fmt: skip
    """Call `sub_gm` with `orig_inputs`, and use what it gives in place of `orig_outputs`.

    The call stands after `insertion_point`: by default after the last of the values that it replaces.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    after = insertion_point if insertion_point is not None else max(orig_outputs, default=None)
    before = gm.graph.output_node() if after is None else after.next
    returned = sub_gm.graph.output_node().args[0]
    with gm.graph.inserting_before(before):
        call = gm.graph.call_module(name, args=tuple(orig_inputs))
        if not isinstance(returned, tuple):
            orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
            return gm
        for index, old in enumerate(orig_outputs):
            new = gm.graph.call_function(operator.getitem, (call, index))
            old.replace_all_uses_with(new, propagate_meta=True)
    values: tuple[Any, ...] = tuple(old.meta.get("val") for old in orig_outputs)
    call.meta["val"] = values
    return gm


def erase_nodes(gm: GraphModule, nodes: Sequence[Node]) -> None:
    """Erase nodes, which are sorted, the last one first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: Iterable[Collection[Node]], prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:  # fmt: skip
    """Put the nodes of each partition into a submodule `fused_0`, `fused_1`..., and return `gm`.

    >>> import rushlight as torch
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) * 2)
    >>> _, add, relu, _, _ = gm.graph.nodes
    >>> fuse_by_partitions(gm, [[add, relu]])(torch.tensor([-3.0, 1.0]))
    tensor([0., 4.])
    >>> [node.name for node in gm.graph.nodes]
    ['x', 'fused_0', 'mul', 'output']
    """
    for index, partition in enumerate(partitions):
        nodes = topo_sort(partition)
        sub_gm, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{index}", dict.fromkeys(nodes), always_return_tuple=always_return_tuple
        )  # fmt: skip
        insert_subgm(gm, sub_gm, inputs, outputs)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
