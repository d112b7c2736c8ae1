"""Stable sorting of rows, and selection of one element of each, by keys (`keys.py`)."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import selection
from rushlight._codegen.kernels.keys import key, key_type, nan_key, rising
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.kernels.selection import quickselect, sort_unstably
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, bf16, f16, i32, i64, u64

DIGIT = 11  # bits in a pass of a radix sort
SHORT = 2048  # elements of a row that is put in order by one call, in memory of its own
RANKED = 256  # elements of a row up to which each one's rank is counted
BYTE = 256  # digits of a pass over a row that is longer
STABLE = selection.SHORT  # elements of a row that `mode` leaves in order where they are equal
PLACE = 0xFFFFFFFF  # the bits of a word that hold a place
UNUSED = {f16: 13, bf16: 16}  # the lowest bits of keys of half types, which are all alike


# -- short rows: in order by one call --------------------------------------------------------------


@inline
def ranked(keys, words, ranks, n, K):
    """words[i] = the place of the i-th in order: each key's rank is the number of those before it."""
    L = 64 // K.size
    for i in range(0, n, L):
        v, here = load(keys + i, L), iota(K, L) + K(i)
        rank = splat(K(0), L)
        for j in rounds(0, i, 4):
            rank = rank + select(splat(keys[j], L) <= v, splat(K(1), L), splat(K(0), L))
        for j in range(i, min(i + L, n)):
            k = splat(keys[j], L)
            less = (k < v) | ((k == v) & (splat(K(j), L) < here))
            rank = rank + select(less, splat(K(1), L), splat(K(0), L))
        for j in rounds(i + L, n, 4):
            rank = rank + select(splat(keys[j], L) < v, splat(K(1), L), splat(K(0), L))
        store(ranks + i, rank)
    for i in range(n):
        words[i64(ranks[i])] = u64(i)


@inline
def by_bytes(words, other, starts, n, span):
    """Sort by the bits above 32, of which the numbers in `span` are set, stable: the least byte first."""
    a, b = words + 0, other + 0
    down = u64(32)
    left = span + 0
    while left != 0:
        for i in lanes(0, BYTE):
            starts[i] = i32(0)
        for i in range(n):
            starts[i64((a[i] >> down) & (BYTE - 1))] += 1
        first = i64((a[0] >> down) & (BYTE - 1))
        if starts[first] != i32(n):
            before = i32(0)
            for i in range(BYTE):
                count = starts[i]
                starts[i] = before
                before += count
            for i in range(n):
                w = a[i]
                d = i64((w >> down) & (BYTE - 1))
                b[i64(starts[d])] = w
                starts[d] = starts[d] + 1
            a, b = b, a
        down += u64(8)
        left = left >> u64(8)
    if a != words:
        for i in lanes(0, n):
            words[i] = a[i]


@inline
def keys_of(p, step, n, flip, keys, K):
    """The keys of n elements, `step` apart; flip = -1: of descending order."""
    if step == 1:
        for i in lanes(0, n):
            keys[i] = rising(p[i], K) ^ K(flip)
    else:
        for i in range(n):
            keys[i] = rising(p[i * step], K) ^ K(flip)


@routine
def ordered(keys, n, words, other, ranks, starts, T, K):
    """words[i] & PLACE = the place of the i-th of n > 0 keys in order; equal ones as they stood."""
    if n <= RANKED:
        ranked(keys, words, ranks, n, K)
    else:
        low, high = keys[0], keys[0]
        for i in range(1, n):
            low, high = min(low, keys[i]), max(high, keys[i])
        drop = i64(UNUSED.get(T, 0))
        least = i64(low) >> drop
        span = u64((i64(high) >> drop) - least)
        for i in lanes(0, n):
            words[i] = (u64((i64(keys[i]) >> drop) - least) << u64(32)) | u64(i)
        by_bytes(words, other, starts, n, span & PLACE)
        upper = span >> u64(32)
        if upper != 0:
            for i in range(n):
                at = words[i] & PLACE
                words[i] = ((u64(i64(keys[i64(at)]) - least) >> u64(32)) << u64(32)) | at
            by_bytes(words, other, starts, n, upper)


