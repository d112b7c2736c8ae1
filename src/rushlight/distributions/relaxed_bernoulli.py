"""A continuous relaxation of the Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import ProbsOrLogits, broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log-odds of `RelaxedBernoulli` (Maddison et al., 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _parameters, _kept = ("probs", "logits"), ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rushlight.rand(shape, dtype=probs.dtype, device=probs.device))
        odds = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value.mul(self.temperature)
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class _Relaxed(TransformedDistribution):
    """The base of relaxed distributions: the parameters are those of the base distribution."""

    has_rsample = True

    temperature = property(lambda self: self.base_dist.temperature, doc="The base distribution's.")
    logits = property(lambda self: self.base_dist.logits, doc="The base distribution's.")
    probs = property(lambda self: self.base_dist.probs, doc="The base distribution's.")


class RelaxedBernoulli(_Relaxed):
    """The relaxed Bernoulli distribution: numbers in (0, 1) that approach Bernoulli draws as `temperature`, a tensor,
    goes to 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _parameters = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
