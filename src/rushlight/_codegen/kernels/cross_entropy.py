"""The cross entropy of logits and classes in one pass each way, with weights of classes, classes that are
left out and smoothed labels (C. Szegedy et al., 2016).

For a row x with class t, l = log(sum(exp(x))), weights w (1 where there are none) and s = smoothing / n:

    loss = (1 - smoothing) w[t] (l - x[t]) + s sum(w (l - x)),

    its gradient = ((1 - smoothing) w[t] + s sum(w)) exp(x - l) - s w, less (1 - smoothing) w[t] at t.

Rows: [rows, n]. Columns: [outer, n, inner], as images of classes are: a vector of neighbours at a time.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import (
    itself,
    product,
    row_total,
    row_total_of_two,
    rows_of,
    width,
)
from rushlight._codegen.kernels.shape_inference import dims_of, in_order, shape_of
from rushlight._codegen.kernels.softmax import log_sum
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.types import Header, Ptr, f64, i64

ACROSS = 256  # columns that are worked on side by side: memory is read in pieces of so many
TOTALS = 3  # numbers that a chunk leaves: the sum of losses, that of weights, classes out of range


@inline
def entropies(
    WEIGHT, SMOOTH, T, R, x, target, weight, losses, sums, totals, lo, hi, n, skip, smoothing
):
    """losses and sums = log(sum(exp(x))) of the rows from lo to hi, and TOTALS. 0 where a class is `skip`, or
    out of range, which is counted."""
    hard, soft = R(1.0 - smoothing), R(smoothing) / R(n)
    loss, weights, bad = f64(0), f64(0), i64(0)
    if SMOOTH:
        all = row_total(weight, n, itself, T) if WEIGHT else R(n)
    for r in range(lo, hi):
        p = x + r * n
        t = target[r]
        l, w = R(0), R(0)
        s = log_sum(p, n, T)
        if (t != skip) & (t >= 0) & (t < n):
            w = R(weight[t]) if WEIGHT else R(1)
            l = (s - p[t]) * w
            if SMOOTH:
                m = (
                    row_total_of_two(p, weight, n, product, T)
                    if WEIGHT
                    else row_total(p, n, itself, T)
                )
                l = hard * l + soft * (s * all - m)
        elif t != skip:
            bad += 1
        sums[r] = s
        losses[r] = l
        loss += f64(l)
        weights += f64(w)
    totals[0] = loss
    totals[1] = weights
    totals[2] = f64(bad)


@kernel(quick=True)
def rows_entropy(
    WEIGHT, SMOOTH, x: Ptr[T], target: Ptr[i64], weight: Ptr[T], losses: Ptr[R], sums: Ptr[R],
    totals: Ptr[f64], rows: i64, n: i64, skip: i64, smoothing: f64,
):  # fmt: skip
    """As `entropies`, with TOTALS for each chunk."""
    grain = rows_of(n)
    for lo, hi in parallel(rows, grain):
        at = totals + lo // grain * TOTALS
        entropies(
            WEIGHT, SMOOTH, T, R, x, target, weight, losses, sums, at, lo, hi, n, skip, smoothing
        )


@kernel(quick=True)
def rows_entropy_alone(
    SMOOTH, x: Ptr[T], target: Ptr[i64], losses: Ptr[R], sums: Ptr[R], totals: Ptr[f64], rows: i64, n: i64,
    skip: i64, smoothing: f64,
):  # fmt: skip
    """The same of one chunk, without weights."""
    entropies(
        False, SMOOTH, T, R, x, target, x, losses, sums, totals, i64(0), rows, n, skip, smoothing
    )


@kernel
def infer_entropy(
    a: Header, target: Header, weight: i64, skip: i64, smoothing: f64, plan: Ptr[i64]
):
    """The plan of one chunk of rows without weights; the second run is for smoothed labels."""
    fits = in_order(a) & in_order(target) & (dims_of(a) == 2) & (dims_of(target) == 1)
    plan[RUN] = 0
    if fits & (weight == NONE) & (skip != NONE):
        rows, n = shape_of(a)[0], shape_of(a)[1]
        if (shape_of(target)[0] == rows) & (rows * n > 0) & (rows <= rows_of(n)):
            plan[RUN] = i64(1) if smoothing == 0 else i64(2)
            plan[WORK] = rows * n
            plan[NDIM] = 1
            plan[SHAPE] = rows
            plan[NUMBERS] = rows
            plan[NUMBERS + 1] = n
            plan[NUMBERS + 2] = skip
            plan[NUMBERS + 3] = bits(smoothing, i64)


@inline
def over(divisor, x=1.0):
    """x / divisor; NaN for no examples."""
    return select(divisor == 0, f64(float("nan")), x / divisor)


@kernel
def added(totals: Ptr[f64], chunks: i64):
    """Add the totals of all chunks to those of the first."""
    for k in range(1, chunks):
        for i in unroll(TOTALS):
            totals[i] = totals[i] + totals[k * TOTALS + i]


@kernel
def infer_total(totals: Header, mean: i64, plan: Ptr[i64]):
    """The plan of `entropy_total`."""
    plan[RUN] = 0
    plan[WORK] = 1
    plan[NDIM] = 0
    plan[NUMBERS] = mean
    if in_order(totals) & (dims_of(totals) == 1):
        plan[RUN] = i64(1) if shape_of(totals)[0] == TOTALS else i64(0)


@kernel
def entropy_total(totals: Ptr[f64], loss: Ptr[R], divisor: Ptr[f64], wrong: Ptr[i64], mean: i64):
    """The sum of losses or their mean, and what they were divided by; wrong[0] where a class is out of range."""
    wrong[0] = select(totals[2] == 0, i64(0), i64(1))
    divisor[0] = select(mean != 0, totals[1], f64(1))
    loss[0] = R(select(mean != 0, over(totals[1], totals[0]), totals[0]))


@kernel
def rows_entropy_backward(
    WEIGHT, SMOOTH, g: Ptr[R], x: Ptr[T], target: Ptr[i64], weight: Ptr[T], sums: Ptr[R], out: Ptr[T],
    rows: i64, n: i64, skip: i64, smoothing: f64, divisor: Ptr[f64], step: i64,
):  # fmt: skip
    """The gradient by x; row r has the gradient g[r * step] / divisor[0]."""
    hard, soft = R(1.0 - smoothing), R(smoothing) / R(n)
    scale = over(divisor[0])
    for lo, hi in parallel(rows, rows_of(n)):
        if SMOOTH:
            all = row_total(weight, n, itself, T) if WEIGHT else R(n)
        for r in range(lo, hi):
            p, q = x + r * n, out + r * n
            t = target[r]  # looked at again: memory that others see may have changed
            if (t == skip) | (t < 0) | (t >= n):
                for i in lanes(0, n):
                    q[i] = 0
            else:
                s = sums[r]
                f = g[r * step] * R(scale)
                w = R(weight[t]) * f if WEIGHT else f
                if SMOOTH:
                    w = w * hard
                    a, b = w + soft * all * f, soft * f
                    for i in lanes(0, n):
                        v = math.exp_below(p[i] - s) * a
                        q[i] = v - b * R(weight[i]) if WEIGHT else v - b
                    v = math.exp_below(p[t] - s) * a
                    q[t] = v - b * R(weight[t]) - w if WEIGHT else v - b - w
                else:
                    for i in lanes(0, n):
                        q[i] = math.exp_below(p[i] - s) * w
                    q[t] = math.exp_below(p[t] - s) * w - w


@kernel
def columns_entropy(
    WEIGHT, SMOOTH, x: Ptr[T], target: Ptr[i64], weight: Ptr[T], losses: Ptr[R], sums: Ptr[R],
    totals: Ptr[f64], outer: i64, n: i64, inner: i64, skip: i64, smoothing: f64,
):  # fmt: skip
    """As rows_entropy, of columns."""
    L = width(T)
    across = (inner + (L - 1)) // L
    grain = rows_of(n * L)
    hard, soft = R(1.0 - smoothing), R(smoothing) / R(n)
    for lo, hi in parallel(outer * across, grain):
        loss, weights, bad = f64(0), f64(0), f64(0)
        all = R(n)
        if SMOOTH and WEIGHT:
            all = row_total(weight, n, itself, T)
        for z in range(lo, hi):
            o, j = z // across, z % across * L
            here = iota(i64, L) < inner - j
            p = x + (o * n * inner + j)
            t = load_line(target + (o * inner + j), inner - j, L)
            most = splat(R(float("-inf")), L)
            for k in range(n):
                v = load_line(p + k * inner, inner - j, L)
                most = select(v > most, v, most)
            s, m, w, picked = splat(R(0), L), splat(R(0), L), splat(R(0), L), splat(R(0), L)
            for k in range(n):
                v = load_line(p + k * inner, inner - j, L)
                s = s + math.exp_below(v - most)
                picked = select(t == k, v, picked)
                if WEIGHT:
                    w = select(t == k, R(weight[k]), w)
                if SMOOTH:
                    m = m + (v * R(weight[k]) if WEIGHT else v)
            s = most + math.log(s)
            within = (t >= 0) & (t < n)
            good = here & (t != skip) & within
            w = select(good, w if WEIGHT else splat(R(1), L), R(0))
            l = (s - picked) * w
            if SMOOTH:
                l = hard * l + soft * (s * all - m)
            l = select(good, l, R(0))
            store_line(sums + (o * inner + j), s, inner - j, L)
            store_line(losses + (o * inner + j), l, inner - j, L)
            loss += f64(total(l))
            weights += f64(total(w))
            wrong = here & (t != skip) & (t < 0) | here & (t != skip) & (t >= n)
            bad += f64(total(select(wrong, splat(R(1), L), R(0))))
        at = totals + lo // grain * TOTALS
        at[0] = loss
        at[1] = weights
        at[2] = bad


@kernel
def columns_entropy_backward(
    WEIGHT, SMOOTH, g: Ptr[R], x: Ptr[T], target: Ptr[i64], weight: Ptr[T], sums: Ptr[R], out: Ptr[T],
    outer: i64, n: i64, inner: i64, skip: i64, smoothing: f64, divisor: Ptr[f64], step: i64,
):  # fmt: skip
    """As rows_entropy_backward, of columns."""
    L = width(T)
    scale = over(divisor[0])
    across = (inner + (ACROSS - 1)) // ACROSS
    hard, soft = R(1.0 - smoothing), R(smoothing) / R(n)
    for lo, hi in parallel(outer * across, rows_of(n * ACROSS)):
        classes, smooth = array(i64, ACROSS), array(R, ACROSS)
        shifts, factors, shares = array(R, ACROSS), array(R, ACROSS), array(R, ACROSS)
        all = R(n)
        if SMOOTH and WEIGHT:
            all = row_total(weight, n, itself, T)
        for z in range(lo, hi):
            o, j = z // across, z % across * ACROSS
            first, at = o * n * inner + j, o * inner + j
            count = min(inner - j, i64(ACROSS))
            for i in range(0, count, L):
                here = iota(i64, L) < count - i
                t = load_line(target + (at + i), count - i, L)
                good = here & (t != skip) & (t >= 0) & (t < n)
                f = splat(g[0] * R(scale), L)
                if step != 0:
                    f = load_line(g + (at + i), count - i, L) * R(scale)
                f = select(good, f, R(0))
                w = f
                if WEIGHT:
                    c = splat(R(0), L)
                    for k in range(n):
                        c = select(t == k, R(weight[k]), c)
                    w = c * f
                a, b = w, f * soft
                if SMOOTH:
                    w = w * hard
                    a = w + b * all
                    store(smooth + i, b)
                store(classes + i, select(good, t, i64(-1)))  # -1: the gradient of the column is 0
                store(shifts + i, load_line(sums + (at + i), count - i, L))
                store(factors + i, a)
                store(shares + i, w)
            for k in range(n):
                p, q = x + (first + k * inner), out + (first + k * inner)
                for i in range(0, count, L):
                    t = load(classes + i, L)
                    v = math.exp_below(load_line(p + i, count - i, L) - load(shifts + i, L))
                    v = v * load(factors + i, L)
                    v = select(t == k, v - load(shares + i, L), v)
                    if SMOOTH:
                        b = load(smooth + i, L)
                        v = v - (b * R(weight[k]) if WEIGHT else b)
                    store_line(q + i, select(t >= 0, v, R(0)), count - i, L)
