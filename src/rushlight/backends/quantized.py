"""`torch.backends.quantized`: engines for quantised tensors; there are none."""

from __future__ import annotations

from rushlight.core.stub import declare

engine = "none"
supported_engines = ["none"]
declare("no-op", "There are no quantised tensors.", __name__, "engine")
