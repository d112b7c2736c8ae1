"""The names of PyTorch's `torch._C._nn` that programs import."""

from __future__ import annotations

from rushlight.nn.convert import parse_to as _parse_to

__all__ = ["_parse_to"]
