"""`torch.distributed.tensor`: tensors spread over processes. There are none: for `isinstance`."""

from __future__ import annotations

from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor

__all__ = ["DTensor"]


@stub("absent", "There is one process: nothing is an instance.")
class DTensor(Tensor):
    """A tensor of which every process holds a part: `isinstance(x, DTensor)` is False here."""
