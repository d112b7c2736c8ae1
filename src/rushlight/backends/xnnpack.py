"""`torch.backends.xnnpack`: a library of kernels for telephones, which is not here."""

from __future__ import annotations

enabled = False
