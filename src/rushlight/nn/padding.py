"""Padding: borders of zeros, a constant, or values of the input."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.tuples import ntuple

__all__ = [
    f"{kind}Pad{n}d"
    for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    for n in (1, 2, 3)
]


class _Pad(Module):
    """padding: one number, or (before, after) per dimension, the last dimension first."""

    __constants__ = ["padding"]
    _n = 0
    _mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self._n)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    __constants__ = ["padding", "value"]
    _shown = ("padding", "value")

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    extra_repr = Module.extra_repr


class ConstantPad1d(_ConstantPad):
    """Padding of the last dimension with one value."""

    _n = 1


class ConstantPad2d(_ConstantPad):
    """Padding of the last two dimensions with one value."""

    _n = 2


class ConstantPad3d(_ConstantPad):
    """Padding of the last three dimensions with one value."""

    _n = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class ZeroPad1d(_ZeroPad):
    """Padding of the last dimension with zeros."""

    _n = 1


class ZeroPad2d(_ZeroPad):
    """Padding of the last two dimensions with zeros."""

    _n = 2


class ZeroPad3d(_ZeroPad):
    """Padding of the last three dimensions with zeros."""

    _n = 3


class ReflectionPad1d(_Pad):
    """Padding of the last dimension by reflection; the values at the ends are not repeated.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.arange(4.0).reshape(1, 4))
    tensor([[2., 1., 0., 1., 2., 3., 2., 1.]])
    """

    _n, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Padding of the last two dimensions by reflection; the values at the border are not repeated."""

    _n, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Padding of the last three dimensions by reflection; the values at the border are not repeated."""

    _n, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Padding of the last dimension with copies of its first and last values."""

    _n, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Padding of the last two dimensions with copies of the border."""

    _n, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Padding of the last three dimensions with copies of the border."""

    _n, _mode = 3, "replicate"


class _CircularPad(_Pad):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self._n + 1, self._n + 2):
            raise ValueError(
                f"expected {self._n + 1}D or {self._n + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Padding of the last dimension with the values from its other end."""

    _n = 1


class CircularPad2d(_CircularPad):
    """Padding of the last two dimensions with the values from the opposite side."""

    _n = 2


class CircularPad3d(_CircularPad):
    """Padding of the last three dimensions with the values from the opposite side."""

    _n = 3
