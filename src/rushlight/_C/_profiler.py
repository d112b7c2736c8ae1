"""The names of PyTorch's `torch._C._profiler` that programs import."""

from __future__ import annotations

from typing import Any

__all__ = ["_ExperimentalConfig"]


class _ExperimentalConfig:
    """Settings for `profile(experimental_config=)`, without effect: `with_stack=True` alone records stacks."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
