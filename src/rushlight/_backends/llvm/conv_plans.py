"""What the kernels of convolutions need to know of sizes: planned once for every problem.

One and two spatial dimensions are three of which the first are 1. The fields of the plans are those
of `_codegen/kernels/conv.py` and `_codegen/kernels/conv_direct.py`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.conv_plan import Plan, sizes
from rushlight._codegen.kernels import conv as kernels
from rushlight._codegen.kernels import conv_direct, conv_small
from rushlight._codegen.product_sizes import many_registers
from rushlight._codegen.types import Type, of
from rushlight.core.dtype_sets import I32

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem

    Ints = tuple[int, ...]

CHUNKS = 16  # that a large convolution is cut into at least
CHUNK = 2_000_000  # multiplications that are worth a chunk of their own
PHASES = 64  # of a transposed convolution, at most
sizes_of = cache(sizes)
TILE_LINES = {1: (8, 7, 6, 5, 4), 2: (4, 7), 3: (4, 3), 4: (2, 3)}  # in a tile of so many channels
CODE = 420  # multiply-adds in the code of a tile, at most
WINDOWS = 6144  # elements of windows that are read at a time
PARTS = 16  # of the lines of a depthwise weight's gradient, which are summed apart
MOST_TAPS = 441  # of windows whose taps stand one after the other in the code of `direct`
ROW_MAJOR, CHANNELS_LAST, STRIDED, UNALIGNED, FOREIGN = range(
    5
)  # layouts: see conv_arrays.layout_of


@lru_cache(maxsize=256)
def in_pairs(problem: Problem) -> Problem:
    """A problem of bfloat16 with its channels (for the weight's gradient its images) in pairs, which are
    whole numbers of 32 bits."""
    p = problem
    x, w, y, groups, (a, b, bias) = p.x, p.w, p.y, p.groups, p.layouts
    half = lambda n: (n + 1) // 2
    if p.direction == "weight":
        x, y = (half(x[0]), *x[1:]), (half(y[0]), *y[1:])
        a, b = (f if f == CHANNELS_LAST else ROW_MAJOR for f in (a, b))
        return p.but(x=x, y=y, dtype=I32, layouts=(a, b, bias))
    rows = w[1] if p.direction == "forward" else w[0] // groups
    if p.direction == "forward":
        x, w = (x[0], half(rows) * groups, *x[2:]), (w[0], half(rows), *w[2:])
    else:
        y, w = (y[0], half(rows) * groups, *y[2:]), (half(rows) * groups, *w[1:])
    last = a == CHANNELS_LAST and rows % 2 == 0  # then pairs lie beside each other in memory
    layouts = CHANNELS_LAST if last else ROW_MAJOR, ROW_MAJOR, bias
    return p.but(x=x, w=w, y=y, dtype=I32, layouts=layouts)


@lru_cache(maxsize=256)
def depthwise_plan(problem: Problem) -> np.ndarray:
    """The plan of `conv_direct.depthwise` and `depthwise_weight`: for the transpose with stride 1, that of
    the convolution with the flipped weight."""
    p = problem
    x, y, padding = p.x, p.y, p.padding
    if p.direction == "transposed":
        x, y, padding = p.y, p.x, p.flipped_padding
    lines = y[0] * y[2]
    if p.direction == "weight":
        lines = min(PARTS, lines)
    else:  # of a chunk: some, since neighbours read the same
        lines = max(1, min(lines // 16, y[2], 65536 // (y[3] * y[1] * prod(p.kernel))))
    # Channels whose windows at POSITIONS outputs stay in the first-level cache.
    reach = (conv_direct.POSITIONS - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1
    block = max(16, WINDOWS // (reach * p.kernel[0]) // 16 * 16)
    plan = (*x[:2], *x[2:], *y[2:], *padding, p.stride[0], p.dilation[0], p.kernel[0], lines, block)
    return np.array(plan, np.int64)


@lru_cache(maxsize=256)
def depthwise_transposed_plan(problem: Problem) -> np.ndarray:
    """The plan of `conv_direct.depthwise_transposed`."""
    p = problem
    return np.array((*p.y[:2], *p.out, *p.sizes, *p.padding, *p.stride), np.int64)


def three(values: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(values)) + values


@lru_cache(maxsize=256)
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


def rounded_up(n: int, by: int) -> int:
    return -(-n // by) * by


def split(total: int, rows: int, others: int, work: int) -> int:
    """Places of a chunk: at most ROWS, a multiple of `rows`; `work`: multiplications in all."""
    wanted = min(CHUNKS, 1 + work // CHUNK)
    pieces = max(-(-total // kernels.ROWS), -(-wanted // others))
    return min(rounded_up(-(-total // pieces), rows), kernels.ROWS // rows * rows)


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
    blocks = max(1, -(-k // kernels.DEPTH))
    return min(kernels.DEPTH, rounded_up(-(-k // blocks), lanes))


def direct_tile(r: int, each: int, k: int, taps: int, high: int, wide: int, lanes: int) -> Ints:
    """Channels, lines and vectors of a tile of `direct`, as they were fastest."""
    most = 16 if many_registers() else 8  # sums, which stay in registers
    if most == 16 and k > 200 and each % 8 == 0:
        r = 8
    found = [n for n in TILE_LINES.get(r, (2,)) if n <= high and n * r * taps <= CODE]
    found = found or [max(1, min(high, CODE // (r * taps)))]
    lines = min(found, key=lambda n: rounded_up(high, n))  # fewest that do not exist
    vectors = 1
    while wide > vectors * lanes and 2 * vectors * r * lines <= most and vectors < 4:
        if 2 * vectors * r * lines * taps > CODE or (vectors == 2 and lines > 1):
            break
        vectors *= 2
    return r, lines, vectors


@lru_cache(maxsize=256)
def direct_plan(problem: Problem) -> tuple[Any, np.ndarray] | None:
    """The kernel of `conv_direct` for row-major arrays, and its plan; None where there is none, or where
    products of matrices are faster.

    A transposed convolution with stride 1 is one with the flipped weight; there is a kernel for stride 2.
    """
    p, transposed = problem, problem.direction == "transposed"
    x, y = (p.y, p.x) if transposed else (p.x, p.y)
    kernel, stride, dilation, groups = p.kernel, p.stride, p.dilation, p.groups
    flipped = transposed and set(stride) == {1}
    padding = p.flipped_padding if flipped else p.padding
    if len(kernel) == 1 and (flipped or not transposed):
        x, y = (*x[:2], 1, x[2]), (*y[:2], 1, y[2])
        kernel, padding = (1, *kernel), (0, *padding)
        stride, dilation = stride * 2, dilation * 2
    if len(kernel) != 2 or stride[0] != stride[1] or stride[0] > 2 or dilation[0] != dilation[1]:
        return None
    s, d, taps = stride[0], dilation[0], prod(kernel)
    if min(padding) < 0 or taps > MOST_TAPS:
        return None
    if taps == s == 1 and not any(padding) and x[2:] == y[2:]:
        x, y = (*x[:2], 1, x[2] * x[3]), (*y[:2], 1, y[2] * y[3])
    if p.direction == "weight":
        return direct_weight_plan(of(p.dtype), x, y, kernel, s, d, padding, groups)
    each, c, lanes = y[1] // groups, x[1] // groups, sizes_of(of(p.dtype))["L"]
    rows = max(r for r in range(1, 6) if each % r == 0)
    if direct_is_slower(each, c, rows, y[3], s, taps, groups, lanes):
        return None
    known = {"T": of(p.dtype), "L": lanes, "KH": kernel[0], "KW": kernel[1]}
    if transposed and not flipped:
        if d != 1 or each > 6 or max(kernel) > 7:
            return None
        most = 5 if many_registers() else 3  # rows of 4 sums
        rows = max(r for r in range(1, most + 1) if each % r == 0)
        lines = 2 if 2 * rows < most else 1
        run = conv_direct.direct_transposed.compiled(R=rows, PAIRS=lines, **known)
        work = lines * rows * taps * c * rounded_up(y[3], 2 * lanes)
    else:
        rows, lines, vectors = direct_tile(rows, each, c * taps, taps, y[2], y[3], lanes)
        known |= {"R": rows, "LINES": lines, "V": vectors, "S": s, "D": d}
        apart = not native.has_masks() and y[3] > vectors * lanes
        run = conv_direct.direct.compiled(FLIP=flipped, APART=apart, **known)
        work = lines * rows * taps * c * rounded_up(y[3], lanes)
    w_steps = (taps, each * taps) if transposed else (c * taps, taps)
    plan = (
        x[0] * groups, groups, each // rows, c, *x[2:], *y[2:], *padding,
        each * c * taps, *w_steps, max(1, CHUNK // 8 // work),
    )  # fmt: skip
    return run, np.array(plan, np.int64)


def direct_is_slower(
    each: int, c: int, rows: int, wide: int, step: int, taps: int, groups: int, lanes: int
) -> bool:
    """Whether products of matrices are faster than `direct`, as was measured: for `each` channels of the
    result and `c` of the input in a group, and lines of `wide` outputs."""
    if each <= 8 and (groups > 1 or each <= 4):
        return False
    full = wide / rounded_up(wide, lanes)  # part of the lanes that are used
    most = 0 if rows < 4 or full < 0.5 else 32 if step > 1 else 64 if full < 0.85 else 300
    if step > 1 and each % (2 * lanes) == 0:
        most = 0
    elif lanes // 2 < each <= lanes and rows > 3 and full > 0.7:
        most = 5000  # products of matrices use at most half of the lanes here, at half the speed
    if each <= 8:
        return full < 0.5
    return c * taps > most or (taps == 1 and c > lanes)


def direct_weight_plan(
    t: Type, x: Ints, g: Ints, kernel: Ints, s: int, d: int, padding: Ints, groups: int
) -> tuple[Any, np.ndarray] | None:
    """`direct_plan` of a weight's gradient."""
    each, c, lanes = g[1] // groups, x[1] // groups, sizes_of(t)["L"]
    rows = max(r for r in range(1, 5) if each % r == 0)
    if kernel[1] * rows > 24 or groups * c * each // rows < 2 or each > 8:
        return None
    vectors = 1
    while vectors < 4 and g[3] > vectors * lanes and 2 * vectors * rows * kernel[1] <= 12:
        vectors *= 2
    work = x[0] * rows * prod(kernel) * g[2] * rounded_up(g[3], vectors * lanes)
    plan = (
        x[0], groups, each // rows, c, *x[2:], *g[2:], *padding, 0, 0, 0,
        max(1, CHUNK // 8 // work),
    )  # fmt: skip
    known = {"T": t, "L": lanes, "KH": kernel[0], "KW": kernel[1], "S": s, "D": d}
    run = conv_direct.direct_weight.compiled(R=rows, V=vectors, **known)
    return run, np.array(plan, np.int64)


def y_steps(channels: int, out: Ints, last: bool) -> Ints:
    """Steps of a result for the image, the channel, the place."""
    places = prod(out)
    return (channels * places, 1, channels) if last else (channels * places, places, 1)


def input_frame(problem: Problem) -> tuple:
    """`frame` of the padded input of a convolution."""
    p = problem
    wide = tuple(m + 2 * q for m, q in zip(p.sizes, p.padding, strict=True))
    last = p.layouts[0] == CHANNELS_LAST
    return frame(p.x, last, p.padding, wide, sizes_of(of(p.dtype))["L"])


@lru_cache(maxsize=256)
def forward_plan(problem: Problem) -> tuple[tuple, np.ndarray]:
    """The frame of the input, and the plan of a convolution."""
    p, t = problem, of(problem.dtype)
    framed, known = input_frame(p), sizes_of(t)
    x_steps, o, c, groups = framed[2], p.w[0], p.w[1], p.groups
    out, lanes = three(p.out, 1), o // groups
    plan = fill(t, p.x[0], out, groups, lanes, x_steps, y_steps(o, out, p.channels_last), c)
    plan[Plan.TIMES : Plan.TIMES + 3] = three(p.stride, 1)
    column = window(p.kernel, p.dilation, x_steps, c, p.layouts[1] == CHANNELS_LAST)
    plan += [len(column), 0, len(plan) + 3]
    blocks = groups * plan[Plan.BLOCKS]
    work = plan[Plan.PLACES] * len(column) * o
    plan[Plan.SIZE] = split(plan[Plan.PLACES], known["MR"], blocks, work)
    plan[Plan.CHUNKS] = blocks * -(-plan[Plan.PLACES] // plan[Plan.SIZE])
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    plan[Plan.DEEP] = depth(len(column), known["L"])
    return framed, np.array(plan + column, np.int64)


def gradient_frame(problem: Problem) -> tuple[tuple, Ints]:
    """`frame` of the padded g of a transposed convolution, and from where on g stands in it."""
    p = problem
    each = zip(p.kernel, p.stride, p.padding, p.dilation, strict=True)
    low = tuple(max(0, d * (k - 1) // s - q // s) for k, s, q, d in each)
    each = zip(p.sizes, p.stride, p.padding, low, strict=True)
    wide = tuple((m - 1 + q) // s + 1 + at for m, s, q, at in each)
    last = p.layouts[0] == CHANNELS_LAST
    return frame(p.y, last, low, wide, sizes_of(of(p.dtype))["L"]), low


@lru_cache(maxsize=256)
def transposed_plan(problem: Problem) -> tuple[tuple, np.ndarray, np.ndarray]:
    """The frame of g, the plan of a transposed convolution, and that of reordering its weight."""
    p, t = problem, of(problem.dtype)
    known = sizes_of(t)
    (n, o), c, groups = p.y[:2], p.w[1], p.groups  # c: channels of a group
    framed, low = gradient_frame(p)
    g_steps, last = framed[2], p.channels_last
    kernel, sizes, stride, dilation = (
        three(v, 1) for v in (p.kernel, p.sizes, p.stride, p.dilation)
    )
    padding, low = three(p.padding, 0), three(low, 0)
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
    if len(columns) == 1 and taps <= kernels.DEPTH and plan[Plan.PLACES] <= 2 * plan[Plan.SIZE]:
        # Not worth to be written down: each chunk turns its own.
        plan[Plan.TAPS], channels = taps, o // groups
        blocks = -(-channels * taps // kernels.DEPTH)
        plan[Plan.DEEP] = -(-channels // blocks) * taps
        if plan[Plan.DEEP] > kernels.DEPTH:
            plan[Plan.DEEP] = kernels.DEPTH // taps * taps
    return framed, np.array(plan, np.int64), np.array(turned, np.int64)


@lru_cache(maxsize=256)
def weight_plan(problem: Problem) -> tuple[tuple, np.ndarray]:
    """The frame of the input, and the plan of a weight's gradient."""
    p, t = problem, of(problem.dtype)
    framed, known = input_frame(p), sizes_of(t)
    x_steps, o, c, groups = framed[2], p.w[0], p.w[1], p.groups
    out, lanes, g_last = three(p.out, 1), o // groups, p.layouts[1] == CHANNELS_LAST
    plan = fill(t, p.x[0], out, groups, lanes, x_steps, y_steps(o, out, g_last), c)
    plan[Plan.TIMES : Plan.TIMES + 3] = three(p.stride, 1)
    column = window(p.kernel, p.dilation, x_steps, c, p.channels_last)
    k = len(column)
    plan += [k, 0, len(plan) + 3]
    down = -(-k // kernels.ROWS)
    plan[Plan.DEEP] = min(rounded_up(-(-k // down), known["MR"]), kernels.ROWS)
    down = -(-k // plan[Plan.DEEP])
    places, others = plan[Plan.PLACES], groups * plan[Plan.BLOCKS] * down
    work = places * k * o
    wanted = min(CHUNKS, 1 + work // CHUNK)
    splits = max(1, min(-(-wanted // others), places // kernels.DEPTH))
    plan[Plan.SPLIT] = -(-places // splits)
    plan[Plan.SPLITS] = -(-places // plan[Plan.SPLIT])
    plan[Plan.CHUNKS] = others * plan[Plan.SPLITS]
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    return framed, np.array(plan + column, np.int64)


def steps_of(shape: Ints, layout: int) -> Ints:
    """Steps of an array (N, C, *sizes) that is row-major or has its channels innermost, in elements."""
    last = layout == CHANNELS_LAST
    order = (*shape[2:], shape[1]) if last else shape[1:]
    steps = tuple(prod(order[i:]) for i in range(len(order) + 1))
    return (steps[0], steps[-1], *steps[1:-1]) if last else steps


@lru_cache(maxsize=256)
def small_plan(problem: Problem) -> tuple[Any, np.ndarray]:
    """The kernel of `conv_small`, and its plan."""
    p = problem
    result = CHANNELS_LAST if p.channels_last else ROW_MAJOR
    steps = [steps_of(s, f) for s, f in zip(p.shapes, (*p.layouts[:2], result), strict=True)]
    which = {"forward": (0, 1, 2), "transposed": (2, 1, 0), "weight": (0, 2, 1)}[p.direction]
    x, w, y = (steps[i] for i in which)
    column = lambda values: np.array(values, np.int64)[:, None]
    every = np.indices((*p.out, *p.kernel), np.int64).reshape(2 * len(p.kernel), -1)
    out, tap = np.split(every, 2)
    at = out * column(p.stride) + tap * column(p.dilation) - column(p.padding)
    inside = ((at >= 0) & (at < column(p.sizes))).all(0)
    read = [
        (places[:, inside] * column(step[2:])).sum(0)
        for places, step in zip((at, tap, out), (x, w, y), strict=True)
    ]
    c, o = p.w[1], p.w[0] // p.groups
    # How often, and the steps of x, w and y.
    images = p.x[0], (x[0], 0, y[0])
    groups = p.groups, (c * x[1], o * w[0], o * y[1])
    channels, results = (c, (x[1], w[1], 0)), (o, (0, w[0], y[1]))
    outer, inner = {
        "forward": ((images, groups, results), channels),
        "transposed": ((images, groups, channels), results),
        "weight": ((results, groups, channels), images),
    }[p.direction]
    first, second, to = (which.index(i) for i in range(3))
    places = read[to] // steps[2][-1]
    last = prod(p.shapes[2][2:])
    plan = [n for n, _ in outer] + [last, inner[0]]
    for i, step in ((first, 0), (second, 0), (to, steps[2][-1])):
        plan += [*(each[i] for _, each in outer), step, inner[1][i]]
    plan += (0, 0, 0) if p.layouts[2] is None else (0, outer[2][0], 1)
    sequence = np.argsort(places, kind="stable")
    begin = np.searchsorted(places[sequence], np.arange(last + 1))
    lists = begin, read[first][sequence], read[second][sequence]
    return conv_small.small.compiled(E=of(p.dtype)), np.concatenate([plan, *lists]).astype(np.int64)
