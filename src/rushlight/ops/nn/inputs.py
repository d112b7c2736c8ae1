"""What operators of `nn` ask of their inputs: that one is a tensor, its dtype, its layout."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import overriding

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]


def check_tensor(name: str, input: Any) -> None:
    """TypeError for what is no tensor and does not stand for one, as the proxies of a tracer do."""
    if not isinstance(input, Tensor) and not overriding(input):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


def check_dtype(name: str, d: dtypes.dtype, kinds: str) -> None:
    """NotImplementedError for a dtype whose kind is not in `kinds`: NumPy's letters, "f" for all floating-point ones."""
    if ("f" if d.is_floating_point else d.np.kind) not in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{d.scalar_name}'")


def is_channels_last(a: np.ndarray) -> bool:
    """Whether results should have their channels innermost in memory because `a` has."""
    if a.ndim not in (4, 5) or a.flags.c_contiguous and 1 not in a.shape:
        return False
    return is_channels_last_in_bytes(a.shape, a.strides, a.itemsize)


def has_channels_last_1d(weight: np.ndarray) -> bool:
    """As `is_channels_last` of a weight of one dimension, which PyTorch takes for one of two: (O, C, 1, K)."""
    if weight.ndim != 3 or weight.flags.c_contiguous and 1 not in weight.shape:
        return False
    o, c, k = weight.shape
    outer, channel, step = weight.strides
    strides = (outer, channel, step * k, step)
    return is_channels_last_in_bytes((o, c, 1, k), strides, weight.itemsize)


@lru_cache(maxsize=1024)
def is_channels_last_in_bytes(shape: Ints, strides: Ints, size: int) -> bool:
    """The same for 4 or 5 dimensions, of strides in bytes and elements of `size` bytes."""
    return geometry.is_channels_last_strides(shape, tuple(s // size for s in strides))
