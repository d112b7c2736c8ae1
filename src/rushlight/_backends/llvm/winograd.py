"""Convolutions of 3 x 3 and 5 x 5 windows, dilated or not, and those of 3 x 3 and 4 x 4 windows with
step 2 and their transposes, with fewer multiplications than their sums have.

`_codegen/kernels/winograd.py` says how. As long as all numbers are finite, results differ from those of sums in
order by roundings, of about the size that sums in order have (relative to the largest product of an
input and a weight within a window, where those of sums in order are to the products that exist).
Where a result is not finite (an input is not, or a sum overflowed) the functions give None, and the
caller sums in order.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.reference.conv import empty
from rushlight._codegen import product_sizes
from rushlight._codegen.conv_plan import WinogradPlan as Plan
from rushlight._codegen.kernels import winograd as kernels
from rushlight._codegen.kernels.schemes import RUN, SCHEMES, TILES, Scheme, rows_of
from rushlight._codegen.types import f32
from rushlight.core.dtype_sets import F32

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem

    Ints = tuple[int, ...]

LOSS = threshold(100)  # percent of the time of sums in order from which on those are preferred
AGAIN = 2  # chunks of tiles up to which each of them transforms the windows for itself,
HUGE, OFTEN = 1 << 20, 8  # and where there are so many transformed numbers
SHARES = 4  # that a convolution is cut into at least
LARGE = 1 << 17  # numbers of transformed windows that do not stay in the second-level cache
SUMS = 8  # and a gradient of windows
NUMBERS = {  # of schemes, by windows and step; of transposes, 0 instead of the step
    (3, 1): 0, (5, 1): 1, (3, 2): 2, (4, 2): 3, (3, 0): 4, (4, 0): 5,
}  # fmt: skip


@cache
def sizes() -> dict[str, Any]:
    known = product_sizes.gemm_sizes(f32)
    return {name: known[name] for name in ("T", "MR", "L")}


def up(a: int, by: int) -> int:
    return -(-a // by)


def cycles(s: Scheme, n: int, c: int, o: int, out: Ints, dilation: int) -> tuple[float, float]:
    """About how many cycles a core works on a convolution by a scheme, and by sums in order."""
    block = 2 * sizes()["L"]
    wide = s.outputs * dilation
    tiles = n * up(out[0], wide) * up(out[1], wide) * dilation * dilation
    products = tiles * s.products**2 * (c + 8 * up(c, RUN)) * up(o, block) * block / 32
    ways = tiles * (s.values**2 * c + s.points**2 * o) / 4 + s.products**2 * c * o / 5
    taps = s.taps**2 / (4 if s.outputs == 4 else 1)
    ordered = n * out[0] * out[1] * taps * c * up(o, block // 2) * block / 54
    return products + ways, ordered * (0.8 if o <= block // 2 else 1)


@lru_cache(maxsize=1024)
def scheme_for(problem: Problem) -> int | None:
    """The number of the scheme that is faster than direct sums for a problem; None if there is none."""
    p = problem
    if len(p.kernel) != 2 or p.kernel[0] != p.kernel[1] or p.stride[0] != p.stride[1]:
        return None
    padding = padding_of(p)
    if p.dilation[0] != p.dilation[1] or padding[0] != padding[1]:
        return None
    (k, _), (step, _), (dilation, _), (pad, _) = p.kernel, p.stride, p.dilation, padding
    transposed = p.direction == "transposed"
    number = NUMBERS.get((k, 0 if transposed and step == 2 else step))
    if number is None:
        return None
    read, written = (p.y, p.x) if transposed else (p.x, p.y)
    n, (h, w), out = read[0], read[2:], written[2:]
    if SCHEMES[number].outputs == 4:
        good = pad == 1 and dilation == 1
        good = good and all(m in (2 * i + k - 4, 2 * i + k - 3) for m, i in zip(out, (h, w), strict=True))  # fmt: skip
    else:
        reach = dilation * (k - 1) + 1
        good = (step == 1 or dilation == 1) and 0 <= pad < reach
        good = good and out == ((h + 2 * pad - reach) // step + 1, (w + 2 * pad - reach) // step + 1)  # fmt: skip
    c, o = read[1] // p.groups, written[1] // p.groups
    most = kernels.ROOM // (SCHEMES[number].values ** 2 * RUN * up(c, RUN)) if c else 0
    if not good or min(n, c, o, *out) < 1 or most < max(sizes()["MR"], dilation * dilation):
        return None
    if dilation * dilation > TILES:
        return None
    if p.direction == "weight" and LOSS and o <= 16:
        return None
    quick, ordered = cycles(SCHEMES[number], n, c, o, out, dilation)
    return number if not LOSS or 100 * quick < LOSS * ordered else None


def padding_of(problem: Problem) -> Ints:
    """The padding of the convolution that a scheme computes: a transposed one with stride 1 is the
    convolution with the flipped weight."""
    if problem.direction == "transposed" and set(problem.stride) == {1}:
        return problem.flipped_padding
    return problem.padding


def layout(a: np.ndarray) -> int | None:
    """Where the channels of (N, C, H, W) are innermost, the step from a place to the next; 0 where the
    array is C-contiguous, or None."""
    if a.flags.c_contiguous:
        return 0
    return a.shape[1] if a.transpose(0, 2, 3, 1).flags.c_contiguous else None


def height(lines: int, most: int, wide: int, pieces: int, windows: int) -> int:
    """Of chunks as high as `most`, or a bit less where then two threads have as much to do; `windows`:
    numbers that each chunk reads of transformed windows, which takes time where they are many."""

    def time(high: int) -> float:
        chunks = up(lines, high) * pieces
        parts = up(SHARES, chunks)
        reading = 12 if windows > LARGE else 4
        return up(chunks * parts, 2) * (up(high * wide, 4) * 4 + reading) / parts

    return min(range(most, most // 2, -1), key=time)


@lru_cache(maxsize=1024)
def plan_of(
    number: int, x: Ints, y: Ints, padding: int, dilation: int, groups: int, windows: Ints,
    x_last: int, y_last: int, weight: bool = False,
) -> np.ndarray:  # fmt: skip
    """The plan of a convolution from the shape x to y, or of the gradient of its windows; `windows`:
    steps of weights from an input channel, an output channel, a tap to the next."""
    s = SCHEMES[number]
    n, c, o = x[0], x[1] // groups, y[1] // groups
    block = 2 * sizes()["L"]
    down, across = up(y[2], s.outputs * dilation), up(y[3], s.outputs * dilation)
    rows = sizes()["MR"]
    most = TILES
    if not weight:
        most = min(
            TILES,
            kernels.ROOM // (s.values**2 * RUN * up(c, RUN)) // rows * rows,
        )
    most //= dilation * dilation
    pieces = up(across, most)
    wide, lines = up(across, pieces), n * down
    pieces = up(across, wide)
    high = height(
        lines, max(1, most // wide), wide * dilation * dilation, pieces, s.products**2 * c * o
    )
    chunks = up(lines, high)
    plan = [0] * Plan.TERMS
    plan[: Plan.LINES] = c, o, *x[2:], *y[2:], padding, down, across
    plan[Plan.LINES], plan[Plan.HIGH], plan[Plan.WIDE] = lines, high, wide
    plan[Plan.TAP], plan[Plan.LANE], plan[Plan.PLACE] = windows
    plan[Plan.DILATION], plan[Plan.X_LAST], plan[Plan.Y_LAST] = dilation, x_last, y_last
    plan[Plan.X_IMAGE], plan[Plan.Y_IMAGE] = (a[1] * a[2] * a[3] for a in (x, y))
    if weight:
        blocks = up(c, rows_of(number)) * up(o, RUN)
        split = up(lines, min(up(SUMS, blocks), chunks))
        plan[Plan.SPLIT], plan[Plan.SPLITS] = split, up(lines, split)
        plan[Plan.CHUNKS] = blocks * plan[Plan.SPLITS]
    else:
        chunks *= pieces
        blocks = up(o, block)
        part = block * up(blocks, min(blocks, up(SHARES, chunks)))
        plan[Plan.PIECES], plan[Plan.PART], plan[Plan.PARTS] = pieces, part, up(o, part)
        plan[Plan.CHUNKS] = chunks * plan[Plan.PARTS]
    each = range(s.products)
    terms = [
        (s.point[p] * s.points + s.point[q], s.value[p] * s.values + s.value[q], p * s.products + q)
        for p in each
        for q in each
    ]
    return np.array(plan + [field for term in sorted(terms) for field in term], np.int64)


def convolve(x: np.ndarray, w: np.ndarray, bias: np.ndarray, problem: Problem) -> np.ndarray | None:
    """x (N, C, H, W) convolved with w (O, C / groups, k, k), or transposed with w (C, O / groups, k, k),
    plus bias (O)."""
    number, groups = scheme_for(problem), problem.groups
    transposed, shape = problem.direction == "transposed", problem.shapes[2]
    channels_last = problem.channels_last
    known = sizes()
    x_last = layout(x)
    if x_last is None:
        x, x_last = np.ascontiguousarray(x), 0
    w_last = layout(w)
    if w_last is None:
        w, w_last = np.ascontiguousarray(w), 0
    taps = w.shape[2] * w.shape[3]
    c, o = x.shape[1] // groups, shape[1] // groups
    y = empty(shape, F32, channels_last)
    scheme, p = SCHEMES[number], padding_of(problem)[0]
    if scheme.outputs == 4:  # the first result sees the input from there on
        p = scheme.taps - 3
    many = o if transposed else c  # of the inner channels of weights
    inner, outer, place = (1, taps * many, many) if w_last else (taps, taps * many, 1)
    steps = (outer, inner, place) if transposed else (inner, outer, place)
    plan = plan_of(
        number, x.shape, shape, p, problem.dilation[0], groups, steps, x_last,
        o * groups if channels_last else 0,
    )  # fmt: skip
    wrong = np.zeros(1, F32)
    again = OFTEN if scheme.products**2 * c * o > HUGE else AGAIN
    fused = bool(plan[Plan.CHUNKS] <= again * plan[Plan.PARTS])
    orders = {"ROWS": not transposed, "LAST": bool(w_last)}
    lanes = known["L"]
    for group in range(groups):
        part, b = w, bias
        if groups > 1:
            part = w[group * c : group * c + c] if transposed else w[group * o : group * o + o]
            b = bias[group * o : group * o + o]
        if o % (2 * lanes):
            b = np.zeros(up(o, 2 * lanes) * 2 * lanes, F32)
            b[:o] = bias[group * o : group * o + o]
        if not fused:
            size = (
                scheme.products**2 * (RUN * 2 * lanes + kernels.GAP) * up(c, RUN) * up(o, 2 * lanes)
            )
            u = np.empty(size, F32)
            kernels.transform_windows.compiled(S=number, **orders, T=known["T"], L=lanes)(
                part, u, plan
            )
            part = u
        used = (
            orders if fused else {"ROWS": True, "LAST": False}
        )  # of weights that were transformed already
        kernels.convolve.compiled(S=number, FUSED=fused, **used, **known)(
            x[:, group * c :], part, b, y[:, group * o :], wrong, plan
        )
    return y if wrong[0] == 0 else None


def convolve_weight(x: np.ndarray, g: np.ndarray, problem: Problem) -> np.ndarray | None:
    """The gradient of the weight: x (N, C, H, W) and g (N, O, *out) to (O, C / groups, k, k)."""
    number, groups = scheme_for(problem), problem.groups
    known = sizes()
    x_last, g_last = layout(x), layout(g)
    if x_last is None:
        x, x_last = np.ascontiguousarray(x), 0
    if g_last is None:
        g, g_last = np.ascontiguousarray(g), 0
    c, o = x.shape[1] // groups, g.shape[1] // groups
    plan = plan_of(
        number, x.shape, g.shape, problem.padding[0], problem.dilation[0], groups, (0, 0, 0), x_last,
        g_last, True,
    )  # fmt: skip
    splits = int(plan[Plan.SPLITS])
    y = empty(problem.w, F32, problem.channels_last)
    size, y_last = o * y[0].size, not y.flags.c_contiguous
    parts = np.empty(splits * size, F32) if splits > 1 else y
    wrong = np.zeros(1, F32)
    rows = 8 if known["MR"] >= 8 else 4
    for group in range(groups):
        kernels.convolve_weight.compiled(
            S=number, LAST=y_last, T=known["T"], MR=rows, L=known["L"]
        )(x[:, group * c :], g[:, group * o :], y[group * o :], parts, wrong, plan)
    return y if wrong[0] == 0 else None
