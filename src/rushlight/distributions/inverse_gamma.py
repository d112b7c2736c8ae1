"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / x for a gamma number x of this `concentration` and `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = ()

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(
            exponent=-rushlight.ones((), dtype=base.rate.dtype, device=base.rate.device)
        )
        super().__init__(base, inverse, validate_args=validate_args)

    concentration = property(
        lambda self: self.base_dist.concentration, doc="The base distribution's."
    )
    rate = property(lambda self: self.base_dist.rate, doc="The base distribution's.")

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return rushlight.where(self.concentration > 1, mean, math.inf)

    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.rate.square() / ((c - 1).square() * (c - 2))
        return rushlight.where(c > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()
