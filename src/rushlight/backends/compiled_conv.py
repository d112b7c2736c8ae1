"""Convolutions as machine code; see `compiled.py` for when it runs, `compiler/conv.py` for how.

What a kernel needs to know of sizes is planned once for every combination of sizes. One and two
spatial dimensions are three of which the first are 1.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.backends import compiled_products as products
from rushlight.backends import compiled_winograd as winograd
from rushlight.backends import numpy_conv as reference
from rushlight.backends.compiled import threshold
from rushlight.compiler import conv as kernels
from rushlight.compiler.conv import DEPTH, PANELS, ROWS, ROWS_OF_K, TURNED, Plan
from rushlight.compiler.conv_few import (
    CHANNELS,
    channels,
    channels_weight,
    few,
    few_transposed,
    few_weight,
)
from rushlight.compiler.types import Type, of

if TYPE_CHECKING:
    Ints = tuple[int, ...]

SMALL = threshold(20_000)  # multiplications below which the reference takes no longer
CHUNKS = 16  # that a large convolution is cut into at least
CHUNK = 2_000_000  # multiplications that are worth a chunk of their own
PHASES = 16  # of a transposed convolution, at most
sizes_of = cache(kernels.sizes)


def is_half(*arrays: Any) -> bool:
    """Whether they are arrays (or None) of one half type, for which float32 computes."""
    dtype = arrays[0].dtype
    if dtype.itemsize != 2 or dtype.kind not in "fV" or arrays[0].size <= SMALL // 10:
        return False
    return all(a is None or (a.__class__ is np.ndarray and a.dtype is dtype) for a in arrays)


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


def has_channels(a: np.ndarray, c: int, each: int, groups: int, kernel: Ints, d: Ints) -> bool:
    """Whether `conv_few.channels` is made for it: depthwise in two dimensions, channels innermost."""
    return (
        groups > 1
        and each == 1
        and c == 1
        and len(kernel) == 2
        and prod(kernel) <= 25
        and groups <= CHANNELS
        and innermost(a) is True
    )


@lru_cache(maxsize=1024)
def channels_plan(
    n: int, c: int, sizes: Ints, out: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> np.ndarray:
    return np.array((n, c, *sizes, *out, *stride, *padding, *dilation), np.int64)


def by_channels(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    out: Ints,
    kernel: Ints,
    t: Type,
    *geometry: Ints,
) -> np.ndarray:
    """Depthwise convolution of x with w [taps, C], with channels innermost."""
    n, c = x.shape[:2]
    y = reference.empty((n, c, *out), x.dtype, True)
    known = {"T": t, "L": sizes_of(t)["L"], "KH": kernel[0], "KW": kernel[1]}
    plan = channels_plan(n, c, x.shape[2:], out, *geometry)
    channels.compiled(**known)(x, np.ascontiguousarray(w), bias, y, plan)
    return y


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


def three(values: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(values)) + values


@lru_cache(maxsize=1024)
def frame(shape: Ints, last: bool, low: Ints, wide: Ints, lanes: int) -> tuple:
    """How `spread` puts an array (N, C, *sizes) into a frame of zeros of the sizes `wide`, from `low`
    on: its plan (None: the array is the frame), elements of the frame, steps of it for the image,
    the channel and three spatial dimensions."""
    n, c = shape[:2]
    inner = c if last else 1
    sizes, low, wide = three(shape[2:], 1), three(low, 0), three(wide, 1)
    row = wide[2] * inner
    plane = wide[1] * row
    volume = wide[0] * plane
    whole = sizes == wide and not any(low)
    if not whole and not last and volume * 4 % 4096 < 64:
        volume += 80  # channels whole pages apart would share a few lines of the cache
    steps = (volume if last else c * volume, 1 if last else volume, plane, row, inner)
    if whole:
        return None, 0, steps
    outer = n if last else n * c
    plan = (outer, *sizes[:2], sizes[2] * inner, *wide[:2], row, volume, plane)
    plan += (*low[:2], low[2] * inner)
    return np.array(plan, np.int64), outer * volume, steps


def framed(a: np.ndarray, last: bool, low: Ints, wide: Ints, t: Type) -> tuple[np.ndarray, Ints]:
    """The array in its frame, and the steps of that."""
    lanes = sizes_of(t)["L"]
    plan, size, steps = frame(a.shape, last, low, wide, lanes)
    if plan is None:
        return a, steps
    wide_a = np.empty(size, a.dtype)
    kernels.spread.compiled(E=t, T=t, L=lanes)(a, wide_a, plan)
    return wide_a, steps


def rounded_up(n: int, by: int) -> int:
    return -(-n // by) * by


def split(total: int, rows: int, others: int, work: int) -> int:
    """Places of a chunk: at most ROWS, a multiple of `rows`; `work`: multiplications in all."""
    wanted = min(CHUNKS, 1 + work // CHUNK)
    pieces = max(-(-total // ROWS), -(-wanted // others))
    return min(rounded_up(-(-total // pieces), rows), ROWS // rows * rows)


def offsets(channels: int, taps: list[int], channel_step: int, channels_first: bool) -> list[int]:
    """Where a window reads, for each product: over channels and taps, the latter faster (or not)."""
    if channels_first:
        return [c * channel_step + at for c in range(channels) for at in taps]
    return [c * channel_step + at for at in taps for c in range(channels)]


def window(kernel: Ints, dilation: Ints, steps: Ints, channels: int, last: bool) -> list[int]:
    """Where a window reads, in the order of weights (O, C, *kernel), or with C innermost."""
    each = [d * s for d, s in zip(three(dilation, 1), steps[2:], strict=True)]
    taps = [
        sum(i * s for i, s in zip(k, each, strict=True))
        for k in product(*map(range, three(kernel, 1)))
    ]
    return offsets(channels, taps, steps[1], not last)


def fill(
    t: Type, n: int, out: Ints, groups: int, lanes: int, x_steps: Ints, y_steps: Ints, channels: int
) -> list[int]:
    """A plan's fields that the two kernels share, for one phase without strides."""
    plan = [0] * Plan.PHASES
    plan[Plan.GROUPS], plan[Plan.LANES] = groups, lanes
    plan[Plan.BLOCKS] = -(-lanes // (2 * sizes_of(t)["L"]))
    plan[Plan.OUT : Plan.OUT + 3] = out
    plan[Plan.PLACES] = n * prod(out)
    plan[Plan.X_IMAGE], plan[Plan.X_GROUP] = x_steps[0], channels * x_steps[1]
    plan[Plan.OVER : Plan.OVER + 3] = plan[Plan.TIMES : Plan.TIMES + 3] = (1, 1, 1)
    plan[Plan.X_STEP : Plan.X_STEP + 3] = x_steps[2:]
    plan[Plan.Y_IMAGE], plan[Plan.Y_CHANNEL], plan[Plan.Y_PLACE] = y_steps
    return plan


def depth(k: int, lanes: int) -> int:
    """Products of a block: at most DEPTH, about as many in each."""
    blocks = max(1, -(-k // DEPTH))
    return min(DEPTH, rounded_up(-(-k // blocks), lanes))


FEW_LINES = {1: (8, 7, 6, 5, 4), 2: (4, 7), 3: (4, 3), 4: (2, 3)}  # in a tile of so many channels
CODE = 420  # multiply-adds in the code of a tile, at most


def few_tile(r: int, each: int, k: int, taps: int, high: int, wide: int, lanes: int) -> Ints:
    """Channels, lines and vectors of a tile of `few`, as they were fastest."""
    if k > 200 and each % 8 == 0:
        r = 8
    found = [n for n in FEW_LINES.get(r, (2,)) if n <= high and n * r * taps <= CODE]
    found = found or [max(1, min(high, CODE // (r * taps)))]
    lines = min(found, key=lambda n: rounded_up(high, n))  # fewest that do not exist
    vectors = 1
    while wide > vectors * lanes and 2 * vectors * r * lines <= 16 and vectors < 4:
        if 2 * vectors * r * lines * taps > CODE or (vectors == 2 and lines > 1):
            break
        vectors *= 2
    return r, lines, vectors


@lru_cache(maxsize=1024)
def few_plan(
    t: Type, way: str, x: Ints, y: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints,
    groups: int, w_steps: Ints,
) -> tuple[Any, np.ndarray] | None:  # fmt: skip
    """The kernel of `conv_few` for C-contiguous arrays of the shapes `x` and `y`, and its plan; None
    where there is none.

    `way`: "forward", "turned" (the transpose, stride 1), "transposed" (stride 2): from `x` to `y`; or
    "weight", where `y` is the gradient. `w_steps`: of a channel of `y` and of one of `x`.
    """
    if len(kernel) == 1 and way != "transposed":
        x, y = (*x[:2], 1, x[2]), (*y[:2], 1, y[2])
        kernel, padding = (1, *kernel), (0, *padding)
        stride, dilation = stride * 2, dilation * 2
    if len(kernel) != 2 or stride[0] != stride[1] or stride[0] > 2 or dilation[0] != dilation[1]:
        return None
    s, d, lanes, taps = stride[0], dilation[0], sizes_of(t)["L"], prod(kernel)
    each, c = y[1] // groups, x[1] // groups
    if min(padding) < 0 or taps > 49:
        return None
    known = {"T": t, "L": lanes, "KH": kernel[0], "KW": kernel[1]}
    if taps == s == 1 and not any(padding) and x[2:] == y[2:]:
        x, y = (*x[:2], 1, x[2] * x[3]), (*y[:2], 1, y[2] * y[3])
    if way == "weight":
        if each > 4 or kernel[1] * each > 24 or groups * c < 8:
            return None
        vectors = 1
        while vectors < 4 and y[3] > vectors * lanes and 2 * vectors * each * kernel[1] <= 12:
            vectors *= 2
        work = x[0] * each * taps * y[2] * rounded_up(y[3], vectors * lanes)
        plan = (x[0], groups, 1, c, *x[2:], *y[2:], *padding, 0, 0, 0, max(1, CHUNK // 8 // work))
        kernel_of = few_weight.compiled(R=each, V=vectors, S=s, D=d, **known)
        return kernel_of, np.array(plan, np.int64)
    rows = max(r for r in range(1, 6) if each % r == 0)
    if each > 8 or groups == 1 < each > 4:
        full = y[3] / rounded_up(y[3], lanes)  # part of the lanes that are used
        most = 0 if rows < 4 or full < 0.5 else 32 if s > 1 else 64 if full < 0.85 else 300
        if each > 8 and (c * taps > most or (taps == 1 and c > lanes)):
            return None
        if each <= 8 and full < 0.5:
            return None
    if way == "transposed":
        if d != 1 or each > 6 or max(kernel) > 7:
            return None
        lines = 2 if rows <= 2 else 1
        kernel_of = few_transposed.compiled(FLIP=False, R=rows, PAIRS=lines, **known)
        work = lines * rows * taps * c * rounded_up(y[3], 2 * lanes)
    else:
        rows, lines, vectors = few_tile(rows, each, c * taps, taps, *y[2:], lanes)
        known |= {"R": rows, "LINES": lines, "V": vectors, "S": s, "D": d}
        kernel_of = few.compiled(FLIP=way == "turned", **known)
        work = lines * rows * taps * c * rounded_up(y[3], lanes)
    plan = (
        x[0] * groups, groups, each // rows, c, *x[2:], *y[2:], *padding,
        each * c * taps, *w_steps, max(1, CHUNK // 8 // work),
    )  # fmt: skip
    return kernel_of, np.array(plan, np.int64)


def y_steps(channels: int, out: Ints, last: bool) -> Ints:
    """Steps of a result for the image, the channel, the place."""
    places = prod(out)
    return (channels * places, 1, channels) if last else (channels * places, places, 1)


@lru_cache(maxsize=1024)
def forward_plan(
    t: Type, n: int, o: int, c: int, kernel: Ints, out: Ints, stride: Ints, dilation: Ints,
    groups: int, x_steps: Ints, w_last: bool, y_last: bool,
) -> np.ndarray:  # fmt: skip
    """The plan of a convolution with `c` channels in each group."""
    known = sizes_of(t)
    out, lanes = three(out, 1), o // groups
    plan = fill(t, n, out, groups, lanes, x_steps, y_steps(o, out, y_last), c)
    plan[Plan.TIMES : Plan.TIMES + 3] = three(stride, 1)
    column = window(kernel, dilation, x_steps, c, w_last)
    plan += [len(column), 0, len(plan) + 3]
    blocks = groups * plan[Plan.BLOCKS]
    work = plan[Plan.PLACES] * len(column) * o
    plan[Plan.SIZE] = split(plan[Plan.PLACES], known["MR"], blocks, work)
    plan[Plan.CHUNKS] = blocks * -(-plan[Plan.PLACES] // plan[Plan.SIZE])
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    plan[Plan.DEEP] = depth(len(column), known["L"])
    return np.array(plan + column, np.int64)


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
        wide = [None if a is None else a.astype(np.float32) for a in (x, w, bias)]
        y = convolve(*wide[:2], stride, padding, dilation, groups, out, channels_last, wide[2])
        return y.astype(x.dtype)
    t = kernel_type(x, w, bias)
    n, o, c = len(x), *w.shape[:2]
    if (
        t is None
        or len(out) > 3
        or n * w.size * prod(out) <= SMALL
        or not x.size
        or x.shape[1] != c * groups
        or o % groups
        or (bias is not None and bias.shape != (o,))
        or not within(x.shape[2:], w.shape[2:], out, stride, padding, dilation)
    ):
        return reference.convolve(x, w, stride, padding, dilation, groups, out, channels_last, bias)
    bias = zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    if not channels_last and x.flags.c_contiguous and w.flags.c_contiguous:
        if winograd.fits(x, o, out, w.shape[2:], stride, padding, dilation, groups):
            quick = winograd.convolve(x, w, bias, padding[0])
            if quick is not None:
                return quick
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
    if channels_last and has_channels(x, c, o // groups, groups, kernel, dilation):
        by_tap = w.reshape(o, -1).T
        return by_channels(x, by_tap, bias, tuple(out), kernel, t, stride, padding, dilation)
    (x, x_last), (w, w_last) = dense(x), dense(w)
    wide = tuple(m + 2 * p for m, p in zip(x.shape[2:], padding, strict=True))
    y = reference.empty((n, o, *out), x.dtype, channels_last)
    x, steps = framed(x, x_last, padding, wide, t)
    plan = forward_plan(
        t, n, o, c, w.shape[2:], out, stride, dilation, groups, steps, w_last, channels_last
    )
    kernels.convolve.compiled(WEIGHTS=ROWS_OF_K, B=t, **sizes_of(t))(x, w, bias, y, plan)
    return y


@lru_cache(maxsize=1024)
def transposed_plan(
    t: Type, n: int, o: int, c: int, kernel: Ints, sizes: Ints, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, g_steps: Ints, low: Ints, last: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The plans of a transposed convolution and of turning its weights; `c`: channels of a group."""
    known = sizes_of(t)
    kernel, sizes, stride, dilation = (three(v, 1) for v in (kernel, sizes, stride, dilation))
    padding, low = three(padding, 0), three(low, 0)
    plan = fill(t, n, sizes, groups, c, g_steps, y_steps(c * groups, sizes, last), o // groups)
    plan[Plan.PLUS : Plan.PLUS + 3], plan[Plan.OVER : Plan.OVER + 3] = padding, stride
    turned = [groups, o // groups, c, prod(kernel), prod(stride)]
    phase_of: dict[int, Ints] = {}
    columns = []
    begin, lines = 0, groups * plan[Plan.BLOCKS] * 2 * known["L"]
    for number, phase in enumerate(product(*map(range, stride))):
        reads: list[int] = []
        for tap, k in enumerate(product(*map(range, kernel))):
            each = list(zip(k, dilation, stride, phase, strict=True))
            if all((i * d - f) % s == 0 for i, d, s, f in each):
                phase_of[tap] = (number, len(reads))
                back = [(i * d - f) // s for i, d, s, f in each]
                moved = zip(low, back, g_steps[2:], strict=True)
                reads.append(sum((at - b) * step for at, b, step in moved))
        columns.append(offsets(o // groups, reads, g_steps[1], True))
        turned += [len(reads), begin]
        begin += lines * len(columns[-1])
    for tap in range(len(phase_of)):
        turned += phase_of[tap]
    at = Plan.PHASES + 3 * len(columns)
    for number, column in enumerate(columns):
        plan += [len(column), turned[6 + 2 * number], at]
        at += len(column)
    for column in columns:
        plan += column
    plan[Plan.ROOM] = begin
    blocks = groups * plan[Plan.BLOCKS]
    work = n * prod(sizes) * c * groups * prod(kernel) * (o // groups) // len(columns) + 1
    plan[Plan.SIZE] = split(plan[Plan.PLACES], known["MR"] * len(columns), blocks, work)
    plan[Plan.CHUNKS] = blocks * -(-plan[Plan.PLACES] // plan[Plan.SIZE])
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    plan[Plan.DEEP] = depth(max(map(len, columns)), known["L"])
    taps = prod(kernel)
    if len(columns) == 1 and taps <= DEPTH and plan[Plan.PLACES] <= 2 * plan[Plan.SIZE]:
        # Not worth to be written down: each chunk turns its own.
        plan[Plan.TAPS], channels = taps, o // groups
        blocks = -(-channels * taps // DEPTH)
        plan[Plan.DEEP] = -(-channels // blocks) * taps
        if plan[Plan.DEEP] > DEPTH:
            plan[Plan.DEEP] = DEPTH // taps * taps
    return np.array(plan, np.int64), np.array(turned, np.int64)


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
        wide = [None if a is None else a.astype(np.float32) for a in (g, w, bias)]
        x = convolve_transposed(
            *wide[:2], stride, padding, dilation, groups, sizes, channels_last, wide[2]
        )
        return x.astype(g.dtype)
    t = kernel_type(g, w, bias)
    n, o, c = len(g), *w.shape[:2]
    work = g.size * prod(w.shape[1:])
    if (
        t is None
        or len(sizes) > 3
        or work <= SMALL
        or prod(sizes) <= 0
        or prod(stride) > PHASES
        or g.shape[1] != o
        or o % groups
        or (bias is not None and bias.shape != (c * groups,))
    ):
        return reference.convolve_transposed(
            g, w, stride, padding, dilation, groups, sizes, channels_last, bias
        )
    bias = zeros(c * groups, g.dtype) if bias is None else np.ascontiguousarray(bias)
    if not channels_last and g.flags.c_contiguous and w.flags.c_contiguous:
        kernel, at = w.shape[2:], padding
        if is_whole(sizes, kernel, padding, dilation, groups) and prod(g.shape[2:]) == 1:
            x = products.matmul(g.reshape(n, -1), w.reshape(o, -1)).reshape(n, c, *sizes)
            return reference.biased(x, bias)
        way = "transposed"
        if set(stride) == {1}:
            way = "turned"
            at = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
            if winograd.fits(g, c, sizes, kernel, stride, at, dilation, groups):
                quick = winograd.convolve(g, w, bias, at[0], True)
                if quick is not None:
                    return quick
        taps, shape = prod(kernel), (n, c * groups, *sizes)
        if way == "turned" or set(stride) == {2}:
            found = few_plan(
                t, way, g.shape, shape, kernel, stride, at, dilation, groups, (taps, c * taps)
            )
            if found is not None:
                x = np.empty(shape, g.dtype)
                found[0](g, w, bias, x, found[1])
                return x
    kernel = w.shape[2:]
    if channels_last and has_channels(g, c, o // groups, groups, kernel, dilation):
        at = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
        if set(stride) == {1}:
            by_tap = w.reshape(o, -1)[:, ::-1].T
            return by_channels(g, by_tap, bias, tuple(sizes), kernel, t, stride, at, dilation)
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


@lru_cache(maxsize=1024)
def weight_plan(
    t: Type, n: int, o: int, c: int, kernel: Ints, out: Ints, stride: Ints, dilation: Ints,
    groups: int, x_steps: Ints, g_last: bool, last: bool,
) -> np.ndarray:  # fmt: skip
    """The plan of a weight's gradient with `c` channels in each group."""
    known = sizes_of(t)
    out, lanes = three(out, 1), o // groups
    plan = fill(t, n, out, groups, lanes, x_steps, y_steps(o, out, g_last), c)
    plan[Plan.TIMES : Plan.TIMES + 3] = three(stride, 1)
    column = window(kernel, dilation, x_steps, c, last)
    k = len(column)
    plan += [k, 0, len(plan) + 3]
    down = -(-k // ROWS)
    plan[Plan.DEEP] = min(rounded_up(-(-k // down), known["MR"]), ROWS)
    down = -(-k // plan[Plan.DEEP])
    places, others = plan[Plan.PLACES], groups * plan[Plan.BLOCKS] * down
    work = places * k * o
    wanted = min(CHUNKS, 1 + work // CHUNK)
    splits = max(1, min(-(-wanted // others), places // DEPTH))
    plan[Plan.SPLIT] = -(-places // splits)
    plan[Plan.SPLITS] = -(-places // plan[Plan.SPLIT])
    plan[Plan.CHUNKS] = others * plan[Plan.SPLITS]
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    return np.array(plan + column, np.int64)


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
        wide = (x.astype(np.float32), g.astype(np.float32))
        w = convolve_weight(*wide, kernel, stride, padding, dilation, groups, channels_last)
        return w.astype(x.dtype)
    t = kernel_type(x, g)
    n, c, o, kernel = len(x), x.shape[1] // groups, g.shape[1], tuple(kernel)
    if (
        t is None
        or len(kernel) > 3
        or g.size * c * prod(kernel) <= SMALL
        or not x.size
        or x.shape[1] % groups
        or o % groups
        or len(g) != n
        or not within(x.shape[2:], kernel, g.shape[2:], stride, padding, dilation)
    ):
        return reference.convolve_weight(
            x, g, kernel, stride, padding, dilation, groups, channels_last
        )
    if not channels_last and x.flags.c_contiguous and g.flags.c_contiguous:
        if winograd.fits(x, o, g.shape[2:], kernel, stride, padding, dilation, groups):
            quick = winograd.convolve_weight(x, g, padding[0])
            if quick is not None:
                return quick
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
    if channels_last and innermost(g) and has_channels(x, c, o // groups, groups, kernel, dilation):
        lanes = sizes_of(t)["L"]
        sums = np.empty((-(-o // lanes), *kernel, lanes), x.dtype)
        known = {"T": t, "L": lanes, "KH": kernel[0], "KW": kernel[1]}
        plan = channels_plan(n, o, x.shape[2:], g.shape[2:], stride, padding, dilation)
        channels_weight.compiled(**known)(x, g, sums, plan)
        w = reference.empty((o, 1, *kernel), x.dtype, True)
        w[...] = np.moveaxis(sums, -1, 1).reshape(-1, 1, *kernel)[:o]
        return w
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
