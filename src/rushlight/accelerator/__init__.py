"""`torch.accelerator`: a device that a back end was registered for; without one programs fall back to the CPU.

>>> import rushlight as torch
>>> torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
'cpu'
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from rushlight.compat.unavailable import functions
from rushlight.core import device as devices
from rushlight.core.stub import declare

__all__ = [
    "current_accelerator", "device_count", "device_index", "get_device_module", "is_available",
]  # fmt: skip

_FUNCTIONS = frozenset(
    "current_device_idx current_device_index current_stream empty_cache empty_host_cache "
    "get_device_capability get_memory_info max_memory_allocated max_memory_reserved memory_allocated "
    "memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats "
    "set_device_idx set_device_index set_stream synchronize".split()
)

declare("absent", "There is no accelerator.", __name__, " ".join(_FUNCTIONS))


def is_available() -> bool:
    """Whether there is a device that is not the CPU."""
    return devices.current_accelerator() is not None


def device_count() -> int:
    """How many devices the accelerator has, as its module says; 0 without one."""
    return get_device_module(name).device_count() if (name := devices.current_accelerator()) else 0


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """The device type that is not the CPU; None without one."""
    name = devices.current_accelerator()
    return None if name is None else devices.device(name)


def _register_device_module(device_type: str, module: Any) -> None:
    """Make `module` the functions of a device: `torch.<device_type>`; RuntimeError for a second one."""
    import rushlight

    kind = rushlight.device(device_type).type
    if kind in vars(rushlight):
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered")
    setattr(rushlight, kind, module)
    sys.modules[f"rushlight.{kind}"] = module


def get_device_module(device: Any = None) -> Any:
    """The module of a device's functions: `torch.cpu`, `torch.cuda`...; by default that of the CPU.

    >>> import rushlight as torch
    >>> torch.get_device_module() is torch.cpu
    True
    """
    import rushlight

    kind = "cpu" if device is None else rushlight.device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu") and kind not in vars(rushlight):
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


__getattr__ = functions(globals(), _FUNCTIONS, _refuse, "RuntimeError: there is no accelerator.")
