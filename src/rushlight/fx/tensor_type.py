"""`TensorType` and `Dyn`: types of tensors by their sizes, of which some may be unknown.

>>> TensorType((2, Dyn, 4))
TensorType[(2, Dyn, 4)]
>>> is_consistent(TensorType((2, 3)), TensorType((2, Dyn)))
True

Note [Gradual types]
    `Dyn` is the type that says nothing: of a size, or of a whole value. Two types are *consistent* if they could be
    those of one value, and one is *more precise* than another if it only says more. A program is checked as far as
    its types are known (`experimental.graph_gradual_typechecker`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """The class of `Dyn`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


class TensorType:
    """The type of tensors with these sizes: numbers, `Dyn`, or symbols."""

    def __init__(self, dim: Any) -> None:
        self.__origin__, self.__args__ = TensorType, dim

    def __class_getitem__(cls, *args: Any) -> TensorType:
        """`TensorType[2, Dyn]`, which annotations print."""
        sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return TensorType(sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash((TensorType, tuple(self.__args__)))

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether one value could have both types."""
    if isinstance(t1, _DynType) or isinstance(t2, _DynType):
        return True
    return t1 == t2 or _sizes(is_consistent, t1, t2)


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether `t1` says all that `t2` says, or more."""
    return t1 == t2 or isinstance(t2, _DynType) or _sizes(is_more_precise, t1, t2)


def _sizes(holds: Callable[[Any, Any], bool], t1: Any, t2: Any) -> bool:
    """Whether a relation holds for each size of two tensors of one rank."""
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        return False
    pairs = list(t1.__args__), list(t2.__args__)
    return len(pairs[0]) == len(pairs[1]) and all(map(holds, *pairs))
