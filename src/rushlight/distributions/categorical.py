"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import ProbsOrLogits, either

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """The categories 0 ... k - 1 with `probs` [..., k], normalised here, or `logits`.

    >>> import rushlight as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _parameters, _kept = ("probs", "logits"), ("_num_events",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        either(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return rushlight.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    mode = property(lambda self: self.probs.argmax(dim=-1))

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = rushlight.Size(sample_shape)
        with rushlight.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = rushlight.multinomial(rows, sample_shape.numel(), True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = rushlight.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # minus infinity times 0 is 0 here
        logits = self.logits.clamp(min=rushlight.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = rushlight.arange(
            self._num_events, dtype=rushlight.int64, device=self._param.device
        )
        return self._for_batch(values, expand)


class CategoricalVectors(Distribution):
    """The base of distributions of vectors whose parameters are those of a `Categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _parameters = ("_categorical",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    logits = property(lambda self: self._categorical.logits, doc="Normalised log-probabilities.")
    probs = property(lambda self: self._categorical.probs, doc="Normalised probabilities.")
    param_shape = property(
        lambda self: self._categorical.param_shape, doc="The shape of `probs` and `logits`."
    )
