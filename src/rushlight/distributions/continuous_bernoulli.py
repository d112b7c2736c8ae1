"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    ProbsOrLogits,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
)

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """The continuous Bernoulli distribution: the density C(p) p^x (1 - p)^(1 - x) on [0, 1] (Loaiza-Ganem and
    Cunningham, 2019).

    Between the two numbers of `lims`, Taylor series replace the closed forms, which are 0 / 0 at 0.5.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _parameters, _kept = ("probs", "logits"), ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_parameter(probs, logits)
        if probs is not None:
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """p"""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _cut(self) -> tuple[Tensor, Tensor]:
        """The mask where closed forms hold, and `probs` with the lower limit in the other elements."""
        outside = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return outside, rushlight.where(outside, self.probs, self._lims[0]).to(self.probs.dtype)

    def _cont_bern_log_norm(self) -> Tensor:
        """log C(p)"""
        outside, p = self._cut()
        below = rushlight.where(p <= 0.5, p, 0.0)
        above = rushlight.where(p >= 0.5, p, 1.0)
        log_norm = (rushlight.log1p(-p) - p.log()).abs().log() - rushlight.where(
            p <= 0.5, rushlight.log1p(-2.0 * below), rushlight.log(2.0 * above - 1.0)
        )
        x = (self.probs - 0.5).pow(2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return rushlight.where(outside, log_norm, taylor)

    @property
    def mean(self) -> Tensor:
        outside, p = self._cut()
        mean = p / (2.0 * p - 1.0) + 1.0 / (rushlight.log1p(-p) - p.log())
        x = self.probs - 0.5
        return rushlight.where(outside, mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    stddev = property(lambda self: self.variance.sqrt())

    @property
    def variance(self) -> Tensor:
        outside, p = self._cut()
        variance = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (
            rushlight.log1p(-p) - p.log()
        ).pow(2)
        x = (self.probs - 0.5).pow(2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return rushlight.where(outside, variance, taylor)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with rushlight.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(
            rushlight.rand(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            )
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross = rushlight.nn.functional.binary_cross_entropy_with_logits(
            logits, value, reduction="none"
        )
        return -cross + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        outside, p = self._cut()
        inner = (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inner = rushlight.where(outside, inner, value)
        inner = rushlight.where(value >= 1.0, 1.0, inner)
        return rushlight.where(value <= 0.0, 0.0, inner)

    def icdf(self, value: Tensor) -> Tensor:
        outside, p = self._cut()
        x = (rushlight.log1p(-p + value * (2.0 * p - 1.0)) - rushlight.log1p(-p)) / (
            p.log() - rushlight.log1p(-p)
        )
        return rushlight.where(outside, x, value)

    def entropy(self) -> Tensor:
        log0, log1 = rushlight.log1p(-self.probs), self.probs.log()
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    _natural_params = property(lambda self: (self.logits,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((e^x - 1) / x)"""
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = rushlight.where(outside, x, (self._lims[0] - 0.5)).to(x.dtype)
        log_norm = (cut.exp() - 1.0).abs().log() - cut.abs().log()
        taylor = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return rushlight.where(outside, log_norm, taylor)
