"""The largest elements of rows, in order, by keys (`keys.py`)."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.keys import key_type, rising
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.kernels.selection import (
    HEAPED,
    from_heap,
    make_heap,
    partition,
    sink,
    sort_unstably,
)
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64

MOST = 64  # of so many, the largest are kept in order while a row is read


@inline
def put(keys, order, k, index, last):
    """Put a key into its place among keys 1 to last, the largest first, over the last one; keys[0] is
    not below any."""
    p = last + 0
    while keys[p - 1] < k:
        keys[p] = keys[p - 1]
        order[p] = order[p - 1]
        p -= 1
    keys[p] = k
    order[p] = index


@routine
def first_ones(p, n, k, flip, ordered, keys, order, K):
    """order[:k] = those of the k elements of a row with the largest keys (flip = -1: the smallest), as
    PyTorch's algorithms leave them; ordered = 0: in whatever order. Memory for n keys and indices, or for
    k where a heap selects.
    """
    few = k * HEAPED <= n
    m = k if few else n
    for i in range(m):
        keys[i] = rising(p[i], K) ^ K(-1 - flip)
        order[i] = i
    if few:
        make_heap(keys, order, k, None)
        for i in range(k, n):
            v = rising(p[i], K) ^ K(-1 - flip)
            if v < keys[0]:
                sink(keys, order, i64(0), k, v, i, None)
        from_heap(keys, order, k, None)
    else:
        partition(keys, order, n, k - 1)
        if ordered != 0:
            sort_unstably(keys, order, k - 1, None)


@kernel
def first_few(x: Ptr[T], out: Ptr[T], indices: Ptr[i64], rows: i64, n: i64, k: i64, flip: i64,
              ordered: i64):  # fmt: skip
    """The k <= MOST elements of each row with the largest keys (flip = -1: the smallest), in order; see
    `first_ones`, which is asked where equal elements leave a choice.

    Of the largest keys of MOST parts of a long row, the k-th is a bound: k elements at least are not
    below it, and not many more.
    """
    K = key_type(T)
    L = 64 // K.size
    W = MOST // L
    least = -(1 << (8 * K.size - 1))
    for lo, hi in parallel(rows, rows_of(n)):
        keys, order = array(K, MOST + 1), array(i64, MOST + 1)
        some_keys = array(K, MOST)
        all_keys, all_places = array(K, MOST * HEAPED), array(i64, MOST * HEAPED)
        for r in range(lo, hi):
            p = x + r * n
            left_out = K(least)  # the last key that was left out when the k-th was like it
            keys[0] = (1 << (8 * K.size - 1)) - 1
            for i in range(1, k + 1):
                keys[i] = least
            start = i64(0)
            if n >= 4 * MOST:
                best = [splat(K(least), L) for _ in range(W)]
                for i in range(0, n - n % MOST, MOST):
                    for w in unroll(W):
                        v = rising(load(p + (i + w * L), L), K) ^ K(flip)
                        best[w] = select(v > best[w], v, best[w])
                for w in unroll(W):
                    store(some_keys + w * L, best[w])
                for j in range(MOST):
                    if some_keys[j] > keys[k]:
                        put(keys, order, some_keys[j], i64(0), k)
            if keys[k] > least:
                bound = keys[k] - 1
                for i in range(1, k + 1):
                    keys[i] = bound
            else:
                for i in range(k):
                    put(keys, order, rising(p[i], K) ^ K(flip), i, i + 1)
                start = k
            for i in range(start, n, L):
                here = iota(i64, L) < n - i
                v = rising(load(p + i, L, here), K) ^ K(flip)
                bound = keys[k]
                if some((v >= bound) & here):
                    store(some_keys, v)
                    for j in range(min(n - i, i64(L))):
                        former = keys[k]
                        if some_keys[j] > former:
                            put(keys, order, some_keys[j], i + j, k)
                        if (former == keys[k]) & (some_keys[j] >= former):
                            left_out = former
            choice = (left_out == keys[k]) | ((ordered == 0) & (k * HEAPED > n))
            for i in range(1, k):
                choice = choice | (keys[i] == keys[i + 1])
            found = order + 1
            if choice:
                first_ones(p, n, k, flip, ordered, all_keys, all_places, K=K)
                found = all_places + 0
            for i in range(k):
                out[r * k + i] = p[found[i]]
                indices[r * k + i] = found[i]


@kernel
def first_of_some(x: Ptr[T], which: Ptr[i64], out: Ptr[T], indices: Ptr[i64], keys: Ptr[K],
                  order: Ptr[i64], rows: i64, n: i64, k: i64, flip: i64, ordered: i64):  # fmt: skip
    """`first_ones` of the rows that are named; keys and order are its own memory, for each of them."""
    m = k if k * HEAPED <= n else n
    for lo, hi in parallel(rows, rows_of(n * 8)):
        for i in range(lo, hi):
            r = which[i]
            p, found = x + r * n, order + i * m
            first_ones(p, n, k, flip, ordered, keys + i * m, found, K=K)
            for j in range(k):
                out[r * k + j] = p[found[j]]
                indices[r * k + j] = found[j]
