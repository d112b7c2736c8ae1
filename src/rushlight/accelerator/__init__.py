"""`torch.accelerator`: there is none, so the CPU is what programs fall back to.

>>> import rushlight as torch
>>> torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
'cpu'
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import declare

__all__ = [
    "current_accelerator",
    "device_count",
    "device_index",
    "get_device_module",
    "is_available",
]

_FUNCTIONS = frozenset(
    "current_device_idx current_device_index current_stream empty_cache empty_host_cache "
    "get_device_capability get_memory_info max_memory_allocated max_memory_reserved memory_allocated "
    "memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats "
    "set_device_idx set_device_index set_stream synchronize".split()
)

declare("absent", "There is no accelerator.", __name__, " ".join(_FUNCTIONS))


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no accelerator."""


def get_device_module(device: Any = None) -> Any:
    """The module of a device's functions: `torch.cpu`, `torch.cuda`...; by default that of the CPU.

    >>> import rushlight as torch
    >>> torch.get_device_module() is torch.cpu
    True
    """
    import rushlight

    kind = "cpu" if device is None else rushlight.device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module here")
    return getattr(rushlight, kind)


class device_index:
    """A block on another accelerator; RuntimeError on entry unless the index is None."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse("device_index")

    def __exit__(self, *exception: object) -> None:
        pass


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"Cannot access accelerator device when none is available: torch.accelerator.{name} needs one, and "
        "Rushlight computes on the CPU. Ask torch.accelerator.is_available() first"
    )


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = "RuntimeError: there is no accelerator."
    globals()[name] = absent
    return absent
