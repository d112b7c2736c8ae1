"""Random numbers from the Mersenne Twister (MT19937: Matsumoto and Nishimura, 1998).

The state is NumPy's own, by its address: 624 words of 32 bits and the place of the next one. Words
are made 624 at a time, sixteen side by side: word k depends on words k, k + 1 and k + 397 (which is
k - 227 of the new ones), so that vectors never meet their own results.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, bf16, f16, f32, f64, i32, i64, u32, u64
from rushlight.rng.box_muller import _COS, _LOG, _LOG2_HIGH, _LOG2_LOW, _QUARTER_PI, _SIN

N, M = 624, 397
L = 16
ROUNDED_UP = {bf16: 1 - 2.0**-9, f16: 1 - 2.0**-12}  # what is rounded to 1, and more
LOW_53 = (1 << 53) - 1

# -- words -----------------------------------------------------------------------------------------


@inline
def mixed(word, following, far):
    """The new word at k, of the old ones at k and k + 1 and the one at k + 397."""
    y = (word & 0x80000000) | (following & 0x7FFFFFFF)
    return far ^ (y >> 1) ^ ((0 - (y & 1)) & 0x9908B0DF)


@routine(separate=True)
def twist(key: Ptr[u32]):
    """The next 624 words in place of the last."""
    for k in range(0, N - M - L + 1, L):
        store(key + k, mixed(load(key + k, L), load(key + k + 1, L), load(key + k + M, L)))
    for k in range((N - M) // L * L, N - M):
        key[k] = mixed(key[k], key[k + 1], key[k + M])
    for k in range(N - M, N - L, L):
        store(key + k, mixed(load(key + k, L), load(key + k + 1, L), load(key + k - (N - M), L)))
    for k in range(N - M + (M - 1) // L * L, N - 1):
        key[k] = mixed(key[k], key[k + 1], key[k - (N - M)])
    key[N - 1] = mixed(key[N - 1], key[0], key[M - 1])


@inline
def tempered(word):
    a = word ^ (word >> 11)
    b = a ^ ((a << 7) & 0x9D2C5680)
    c = b ^ ((b << 15) & 0xEFC60000)
    return c ^ (c >> 18)


@inline
def each_word(state, n, F):
    """F(i, word) for the next n words."""
    key = bits(state, Ptr[u32])
    place = i64(key[N])
    i = i64(0)
    while i < n:
        if place == N:
            twist(key)
            place = i64(0)
        m = min(N - place, n - i)
        for j in lanes(0, m):
            F(i + j, tempered(key[place + j]))
        i += m
        place += m
    key[N] = u32(place)


@inline
def each_pair(state, n, F):
    """F(i, word) for the next n words of 64 bits, each made of two, the high one first."""
    key = bits(state, Ptr[u32])
    place = i64(key[N])
    buffer = array(u32, N + L)  # the words of a block, after the one left over from the last
    pairs = bits(buffer, Ptr[u64])
    left = i64(0)
    i = i64(0)
    while i < n:
        if place == N:
            twist(key)
            place = i64(0)
        m = min(N - place, 2 * (n - i) - left)
        for j in lanes(0, m):
            buffer[left + j] = tempered(key[place + j])
        place += m
        m += left
        for j in lanes(0, m >> 1):
            w = pairs[j]
            F(i + j, (w << 32) | (w >> 32))
        i += m >> 1
        left = m & 1
        if left > 0:
            buffer[0] = buffer[m - 1]
    key[N] = u32(place)


@kernel
def seeded(key: Ptr[u32], n: i64, seed: i64):
    """The words that a seed starts from: each of the one before it."""
    word = u32(seed)
    key[0] = word
    for i in range(1, n):
        word = (word ^ (word >> 30)) * 1812433253 + u32(i)
        key[i] = word


@kernel
def words(state: i64, out: Ptr[u64], n: i64):
    each_word(state, n, lambda i, w: store(out + i, u64(w)))


@kernel
def wide_words(state: i64, out: Ptr[u64], n: i64):
    each_pair(state, n, lambda i, w: store(out + i, w))


# -- uniform numbers -------------------------------------------------------------------------------


@inline
def unit(w):
    """The low 24 bits of 32, times 2**-24."""
    return f32(i32(w & 0xFFFFFF)) * 2.0**-24


@inline
def unit_wide(w):
    """The low 53 bits of 64, times 2**-53."""
    return f64(i64(w & LOW_53)) * 2.0**-53


@inline
def below_one(u, T):
    """0 where the half type T rounds a number to 1."""
    if T in ROUNDED_UP:
        return select(u < ROUNDED_UP[T], u, 0.0)
    else:
        return u


@kernel
def floats(state: i64, out: Ptr[T], n: i64):
    each_word(state, n, lambda i, w: store(out + i, below_one(unit(w), T)))


@kernel
def doubles(state: i64, out: Ptr[f64], n: i64):
    each_pair(state, n, lambda i, w: store(out + i, unit_wide(w)))


@inline
def between(u, width, low, high):
    """Where rounding gives `high` there stands `low`."""
    x = fma(u, width, low)
    return select(x == high, low, x)


@kernel
def floats_between(state: i64, out: Ptr[f32], n: i64, width: f32, low: f32, high: f32):
    each_word(state, n, lambda i, w: store(out + i, between(unit(w), width, low, high)))


@kernel
def doubles_between(state: i64, out: Ptr[f64], n: i64, width: f64, low: f64, high: f64):
    each_pair(state, n, lambda i, w: store(out + i, between(unit_wide(w), width, low, high)))


@kernel
def hits(state: i64, out: Ptr[T], n: i64, below: i64, value: f64):
    """`value` where the low 53 bits of 64 are less than `below`, else 0."""
    v = T.loaded(value)
    each_pair(
        state, n, lambda i, w: store(out + i, select(i64(w & LOW_53) < below, v, T.loaded(0)))
    )


# -- integers --------------------------------------------------------------------------------------


@inline
def remainder(w, span, inverse):
    """w % span by a quotient that may be one off; all products are exact."""
    wide = f64(w)
    r = fma(trunc(wide * inverse), 0 - span, wide)
    r = select(r < 0, r + span, r)
    return select(r >= span, r - span, r)


@kernel
def integers(state: i64, out: Ptr[i64], n: i64, low: i64, span: f64, inverse: f64):
    """low + word % span, for spans below 2**32."""
    each_word(state, n, lambda i, w: store(out + i, low + i64(remainder(w, span, inverse))))


@kernel
def order(state: i64, out: Ptr[i64], n: i64):
    """0 to n - 1 in Fisher and Yates' order: i changes places with i + word % (n - i)."""
    key = bits(state, Ptr[u32])
    place = i64(key[N])
    target = array(i64, N)
    for i in lanes(0, n):
        out[i] = i
    i = i64(0)
    while i < n - 1:
        if place == N:
            twist(key)
            place = i64(0)
        m = min(N - place, n - 1 - i)
        for j in lanes(0, m):
            w, left = f64(tempered(key[place + j])), f64(n - i - j)
            # A quotient of 32 bits by 32, rounded to 53, is never rounded up to an integer.
            target[j] = i + j + i64(fma(trunc(w / left), 0 - left, w))
        for j in range(m):
            here, there = out[i + j], out[target[j]]
            out[target[j]] = here
            out[i + j] = there
        i += m
        place += m
    key[N] = u32(place)


