"""`torch.distributed.nn`: collectives with gradients."""

from __future__ import annotations

from rushlight.distributed.nn import functional as functional
from rushlight.distributed.nn.functional import *  # noqa: F403
from rushlight.distributed.nn.functional import __all__ as __all__
