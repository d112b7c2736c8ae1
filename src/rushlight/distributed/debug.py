"""Checks that TORCH_DISTRIBUTED_DEBUG=DETAIL asks for: before each collective all processes of a group say which one it is.

Each process waits until all have come to a collective and tells them its operation, shapes and dtypes through the store. If one does
not come, or calls something else, all raise an error that says who and what, where they would hang or mix up their data.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from rushlight.core.tensor import Tensor

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.IntEnum):
    """How much is checked: DETAIL compares the collectives of all processes."""

    OFF, INFO, DETAIL = range(3)


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level, which is that of TORCH_DISTRIBUTED_DEBUG unless it was set.

    >>> get_debug_level().name
    'OFF'
    """
    if _level is None:
        set_debug_level_from_env()
    return _level or DebugLevel.OFF


def set_debug_level(level: DebugLevel) -> None:
    """Set the level; groups that are made from now on have it."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Set the level to that of TORCH_DISTRIBUTED_DEBUG: OFF, INFO or DETAIL."""
    given = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")
    if given.upper() not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, and not {given}"
        )
    set_debug_level(DebugLevel[given.upper()])


# the methods that start collectives -> PyTorch's name, and which of the arguments all processes must have alike
_COLLECTIVES: dict[str, tuple[str, int | None]] = {
    "start_all_gather": ("ALLGATHER", 1), "start_all_gather_coalesced": ("ALLGATHER_COALESCED", 1),
    "start_all_reduce": ("ALLREDUCE", 0),
    "start_all_reduce_coalesced": ("ALLREDUCE_COALESCED", 0), "start_all_to_all": ("ALLTOALL", None),
    "start_all_to_all_single": ("ALLTOALL_BASE", None), "start_barrier": ("BARRIER", None),
    "start_broadcast": ("BROADCAST", 0), "start_gather": ("GATHER", 1), "start_reduce": ("REDUCE", 0),
    "start_reduce_scatter": ("REDUCE_SCATTER", 0), "start_scatter": ("SCATTER", 0),
}  # fmt: skip


def checked(group: Any, timeout: timedelta | None = None) -> Any:
    """The group itself, whose collectives are compared from now on."""
    for name, (operation, place) in _COLLECTIVES.items():
        setattr(group, name, _compared(group, getattr(group, name), operation, place, timeout))
    return group


def _compared(
    group: Any, start: Callable, operation: str, place: int | None, timeout: timedelta | None
) -> Callable:
    @functools.wraps(start)
    def compared(*args: Any, **kwargs: Any) -> Any:
        given = [] if place is None else args[place]
        _compare(group, operation, [given] if isinstance(given, Tensor) else given, timeout)
        return start(*args, **kwargs)

    return compared


def _described(operation: str, number: int, tensors: Sequence[Tensor]) -> str:
    """What a collective is, in words."""
    about = ""
    if tensors:
        shapes = ", ".join(str(list(each.shape)) for each in tensors)
        dtypes = ", ".join(_NAMES.get(each.dtype.name, each.dtype.name) for each in tensors)
        devices = ", ".join(each.device.type for each in tensors)
        about = f", TensorShape={shapes}, TensorDtypes={dtypes}, TensorDeviceTypes={devices}"
    return f"CollectiveFingerPrint(SequenceNumber={number}, OpType={operation}{about})"


_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def _compare(
    group: Any, operation: str, tensors: Sequence[Tensor], timeout: timedelta | None
) -> None:
    """RuntimeError unless all processes of the group have come to this collective."""
    group.monitored_barrier(timeout, wait_all_ranks=True)
    number, mine = group._number, group.rank()
    group.store.set(f"compared/{number}/{mine}", _described(operation, number, tensors))
    if number > 1:
        group.store.delete_key(f"compared/{number - 2}/{mine}")  # all have read it
    every = group.store.multi_get([f"compared/{number}/{k}" for k in range(group.size())])
    texts = [text.decode() for text in every]
    for rank, text in enumerate(texts):
        if text != texts[mine]:
            raise RuntimeError(
                f"Detected mismatch between collectives on ranks. Rank {mine} is running collective: {texts[mine]}, "
                f"but Rank {rank} is running collective: {text}."
            )


def _create_process_group_wrapper(
    wrapped_pg: Any, store_prefix: str, store: Any, rank: int, world_size: int, timeout: Any = None
) -> Any:
    """The group itself, whose collectives are compared from now on."""
    if timeout is not None and not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    return checked(wrapped_pg, timeout)
