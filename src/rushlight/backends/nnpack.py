"""`torch.backends.nnpack`: settings of NNPACK, without effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rushlight.core.stub import stub

__all__ = ["flags", "is_available", "set_flags"]


def is_available() -> bool:
    """False."""
    return False


@stub("no-op", "NNPACK is not used.")
def set_flags(_enabled: bool) -> tuple[bool, ...]:
    """Has no effect; returns the previous value, False."""
    return (False,)


@stub("no-op", "NNPACK is not used.")
@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A block without effect."""
    yield
