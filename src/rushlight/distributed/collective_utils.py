"""Objects sent between processes together with what went wrong where they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.distributed import objects

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]


@dataclass
class SyncPayload:
    """What a process sends: an object, or why there is none."""

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _made(data_or_fn: Any, stage_name: str | None, success: bool = True) -> SyncPayload:
    """An object, or what a function returns or raises."""
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: Any, *, success: bool = True, stage_name: str | None = None, rank: int = 0, pg: Any = None
) -> Any:  # fmt: skip
    """What one process has, or what a function returns there; RuntimeError on all where it raises or `success` is False."""
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    is_source = rank == (0 if pg is None else pg.rank())
    sent = [
        _made(data_or_fn, stage_name, success)
        if is_source
        else SyncPayload(stage_name, success, None)
    ]
    if pg is not None:
        objects.broadcast_object_list(sent, src=rank, group=pg)
    (made,) = sent
    if made.success:
        return made.payload
    stage = "" if stage_name is None else f": stage {made.stage_name}"
    why = "" if made.exception is None else f": exception {made.exception}"
    raise RuntimeError(f"Rank {rank} failed{stage}{why}") from made.exception


def all_gather(data_or_fn: Any, stage_name: str | None = None, pg: Any = None) -> list:
    """What each process has, or what a function returns there; RuntimeError on all where one raises or is at another stage."""
    made = _made(data_or_fn, stage_name)
    if pg is None:
        if not made.success:
            raise RuntimeError(
                f"all_gather failed with exception {made.exception}"
            ) from made.exception
        return [made.payload]
    found: list[Any] = [None] * pg.size()
    all_gather_object_enforce_type(pg, found, made)
    stage = found[0].stage_name
    elsewhere = "".join(
        f"Unexpected stage name received from rank {k}: {each.stage_name} "
        for k, each in enumerate(found)
        if each.stage_name != stage
    )
    failed = [
        (k, each.exception)
        for k, each in enumerate(found)
        if each.exception is not None and each.stage_name == stage
    ]
    if failed:
        raise RuntimeError(elsewhere, failed) from failed[0][1]
    if elsewhere:
        raise RuntimeError(elsewhere)
    return [each.payload for each in found]


def all_gather_object_enforce_type(
    pg: Any, object_list: list, obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:  # fmt: skip
    """`all_gather_object`; TypeError where an object is not of the first one's class."""
    objects.all_gather_object(object_list, obj, group=pg)
    for k, each in enumerate(object_list):
        if k and not type_checker(object_list[0], each):
            raise TypeError(
                f"Object type at index {k} is {type(each)}, while first object type is {type(object_list[0])}"
            )
