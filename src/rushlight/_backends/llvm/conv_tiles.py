"""Convolutions of bfloat16 in tiles of registers (AMX): see `_codegen/kernels/conv_tiles.py`.

All arrays are brought into one order first: channels innermost, in pairs, of the array that windows read and of the
weights, of which those are innermost that are summed over; for the gradient of the weight the places of g.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends.llvm.conv_arrays import by_position
from rushlight._backends.llvm.conv_plans import (
    CHANNELS_LAST,
    CHUNK,
    CHUNKS,
    fill,
    gradient_frame,
    input_frame,
    rounded_up,
    three,
    y_steps,
)
from rushlight._backends.llvm.views import contiguous, copy_into
from rushlight._backends.reference import conv as reference
from rushlight._backends.reference.conv import by_channel
from rushlight._codegen.conv_plan import Plan
from rushlight._codegen.kernels import conv as of_frames
from rushlight._codegen.kernels import conv_tiles as kernels
from rushlight._codegen.kernels.tiles import DEEP, SIDE
from rushlight._codegen.types import bf16, i32, of
from rushlight.core.dtype_sets import BF16, F32, I32

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem

    Ints = tuple[int, ...]
    Run = tuple[int, int, int]  # pairs: where in the window, where in the weights, how many

FEW = 3  # channels: with fewer sums by lines are as fast
LANES = 16  # of a vector of pairs, or of float32
FASTER = 8  # so many times as by the processor's other instructions


def summed(p: Problem) -> int:
    """The channels of a group that are summed over; for the gradient of the weight those that windows read."""
    return p.w[0] // p.groups if p.direction == "transposed" else p.w[1]


def fits(p: Problem) -> bool:
    """Whether channels make whole pairs, with one of zeros where there is but one group, and are enough on both sides."""
    return min(p.w[0] // p.groups, p.w[1]) >= FEW and (p.groups == 1 or summed(p) % 2 == 0)


@lru_cache(maxsize=256)
def of_pairs(p: Problem) -> Problem:
    """The problem with the channels that windows read in pairs, innermost."""
    half = (summed(p) + 1) // 2
    x, w, y = p.x, p.w, p.y
    if p.direction == "transposed":
        y, w = (y[0], half * p.groups, *y[2:]), (half * p.groups, *w[1:])
    else:
        x, w = (x[0], half * p.groups, *x[2:]), (w[0], half, *w[2:])
    return p.but(x=x, w=w, y=y, dtype=I32, layouts=(CHANNELS_LAST, CHANNELS_LAST, p.layouts[2]))


def innermost_pairs(a: np.ndarray) -> np.ndarray:
    """A view of an array of bfloat16, or a copy of it, whose last dimension holds pairs and is innermost."""
    if a.shape[-1] % 2 == 0:
        return contiguous(a).view(I32)
    wide = np.empty((*a.shape[:-1], a.shape[-1] + 1), a.dtype)
    copy_into(wide[..., :-1], a)
    wide[..., -1] = 0
    return wide.view(I32)


def framed(a: np.ndarray, found: tuple) -> np.ndarray:
    """An array with its channels in pairs, innermost, in the frame that `conv_plans.frame` describes."""
    plan, size, _ = found
    a = innermost_pairs(by_position(a))
    if plan is None:
        return a
    wide = np.empty(size, a.dtype)
    of_frames.spread.compiled(E=i32, T=i32, L=LANES)(a, wide, plan)
    return wide


def joined(runs: list[Run]) -> list[Run]:
    """Runs in the order of what they read, those as one that lie beside each other in the window and in the weights."""
    found: list[Run] = []
    for at, w, n in sorted(runs):
        if found:
            before, first, length = found[-1]
            if (before + length, first + length) == (at, w):
                found[-1] = before, first, length + n
                continue
        found.append((at, w, n))
    return found


def blocks_of(runs: list[Run], most: int) -> list[list[Run]]:
    """Runs cut into blocks of at most so many pairs."""
    pairs = sum(n for _, _, n in runs)
    each = rounded_up(-(-pairs // max(1, -(-pairs // most))), DEEP) if pairs else most
    blocks: list[list[Run]] = []
    room = 0
    for at, w, n in runs:
        while n:
            if not room:
                blocks.append([])
                room = each
            here = min(n, room)
            blocks[-1].append((at, w, here))
            at, w, n, room = at + here, w + here, n - here, room - here
    return blocks


def described(block: list[Run]) -> list[int]:
    """A block of a window as the kernels read it."""
    return [sum(n for _, _, n in block), len(block), *(number for run in block for number in run)]


def windows(q: Problem, steps: Ints, low: Ints) -> list[list[Run]]:
    """The runs of each phase of a problem of pairs: one, but of a strided convolution's transpose."""
    turned = q.direction == "transposed"
    channels = q.w[0] // q.groups if turned else q.w[1]
    stride = three(q.stride, 1) if turned else (1, 1, 1)
    dilation, kernel = three(q.dilation, 1), three(q.kernel, 1)
    taps = list(enumerate(product(*map(range, kernel))))
    phases = []
    for phase in product(*map(range, stride)):
        runs = []
        for tap, k in taps:
            at = [i * d for i, d in zip(k, dilation, strict=True)]
            if turned:
                if any((i - f) % s for i, f, s in zip(at, phase, stride, strict=True)):
                    continue
                each = zip(at, phase, stride, three(low, 0), strict=True)
                at, tap = [m - (i - f) // s for i, f, s, m in each], len(taps) - 1 - tap
            reads = sum(i * step for i, step in zip(at, steps[2:], strict=True))
            runs.append((reads, tap * channels, channels))
        phases.append(joined(runs))
    return phases


@lru_cache(maxsize=256)
def plan_of(p: Problem) -> tuple[tuple, np.ndarray]:
    """The frame of what windows read, and the plan of a convolution or of its transpose."""
    q, turned = of_pairs(p), p.direction == "transposed"
    x, y = (q.y, p.x) if turned else (q.x, p.y)
    found, low = gradient_frame(q) if turned else (input_frame(q), ())
    steps, lanes, out = found[2], y[1] // p.groups, three(y[2:], 1)
    channels = x[1] // p.groups
    plan = fill(
        of(BF16), x[0], out, p.groups, lanes, steps, y_steps(y[1], y[2:], p.channels_last), channels
    )
    if turned:
        plan[Plan.PLUS : Plan.PLUS + 3] = three(p.padding, 0)
        plan[Plan.OVER : Plan.OVER + 3] = three(p.stride, 1)
    else:
        plan[Plan.TIMES : Plan.TIMES + 3] = three(p.stride, 1)
    room, every = 0, windows(q, steps, low)
    for runs in every:
        blocks = blocks_of(runs, kernels.DEPTH)
        plan.append(len(blocks))
        for block in blocks:
            plan += described(block)
            room += rounded_up(sum(n for _, _, n in block), DEEP)
    plan[Plan.TAPS] = channels * prod(p.kernel)
    plan[Plan.ROOM] = room + 4  # `pack_columns` writes four rows at a time
    plan[Plan.DEEP] = last_whole(every, plan, found)
    work = (
        plan[Plan.PLACES] * prod(q.w[1:]) * q.w[0] // FASTER // (prod(p.stride) if turned else 1)
        + 1
    )
    divide(plan, work)
    return found, np.array(plan, np.int64)


def last_whole(phases: list[list[Run]], plan: list[int], found: tuple) -> int:
    """The last place from which a tile of places beside each other may be read where it lies: -1 if none may."""
    if any(n % DEEP for runs in phases for _, _, n in runs):
        return -1
    reach = max((at + n for runs in phases for at, _, n in runs), default=0)
    step = plan[Plan.TIMES + 2] * plan[Plan.X_STEP + 2]
    whole = found[1] or plan[Plan.X_IMAGE] * (
        plan[Plan.PLACES] // prod(plan[Plan.OUT : Plan.OUT + 3])
    )
    return whole - (plan[Plan.GROUPS] - 1) * plan[Plan.X_GROUP] - reach - (DEEP - 1) * step


def divide(plan: list[int], work: int) -> None:
    """Cut a convolution of so many multiplications into chunks: some places by some blocks of channels."""
    places, blocks = plan[Plan.PLACES], plan[Plan.BLOCKS]
    plan[Plan.SPLITS] = -(-blocks // kernels.SPAN)
    plan[Plan.SPLIT] = -(-blocks // plan[Plan.SPLITS])
    others = plan[Plan.GROUPS] * plan[Plan.SPLITS]
    wanted = min(CHUNKS, 1 + work // CHUNK)
    pieces = max(-(-places // kernels.PLACES), -(-wanted // others))
    plan[Plan.SIZE] = min(rounded_up(-(-places // pieces), SIDE), kernels.PLACES)
    plan[Plan.CHUNKS] = others * -(-places // plan[Plan.SIZE])
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))


def panels_of(w: np.ndarray, p: Problem, plan: np.ndarray) -> np.ndarray:
    """The weights as `kernels.convolve` reads them."""
    turned = p.direction == "transposed"
    if turned:
        w = contiguous(by_position(w))
        if len(w) % 2:
            w = np.concatenate([w, np.zeros((1, *w.shape[1:]), w.dtype)])
    else:
        w = innermost_pairs(by_position(w))
    out = np.empty(plan[Plan.GROUPS] * plan[Plan.BLOCKS] * plan[Plan.ROOM] * SIDE, I32)
    kernels.panels.compiled(TURNED=turned, L=LANES)(w, out, plan)
    return out


def convolve(a: np.ndarray, w: np.ndarray, bias: np.ndarray, p: Problem) -> np.ndarray:
    """A convolution, or its transpose."""
    frame, plan = plan_of(p)
    result = reference.empty(p.shapes[2], BF16, p.channels_last)
    a = framed(a, frame)
    kernels.convolve.compiled(E=bf16, L=LANES)(a, panels_of(w, p, plan), bias, result, plan)
    return result


@lru_cache(maxsize=256)
def weight_plan(p: Problem) -> tuple[tuple, np.ndarray]:
    """The frame of the input, and the plan of a weight's gradient."""
    q = of_pairs(p)
    found = input_frame(q)
    lanes, channels = p.w[0] // p.groups, q.w[1]
    plan = fill(of(BF16), p.x[0], three(p.out, 1), p.groups, lanes, found[2], (0, 0, 0), channels)
    plan[Plan.TIMES : Plan.TIMES + 3] = three(p.stride, 1)
    plan[Plan.BLOCKS] = -(-lanes // (kernels.SPAN * SIDE))
    every = windows(q, found[2], ())
    pieces = blocks_of(every[0], kernels.COLUMNS)
    plan[Plan.DEEP] = last_whole(every, plan, found)
    plan += [len(pieces), *(0 for _ in pieces)]
    for i, piece in enumerate(pieces):
        plan[Plan.PHASES + 1 + i] = len(plan)
        plan += described(piece)
    plan[Plan.TAPS] = size = channels * prod(p.kernel)
    places = plan[Plan.PLACES]
    plan[Plan.ROOM] = p.w[0] * DEEP
    others = p.groups * plan[Plan.BLOCKS] * len(pieces)
    work = places * size * p.w[0] // FASTER + 1
    wanted = min(CHUNKS, 1 + work // CHUNK)
    splits = max(1, min(-(-wanted // others), places // kernels.SUMMED))
    plan[Plan.SPLIT] = rounded_up(-(-places // splits), SIDE)
    plan[Plan.SPLITS] = -(-places // plan[Plan.SPLIT])
    plan[Plan.CHUNKS] = others * plan[Plan.SPLITS]
    plan[Plan.GRAIN] = max(1, CHUNK * plan[Plan.CHUNKS] // (8 * work))
    return found, np.array(plan, np.int64)


def some_places(g: np.ndarray) -> np.ndarray:
    """g as [places / SIDE, O, SIDE], with zeros behind the last place, and memory behind the last channel for a tile."""
    o, each = g.shape[1], prod(g.shape[2:])
    blocks = -(-len(g) * each // SIDE)
    out = np.empty((blocks * o + SIDE - 1) * SIDE, BF16)[: blocks * o * SIDE].reshape(
        blocks, o, SIDE
    )
    if g.flags.c_contiguous and each % SIDE == 0:
        copy_into(out.reshape(len(g), -1, o, SIDE), g.reshape(len(g), o, -1, SIDE).swapaxes(1, 2))
        return out
    rows = contiguous(by_position(g)).reshape(-1, o)
    whole = len(rows) // SIDE
    copy_into(out[:whole], rows[: whole * SIDE].reshape(-1, SIDE, o).swapaxes(1, 2))
    if whole < blocks:
        left = rows[whole * SIDE :]
        out[-1] = 0
        out[-1, :, : len(left)] = left.T
    return out


def convolve_weight(x: np.ndarray, g: np.ndarray, p: Problem) -> np.ndarray:
    """The gradient of the weight."""
    frame, plan = weight_plan(p)
    o = p.w[0]
    channels = rounded_up(p.w[1], 2)
    result = np.empty((o, *p.kernel, channels), BF16)
    parts = np.empty((plan[Plan.SPLITS], result.size), F32) if plan[Plan.SPLITS] > 1 else result
    x = framed(x, frame)
    kernels.convolve_weight.compiled(E=bf16, L=LANES)(x, some_places(g), result, parts, plan)
    result = by_channel(result[..., : p.w[1]])
    if p.channels_last:
        return by_channel(contiguous(by_position(result)))
    return contiguous(result)
