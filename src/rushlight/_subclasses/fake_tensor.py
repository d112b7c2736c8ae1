"""The class no tensor has here, and the question for it."""

from __future__ import annotations

from typing import Any

from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor

__all__ = ["FakeTensor", "is_fake"]


@stub("absent", "Tensors without memory are on the device `meta`: nothing is an instance.")
class FakeTensor(Tensor):
    """A tensor that only PyTorch's compiler makes: `isinstance(x, FakeTensor)` is False here."""


def is_fake(x: Any) -> bool:
    """Whether `x` is a `FakeTensor`.

    >>> import rushlight as torch
    >>> is_fake(torch.zeros(2))
    False
    """
    return isinstance(x, FakeTensor)
