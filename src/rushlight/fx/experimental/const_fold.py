"""`split_const_subgraphs`: what depends on no input is computed once and kept as an attribute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.nn import Module, Parameter

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module that computes its constant part at the first call, or at `run_folding()`."""

    def __init__(
        self, root: Module, graph: Graph, const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: str = "cuda",
    ) -> None:  # fmt: skip
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants, which the graph then reads."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("the constants are computed already")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()
        several = isinstance(folded, (tuple, list))
        values = [_as_parameter(v) for v in (folded if several else (folded,))]
        made = rushlight.nn.ParameterList(values) if several else values[0]
        setattr(self, self.fx_const_folded_attrs_name, made)


def _as_parameter(value: Tensor) -> Parameter:
    if isinstance(value, Parameter):
        return value
    return Parameter(value.detach(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name of an attribute that the module does not have, like `name`."""
    made = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    made = f"_{made}" if made[0].isdigit() else made
    while hasattr(mod_traced, made):
        stem, _, number = made.rpartition("_")
        made = f"{stem}_{int(number) + 1}" if stem and number.isdigit() else f"{made}_1"
    return made


def _constant_nodes(
    traced: GraphModule, skip: Callable[[Node], bool] | None
) -> tuple[dict[Node, None], bool]:
    """(the nodes that depend on no input, whether one of them computes something)."""
    found: dict[Node, None] = {}
    any_computed = False
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not set(node.all_input_nodes) <= found.keys():
            continue
        if skip is not None and skip(node):
            continue
        if node.is_impure():
            continue
        name = getattr(node.target, "__name__", str(node.target))
        if name in ("rand", "randn", "randint", "randperm", "dropout", "bernoulli"):
            continue
        found.setdefault(node)
        any_computed |= node.op != "get_attr"
    return found, any_computed


def split_const_subgraphs(
    module: Module | GraphModule, skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:  # fmt: skip
    """A module in which what depends on no input is an attribute that is computed once."""
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant, any_computed = _constant_nodes(traced, skip_folding_node_fn)
    if not any_computed:
        return FoldedGraphModule(traced, traced.graph)
    results = [
        node for node in constant
        if node.op != "get_attr" and any(user not in constant for user in node.users)
    ]  # fmt: skip
    if not results:
        return FoldedGraphModule(traced, traced.graph)
    inner = Graph(owning_module=traced)
    copies: dict[Node, Node] = {}
    for node in constant:
        copies[node] = inner.node_copy(node, lambda n: copies[n])
    outputs = tuple(copies[node] for node in results)
    inner.output(outputs[0] if len(outputs) == 1 else outputs)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    _replace_by_attributes(traced, results, constant, name)
    inner.eliminate_dead_code()
    return FoldedGraphModule(traced, traced.graph, inner, name, device_for_folded_attrs)


def _replace_by_attributes(
    traced: GraphModule, results: list[Node], constant: dict[Node, None], name: str
) -> None:
    """Read the constants from the attribute `name` in the graph of `traced`."""
    graph = traced.graph
    single = len(results) == 1
    setattr(traced, name, Parameter(rushlight.zeros(1)) if single else rushlight.nn.ParameterList())
    first = next(iter(graph.nodes))
    for node in graph.nodes:
        if node.op != "placeholder":
            first = node
            break
    with graph.inserting_before(first):
        whole = graph.get_attr(name)
    if single:
        whole.meta.update(results[0].meta)
    for i, node in enumerate(results):
        new = whole
        if not single:
            with graph.inserting_before(node):
                new = graph.call_function(operator.getitem, (whole, i))
            new.meta.update(node.meta)
        node.replace_all_uses_with(new, lambda user: user not in constant)
    for node in reversed(list(constant)):
        if not node.users:
            graph.erase_node(node)
    traced.recompile()
