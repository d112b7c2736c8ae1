"""`torch.cuda.random`: the seeds of devices that are not here."""

from __future__ import annotations

from rushlight.cuda import get_rng_state_all, manual_seed, manual_seed_all, seed, seed_all

__all__ = ["get_rng_state_all", "manual_seed", "manual_seed_all", "seed", "seed_all"]
