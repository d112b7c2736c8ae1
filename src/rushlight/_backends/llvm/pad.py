"""Arrays continued beyond their edges, and columns added up as images, as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.convolution import out_sizes
from rushlight._backends.llvm.elementwise import cast
from rushlight._backends.llvm.operands import Compiled, entries
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import row_major
from rushlight._backends.reference import pad as reference
from rushlight._codegen.kernels import columns, edges
from rushlight._codegen.native_entry import bind
from rushlight._codegen.types import UNITS, of
from rushlight.core.dtype_sets import F32, F64, FLOATING, REDUCED

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pads = Sequence[tuple[int, int]]

MODES = ("constant", "reflect", "replicate", "circular")
PAD = {
    mode: entries(
        lambda d, u, mode=mode: bind(
            (edges.padded, {"MODE": mode}), [d], [d], (edges.pad, {"MODE": mode, "U": u})
        ),
        UNITS,
    )
    for mode in MODES
}
ADJOINT = {
    mode: entries(
        lambda d, t, mode=mode: bind(
            (edges.unpadded, {"MODE": mode}), [d], [d],
            (edges.pad_adjoint, {"MODE": mode, "T": t}),
        ),
        {each: of(each) for each in (F32, F64)},
    )
    for mode in MODES[1:]
}  # fmt: skip


@lru_cache(maxsize=1024)
def six(pads: Pads) -> tuple[int, ...] | None:
    """(before, after) of the last three dimensions; None where others are padded, too."""
    flat = [n for each in pads for n in each]
    more = len(flat) - 6
    return None if any(flat[: max(more, 0)]) else (*[0] * -more, *flat[max(more, 0) :])


def padded(entry: Any, x: np.ndarray, pads: Any, *value: int) -> np.ndarray | None:
    """What an entry for row-major arrays makes of `x`, with channels last where it has them last; None for what it
    is not made for."""
    numbers = six(tuple(pads))
    if numbers is None or x.__class__ is not np.ndarray:
        return None
    if x.flags.c_contiguous:
        return entry(x, *value, *numbers)
    if x.ndim == 4 and x.strides[1] == x.itemsize:
        last = x.transpose(0, 2, 3, 1)
        if last.flags.c_contiguous:
            y = entry(last, *value, *numbers[2:], *numbers[:2])
            return y if y is None else y.transpose(0, 3, 1, 2)
    if min(numbers) < 0 or (x.ndim == 5 and np.moveaxis(x, 1, -1).flags.c_contiguous):
        return None
    return entry(row_major(x), *value, *numbers)


@implements("pad_constant")
def pad_constant(x: np.ndarray, pads: Pads, value: Any) -> np.ndarray:
    """`x` with `value` around it: (before, after) for each of the last dimensions, outermost first."""
    bits = 0
    if value.__class__ is not int or value:
        if x.itemsize > 8:
            return reference.pad_constant(x, pads, value)
        bits = int(np.asarray(value).astype(x.dtype).view(f"i{x.itemsize}"))
    y = padded(PAD["constant"][x.dtype], x, pads, bits)
    return reference.pad_constant(x, pads, value) if y is None else y


@implements("pad_edges")
def pad_edges(x: np.ndarray, pads: Pads, mode: str) -> np.ndarray:
    """`x` continued beyond its edges: "reflect" (without the edge), "replicate", "circular"."""
    y = padded(PAD[mode][x.dtype], x, pads, 0)
    return reference.pad_edges(x, pads, mode) if y is None else y


@implements("pad_edges_adjoint")
def pad_edges_adjoint(g: np.ndarray, pads: Pads, sizes: Any, mode: str) -> np.ndarray:
    """The transpose of `pad_edges`: the borders of `g` added to where their values came from."""
    if g.dtype in REDUCED:
        return cast(pad_edges_adjoint(cast(g, F32), pads, sizes, mode), g.dtype)
    x = padded(ADJOINT[mode][g.dtype], g, pads)
    if x is None or x.shape[x.ndim - len(pads) :] != tuple(sizes):
        return reference.pad_edges_adjoint(g, pads, sizes, mode)
    return x


COL2IM = Compiled(columns.col2im)


@implements("col2im", dtypes=FLOATING, least=1)
def col2im(a: Any, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if a.dtype in REDUCED:
        return cast(col2im(cast(a, F32), sizes, kernel, dilation, padding, stride), a.dtype)
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
