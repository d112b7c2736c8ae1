"""Distributions of the exponential family: entropy and divergence by derivatives of the normalizer."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """The base of exponential families, densities exp(<t(x), theta> - F(theta) + k(x)).

    `_natural_params` is theta, `_log_normalizer` is F, `_mean_carrier_measure` the mean of k(x).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(theta) - <theta, dF(theta)> - E k(x) (Nielsen and Nock, 2010)."""
        entropy = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with rushlight.enable_grad():
            normalizer = self._log_normalizer(*params)
            moments = rushlight.autograd.grad(normalizer.sum(), params, create_graph=True)
            entropy = entropy + normalizer
            for param, moment in zip(params, moments, strict=True):
                parts = (param * moment).reshape((*self._batch_shape, -1))
                entropy = entropy - parts.sum(-1)
        return entropy
