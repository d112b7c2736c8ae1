"""The CTC loss, one sequence after the other: forward and backward variables in float64, a vector of places
of a target at a time (Graves et al. 2006, equations 6 to 16)."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, f64, i64

NEVER = float("-inf")
EDGE = 2  # places on a side of a row that are never reached


@inline
def either(a, b, c):
    """log(exp(a) + exp(b) + exp(c))"""
    m = b if b > a else a
    m = c if c > m else m
    s = math.exp_below(a - m) + math.exp_below(b - m) + math.exp_below(c - m)
    return select(m == NEVER, m, m + math.log(s))


@inline
def ending(last, length):
    """The logarithm of a target's probability, from its variables at the end."""
    before = last[2 * length - 1] if length > 0 else f64(NEVER)
    return either(last[2 * length], before, f64(NEVER))


@kernel
def ctc_loss(
    x: Ptr[T], classes: Ptr[i64], jump: Ptr[b1], heard: Ptr[i64], lengths: Ptr[i64], losses: Ptr[T],
    alpha: Ptr[f64], space: Ptr[f64], steps: i64, n: i64, count: i64, places: i64,
):  # fmt: skip
    """The losses of x [steps, n, count], and alpha [n, steps, places], -inf behind the end of an input.
    `classes`, `jump` [n, places]: the class of a place, and whether it may be reached from two before.
    `space`: EDGE + places numbers for each sequence."""
    for lo, hi in parallel(n, 1):
        for k in range(lo, hi):
            at, may = classes + k * places, jump + k * places
            before = space + k * (EDGE + places)
            before[0] = NEVER
            before[1] = NEVER
            end = heard[k]
            for t in range(steps):
                row, said = alpha + (k * steps + t) * places, x + (t * n + k) * count
                if t >= end:
                    for p in lanes(0, places):
                        row[p] = NEVER
                elif t == 0:
                    for p in lanes(0, places):
                        first = (p == 0) | ((p == 1) & (lengths[k] > 0))
                        row[p] = f64(said[at[p]]) if first else f64(NEVER)
                else:
                    for p in lanes(0, places):
                        two = before[p] if may[p] else f64(NEVER)
                        row[p] = either(before[p + 2], before[p + 1], two) + f64(said[at[p]])
                for p in lanes(0, places):
                    before[p + EDGE] = row[p]
            if end > 0:
                losses[k] = T(-ending(alpha + (k * steps + end - 1) * places, lengths[k]))
            else:
                losses[k] = T(float("inf")) if lengths[k] > 0 else T(0)


@kernel
def ctc_loss_gradient(
    ZERO, g: Ptr[T], x: Ptr[T], classes: Ptr[i64], jump: Ptr[b1], heard: Ptr[i64], lengths: Ptr[i64],
    alpha: Ptr[f64], out: Ptr[T], space: Ptr[f64], steps: i64, n: i64, count: i64, places: i64,
):  # fmt: skip
    """g times exp(x) less the probabilities of classes given the target, 0 behind the end of an input;
    ZERO: also where there is no alignment. `space`: 2 * (places + EDGE) + places + count numbers for each
    sequence; jump has EDGE entries more at its end."""
    for lo, hi in parallel(n, 1):
        for k in range(lo, hi):
            at, may = classes + k * places, jump + k * places
            wide = places + EDGE
            rows = space + k * (2 * wide + places + count)
            share = rows + 2 * wide
            sums = share + places
            for p in range(places, wide):
                rows[p] = NEVER
                rows[wide + p] = NEVER
            end, length = heard[k], lengths[k]
            total = f64(NEVER)
            if end > 0:
                total = ending(alpha + (k * steps + end - 1) * places, length)
            none = (
                f64(float("nan")) if total == NEVER else f64(0)
            )  # no alignment: all is NaN, as in PyTorch
            stop = i64(0) if ZERO and total == NEVER else end
            for t in range(stop, steps):
                to = out + (t * n + k) * count
                for c in lanes(0, count):
                    to[c] = 0
            for back in range(stop):
                t = stop - 1 - back
                said, to = x + (t * n + k) * count, out + (t * n + k) * count
                old, beta = rows + (t & 1) * wide, rows + (1 - (t & 1)) * wide
                forward = alpha + (k * steps + t) * places
                if back == 0:
                    for p in lanes(0, places):
                        last = (p == 2 * length) | (p == 2 * length - 1)
                        beta[p] = f64(said[at[p]]) if last else f64(NEVER)
                else:
                    for p in lanes(0, places):
                        ahead = p + 2 < places
                        two = old[p + 2] if ahead & may[p + 2] else f64(NEVER)
                        beta[p] = either(old[p], old[p + 1], two) + f64(said[at[p]])
                for p in lanes(0, places):
                    e = f64(said[at[p]])
                    v = math.exp(forward[p] + beta[p] - e - total)
                    never = ((forward[p] == NEVER) | (e == NEVER)) & (total != NEVER)
                    share[p] = f64(0) if never else v
                for c in lanes(0, count):
                    sums[c] = math.exp(f64(said[c])) + none
                for p in range(places):
                    sums[at[p]] = sums[at[p]] - share[p]
                for c in lanes(0, count):
                    to[c] = T(sums[c] * f64(g[k]))
