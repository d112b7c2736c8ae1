"""`torch.quasirandom`: points that fill a cube more evenly than random ones.

The direction numbers are those of S. Joe, F. Y. Kuo, *Constructing Sobol sequences with better two-dimensional
projections*, SIAM J. Sci. Comput. 30, 2008 (the set new-joe-kuo-6.21201), which PyTorch uses too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight.core.dtypes import dtype as DType
from rushlight.core.tensor import Tensor, _wrap

__all__ = ["SobolEngine"]

_BUNDLED = 1111  # dimensions whose direction numbers ship with the package


class SobolEngine:
    """Points of a (scrambled) Sobol sequence in [0, 1) to the power of `dimension`, the numbers of PyTorch.

    `scramble`: the digits are mixed at random (a lower triangular matrix for each dimension and a digital shift, Owen
    1998), by `seed` or the default generator. Up to 1111 dimensions, up to 21201 where scipy is installed, which has
    the whole table; ValueError for more. Sequences are 2**30 points long.

    >>> import rushlight as torch
    >>> torch.quasirandom.SobolEngine(dimension=2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate: Tensor = _wrap(_directions(dimension, self.MAXBIT))
        self.shift: Tensor = torch.zeros(dimension, dtype=torch.long)
        if scramble:
            self._scramble()
        self.quasi: Tensor = self.shift.clone()
        self._first_point: Tensor = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points, `[n, dimension]`, in `dtype` (the default one); into `out` if given, which is resized.

        >>> engine = SobolEngine(1)
        >>> engine.draw().item(), engine.draw(2).tolist()
        (0.0, [[0.5], [0.75]])
        """
        if n < (self.num_generated == 0):
            raise RuntimeError(f"SobolEngine.draw: n must be a positive number of points, got {n}")
        dtype = dtype or torch.get_default_dtype()
        if self.num_generated == 0:
            first = self._first_point.to(dtype)
            result = first if n == 1 else torch.cat((first, self._next(n - 1, 0, dtype)))
        else:
            result = self._next(n, self.num_generated - 1, dtype)
        self.num_generated += n
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2**m points, which keep the balance of the sequence; ValueError unless a power of two of them results."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to "
                "do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Start again from the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Go past `n` points without making them."""
        if self.num_generated == 0:
            self._skip(n - 1, 0)
        else:
            self._skip(n, self.num_generated - 1)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"

    # -- the sequence
    #
    # Point k differs from the one before by one direction number: that of the lowest 0 in the digits of k (Antonov,
    # Saleev 1979).

    def _next(self, n: int, done: int, dtype: Any) -> Tensor:
        state, steps = self.sobolstate._array, self._lowest_zeros(n, done)
        moves = state.T[steps]
        if n:
            moves[0] ^= self.quasi._array
            np.bitwise_xor.accumulate(moves, 0, out=moves)
            self.quasi._array[...] = moves[-1]
        return _wrap(moves).to(dtype) * 2.0**-self.MAXBIT

    def _skip(self, n: int, done: int) -> None:
        # each direction counts as often as the Gray codes of `done` and `done + n` differ in it
        apart = (done ^ done >> 1) ^ (done + n ^ done + n >> 1)
        for digit in range(self.MAXBIT):
            if apart >> digit & 1:
                self.quasi._array[...] ^= self.sobolstate._array[:, digit]

    def _lowest_zeros(self, n: int, done: int) -> np.ndarray:
        if done + n > 2**self.MAXBIT:
            raise RuntimeError(
                f"SobolEngine: the sequence has 2**{self.MAXBIT} points, {done + n + 1} are asked for"
            )
        k = np.arange(done, done + n, dtype=np.int64)
        lowest = ~k & (k + 1)  # a power of two
        return np.frexp(lowest.astype(np.float64))[1] - 1

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = torch.Generator()
            generator.manual_seed(self.seed)
        bits, d = self.MAXBIT, self.dimension
        shifts = torch.randint(2, (d, bits), generator=generator)
        self.shift = torch.mv(shifts, 2 ** torch.arange(bits))
        mixing = torch.randint(2, (d, bits, bits), generator=generator).tril()._array
        mixing[:, range(bits), range(bits)] = 1
        # rows as numbers, the highest digit first; a digit of a product is the parity of a row and the number
        weights = 2 ** np.arange(bits - 1, -1, -1)
        rows = mixing @ weights
        mixed = np.bitwise_count(rows[:, None, :] & self.sobolstate._array[:, :, None]) & 1
        self.sobolstate = _wrap(mixed.astype(np.int64) @ weights)


def _directions(dimension: int, bits: int) -> np.ndarray:
    """The direction numbers int64 `[dimension, bits]`, as binary fractions times 2**bits.

    From the first ones of each dimension by the recurrence of its primitive polynomial (Bratley, Fox 1988), for all
    dimensions whose polynomials have the same degree at once.
    """
    polynomials, given = _table(dimension)
    degrees = np.frexp(polynomials)[1] - 1
    v = np.zeros((dimension, bits), np.int64)
    v[0] = 1
    for degree in range(1, int(degrees.max(initial=0)) + 1):
        (which,) = np.nonzero((degrees == degree) & (np.arange(dimension) > 0))
        p, numbers = polynomials[which], np.zeros((len(which), bits), np.int64)
        numbers[:, :degree] = given[which, :degree]
        for j in range(degree, bits):
            numbers[:, j] = numbers[:, j - degree]
            for k in range(degree):
                taken = p >> (degree - 1 - k) & 1
                numbers[:, j] ^= (numbers[:, j - k - 1] << (k + 1)) * taken
        v[which] = numbers
    return v << np.arange(bits - 1, -1, -1)


def _table(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """(primitive polynomials, their first direction numbers) of the first dimensions, int64."""
    import os

    if dimension <= _BUNDLED:
        place, names = os.path.join(os.path.dirname(__file__), "data", "sobol.npz"), (
            "polynomials", "numbers",
        )  # fmt: skip
    else:
        try:
            import scipy.stats
        except ImportError as error:
            raise ImportError(
                f"[SobolEngine] more than {_BUNDLED} dimensions need scipy's table of direction numbers, and scipy is "
                "not installed: pip install 'rushlight[scipy]'"
            ) from error
        folder = os.path.dirname(scipy.stats.__file__)
        place, names = os.path.join(folder, "_sobol_direction_numbers.npz"), ("poly", "vinit")
    with np.load(place) as content:
        polynomials, numbers = (content[name][:dimension].astype(np.int64) for name in names)
    return polynomials, numbers
