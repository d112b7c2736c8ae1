"""`torch.cuda` without a CUDA device: `is_available` is False, and what needs a device raises.

>>> import rushlight as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations

from typing import Any

from rushlight.compat import unavailable
from rushlight.core.stub import Block, declare, stub

__all__ = [
    "device_count", "empty_cache", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated",
]  # fmt: skip

has_half = True
has_magma = False
default_generators: tuple = ()

_FUNCTIONS = frozenset(
    "caching_allocator_alloc caching_allocator_delete can_device_access_peer change_current_allocator "
    "check_error cudart current_blas_handle current_device current_stream default_stream "
    "get_device_capability get_device_name get_device_properties get_rng_state get_sync_debug_mode "
    "graph_pool_handle init initial_seed ipc_collect is_current_stream_capturing list_gpu_processes "
    "make_graphed_callables mem_get_info memory_snapshot memory_summary memory_usage "
    "reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
    "reset_peak_memory_stats set_device set_per_process_memory_fraction set_sync_debug_mode "
    "synchronize temperature utilization power_draw clock_rate".split()
)
_TYPES = "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short"
_CLASSES = frozenset(
    "CUDAGraph CUDAPluggableAllocator Event ExternalStream MemPool Stream graph".split()
) | {f"{kind}{of}" for kind in _TYPES.split() for of in ("Tensor", "Storage")}

declare("absent", "There is no CUDA device.", __name__, " ".join(_FUNCTIONS | _CLASSES))


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def is_initialized() -> bool:
    """False: there is nothing to initialise."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no CUDA device."""
    return False


def is_tf32_supported() -> bool:
    """False: there is no CUDA device."""
    return False


_initialized = False


def device_count() -> int:
    """0."""
    return 0


@stub("no-op", "There is no GPU.")
def _no_effect(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no CUDA device."""


@stub("no-op", "There is no GPU.")
def manual_seed(seed: int) -> None:
    """Has no effect: there is no device; `torch.manual_seed` seeds the CPU's generator."""
    int(seed)  # raises for a seed that is not a number


manual_seed_all = manual_seed
seed = seed_all = empty_cache = set_rng_state = set_rng_state_all = set_stream = _no_effect


def get_rng_state_all() -> list:
    """The empty list: there are no devices."""
    return []


def get_arch_list() -> list:
    """The empty list: nothing is compiled for CUDA."""
    return []


def get_gencode_flags() -> str:
    """The empty string: there is no CUDA compiler."""
    return ""


def memory_allocated(device: Any = None) -> int:
    """Bytes on CUDA devices: 0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def memory_stats(device: Any = None) -> dict:
    """The empty dict: there is no allocator."""
    return {}


def _is_compiled() -> bool:
    return False


class device:
    """`with torch.cuda.device(i):` raises when the block is entered, unless the index is negative."""

    def __init__(self, device: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None)

    def __enter__(self) -> None:
        if self.idx is None or self.idx >= 0:
            unavailable.refuse("cuda", "device")

    def __exit__(self, *exception: object) -> None:
        pass


@stub("no-op", "There is no GPU.")
class device_of(device):
    """`device` of a tensor; without effect, since tensors are on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)


@stub("no-op", "There is no GPU.")
class StreamContext(Block):
    """`with torch.cuda.stream(None):` has no effect; there are no streams."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream


@stub("no-op", "There is no GPU.")
def stream(stream: Any) -> StreamContext:
    """A block that runs on a stream; it has no effect."""
    return StreamContext(stream)


class CudaError(RuntimeError):
    """The error of a CUDA call."""


class DeferredCudaCallError(Exception):
    """The error of a CUDA call that was deferred until initialisation."""


def __getattr__(name: str) -> Any:
    if name in ("amp", "memory", "nccl", "nvtx", "random"):
        from importlib import import_module

        return import_module(f"rushlight.cuda.{name}")
    if name == "OutOfMemoryError":
        from rushlight.core.errors import OutOfMemoryError as found
    else:
        found = unavailable.lookup("cuda", _FUNCTIONS, _CLASSES, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS, *_CLASSES})