@routine
def place_in_order(keys, n, which, words, starts, K):
    """The place of the key that is `which` in order: of those in doubt, all but one part of 256 are put
    aside until few are left."""
    for i in lanes(0, n):
        words[i] = u64(i)
    m, k, differ = n + 0, which + 0, b1(True)
    while (m > RANKED) & differ:
        low, high = keys[i64(words[0])], keys[i64(words[0])]
        for i in range(m):
            one = keys[i64(words[i])]
            low, high = min(low, one), max(high, one)
        differ = low != high
        if differ:
            least = i64(low)
            span, down = u64(i64(high) - least), u64(0)
            while (span >> down) >= BYTE:
                down += u64(1)
            for i in lanes(0, BYTE):
                starts[i] = i32(0)
            for i in range(m):
                starts[i64(u64(i64(keys[i64(words[i])]) - least) >> down)] += 1
            part = i64(0)
            while k >= i64(starts[part]):
                k -= i64(starts[part])
                part += 1
            left = i64(0)
            for i in range(m):
                at = words[i]
                words[left] = at
                left += i64((u64(i64(keys[i64(at)]) - least) >> down) == u64(part))
            m = left
    if differ:
        some_keys, order, ranks = array(K, RANKED + 64), array(u64, RANKED), array(K, RANKED + 64)
        for i in range(m):
            some_keys[i] = keys[i64(words[i])]
        ranked(some_keys, order, ranks, m, K)
        k = i64(order[k])
    words[0] = words[k]


@kernel
def sorted_rows(
    x: Ptr[T], out: Ptr[T], indices: Ptr[i64], outer: i64, n: i64, inner: i64, flip: i64
):
    """[outer, n <= SHORT, inner] in order along n, and where elements stood; flip: see `ordered`."""
    K = key_type(T)
    for lo, hi in parallel(outer * inner, rows_of(n * 8)):
        words, other, keys = array(u64, SHORT), array(u64, SHORT), array(K, SHORT + 64)
        ranks, starts = array(K, RANKED + 64), array(i32, BYTE)
        for r in range(lo, hi):
            at = r // inner * n * inner + r % inner
            p, q, w = x + at, out + at, indices + at
            keys_of(p, inner, n, flip, keys, K)
            ordered(keys, n, words, other, ranks, starts, T=T, K=K)
            for i in range(n):
                place = i64(words[i] & PLACE)
                q[i * inner] = p[place * inner]
                w[i * inner] = place


# What `chosen_rows` chooses in the place of the k-th element.
MEDIAN, MEDIAN_OF_NUMBERS, COMMONEST = -1, -2, -3


@inline
def commonest(p, step, words, n):
    """(Which in order is the last of the commonest value, the first of several; how many there are); NaN
    is like none."""
    best, length, most = i64(0), i64(0), i64(0)
    former = p[i64(words[0] & PLACE) * step]
    for i in range(n):
        v = p[i64(words[i] & PLACE) * step]
        length = length + 1 if v == former else i64(1)
        former = v
        if length > most:
            best, most = i, length
    return best, most


@inline
def like(keys, n, one):
    """How many of n keys are like one."""
    count = i64(0)
    for i in lanes(0, n):
        count += i64(keys[i] == one)
    return count


@routine
def sort_for_mode(keys, words, n, T, K):
    """words[i] = the place of the i-th of n keys as `mode` sorts them; the keys are sorted, too."""
    for i in lanes(0, n):
        words[i] = u64(i)
    sort_unstably(keys, words, n, nan_key(T, K))


@routine
def place_among_equals(keys, n, which, words):
    """Of several keys like that of words[0], the one that is `which` in order as `kthvalue` has it."""
    if like(keys, n, keys[i64(words[0])]) > 1:
        for i in lanes(0, n):
            words[i] = u64(i)
        quickselect(keys, words, n, which)
        words[0] = words[which]


@inline
def rank_of_choice(keys, n, k, T, K):
    """Which in order is chosen: the k-th, or the median, of all or of numbers; the first NaN of all with one."""
    m = n + 0
    if T.is_float and k < 0:
        for i in range(n):
            m -= i64(keys[i] == ((1 << (8 * K.size - 1)) - 1))
    which = k + 0
    if k < 0:
        which = max(m - 1, i64(0)) // 2 if (k == MEDIAN_OF_NUMBERS) | (m == n) else m
    return which


