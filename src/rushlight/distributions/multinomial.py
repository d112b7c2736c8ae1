"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import CategoricalVectors
from rushlight.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(CategoricalVectors):
    """The multinomial distribution: how often each of k categories comes in `total_count` (an int) draws."""

    _parameters, _kept = (), ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._binomial = Binomial(total_count=self.total_count, probs=new.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        draws = self._categorical.sample((self.total_count, *sample_shape))
        counts = rushlight.nn.functional.one_hot(draws, self._event_shape[0]).sum(0)
        return counts.to(self.probs.dtype)

    def entropy(self) -> Tensor:
        n = rushlight.tensor(self.total_count)
        pmf = self._binomial
        values = pmf.enumerate_support(expand=False)[1:]
        weights = pmf.log_prob(values).exp()
        expected = (weights * rushlight.lgamma(values + 1)).sum([0, -1])
        return n * self._categorical.entropy() - rushlight.lgamma(n + 1) + expected

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        # 0 * log(0) is 0 here
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return (
            rushlight.lgamma(value.sum(-1) + 1)
            - rushlight.lgamma(value + 1).sum(-1)
            + (logits * value).sum(-1)
        )
