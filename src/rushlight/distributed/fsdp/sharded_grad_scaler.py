"""`torch.distributed.fsdp.sharded_grad_scaler`: a `GradScaler` for gradients of which each process has a part."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.amp.grad_scaler import GradScaler
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.reductions import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` of which all processes leave out the same steps: those where any part is not finite."""

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5, growth_factor: float = 2.0,
        growth_interval: int = 2000, enabled: bool = True, process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group

    def unscale_(self, optimizer: Any) -> None:
        """Divide the parts of gradients by the scale, in place; once between two updates."""
        super().unscale_(optimizer)
        if not self._enabled:
            return
        seen = self._seen[id(optimizer)]
        bad = rushlight.tensor([int(seen["bad"])])
        collectives.all_reduce(bad, ReduceOp.MAX, self.process_group)
        seen["bad"] = bool(bad)

    @staticmethod
    def _gradients(optimizer: Any) -> list[Tensor]:
        """The parts that this process has; float16 ones, too."""
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        return [getattr(grad, "_local_tensor", grad) for grad in grads]
