"""The classes of `torch.distributed` under the name of PyTorch's C module, from which libraries import them."""

from __future__ import annotations

from typing import Any

import rushlight.distributed as distributed
from rushlight.distributed.backends import ProcessGroup, _create_work_from_future
from rushlight.distributed.groups import named as _resolve_process_group

__all__ = [
    "ProcessGroup",
    "_create_work_from_future",
    "_resolve_process_group",
    "_set_thread_isolation_mode",
]


def _set_thread_isolation_mode(enable: bool) -> None:
    """Nothing is left to do: what threads have of their own stands in `distributed_c10d._world`."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(distributed, name)