@kernel
def pairs_apart(x: Ptr[f64], rest: Ptr[f64], angle: Ptr[f64], n: i64):
    """Of uniform numbers, n pairs in blocks of 8 and 8: 1 less the first, 2 pi times the second."""
    for i in range(0, n, 8):
        store(rest + i, 1 - load(x + 2 * i, 8))
        store(angle + i, load(x + (2 * i + 8), 8) * TWO_PI)


@kernel
def pairs_together(log: Ptr[f64], cosine: Ptr[f64], sine: Ptr[f64], x: Ptr[f64], n: i64,
                   mean: f64, std: f64):  # fmt: skip
    """The blocks of normal numbers."""
    for i in range(0, n, 8):
        radius = sqrt(load(log + i, 8) * -2)
        store(x + 2 * i, fma(radius * load(cosine + i, 8), std, mean))
        store(x + (2 * i + 8), fma(radius * load(sine + i, 8), std, mean))


# -- normal numbers: see box_muller.py, whose operations these are, in its order -------------------


@inline
def log_of(u):
    """log(u) of u in (0, 1]."""
    raw = bits(u, i32)
    e = (raw >> 23) - 126
    x = bits((raw & 0x007FFFFF) | 0x3F000000, f32)
    low = x < 0.5**0.5
    e = select(low, e - 1, e)
    x = select(low, x + x, x) - 1
    z = x * x
    y = splat(f32(_LOG[0]), L)
    for c in unroll(_LOG[1:]):
        y = fma(y, x, c)
    y = y * x
    exponent = f32(e)
    y = fma(y, z, exponent * _LOG2_LOW)
    y = y - z * 0.5
    return fma(exponent, splat(f32(_LOG2_HIGH), L), x + y)


