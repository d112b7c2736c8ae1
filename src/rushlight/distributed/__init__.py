"""`torch.distributed` on MPI: `init_process_group` joins a job, collectives move tensors between its processes.

It needs the extra `distributed` (mpi4py and an MPI library). docs/adr/0014-distributed-on-mpi.md says how it is built.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

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

_HOMES = (
    "groups", "collectives", "objects", "reductions", "rendezvous", "process_group", "tcp_store", "work", "options", "gloo",
    "debug",
)  # fmt: skip
_NAMES = {
    "DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh", "default_pg_timeout": "groups", "GradBucket": "reducer", "BuiltinCommHookType": "data_parallel",
    "Reducer": "reducer", "_compute_bucket_assignment_by_size": "reducer", "_DEFAULT_FIRST_BUCKET_BYTES": "reducer",
    "_broadcast_coalesced": "reducer", "_make_nccl_premul_sum": "reductions", "_Work": "backends",
    "_all_gather_base": "collectives", "_reduce_scatter_base": "collectives", "_remote_device": "remote_device", "_rank_not_in_group": "groups",
    "_create_process_group_wrapper": "debug",
}  # fmt: skip
_MODULES = frozenset(
    "algorithms checkpoint device_mesh distributed_c10d fsdp nn optim pipelining rpc run tensor".split()
)


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


def __getattr__(name: str) -> Any:
    if name in _MODULES or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")  # before names, which may need it
    homes = [_NAMES[name]] if name in _NAMES else _HOMES
    for home in homes:
        module = importlib.import_module(f"{__name__}.{home}")
        if name in _NAMES or name in module.__all__:
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    homes = [importlib.import_module(f"{__name__}.{home}") for home in _HOMES]
    return sorted(
        {*globals(), *_NAMES, *_MODULES, *(name for home in homes for name in home.__all__)}
    )
