"""Arrays continued beyond their edges, and columns added up as images, as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.convolution import out_sizes
from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import pad as reference
from rushlight._codegen.kernels import columns
from rushlight._codegen.kernels import copy as kernels
from rushlight.core.dtype_sets import FLOATING, REDUCED

if TYPE_CHECKING:
    from collections.abc import Sequence

BYTES = max(1, threshold(512))  # from which a kernel takes less time than NumPy


@lru_cache(maxsize=1024)
def plan(shape: Any, pads: Any, mode: str, dtype: np.dtype) -> tuple | None:
    """(kernel, shape of the result, its numbers) for row-major arrays; None where edges are cut off."""
    unit = kernels.UNITS.get(dtype.itemsize)
    if unit is None or not 0 < len(pads) <= 3 or len(pads) > len(shape):
        return None
    k = len(shape) - len(pads)
    low, sizes, out_sizes = [0, 0, 0], [1, 1, 1], [1, 1, 1]
    for i, (n, (before, after)) in enumerate(zip(shape[k:], pads, strict=True), 3 - len(pads)):
        if before < 0 or after < 0:
            return None
        most = n - 1 if mode == "reflect" else n
        if (before > most or after > most) and mode in ("reflect", "circular"):
            return None
        low[i], sizes[i], out_sizes[i] = before, n, n + before + after
    made = (*shape[:k], *out_sizes[3 - len(pads) :])
    return (
        kernels.pad.compiled(MODE=mode, U=unit),
        made,
        (prod(shape[:k]), *sizes, *low, *out_sizes),
    )


def padded(
    x: np.ndarray, pads: Sequence[tuple[int, int]], mode: str, value: object
) -> np.ndarray | None:
    """`x` continued beyond its edges; None for what the kernel is not made for."""
    if x.__class__ is not np.ndarray or x.nbytes < BYTES or not x.flags.carray:
        return None
    if (found := plan(x.shape, tuple(pads), mode, x.dtype)) is None:
        return None
    run, shape, numbers = found
    out = np.empty(shape, x.dtype)
    run(x, out, np.asarray(value).astype(x.dtype), *numbers)
    return out


@implements("pad_constant")
def pad_constant(x: np.ndarray, pads: Sequence[tuple[int, int]], value: object) -> np.ndarray:
    """`x` with `value` around it: (before, after) for each of the last dimensions, outermost first."""
    y = padded(x, pads, "constant", value)
    return reference.pad_constant(x, pads, value) if y is None else y


@implements("pad_edges")
def pad_edges(x: np.ndarray, pads: Sequence[tuple[int, int]], mode: str) -> np.ndarray:
    """`x` continued beyond its edges: "reflect" (without the edge), "replicate", "circular"."""
    y = padded(x, pads, mode, 0)
    return reference.pad_edges(x, pads, mode) if y is None else y


COL2IM = Compiled(columns.col2im)


@implements("col2im", dtypes=FLOATING, least=1)
def col2im(a: Any, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if a.dtype in REDUCED:
        return col2im(a.astype("f"), sizes, kernel, dilation, padding, stride).astype(a.dtype)
    if (
        len(kernel) != 2
        or a.ndim != 3
        or min(*sizes, *kernel, *stride, *dilation) < 1
        or min(padding) < 0
    ):
        return NotImplemented
    out, taps = out_sizes(sizes, kernel, stride, padding, dilation), prod(kernel)
    if min(out) < 1 or a.shape[1] % taps or a.shape[2] != prod(out):
        return NotImplemented
    y = np.empty((len(a), a.shape[1] // taps, *sizes), a.dtype)
    numbers = (*sizes, *out, *kernel, *dilation, *padding, *stride)
    COL2IM[(a.dtype,)](np.require(a, requirements="CA"), y, prod(y.shape[:2]), *numbers)
    return y
