"""Normalisation of channels: statistics, normalised values and gradients, in one kernel each.

Planes: [n, channels, size], a channel's numbers are n pieces of `size`; whoever has a channel goes over it
several times while it is in the cache. Rows: [rows, channels], as channels-last images and vectors are;
statistics of chunks of rows are joined in their order (Chan, Golub and LeVeque 1983).
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.elementwise import above, relu
from rushlight._codegen.kernels.header import in_order, size_of, writeable
from rushlight._codegen.kernels.rows import rows_in_chunk, rows_of
from rushlight._codegen.kernels.shape_inference import note
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import RUN
from rushlight._codegen.types import Header, Ptr, f64, i64, width

SIDE = 4  # vectors side by side
PARTS = 64  # chunks of rows at most: so many parts of each statistic are kept


@inline
def planes_totals(p, q, r, n, step, size, F, N, T):
    """The N sums of F(x, y, z) over n pieces of three arrays, `step` apart; those of pieces are added up."""
    L = width(T)
    R = T.loaded
    outer = [splat(R(0), L) for _ in range(N)]
    wide = size - size % (SIDE * L)
    for k in range(n):
        a, b, c = p + k * step, q + k * step, r + k * step
        sums = [[splat(R(0), L) for _ in range(SIDE)] for _ in range(N)]
        for i in range(0, wide, SIDE * L):
            for j in unroll(SIDE):
                at = i + j * L
                v = F(load(a + at, L), load(b + at, L), load(c + at, L))
                for s in unroll(N):
                    sums[s][j] = sums[s][j] + v[s]
        for i in range(wide, size - size % L, L):
            v = F(load(a + i, L), load(b + i, L), load(c + i, L))
            for s in unroll(N):
                sums[s][0] = sums[s][0] + v[s]
        left = size % L
        if left > 0:
            here = iota(i64, L) < left
            at = size - left
            v = F(load(a + at, L, here), load(b + at, L, here), load(c + at, L, here))
            for s in unroll(N):
                sums[s][1] = sums[s][1] + select(here, v[s], R(0))
        for s in unroll(N):
            outer[s] = outer[s] + ((sums[s][0] + sums[s][1]) + (sums[s][2] + sums[s][3]))
    return [total(outer[s]) for s in range(N)]


@inline
def products(g, x, y, RECTIFIED, R):
    """Vectors of gradients, and times x; RECTIFIED: 0 where y is not above 0."""
    t = select(y <= R(0), R(0), g) if RECTIFIED else g
    return [t, t * x]


@inline
def finished(v, z, i, ADDED, RECTIFIED):
    """A normalised number; ADDED: plus z[i]; RECTIFIED: or 0 if that is larger."""
    if ADDED:
        v = v + z[i]
    return relu(v) if RECTIFIED else v


@inline
def counted(g, y, i, RECTIFIED):
    """g[i]; RECTIFIED: or 0 where y[i] is not above 0."""
    return above(g[i], y[i], 0) if RECTIFIED else g[i]


@kernel
def planes_norm(
    WEIGHT, BIAS, ADDED, RECTIFIED, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], mean: Ptr[R],
    var: Ptr[R], z: Ptr[T], y: Ptr[T], n: i64, channels: i64, size: i64, eps: f64,
):  # fmt: skip
    """y = (x - mean) / sqrt(var + eps) * weight + bias by each channel's mean and variance, which are kept; ADDED: plus
    z; RECTIFIED: or 0 if that is larger."""
    count = R(n * size)
    step = channels * size
    for lo, hi in parallel(channels, rows_of(n * size)):
        for k in range(lo, hi):
            p = x + k * size
            m = planes_totals(p, p, p, n, step, size, lambda u, v, w: [u], 1, T)[0] / count
            s = planes_totals(p, p, p, n, step, size, lambda u, v, w: [(u - m) * (u - m)], 1, T)
            s = s[0] / count
            mean[k] = m
            var[k] = s
            a = 1 / sqrt(s + R(eps))
            if WEIGHT:
                a = a * weight[k]
            b = -m * a
            if BIAS:
                b = b + bias[k]
            for j in range(n):
                at, to = p + j * step, y + (k * size + j * step)
                plus = z + (k * size + j * step)
                for i in lanes(0, size):
                    to[i] = finished(at[i] * a + b, plus, i, ADDED, RECTIFIED)


@inline
def scale(weight, var, eps):
    """By what planes_scale multiplies."""
    return 1 / sqrt(var + eps) * weight


@inline
def shift(mean, by, bias):
    """What planes_scale adds."""
    return -mean * by + bias


@inline
def scaled(x, by, to):
    return x * by + to


@inline
def given_scale(WEIGHT, BIAS, weight, bias, mean, var, k, eps, R):
    """(a, b) of a * x + b, which normalises channel k by its mean and variance."""
    a = 1 / sqrt(R(var[k]) + R(eps))
    if WEIGHT:
        a = a * R(weight[k])
    b = -R(mean[k]) * a
    if BIAS:
        b = b + R(bias[k])
    return a, b


@kernel
def planes_scale(
    WEIGHT, BIAS, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], mean: Ptr[S], var: Ptr[S], y: Ptr[T],
    n: i64, channels: i64, size: i64, eps: f64,
):  # fmt: skip
    """As planes_norm, by mean and variance that are given."""
    R = T.loaded
    for lo, hi in parallel(n * channels, rows_of(size)):
        for r in range(lo, hi):
            k = r % channels
            a, b = given_scale(WEIGHT, BIAS, weight, bias, mean, var, k, eps, R)
            p, q = x + r * size, y + r * size
            for i in lanes(0, size):
                q[i] = p[i] * a + b


@kernel
def planes_backward(
    WEIGHT, TRAINING, SUMS, INPUT, RECTIFIED, g: Ptr[T], x: Ptr[T], weight: Ptr[W], mean: Ptr[S],
    var: Ptr[S], y: Ptr[T], gx: Ptr[T], gw: Ptr[W], gb: Ptr[W], n: i64, channels: i64, size: i64,
    eps: f64,
):  # fmt: skip
    """The gradients of both; SUMS: also those by weight and bias; RECTIFIED: g counts where y is above 0."""
    count = R(n * size)
    step = channels * size
    for lo, hi in parallel(channels, rows_of(n * size)):
        for k in range(lo, hi):
            p, h, q, z = x + k * size, g + k * size, gx + k * size, y + k * size
            m = R(mean[k])
            r = 1 / sqrt(R(var[k]) + R(eps))
            a = r
            if WEIGHT:
                a = a * R(weight[k])
            if SUMS or TRAINING:
                sums = planes_totals(h, p, z, n, step, size,
                                     lambda u, v, w: products(u, v - m, w, RECTIFIED, R), 2, T)  # fmt: skip
                b = sums[0]
                c = sums[1] * r
                gw[k] = c
                gb[k] = b
            if INPUT and TRAINING:
                u = -a * c * r / count
                v = -a * b / count - u * m
                for j in range(n):
                    at = j * step
                    for i in lanes(0, size):
                        q[at + i] = counted(h, z, at + i, RECTIFIED) * a + p[at + i] * u + v
            elif INPUT:
                for j in range(n):
                    at = j * step
                    for i in lanes(0, size):
                        q[at + i] = counted(h, z, at + i, RECTIFIED) * a


# -- rows of channels ------------------------------------------------------------------------------


@inline
def column_totals(p, q, z, rows, step, here, F, V, T):
    """For V vectors of neighbouring columns the sums of F(x, y, z, j) over rows; `here`: which lanes there are.

    Four rows at a time, where there is one vector, so that one sum need not wait for the other.
    """
    L = width(T)
    R = T.loaded
    K = SIDE // V
    sums = [splat(R(0), L) for _ in range(SIDE)]
    for i in range(0, rows - rows % K, K):
        for r in unroll(K):
            for j in unroll(V):
                at = (i + r) * step + j * L
                x, y = load(p + at, L, here[j]), load(q + at, L, here[j])
                sums[r * V + j] = sums[r * V + j] + F(x, y, load(z + at, L, here[j]), j)
    for i in range(rows - rows % K, rows):
        for j in unroll(V):
            at = i * step + j * L
            x, y = load(p + at, L, here[j]), load(q + at, L, here[j])
            sums[j] = sums[j] + F(x, y, load(z + at, L, here[j]), j)
    if V == 1:
        sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3])
    return [sums[j] for j in range(V)]


@inline
def strip_moments(p, rows, step, left, means, squares, V, T):
    """Means and sums of squared deviations of V vectors of columns, written to two rows."""
    L = width(T)
    here = [iota(i64, L) < left - j * L for j in range(V)]
    count = T.loaded(rows)
    m = column_totals(p, p, p, rows, step, here, lambda u, v, w, j: u, V, T)
    for j in unroll(V):
        m[j] = m[j] / count
        store(means + j * L, m[j], here[j])
    s = column_totals(p, p, p, rows, step, here, lambda u, v, w, j: (u - m[j]) * (u - m[j]), V, T)
    for j in unroll(V):
        store(squares + j * L, s[j], here[j])


@kernel
def rows_norm(
    WEIGHT, BIAS, ADDED, RECTIFIED, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], mean: Ptr[R],
    var: Ptr[R], z: Ptr[T], y: Ptr[T], parts: Ptr[R], rows: i64, channels: i64, eps: f64,
):  # fmt: skip
    """As planes_norm, of rows. `parts`: 2 * PARTS + 2 rows of numbers for its own use."""
    L = width(T)
    wide = SIDE * L
    grain = rows_in_chunk(rows, channels, PARTS)
    for lo, hi in parallel(rows, grain):
        means = parts + lo // grain * 2 * channels
        squares = means + channels
        first = x + lo * channels
        whole = channels - channels % wide
        for j in range(0, whole, wide):
            strip_moments(first + j, hi - lo, channels, i64(wide), means + j, squares + j, SIDE, T)
        for j in range(whole, channels, L):
            strip_moments(first + j, hi - lo, channels, channels - j, means + j, squares + j, 1, T)
    scale, shift = parts + 2 * PARTS * channels, parts + (2 * PARTS + 1) * channels
    chunks = (rows + (grain - 1)) // grain
    for j in range(0, channels, L):
        here = iota(i64, L) < channels - j
        m, s = splat(R(0), L), splat(R(0), L)
        for k in range(chunks):
            size = R(min(grain, rows - k * grain))
            m = m + load(parts + (2 * k * channels + j), L, here) * size
        m = m / R(rows)
        for k in range(chunks):
            size = R(min(grain, rows - k * grain))
            difference = load(parts + (2 * k * channels + j), L, here) - m
            s = s + (
                load(parts + ((2 * k + 1) * channels + j), L, here) + difference * difference * size
            )
        s = s / R(rows)
        store(mean + j, m, here)
        store(var + j, s, here)
        a = 1 / sqrt(s + R(eps))
        if WEIGHT:
            a = a * load(weight + j, L, here)
        b = -m * a
        if BIAS:
            b = b + load(bias + j, L, here)
        store(scale + j, a, here)
        store(shift + j, b, here)
    for lo, hi in parallel(rows, rows_of(channels)):
        for r in range(lo, hi):
            p, q, plus = x + r * channels, y + r * channels, z + r * channels
            for i in lanes(0, channels):
                q[i] = finished(p[i] * scale[i] + shift[i], plus, i, ADDED, RECTIFIED)


@kernel
def rows_scale(
    WEIGHT, BIAS, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], mean: Ptr[S], var: Ptr[S], y: Ptr[T],
    parts: Ptr[R], rows: i64, channels: i64, eps: f64,
):  # fmt: skip
    """As rows_norm, by mean and variance that are given. `parts`: two rows."""
    scale, shift = parts, parts + channels
    for j in lanes(0, channels):
        scale[j], shift[j] = given_scale(WEIGHT, BIAS, weight, bias, mean, var, j, eps, R)
    for lo, hi in parallel(rows, rows_of(channels)):
        for r in range(lo, hi):
            p, q = x + r * channels, y + r * channels
            for i in lanes(0, channels):
                q[i] = p[i] * scale[i] + shift[i]


@inline
def strip_sums(h, p, y, mean, rows, step, left, sums, slopes, RECTIFIED, V, T):
    """Sums of g and of g * (x - mean) of V vectors of columns, written to two rows; RECTIFIED as in `products`."""
    L = width(T)
    here = [iota(i64, L) < left - j * L for j in range(V)]
    m = [load(mean + j * L, L, here[j]) for j in range(V)]
    s = column_totals(h, p, y, rows, step, here,
                      lambda u, v, w, j: products(u, v, w, RECTIFIED, T.loaded)[0], V, T)  # fmt: skip
    for j in unroll(V):
        store(sums + j * L, s[j], here[j])
    s = column_totals(h, p, y, rows, step, here,
                      lambda u, v, w, j: products(u, v - m[j], w, RECTIFIED, T.loaded)[1], V, T)  # fmt: skip
    for j in unroll(V):
        store(slopes + j * L, s[j], here[j])


@kernel
def rows_backward(
    WEIGHT, TRAINING, SUMS, INPUT, RECTIFIED, g: Ptr[T], x: Ptr[T], weight: Ptr[W], mean: Ptr[S],
    var: Ptr[S], y: Ptr[T], gx: Ptr[T], gw: Ptr[W], gb: Ptr[W], parts: Ptr[R], rows: i64,
    channels: i64, eps: f64,
):  # fmt: skip
    """As planes_backward, of rows. `parts`: 2 * PARTS + 3 rows."""
    L = width(T)
    wide = SIDE * L
    grain = rows_in_chunk(rows, channels, PARTS)
    if SUMS or TRAINING:
        for lo, hi in parallel(rows, grain):
            sums = parts + lo // grain * 2 * channels
            slopes = sums + channels
            p, h, z = x + lo * channels, g + lo * channels, y + lo * channels
            whole = channels - channels % wide
            for j in range(0, whole, wide):
                strip_sums(h + j, p + j, z + j, mean + j, hi - lo, channels, i64(wide), sums + j,
                           slopes + j, RECTIFIED, SIDE, T)  # fmt: skip
            for j in range(whole, channels, L):
                strip_sums(h + j, p + j, z + j, mean + j, hi - lo, channels, channels - j, sums + j,
                           slopes + j, RECTIFIED, 1, T)  # fmt: skip
    first = parts + 2 * PARTS * channels
    second, third = first + channels, first + 2 * channels
    chunks = (rows + (grain - 1)) // grain
    for j in range(0, channels, L):
        here = iota(i64, L) < channels - j
        m = load(mean + j, L, here)
        r = 1 / sqrt(load(var + j, L, here) + R(eps))
        a = r
        if WEIGHT:
            a = a * load(weight + j, L, here)
        store(first + j, a, here)
        if SUMS or TRAINING:
            b, c = splat(R(0), L), splat(R(0), L)
            for k in range(chunks):
                b = b + load(parts + (2 * k * channels + j), L, here)
                c = c + load(parts + ((2 * k + 1) * channels + j), L, here)
            c = c * r
            store(gw + j, c, here)
            store(gb + j, b, here)
            u = -a * c * r / R(rows)
            store(second + j, u, here)
            store(third + j, -a * b / R(rows) - u * m, here)
    if INPUT:
        for lo, hi in parallel(rows, rows_of(channels)):
            for t in range(lo, hi):
                p, h, q = x + t * channels, g + t * channels, gx + t * channels
                z = y + t * channels
                for i in lanes(0, channels):
                    v = counted(h, z, i, RECTIFIED) * first[i]
                    if TRAINING:
                        v = v + p[i] * second[i] + third[i]
                    q[i] = v


@kernel
def infer_moved(
    running_mean: Header, running_var: Header, mean: Header, var: Header, by: f64, unbiased: f64,
    plan: Ptr[i64],
):  # fmt: skip
    """The plan of `moved`."""
    n = size_of(mean)
    fits = writeable(running_mean) & writeable(running_var)
    for a in unroll((running_mean, running_var, mean, var)):
        fits = fits & in_order(a) & (size_of(a) == n)
    note(plan, n, [n, bits(by, i64), bits(unbiased, i64)])
    plan[RUN] = i64(fits)


@kernel
def moved(
    running_mean: Ptr[S],
    running_var: Ptr[S],
    mean: Ptr[R],
    var: Ptr[R],
    n: i64,
    by: f64,
    unbiased: f64,
):
    """Running statistics move towards those of a batch by a share of the way."""
    stay, move, scaled = R(1.0 - by), R(by), R(by * unbiased)
    for i in lanes(0, n):
        running_mean[i] = R(running_mean[i]) * stay + mean[i] * move
        running_var[i] = R(running_var[i]) * stay + var[i] * scaled
