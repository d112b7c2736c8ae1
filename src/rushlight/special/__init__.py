"""`torch.special`: special functions, as SciPy names them. Each is loaded at its first use."""

from __future__ import annotations

from rushlight.dispatch import methods

__getattr__, __dir__ = methods.namespace("special", globals())
