"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution: the density rate^c x^(c - 1) exp(-rate x) / Gamma(c), where c is the `concentration`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        standard = rushlight._standard_gamma(self.concentration.expand(shape))
        value = standard / self.rate.expand(shape)
        # a draw that came out as zero has no logarithm
        value.detach().clamp_(min=rushlight.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        value = rushlight.as_tensor(value, dtype=self.rate.dtype)
        self._check_sample(value)
        return (
            rushlight.xlogy(self.concentration, self.rate)
            + rushlight.xlogy(self.concentration - 1, value)
            - self.rate * value
            - rushlight.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return rushlight.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        return (
            self.concentration
            - self.rate.log()
            + self.concentration.lgamma()
            + (1.0 - self.concentration) * self.concentration.digamma()
        )

    _natural_params = property(lambda self: (self.concentration - 1, -self.rate))

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.lgamma(x + 1) + (x + 1) * rushlight.log(-y.reciprocal())
