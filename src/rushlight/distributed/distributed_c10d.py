"""`torch.distributed.distributed_c10d`: the module that programs import the names of `torch.distributed` from."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NewType

import rushlight
from rushlight.core.device import device as Device
from rushlight.core.tensor import Tensor
from rushlight.distributed import (  # noqa: F401
    group_table,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    objects,
)
from rushlight.distributed.collectives import *  # noqa: F403
from rushlight.distributed.collectives import (  # noqa: F401 - libraries import them from here
    _coalescing_manager,
    _CoalescingManager,
)
from rushlight.distributed.constants import default_pg_nccl_timeout as default_pg_nccl_timeout
from rushlight.distributed.constants import default_pg_timeout as default_pg_timeout
from rushlight.distributed.debug import *  # noqa: F403
from rushlight.distributed.debug import _create_process_group_wrapper  # noqa: F401
from rushlight.distributed.gloo import ProcessGroupGloo
from rushlight.distributed.group_table import _world  # noqa: F401 - programs put their own there
from rushlight.distributed.group_table import of_tag as _find_pg_by_ranks_and_tag  # noqa: F401 - PyTorch's name
from rushlight.distributed.group_table import tag_of as _get_group_tag  # noqa: F401 - PyTorch's name
from rushlight.distributed.groups import *  # noqa: F403
from rushlight.distributed.groups import (  # noqa: F401
    _find_or_create_pg_by_ranks_and_tag,
    _get_default_group,
    _new_group_with_tag,
    _rank_not_in_group,
    _resolve,
    _store_based_barrier,
)
from rushlight.distributed.groups import named as _resolve_process_group
from rushlight.distributed.objects import *  # noqa: F403
from rushlight.distributed.options import *  # noqa: F403
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.reductions import *  # noqa: F403
from rushlight.distributed.reductions import _make_nccl_premul_sum  # noqa: F401
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401
from rushlight.distributed.store import *  # noqa: F403
from rushlight.distributed.tcp_store import TCPStore
from rushlight.distributed.work import Work, record_comm

__all__ = ["GroupName", "ProcessGroup", "ProcessGroupGloo", "TCPStore", "Work", "record_comm"]

GroupName = NewType("GroupName", str)


def _get_default_store() -> Any:
    return _get_default_group().store


def _get_default_timeout(backend: str) -> timedelta:
    return default_pg_timeout


def _check_valid_timeout(timeout: Any) -> None:
    """TypeError for what is no timedelta."""
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Let calls of a group that come now wait so long."""
    _check_valid_timeout(timeout)
    _resolve(group).timeout = timeout


def _get_process_group_name(pg: ProcessGroup) -> str:
    return group_table.known().pg_names.get(pg, "None")


def _get_process_group_store(pg: ProcessGroup) -> Any:
    return group_table.known().pg_map[pg][1]


def _get_group_size_by_name(group_name: str) -> int:
    return _resolve_process_group(group_name).size()


def _get_pg_default_device(group: Any = None) -> Any:
    return Device("cpu")


def _get_object_coll_device(group: Any = None) -> str:
    return "cpu"


def _object_to_tensor(obj: Any, device: Any, group: Any) -> tuple[Tensor, Tensor]:
    """An object as a pickle in a tensor of bytes, and their number."""
    packed = objects._packed(obj)
    return packed, rushlight.tensor([packed.numel()])


def _tensor_to_object(tensor: Tensor, tensor_size: int, group: Any) -> Any:
    """The object whose pickle is in the first so many bytes."""
    return objects._unpacked(tensor[: int(tensor_size)])
