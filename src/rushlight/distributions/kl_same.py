"""Divergences between two distributions of one kind."""

from __future__ import annotations

import math
from typing import Any

import rushlight
import rushlight.distributions as dist
from rushlight.core.tensor import Tensor
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.lowrank_multivariate_normal import _log_det, _mahalanobis
from rushlight.distributions.multivariate_normal import _batch_mahalanobis
from rushlight.distributions.utils import _sum_rightmost, euler_constant


@register_kl(dist.Bernoulli, dist.Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    softplus = rushlight.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = t1.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    t2 = t2.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return t1 + t2


@register_kl(dist.Beta, dist.Beta)
def _beta(p: Any, q: Any) -> Tensor:
    pa, pb, qa, qb = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    ps, qs = pa + pb, qa + qb
    t1 = qa.lgamma() + qb.lgamma() + ps.lgamma()
    t2 = pa.lgamma() + pb.lgamma() + qs.lgamma()
    t3 = (pa - qa) * pa.digamma() + (pb - qb) * pb.digamma()
    return t1 - t2 + t3 + (qs - ps) * ps.digamma()


@register_kl(dist.Binomial, dist.Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    # from a count with more trials, some values are impossible under q
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return kl.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(dist.Categorical, dist.Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand_as(t), math.inf)
    return t.masked_fill((p.probs == 0).expand_as(t), 0).sum(-1)


@register_kl(dist.ContinuousBernoulli, dist.ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + rushlight.log1p(-p.probs)
    return t1 + t2 - q._cont_bern_log_norm() - rushlight.log1p(-q.probs)


@register_kl(dist.Dirichlet, dist.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    t1 = total.lgamma() - b.sum(-1).lgamma()
    t2 = (a.lgamma() - b.lgamma()).sum(-1)
    t3 = (a - b) * (a.digamma() - total.digamma().unsqueeze(-1))
    return t1 - t2 + t3.sum(-1)


@register_kl(dist.Exponential, dist.Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(dist.ExponentialFamily, dist.ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    ours = [n.detach().requires_grad_() for n in p._natural_params]
    with rushlight.enable_grad():
        normalizer = p._log_normalizer(*ours)
        moments = rushlight.autograd.grad(normalizer.sum(), ours, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, moment in zip(ours, q._natural_params, moments, strict=True):
        result = result - _sum_rightmost((b - a) * moment, len(q.event_shape))
    return result


@register_kl(dist.Gamma, dist.Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = rushlight.lgamma(q.concentration) - rushlight.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * rushlight.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(dist.Gumbel, dist.Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    where_p, where_q = p.loc / q.scale, q.loc / q.scale
    t1 = ratio * euler_constant - ratio.log() + where_p - where_q
    t2 = rushlight.exp(where_q + (1 + ratio).lgamma() - where_p)
    return t1 + t2 - (1 + euler_constant)


@register_kl(dist.Geometric, dist.Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - rushlight.log1p(-q.probs) / p.probs - q.logits


@register_kl(dist.HalfNormal, dist.HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(dist.Laplace, dist.Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    difference = (p.loc - q.loc).abs()
    return -ratio.log() + difference / q.scale + ratio * rushlight.exp(-difference / p.scale) - 1


@register_kl(dist.Normal, dist.Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    difference = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + difference - 1 - ratio.log())


@register_kl(dist.OneHotCategorical, dist.OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(dist.Pareto, dist.Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    scale_ratio = p.scale / q.scale
    alpha_ratio = q.alpha / p.alpha
    result = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return rushlight.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(dist.Poisson, dist.Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(dist.Uniform, dist.Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return rushlight.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(dist.Cauchy, dist.Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    """Chyzak and Nielsen (2019)"""
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(dist.TransformedDistribution, dist.TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    """A bijection that both share changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(dist.Independent, dist.Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# -- multivariate normal: 2 KL = log det Q / det P + tr Q^-1 P + |mu_q - mu_p|_Q^2 - n ---------------


def _same_size(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {kind} with different event shapes cannot be computed"
        )


def _trace(factor: Tensor, root: Tensor) -> Tensor:
    """tr (L L^T)^-1 R R^T for a lower factor L and any R [..., n, m]."""
    batch = rushlight.broadcast_shapes(factor.shape[:-2], root.shape[:-2])
    factor = factor.expand(tuple(batch) + tuple(factor.shape[-2:]))
    root = root.expand(tuple(batch) + tuple(root.shape[-2:]))
    return rushlight.linalg.solve_triangular(factor, root, upper=False).pow(2).sum((-2, -1))


@register_kl(dist.MultivariateNormal, dist.MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    _same_size(p, q, "Multivariate Normals")
    pl, ql = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half_log = q._half_log_det() - p._half_log_det()
    distance = _batch_mahalanobis(ql, q.loc - p.loc)
    return half_log + 0.5 * (_trace(ql, pl) + distance - p.event_shape[0])


def _roots(p: Any) -> list[Tensor]:
    """Matrices R whose R R^T sum up to the covariance."""
    if isinstance(p, dist.MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _whole_log_det(p: Any) -> Tensor:
    if isinstance(p, dist.MultivariateNormal):
        return 2 * p._half_log_det()
    return _log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)


@register_kl(dist.MultivariateNormal, dist.LowRankMultivariateNormal)
@register_kl(dist.LowRankMultivariateNormal, dist.LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: Any) -> Tensor:
    _same_size(p, q, "(Low Rank) Multivariate Normals")
    factor, diagonal = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    distance = _mahalanobis(factor, diagonal, q.loc - p.loc, q._capacitance_tril)
    scaled = factor.mT / diagonal.unsqueeze(-2)
    trace: Any = 0
    for root in _roots(p):  # by the Woodbury formula
        trace = trace + (root.pow(2) / diagonal.unsqueeze(-1)).sum((-2, -1))
        trace = trace - _trace(q._capacitance_tril, scaled @ root)
    log_ratio = _whole_log_det(q) - _whole_log_det(p)
    return 0.5 * (log_ratio + trace + distance - p.event_shape[0])


@register_kl(dist.LowRankMultivariateNormal, dist.MultivariateNormal)
def _from_low_rank(p: Any, q: Any) -> Tensor:
    _same_size(p, q, "(Low Rank) Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    distance = _batch_mahalanobis(factor, q.loc - p.loc)
    trace: Any = 0
    for root in _roots(p):
        trace = trace + _trace(factor, root)
    log_ratio = _whole_log_det(q) - _whole_log_det(p)
    return 0.5 * (log_ratio + trace + distance - p.event_shape[0])
