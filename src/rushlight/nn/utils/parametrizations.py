"""Parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -- weight norm -----------------------------------------------------------------------------------


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """Return the 2-norm over all dimensions except one, which keep size 1; over all for None or -1."""
    if dim is None or dim == -1:
        return rushlight.linalg.vector_norm(v)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return rushlight.linalg.vector_norm(v, 2, others, keepdim=True) if others else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize the weight by its length and direction, w = g v / ||v|| (Salimans, Kingma 2016).

    One length for each index of `dim`; one for the whole tensor with `dim=None`. State dicts of the
    older `nn.utils.weight_norm` load too.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape  # the lengths
    torch.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state for key in old):
            for i, key in enumerate(old):
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


# -- spectral norm ---------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """Divides by the largest singular value, which the power method follows step by step."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        n = weight.dim()
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{n}, {n - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % n, eps
        if n > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, functional.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix: [size of `dim`, product of the other sizes]."""
        return weight.movedim(self.dim, 0).flatten(1)

    @rushlight.no_grad()
    def _iterate(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            # Into the same memory: a copy of the module on other devices shares it.
            u = rushlight.mv(matrix, self._v)
            self._u.copy_(functional.normalize(u, dim=0, eps=self.eps))
            v = rushlight.mv(matrix.H, self._u)
            self._v.copy_(functional.normalize(v, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next call writes to the vectors, and backward needs these.
        u, v = self._u.clone(), self._v.clone()
        return weight / rushlight.vdot(u, rushlight.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        # Also of a larger norm: it is divided away.
        return value


def output_dim(module: Module, dim: int | None) -> int:
    """Return `dim`, or the dimension of the weight that belongs to the outputs of the layer."""
    if dim is not None:
        return dim
    nn = rushlight.nn
    return int(isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide the weight, as a matrix with rows along `dim`, by its largest singular value
    (Miyato et al. 2018).

    In training each use of the weight does `n_power_iterations` steps of the power method.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
    >>> bool(torch.linalg.matrix_norm(layer.weight, 2) < 1.5)
    True
    """
    weight = _tensor_of(module, name)
    normed = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, normed)


# -- orthogonal ------------------------------------------------------------------------------------


def _signed_q(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a QR decomposition whose R has a positive diagonal."""
    reflections, tau = rushlight.geqrf(matrix)
    q = rushlight.linalg.householder_product(reflections, tau)
    return q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    eps = 10.0 * n * rushlight.finfo(q.dtype).eps
    identity = rushlight.eye(k, dtype=q.dtype, device=q.device)
    return rushlight.allclose(q.mH @ q, identity.expand(*q.shape[:-2], k, k), atol=eps)


class _Orthogonal(Module):
    """Maps any matrix to one with orthonormal columns (rows, where it is wide).

    `base`: with a trivialization, the point from which the map is taken (Lezcano-Casado 2019).
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, how: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and how == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, how
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        if wide:
            X = X.mT
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = rushlight.linalg.householder_product(below, tau)
            # The diagonal holds signs, which are not learned: integers cut them off.
            q = q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            below = X.tril()
            if n != k:
                zeros = below.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)
                below = rushlight.cat([below, zeros], -1)
            skew = below - below.mH
            if self.orthogonal_map == "matrix_exp":
                q = rushlight.matrix_exp(skew)
            else:  # Cayley: (I - A/2)^-1 (I + A/2)
                one = rushlight.eye(n, dtype=skew.dtype, device=skew.device)
                q = rushlight.linalg.solve(one - skew / 2, one + skew / 2)
            if n != k:
                q = q[..., :k]
        if self.has_base():
            q = self.base @ q
        return q.mT if wide else q

    def has_base(self) -> bool:
        return "base" in self._buffers

    @rushlight.no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        n, k = tall.shape[-2:]
        if not self.has_base():
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            reflections, tau = rushlight.geqrf(tall)
            signs = reflections.diagonal(dim1=-2, dim2=-1)
            signs.sign_()
            # LAPACK leaves a reflection out with a tau of exactly 0.
            signs.copy_(rushlight.where(tau == 0.0, -signs, signs))
            return reflections.mT if wide else reflections
        if n == k:
            base = tall.clone() if _is_orthogonal(tall) else _signed_q(tall)
        else:
            # Completed by random columns to a square one.
            shape = (*tall.shape[:-2], n, n - k)
            more = rushlight.randn(shape, dtype=tall.dtype, device=tall.device)
            base = _signed_q(rushlight.cat([tall, more], -1))
        self.base = base
        # All maps take this to the identity: the diagonal holds the signs of the reflections.
        start = rushlight.zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep the weight [..., m, n] orthogonal (unitary, if complex): its rows or columns are orthonormal.

    `orthogonal_map`: "matrix_exp" (square ones' default), "cayley" or "householder".

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 3))
    >>> torch.allclose(layer.weight @ layer.weight.mT, torch.eye(3), atol=1e-5)
    True
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    # Checking would take one more decomposition, and the map keeps dtype and shape.
    return parametrize.register_parametrization(module, name, made, unsafe=True)
