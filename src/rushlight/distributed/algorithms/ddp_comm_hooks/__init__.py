"""Communication hooks of `DistributedDataParallel`."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    powerSGD_hook,
    quantization_hooks,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """The hooks that `register_ddp_comm_hook` knows by name."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"
    BF16_COMPRESS = "bf16_compress_hook"
    POWER_SGD = "powerSGD_hook"
    POWER_SGD_RANK2 = "powerSGD_hook of rank 2"
    BATCHED_POWER_SGD = "batched_powerSGD_hook"
    BATCHED_POWER_SGD_RANK2 = "batched_powerSGD_hook of rank 2"
    QUANTIZE_PER_TENSOR = "quantization_pertensor_hook"
    QUANTIZE_PER_CHANNEL = "quantization_perchannel_hook"
    NOOP = "noop_hook"


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Let a hook reduce the gradients of a `DistributedDataParallel`; `state` is the group for PowerSGD, too."""
    name, _, rank = comm_hook_type.value.partition(" of rank ")
    if "POWER" in comm_hook_type.name:
        state = powerSGD_hook.PowerSGDState(state, int(rank or 1))
        model.register_comm_hook(state, getattr(powerSGD_hook, name))
    else:
        homes = {"NOOP": debugging_hooks, "QUANTIZE": quantization_hooks}
        home = homes.get(comm_hook_type.name.partition("_")[0], default_hooks)
        model.register_comm_hook(state, getattr(home, name))
