"""`FakeTensorProp`: runs a graph on fake tensors, without computing anything."""

from __future__ import annotations

from typing import Any

from rushlight._subclasses.fake_tensor import FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph with tensors that have no memory; each node gets its value as `meta["val"]`.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: x @ x.t())
    >>> FakeTensorProp(traced).propagate(torch.zeros(2, 3))
    FakeTensor(..., size=(2, 2))
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def _fake(self, value: Any) -> Any:
        return self._mode.from_tensor(value) if isinstance(value, Tensor) else value

    def run_node(self, n: Node) -> Any:
        """The fake value of one node, which notes it."""
        result = map_aggregate(super().run_node(n), self._fake)
        known = map_aggregate(
            result, lambda v: v if isinstance(v, (Tensor, bool, int, float)) else None
        )
        if known is not None:
            n.meta["val"] = known
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake tensors like the arguments."""
        return self.propagate_dont_convert_inputs(*map(self._fake, args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on arguments that are fake already."""
        with self._mode:
            return self.run(*args)
