"""How arrays of convolutions lie in memory: as images, as lists of positions, as pairs of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import products
from rushlight._backends.llvm.conv_plans import (
    CHANNELS_LAST,
    FOREIGN,
    ROW_MAJOR,
    STRIDED,
    UNALIGNED,
)
from rushlight._backends.llvm.views import contiguous
from rushlight._backends.reference.conv import by_channel
from rushlight._codegen.kernels import gemm
from rushlight.core.dtype_sets import I32

if TYPE_CHECKING:
    Ints = tuple[int, ...]

Bias = Any  # np.ndarray | None


def layout_of(a: np.ndarray, shape: Ints, dtype: np.dtype) -> int:
    """How an array (N, C, *sizes) lies in memory. FOREIGN: it is not as the problem says, which only the
    reference takes (a dtype may be equal to another and not the same object)."""
    if a.dtype is not dtype or a.shape != shape or a.__class__ is not np.ndarray:
        return FOREIGN
    flags = a.flags
    if not flags.aligned:
        return UNALIGNED
    if flags.c_contiguous:
        return ROW_MAJOR
    return CHANNELS_LAST if by_position(a).flags.c_contiguous else STRIDED


def bias_layout(bias: Bias, n: int, dtype: np.dtype) -> int | None:
    """As `layout_of`; None where there is no bias."""
    if bias is None:
        return None
    if bias.dtype is not dtype or bias.shape != (n,):
        return FOREIGN
    return ROW_MAJOR if bias.flags.aligned else UNALIGNED


def by_position(a: np.ndarray) -> np.ndarray:
    """A view (N, *sizes, C) of (N, C, *sizes)."""
    return a.transpose(0, *range(2, a.ndim), 1)


def as_rows(a: np.ndarray) -> np.ndarray:
    """The matrix [positions, channels] of an array whose channels are innermost."""
    return by_position(a).reshape(-1, a.shape[1])


def as_images(a: np.ndarray, shape: Ints) -> np.ndarray:
    """The inverse of `as_rows`: an array of this shape."""
    return by_channel(a.reshape(shape[0], *shape[2:], shape[1]))


def converted(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype, with channels innermost where they were."""
    if not a.flags.aligned or not a.size:
        return a.astype(dtype)
    if a.ndim > 1 and not a.flags.c_contiguous and by_position(a).flags.c_contiguous:
        return by_channel(products.converted(by_position(a), dtype))
    return products.converted(a, dtype)


def dense(a: np.ndarray, layout: int) -> np.ndarray:
    """`a`, or a row-major copy where it has gaps."""
    return np.ascontiguousarray(a) if layout == STRIDED else a


def pairs_of_channels(a: np.ndarray, outer: int, rows: int, shape: Ints, layout: int) -> np.ndarray:
    """bfloat16 channels in pairs, `rows` in each of `outer` parts: an array of this shape and layout."""
    if layout == CHANNELS_LAST:
        return by_channel(by_position(a).view(I32))
    return paired(contiguous(a), outer, rows, shape)


def pairs_of_images(a: np.ndarray, layout: int) -> np.ndarray:
    """bfloat16 images in pairs."""
    last = layout == CHANNELS_LAST
    a = by_position(a) if last else contiguous(a)
    a = paired(a, 1, len(a), ((len(a) + 1) // 2, *a.shape[1:]))
    return by_channel(a) if last else a


def paired(a: np.ndarray, outer: int, rows: int, shape: Ints) -> np.ndarray:
    """The rows of a row-major array, `rows` in each of `outer` parts, in pairs: an array of this shape."""
    n = a.size // (outer * rows)
    if n == 1 and rows % 2 == 0:
        return a.reshape(-1).view(I32).reshape(shape)
    out = np.empty(shape, I32)
    gemm.pair_rows.compiled()(a, out, outer, rows, n)
    return out
