"""Builds a graph of ONNX node by node from an exported program."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.node import Node, map_arg

__all__ = ["CONVERSIONS", "Builder", "OnnxExporterError", "Operand", "conversion"]


class OnnxExporterError(RuntimeError):
    """What an exporter raises."""


_PACKED = frozenset("lstm gru rnn_tanh rnn_relu _pad_packed_sequence dropout new_zeros".split())
CONVERSIONS: dict[
    str, Callable
] = {}  # name of an operator of ATen -> function of a builder and its arguments


def conversion(*names: str) -> Callable:
    """A decorator: the function converts calls of these operators of ATen.

    It gets the builder and the arguments of the call, `Operand`s in place of tensors, and returns one, or a list of them.
    """

    def register(function: Callable) -> Callable:
        CONVERSIONS.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Operand:
    """A value of the graph of ONNX: its name there, and what is known of it.

    `shape`: None for dimensions that are dynamic. A size is an operand without dimensions. `lengths`: of a packed
    sequence, which stands in the graph padded, [time, batch, width].
    """

    name: str
    dtype: Any
    shape: tuple[int | None, ...]
    lengths: Operand | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


class Builder:
    """`nodes` and `initializers` are what was added; `result` is what is known of the call that is converted."""

    def __init__(self, onnx: Any, opset: int, custom: dict[Any, Callable]) -> None:
        self.onnx, self.opset, self.custom = onnx, opset, custom
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.names: set[str] = set()
        self.result: Any = None
        self.sizes = False
        self._constants: dict[Any, Operand] = {}
        self._at = ""

    # -- names and constants

    def fresh(self, base: str) -> str:
        """A name that no value has."""
        name, n = base, 0
        while name in self.names:
            n += 1
            name = f"{base}_{n}"
        self.names.add(name)
        return name

    def initializer(self, name: str, array: np.ndarray) -> str:
        """A tensor that is part of the file."""
        name = self.fresh(name)
        self.initializers[name] = self.onnx.numpy_helper.from_array(
            np.ascontiguousarray(array).reshape(array.shape), name
        )
        return name

    def constant(self, value: Any, dtype: Any = None) -> Operand:
        """A number, a list of numbers or an array as an operand; int64 unless `dtype` says otherwise."""
        dtype = rushlight.int64 if dtype is None else dtype
        array = np.asarray(value, dtype=dtype.np)
        key = (array.tobytes(), array.shape, array.dtype)
        if key not in self._constants:
            name = self.initializer("constant", array)
            self._constants[key] = Operand(name, dtype, array.shape)
        return self._constants[key]

    def type_of(self, dtype: Any) -> int:
        """ONNX's number of a dtype."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.np))

    # -- nodes

    def op(
        self,
        kind: str,
        *inputs: Any,
        dtype: Any = None,
        shape: Any = None,
        outputs: int = 1,
        **attributes: Any,
    ) -> Any:
        """Add a node. `dtype` and `shape` are those of its results: those of the first input, unless given."""
        names = ["" if x is None else self.operand(x).name for x in inputs]
        first = next((x for x in inputs if isinstance(x, Operand)), None)
        made = [
            Operand(
                self.fresh(f"{self._at}.{kind}"),
                dtype or (first.dtype if first else rushlight.float32),
                shape if shape is not None else (first.shape if first else ()),
            )
            for _ in range(outputs)
        ]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        node = self.onnx.helper.make_node(
            kind, names, [m.name for m in made], name=made[0].name, **attributes
        )
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def operand(self, value: Any, dtype: Any = None) -> Operand:
        """A value as an operand, in a dtype if one is given. A list of sizes is a vector."""
        if isinstance(value, Operand):
            return value if dtype is None else self.cast(value, dtype)
        if isinstance(value, (list, tuple)) and any(isinstance(v, Operand) for v in value):
            parts = [self.op("Unsqueeze", self.operand(v), [0], shape=(1,)) for v in value]
            return self.op("Concat", *parts, axis=0, shape=(len(value),))
        if dtype is None and isinstance(value, (float, bool)):
            dtype = rushlight.float32 if isinstance(value, float) else rushlight.bool
        return self.constant(value, dtype)

    def cast(self, x: Operand, dtype: Any) -> Operand:
        """`x` in another dtype."""
        return x if x.dtype == dtype else self.op("Cast", x, dtype=dtype, to=self.type_of(dtype))

    def in_common_dtype(self, *values: Any, dtype: Any = None) -> list[Operand]:
        """Operands in one dtype: the given one, or the one that PyTorch computes in."""
        if dtype is None:
            dtype = self.common(*values)
        return [self.operand(v, dtype) for v in values]

    def common(self, *values: Any) -> Any:
        """The dtype in which PyTorch computes with these values."""
        examples = [
            rushlight.empty((0,) * v.rank, dtype=v.dtype) if isinstance(v, Operand) else v
            for v in values
        ]
        found = examples[0]
        for each in examples[1:]:
            dtype = rushlight.result_type(found, each)
            keep = max((e for e in (found, each) if isinstance(e, Tensor)), key=lambda t: t.dim())
            found = keep.to(dtype)
        return found.dtype

    def size(self, x: Operand, dim: int) -> Any:
        """A size: a number, or an operand without dimensions."""
        dim %= x.rank
        if x.shape[dim] is not None:
            return x.shape[dim]
        found = self.op("Shape", x, start=dim, end=dim + 1, dtype=rushlight.int64, shape=(1,))
        return self.op("Squeeze", found, [0], shape=())

    def shape(self, x: Operand) -> Operand:
        """The sizes as a vector."""
        if None not in x.shape:
            return self.constant(list(x.shape))
        return self.op("Shape", x, dtype=rushlight.int64, shape=(x.rank,))

    def compute(self, kind: str, a: Any, b: Any) -> Any:
        """Arithmetic on sizes; at once, where both are numbers."""
        if not isinstance(a, Operand) and not isinstance(b, Operand):
            return {
                "Add": operator.add,
                "Sub": operator.sub,
                "Mul": operator.mul,
                "Div": operator.floordiv,
            }[kind](a, b)
        return self.op(kind, self.operand(a), self.operand(b), shape=())

    # -- calls

    def convert(self, node: Node, operands: dict[Node, Any]) -> Any:
        """Add what a node of the exported graph does. OnnxExporterError for an operator without a conversion."""
        self._at = node.name
        args = map_arg(node.args, lambda n: operands[n])
        kwargs = map_arg(node.kwargs, lambda n: operands[n])
        if node.target is operator.getitem:
            if args[1] >= len(args[0]):
                raise OnnxExporterError(
                    f"result {args[1]} of {node.args[0].target} has no conversion to ONNX"
                )
            return args[0][args[1]]
        packet = getattr(node.target, "overloadpacket", node.target)
        name = packet.__name__
        found = self.custom.get(node.target) or self.custom.get(packet) or CONVERSIONS.get(name)
        line = f"\n\n{node.stack_trace}" if node.stack_trace else ""
        if found is None:
            raise OnnxExporterError(
                f"there is no conversion of the operator {node.target} to ONNX{line}"
            )
        packed = any(a.lengths for a in args if isinstance(a, Operand))
        if packed and name not in _PACKED:
            raise OnnxExporterError(
                f"{node.target} on a packed sequence has no conversion to ONNX{line}"
            )
        self.result = operands[node, "known"]
        self.sizes = not hasattr(node.target, "overloadpacket")  # Python's arithmetic, on sizes
        try:
            return found(self, *args, **kwargs)
        except (TypeError, NotImplementedError) as error:
            raise OnnxExporterError(
                f"{node.target} cannot be converted to ONNX here: {error}{line}"
            ) from error