@inline
def cos_sin(angle):
    """cos(angle) and sin(angle) of an angle in [0, 2 pi]."""
    octant = (i32(angle * FOUR_BY_PI) + 1) & -2
    turns = f32(octant)
    x = angle
    for part in unroll(_QUARTER_PI):
        x = fma(turns, splat(f32(part), L), x)
    z = x * x
    sine, cosine = splat(f32(_SIN[0]), L), splat(f32(_COS[0]), L)
    for k in unroll((1, 2)):
        sine, cosine = fma(sine, z, _SIN[k]), fma(cosine, z, _COS[k])
    sine = fma(sine * z, x, x)
    cosine = fma(cosine * z, z, 0 - z * 0.5) + 1
    swap = (octant & 2) != 0
    c = select(swap, sine, cosine)
    s = select(swap, cosine, sine)
    s = select((octant & 4) != 0, -s, s)
    c = select(((octant + 2) & 4) != 0, -c, c)
    return c, s


@inline
def next_word(key):
    if key[N] == N:
        twist(key)
        key[N] = u32(0)
    place = key[N]
    key[N] = place + 1
    return tempered(key[place])


@inline
def next_wide(key):
    """A number in [0, 1) of 53 bits, of two words, the high one first."""
    high = u64(next_word(key))
    return unit_wide((high << 32) | u64(next_word(key)))


@kernel
def scalar_normals(
    LOG1P, COS, SIN, state: i64, out: Ptr[T], n: i64, mean: f64, std: f64, spare: Ptr[f64]
):
    """n > 0 normal numbers in pairs, the first of them spare[0] if spare[1] is not 0; what is left of the last
    pair is left there."""
    key = bits(state, Ptr[u32])
    i = i64(0)
    if spare[1] != 0:
        out[0] = T.loaded(fma(spare[0], std, mean))
        spare[1] = 0.0
        i = i64(1)
    while i < n:
        angle = next_wide(key) * TWO_PI
        radius = sqrt(LOG1P(-next_wide(key)) * -2)
        out[i] = T.loaded(fma(radius * COS(angle), std, mean))
        second = radius * SIN(angle)
        if i + 1 < n:
            out[i + 1] = T.loaded(fma(second, std, mean))
        else:
            spare[0] = second
            spare[1] = 1.0
        i += 2


FOUR_BY_PI = 4 / 3.141592653589793
TWO_PI = 2 * 3.141592653589793
FIRST, SECOND = (tuple(range(a, a + 8)) + tuple(range(a + 16, a + 24)) for a in (0, 8))


@kernel
def normals(x: Ptr[f32], n: i64, mean: f32, std: f32):
    """As `made_normal`."""
    made_normal(x, n, mean, std)


@kernel
def drawn_normals(state: i64, x: Ptr[f32], n: i64, mean: f32, std: f32):
    """n >= 16 normal numbers: those of n uniform ones in blocks of 16, where those that are left over,
    and as many before them as make 16, come of 16 more."""
    tail = array(f32, 16)
    each_word(state, n, lambda i, w: store(x + i, unit(w)))
    left = n % 16
    if left > 0:
        each_word(state, i64(16), lambda i, w: store(tail + i, unit(w)))
    made_normal(x, n - left, mean, std)
    if left > 0:
        made_normal(tail, i64(16), mean, std)
        store(x + (n - 16), load(tail, 16))


