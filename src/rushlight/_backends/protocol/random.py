"""Kernels that draw random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rushlight._backends.protocol.array import Array

if TYPE_CHECKING:
    from rushlight.rng.generator import Generator


class Random(Protocol):
    """Kernels that draw random numbers."""

    # -- random --

    def by_c_library(self, name: str, x: Array) -> Array:
        """The C library's function `name` of each element, float64 [n]."""

    def random_uniform(self, generator: Generator, out: Array, low: float, high: float) -> None:
        """Numbers in [low, high) into `out`, float32 or float64; `low` where rounding gives
        `high`."""

    def random_doubles(self, generator: Generator, out: Array) -> None:
        """Numbers in [0, 1) into `out`, float64: the low 53 bits of 64, times 2**-53."""

    def random_floats(self, generator: Generator, out: Array) -> None:
        """Numbers in [0, 1) into `out`, float32: the low 24 bits of 32, times 2**-24."""

    def random_bernoulli(
        self, generator: Generator, out: Array, below: int, value: float = 1
    ) -> None:
        """`value` where the low 53 bits of 64 are less than `below`, else 0; in any dtype."""

    def random_integers(self, generator: Generator, out: Array, low: int, span: int) -> None:
        """Low + word % span into `out`, int64, by words of 32 bits; `span` below 2**28."""

    def random_normal_floats(
        self, generator: Generator, out: Array, mean: float, std: float
    ) -> None:
        """n >= 16 normal numbers into `out`, float32 [n]: those of n uniform ones in blocks of
        16, where those that are left over, and as many before them as make 16, come of 16
        more."""

    def random_normals(
        self, out: Array, mean: float, std: float, tail: Array | None = None
    ) -> None:
        """Uniform numbers `out`, float32 [16 k], into normal ones; see `box_muller`. `tail`: 16
        more."""

    def random_permutation(self, generator: Generator, n: int) -> Array:
        """0 to n - 1 in random order, int64 [n], n > 1: Fisher and Yates' shuffle."""

    def random_wide_normals(
        self, out: Array, mean: float, std: float, tail: Array | None = None
    ) -> None:
        """As `random_normals`, float64, by the C library's logarithm and NumPy's sine and
        cosine."""

    # -- samples --

    def dirichlet_gradient(self, x: Array, alpha: Array, total: Array) -> Array:
        """dx/dalpha / (1 - x) of samples `x` of Beta(alpha, total - alpha), in the dtype of
        `x`."""

    def standard_gamma_gradient(self, alpha: Array, x: Array) -> Array:
        """dx/dalpha of samples `x` of Gamma(alpha, 1), in the broadcast shape and the dtype of
        `x`."""
