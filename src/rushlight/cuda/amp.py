"""`torch.cuda.amp`: the older names of `torch.amp`, for CUDA."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from rushlight import amp
from rushlight.amp import autocast_mode, grad_scaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler"]


def _renamed(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapper(function_: Callable | None = None, **kwargs: Any) -> Callable:
        warnings.warn(
            f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}(args..., device_type='cuda')` "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(function_, device_type="cuda", **kwargs)

    return wrapper


custom_fwd, custom_bwd = (
    _renamed("custom_fwd", amp.custom_fwd),
    _renamed("custom_bwd", amp.custom_bwd),
)
common = sys.modules[__name__]  # in PyTorch a module of this package


class autocast(amp.autocast):
    """`torch.amp.autocast("cuda", ...)`: without effect, and with a warning, where there is no CUDA."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`: disabled, with a warning, where there is no CUDA."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        warnings.warn(
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def amp_definitely_not_available() -> bool:
    """True: there is no CUDA."""
    return True
