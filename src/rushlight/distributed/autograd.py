"""`torch.distributed.autograd`: backward through calls between processes, which are not here; a program may ask."""

from __future__ import annotations

from rushlight.distributed.absent import absent_class
from rushlight.distributed.rpc import is_available

__all__ = ["context", "is_available"]

context = absent_class("torch.distributed.autograd", "context")
