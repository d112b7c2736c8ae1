"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution of excesses over a threshold `loc`: 1 - cdf = (1 + c z)^(-1 / c), where z =
    (x - loc) / scale.

    c is the `concentration`; where it is 0 the distribution is exponential.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _safe(self) -> tuple[Tensor, Tensor]:
        """The mask where the concentration is zero, and the concentration with ones there."""
        zero = rushlight.isclose(self.concentration, rushlight.zeros_like(self.concentration))
        return zero, rushlight.where(zero, 1.0, self.concentration).to(self.loc.dtype)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(
            rushlight.rand(
                self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
            )
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        z = self._z(value)
        zero, c = self._safe()
        power = (1 + 1 / c) * rushlight.log1p(c * z)
        return -self.scale.log() - rushlight.where(zero, z, power)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log of the probability of more than `value`."""
        self._check_sample(value)
        z = self._z(value)
        zero, c = self._safe()
        return -rushlight.where(zero, z, rushlight.log1p(c * z) / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log of `cdf`."""
        return rushlight.log1p(-rushlight.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return rushlight.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._safe()
        log_survival = rushlight.log1p(-value)
        z = rushlight.where(zero, -log_survival, rushlight.expm1(-c * log_survival) / c)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Tensor:
        mean = self.loc + self.scale / (1 - self.concentration)
        return rushlight.where(self.concentration < 1, mean, math.inf)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))
        return rushlight.where(c < 0.5, variance, math.nan)

    mode = property(lambda self: self.loc)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        c = self.concentration
        upper = rushlight.where(c < 0, self.loc - self.scale / c, math.inf)
        return constraints.interval(self.loc, upper)