@routine
def made_normal(x: Ptr[f32], n: i64, mean: f32, std: f32):
    """Uniform numbers, blocks of 16, into normal ones: j and j + 8 of a block are a pair."""
    for lo, hi in parallel(n, 16384):
        for i in range(lo, hi, 2 * L):
            there = iota(i64, L) < hi - i - L
            a, b = load(x + i, L), load(x + i + L, L, there)
            radius = sqrt(log_of(1 - shuffle(a, b, FIRST)) * -2)
            c, s = cos_sin(shuffle(a, b, SECOND) * TWO_PI)
            c, s = fma(c * radius, std, mean), fma(s * radius, std, mean)
            store(x + i, shuffle(c, s, tuple(range(8)) + tuple(range(16, 24))))
            store(x + i + L, shuffle(c, s, tuple(range(8, 16)) + tuple(range(24, 32))), there)


# -- exponential numbers ---------------------------------------------------------------------------


@kernel
def exponentials(LOG1P, state: i64, out: Ptr[T], n: i64, scale: f64):
    """log(1 - u) * scale of n uniform numbers of 53 bits."""
    each_pair(state, n, lambda i, w: store(out + i, T(LOG1P(-unit_wide(w)) * scale)))


# -- Cauchy and geometric numbers, and slopes ------------------------------------------------------


@kernel
def cauchys(TAN, state: i64, out: Ptr[T], n: i64, median: f64, sigma: f64):
    """median + sigma tan(pi (u - 1/2)) of n uniform numbers of 53 bits."""
    each_pair(
        state, n,
        lambda i, w: store(out + i, T(fma(TAN((unit_wide(w) - 0.5) * (TWO_PI / 2)), sigma, median))),
    )  # fmt: skip


@kernel
def geometrics(LOG, state: i64, out: Ptr[T], n: i64, scale: f64):
    """log(u) / scale of n uniform numbers of 53 bits, rounded up."""
    each_pair(state, n, lambda i, w: store(out + i, T(ceil(LOG(unit_wide(w)) / scale))))


@kernel
def slopes(state: i64, x: Ptr[T], out: Ptr[R], n: i64, width: f64, low: f64):
    """1 for each element above 0; for the others in turn low + width * u, u of 53 bits, rounded twice."""
    key = bits(state, Ptr[u32])
    for i in range(n):
        slope = R(1)
        if x[i] <= 0:
            slope = R(next_wide(key) * width + low)
        out[i] = slope


# -- choices ---------------------------------------------------------------------------------------


@kernel
def check_weights(weights: Ptr[T], found: Ptr[i64], rows: i64, k: i64):
    """found[0] = 1 where a weight is negative, infinite or no number, found[1] = 1 where a row has none above 0."""
    for lo, hi in parallel(rows, rows_of(k)):
        for r in range(lo, hi):
            good, some = b1(True), b1(False)
            for j in range(r * k, r * k + k):
                w = weights[j]
                good = good & (w >= 0) & (w < float("inf"))
                some = some | (w > 0)
            if not good:
                found[0] = 1
            if not some:
                found[1] = 1


@kernel
def chosen(
    weights: Ptr[T], uniform: Ptr[f64], sums: Ptr[T], out: Ptr[i64], rows: i64, k: i64, n: i64
):
    """For n numbers of each row: the first place whose share of the sums from left to right reaches it."""
    for lo, hi in parallel(rows, rows_of(k + 16 * n)):
        for r in range(lo, hi):
            s = sums + r * k
            total = T(0)
            for j in range(k):
                total += weights[r * k + j]
                s[j] = total
            for j in lanes(0, k):
                s[j] = s[j] / total
            s[k - 1] = T(1)
            for i in range(r * n, r * n + n):
                low, high = i64(0), k - 1
                while low < high:
                    middle = (low + high) >> 1
                    if f64(s[middle]) < uniform[i]:
                        low = middle + 1
                    else:
                        high = middle
                out[i] = low
