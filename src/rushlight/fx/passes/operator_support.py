"""What says which nodes of a graph another program can run: `OperatorSupport`, and ways to put several together."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.dtypes import dtype
from rushlight.fx.node import Node
from rushlight.fx.passes.shape_prop import TensorMetadata
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from rushlight.nn import Module

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]

Submodules = Mapping[str, Module]
Dtypes = Sequence[dtype]
Accepted = tuple[Sequence[Dtypes], Mapping[str, Dtypes]]


class OperatorSupportBase(abc.ABC):
    """Says which nodes are supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Submodules, node: Node) -> bool:
        """Whether `node` is supported; `submodules` are those of its graph's module, by their paths."""


def _dtype_of(node: Node) -> dtype | None:
    found = node.meta.get("tensor_meta")
    return found.dtype if isinstance(found, TensorMetadata) else None


class OperatorSupport(OperatorSupportBase):
    """Supports the targets in a table: None for any arguments, else the dtypes of each argument.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> support = OperatorSupport({"torch.relu": None})
    >>> [n.name for n in traced.graph.nodes if n.op == "call_function" and support.is_node_supported({}, n)]
    ['relu']
    """

    def __init__(self, support_dict: Mapping[str, Accepted | None] | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Submodules, node: Node) -> bool:
        """Whether the table has the target of `node` with these dtypes; what calls nothing is supported."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        accepted = self._support_dict[target]
        if accepted is None:
            return True
        by_position, by_name = accepted
        given: list[tuple[Any, Dtypes]] = list(zip(node.args, by_position, strict=False))
        given += [(node.kwargs[name], by_name[name]) for name in by_name if name in node.kwargs]
        return all(_dtype_of(arg) in dtypes for arg, dtypes in given if isinstance(arg, Node))


class _FromFunction(OperatorSupportBase):
    """Asks a function."""

    def __init__(self, is_node_supported: Callable[[Submodules, Node], bool]) -> None:
        self._function = is_node_supported

    def is_node_supported(self, submodules: Submodules, node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(
    is_node_supported: Callable[[Submodules, Node], bool],
) -> OperatorSupportBase:
    """What supports the nodes for which the function is true."""
    return _FromFunction(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What supports the nodes that all of these support."""
    return create_op_support(
        lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What supports the nodes that one of these supports."""
    return create_op_support(
        lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support)
    )


class OpSupports:
    """Ready-made ones, to be put together with `chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: dtype) -> OperatorSupportBase:
        """What supports the nodes none of whose inputs has the dtype."""
        return create_op_support(
            lambda _, node: all(_dtype_of(arg) != dtype for arg in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """What supports the nodes of other names."""
        return create_op_support(lambda _, node: node.name not in disallow_set)
