"""`torch.distributed.distributed_c10d`: the module that programs import the names of `torch.distributed` from."""

from __future__ import annotations

from rushlight.distributed import (  # noqa: F401
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
)
from rushlight.distributed.collectives import *  # noqa: F403
from rushlight.distributed.collectives import (  # noqa: F401 - libraries import them from here
    _coalescing_manager,
    _CoalescingManager,
)
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
    default_pg_timeout,
)
from rushlight.distributed.objects import *  # noqa: F403
from rushlight.distributed.options import *  # noqa: F403
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.reductions import *  # noqa: F403
from rushlight.distributed.reductions import _make_nccl_premul_sum  # noqa: F401
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401
from rushlight.distributed.store import *  # noqa: F403
from rushlight.distributed.tcp_store import TCPStore
from rushlight.distributed.work import Work, record_comm

__all__ = ["ProcessGroup", "ProcessGroupGloo", "TCPStore", "Work", "record_comm"]


def _get_default_store():
    return _get_default_group().store
