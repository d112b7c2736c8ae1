"""Poisson, binomial, gamma, Dirichlet and multinomial numbers: number for number those of PyTorch's CPU kernels.

They take arrays of parameters and return a new array.

Equal to PyTorch 2.13 bit for bit, but that PyTorch sums a row of `dirichlet` in another order, which can change the last
bit in float64.

>>> from rushlight.rng.generator import Generator
>>> poisson(np.full(5, 3.0), Generator().manual_seed(0))
array([6., 3., 2., 3., 4.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.dtypes import OF
from rushlight.rng.sampling import exponential_, refuse

if TYPE_CHECKING:
    from rushlight.rng.generator import Generator


# ---------------------------------------------------------------------------------------------------- counts


def poisson(rate: np.ndarray, generator: Generator) -> np.ndarray:
    """Poisson counts with the given rates, in an array of the same shape and floating-point dtype.

    RuntimeError for a rate that is not at least 0.
    """
    if rate.dtype not in FLOATING:
        refuse("poisson_cpu", rate.dtype)
    rates = rate.astype(np.float64).ravel()
    if not (rates >= 0.0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return xp.random_poissons(generator, rates).astype(rate.dtype).reshape(rate.shape)


def binomial(count: np.ndarray, prob: np.ndarray, generator: Generator) -> np.ndarray:
    """How many of `count` trials of probability `prob` succeed; floating-point arrays of one dtype, broadcast.

    Probabilities outside of [0, 1] count as 0 or 1; NaN, and an infinite `count`, give NaN. ValueError for an integer
    `count`.
    """
    for name, x in (("count", count), ("prob", prob)):
        if x.dtype not in FLOATING:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {OF[x.dtype].scalar_name}"
            )
    if count.dtype != prob.dtype:
        raise RuntimeError(
            f"Found dtype {OF[prob.dtype].scalar_name} but expected {OF[count.dtype].scalar_name}: "
            "binomial wants count and prob of one dtype"
        )
    if count.dtype.itemsize == 2:
        refuse("binomial_cpu", count.dtype)
    counts, probs = np.broadcast_arrays(count, prob)
    rare = np.where(probs <= 0.5, probs, 1 - probs)
    with np.errstate(all="ignore"):
        # In the dtype of the inputs, as in PyTorch; what is computed from these is in float64.
        columns = (
            *(counts, probs, rare, counts * rare, np.sqrt(counts * rare * (1 - rare))),
            *(rare / (1 - rare), np.floor((counts + 1) * rare)),
            np.log1p(-rare.astype(np.float64)).astype(count.dtype),
        )
    rows = np.stack([c.ravel() for c in columns], 1).astype(np.float64)
    return xp.random_binomials(generator, rows).astype(count.dtype).reshape(counts.shape)


# ----------------------------------------------------------------------------------------------------- gamma


def standard_gamma(alpha: np.ndarray, generator: Generator) -> np.ndarray:
    """Gamma numbers of shape `alpha` and scale 1, in an array of the same shape and dtype, float32 or float64.

    Never less than the smallest normal number.
    """
    if alpha.dtype not in FULL:
        refuse("gamma_cpu", alpha.dtype)
    least = float(np.finfo(alpha.dtype).tiny)
    found = _gammas(alpha, generator, alpha.dtype.type).astype(alpha.dtype)
    # NaN becomes the least number too, as in PyTorch.
    return np.where(found >= least, found, alpha.dtype.type(least))


def _gammas(
    alpha: np.ndarray, generator: Generator, real: type[np.floating] = np.float64
) -> np.ndarray:
    """Gamma numbers in float64; what depends on alpha alone is computed in the type `real`, as in PyTorch."""
    with np.errstate(all="ignore"):
        start = alpha.astype(real).ravel()
        boosted = np.where(start < 1, start + real(1), start)
        columns = (start, real(1) / start, boosted - _THIRD)
    found = xp.random_gammas(generator, np.stack(columns, 1).astype(np.float64), _SQUEEZE)
    return found.reshape(alpha.shape)


_THIRD, _SQUEEZE = (
    float(np.float32(1 / 3)),
    float(np.float32(0.0331)),
)  # PyTorch's constants are float32


def dirichlet(alpha: np.ndarray, generator: Generator) -> np.ndarray:
    """Points of the simplex: gamma numbers of shape `alpha` [..., k], divided by their sum over the last dimension."""
    if alpha.dtype not in FULL:
        refuse("dirichlet", alpha.dtype)
    parts = np.fmax(
        _gammas(alpha, generator), np.finfo(np.float64).tiny
    )  # where all underflow: equal shares
    with np.errstate(all="ignore"):
        found = (parts / parts.sum(-1, keepdims=alpha.ndim > 0)).astype(alpha.dtype)
    least, one = np.finfo(alpha.dtype).tiny, alpha.dtype.type(1)
    return np.asarray(np.minimum(np.fmax(found, least), np.nextafter(one, alpha.dtype.type(0))))


# ----------------------------------------------------------------------------------------------- multinomial


def multinomial(weights: np.ndarray, n: int, replacement: bool, generator: Generator) -> np.ndarray:
    """Indices drawn with probabilities in proportion to `weights` [k] or [m, k]: int64 [n] or [m, n].

    Without replacement, and for a single index, weights are divided by exponential numbers and the `n` largest taken;
    with it, uniform numbers are looked up in the cumulative sum. RuntimeError for weights that are negative, not finite
    or all 0, and for more indices than there are weights.
    """
    if weights.dtype not in FLOATING:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {OF[weights.dtype].scalar_name}"
        )
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    if n <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {n}")
    if not replacement and n > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{n} > {weights.shape[-1]}"
        )
    wide = weights.astype(np.float64 if weights.dtype == np.float64 else np.float32, copy=False)
    rows = wide if weights.ndim == 2 else wide[None]
    if weights.size:
        unfit, empty = xp.invalid_weights(rows)
        if unfit:
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if empty:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if n == 1 or not replacement:
        # Drawn in the order that the weights lie in, if they have one.
        times = np.empty_like(weights, order="K" if all(weights.strides) else "C")
        exponential_(times, 1.0, generator)
        with np.errstate(all="ignore"):
            keys = weights / times
        if n == 1:
            return keys.argmax(-1, keepdims=True)
        return xp.topk(keys, n, keys.ndim - 1, True, True)[1]
    return xp.random_choices(generator, rows, n).reshape(weights.shape[:-1] + (n,))
