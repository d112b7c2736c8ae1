"""Softmax and log-softmax, forward and backward, over rows and over columns.

Rows: [rows, n], softmax over n. Columns: [outer, n, inner], softmax over n for each of the inner
elements, a vector of neighbours at a time. Halves are computed in float32.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import (
    CHUNK,
    itself,
    product,
    row_largest,
    row_total,
    row_total_of_two,
    rows_of,
    width,
)
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64


@inline
def narrow_softmax(x, out, lo, hi, n, LOG, T):
    """Rows that fit into one vector; as many logarithms as a vector has lanes are taken at once."""
    L = width(T)
    R = T.loaded
    here = iota(i64, L) < n
    if LOG:
        sums = array(R, L)
        store(sums, splat(R(1), L))
        for first in range(lo, hi, L):
            last = min(hi, first + L)
            for r in range(first, last):
                v = select(here, load(x + r * n, L, here), R(float("-inf")))
                v = v - largest(v)
                sums[r - first] = total(select(here, math.exp_below(v), R(0)))
            store(sums, math.log(load(sums, L)))
            for r in range(first, last):
                v = select(here, load(x + r * n, L, here), R(float("-inf")))
                store(out + r * n, (v - largest(v)) - sums[r - first], here)
    else:
        for r in range(lo, hi):
            v = select(here, load(x + r * n, L, here), R(float("-inf")))
            e = math.exp_below(v - largest(v))
            s = total(select(here, e, R(0)))
            store(out + r * n, e * (1 / s), here)


@inline
def narrow_backward(g, y, out, lo, hi, n, LOG, T):
    """The same for gradients."""
    L = width(T)
    here = iota(i64, L) < n
    for r in range(lo, hi):
        v, w = load(g + r * n, L, here), load(y + r * n, L, here)
        s = total(select(here, v if LOG else v * w, T.loaded(0)))
        store(out + r * n, v - math.exp_below(w) * s if LOG else w * (v - s), here)


SIDE = 4  # rows of medium length that are worked on side by side: one need not wait for the other
SHORT = 2048  # bytes, in registers, of a row up to there


@inline
def medium_softmax(x, out, lo, hi, n, LOG, T):
    """Rows of a few vectors."""
    L = width(T)
    R = T.loaded
    logs = array(R, L)
    for r in range(lo, hi, SIDE):
        at = [min(hi - 1, r + i) * n for i in range(SIDE)]
        best = [splat(R(float("-inf")), L) for _ in range(SIDE)]
        for c in range(0, n, L):
            here = iota(i64, L) < n - c
            for i in unroll(SIDE):
                v = select(here, load_line(x + (at[i] + c), n - c, L), R(float("-inf")))
                best[i] = select(v > best[i], v, best[i])
        most = [largest(best[i]) for i in range(SIDE)]
        sums = [splat(R(0), L) for _ in range(SIDE)]
        for c in range(0, n, L):
            here = iota(i64, L) < n - c
            for i in unroll(SIDE):
                v = math.exp_below(load_line(x + (at[i] + c), n - c, L) - most[i])
                sums[i] = sums[i] + select(here, v, R(0))
                if not LOG and T.loaded is T:
                    store_line(out + (at[i] + c), v, n - c, L)
        s = [total(sums[i]) for i in range(SIDE)]
        if LOG:
            store(logs, splat(R(1), L))
            for i in unroll(SIDE):
                logs[i] = s[i]
            store(logs, math.log(load(logs, L)))
        s = [(logs[i] if LOG else 1 / s[i]) for i in range(SIDE)]
        for c in range(0, n, L):
            if LOG:
                w = [(load_line(x + (at[i] + c), n - c, L) - most[i]) - s[i] for i in range(SIDE)]
            elif T.loaded is T:
                w = [load_line(out + (at[i] + c), n - c, L) * s[i] for i in range(SIDE)]
            else:  # what is stored is rounded: it is computed again
                w = [
                    math.exp_below(load_line(x + (at[i] + c), n - c, L) - most[i]) * s[i]
                    for i in range(SIDE)
                ]
            for i in unroll(SIDE):  # after all were loaded: the last row may be there several times
                store_line(out + (at[i] + c), w[i], n - c, L)


@kernel(quick=True)
def short_softmax(LOG, x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """As rows_softmax, of rows that are SHORT at most."""
    for lo, hi in parallel(rows, rows_of(n)):
        if n <= width(T):
            narrow_softmax(x, out, lo, hi, n, LOG, T)
        else:
            medium_softmax(x, out, lo, hi, n, LOG, T)


@kernel
def rows_softmax(LOG, x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """exp(x) / sum(exp(x)) of each row; LOG: its logarithm."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, out + r * n
            most = row_largest(p, n, T)
            if LOG:
                s = row_total(p, n, lambda v: math.exp_below(v - most), T)
                s = math.log(s)
                for i in lanes(0, n):
                    q[i] = (p[i] - most) - s
            elif T.loaded is T:
                for i in lanes(0, n):
                    q[i] = math.exp_below(p[i] - most)
                s = 1 / row_total(q, n, itself, T)
                for i in lanes(0, n):
                    q[i] = q[i] * s
            else:  # what is stored is rounded: the sum is not made of that
                s = 1 / row_total(p, n, lambda v: math.exp_below(v - most), T)
                for i in lanes(0, n):
                    q[i] = math.exp_below(p[i] - most) * s


