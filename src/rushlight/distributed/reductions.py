"""`ReduceOp`, and what MPI calls dtypes and reductions."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import world

__all__ = ["ReduceOp", "reduce_op", "supports_complex"]


class RedOpType(enum.Enum):
    """The kinds of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __eq__(self, other: object) -> bool:
        return self is other  # not even a ReduceOp of this kind, which for its part equals this

    __hash__ = enum.Enum.__hash__

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


class _ReduceOpType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, RedOpType) or super().__instancecheck__(instance)


class ReduceOp(metaclass=_ReduceOpType):
    """A reduction over processes: `ReduceOp.SUM` and so on. PREMUL_SUM has a factor."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = (
        RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX
    )  # fmt: skip
    BAND, BOR, BXOR, PREMUL_SUM = (
        RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM
    )  # fmt: skip

    def __init__(self, op: RedOpType, factor: Any = None) -> None:
        self.op, self.factor = kind(op), factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self.op is kind(other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return repr(self.op)


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """The sum of what every process has, times a factor."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


class _reduce_op:
    """The kinds of reductions under the name that they had before `ReduceOp`."""

    def __getattr__(self, name: str) -> RedOpType:
        if name not in RedOpType.__members__:
            raise AttributeError(f"reduce_op has no {name!r}")
        text = "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return RedOpType[name]


reduce_op = _reduce_op()


def kind(op: Any) -> RedOpType:
    """The kind of a reduction."""
    if isinstance(op, RedOpType):
        return op
    if not isinstance(op, ReduceOp):
        raise TypeError(f"expected a ReduceOp, got {op!r}")
    return op.op


_OF_COMPLEX = (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex tensors can be reduced so."""
    return kind(reduceOp) in _OF_COMPLEX


_TYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "complex64": "FLOAT", "complex128": "DOUBLE", "bool": "UINT8_T",
    "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T", "uint8": "UINT8_T",
    "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T",
}  # fmt: skip
_OPERATIONS = {
    "SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX", "BAND": "BAND",
    "BOR": "BOR", "BXOR": "BXOR",
}  # fmt: skip
_OF_BOOL = {
    "SUM": "LOR", "PREMUL_SUM": "LOR", "PRODUCT": "LAND", "MIN": "LAND", "MAX": "LOR", "BAND": "LAND", "BOR": "LOR",
    "BXOR": "LXOR",
}  # fmt: skip


@lru_cache
def datatype(dtype: np.dtype) -> Any:
    """MPI's name for a dtype of arrays; where it has none, so many bytes. Complex numbers are pairs of real ones."""
    mpi = world.world.mpi
    if dtype.name in _TYPES:
        return getattr(mpi, _TYPES[dtype.name])
    return mpi.BYTE.Create_contiguous(dtype.itemsize).Commit()


@lru_cache
def operation(op: Any, dtype: np.dtype) -> Any:
    """MPI's operation, None where MPI does not know the dtype. RuntimeError where there is none."""
    mpi, name = world.world.mpi, kind(op).name
    if dtype.kind == "b":
        if name not in _OF_BOOL:
            raise RuntimeError("result type Float can't be cast to the desired output type Bool")
        return getattr(mpi, _OF_BOOL[name])
    if name in ("BAND", "BOR", "BXOR") and dtype.kind not in "iu":
        raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
    return getattr(mpi, _OPERATIONS[name]) if dtype.name in _TYPES else None


_FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SUM": Tensor.add_,
    "PROD": Tensor.mul_,
    "MIN": lambda a, b: rushlight.minimum(a, b, out=a),
    "MAX": lambda a, b: rushlight.maximum(a, b, out=a),
    "BAND": Tensor.bitwise_and_,
    "BOR": Tensor.bitwise_or_,
    "BXOR": Tensor.bitwise_xor_,
    "LAND": Tensor.logical_and_,
    "LOR": Tensor.logical_or_,
    "LXOR": Tensor.logical_xor_,
}


def combination(op: Any, dtype: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """The function that reduces two tensors, into the first."""
    name = kind(op).name
    return _FUNCTIONS[_OF_BOOL[name] if dtype is rushlight.bool else _OPERATIONS[name]]


def prepared(tensor: Tensor, op: Any) -> Tensor:
    """What goes into the sum: times the factor of PREMUL_SUM."""
    factor = getattr(op, "factor", None)
    return tensor if factor is None else tensor * factor


def average(tensor: Tensor, op: Any, size: int) -> None:
    """Divide a sum by the number of processes, for AVG."""
    if kind(op) is RedOpType.AVG:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(size)
        else:
            tensor.copy_(rushlight.div(tensor, size, rounding_mode="trunc"))
