"""What the kernels of convolutions need to know of sizes: planned once for every combination of them.

One and two spatial dimensions are three of which the first are 1. The fields of the plans are those
of `_codegen/kernels/conv.py` and `_codegen/kernels/conv_few.py`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen.kernels import conv as kernels
from rushlight._codegen.kernels.conv import DEPTH, ROWS, Plan
from rushlight._codegen.kernels.conv_few import few, few_transposed, few_weight
from rushlight._codegen.types import Type

if TYPE_CHECKING:
    Ints = tuple[int, ...]

CHUNKS = 16  # that a large convolution is cut into at least
CHUNK = 2_000_000  # multiplications that are worth a chunk of their own
PHASES = 64  # of a transposed convolution, at most
sizes_of = cache(kernels.sizes)
FEW_LINES = {1: (8, 7, 6, 5, 4), 2: (4, 7), 3: (4, 3), 4: (2, 3)}  # in a tile of so many channels
CODE = 420  # multiply-adds in the code of a tile, at most


@lru_cache(maxsize=256)
def channels_plan(n: int, c: int, sizes: Ints, out: Ints, padding: Ints, *more: int) -> np.ndarray:
    """The plan of kernels for channels that are innermost."""
    return np.array((n, c, *sizes, *out, *padding, *more), np.int64)


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


@lru_cache(maxsize=256)
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
        rows = max(r for r in range(1, 5) if each % r == 0)
        if kernel[1] * rows > 24 or groups * c * each // rows < 2 or each > 8:
            return None
        vectors = 1
        while vectors < 4 and y[3] > vectors * lanes and 2 * vectors * rows * kernel[1] <= 12:
            vectors *= 2
        work = x[0] * rows * taps * y[2] * rounded_up(y[3], vectors * lanes)
        plan = (
            x[0], groups, each // rows, c, *x[2:], *y[2:], *padding, 0, 0, 0,
            max(1, CHUNK // 8 // work),
        )  # fmt: skip
        kernel_of = few_weight.compiled(R=rows, V=vectors, S=s, D=d, **known)
        return kernel_of, np.array(plan, np.int64)
    rows = max(r for r in range(1, 6) if each % r == 0)
    if each > 8 or groups == 1 < each > 4:
        full = y[3] / rounded_up(y[3], lanes)  # part of the lanes that are used
        most = 0 if rows < 4 or full < 0.5 else 32 if s > 1 else 64 if full < 0.85 else 300
        if s > 1 and each % (2 * lanes) == 0:
            most = 0
        elif lanes // 2 < each <= lanes and rows > 3 and full > 0.7:
            most = 5000  # where sums in order use at most half of the lanes, at half the speed
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
        rows, lines, vectors = few_tile(rows, each, c * taps, taps, y[2], y[3], lanes)
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


@lru_cache(maxsize=256)
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


@lru_cache(maxsize=256)
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


@lru_cache(maxsize=256)
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
