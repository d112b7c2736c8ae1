"""Categories as one-hot vectors."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import CategoricalVectors

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(CategoricalVectors):
    """The categorical distribution with one-hot vectors as values."""

    support = constraints.one_hot
    has_enumerate_support = True
    _parameters = ()

    mean = property(lambda self: self._categorical.probs)

    @property
    def mode(self) -> Tensor:
        index = self._categorical.mode
        return rushlight.nn.functional.one_hot(index, self._event_shape[0]).to(self.probs.dtype)

    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(rushlight.Size(sample_shape))
        return rushlight.nn.functional.one_hot(drawn, self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = rushlight.eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The one-hot categorical distribution with draws whose gradient is that of the probabilities (Bengio et al.,
    2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
