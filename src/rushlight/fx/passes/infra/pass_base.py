"""`PassBase`: a pass with checks before and after it."""

from __future__ import annotations

import abc
from typing import NamedTuple

from rushlight.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module that a pass gives, and whether the pass changed anything."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: subclasses have `call(graph_module)`, which returns a PassResult."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change or replace the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise if the module is not what the pass takes."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise if the module is not what the pass promises."""
