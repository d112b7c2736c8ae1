"""`torch.backends.xnnpack`: settings of XNNPACK, without effect."""

from __future__ import annotations

from rushlight.core.stub import declare

enabled = False
declare("no-op", "XNNPACK is not used.", __name__, "enabled")
