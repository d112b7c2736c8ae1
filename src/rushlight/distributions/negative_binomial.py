"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import ProbsOrLogits, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """The negative binomial distribution: the number of successes, each of probability `probs`, before `total_count`
    (real) failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (self.total_count,) = self._set_parameter(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * rushlight.exp(self.logits))

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    variance = property(lambda self: self.mean / rushlight.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self) -> Gamma:
        # a Poisson number whose rate is a gamma number; the counts are checked already
        return Gamma(self.total_count, rushlight.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with rushlight.no_grad():
            return rushlight.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        sigmoid = rushlight.nn.functional.logsigmoid
        unnormalized = self.total_count * sigmoid(-self.logits) + value * sigmoid(self.logits)
        normalizer = (
            -rushlight.lgamma(self.total_count + value)
            + rushlight.lgamma(1.0 + value)
            + rushlight.lgamma(self.total_count)
        )
        # total_count = 0: all the mass is in 0
        normalizer = normalizer.masked_fill(self.total_count + value == 0.0, 0.0)
        return unnormalized - normalizer
