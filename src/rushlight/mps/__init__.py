"""`torch.mps` without an Apple GPU: `is_available` is False, and what needs a device raises RuntimeError."""

from __future__ import annotations

from typing import NoReturn

from rushlight.compat.unavailable import functions
from rushlight.core.stub import declare, stub

__all__ = ["device_count", "is_available", "manual_seed"]

_FUNCTIONS = {
    "synchronize": "deviceSynchronize",
    "empty_cache": "emptyCache",
    "seed": "getDefaultGenerator",
    "get_rng_state": "getDefaultGenerator",
    "set_rng_state": "getDefaultGenerator",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "recommended_max_memory": "recommendedMaxMemory",
    "set_per_process_memory_fraction": "setMemoryFraction",
}

declare("absent", "There is no Apple GPU.", __name__, " ".join(_FUNCTIONS))


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


@stub("no-op", "There is no Apple GPU.")
def manual_seed(seed: int) -> None:
    """Has no effect: there is no device; `torch.manual_seed` seeds the CPU's generator."""
    int(seed)


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"Cannot execute {_FUNCTIONS[name]}() without MPS backend: Rushlight computes on the CPU. Ask "
        "torch.backends.mps.is_available() first"
    )


__getattr__ = functions(globals(), _FUNCTIONS, _refuse, "RuntimeError: needs an Apple GPU.")
