"""Convolutions as machine code; see `__init__.py` for when it runs, `_codegen/kernels/conv.py` for how, and
`compiled/conv_plans.py` for what kernels are told of sizes."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import products, threshold, winograd
from rushlight._backends.llvm.conv_plans import (  # fmt: skip
    PHASES,
    channels_plan,
    few_plan,
    forward_plan,
    frame,
    sizes_of,
    transposed_plan,
    weight_plan,
)
from rushlight._backends.llvm.views import row_major
from rushlight._backends.reference import conv as reference
from rushlight._backends.reference.pad import im2col
from rushlight._codegen.kernels import conv as kernels
from rushlight._codegen.kernels import gemm
from rushlight._codegen.kernels.conv import PANELS, ROWS_OF_K, TURNED, Plan
from rushlight._codegen.kernels.conv_few import (
    PLACES,
    channels,
    channels_transposed,
    channels_weight,
)
from rushlight._codegen.types import Type, of

if TYPE_CHECKING:
    Ints = tuple[int, ...]

WINDOWS = 6144  # elements of windows that are read at a time
LINES = 16  # parts of a depthwise weight's gradient that are summed apart
SMALL = threshold(2_000)  # multiplications below which little is gained


def is_half(*arrays: Any) -> bool:
    """Whether they are arrays (or None) of one half type, for which float32 computes."""
    dtype = arrays[0].dtype
    if dtype.itemsize != 2 or dtype.kind not in "fV" or arrays[0].size <= SMALL // 10:
        return False
    return all(a is None or (a.__class__ is np.ndarray and a.dtype is dtype) for a in arrays)


def single(a: np.ndarray) -> np.ndarray:
    return converted(a, winograd.SINGLE)


def converted(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype, its channels innermost where they were."""
    if not a.flags.aligned or not a.size:
        return a.astype(dtype)
    if a.ndim > 1 and innermost(a):  # a bias has no channels
        return np.moveaxis(products.converted(np.moveaxis(a, 1, -1), dtype), -1, 1)
    return products.converted(a, dtype)


def kernel_type(*arrays: Any) -> Type | None:
    """The type of arrays (or None) that kernels take; None if one of them is not what they take."""
    dtype = arrays[0].dtype
    if dtype.char not in "fd":
        return None
    for a in arrays:
        if a is None:
            continue
        if a.__class__ is not np.ndarray or a.dtype is not dtype or not a.flags.aligned:
            return None
    return of(dtype)


@lru_cache(maxsize=64)
def zeros(n: int, dtype: np.dtype) -> np.ndarray:
    """The bias of a convolution without one."""
    return np.zeros(n, dtype)


def innermost(a: np.ndarray) -> bool | None:
    """Whether the second dimension is innermost in memory (False: the array is C-contiguous), None
    where the array has gaps or another order."""
    if a.flags.c_contiguous:
        return False
    return True if a.transpose(0, *range(2, a.ndim), 1).flags.c_contiguous else None


def dense(a: np.ndarray) -> tuple[np.ndarray, bool]:
    """`a`, or a C-contiguous copy, and whether its second dimension is innermost."""
    last = innermost(a)
    return (np.ascontiguousarray(a), False) if last is None else (a, last)


def has_channels(
    a: np.ndarray, c: int, each: int, groups: int, kernel: Ints, stride: Ints, d: Ints
) -> bool:
    """Whether `conv_few.channels` is made for it: depthwise in two dimensions, channels innermost."""
    return (
        groups > 1
        and each == 1
        and c == 1
        and len(kernel) == 2
        and kernel[1] <= 9
        and stride[1] <= 4
        and d[1] <= 8
        and innermost(a) is True
    )


