"""`torch.distributed.tensor`: tensors spread over processes, for `isinstance`; there are none yet."""

from __future__ import annotations

from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor

__all__ = ["DTensor"]


@stub("absent", "Not there yet: nothing is an instance.")
class DTensor(Tensor):
    """A tensor of which every process holds a part: `isinstance(x, DTensor)` is False here."""
