"""`split_module`: cuts a graph into submodules."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.nn import Module

__all__ = ["Partition", "split_module"]


@dataclass
class Partition:
    """One submodule: its nodes, the values it takes and gives, the partitions that it needs."""

    name: str
    submod_name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)


def _attribute(root: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(root, part):
            raise AttributeError(f"Operator target {path} not found!")
        root = getattr(root, part)
    return root


def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None, keep_original_order: bool = False,
    keep_original_node_name: bool = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None,
) -> GraphModule:  # fmt: skip
    """A module that calls `submod_0`, `submod_1`...; `split_callback(node)` says which one a node goes to.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(torch.neg(x)))
    >>> split = split_module(traced, torch.nn.Module(), lambda node: int(node.name == "relu"))
    >>> [name for name, _ in split.named_children()]
    ['submod_0', 'submod_1']
    """
    affix = "submod" if partition_affix is None else f"submod_{partition_affix}"
    partitions: dict[str, Partition] = {}
    home: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        partition = partitions.setdefault(name, Partition(name, f"{affix}_{name}"))
        partition.nodes.append(node)
        home[node] = name
    for node in m.graph.nodes:
        for used in node.all_input_nodes:
            _note_use(used, node, home, partitions)
    order = list(partitions) if keep_original_order else _sorted(partitions)
    for name in order:
        _fill(
            partitions[name],
            root_m,
            qualname_map,
            keep_original_node_name,
            keep_original_input_name,
        )
    return _assemble(m, root_m, [partitions[name] for name in order])


def _note_use(
    used: Node, user: Node, home: dict[Node, str], partitions: dict[str, Partition]
) -> None:
    source, target = home.get(used), home.get(user)
    if source == target:
        return
    if source is not None:
        partitions[source].outputs.setdefault(used)
    if target is not None:
        partitions[target].inputs.setdefault(used)
        if source is not None:
            partitions[target].dependencies.setdefault(source)


def _sorted(partitions: dict[str, Partition]) -> list[str]:
    """The partitions, each after those that it needs."""
    done: dict[str, None] = {}
    while len(done) < len(partitions):
        free = [
            n
            for n, p in partitions.items()
            if n not in done and p.dependencies.keys() <= done.keys()
        ]
        if not free:
            raise RuntimeError("cycle exists between partitions!")
        done.setdefault(free[0])
    return list(done)


def _fill(
    partition: Partition, root: Module, qualname_map: dict[str, str] | None, keep_names: bool,
    keep_input_names: bool,
) -> None:  # fmt: skip
    """Copy the nodes of a partition into its graph."""
    graph, environment = partition.graph, partition.environment
    for i, node in enumerate(partition.inputs):
        name = node.name if keep_input_names else f"arg_{i}"
        environment[node] = graph.placeholder(name, type_expr=node.type)
        environment[node].meta = node.meta.copy()
    for node in partition.nodes:
        target = node.target
        if node.op in ("call_module", "get_attr"):
            target = str(target).replace(".", "_")
            partition.targets[target] = _attribute(root, str(node.target))
            if qualname_map is not None:
                qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
        args = map_arg(node.args, lambda n: environment[n])
        kwargs = map_arg(node.kwargs, lambda n: environment[n])
        made = graph.create_node(
            node.op, target, args, dict(kwargs), node.name if keep_names else None, node.type
        )
        made.meta = node.meta.copy()
        environment[node] = made
    outputs = tuple(environment[node] for node in partition.outputs)
    if outputs:
        graph.output(outputs[0] if len(outputs) == 1 else outputs)
    else:
        graph.output(())


def _assemble(m: GraphModule, root: Module, partitions: list[Partition]) -> GraphModule:
    """The graph that calls the partitions."""
    graph, values = Graph(), {}
    attributes: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            values[node] = graph.placeholder(str(node.target), node.type, default)
            values[node].meta = node.meta.copy()
        elif node.op == "get_attr":
            values[node] = graph.get_attr(str(node.target))
            values[node].meta = node.meta.copy()
            attributes[str(node.target)] = _attribute(root, str(node.target))
    for partition in partitions:
        attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        called = graph.call_module(
            partition.submod_name, tuple(values[node] for node in partition.inputs)
        )
        if len(partition.outputs) == 1:
            values[next(iter(partition.outputs))] = called
            continue
        for i, node in enumerate(partition.outputs):
            values[node] = graph.call_function(operator.getitem, (called, i))
            values[node].meta = node.meta.copy()
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(
                map_arg(node.args[0], lambda n: values[n]), node.type
            ).meta = node.meta.copy()
    made = GraphModule(attributes, graph)
    made.meta = dict(getattr(m, "meta", {}))
    return made
