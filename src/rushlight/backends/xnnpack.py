"""`torch.backends.xnnpack`: a library of kernels for telephones, which is not here."""

from __future__ import annotations

from rushlight.core.stub import declare

enabled = False
declare("no-op", "XNNPACK is not used.", __name__, "enabled")
