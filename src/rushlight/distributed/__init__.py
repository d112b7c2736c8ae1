"""`torch.distributed` with one process: `is_available` is False; functions for several processes raise."""

from __future__ import annotations

from rushlight.compat.unavailable import functions
from rushlight.core.stub import declare
from rushlight.distributed.absent import REASON, absent_class, refuse

__all__ = ["is_available", "is_initialized"]

_FUNCTIONS = frozenset(
    "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all barrier broadcast "
    "broadcast_object_list destroy_process_group gather get_backend get_rank get_world_size "
    "init_process_group irecv isend monitored_barrier new_group recv reduce reduce_scatter scatter "
    "send".split()
)

declare("absent", REASON, __name__, " ".join(_FUNCTIONS))


def is_available() -> bool:
    """False: Rushlight runs in one process."""
    return False


def is_initialized() -> bool:
    """False: there is no process group."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


class ReduceOp:
    """The names of reductions over processes."""

    SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, AVG = range(8)


ProcessGroup = absent_class(__name__, "ProcessGroup")

from rushlight.distributed import device_mesh, rpc  # noqa: E402, F401  attributes without an import

__getattr__ = functions(
    globals(), _FUNCTIONS, refuse, "RuntimeError: Rushlight runs in one process.",
    ": Rushlight runs in one process; docs/coverage.md lists what it has",
)  # fmt: skip
