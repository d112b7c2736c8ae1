"""Fourier transforms of many lines side by side: every lane of a vector belongs to a line of its own.

A line has n complex numbers, n a product of 2, 3, 4, 5 and 7. For each of these factors there is one pass
over the numbers, from one buffer to another, which leaves them in order at the end (Stockham's algorithm:
Swarztrauber, "FFT algorithms for vector computers", Parallel Computing 1, 1984). Lines that lie one after the
other are transposed in registers when they are read and written.

A line of 2n real numbers is one of n complex ones, as in `fft.py`.
"""

from __future__ import annotations

from math import cos, pi, sin

from rushlight._codegen import product_sizes
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.fft import complex_at, four, pair, put, times, two
from rushlight._codegen.kernels.gemm import transposed
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64

FACTORS = (4, 2, 3, 5, 7)
MOST = 2048  # complex numbers in a line: both buffers lie on the stack


def lanes_of(t):
    """Lanes of a vector, and lines that are transformed together."""
    return product_sizes.gemm_sizes(t)["L"]


def turns(r, function, k):
    """The cosines or sines that a result of a transform of r numbers, an odd number, is summed with."""
    return [function(2 * pi * j * k / r) for j in range(1, r // 2 + 1)]


@inline
def weighted(first, a, weights, L, T):
    """first + the sum of complex numbers times real ones."""
    for j in unroll(len(a)):
        w = splat(T(weights[j]), L)
        first = (fma(a[j][0], w, first[0]), fma(a[j][1], w, first[1]))
    return first


@inline
def odd(a, r, L, T):
    """The transform of r numbers, an odd number: those of both ends have their sums and differences in common."""
    h, zero = r // 2, splat(T(0), L)
    s = [(a[j][0] + a[r - j][0], a[j][1] + a[r - j][1]) for j in range(1, h + 1)]
    d = [(a[j][0] - a[r - j][0], a[j][1] - a[r - j][1]) for j in range(1, h + 1)]
    even = [weighted(a[0], s, turns(r, cos, k), L, T) for k in range(h + 1)]
    odds = [weighted((zero, zero), d, turns(r, sin, k), L, T) for k in range(h + 1)]
    low = [(even[k][0] + odds[k][1], even[k][1] - odds[k][0]) for k in range(1, h + 1)]
    high = [(even[h - k][0] - odds[h - k][1], even[h - k][1] + odds[h - k][0]) for k in range(h)]
    return [even[0]] + low + high


@inline
def together(a, r, L, T):
    """The transform of r numbers."""
    return four(a) if r == 4 else two(a) if r == 2 else odd(a, r, L, T)


@inline
def one_pass(r, x, y, roots, m, s, L, T):
    """The factor r of r * m * s numbers, from x to y."""
    for p in range(m):
        u = roots + p * (2 * r - 2)
        w = [(splat(u[2 * k], L), splat(u[2 * k + 1], L)) for k in range(r - 1)]
        for q in range(s):
            a = [pair(x + (q + s * (p + m * k)) * (2 * L), L) for k in range(r)]
            b = together(a, r, L, T)
            to = y + (q + s * r * p) * (2 * L)
            store(to, b[0][0])
            store(to + L, b[0][1])
            for k in unroll(1, r):
                c = times(b[k], w[k - 1])
                at = to + k * s * (2 * L)
                store(at, c[0])
                store(at + L, c[1])


@routine(separate=True)
def passes(work: Ptr[T], roots: Ptr[T], factors: Ptr[i64], n: i64, T):
    """The transform of n numbers of each line. They stand in the first of two buffers if the number of
    factors, factors[0], is even, else in the second; the result stands in the first."""
    L = lanes_of(T)
    count, buffer = factors[0], n * (2 * L)
    m, s, w = n + 0, i64(1), roots + 0
    for f in range(count):
        r = factors[f + 1]
        m = m // r
        of = (count - f) % 2
        x, y = work + of * buffer, work + (1 - of) * buffer
        for R in unroll(FACTORS):
            if r == R:
                one_pass(R, x, y, w, m, s, L, T)
        s = s * r
        w = w + m * (2 * r - 2)


@inline
def read(x, step, work, n, sign, L):
    """n complex numbers of L lines, `step` real ones apart, one after the other, to lanes; imaginary parts
    times `sign`."""
    H = L // 2
    for first in range(0, n, H):
        k = min(first, n - H)
        v = transposed([load(x + (j * step + 2 * k), L) for j in range(L)], L)
        for i in unroll(H):
            store(work + (k + i) * (2 * L), v[2 * i])
            store(work + ((k + i) * (2 * L) + L), v[2 * i + 1] * splat(sign, L))


@inline
def write(out, step, work, n, scale, sign, L):
    """The other way round, times `scale`; imaginary parts also times `sign`."""
    H, real, imaginary = L // 2, splat(scale, L), splat(scale * sign, L)
    for first in range(0, n, H):
        k = min(first, n - H)
        v = [pair(work + (k + i) * (2 * L), L) for i in range(H)]
        turned = transposed(
            [v[i // 2][i % 2] * (imaginary if i % 2 else real) for i in range(L)], L
        )
        for j in unroll(L):
            store(out + (j * step + 2 * k), turned[j])


@kernel
def rows(
    x: Ptr[T], out: Ptr[T], roots: Ptr[T], factors: Ptr[i64], count: i64, n: i64, sign: T, scale: T
):
    """`count` lines of n complex numbers, at least as many as lanes, one after the other; backwards where
    `sign` is -1."""
    L = lanes_of(T)
    for lo, hi in parallel((count + (L - 1)) // L, rows_of(8 * L * n)):
        work = array(T, 4 * L * MOST)
        begin = work + factors[0] % 2 * n * (2 * L)
        for block in range(lo, hi):
            at = min(block * L, count - L) * 2 * n
            read(x + at, 2 * n, begin, n, sign, L)
            passes(work, roots, factors, n, T=T)
            write(out + at, 2 * n, work, n, scale, sign, L)


@kernel
def columns(x: Ptr[T], out: Ptr[T], roots: Ptr[T], factors: Ptr[i64], outer: i64, n: i64, inner: i64, sign: T,
            scale: T):  # fmt: skip
    """Lines of [outer, n, inner] complex numbers, inner at least as many as lanes."""
    L = lanes_of(T)
    wide = (inner + (L - 1)) // L
    for lo, hi in parallel(outer * wide, rows_of(8 * L * n)):
        work = array(T, 4 * L * MOST)
        begin = work + factors[0] % 2 * n * (2 * L)
        for block in range(lo, hi):
            at = (block // wide * n * inner + min(block % wide * L, inner - L)) * 2
            for k in range(n):
                v = complex_at(x + (at + k * inner * 2), L)
                store(begin + k * (2 * L), v[0])
                store(begin + (k * (2 * L) + L), v[1] * splat(sign, L))
            passes(work, roots, factors, n, T=T)
            for k in range(n):
                v = pair(work + k * (2 * L), L)
                put(
                    out + (at + k * inner * 2),
                    (v[0] * splat(scale, L), v[1] * splat(scale * sign, L)),
                    L,
                )


@inline
def halves_joined(BACK, of, to, w, n, L):
    """From the transforms of the n even and n odd numbers of real lines, which are those of real and imaginary
    parts, the n + 1 first numbers of their spectrum, doubled; BACK: the other way round."""
    for k in range(n // 2 + 1):
        a, far = pair(of + k * (2 * L), L), n - k
        if not BACK:
            far = far % n
        b = pair(of + far * (2 * L), L)
        u = (splat(w[2 * k], L), splat(w[2 * k + 1], L))
        even = a[0] + b[0], a[1] - b[1]
        if BACK:
            v = times((a[0] - b[0], a[1] + b[1]), (u[0], -u[1]))
            odds = 0 - v[1], v[0]
        else:
            odds = times((a[1] + b[1], b[0] - a[0]), u)
        store(to + k * (2 * L), even[0] + odds[0])
        store(to + (k * (2 * L) + L), even[1] + odds[1])
        if (not BACK) | (k > 0):
            store(to + (n - k) * (2 * L), even[0] - odds[0])
            store(to + ((n - k) * (2 * L) + L), odds[1] - even[1])


@kernel
def real_rows(x: Ptr[T], out: Ptr[T], roots: Ptr[T], factors: Ptr[i64], halves: Ptr[T], count: i64, n: i64,
              scale: T):  # fmt: skip
    """`count` lines of 2n real numbers to n + 1 complex ones."""
    L = lanes_of(T)
    for lo, hi in parallel((count + (L - 1)) // L, rows_of(8 * L * n)):
        work = array(T, 4 * L * MOST + 2 * L)
        begin, joined = work + factors[0] % 2 * n * (2 * L), work + n * (2 * L)
        for block in range(lo, hi):
            r = min(block * L, count - L)
            read(x + r * 2 * n, 2 * n, begin, n, T(1), L)
            passes(work, roots, factors, n, T=T)
            halves_joined(False, work, joined, halves, n, L)
            write(out + r * (2 * n + 2), 2 * n + 2, joined, n + 1, scale * T(0.5), T(1), L)


@kernel
def rows_to_real(x: Ptr[T], out: Ptr[T], roots: Ptr[T], factors: Ptr[i64], halves: Ptr[T], count: i64, n: i64,
                 scale: T):  # fmt: skip
    """The other way round; the imaginary parts of the first and last number of a line are left out."""
    L = lanes_of(T)
    for lo, hi in parallel((count + (L - 1)) // L, rows_of(8 * L * n)):
        work = array(T, 4 * L * MOST + 2 * L)
        of = factors[0] % 2
        begin, given = work + of * n * (2 * L), work + (1 - of) * n * (2 * L)
        for block in range(lo, hi):
            r = min(block * L, count - L)
            read(x + r * (2 * n + 2), 2 * n + 2, given, n + 1, T(1), L)
            store(given + L, splat(T(0), L))
            store(given + (n * (2 * L) + L), splat(T(0), L))
            halves_joined(True, given, begin, halves, n, L)
            for k in range(n):
                at = begin + (k * (2 * L) + L)
                store(at, -load(at, L))
            passes(work, roots, factors, n, T=T)
            write(out + r * 2 * n, 2 * n, work, n, scale, T(-1), L)
