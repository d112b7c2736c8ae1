"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import _standard_normal, broadcast_shapes, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrices [..., n, n] times vectors [..., n]."""
    return rushlight.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Tensor, vector: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x for lower factors L [..., n, n] and vectors x [..., n]."""
    solved = rushlight.linalg.solve_triangular(factor, vector.unsqueeze(-1), upper=False)
    return solved.pow(2).sum((-2, -1))


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The lower factor of the inverse of `precision`."""
    # the factor of the matrix read from its end is an upper factor of it
    flipped = rushlight.linalg.cholesky(rushlight.flip(precision, (-2, -1)))
    upper = rushlight.flip(flipped, (-2, -1)).mT
    identity = rushlight.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return rushlight.linalg.solve_triangular(upper, identity, upper=False)


def _scale_tril(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance that `matrix`, the parameter `name`, gives."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return rushlight.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)


def only_given(error: type[Exception], **matrices: Tensor | None) -> tuple[str, Tensor]:
    """The name and the value of the one matrix that is given; `error` if there is not just one."""
    known = [(name, value) for name, value in matrices.items() if value is not None]
    if len(known) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return known[0]


class WithCovariance:
    """A mixin for a covariance given by itself, by its inverse, or by its lower Cholesky factor.

    The ones that are not given are computed when they are first read.
    """

    _batch_shape: Any
    _unbroadcasted_scale_tril: Tensor

    def _matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._matrix(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._matrix(rushlight.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(WithCovariance, Distribution):
    """The normal distribution of vectors [..., n] with mean `loc` and a covariance, its inverse, or its lower
    Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = ("loc", "covariance_matrix", "scale_tril", "precision_matrix")
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_given(
            ValueError,
            covariance_matrix=covariance_matrix,
            scale_tril=scale_tril,
            precision_matrix=precision_matrix,
        )
        if matrix.dim() < 2:
            word = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{word} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _scale_tril(name, matrix)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        eps = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        normalizer = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (normalizer + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape)