@kernel
def chosen_rows(x: Ptr[T], out: Ptr[T], indices: Ptr[i64], outer: i64, n: i64, inner: i64, k: i64):
    """Of [outer, n <= SHORT, inner] along n the k-th element, counted from 0, or what a negative k
    says, and where it stands: of equal ones the median is the first, the others are PyTorch's choice."""
    K = key_type(T)
    for lo, hi in parallel(outer * inner, rows_of(n * 8)):
        words, other, keys = array(u64, SHORT), array(u64, SHORT), array(K, SHORT + 64)
        ranks, starts = array(K, RANKED + 64), array(i32, BYTE)
        for r in range(lo, hi):
            p = x + (r // inner * n * inner + r % inner)
            keys_of(p, inner, n, i64(0), keys, K)
            which = i64(0)
            if k == COMMONEST:
                odd = i64(0)
                if T.is_float:
                    odd = like(keys, n, K(nan_key(T, K)))
                ordered(keys, n, words, other, ranks, starts, T=T, K=K)
                which, most = commonest(p, inner, words, n)
                if (odd > 0) | ((most > 1) & (n > STABLE)):
                    sort_for_mode(keys, words, n, T=T, K=K)
                    which, most = commonest(p, inner, words, n)
            else:
                place_in_order(keys, n, rank_of_choice(keys, n, k, T, K), words, starts, K=K)
                if k >= 0:
                    place_among_equals(keys, n, k, words)
            place = i64(words[which] & PLACE)
            out[r] = p[place * inner]
            indices[r] = place


@kernel
def chosen_of_many(x: Ptr[T], keys: Ptr[K], words: Ptr[u64], out: Ptr[T], indices: Ptr[i64],
                   outer: i64, n: i64, inner: i64, k: i64):  # fmt: skip
    """As `chosen_rows` of rows of any length; n keys and words are its own memory."""
    starts = array(i32, BYTE)
    for r in range(outer * inner):
        p = x + (r // inner * n * inner + r % inner)
        keys_of(p, inner, n, i64(0), keys, K)
        if k == COMMONEST:
            sort_for_mode(keys, words, n, T=T, K=K)
            which, _most = commonest(p, inner, words, n)
            words[0] = words[which]
        else:
            place_in_order(keys, n, rank_of_choice(keys, n, k, T, K), words, starts, K=K)
            if k >= 0:
                place_among_equals(keys, n, k, words)
        indices[r] = i64(words[0])
        out[r] = p[indices[r] * inner]


# -- sorting: keys and indices together in 64 bits --------------------------------------------------


@kernel
def packed(DOWN, x: Ptr[T], out: Ptr[u64], rows: i64, n: i64, least: i64, shift: i64, cut: i64):
    """(key - least) >> cut in the upper bits, the place in the lower `shift` ones."""
    K = key_type(T)
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, out + r * n
            for i in lanes(0, n):
                k = u64(i64(key(p[i], DOWN, K)) - least)
                q[i] = ((k >> u64(cut)) << u64(shift)) | u64(i)


@kernel
def unpacked(x: Ptr[T], keys: Ptr[u64], out: Ptr[T], indices: Ptr[i64],
             rows: i64, n: i64, k: i64, mask: u64):  # fmt: skip
    """The indices from the sorted keys [rows, k], and the elements of rows of n there."""
    for lo, hi in parallel(rows, rows_of(k)):
        for r in range(lo, hi):
            p, q = x + r * n, keys + r * k
            values, own = out + r * k, indices + r * k
            for i in range(k):
                at = i64(q[i] & mask)
                own[i] = at
                values[i] = p[at]


@kernel
def order_within_prefixes(
    DOWN, x: Ptr[T], keys: Ptr[u64], bad: Ptr[i64], rows: i64, n: i64, shift: i64, far: i64
):
    """Bring elements with the same upper bits of their keys into the order of their whole keys; bad[0]
    = 1 where one would have to go further than `far`."""
    K = key_type(T)
    mask = (u64(1) << u64(shift)) - 1
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, keys + r * n
            for i in range(1, n):
                word = q[i]
                if (q[i - 1] ^ word) <= mask:
                    own = key(p[i64(word & mask)], DOWN, K)
                    j = i + 0
                    more = b1(True)
                    while more:
                        before = q[j - 1]
                        more = (before ^ word) <= mask
                        if more:
                            more = key(p[i64(before & mask)], DOWN, K) > own
                        if more:
                            q[j] = before
                            j -= 1
                            more = (j > 0) & (i - j < far)
                    if i - j >= far:
                        bad[0] = 1
                    q[j] = word


@kernel
def by_digits(keys: Ptr[u64], other: Ptr[u64], rows: i64, n: i64, shift: i64, passes: i64):
    """Sort rows by `passes` digits from bit `shift` on, stable: the least digit first. An odd number
    of passes leaves the result in `other`."""
    SIZE = 1 << DIGIT
    for lo, hi in parallel(rows, rows_of(n)):
        starts = array(i64, 1 << DIGIT)
        for r in range(lo, hi):
            a, b = keys + r * n, other + r * n
            down = u64(shift)
            for _ in range(passes):
                for i in lanes(0, SIZE):
                    starts[i] = i64(0)
                for i in range(n):
                    starts[i64((a[i] >> down) & (SIZE - 1))] += 1
                total = i64(0)
                for i in range(SIZE):
                    count = starts[i]
                    starts[i] = total
                    total += count
                for i in range(n):
                    w = a[i]
                    d = i64((w >> down) & (SIZE - 1))
                    b[starts[d]] = w
                    starts[d] = starts[d] + 1
                a, b = b, a
                down += u64(DIGIT)


# -- searching -------------------------------------------------------------------------------------

SEARCHES = 8  # lanes of a vector of searches
SIDE = 4  # vectors side by side


@inline
def comes_after(u, v, RIGHT):
    """Whether v comes behind u, which it is compared with."""
    return ((u <= v) if RIGHT else (u < v)) | (v != v)


@kernel
def search(RIGHT, seq: Ptr[T], x: Ptr[T], out: Ptr[R], wrong: Ptr[i64], rows: i64, n: i64, m: i64,
           step: i64):  # fmt: skip
    """Where each of the m elements of a row goes into the row of n > 0 sorted ones: before (RIGHT:
    behind) equal ones; NaN goes to the end. `step`: from one sorted row to the next. Sorted ones that are NaN
    are told, and nothing is looked up.

    Vectors, since LLVM makes branches of numbers that are chosen, and nobody can predict them.
    """
    if T.is_float:
        odd = i64(0)
        for i in lanes(0, n if step == 0 else rows * n):
            odd += i64(seq[i] != seq[i])
        if odd > 0:
            wrong[0] = 1
    if wrong[0] == 0:
        L = SEARCHES
        across = (m + (SIDE * L - 1)) // (SIDE * L)
        for lo, hi in parallel(rows * across, 64):
            for c in range(lo, hi):
                r, first = c // across, c % across * (SIDE * L)
                p, q, w = x + (r * m + first), seq + r * step, out + (r * m + first)
                here = [iota(i64, L) < m - first - k * L for k in range(SIDE)]
                v = [load(p + k * L, L, here[k]) for k in range(SIDE)]
                base = [splat(i64(0), L) for _ in range(SIDE)]
                left = n + 0
                while left > 1:
                    half = left // 2
                    for k in unroll(SIDE):
                        up = comes_after(gather(q + (half - 1), base[k]), v[k], RIGHT)
                        base[k] = select(up, base[k] + half, base[k])
                    left -= half
                for k in unroll(SIDE):
                    up = comes_after(gather(q, base[k]), v[k], RIGHT)
                    store(w + k * L, R(select(up, base[k] + 1, base[k])), here[k])


@kernel
def among(INVERT, x: Ptr[T], tests: Ptr[T], out: Ptr[b1], n: i64, k: i64):
    """Whether each of n elements is one of k others; INVERT: is none of them."""
    L = 64 // T.loaded.size
    for lo, hi in parallel(n, 4096):
        for i in range(lo, hi, L):
            here = iota(i64, L) < hi - i
            v = load(x + i, L, here)
            found = splat(b1(False), L)
            for j in range(k):
                found = found | (v == tests[j])
            if INVERT:
                found = found ^ splat(b1(True), L)
            store(out + i, found, here)


# -- runs of equal elements ------------------------------------------------------------------------

STRETCH = 8192  # elements that are looked at together


@kernel
def runs_counted(x: Ptr[T], found: Ptr[i64], n: i64):
    """found[k] = how many of the k-th STRETCH elements differ from the one before; the first does."""
    I = i64 if T.loaded.size == 8 else i32
    L = 64 // I.size
    for lo, hi in parallel(n, STRETCH):
        some_new = splat(I(0), L)
        start = max(lo, i64(1))
        for i in range(start, hi, L):
            here = iota(i64, L) < hi - i
            differ = (load(x + i, L, here) != load(x + (i - 1), L, here)) & here
            some_new = some_new + select(differ, splat(I(1), L), splat(I(0), L))
        found[lo // STRETCH] = i64(total(some_new)) + (i64(1) if lo == 0 else i64(0))


@kernel
def runs_placed(INDICES, LENGTHS, x: Ptr[T], order: Ptr[i64], before: Ptr[i64], values: Ptr[T], starts: Ptr[i64],
                inverse: Ptr[i64], n: i64):  # fmt: skip
    """The first element of each run; LENGTHS: where it stands; INDICES: for each element, order[i] of the
    elements as they stood, its run. before[k]: runs that begin before the k-th STRETCH, afterwards before its
    end."""
    I = i64 if T.loaded.size == 8 else i32
    L = 64 // I.size
    for lo, hi in parallel(n, STRETCH):
        r = before[lo // STRETCH]
        for part in range(lo, hi, L):
            end = min(part + L, hi)
            some = b1(True)
            if not INDICES:
                if part > 0 and part + L <= hi:
                    differ = load(x + part, L) != load(x + (part - 1), L)
                    some = total(select(differ, splat(I(1), L), splat(I(0), L))) > 0
            if some:
                for i in range(part, end):
                    new = b1(True)
                    if i > 0:
                        new = x[i] != x[i - 1]
                    if new:
                        values[r] = x[i]
                        if LENGTHS:
                            starts[r] = i
                        r += 1
                    if INDICES:
                        inverse[order[i]] = r - 1
        before[lo // STRETCH] = r
