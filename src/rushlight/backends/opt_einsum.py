"""`torch.backends.opt_einsum`: settings of opt_einsum, without effect."""

from __future__ import annotations

from typing import Any

from rushlight.core.stub import declare

enabled = False
strategy: str | None = None
declare("no-op", "`einsum` orders its products itself.", __name__, "enabled strategy")


def is_available() -> bool:
    """False: the package is not used."""
    return False


def get_opt_einsum() -> Any:
    """None: the package is not used."""
    return None
