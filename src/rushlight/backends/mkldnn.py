"""`torch.backends.mkldnn`: settings of oneDNN, without effect."""

from __future__ import annotations

from rushlight.backends.flags import block

enabled = False
deterministic = False
allow_tf32 = True
fp32_precision = "none"
flags = block(globals(), "enabled deterministic allow_tf32 fp32_precision", "oneDNN is not used.")


def is_available() -> bool:
    """False: oneDNN is not used."""
    return False
