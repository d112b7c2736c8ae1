"""A mixture of distributions of one family."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: a `Categorical` picks the component, and components are along the last batch dimension."""

    arg_constraints: dict[str, Any] = {}
    has_rsample = False
    _parameters, _kept = ("_mixture_distribution",), ("_num_component", "_event_ndims")

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        picks = mixture_distribution.batch_shape
        parts = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(picks), reversed(parts), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({picks}) is not compatible with "
                    f"`component_distribution.batch_shape`({parts})"
                )
        km = mixture_distribution.logits.shape[-1]
        kc = component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(parts, event_shape, validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        shape = batch_shape + (self._num_component,)
        new._component_distribution = self._component_distribution.expand(shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(
        lambda self: self._mixture_distribution,
        doc="The Categorical distribution over the components.",
    )
    component_distribution = property(
        lambda self: self._component_distribution, doc="The components."
    )

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        means = self.component_distribution.mean
        return (self._weights() * means).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances plus the variance of the means."""
        weights, dim = self._weights(), -1 - self._event_ndims
        within = (weights * self.component_distribution.variance).sum(dim)
        difference = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return within + (weights * difference.pow(2.0)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self.component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (parts * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._check_sample(x)
        parts = self.component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        weights = rushlight.log_softmax(self.mixture_distribution.logits, -1)
        return rushlight.logsumexp(parts + weights, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with rushlight.no_grad():
            picked = self.mixture_distribution.sample(sample_shape)
            parts = self.component_distribution.sample(sample_shape)
            dim = parts.dim() - 1 - self._event_ndims
            ones = (1,) * (self._event_ndims + 1)
            picked = picked.expand(parts.shape[:dim])
            index = picked.reshape(picked.shape + ones).expand(
                picked.shape + (1,) + parts.shape[dim + 1 :]
            )
            return parts.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
