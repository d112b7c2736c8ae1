"""`ShapeProp`: runs a graph and notes the shape, dtype and strides of each result."""

from __future__ import annotations

import copy
import traceback
from typing import Any, NamedTuple

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor."""
    found = None
    if include_contiguity:
        formats = (
            rushlight.contiguous_format, rushlight.channels_last, rushlight.channels_last_3d
        )  # fmt: skip
        wanted = {rushlight.channels_last: 4, rushlight.channels_last_3d: 5}
        for memory_format in formats:
            if wanted.get(memory_format, result.dim()) == result.dim() and result.is_contiguous(
                memory_format=memory_format
            ):
                found = memory_format
                break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph on examples; each node gets `meta["tensor_meta"]` and `meta["type"]`.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: x.sum(1))
    >>> _ = ShapeProp(traced).propagate(torch.zeros(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (2,), (2,)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode, self.real_module, self.fake_module = fake_mode, self.module, None
        if fake_mode is not None:
            self.fake_module = self.module = copy.deepcopy(gm)
            self.submodules = dict(self.module.named_modules())
            for module in self.module.modules():
                for kept in (module._parameters, module._buffers):
                    kept |= {n: self._fake(t) for n, t in kept.items()}  # type: ignore[arg-type]

    def _fake(self, value: Any) -> Any:
        return self.fake_mode.from_tensor(value) if isinstance(value, Tensor) else value

    def run_node(self, n: Node) -> Any:
        """Run one node and note what its result is."""
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = False

        def note(obj: Any) -> Any:
            nonlocal found
            if not isinstance(obj, Tensor):
                return obj
            found = True
            return _extract_tensor_metadata(obj)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these inputs, or on fake tensors like them in a mode; returns its result."""
        if self.fake_mode is None:
            return self.run(*args)
        with self.fake_mode:
            return self.run(*map(self._fake, args))
