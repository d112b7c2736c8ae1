"""The positive half of a Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.half_normal import _Half
from rushlight.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(_Half):
    """The absolute value of a Cauchy number of median 0 and this `scale`."""

    _parameters = ()

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: rushlight.full_like(self.scale, math.inf))
    variance = property(lambda self: self.base_dist.variance)
