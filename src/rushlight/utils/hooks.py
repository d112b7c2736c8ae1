"""The handle that every `register_*hook` returns, shared by modules, optimizers and the graph; hooks of tensors in files."""

from __future__ import annotations

from rushlight.autograd.graph import RemovableHandle
from rushlight.autograd.tensor_hooks import unserializable_hook, warn_if_has_hooks

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
