"""Functions for distributions: broadcasting of parameters, probabilities and logits, lazy attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return the values as tensors of one shape; numbers take the dtype of the first tensor.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import broadcast_all
    >>> broadcast_all(torch.zeros(2), 1)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(isinstance(v, (int, float)) or hasattr(v, "__torch_function__") for v in values):
        kinds = ", ".join(type(v).__name__ for v in values)
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            f"implementing __torch_function__. Seen: {kinds}."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    like = (
        {"dtype": rushlight.get_default_dtype()}
        if first is None
        else {"dtype": first.dtype, "device": first.device}
    )
    tensors = (rushlight.tensor(v, **like) if isinstance(v, (int, float)) else v for v in values)
    return tuple(rushlight.broadcast_tensors(*tensors))


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the common shape of tensors of these shapes, a Size."""
    return rushlight.Size(rushlight.broadcast_shapes(*shapes))


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Tensor:
    return rushlight.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of log-odds (`is_binary`), or of unnormalised log-probabilities along the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps], so that their logarithms are finite."""
    eps = rushlight.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the inverse of `logits_to_probs`; it is finite for the probabilities 0 and 1."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def either(probs: Any, logits: Any) -> None:
    """Raise unless exactly one of the two parameters is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class lazy_property:
    """An attribute that is computed when it is first read, recorded, and then kept on the instance."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__name__ = wrapped.__name__
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        # Read first under no_grad, the value would be without history for good.
        with rushlight.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class ProbsOrLogits:
    """A mixin for distributions with a parameter given as `probs` or as `logits`.

    The one that is not given is computed when it is first read.
    """

    _is_binary = True  # logits are log-odds; else normalised log-probabilities along the last dim

    def _set_parameter(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Set the parameter that is not None, broadcast with `others`; return the broadcast others."""
        either(probs, logits)
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        *others_, self.__dict__[name] = broadcast_all(*others, value)
        return others_

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or log-probabilities."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    _param = property(lambda self: self.probs if "probs" in self.__dict__ else self.logits)
    param_shape = property(lambda self: self._param.shape, doc="The shape of `probs` and `logits`.")


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below diagonal `diag` of matrices [..., n, n], row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    i, j = rushlight.tril_indices(n, n, diag)
    return mat[..., i, j]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the inverse of `tril_matrix_to_vec`, from [..., k] to [..., n, n] with zeros elsewhere."""
    root = ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5
    n = (-(1 + 2 * diag) + root) / 2
    if round(n) - n > rushlight.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    size = round(n)
    i, j = rushlight.tril_indices(size, size, diag)
    indices = i * size + j
    flat = vec.new_zeros(vec.shape[:-1] + (size * size,))
    flat = flat.index_copy(-1, indices, vec)
    return flat.reshape(vec.shape[:-1] + (size, size))
