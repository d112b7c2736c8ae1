"""The chi-square distribution."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution: the sum of `df` squared standard normal numbers, which is Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}
    _parameters = ()

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
