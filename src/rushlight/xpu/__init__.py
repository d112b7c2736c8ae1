"""`torch.xpu` without an Intel GPU: `is_available` is False, and what needs a device raises."""

from __future__ import annotations

from typing import Any

from rushlight.compat import unavailable
from rushlight.core.stub import declare
from rushlight.cuda import _no_effect, get_rng_state_all, manual_seed, memory_allocated

__all__ = [
    "device_count",
    "empty_cache",
    "get_rng_state_all",
    "is_available",
    "manual_seed",
    "manual_seed_all",
]

_FUNCTIONS = frozenset(
    "can_device_access_peer current_device current_stream get_device_capability get_device_name "
    "get_device_properties get_rng_state init initial_seed mem_get_info reset_peak_memory_stats "
    "set_device set_per_process_memory_fraction synchronize".split()
)
_CLASSES = frozenset("Event MemPool Stream XPUGraph".split())

declare("absent", "There is no XPU device.", __name__, " ".join(_FUNCTIONS | _CLASSES))

default_generators: tuple = ()
manual_seed_all = manual_seed
seed = seed_all = empty_cache = set_rng_state = set_rng_state_all = set_stream = _no_effect
max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


is_initialized = is_current_stream_capturing = is_available


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no XPU device."""
    return False


def device_count() -> int:
    """0."""
    return 0


def __getattr__(name: str) -> Any:
    globals()[name] = found = unavailable.lookup("xpu", _FUNCTIONS, _CLASSES, name)
    return found
