"""`torch.distributed.optim`: optimizers over several processes."""

from __future__ import annotations

from rushlight.distributed.absent import absent_class
from rushlight.distributed.optim.apply_optimizer_in_backward import (  # noqa: F401
    _apply_optimizer_in_backward,
    _get_in_backward_optimizers,
)
from rushlight.distributed.optim.named_optimizer import _NamedOptimizer  # noqa: F401
from rushlight.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from rushlight.distributed.optim.utils import as_functional_optim
from rushlight.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "DistributedOptimizer",
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
    "as_functional_optim",
]

DistributedOptimizer = absent_class(__name__, "DistributedOptimizer")
