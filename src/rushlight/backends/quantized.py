"""`torch.backends.quantized`: engines for quantised tensors, which are not here."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
