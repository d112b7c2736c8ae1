"""Divergences between distributions of two kinds: E_p log p - E_p log q."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.kl import register_kl
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.normal import Normal
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import euler_constant


def _infinite(p: Any, q: Any) -> Tensor:
    """p has mass where q has none."""
    return rushlight.full_like(getattr(p, next(iter(p.arg_constraints))), math.inf)


for _p, _qs in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)


# -- E_p log q(x) of a q, in terms of moments of p ---------------------------------------------------


def _under_exponential(q: Any, mean: Tensor) -> Tensor:
    return q.rate.log() - q.rate * mean


def _under_gamma(q: Any, mean: Tensor, mean_log: Tensor) -> Tensor:
    return (
        q.concentration * q.rate.log()
        - q.concentration.lgamma()
        + (q.concentration - 1) * mean_log
        - q.rate * mean
    )


def _under_normal(q: Any, mean: Tensor, variance: Tensor) -> Tensor:
    squared = variance + (mean - q.loc).pow(2)
    return -0.5 * squared / q.scale.pow(2) - (q.scale * math.sqrt(2 * math.pi)).log()


def _under_gumbel(q: Any, mean: Tensor, mean_exp: Tensor) -> Tensor:
    """`mean_exp`: E exp(-(x - loc) / scale)."""
    return -(mean - q.loc) / q.scale - mean_exp - q.scale.log()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# -- from Beta ---------------------------------------------------------------------------------------


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - rushlight.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - _under_exponential(q, p.mean)


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    total = p.concentration1 + p.concentration0
    mean_log = p.concentration1.digamma() - total.digamma()
    return -p.entropy() - _under_gamma(q, p.mean, mean_log)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Tensor:
    return -p.entropy() - _under_normal(q, p.mean, p.variance)


def _pareto_mean(p: Any) -> Tensor:
    """The mean for alpha > 1. `p.mean` is infinite below, and 0 * inf in a gradient is nan."""
    return p.alpha * p.scale / (p.alpha - 1)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    a = p.alpha
    variance = p.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))
    result = -p.entropy() - _under_normal(q, _pareto_mean(p), variance)
    return rushlight.where(p.alpha <= 2, math.inf, result)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return rushlight.where((q.low > 0.0) | (q.high < 1.0), math.inf, result)


# -- from Exponential and Gamma ----------------------------------------------------------------------


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return -p.entropy() - _under_gamma(q, p.mean, -euler_constant - p.rate.log())


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    slope = p.rate * q.scale
    mean_exp = (q.loc / q.scale).exp() * slope / (slope + 1)
    return -p.entropy() - _under_gumbel(q, p.mean, mean_exp)


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    power = (1 + 1 / (p.rate * q.scale)).pow(-p.concentration)
    return -p.entropy() - _under_gumbel(q, p.mean, (q.loc / q.scale).exp() * power)


# -- from Normal -------------------------------------------------------------------------------------


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean_exp = (-(p.loc - q.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)).exp()
    return -p.entropy() - _under_gumbel(q, p.mean, mean_exp)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    difference = p.loc - q.loc
    z = difference / p.scale
    mean_abs = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp()
    mean_abs = mean_abs + difference * rushlight.erf(math.sqrt(0.5) * z)
    return -p.entropy() + mean_abs / q.scale + (2 * q.scale).log()


# -- from Pareto -------------------------------------------------------------------------------------


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - _under_exponential(q, _pareto_mean(p))
    return rushlight.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    result = -p.entropy() - _under_gamma(q, _pareto_mean(p), mean_log)
    return rushlight.where(p.alpha <= 1, math.inf, result)


# -- from Uniform ------------------------------------------------------------------------------------


def _xlogx(x: Tensor) -> Tensor:
    return rushlight.xlogy(x, x)


def _uniform_mean_log(p: Any) -> Tensor:
    return (_xlogx(p.high) - _xlogx(p.low)) / (p.high - p.low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    mean_log1m = (_xlogx(1 - p.low) - _xlogx(1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    mean = (a - 1) * _uniform_mean_log(p) + (b - 1) * mean_log1m
    result = -width.log() - mean + a.lgamma() + b.lgamma() - (a + b).lgamma()
    return rushlight.where((p.high > 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - rushlight.log1p(-q.probs)
    result = result - q._cont_bern_log_norm()
    return rushlight.where((p.high > 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - _under_exponential(q, p.mean)
    return rushlight.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - _under_gamma(q, p.mean, _uniform_mean_log(p))
    return rushlight.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    mean_exp = q.scale * ((-low).exp() - (-high).exp()) / (p.high - p.low)
    return -p.entropy() - _under_gumbel(q, p.mean, mean_exp)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    mean_log = _uniform_mean_log(p)
    log_prob = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * mean_log
    return rushlight.where(p.low < q.scale, math.inf, -p.entropy() - log_prob)
