"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class _Dirichlet(rushlight.autograd.Function):
    """A draw with its reparametrised gradient: dx_i / da_j keeps the sum of x at one."""

    _needs_setup_context = False

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = rushlight._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        moved = rushlight._dirichlet_grad(x, concentration, total)
        return moved * (g - (x * g).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution on the simplex: the density prod x_i^(c_i - 1) / B(c), where c is the
    `concentration` [..., k]."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # all concentrations below 1: the density is unbounded in the corners
        corner = (self.concentration < 1).all(-1, keepdim=True)
        largest = rushlight.nn.functional.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode.dtype)
        return rushlight.where(corner, largest, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        concentration = self.concentration.expand(self._extended_shape(sample_shape))
        return _Dirichlet.apply(concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return (
            rushlight.xlogy(self.concentration - 1.0, value).sum(-1)
            + rushlight.lgamma(self.concentration.sum(-1))
            - rushlight.lgamma(self.concentration).sum(-1)
        )

    def entropy(self) -> Tensor:
        k = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        return (
            rushlight.lgamma(self.concentration).sum(-1)
            - rushlight.lgamma(total)
            - (k - total) * rushlight.digamma(total)
            - ((self.concentration - 1.0) * rushlight.digamma(self.concentration)).sum(-1)
        )

    _natural_params = property(lambda self: (self.concentration,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - rushlight.lgamma(x.sum(-1))
