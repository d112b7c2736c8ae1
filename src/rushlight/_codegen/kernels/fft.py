"""Fourier transforms of rows whose length is a power of two.

A row of N = M * L complex numbers is a matrix of M rows of L lanes. First its columns are transformed,
in place, by steps of radix 4, every number of the usual algorithm being a vector; what comes out stands
in the order of reversed digits. Then L rows at a time are multiplied by the roots of unity between both
parts, transposed in registers, and transformed across registers, which yields results in order.

A transform of 2N real numbers is one of N complex ones, which lie in memory as they do, and a step
before or after it that takes the two halves of a spectrum together.

A transform of a few points is a product with the matrix of its roots of unity, for any number of points in one
or two dimensions, from real or complex numbers to real or complex ones.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import transposed
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.kernels.shape_inference import dims_of, note, shape_of, strides_of
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NDIM, RUN, SHAPE
from rushlight._codegen.types import Header, Ptr, i64, width

MOST = 8192  # complex numbers in a row: what is computed in between lies on the stack
HALF_ROOT = 0.5**0.5
COS, SIN = 0.92387953251128675613, 0.38268343236508977173  # of an eighth of pi
SIXTEENTHS = (  # exp(-2 pi i k / 16)
    (1.0, 0.0), (COS, -SIN), (HALF_ROOT, -HALF_ROOT), (SIN, -COS), (0.0, -1.0),
    (-SIN, -COS), (-HALF_ROOT, -HALF_ROOT), (-COS, -SIN), (-1.0, 0.0), (-COS, SIN),
)  # fmt: skip


def picked(first, L):
    """The lanes of every other number of two vectors."""
    return tuple(range(first, 2 * L, 2))


def alternating(half, L):
    """The lanes of one half of two vectors, in turns."""
    start = half * L // 2
    return tuple(start + i // 2 + i % 2 * L for i in range(L))


def backwards(L):
    return tuple(range(L - 1, -1, -1))


@inline
def times(a, w):
    """The product of two complex numbers (real, imaginary)."""
    return fma(a[0], w[0], -(a[1] * w[1])), fma(a[0], w[1], a[1] * w[0])


@inline
def four(a):
    """The transform of four numbers."""
    s = [(a[k][0] + a[k + 2][0], a[k][1] + a[k + 2][1]) for k in range(2)]
    d = [(a[k][0] - a[k + 2][0], a[k][1] - a[k + 2][1]) for k in range(2)]
    return [
        (s[0][0] + s[1][0], s[0][1] + s[1][1]),
        (d[0][0] + d[1][1], d[0][1] - d[1][0]),
        (s[0][0] - s[1][0], s[0][1] - s[1][1]),
        (d[0][0] - d[1][1], d[0][1] + d[1][0]),
    ]


@inline
def two(a):
    """The transform of two numbers."""
    return [(a[0][0] + a[1][0], a[0][1] + a[1][1]), (a[0][0] - a[1][0], a[0][1] - a[1][1])]


@inline
def complex_at(p, L):
    """L complex numbers of memory."""
    a, b = load(p, L), load(p + L, L)
    return shuffle(a, b, picked(0, L)), shuffle(a, b, picked(1, L))


@inline
def put(p, v, L):
    """L complex numbers to memory."""
    store(p, shuffle(v[0], v[1], alternating(0, L)))
    store(p + L, shuffle(v[0], v[1], alternating(1, L)))


@inline
def reversed_lanes(v, L):
    """The numbers in reverse order."""
    return shuffle(v[0], v[0], backwards(L)), shuffle(v[1], v[1], backwards(L))


@inline
def pair(p, L):
    """Real and imaginary parts that lie behind one another."""
    return load(p, L), load(p + L, L)


@inline
def rotated(a, k, L, T):
    """a * exp(-2 pi i k / 16)."""
    return times(a, (splat(T(SIXTEENTHS[k][0]), L), splat(T(SIXTEENTHS[k][1]), L))) if k else a


@inline
def across(a, L, T):
    """The transform of L vectors of numbers, across them."""
    B = L // 4
    parts = [four([a[B * n + k] for n in range(4)]) for k in range(B)]
    done = [[rotated(parts[j][k], j * k * 16 // L, L, T) for j in range(B)] for k in range(4)]
    done = [four(done[k]) if B == 4 else two(done[k]) for k in range(4)]
    return [done[k % 4][k // 4] for k in range(L)]


@inline
def step(x, work, u, base, q, sign, L):
    """Rows base, base + q, base + 2q, base + 3q taken together; they come from x where there is one."""
    at = [(base + k * q) * (2 * L) for k in range(4)]
    if x is None:
        a = [pair(work + at[k], L) for k in range(4)]
    else:
        read = [complex_at(x + at[k], L) for k in range(4)]
        a = [(read[k][0], read[k][1] * sign) for k in range(4)]
    b = four(a)
    store(work + at[0], b[0][0])
    store(work + at[0] + L, b[0][1])
    for k in unroll(1, 4):
        c = times(b[k], (splat(u[2 * k - 2], L), splat(u[2 * k - 1], L)))
        store(work + at[k], c[0])
        store(work + at[k] + L, c[1])


@inline
def columns(x, work, roots, M, sign, L):
    """The columns of M rows transformed, from x to `work`."""
    span = M // 4
    for i in range(span):
        step(x, work, roots + 6 * i, i, span, sign, L)
    w = roots + 6 * span
    while span >= 4:
        q = span // 4
        for block in range(M // span):
            for j in range(q):
                step(None, work, w + 6 * j, block * span + j, q, sign, L)
        w = w + 6 * q
        span = q
    if span == 2:
        for block in range(M // 2):
            at = work + block * (4 * L)
            b = two([pair(at, L), pair(at + 2 * L, L)])
            for k in unroll(2):
                store(at + 2 * L * k, b[k][0])
                store(at + (2 * L * k + L), b[k][1])


@routine(separate=True)
def line(x: Ptr[T], out: Ptr[T], work: Ptr[T], roots: Ptr[T], between: Ptr[T], order: Ptr[i64],
         M: i64, sign: T, scale: T, T):  # fmt: skip
    """A row of M * L complex numbers transformed, times `scale`; backwards where `sign` is -1."""
    L = width(T)
    columns(x, work, roots, M, sign, L)
    for k in range(0, M, L):
        a = [times(pair(work + order[k + i] * (2 * L), L), pair(between + (k + i) * (2 * L), L))
             for i in range(L)]  # fmt: skip
        re = transposed([a[i][0] for i in range(L)], L)
        im = transposed([a[i][1] for i in range(L)], L)
        b = across([(re[i], im[i]) for i in range(L)], L, T)
        for i in unroll(L):
            put(out + 2 * (k + i * M), (b[i][0] * scale, b[i][1] * (scale * sign)), L)


@kernel
def fft_rows(x: Ptr[T], out: Ptr[T], roots: Ptr[T], between: Ptr[T], order: Ptr[i64],
             rows: i64, n: i64, sign: T, scale: T):  # fmt: skip
    """Rows of n complex numbers; backwards where `sign` is -1."""
    for lo, hi in parallel(rows, rows_of(n)):
        work = array(T, 2 * MOST)
        for r in range(lo, hi):
            at = r * (2 * n)
            line(x + at, out + at, work, roots, between, order, n // width(T), sign, scale, T=T)


@kernel
def rfft_rows(x: Ptr[T], out: Ptr[T], roots: Ptr[T], between: Ptr[T], order: Ptr[i64], halves: Ptr[T],
              rows: i64, n: i64, scale: T):  # fmt: skip
    """Rows of 2n real numbers to the n + 1 complex numbers of half a spectrum."""
    L = width(T)
    for lo, hi in parallel(rows, rows_of(n)):
        work = array(T, 2 * MOST)
        for r in range(lo, hi):
            to = out + r * (2 * n + 2)
            line(
                x + r * (2 * n), to, work, roots, between, order, n // L, T(1), scale * T(0.5), T=T
            )
            first, second = to[0], to[1]  # of which both ends are made, apart from the others
            for k in range(0, n // 2, L):
                near, far = to + 2 * k, to + 2 * (n - k - L + 1)
                a, b = complex_at(near, L), reversed_lanes(complex_at(far, L), L)
                even = a[0] + b[0], a[1] - b[1]
                odd = times((a[1] + b[1], b[0] - a[0]), pair(halves + 2 * k, L))
                put(near, (even[0] + odd[0], even[1] + odd[1]), L)
                put(far, reversed_lanes((even[0] - odd[0], odd[1] - even[1]), L), L)
            to[n] = to[n] * 2
            to[n + 1] = to[n + 1] * T(-2)
            to[0] = (first + second) * 2
            to[1] = T(0)
            to[2 * n] = (first - second) * 2
            to[2 * n + 1] = T(0)


@kernel
def irfft_rows(x: Ptr[T], out: Ptr[T], roots: Ptr[T], between: Ptr[T], order: Ptr[i64], halves: Ptr[T],
               rows: i64, n: i64, scale: T):  # fmt: skip
    """The other way round; the imaginary parts of the first and last number of a row are left out."""
    L = width(T)
    for lo, hi in parallel(rows, rows_of(n)):
        work = array(T, 2 * MOST)
        for r in range(lo, hi):
            of, to = x + r * (2 * n + 2), out + r * (2 * n)
            for k in range(0, n // 2, L):
                a = complex_at(of + 2 * k, L)
                b = reversed_lanes(complex_at(of + 2 * (n - k - L + 1), L), L)
                w = pair(halves + 2 * k, L)
                even = a[0] + b[0], a[1] - b[1]
                odd = times((a[0] - b[0], a[1] + b[1]), (w[0], -w[1]))
                put(to + 2 * k, (even[0] - odd[1], even[1] + odd[0]), L)
                c = reversed_lanes((even[0] + odd[1], odd[0] - even[1]), L)
                far = to + 2 * (n - k - L + 1)
                store(far, shuffle(c[0], c[1], alternating(0, L)))
                here = iota(i64, L) < select(k == 0, i64(L - 2), i64(L))
                store(far + L, shuffle(c[0], c[1], alternating(1, L)), here)
            to[n] = of[n] * 2
            to[n + 1] = of[n + 1] * T(-2)
            to[0] = of[0] + of[2 * n]
            to[1] = of[0] - of[2 * n]
            line(to, to, work, roots, between, order, n // L, T(-1), scale, T=T)


TOGETHER = 8  # lines whose sums run side by side


@kernel
def few_points_result(REAL, a: Header, w: Header, count: i64, n: i64, p: i64, plan: Ptr[i64]):
    """The plan of `few_points` along the last `count` dimensions, 1 or 2, of `a`, of parts of REAL bytes;
    the last dimension gets n numbers, and a line p real ones."""
    nd, shape, strides = dims_of(a), shape_of(a), strides_of(a)
    sizes, steps = array(i64, 4), array(i64, 4)
    for k in unroll(4):
        sizes[k] = 1
        steps[k] = 0
    held, lines = i64(0), i64(1)
    for k in range(nd - count):
        d = nd - count - 1 - k
        lines = lines * shape[d]
        if (held > 0) & (strides[d] == sizes[max(held - 1, i64(0))] * steps[max(held - 1, i64(0))]):
            sizes[held - 1] = sizes[held - 1] * shape[d]
        elif shape[d] != 1:
            sizes[min(held, i64(3))] = shape[d]
            steps[min(held, i64(3))] = strides[d]
            held += 1
    m, s = i64(1), i64(0)
    plan[NDIM] = nd
    for d in range(min(nd, i64(DIMS))):
        plan[SHAPE + d] = shape[d]
    if count == 2:
        m, s = shape[nd - 2], strides[nd - 2]
    plan[SHAPE + min(nd, i64(DIMS)) - 1] = n
    plan[RUN] = i64((held <= 3) & (nd <= DIMS))
    points = shape[nd - 1]
    sizes_of_lines = [sizes[k] for k in range(3)]
    steps_of_lines = [steps[k] // REAL for k in range(3)]
    inside = [m, s // REAL, points, strides[nd - 1] // REAL, p]
    note(plan, lines * m * points * p, sizes_of_lines + steps_of_lines + inside)


@kernel
def few_points(PARTS, x: Ptr[T], w: Ptr[T], out: Ptr[T], n0: i64, n1: i64, n2: i64, t0: i64, t1: i64, t2: i64,
               m: i64, s: i64, points: i64, step: i64, p: i64):  # fmt: skip
    """n2 * n1 * n0 lines of m * points numbers times the matrix w: p real numbers of each.

    What is multiplied by 0 does not count, even if it is infinite.
    """
    L = width(T)
    wide = (p + (L - 1)) // L
    blocks = (n0 + (TOGETHER - 1)) // TOGETHER
    for lo, hi in parallel(n2 * n1 * blocks, rows_of(TOGETHER * m * points * p)):
        for block in range(lo, hi):
            r, i = block // blocks, block % blocks * TOGETHER
            a, to = x + (r // n1 * t2 + r % n1 * t1), out + r * n0 * p
            line = [
                min(i + k, n0 - 1) for k in range(TOGETHER)
            ]  # the last one again where no more is left
            at = [line[k] * t0 for k in range(TOGETHER)]
            for v in range(wide):
                u = w + v * L
                sums = [splat(T(0), L) for k in range(TOGETHER)]
                for j in range(m):
                    for h in range(points):
                        b = a + (j * s + h * step)
                        for c in unroll(PARTS):
                            weights = load(u, L)
                            counts = weights != splat(T(0), L)
                            for k in unroll(TOGETHER):
                                more = fma(splat(b[at[k] + c], L), weights, sums[k])
                                sums[k] = select(counts, more, sums[k])
                            u = u + wide * L
                here = iota(i64, L) < p - v * L
                for k in unroll(TOGETHER):
                    store(to + (line[k] * p + v * L), sums[k], here)
