"""`torch.mps` where there is no Apple GPU: probes answer so, what needs a device raises RuntimeError."""

from __future__ import annotations

from typing import Any, NoReturn

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
    """No device has a generator to seed; `torch.manual_seed` seeds the CPU's."""
    int(seed)


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"Cannot execute {_FUNCTIONS[name]}() without MPS backend: Rushlight computes on the CPU. Ask "
            "torch.backends.mps.is_available() first"
        )

    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = "RuntimeError: needs an Apple GPU."
    globals()[name] = absent
    return absent