def lines_of(total: int, out: Ints, each: int) -> int:
    """Lines of a chunk of `by_channels`: some, since neighbours read the same; `each`: multiplications of
    a place."""
    return max(1, min(total // 16, out[0]), 65536 // (out[-1] * each))


def channels_of(kernel: Ints, stride: Ints, dilation: Ints) -> int:
    """Channels whose windows at PLACES places stay in the first-level cache."""
    wide = (PLACES - 1) * stride[1] + (kernel[1] - 1) * dilation[1] + 1
    return max(16, WINDOWS // (wide * kernel[0]) // 16 * 16)


def by_channels(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, out: Ints, kernel: Ints, t: Type, stride: Ints,
    padding: Ints, dilation: Ints,
) -> np.ndarray:  # fmt: skip
    """Depthwise convolution of x with w [taps, C], with channels innermost."""
    n, c = x.shape[:2]
    y = reference.empty((n, c, *out), x.dtype, True)
    known = {"T": t, "L": sizes_of(t)["L"], "KW": kernel[1], "S": stride[1], "D": dilation[1]}
    lines = lines_of(n * out[0], out, c * prod(kernel))
    plan = channels_plan(
        n, c, x.shape[2:], out, tuple(padding), stride[0], dilation[0], kernel[0], lines,
        channels_of(kernel, stride, dilation),
    )  # fmt: skip
    channels.compiled(**known)(x, np.ascontiguousarray(w), bias, y, plan)
    return y


def by_channels_transposed(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray, sizes: Ints, kernel: Ints, t: Type, stride: Ints,
    padding: Ints,
) -> np.ndarray:  # fmt: skip
    """The transpose of `by_channels`, with dilation 1."""
    n, c = g.shape[:2]
    x = reference.empty((n, c, *sizes), g.dtype, True)
    plan = channels_plan(n, c, g.shape[2:], sizes, tuple(padding), *stride)
    run = channels_transposed.compiled(T=t, L=sizes_of(t)["L"])
    run(g, np.ascontiguousarray(w), bias, x, *kernel, plan)
    return x


def by_channels_weight(
    x: np.ndarray, g: np.ndarray, kernel: Ints, t: Type, stride: Ints, padding: Ints, dilation: Ints
) -> np.ndarray:
    """The gradient of the weight of `by_channels`: (C, 1, *kernel), the first innermost."""
    n, c = x.shape[:2]
    parts = min(LINES, n * g.shape[2])
    plan = channels_plan(
        n, c, x.shape[2:], g.shape[2:], tuple(padding), stride[0], dilation[0], kernel[0], parts,
        channels_of(kernel, stride, dilation),
    )  # fmt: skip
    rows = 3 if kernel[0] == 3 and kernel[1] <= 4 else 1
    known = {"T": t, "L": sizes_of(t)["L"], "KW": kernel[1], "S": stride[1], "D": dilation[1]}
    w = np.empty((*kernel, c), x.dtype)
    sums = np.empty((parts, *w.shape), x.dtype)
    channels_weight.compiled(ROWS=rows, **known)(x, g, w, sums, plan)
    w_last = reference.empty((c, 1, *kernel), x.dtype, True)
    w_last[...] = w.reshape(-1, c).T.reshape(c, 1, *kernel)
    return w_last


def fit(x: Ints, w: Ints, y: Ints, groups: int) -> bool:
    """Whether an input (N, C, *in), a weight (O, C / groups, *kernel) and an output (N, O, *out) go
    together, and are large enough to pay."""
    return (
        len(y) <= 5
        and x[0] == y[0]
        and x[1] == w[1] * groups
        and w[0] == y[1]
        and w[0] % groups == 0
        and min(x) > 0
        and prod(y) * prod(w[1:]) > SMALL
    )


def as_last(a: np.ndarray) -> np.ndarray:
    """With the channels innermost."""
    return np.moveaxis(row_major(np.moveaxis(a, 1, -1)), -1, 1)


def within(
    sizes: Ints, kernel: Ints, out: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> bool:
    """Whether the windows of all places lie within the padded input."""
    each = zip(sizes, kernel, out, stride, padding, dilation, strict=True)
    return all((o - 1) * s + d * (k - 1) < n + 2 * p for n, k, o, s, p, d in each)


def is_whole(sizes: Ints, kernel: Ints, padding: Ints, dilation: Ints, groups: int) -> bool:
    """Whether the only window is the whole input, which makes the convolution a product of matrices."""
    return (
        groups == 1 and tuple(sizes) == tuple(kernel) and not any(padding) and set(dilation) == {1}
    )


def is_product(kernel: Ints, stride: Ints, padding: Ints, groups: int) -> bool:
    """Whether each place is for itself: a product with the weight's matrix."""
    return groups == prod(kernel) == max(stride) == 1 and not any(padding)


def rows(a: np.ndarray) -> np.ndarray:
    """The matrix [places, channels] of an array whose channels are innermost."""
    return np.moveaxis(a, 1, -1).reshape(-1, a.shape[1])


def as_columns(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray | None:
    """The windows of bfloat16 [n, K, places], where the product with them is the convolution at best:
    the processor multiplies pairs of them. None where it is not: windows that overlap would be
    written down several times, and an odd K has no pairs."""
    n, c, places = len(x), x.shape[1], prod(x.shape[2:])
    if x.dtype is not products.BF16 or groups != 1 or not x.flags.c_contiguous:
        return None
    if c * prod(kernel) % 2 or not gemm.pairs():
        return None
    if is_product(kernel, stride, padding, groups):
        return x.reshape(n, c, places)
    if any(padding) or max(dilation) > 1 or any(s < k for s, k in zip(stride, kernel, strict=True)):
        return None
    return im2col(x, kernel, dilation, padding, stride)


def images(a: np.ndarray, n: int, sizes: Ints) -> np.ndarray:
    """The inverse of `rows`."""
    return np.moveaxis(a.reshape(n, *sizes, a.shape[-1]), -1, 1)


def framed(a: np.ndarray, last: bool, low: Ints, wide: Ints, t: Type) -> tuple[np.ndarray, Ints]:
    """The array in its frame, and the steps of that."""
    lanes = sizes_of(t)["L"]
    plan, size, steps = frame(a.shape, last, low, wide, lanes)
    if plan is None:
        return a, steps
    wide_a = np.empty(size, a.dtype)
    kernels.spread.compiled(E=t, T=t, L=lanes)(a, wide_a, plan)
    return wide_a, steps


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    out: Ints | None = None,
    channels_last: bool = False,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """Cross-correlation of x (N, C, *in) with w (O, C / groups, *kernel), plus bias (O): (N, O, *out)."""
    if out is None:
        out = reference.out_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if is_half(x, w, bias):
        n, o = len(x), len(w)
        if bias is None and not channels_last and fit(x.shape, w.shape, (n, o, *out), groups):
            columns = as_columns(x, w.shape[2:], stride, padding, dilation, groups)
            if columns is not None:
                return products.matmul(w.reshape(o, -1), columns).reshape(n, o, *out)
        y = convolve(
            single(x), single(w), stride, padding, dilation, groups, out, channels_last,
            None if bias is None else single(bias),
        )  # fmt: skip
        return converted(y, x.dtype)
    t = kernel_type(x, w, bias)
    n, o, c = len(x), *w.shape[:2]
    if (
        t is None
        or not fit(x.shape, w.shape, (n, o, *out), groups)
        or (bias is not None and bias.shape != (o,))
        or not within(x.shape[2:], w.shape[2:], out, stride, padding, dilation)
    ):
        return reference.convolve(x, w, stride, padding, dilation, groups, out, channels_last, bias)
    if channels_last and innermost(x) and is_product(w.shape[2:], stride, padding, groups):
        return images(products.linear(rows(x), w.reshape(o, c), bias), n, out)
    bias = zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    if x.dtype is winograd.SINGLE:
        number = winograd.scheme_for(
            x.shape, o, out, w.shape[2:], stride, padding, dilation, groups, False
        )
        if number is not None:
            quick = winograd.convolve(
                number, x, w, bias, out, padding, dilation, groups, False, channels_last
            )
            if quick is not None:
                return quick
    if not channels_last and x.flags.c_contiguous and w.flags.c_contiguous:
        if is_whole(x.shape[2:], w.shape[2:], padding, dilation, groups):
            return products.linear(x.reshape(n, -1), w.reshape(o, -1), bias).reshape(n, o, *out)
        taps = prod(w.shape[2:])
        found = few_plan(
            t, "forward", x.shape, (n, o, *out), w.shape[2:], stride, padding, dilation, groups,
            (c * taps, taps),
        )  # fmt: skip
        if found is not None:
            y = np.empty((n, o, *out), x.dtype)
            found[0](x, w, bias, y, found[1])
            return y
    kernel = w.shape[2:]
    if channels_last and has_channels(x, c, o // groups, groups, kernel, stride, dilation):
        by_tap = w.reshape(o, -1).T
        return by_channels(x, by_tap, bias, tuple(out), kernel, t, stride, padding, dilation)
    if channels_last and groups > 1:  # thin products: vectors along lines take them
        taps = prod(kernel)
        if few_plan(
            t, "forward", x.shape, (n, o, *out), kernel, stride, padding, dilation, groups,
            (c * taps, taps),
        ):  # fmt: skip
            x, w = row_major(x), row_major(w)
            return as_last(convolve(x, w, stride, padding, dilation, groups, out, False, bias))
    (x, x_last), (w, w_last) = dense(x), dense(w)
    wide = tuple(m + 2 * p for m, p in zip(x.shape[2:], padding, strict=True))
    y = reference.empty((n, o, *out), x.dtype, channels_last)
    x, steps = framed(x, x_last, padding, wide, t)
    plan = forward_plan(
        t, n, o, c, w.shape[2:], out, stride, dilation, groups, steps, w_last, channels_last
    )
    kernels.convolve.compiled(WEIGHTS=ROWS_OF_K, B=t, **sizes_of(t))(x, w, bias, y, plan)
    return y


def convolve_transposed(
    g: np.ndarray,
    w: np.ndarray,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    sizes: Ints,
    channels_last: bool = False,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """The transpose of `convolve`: g (N, O, *out), w (O, C / groups, *kernel) to (N, C, *sizes), to
    which bias (C) is added."""
    if is_half(g, w, bias):
        shape = (len(g), w.shape[1] * groups, *sizes)
        if bias is None and not channels_last and fit(shape, w.shape, g.shape, groups):
            if is_product(w.shape[2:], stride, padding, groups) and tuple(sizes) == g.shape[2:]:
                columns = as_columns(g, w.shape[2:], stride, padding, dilation, groups)
                if columns is not None:
                    return products.matmul(w.reshape(w.shape[:2]).T, columns).reshape(shape)
        x = convolve_transposed(
            single(g), single(w), stride, padding, dilation, groups, sizes, channels_last,
            None if bias is None else single(bias),
        )  # fmt: skip
        return converted(x, g.dtype)
    t = kernel_type(g, w, bias)
    n, o, c = len(g), *w.shape[:2]
    if (
        t is None
        or not fit((n, c * groups, *sizes), w.shape, g.shape, groups)
        or prod(stride) > PHASES
        or (bias is not None and bias.shape != (c * groups,))
    ):
        return reference.convolve_transposed(
            g, w, stride, padding, dilation, groups, sizes, channels_last, bias
        )
    if is_product(w.shape[2:], stride, padding, groups) and tuple(sizes) == g.shape[2:]:
        if channels_last and innermost(g):
            return images(products.linear(rows(g), w.reshape(o, c).T, bias), n, sizes)
        if not channels_last and bias is None and c > 64 and g.flags.c_contiguous:
            x = products.matmul(w.reshape(o, c).T, g.reshape(n, o, -1))
            return x.reshape(n, c, *sizes)
    bias = zeros(c * groups, g.dtype) if bias is None else np.ascontiguousarray(bias)
    kernel, at = w.shape[2:], padding
    if set(stride) == {1}:
        at = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
    if g.dtype is winograd.SINGLE:
        number = winograd.scheme_for(
            g.shape, c * groups, sizes, kernel, stride, at, dilation, groups, True
        )
        if number is not None:
            quick = winograd.convolve(
                number, g, w, bias, sizes, at, dilation, groups, True, channels_last
            )
            if quick is not None:
                return quick
    if not channels_last and g.flags.c_contiguous and w.flags.c_contiguous:
        if is_whole(sizes, kernel, padding, dilation, groups) and prod(g.shape[2:]) == 1:
            x = products.matmul(g.reshape(n, -1), w.reshape(o, -1)).reshape(n, c, *sizes)
            return reference.biased(x, bias)
        way = "transposed"
        if set(stride) == {1}:
            way = "turned"
        taps, shape = prod(kernel), (n, c * groups, *sizes)
        if way == "turned" or set(stride) == {2}:
            found = few_plan(
                t, way, g.shape, shape, kernel, stride, at, dilation, groups, (taps, c * taps)
            )
            if found is not None:
                x = np.empty(shape, g.dtype)
                found[0](g, w, bias, x, found[1])
                return x
    if channels_last and has_channels(g, c, o // groups, groups, kernel, stride, dilation):
        by_tap = w.reshape(o, -1)
        if set(stride) == {1}:
            by_tap = by_tap[:, ::-1].T
            return by_channels(g, by_tap, bias, tuple(sizes), kernel, t, stride, at, dilation)
        if set(dilation) == {1}:
            return by_channels_transposed(
                g, by_tap.T, bias, tuple(sizes), kernel, t, stride, padding
            )
    if channels_last and (groups > 1 or c <= 4):
        taps, shape = prod(kernel), (n, c * groups, *sizes)
        way = "turned" if set(stride) == {1} else "transposed"
        if (way == "turned" or set(stride) == {2}) and few_plan(
            t, way, g.shape, shape, kernel, stride, at, dilation, groups, (taps, c * taps)
        ):
            g, w = row_major(g), row_major(w)
            return as_last(
                convolve_transposed(g, w, stride, padding, dilation, groups, sizes, False, bias)
            )
    g, g_last = dense(g)
    w = np.ascontiguousarray(w)
    each = zip(w.shape[2:], stride, padding, dilation, strict=True)
    low = tuple(max(0, d * (k - 1) // s - p // s) for k, s, p, d in each)
    each = zip(sizes, stride, padding, low, strict=True)
    wide = tuple((m - 1 + p) // s + 1 + at for m, s, p, at in each)
    x = reference.empty((n, c * groups, *sizes), g.dtype, channels_last)
    g, steps = framed(g, g_last, low, wide, t)
    plan, turned = transposed_plan(
        t, n, o, c, w.shape[2:], tuple(sizes), stride, padding, dilation, groups, steps, low,
        channels_last,
    )  # fmt: skip
    known = sizes_of(t)
    kind = TURNED
    if not plan[Plan.TAPS]:
        kind, panels = PANELS, np.empty(plan[Plan.ROOM], w.dtype)
        kernels.turn.compiled(E=t, T=t, L=known["L"])(w, panels, turned)
        w = panels
    kernels.convolve.compiled(WEIGHTS=kind, B=t, **known)(g, w, bias, x, plan)
    return x


def convolve_weight(
    x: np.ndarray,
    g: np.ndarray,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    channels_last: bool = False,
) -> np.ndarray:
    """The gradient of the weight: x (N, C, *in) and g (N, O, *out) to (O, C / groups, *kernel)."""
    if is_half(x, g):
        o, c = g.shape[1], x.shape[1] // groups
        if not channels_last and g.flags.c_contiguous:
            if fit(x.shape, (o, c, *kernel), g.shape, groups):
                columns = as_columns(x, kernel, stride, padding, dilation, groups)
                if columns is not None and columns.shape[2] == prod(g.shape[2:]):
                    columns = columns.swapaxes(0, 1).reshape(columns.shape[1], -1)
                    left = g.reshape(len(g), o, -1).swapaxes(0, 1).reshape(o, -1)
                    return products.matmul(left, columns.T).reshape(o, c, *kernel)
        w = convolve_weight(
            single(x), single(g), kernel, stride, padding, dilation, groups, channels_last
        )
        return converted(w, x.dtype)
    t = kernel_type(x, g)
    n, c, o, kernel = len(x), x.shape[1] // groups, g.shape[1], tuple(kernel)
    if (
        t is None
        or not fit(x.shape, (o, c, *kernel), g.shape, groups)
        or not within(x.shape[2:], kernel, g.shape[2:], stride, padding, dilation)
    ):
        return reference.convolve_weight(
            x, g, kernel, stride, padding, dilation, groups, channels_last
        )
    if (
        channels_last
        and innermost(x)
        and innermost(g)
        and is_product(kernel, stride, padding, groups)
    ):
        return images(products.adjoint_times(rows(g), rows(x)), o, kernel)
    if x.dtype is winograd.SINGLE:
        number = winograd.scheme_for(
            x.shape, o, g.shape[2:], kernel, stride, padding, dilation, groups, False
        )
        if number is not None and (o > 16 * groups or not winograd.LOSS):
            quick = winograd.convolve_weight(
                number, x, g, kernel, padding, dilation, groups, channels_last
            )
            if quick is not None:
                return quick
    if not channels_last and x.flags.c_contiguous and g.flags.c_contiguous:
        if is_whole(x.shape[2:], kernel, padding, dilation, groups):
            w = products.adjoint_times(g.reshape(n, -1), x.reshape(n, -1))
            return w.reshape(o, c, *kernel)
        found = few_plan(
            t, "weight", x.shape, g.shape, kernel, stride, padding, dilation, groups, (0, 0)
        )
        if found is not None:
            w = np.empty((o, c, *kernel), x.dtype)
            found[0](x, g, w, found[1])
            return w
    if (
        channels_last
        and innermost(g)
        and has_channels(x, c, o // groups, groups, kernel, stride, dilation)
    ):
        return by_channels_weight(x, g, kernel, t, stride, padding, dilation)
    if channels_last and groups > 1:
        if few_plan(
            t, "weight", x.shape, g.shape, kernel, stride, padding, dilation, groups, (0, 0)
        ):
            x, g = row_major(x), row_major(g)
            return as_last(convolve_weight(x, g, kernel, stride, padding, dilation, groups))
    (x, x_last), (g, g_last) = dense(x), dense(g)
    w = reference.empty((o, c, *kernel), x.dtype, channels_last)
    wide = tuple(m + 2 * p for m, p in zip(x.shape[2:], padding, strict=True))
    x, steps = framed(x, x_last, padding, wide, t)
    plan = weight_plan(
        t, n, o, c, kernel, g.shape[2:], stride, dilation, groups, steps, g_last, channels_last
    )
    splits = int(plan[Plan.SPLITS])
    parts = np.empty(splits * w.size, w.dtype) if splits > 1 else w
    kernels.convolve_weight.compiled(**sizes_of(t))(x, g, w, parts, plan)
    return w
