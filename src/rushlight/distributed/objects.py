"""Collectives of Python objects, which travel as pickles."""

from __future__ import annotations

import io
import pickle
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import GroupMember, _resolve, get_world_size

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
    "send_object_list",
]  # fmt: skip


def _packed(value: Any) -> Tensor:
    text = io.BytesIO()
    pickle.Pickler(text).dump(value)
    return rushlight.frombuffer(bytearray(text.getvalue()), dtype=rushlight.uint8)


def _unpacked(tensor: Tensor) -> Any:
    return pickle.loads(tensor._array)


def _outside(group: Any, name: str) -> bool:
    """Whether this process is not in the group; warns if so."""
    return (
        group is not None
        and group == GroupMember.NON_GROUP_MEMBER
        and collectives._group(group, name) is None
    )


def _gathered(value: Any, group: Any, root: int | None) -> list | None:
    """What all have, as pickles; for all, or for one."""
    packed, size = _packed(value), get_world_size(group)
    sizes = [rushlight.zeros(1, dtype=rushlight.int64) for _ in range(size)]
    collectives.all_gather(sizes, rushlight.tensor([packed.numel()]), group)
    longest = max(int(each) for each in sizes)
    row = rushlight.zeros(longest, dtype=rushlight.uint8)
    row[: packed.numel()] = packed
    rows = [rushlight.empty_like(row) for _ in range(size)]
    if root is None:
        collectives.all_gather(rows, row, group)
    elif _resolve(group).rank() == root:
        collectives.gather(row, rows, group=group, group_dst=root)
    else:
        collectives.gather(row, group=group, group_dst=root)
        return None
    return [each[: int(length)] for each, length in zip(rows, sizes)]


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """Put the object of each process into the list, everywhere."""
    if _outside(group, "all_gather_object"):
        return
    for k, row in enumerate(_gathered(obj, group, None) or ()):
        object_list[k] = _unpacked(row)


def gather_object(
    obj: Any, object_gather_list: list | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Put the object of each process into the list of the process `dst` (0)."""
    if _outside(group, "gather_object"):
        return
    known = _resolve(group)
    root = (
        0 if dst is None and group_dst is None else collectives._root(known, dst, group_dst, group)
    )
    if known.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if known.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    for k, row in enumerate(_gathered(obj, group, root) or ()):
        object_gather_list[k] = _unpacked(row)  # type: ignore[index]


def broadcast_object_list(
    object_list: list, src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:  # fmt: skip
    """Put the objects of the process `src` into the list, everywhere."""
    if _outside(group, "broadcast_object_list"):
        return
    known = _resolve(group)
    root = (
        0 if src is None and group_src is None else collectives._root(known, src, group_src, group)
    )
    sizes = rushlight.zeros(len(object_list), dtype=rushlight.int64)
    rows = []
    if known.rank() == root:
        rows = [_packed(each) for each in object_list]
        sizes = rushlight.tensor([each.numel() for each in rows], dtype=rushlight.int64)
    collectives.broadcast(sizes, group=group, group_src=root)
    row = rushlight.cat(rows) if rows else rushlight.empty(int(sizes.sum()), dtype=rushlight.uint8)
    collectives.broadcast(row, group=group, group_src=root)
    if known.rank() != root:
        object_list[:] = [_unpacked(each) for each in row.split(sizes.tolist())]


def scatter_object_list(
    scatter_object_output_list: list, scatter_object_input_list: list | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Give each process its object of the list of the process `src` (0), as the only one of its output list."""
    if _outside(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    known = _resolve(group)
    root = (
        0 if src is None and group_src is None else collectives._root(known, src, group_src, group)
    )
    mine = rushlight.zeros(2, dtype=rushlight.int64)
    pairs, rows = None, []
    if known.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != known.size():
            raise ValueError(
                "Expected argument scatter_object_input_list to have one object for each process"
            )
        rows = [_packed(each) for each in scatter_object_input_list]
        longest = max(each.numel() for each in rows)
        pairs = [rushlight.tensor([each.numel(), longest]) for each in rows]
    collectives.scatter(mine, pairs, group=group, group_src=root)
    length, longest = mine.tolist()
    row = rushlight.empty(longest, dtype=rushlight.uint8)
    padded = [
        rushlight.nn.functional.pad(each, (0, longest - each.numel())) for each in rows
    ] or None
    collectives.scatter(row, padded, group=group, group_src=root)
    scatter_object_output_list[0] = _unpacked(row[:length])


def send_object_list(
    object_list: list, dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send objects to one process."""
    rows = [_packed(each) for each in object_list]
    sizes = rushlight.tensor([each.numel() for each in rows], dtype=rushlight.int64)
    collectives.send(sizes, dst, group, group_dst=group_dst)
    collectives.send(rushlight.cat(rows), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list, src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive objects into the list. Returns the rank that sent them."""
    sizes = rushlight.zeros(len(object_list), dtype=rushlight.int64)
    source = collectives.recv(sizes, src, group, group_src=group_src)
    row = rushlight.empty(int(sizes.sum()), dtype=rushlight.uint8)
    collectives.recv(row, source, group) if group_src is None else collectives.recv(
        row, group=group, group_src=group_src
    )
    object_list[:] = [_unpacked(each) for each in row.split(sizes.tolist())]
    return source
