"""`torch.backends.opt_einsum`: the order of the products in `einsum` is our own choice."""

from __future__ import annotations

from typing import Any

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: the package is not used."""
    return False


def get_opt_einsum() -> Any:
    """None: the package is not used."""
    return None
