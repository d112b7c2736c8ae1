"""`torch.backends.cudnn`: settings of cuDNN, without effect."""

from __future__ import annotations

from typing import Any

from rushlight.backends.flags import block

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"

flags = block(
    globals(),
    "enabled benchmark benchmark_limit deterministic allow_tf32 fp32_precision",
    "cuDNN is not used.",
)


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: cuDNN is not used."""
    return False
