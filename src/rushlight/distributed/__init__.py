"""`torch.distributed` on MPI: `init_process_group` joins a job, collectives move tensors between its processes.

It needs the extra `distributed` (mpi4py and an MPI library). docs/adr/0014-distributed-on-mpi.md says how it is built.
"""

from __future__ import annotations

import os

from rushlight.core import lazy
from rushlight.distributed.rendezvous import (
    rendezvous,
)  # the function, where the import left the module
from rushlight.distributed.store import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
)

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore", "PrefixStore",
    "QueueEmptyError", "Store", "is_available", "is_gloo_available", "is_mpi_available", "is_nccl_available",
    "is_ucc_available", "is_xccl_available",
    "is_torchelastic_launched",
    "rendezvous",
]  # fmt: skip

_FILES = {
    "backends": "_Work",
    "breakpoints": "breakpoint",
    "collectives": "P2POp _coalescing_manager _all_gather_base _reduce_scatter_base all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce "
    "all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast gather irecv isend monitored_barrier "
    "recv reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter send",
    "data_parallel": "BuiltinCommHookType",
    "debug": "DebugLevel _create_process_group_wrapper get_debug_level set_debug_level set_debug_level_from_env",
    "device_mesh": "DeviceMesh init_device_mesh",
    "distributed_c10d": "GroupName",
    "gloo": "ProcessGroupGloo",
    "groups": "Backend BackendConfig GroupMember _rank_not_in_group default_pg_timeout destroy_process_group get_backend get_backend_config "
    "get_default_backend_for_device get_global_rank get_group_rank get_node_local_rank get_pg_count get_process_group_ranks "
    "get_rank get_world_size group init_process_group is_backend_available is_initialized new_group new_subgroups "
    "new_subgroups_by_enumeration shrink_group split_group",
    "objects": "all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list send_object_list",
    "options": "AllToAllOptions AllgatherOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions "
    "GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions",
    "process_group": "MPIProcessGroup ProcessGroup",
    "reducer": "GradBucket Reducer _DEFAULT_FIRST_BUCKET_BYTES _broadcast_coalesced _compute_bucket_assignment_by_size",
    "reductions": "ReduceOp _make_nccl_premul_sum reduce_op supports_complex",
    "remote_device": "_remote_device",
    "rendezvous": "register_rendezvous_handler",
    "tcp_store": "TCPStore",
    "work": "Work record_comm",
}  # fmt: skip
_MODULES = (
    "_composable _functional_collectives _shard algorithms checkpoint collective_utils constants debug device_mesh distributed_c10d elastic fsdp launcher nn optim "
    "pipelining rpc run tensor utils"
).split()

__all__ += [name for name in lazy.by_name(_FILES) if name[0] != "_"]
__getattr__, __dir__ = lazy.names(globals(), lazy.by_name(_FILES), _MODULES)


def is_available() -> bool:
    """True: there is `torch.distributed`. `is_mpi_available` tells whether the extra is installed."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py and an MPI library are there."""
    from rushlight.distributed import world

    return world.is_installed()


def is_gloo_available() -> bool:
    """Whether "gloo" can be asked for, which means MPI."""
    return is_mpi_available()


def is_nccl_available() -> bool:
    """False: there is no CUDA."""
    return False


def is_ucc_available() -> bool:
    """False: "ucc" cannot be asked for."""
    return False


def is_xccl_available() -> bool:
    """False: there is no XPU."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ
