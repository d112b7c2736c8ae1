"""Running sums, products and extremes of [outer, n, inner] along n.

One row is one chain of operations, in order; several rows, or the columns of a matrix, go side by
side.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.arithmetic import logaddexp
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f64, i64

TOGETHER = 4  # rows side by side
STRETCH = 16  # elements that are looked at together
LANES = 8  # columns side by side: their sums are 64 bits wide


@inline
def joined(a, b, TIMES):
    return a * b if TIMES else a + b


@kernel
def running(TIMES, W, x: Ptr[T], out: Ptr[R], outer: i64, n: i64, inner: i64):
    """out[o, i, j] = x[o, 0, j] + ... + x[o, i, j], or times, computed in W."""
    if inner == 1:
        groups = outer // TOGETHER
        for lo, hi in parallel(groups, rows_of(n * TOGETHER)):
            for t in range(lo, hi):
                p, q = x + t * TOGETHER * n, out + t * TOGETHER * n
                some = [W(1 if TIMES else 0) for _ in range(TOGETHER)]
                for i in range(n):
                    for r in unroll(TOGETHER):
                        some[r] = joined(some[r], W(p[r * n + i]), TIMES)
                    for r in unroll(TOGETHER):
                        q[r * n + i] = R.loaded(some[r])
        for o in range(groups * TOGETHER, outer):
            of, to = x + o * n, out + o * n
            one = W(1 if TIMES else 0)
            whole = i64(0)
            if R.size == 2:  # halves are converted together: one alone takes longer than the sum
                wide = array(W, STRETCH)
                whole = n // STRETCH * STRETCH
                for e in range(0, whole, STRETCH):
                    for i in unroll(STRETCH // LANES):
                        store(wide + i * LANES, W(load(of + (e + i * LANES), LANES)))
                    for i in unroll(STRETCH):
                        one = joined(one, wide[i], TIMES)
                        wide[i] = one
                    for i in unroll(STRETCH // LANES):
                        store(to + (e + i * LANES), R.loaded(load(wide + i * LANES, LANES)))
            for e in range(whole, n):
                one = joined(one, W(of[e]), TIMES)
                to[e] = R.loaded(one)
    else:
        across = (inner + (LANES - 1)) // LANES
        for lo, hi in parallel(outer * across, rows_of(n * LANES)):
            for t in range(lo, hi):
                j = t % across * LANES
                at = t // across * n * inner + j
                sums = splat(W(1 if TIMES else 0), LANES)
                for i in range(n):
                    v = load_line(x + (at + i * inner), inner - j, LANES)
                    sums = joined(sums, W(v), TIMES)
                    store_line(out + (at + i * inner), R.loaded(sums), inner - j, LANES)


@inline
def replaces(v, top, LEAST):
    """Whether v is the extreme from here on: equal ones and NaN are."""
    return ((v <= top) if LEAST else (v >= top)) | (v != v)


@kernel
def running_extreme(LEAST, x: Ptr[T], out: Ptr[T], indices: Ptr[i64],
                    outer: i64, n: i64, inner: i64):  # fmt: skip
    """The largest (LEAST: smallest) element up to each index along n, and where it last was."""
    if inner == 1:
        groups = outer // TOGETHER
        for lo, hi in parallel(groups, rows_of(n * TOGETHER)):
            for t in range(lo, hi):
                p = x + t * TOGETHER * n
                q, w = out + t * TOGETHER * n, indices + t * TOGETHER * n
                top = [p[r * n] for r in range(TOGETHER)]
                at = [i64(0) for _ in range(TOGETHER)]
                first = i64(0)
                while first < n:
                    stop = min(first + STRETCH, n)
                    news = i64(0)
                    if stop - first == STRETCH:
                        for r in unroll(TOGETHER):
                            ahead = load(p + r * n + first, STRETCH)
                            news += i64(some(replaces(ahead, top[r], LEAST)))
                    else:
                        news = i64(1)
                    if news == 0:  # most stretches of a long row hold nothing new
                        for r in unroll(TOGETHER):
                            store(q + r * n + first, splat(top[r], STRETCH))
                            store(w + r * n + first, splat(at[r], STRETCH // 2))
                            store(w + r * n + first + STRETCH // 2, splat(at[r], STRETCH // 2))
                    else:
                        for i in range(first, stop):
                            for r in unroll(TOGETHER):
                                v = p[r * n + i]
                                new = replaces(v, top[r], LEAST)
                                top[r] = select(new, v, top[r])
                                at[r] = select(new, i, at[r])
                                q[r * n + i] = top[r]
                                w[r * n + i] = at[r]
                    first = stop
        for o in range(groups * TOGETHER, outer):
            of, to, which = x + o * n, out + o * n, indices + o * n
            best, index = of[0], i64(0)
            for e in range(n):
                u = of[e]
                later = replaces(u, best, LEAST)
                best = select(later, u, best)
                index = select(later, e, index)
                to[e] = best
                which[e] = index
    else:
        across = (inner + (LANES - 1)) // LANES
        for lo, hi in parallel(outer * across, rows_of(n * LANES)):
            for t in range(lo, hi):
                j = t % across * LANES
                base = t // across * n * inner + j
                tops, ats = load_line(x + base, inner - j, LANES), splat(i64(0), LANES)
                for i in range(n):
                    vs = load_line(x + (base + i * inner), inner - j, LANES)
                    news = replaces(vs, tops, LEAST)
                    tops = select(news, vs, tops)
                    ats = select(news, splat(i, LANES), ats)
                    store_line(out + (base + i * inner), tops, inner - j, LANES)
                    store_line(indices + (base + i * inner), ats, inner - j, LANES)


@kernel
def running_log(x: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64):
    """out[o, i, j] = log(exp(x[o, 0, j]) + ... + exp(x[o, i, j])), one step after the other in float64."""
    if inner == 1:
        groups = outer // LANES
        for lo, hi in parallel(groups, rows_of(n * LANES * TOGETHER)):
            tile = array(f64, STRETCH * LANES)  # column by column
            for t in range(lo, hi):
                p, q = x + t * LANES * n, out + t * LANES * n
                sums = splat(f64(float("-inf")), LANES)
                for first in range(0, n, STRETCH):
                    count = min(n - first, STRETCH)
                    for r in unroll(LANES):
                        for i in range(count):
                            tile[i * LANES + r] = f64(p[r * n + first + i])
                    for i in range(count):
                        sums = logaddexp(sums, load(tile + i * LANES, LANES))
                        store(tile + i * LANES, sums)
                    for r in unroll(LANES):
                        for i in range(count):
                            q[r * n + first + i] = T.loaded(tile[i * LANES + r])
        for lo, hi in parallel(outer - groups * LANES, rows_of(n * TOGETHER)):
            for r in range(groups * LANES + lo, groups * LANES + hi):
                one = f64(float("-inf"))
                for i in range(n):
                    one = logaddexp(one, f64(x[r * n + i]))
                    out[r * n + i] = T.loaded(one)
    else:
        across = (inner + (LANES - 1)) // LANES
        for lo, hi in parallel(outer * across, rows_of(n * LANES * TOGETHER)):
            for t in range(lo, hi):
                j = t % across * LANES
                here = iota(i64, LANES) < inner - j
                at = t // across * n * inner + j
                some = splat(f64(float("-inf")), LANES)
                for i in range(n):
                    some = logaddexp(some, f64(load(x + (at + i * inner), LANES, here)))
                    store(out + (at + i * inner), T.loaded(some), here)
