"""What masks choose: where they are set, the elements there, and elements put there."""

from __future__ import annotations

import numpy as np

KERNELS = "masked_expand masked_scatter masked_select nonzero".split()


def nonzero(a: np.ndarray) -> np.ndarray:
    """The indices of elements that are not 0, in row-major order: int64 [a.ndim, how many]."""
    return np.array(a.nonzero(), np.int64)


def masked_select(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements where a mask of the same shape is True, in row-major order, as a vector."""
    return a[mask]


def masked_expand(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Zeros of the shape of the mask, with `values` in their order where it is True. ValueError for
    another number of values."""
    z = np.zeros(mask.shape, values.dtype)
    z[mask] = values
    return z


def masked_scatter(z: np.ndarray, mask: np.ndarray, values: np.ndarray) -> bool:
    """The elements of `values`, in their order, into `z` where a mask of its shape is True; False, and nothing is
    written, where they are too few. There may be more."""
    n = int(mask.sum())
    if n > values.size:
        return False
    z[mask] = values.reshape(-1)[:n]
    return True
