"""`torch.backends.mkldnn`: oneDNN is not used here."""

from __future__ import annotations

from rushlight.backends.flags import block

enabled = False
deterministic = False
allow_tf32 = True
fp32_precision = "none"
flags = block(globals(), "enabled deterministic allow_tf32 fp32_precision", "oneDNN is not used.")


def is_available() -> bool:
    """False: kernels are NumPy's and our own."""
    return False
