"""Cholesky factors of random correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.beta import Beta
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower factors of correlation matrices M of density det(M)^(concentration - 1).

    The onion method of Lewandowski, Kurowicka and Joe (2009): each row is a direction drawn on the
    sphere and a radius whose square is a beta number.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters, _kept = ("concentration",), ("dim",)

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch_shape = self.concentration.shape
        dtype = self.concentration.dtype
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = rushlight.arange(dim - 1, dtype=dtype, device=self.concentration.device)
        offset = rushlight.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(batch_shape, Size((dim, dim)), validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._beta = self._beta.expand(batch_shape + (self.dim,))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with rushlight.no_grad():
            squared_radius = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            u = rushlight.randn(
                shape, dtype=self.concentration.dtype, device=self.concentration.device
            ).tril(-1)
            direction = u / u.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0  # the first row is 0 / 0
            w = rushlight.sqrt(squared_radius) * direction
            tiny = rushlight.finfo(w.dtype).tiny
            rest = (1 - (w**2).sum(-1)).clamp(min=tiny).sqrt()
            return w + rest.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        n, dm1 = self.dim, self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = rushlight.arange(
            2, n + 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        order = 2 * (self.concentration - 1).unsqueeze(-1) + n - order
        unnormalized = (order * diagonal.log()).sum(-1)
        alpha = self.concentration + 0.5 * dm1
        denominator = rushlight.lgamma(alpha) * dm1
        numerator = rushlight.mvlgamma(alpha - 0.5, dm1)
        return unnormalized - (0.5 * dm1 * math.log(math.pi) + numerator - denominator)
