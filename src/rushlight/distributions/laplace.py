"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["Laplace"]


class Laplace(Distribution):
    """The Laplace distribution: the density exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # from eps - 1 on: log1p(-1) is minus infinity
        low = rushlight.finfo(self.loc.dtype).eps - 1
        u = rushlight.empty(shape, dtype=self.loc.dtype, device=self.loc.device).uniform_(low, 1)
        return self.loc - self.scale * u.sign() * rushlight.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return -rushlight.log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        difference = value - self.loc
        return 0.5 - 0.5 * difference.sign() * rushlight.expm1(-difference.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * rushlight.log1p(-2 * centred.abs())

    def entropy(self) -> Tensor:
        return 1 + rushlight.log(2 * self.scale)
