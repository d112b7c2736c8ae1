"""Convolutions of 3 x 3 windows, step 1, with fewer multiplications than their sums have.

`compiler/kernels/winograd.py` says how. As long as all numbers are finite, results differ from those of sums in
order by roundings, of about the size that sums in order have (relative to the largest product of an
input and a weight within a window, where those of sums in order are to the products that exist).
Where a result is not finite (an input is not, or a sum overflowed) the functions give None, and the
caller sums in order.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.backends.compiled import threshold
from rushlight.compiler.kernels import gemm
from rushlight.compiler.kernels import winograd as kernels
from rushlight.compiler.kernels.winograd import DEEPEST, GAP, ROOM, RUN, TILES, Plan
from rushlight.compiler.types import f32

if TYPE_CHECKING:
    Ints = tuple[int, ...]

FEW = threshold(4)  # tiles, below which transforming the windows takes longer than is saved
USED = threshold(55)  # percent of the results of all tiles that are wanted, at least
AGAIN = 2  # chunks of tiles up to which each of them transforms the windows for itself
SHARES = 4  # that a convolution is cut into at least
SUMS = 8  # and a gradient of windows
SINGLE = np.dtype(np.float32)


@cache
def sizes() -> dict[str, Any]:
    known = gemm.sizes(f32)
    return {name: known[name] for name in ("T", "MR", "L")}


def fits(
    x: np.ndarray,
    channels: int,
    out: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> bool:
    """Whether a convolution of x (N, C, H, W) to so many channels, of the sizes `out`, is faster in
    this way, and the gradient of its windows too. x is what kernels take, of any strides."""
    if tuple(kernel) != (3, 3) or x.dtype is not SINGLE or groups != 1:
        return False
    if tuple(stride) != (1, 1) or tuple(dilation) != (1, 1):
        return False
    if padding[0] != padding[1] or not 0 <= padding[0] <= 2 or not x.flags.c_contiguous:
        return False
    n, c, h, w = x.shape
    h, w = h + 2 * padding[0] - 2, w + 2 * padding[0] - 2
    block = 2 * sizes()["L"]
    if (
        tuple(out) != (h, w)
        or h < 1
        or w < 1
        or not c
        or c % block
        or channels % block
        or max(c, channels) > DEEPEST
    ):
        return False
    tiles = -(-h // 2) * -(-w // 2)
    return n * tiles >= max(1, FEW) and 100 * h * w >= USED * 4 * tiles


def up(a: int, by: int) -> int:
    return -(-a // by)


@lru_cache(maxsize=1024)
def plan_of(
    n: int, c: int, o: int, h: int, w: int, padding: int, flipped: bool, weight: bool = False
) -> np.ndarray:
    """The plan of a convolution, or of the gradient of its windows."""
    block = 2 * sizes()["L"]
    height, width = h + 2 * padding - 2, w + 2 * padding - 2
    down, across = up(height, 2), up(width, 2)
    rows = sizes()["MR"]
    most = min(TILES, ROOM // (RUN * up(c, RUN)) // rows * rows)
    pieces = up(across, most)
    wide, lines = up(across, pieces), n * down
    pieces = up(across, wide)
    high = up(lines, up(lines, max(1, most // wide)))
    chunks = up(lines, high)
    plan = [0] * Plan.SIZE
    plan[: Plan.LINES] = c, o, h, w, height, width, padding, down, across
    plan[Plan.LINES], plan[Plan.HIGH], plan[Plan.WIDE] = lines, high, wide
    plan[Plan.TAP], plan[Plan.LANE] = (9 * o, 9) if flipped else (9, 9 * c)
    if weight:
        blocks = up(c, RUN) * up(o, RUN)
        split = up(lines, min(up(SUMS, blocks), chunks))
        plan[Plan.SPLIT], plan[Plan.SPLITS] = split, up(lines, split)
        plan[Plan.CHUNKS] = blocks * plan[Plan.SPLITS]
    else:
        chunks *= pieces
        part = block * up(o // block, min(o // block, up(SHARES, chunks)))
        plan[Plan.PIECES], plan[Plan.PART], plan[Plan.PARTS] = pieces, part, up(o, part)
        plan[Plan.CHUNKS] = chunks * plan[Plan.PARTS]
    return np.array(plan, np.int64)


def convolve(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, padding: int, flipped: bool = False
) -> np.ndarray | None:
    """x (N, C, H, W) convolved with w (O, C, 3, 3), or `flipped` with w (C, O, 3, 3) turned around,
    which with padding 2 - p is the gradient of the input for padding p; plus bias (O)."""
    known = sizes()
    n, c, height, width = x.shape
    w, bias = np.ascontiguousarray(w), np.ascontiguousarray(bias)
    o = w.shape[1 if flipped else 0]
    plan = plan_of(n, c, o, height, width, padding, flipped)
    y = np.empty((n, o, height + 2 * padding - 2, width + 2 * padding - 2), SINGLE)
    wrong = np.zeros(1, SINGLE)
    fused = bool(plan[Plan.CHUNKS] <= AGAIN * plan[Plan.PARTS])
    if not fused:
        lanes = known["L"]
        u = np.empty(16 * (RUN * 2 * lanes + GAP) * up(c, RUN) * (o // (2 * lanes)), SINGLE)
        kernels.transform_windows.compiled(FLIPPED=flipped, T=known["T"], L=lanes)(w, u, plan)
        w = u
    kernels.convolve.compiled(FUSED=fused, FLIPPED=fused and flipped, **known)(
        x, w, bias, y, wrong, plan
    )
    return y if wrong[0] == 0 else None


def convolve_weight(x: np.ndarray, g: np.ndarray, padding: int) -> np.ndarray | None:
    """The gradient of windows: x (N, C, H, W) and g (N, O, *out) to (O, C, 3, 3)."""
    known = sizes()
    n, c, height, width = x.shape
    o = g.shape[1]
    plan = plan_of(n, c, o, height, width, padding, False, True)
    splits = int(plan[Plan.SPLITS])
    y = np.empty((o, c, 3, 3), SINGLE)
    parts = np.empty(splits * y.size, SINGLE) if splits > 1 else y
    wrong = np.zeros(1, SINGLE)
    rows = 8 if known["MR"] >= 8 else 4
    kernels.convolve_weight.compiled(T=known["T"], MR=rows, L=known["L"])(
        x, np.ascontiguousarray(g), y, parts, wrong, plan
    )
    return y if wrong[0] == 0 else None
