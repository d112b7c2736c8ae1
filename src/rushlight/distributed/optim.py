"""`torch.distributed.optim`: optimizers over several processes, for programs that import them."""

from __future__ import annotations

from rushlight.distributed.absent import absent_class

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

DistributedOptimizer = absent_class(__name__, "DistributedOptimizer")
PostLocalSGDOptimizer = absent_class(__name__, "PostLocalSGDOptimizer")
ZeroRedundancyOptimizer = absent_class(__name__, "ZeroRedundancyOptimizer")
