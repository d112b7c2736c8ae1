"""`torch.distributed._composable`: functions that change how a module runs, and neither its class's code nor its names."""

from __future__ import annotations

from rushlight.distributed._composable.checkpoint_activation import checkpoint
from rushlight.distributed._composable.contract import _get_registry, contract
from rushlight.distributed._composable.replicate import replicate
from rushlight.distributed.fsdp.fully_shard import fully_shard

__all__ = ["_get_registry", "checkpoint", "contract", "fully_shard", "replicate"]
