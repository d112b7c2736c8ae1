"""`torch._prims`: `utils`, by which programs reach `torch._prims_common`. PyTorch's primitive operators are not here."""

from rushlight.compat import prims_common as utils

__all__ = ["utils"]
