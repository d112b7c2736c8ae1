"""The handle that every `register_*hook` returns; modules, optimizers and the graph share it."""

from __future__ import annotations

from rushlight.autograd.graph import RemovableHandle

__all__ = ["RemovableHandle"]
