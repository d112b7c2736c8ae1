"""Convolution kernels on NumPy arrays, for any number of spatial dimensions.

All three directions are one product of matrices per group over *columns*: the matrix that holds, for
every place of the output, the window of the input it sees (K = channels of a group * kernel size
rows, L = output size columns). Columns are gathered for a few images at a time, so that they stay in
the processor's cache and a batch needs no more memory than an image.

    forward          y = w @ columns(x)
    weight gradient  w' = g @ columns(x)^T
    transposed       x' = the windows of w^T @ g, added up where they overlap

Where every channel is a group of its own (depthwise) the matrices would have one row, and the sum
over the kernel's offsets is taken directly.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends.convolution import out_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight._backends.convolution import Problem

    Ints = tuple[int, ...]

KERNELS = "convolve convolve_transposed convolve_weight".split()

CHUNK = 1 << 20  # bytes of columns gathered at a time: about what a core's cache holds
LARGE = 2 * CHUNK  # bytes of columns of one image from where on it is gathered in parts
WIDE = 128  # outputs of an image that fill a matrix product; fewer are joined over images


def computed(a: np.ndarray) -> np.ndarray:
    """Half precision is computed in float32; bool is not computed."""
    kind = a.dtype.kind
    if kind == "b":
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")
    return a.astype(np.float32) if a.dtype.itemsize == 2 and kind in "fV" else a


def padded(x: np.ndarray, padding: Ints) -> np.ndarray:
    """`x` with zeros around its spatial dimensions."""
    if not any(padding):
        return x
    sizes = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    wide[(..., *(slice(p, p + n) for p, n in zip(padding, x.shape[2:], strict=True)))] = x
    return wide


def windows(x: np.ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """A view (N, C, *kernel, *out) of the padded `x`: element (k, o) is at o * stride + k * dilation."""
    steps = x.strides[2:]
    inner = [s * d for s, d in zip(steps, dilation, strict=True)]
    outer = [s * t for s, t in zip(steps, stride, strict=True)]
    shape, strides = (*x.shape[:2], *kernel, *out), (*x.strides[:2], *inner, *outer)
    if x.flags.c_contiguous:
        return np.ndarray(shape, x.dtype, x, 0, strides)  # as_strided takes ten times as long
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def offsets(kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> Iterator[tuple[Ints, tuple]]:
    """For each offset in the kernel: the offset, and where the windows have it in the padded input."""
    for k in product(*map(range, kernel)):
        yield (
            k,
            (
                ...,
                *(
                    slice(i * d, i * d + (n - 1) * s + 1, s)
                    for i, d, n, s in zip(k, dilation, out, stride, strict=True)
                ),
            ),
        )


def empty(shape: Ints, dtype: np.dtype, channels_last: bool) -> np.ndarray:
    """An array for a result, with the channels innermost in memory where that is wanted."""
    if not channels_last:
        return np.empty(shape, dtype)
    return by_channel(np.empty((shape[0], *shape[2:], shape[1]), dtype))


def by_channel(a: np.ndarray) -> np.ndarray:
    """A view (N, C, *sizes) of (N, *sizes, C)."""
    return a.transpose(0, a.ndim - 1, *range(1, a.ndim - 1))


def per_chunk(n: int, rows: int, columns: int, itemsize: int, wide: bool) -> int:
    """How many images to gather at a time."""
    size = max(1, rows * columns * itemsize)
    least = -(-256 // max(columns, 1)) if wide else 1
    return max(1, min(n, max(CHUNK // size, least)))


def blocks(
    n: int, rows: int, out: Ints, itemsize: int, wide: bool
) -> Iterator[tuple[slice, int, int]]:
    """(images, first line, last line + 1): what to gather at a time; large images in parts."""
    places = prod(out)
    step = per_chunk(n, rows, places, itemsize, wide)
    line = max(1, rows * (places // out[0]) * itemsize)
    lines = out[0] if step > 1 else max(1, LARGE // line, -(-WIDE * out[0] // places))
    for at in range(0, n, step):
        for a in range(0, out[0], lines):
            yield slice(at, min(at + step, n)), a, min(a + lines, out[0])


def is_depthwise(problem: Problem) -> bool:
    """Whether each channel of the input is a group of its own."""
    return 1 < problem.groups == problem.x[1]


def biased(y: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """`y` (N, O, *out), to which bias (O) has been added."""
    if bias is not None:
        y += bias.reshape(-1, *(1,) * (y.ndim - 2))
    return y


def convolve(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, problem: Problem) -> np.ndarray:
    """Cross-correlation of x (N, C, *in) with w (O, C / groups, *kernel), plus bias (O): (N, O, *out)."""
    problem.check(x, w)
    result_dtype = x.dtype
    x, w = computed(x), computed(w)
    y = empty(problem.y, x.dtype, problem.channels_last)
    if not y.size or not w.size:
        y[...] = 0
    elif is_depthwise(problem):
        _depthwise(x, w, y, problem)
    else:
        _by_columns(x, w, y, problem.stride, problem.padding, problem.dilation, problem.groups)
    return biased(y if y.dtype == result_dtype else y.astype(result_dtype), bias)


def _by_columns(
    x: np.ndarray,
    w: np.ndarray,
    y: np.ndarray,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> None:
    """A convolution as products of matrices: windows side by side as columns, times the weights."""
    n, o, kernel, out = x.shape[0], w.shape[0], w.shape[2:], y.shape[2:]
    rows, places = prod(w.shape[1:]), prod(out)
    matrix = np.ascontiguousarray(w).reshape(groups, o // groups, rows)
    joined = places < WIDE and n > 1
    direct = not joined and y.flags.c_contiguous
    row = places // out[0]
    for images, a, b in blocks(n, groups * rows, out, x.itemsize, joined):
        if a == 0:
            wide = padded(x[images], padding)
        lines = (b - a, *out[1:])
        part = windows(wide[:, :, a * stride[0] :], kernel, lines, stride, dilation)
        m, here = len(part), (b - a) * row
        if joined:
            columns = np.moveaxis(part, 0, 1 + len(out)).reshape(groups, rows, m * here)
            r = np.matmul(matrix, columns).reshape(o, m, *lines).swapaxes(0, 1)
        elif direct:
            r = y[images].reshape(m, groups, o // groups, places)[..., a * row : b * row]
            np.matmul(matrix, part.reshape(m, groups, rows, here), out=r)
            continue
        elif groups == 1:  # channels last: the transposed product lies in memory as the result does
            columns = part.reshape(m, rows, here)
            r = np.matmul(columns.swapaxes(1, 2), matrix[0].T).swapaxes(1, 2).reshape(m, o, *lines)
        else:
            r = np.matmul(matrix, part.reshape(m, groups, rows, here)).reshape(m, o, *lines)
        y[images, :, a:b] = r


def _depthwise(x: np.ndarray, w: np.ndarray, y: np.ndarray, problem: Problem) -> None:
    n, c = x.shape[:2]
    o, kernel, out = w.shape[0], w.shape[2:], y.shape[2:]
    ones = (1,) * len(out)
    step = per_chunk(n, o, prod(out), x.itemsize, False)
    for at in range(0, n, step):
        part = padded(x[at : at + step], problem.padding)
        m = len(part)
        total = np.zeros((m, c, o // c, *out), x.dtype)
        scratch = np.empty_like(total)
        for k, where in offsets(kernel, out, problem.stride, problem.dilation):
            factor = w[(slice(None), 0, *k)].reshape(c, o // c, *ones)
            np.multiply(part[where][:, :, None], factor, out=scratch)
            total += scratch
        y[at : at + m] = total.reshape(m, o, *out)


def convolve_transposed(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, problem: Problem
) -> np.ndarray:
    """The transpose of `convolve`: g (N, O, *out), w (O, C / groups, *kernel) to (N, C, *in), plus bias (C)."""
    problem.check(g, w)
    result_dtype = g.dtype
    g, w = computed(g), computed(w)
    o, c, groups = g.shape[1], problem.x[1], problem.groups
    x = empty(problem.x, g.dtype, problem.channels_last)
    if not x.size or not w.size or not g.size:
        x[...] = 0
    elif o <= 2 * c and not is_depthwise(problem) and is_flipped(problem):
        # gathering columns once is less work than adding up overlapping windows
        flipped = w.reshape(groups, o // groups, c // groups, *problem.kernel).swapaxes(1, 2)
        flipped = np.flip(flipped.reshape(c, o // groups, *problem.kernel), tuple(range(2, w.ndim)))
        _by_columns(
            g, flipped, x, problem.stride, problem.flipped_padding, problem.dilation, groups
        )
    else:
        _add_windows(g, w, x, problem)
    return biased(x if x.dtype == result_dtype else x.astype(result_dtype), bias)


def is_flipped(problem: Problem) -> bool:
    """Whether a transposed convolution is one of g with the flipped weight."""
    p, wide = problem, problem.flipped_padding
    if max(p.stride) > 1 or min(wide) < 0:
        return False
    return p.sizes == out_sizes(p.out, p.kernel, p.stride, wide, p.dilation)


def _add_windows(g: np.ndarray, w: np.ndarray, x: np.ndarray, problem: Problem) -> None:
    """A transposed convolution: each element of `g` times the weights, added at its window of `x`."""
    n, o, groups = g.shape[0], g.shape[1], problem.groups
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    c, kernel, out = x.shape[1], w.shape[2:], g.shape[2:]
    rows, places = prod(w.shape[1:]), prod(out)
    sizes = [m + 2 * p for m, p in zip(x.shape[2:], padding, strict=True)]
    inside = (..., *(slice(p, p + m) for p, m in zip(padding, x.shape[2:], strict=True)))
    if is_depthwise(problem):
        ones = (1,) * len(out)
        step = per_chunk(n, c, places, g.itemsize, False)
        for at in range(0, n, step):
            split = g[at : at + step]
            split = split.reshape(len(split), c, o // c, *out)
            total = np.zeros((len(split), c, *sizes), g.dtype)
            for k, where in offsets(kernel, out, stride, dilation):
                factor = w[(slice(None), 0, *k)].reshape(c, o // c, *ones)
                total[where] += (split * factor).sum(2) if o > c else (split * factor)[:, :, 0]
            x[at : at + step] = total[inside]
        return
    matrix = np.ascontiguousarray(w).reshape(groups, o // groups, rows).swapaxes(1, 2)
    joined = places < WIDE and n > 1
    for images, a, b in blocks(n, groups * rows, out, g.itemsize, joined):
        part = g[images, :, a:b]
        m, lines = len(part), part.shape[2:]
        if a == 0:
            total = np.zeros((m, c, *sizes), g.dtype)
        split = part.reshape(m, groups, o // groups, -1)
        if joined:
            split = split.transpose(1, 2, 0, 3).reshape(groups, o // groups, -1)
            columns = np.matmul(matrix, split).reshape(c, *kernel, m, *lines)
            columns = np.moveaxis(columns, 1 + len(kernel), 0)
        else:
            columns = np.matmul(matrix, split).reshape(m, c, *kernel, *lines)
        below = total[:, :, a * stride[0] :]
        for k, where in offsets(kernel, lines, stride, dilation):
            below[where] += columns[(slice(None), slice(None), *k)]
        if b == out[0]:
            x[images] = total[inside]


def convolve_weight(x: np.ndarray, g: np.ndarray, problem: Problem) -> np.ndarray:
    """The gradient of the weight: x (N, C, *in) and g (N, O, *out) to (O, C / groups, *kernel)."""
    groups, kernel = problem.groups, problem.kernel
    stride, padding, dilation = problem.stride, problem.padding, problem.dilation
    problem.check(x, g)
    result_dtype = x.dtype
    x, g = computed(x), computed(g)
    n, c = x.shape[:2]
    o, out = g.shape[1], g.shape[2:]
    each, rows, places = c // groups, c // groups * prod(kernel), prod(out)
    total = np.zeros((groups, o // groups, rows), x.dtype)
    if not total.size or not g.size:
        n = 0
    if n and is_depthwise(problem):
        flat = total.reshape(c, o // c, *kernel)
        axes = "abcdefg"[: len(out)]
        step = per_chunk(n, c, places, x.itemsize, False)
        for at in range(0, n, step):
            part = padded(x[at : at + step], padding)
            split = g[at : at + step].reshape(len(part), c, o // c, *out)
            for k, where in offsets(kernel, out, stride, dilation):
                flat[(slice(None), slice(None), *k)] += np.einsum(
                    f"nx{axes},nxy{axes}->xy", part[where], split
                )
        n = 0
    nd = len(out)
    for images, a, b in blocks(n, groups * rows, out, x.itemsize, True) if n else ():
        if a == 0:
            wide = padded(x[images], padding)
        lines = (b - a, *out[1:])
        part = windows(wide[:, :, a * stride[0] :], kernel, lines, stride, dilation)
        split = g[images, :, a:b].reshape(len(part), groups, o // groups, -1)
        split = split.transpose(1, 2, 0, 3).reshape(groups, o // groups, -1)
        columns = np.moveaxis(part, 0, 1 + nd).reshape(groups, rows, -1)
        total += np.matmul(split, columns.swapaxes(1, 2))
    w = total.reshape(o, each, *kernel)
    if problem.channels_last:
        last = empty(w.shape, w.dtype, True)
        last[...] = w
        w = last
    return w if w.dtype == result_dtype else w.astype(result_dtype)
