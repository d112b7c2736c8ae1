"""Which of equal elements are chosen: partition, sort and heaps that are PyTorch's to the last exchange.

See Note [Which of equal elements] in `_backends/reference/selection.py`, which states these functions on
lists. Here a row is an array of keys (`sort.py`) and one of indices, which move together. NAN is the key of NaN
where nothing comes before it, or None.
"""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.types import b1, i64

SHORT = 16  # elements that are left to the sort by insertion
HEAPED = 64  # a heap selects where there are so many times more elements than are chosen
PARTS = 128  # parts of a row that wait to be sorted, at most: twice the bits of its length


@inline
def before(a, b, NAN):
    """Whether one key comes before another."""
    if NAN is None:
        found = a < b
    else:
        found = (a < b) & (b != NAN)
    return found


@inline
def exchange(keys, indices, i, j):
    """Exchange two elements."""
    key, index = keys[i], indices[i]
    keys[i], indices[i] = keys[j], indices[j]
    keys[j], indices[j] = key, index


@inline
def depth(n):
    """How many cuts may be made before a heap takes over."""
    left, m = i64(0), n + 0
    while m > 1:
        m = m // 2
        left += 2
    return left


# -- heaps -----------------------------------------------------------------------------------------


@routine
def sink(keys, indices, hole, n, key, index, NAN):
    """Put an element into a heap of n: the hole goes down to a leaf, the element up from there."""
    at, child = hole + 0, 2 * hole + 2
    while child <= n:
        if child == n:
            child -= 1
        elif before(keys[child], keys[child - 1], NAN):
            child -= 1
        keys[at], indices[at] = keys[child], indices[child]
        at = child + 0
        child = 2 * at + 2
    more = at > hole
    while more:
        up = (at - 1) // 2
        more = before(keys[up], key, NAN)
        if more:
            keys[at], indices[at] = keys[up], indices[up]
            at = up + 0
            more = at > hole
    keys[at], indices[at] = key, index


@inline
def make_heap(keys, indices, n, NAN):
    """Make a heap of n elements, its last one first."""
    for i in range(n // 2):
        hole = n // 2 - 1 - i
        sink(keys, indices, hole, n, keys[hole], indices[hole], NAN)


@inline
def from_heap(keys, indices, n, NAN):
    """Sort a heap of n elements."""
    for i in range(n - 1):
        last = n - 1 - i
        key, index = keys[last], indices[last]
        keys[last], indices[last] = keys[0], indices[0]
        sink(keys, indices, i64(0), last, key, index, NAN)


# -- partition and sort ----------------------------------------------------------------------------


@inline
def cut(keys, indices, low, high, NAN):
    """Elements from `low` to `high` in two parts, those not above a pivot and those not below it: where
    the second begins. The pivot, the median of three, goes to `low`."""
    a, b, c = low + 1, low + (high - low) // 2, high - 1
    rising = before(keys[a], keys[b], NAN)
    a, b = select(rising, a, b), select(rising, b, a)
    lower = select(before(keys[a], keys[c], NAN), c, a)
    exchange(keys, indices, low, select(before(keys[b], keys[c], NAN), b, lower))
    pivot, i, j = keys[low], low + 1, high - 1
    more = b1(True)
    while more:
        while before(keys[i], pivot, NAN):
            i += 1
        while before(pivot, keys[j], NAN):
            j -= 1
        more = i < j
        if more:
            exchange(keys, indices, i, j)
            i += 1
            j -= 1
    return i


@inline
def insert_each(keys, indices, low, high, NAN):
    """Sort by insertion."""
    for i in range(low + 1, high):
        key, index, j = keys[i], indices[i], i + 0
        front = b1(False)
        if NAN is not None:
            front = (i < low + SHORT) & before(key, keys[low], NAN)
        more = front | before(key, keys[j - 1], NAN)
        while more:
            keys[j], indices[j] = keys[j - 1], indices[j - 1]
            j -= 1
            more = (j > low) & (front | before(key, keys[max(j - 1, low)], NAN))
        keys[j], indices[j] = key, index


@routine
def partition(keys, indices, n, k):
    """Bring the element that is the k-th in order to position k, those before it to its front."""
    low, high, left = i64(0), n + 0, depth(n)
    while high - low > 3:
        if left == 0:
            some_keys, some_indices, m = keys + low, indices + low, k + 1 - low
            make_heap(some_keys, some_indices, m, None)
            for i in range(k + 1, high):
                key, index = keys[i], indices[i]
                if key < keys[low]:
                    sink(some_keys, some_indices, i64(0), m, key, index, None)
            exchange(keys, indices, low, k)
            low = high + 0
        else:
            left -= 1
            at = cut(keys, indices, low, high, None)
            low, high = select(at <= k, at, low), select(at <= k, high, at)
    insert_each(keys, indices, low, high, None)


@routine
def sort_unstably(keys, indices, n, NAN):
    """Sort n elements; equal ones do not stay as they stood."""
    lows, highs, lefts = array(i64, PARTS), array(i64, PARTS), array(i64, PARTS)
    lows[0], highs[0], lefts[0] = i64(0), n, depth(n)
    waiting = i64(1)
    while waiting > 0:
        waiting -= 1
        low, high, left = lows[waiting], highs[waiting], lefts[waiting]
        while high - low > SHORT:
            if left == 0:
                make_heap(keys + low, indices + low, high - low, NAN)
                from_heap(keys + low, indices + low, high - low, NAN)
                high = low + 0
            else:
                left -= 1
                at = cut(keys, indices, low, high, NAN)
                lows[waiting], highs[waiting], lefts[waiting] = at, high, left
                waiting += 1
                high = at + 0
    insert_each(keys, indices, i64(0), n, NAN)


@routine
def quickselect(keys, indices, n, k):
    """Bring the element that is the k-th in order to position k, with the pivots that `kthvalue` takes."""
    low, high = i64(0), n - 1
    while high > low + 1:
        exchange(keys, indices, (low + high) // 2, low + 1)
        if keys[high] < keys[low + 1]:
            exchange(keys, indices, low + 1, high)
        if keys[high] < keys[low]:
            exchange(keys, indices, low, high)
        if keys[low] < keys[low + 1]:
            exchange(keys, indices, low + 1, low)
        pivot, i, j = keys[low], low + 2, high - 1
        more = b1(True)
        while more:
            while keys[i] < pivot:
                i += 1
            while pivot < keys[j]:
                j -= 1
            more = i <= j
            if more:
                exchange(keys, indices, i, j)
                i += 1
                j -= 1
        exchange(keys, indices, low, j)
        low, high = select(j <= k, i, low), select(j >= k, j - 1, high)
    if high == low + 1:
        if keys[high] < keys[low]:
            exchange(keys, indices, low, high)
