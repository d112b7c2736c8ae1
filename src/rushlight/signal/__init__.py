"""`torch.signal`: window functions, in `windows`."""

from __future__ import annotations

from rushlight.signal import windows

__all__ = ["windows"]