FEW = 4  # elements of a row up to which lanes are rows


@kernel
def few_softmax(LOG, N, x: Ptr[T], out: Ptr[T], rows: i64):
    """As rows_softmax, of rows of N elements."""
    R = T.loaded
    for lo, hi in parallel(rows, CHUNK // N):
        for r in lanes(lo, hi):
            v = [R(x[r * N + k]) for k in range(N)]
            most = v[0]
            for k in unroll(range(1, N)):
                most = v[k] if v[k] > most else most
            e = [math.exp_below(v[k] - most) for k in range(N)]
            s = e[0]
            for k in unroll(range(1, N)):
                s = s + e[k]
            by = math.log(s) if LOG else 1 / s
            for k in unroll(N):
                out[r * N + k] = (v[k] - most) - by if LOG else e[k] * by


@kernel
def rows_softmax_backward(LOG, g: Ptr[T], y: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """y * (g - sum(g * y)); LOG: g - exp(y) * sum(g)."""
    for lo, hi in parallel(rows, rows_of(n)):
        if n <= width(T):
            narrow_backward(g, y, out, lo, hi, n, LOG, T)
        for r in range(lo if n > width(T) else hi, hi):
            a, b, q = g + r * n, y + r * n, out + r * n
            if LOG:
                s = row_total(a, n, itself, T)
                for i in lanes(0, n):
                    q[i] = a[i] - math.exp_below(b[i]) * s
            else:
                s = row_total_of_two(a, b, n, product, T)
                for i in lanes(0, n):
                    q[i] = b[i] * (a[i] - s)


@kernel
def columns_softmax(LOG, x: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64):
    """As rows_softmax, of columns."""
    L = width(T)
    across = (inner + (L - 1)) // L
    for lo, hi in parallel(outer * across, rows_of(n * L)):
        for t in range(lo, hi):
            o, j = t // across, t % across * L
            p, q = x + (o * n * inner + j), out + (o * n * inner + j)
            most = splat(T.loaded(float("-inf")), L)
            for k in range(n):
                v = load_line(p + k * inner, inner - j, L)
                most = select(v > most, v, most)
            s = splat(T.loaded(0), L)
            for k in range(n):
                s = s + math.exp_below(load_line(p + k * inner, inner - j, L) - most)
            if LOG:
                s = math.log(s)
            else:
                s = 1 / s
            for k in range(n):
                v = load_line(p + k * inner, inner - j, L) - most
                v = v - s if LOG else math.exp_below(v) * s
                store_line(q + k * inner, v, inner - j, L)


TILE = 16  # vectors of columns that are summed side by side, row by row as they lie in memory


@kernel
def columns_softmax_backward(
    LOG, g: Ptr[T], y: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64
):
    """As rows_softmax_backward, of columns."""
    R, most = T.loaded, TILE * width(T)
    across = (inner + (most - 1)) // most
    for lo, hi in parallel(outer * across, rows_of(n * min(inner, i64(most)))):
        sums = array(R, most)
        for t in range(lo, hi):
            j = t % across * most
            m = min(inner - j, i64(most))
            first = t // across * n * inner + j
            for i in lanes(0, m):
                sums[i] = R(0)
            for k in range(n):
                at = first + k * inner
                for i in lanes(0, m):
                    v = R(g[at + i])
                    sums[i] = sums[i] + (v if LOG else v * y[at + i])
            for k in range(n):
                at = first + k * inner
                for i in lanes(0, m):
                    v, w, s = R(g[at + i]), R(y[at + i]), sums[i]
                    out[at + i] = v - math.exp_below(w) * s if LOG else w * (v - s)


@inline
def log_sum(p, n, T):
    """log(sum(exp(x))) of a row."""
    R = T.loaded
    L = width(T)
    most, s = R(0), R(0)
    if n <= L:
        here = iota(i64, L) < n
        v = select(here, load(p, L, here), R(float("-inf")))
        most = largest(v)
        s = total(select(here, math.exp_below(v - most), R(0)))
    else:
        most = row_largest(p, n, T)
        s = row_total(p, n, lambda v: math.exp_below(v - most), T)
    return most + math.log(s)


@kernel
def rows_log_sum(x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """log(sum(exp(x))) of rows; of infinities, what the largest is."""
    R = T.loaded
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p = x + r * n
            v = log_sum(p, n, T)
            if v != v:  # inf - inf, or a NaN
                bad = row_total(p, n, lambda v: select(v == v, R(0), R(1)), T)
                v = row_largest(p, n, T) if bad == 0 else R(float("nan"))
            out[r] = v
