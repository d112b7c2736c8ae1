"""Transforms of vectors and matrices, to the simplex and to Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transform import Transform, _SameType
from rushlight.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix


def _vector(shape: Any) -> Any:
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return shape


class SoftmaxTransform(_SameType):
    """The softmax along the last dimension. It is not bijective; its inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _vector(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(_SameType):
    """Maps K - 1 real numbers to the simplex of K: each number says which share of the rest it takes.

    Share i is sigmoid(x_i - log(K - i)), i from 1, so that x = 0 is the centre of the simplex.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return (n - rushlight.arange(n, dtype=x.dtype, device=x.device)).log()

    def _call(self, x: Tensor) -> Tensor:
        info = rushlight.finfo(x.dtype)
        z = (x - self._offset(x)).sigmoid().clamp(min=info.tiny, max=1.0 - info.eps)
        left = (1 - z).cumprod(-1)
        one = x.new_ones(x.shape[:-1] + (1,))
        return rushlight.cat([z, one], -1) * rushlight.cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=rushlight.finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + rushlight.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _vector(shape)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        _vector(shape)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_SameType):
    """Maps a square matrix to its lower triangle, with exp of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_SameType):
    """Maps a square matrix to L L^T, where L is the result of `LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rushlight.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Maps D (D - 1) / 2 real numbers to the Cholesky factor of a D x D correlation matrix.

    tanh of the numbers, row by row below the diagonal, are canonical partial correlations; each takes
    its share of what is left of the row's unit norm (Lewandowski, Kurowicka and Joe, 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = rushlight.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        # what is left of the row's norm after the entries before
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + rushlight.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * rushlight.nn.functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        left = rushlight.nn.functional.pad(left[..., :-1], [1, 0], value=1)
        vector = tril_matrix_to_vec(y, diag=-1)
        t = vector / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2  # atanh

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        numbers = -2 * (x + rushlight.nn.functional.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return rows + numbers

    def forward_shape(self, shape: Any) -> Any:
        _vector(shape)
        n = shape[-1]
        size = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return shape[:-2] + (size * (size - 1) // 2,)
