"""`FxGraphDrawer`: a graph as a graph of pydot."""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.names import target_name
from rushlight.fx.node import Node

__all__ = ["FxGraphDrawer"]

_COLOURS = {
    "placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2",
    "get_attr": "LightGrey", "output": "PowderBlue",
}  # fmt: skip


class FxGraphDrawer:
    """Draws a graph; `get_dot_graph().write_svg("graph.svg")`. It needs the package pydot."""

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:  # fmt: skip
        try:
            import pydot
        except ImportError as error:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            ) from error
        self._name, self._shape = name, dot_graph_shape or "record"
        self._pydot = pydot
        self._ignored = {"get_attr"} if ignore_getattr else set()
        self._dot_graphs = {name: self._drawn(graph_module)}

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The graph of pydot."""
        return self._dot_graphs[submod_name or self._name]

    def get_main_dot_graph(self) -> Any:
        """The graph of pydot."""
        return self._dot_graphs[self._name]

    def _label(self, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}", f"target={target_name(node.target)}"]
        meta = node.meta.get("tensor_meta")
        if hasattr(meta, "shape"):
            lines.append(f"shape={tuple(meta.shape)}, dtype={meta.dtype}")
        lines.append(f"num_users={len(node.users)}")
        text = "|".join(lines)
        for sign in "<>{}":
            text = text.replace(sign, "\\" + sign)
        return "{" + text + "}"

    def _drawn(self, graph_module: GraphModule) -> Any:
        drawn = self._pydot.Dot(self._name, rankdir="TB")
        for node in graph_module.graph.nodes:
            if node.op in self._ignored:
                continue
            colour = _COLOURS.get(node.op, "Beige")
            drawn.add_node(
                self._pydot.Node(
                    node.name,
                    label=self._label(node),
                    shape=self._shape,
                    fillcolor=colour,
                    style='"filled,rounded"',
                    fontcolor="#000000",
                )
            )
            for user in node.users:
                drawn.add_edge(self._pydot.Edge(node.name, user.name))
        return drawn
