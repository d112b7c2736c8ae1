"""`torch.distributed.algorithms`: communication hooks, and `Join` for uneven inputs."""

from __future__ import annotations

from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
