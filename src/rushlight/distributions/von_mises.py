"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all

__all__ = ["VonMises"]


def _log_bessel(x: Tensor, order: int) -> Tensor:
    """log of the modified Bessel function I_0 or I_1, by the scaled one, which does not overflow."""
    scaled = rushlight.special.i0e(x) if order == 0 else rushlight.special.i1e(x)
    return scaled.log() + x


class VonMises(Distribution):
    """The von Mises distribution of angles: the density exp(concentration * cos(x - loc)) / (2 pi
    I_0(concentration))."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameters = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        """The circular variance 1 - I_1 / I_0."""
        k = self.concentration
        return 1 - (_log_bessel(k, 1) - _log_bessel(k, 0)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return (
            self.concentration * rushlight.cos(value - self.loc)
            - math.log(2 * math.pi)
            - _log_bessel(self.concentration, 0)
        )

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher, 1979), in double."""
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            loc = self.loc.double()
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k.pow(2)).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # for small k the first terms of the series; rho loses its digits
            r = rushlight.where(k < 1e-5, 1 / k + k, (1 + rho.pow(2)) / (2 * rho)).expand(shape)
            k = k.expand(shape)
            x = rushlight.empty(shape, dtype=rushlight.float64, device=self.loc.device)
            done = rushlight.zeros(shape, dtype=rushlight.bool, device=self.loc.device)
            while not done.all():
                u1, u2, u3 = rushlight.rand(
                    (3, *shape), dtype=rushlight.float64, device=self.loc.device
                ).unbind()
                z = rushlight.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = rushlight.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            angle = (x + math.pi + loc) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)
