"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import WithCovariance, _scale_tril, only_given
from rushlight.distributions.utils import broadcast_shapes

__all__ = ["Wishart"]


class Wishart(WithCovariance, ExponentialFamily):
    """The Wishart distribution of matrices [..., p, p]: for whole `df` the sum of `df` outer products of normal
    vectors; df > p - 1.

    The covariance is given by itself, by its inverse, or by its lower Cholesky factor.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("df", "covariance_matrix", "scale_tril", "precision_matrix")
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = only_given(
            AssertionError,
            scale_tril=scale_tril,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
        )
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if not isinstance(df, Tensor):
            df = rushlight.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = broadcast_shapes(df.shape, matrix.shape[:-2])
        event_shape = matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if (self.df < event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = _scale_tril(name, matrix)
        self._dist_chi2 = self._diagonal(self.df)

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _diagonal(self, df: Tensor) -> Chi2:
        p = self._event_shape[-1]
        return Chi2(df=df.unsqueeze(-1) - rushlight.arange(p, dtype=df.dtype, device=df.device))

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._dist_chi2 = self._diagonal(new.df)

    @property
    def mean(self) -> Tensor:
        return self.df.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = rushlight.where(factor <= 0, math.nan, factor)
        return factor.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        squares = v.pow(2) + rushlight.einsum("...i,...j->...ij", d, d)
        return self.df.reshape(self._batch_shape + (1, 1)) * squares

    def _bartlett(self, sample_shape: Any) -> Tensor:
        """L A A^T L^T: roots of chi-square numbers on A's diagonal, normal numbers below."""
        p = self._event_shape[-1]
        squares = self._dist_chi2.rsample(sample_shape)
        least = rushlight.finfo(squares.dtype).eps
        noise = squares.clamp(min=least).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = rushlight.tril_indices(p, p, -1, device=noise.device)
        below = rushlight.randn(
            rushlight.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,),
            dtype=noise.dtype,
            device=noise.device,
        )
        noise = _with_lower(noise, i, j, below)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Draws; those that came out singular are drawn anew up to `max_try_correction` times."""
        if max_try_correction is None:
            max_try_correction = 3 if self._batch_shape else 10
        sample_shape = rushlight.Size(sample_shape)
        sample = self._bartlett(sample_shape)
        # PyTorch takes the good samples of the first draw for singular ones and draws those anew; a seed
        # gives its numbers only if this is done here too
        again = self._whole(self.support.check(sample), len(sample_shape))
        for _ in range(max_try_correction):
            if not again.any():
                break
            drawn = self._bartlett((int(again.sum()),))
            ones = (1,) * (sample.dim() - again.dim())
            sample = sample.masked_scatter(again.reshape(again.shape + ones), drawn)
            still = again.clone()
            still[again] = self._whole(~self.support.check(drawn), 1)
            again = still
        return sample

    def _whole(self, found: Tensor, sample_dims: int) -> Tensor:
        """For each sample, whether anything is found in its batch."""
        return found.flatten(sample_dims).any(-1) if self._batch_shape else found

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        nu, p = self.df, self._event_shape[-1]
        solved = rushlight.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -nu * (p * math.log(2) / 2 + self._half_log_det())
            - rushlight.mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * rushlight.linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det())
            + rushlight.mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2  # half of the degrees of freedom
        log_det = rushlight.linalg.slogdet(-2 * x).logabsdet
        return half * (-log_det + p * math.log(2)) + rushlight.mvlgamma(half, p)


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of `mvlgamma`."""
    return rushlight.digamma(
        x.unsqueeze(-1) - rushlight.arange(p, dtype=x.dtype, device=x.device) / 2
    ).sum(-1)


def _with_lower(matrix: Tensor, i: Tensor, j: Tensor, below: Tensor) -> Tensor:
    """`matrix` with the numbers `below` [..., k] at the places i, j [k]."""
    p = matrix.shape[-1]
    flat = matrix.flatten(-2).index_copy(-1, i * p + j, below)
    return flat.reshape(matrix.shape)
