"""Kernels that extend an array beyond its edges, and their transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends.convolution import out_sizes
from rushlight._backends.reference.conv import offsets, padded, windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Ints = tuple[int, ...]

KERNELS = "col2im im2col pad_constant pad_edges pad_edges_adjoint".split()


def inner(pads: Sequence[tuple[int, int]], sizes: Ints) -> tuple[tuple, tuple]:
    """Where the input is in the output, and which part of the input that is (pads may be negative)."""
    to = tuple(slice(max(low, 0), max(low, 0) + n + min(low, 0) + min(high, 0))
               for (low, high), n in zip(pads, sizes, strict=True))  # fmt: skip
    at = tuple(
        slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(pads, sizes, strict=True)
    )
    return to, at


def room(x: np.ndarray, shape: Ints) -> np.ndarray:
    """A new array, with channels last where `x` has them last, else contiguous."""
    if x.ndim in (4, 5) and not x.flags.c_contiguous and np.moveaxis(x, 1, -1).flags.c_contiguous:
        return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), x.dtype), -1, 1)
    return np.empty(shape, x.dtype)


def pad_constant(x: np.ndarray, pads: Sequence[tuple[int, int]], value: object) -> np.ndarray:
    """`x` with `value` around it: (before, after) for each of the last dimensions, outermost first."""
    lead = x.ndim - len(pads)
    pads = [(0, 0)] * lead + list(pads)
    shape = tuple(n + low + high for n, (low, high) in zip(x.shape, pads, strict=True))
    y = room(x, shape)
    to, at = inner(pads, x.shape)
    part = x[at]
    if part.size != y.size:
        y[...] = np.asarray(value).astype(y.dtype)
    y[to] = part
    return y


def edges(
    pads: Sequence[tuple[int, int]], sizes: Ints, mode: str
) -> Iterator[tuple[int, slice, slice]]:
    """(dimension from the back, border, where the border's values come from) in a padded array."""
    nd = len(pads)
    for i, ((low, high), n) in enumerate(zip(pads, sizes, strict=True)):
        end = low + n
        if mode == "reflect":
            sources = (
                slice(2 * low, low, -1),
                slice(end - 2, end - 2 - high if end - 2 >= high else None, -1),
            )
        elif mode == "replicate":
            sources = slice(low, low + 1), slice(end - 1, end)
        else:
            sources = slice(n, n + low), slice(low, low + high)
        if low:
            yield i - nd, slice(0, low), sources[0]
        if high:
            yield i - nd, slice(end, end + high), sources[1]


def on(axis: int, where: slice) -> tuple:
    """An index with `where` at dimension `axis` counted from the back."""
    return (..., where, *(slice(None),) * (-1 - axis))


def split(pads: Sequence[tuple[int, int]]) -> tuple[list, list]:
    """What is added at each side, and what is cut off (negative numbers)."""
    wide = [(max(low, 0), max(high, 0)) for low, high in pads]
    return wide, [(min(low, 0), min(high, 0)) for low, high in pads]


def pad_edges(x: np.ndarray, pads: Sequence[tuple[int, int]], mode: str) -> np.ndarray:
    """`x` continued beyond its edges: "reflect" (without the edge), "replicate", "circular".

    Cutting off comes first for "circular" and last for the others, as in PyTorch.
    """
    wide, cut = split(pads)
    cuts, first = any(map(any, cut)), mode == "circular"
    if cuts and first:
        x = pad_constant(x, cut, 0)
    y = pad_constant(x, wide, 0)
    for axis, border, source in edges(wide, x.shape[x.ndim - len(pads) :], mode):
        y[on(axis, border)] = y[on(axis, source)]
    return pad_constant(y, cut, 0) if cuts and not first else y


def pad_edges_adjoint(
    g: np.ndarray, pads: Sequence[tuple[int, int]], sizes: Ints, mode: str
) -> np.ndarray:
    """The transpose of `pad_edges`: the borders of `g` added to where their values came from."""
    wide, cut = split(pads)
    back, first = [(-low, -high) for low, high in cut], mode == "circular"
    if first:
        sizes = tuple(n + low + high for n, (low, high) in zip(sizes, cut, strict=True))
    a = pad_constant(g, [(0, 0)] if first else back, 0)
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        a = a.astype(np.float32)
    for axis, border, source in reversed(list(edges(wide, sizes, mode))):
        into, part = a[on(axis, source)], a[on(axis, border)]
        into += part.sum(axis, keepdims=True) if mode == "replicate" else part
    x = pad_constant(a, [(-low, -high) for low, high in wide], 0)
    if first:
        x = pad_constant(x, back, 0)
    return x.astype(g.dtype, copy=False)


def im2col(x: np.ndarray, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> np.ndarray:
    """The windows of x (N, C, *in) as columns: (N, C * kernel size, number of windows)."""
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    places = 1
    for m in out:
        places *= m
    rows = x.shape[1]
    for k in kernel:
        rows *= k
    return xp.row_major(windows(padded(x, padding), kernel, out, stride, dilation)).reshape(
        len(x), rows, places
    )


def col2im(
    a: np.ndarray, sizes: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> np.ndarray:
    """The transpose of `im2col`: columns added up where their windows overlap, (N, C, *sizes)."""
    out = out_sizes(sizes, kernel, stride, padding, dilation)
    n = len(a)
    channels = a.shape[1]
    for k in kernel:
        channels //= k
    split = a.reshape(n, channels, *kernel, *out)
    tiles = tuple(k * m for k, m in zip(kernel, out, strict=True))
    if tuple(stride) == tuple(kernel) and tuple(sizes) == tiles and not any(padding):
        if all(d == 1 for d in dilation):  # nothing overlaps, nothing is left out
            nd = len(kernel)
            order = [2 + i // 2 + (1 - i % 2) * nd for i in range(2 * nd)]
            return xp.row_major(split.transpose(0, 1, *order)).reshape(n, channels, *sizes)
    half = a.dtype.itemsize == 2 and a.dtype.kind in "fV"
    wide = tuple(m + 2 * p for m, p in zip(sizes, padding, strict=True))
    total = np.zeros((n, channels, *wide), np.float32 if half else a.dtype)
    for k, where in offsets(kernel, out, stride, dilation):
        total[where] += split[(slice(None), slice(None), *k)]
    inside = (..., *(slice(p, p + m) for p, m in zip(padding, sizes, strict=True)))
    return np.ascontiguousarray(total[inside]).astype(a.dtype, copy=False)
