"""Which of equal elements `topk`, `kthvalue` and `mode` choose: those that PyTorch's algorithms come to.

Note [Which of equal elements]
    The values that these operators give do not depend on how they are found; the indices of equal ones
    do. A router that is zero at the start gives all experts the same weight, and which of them `topk`
    takes decides how a training goes on. So the choice is PyTorch's on a CPU, which has three sources:

    - `topk` of k elements among n selects with a heap of k where 64 k <= n. Otherwise it partitions
      around the k-th element and then, for a sorted result, sorts those before it.
    - `kthvalue` partitions with another choice of the pivot.
    - `mode` sorts, and takes the last of the longest run. NaN has no position in its order, so with one
      the sort leaves elements where it finds them, and the result depends on their indices.

    Partition, heap and sort are those of the C++ library that PyTorch is built with (introselect and
    introsort). They stand here on lists, one row at a time, and in `_codegen/kernels/selection.py` as
    machine code. Both run only for rows in which equal elements can change the answer.

A row is a list of pairs (rank, index); equal ranks are equal elements. `nan` is a rank that nothing comes
before, or None.
"""

from __future__ import annotations

import numpy as np

Row = list[tuple[int, int]]

SHORT = 16  # elements that are left to the sort by insertion
HEAPED = 64  # a heap selects where there are so many times more elements than are chosen


def ranked(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ranks along the last dimension, equal ones alike and NaN above all; for each row that of NaN or -1)."""
    order = np.argsort(x, -1, kind="stable")
    s = np.take_along_axis(x, order, -1)
    new = ~same(s[..., 1:], s[..., :-1])
    ranks = np.zeros(x.shape, np.int64)
    np.put_along_axis(ranks, order[..., 1:], new.cumsum(-1), -1)
    nan = np.where(np.not_equal(s[..., -1], s[..., -1]), ranks.max(-1), -1)
    return ranks, nan


def same(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Whether elements are equal; all NaN are."""
    return (u == v) | ((u != u) & (v != v))


def first_ones(ranks: np.ndarray, k: int, in_order: bool) -> list[int]:
    """The indices of the k lowest ranks as `topk` has them."""
    row = pairs(ranks)
    n = len(row)
    if k * HEAPED <= n:
        to_heap(row, 0, k, n, None)
        from_heap(row, 0, k, None)
    else:
        partition(row, k - 1)
        if in_order:
            sort(row, k - 1, None)
    return [index for _, index in row[:k]]


def commonest(ranks: np.ndarray, nan: int) -> int:
    """The index that `mode` gives."""
    row = pairs(ranks)
    sort(row, len(row), nan)
    best = most = length = 0
    former = None
    for i, (rank, _) in enumerate(row):
        length = length + 1 if rank == former and rank != nan else 1
        former = rank
        if length > most:
            best, most = i, length
    return row[best][1]


def number(ranks: np.ndarray, k: int) -> int:
    """The index of the element that is the k-th in order, counted from 0, as `kthvalue` has it."""
    row = pairs(ranks)
    low, high = 0, len(row) - 1
    while high > low + 1:
        exchange(row, (low + high) // 2, low + 1)
        for a, b in ((low + 1, high), (low, high), (low + 1, low)):
            if row[b][0] < row[a][0]:
                exchange(row, a, b)
        pivot, i, j = row[low][0], low + 2, high - 1
        while True:
            while row[i][0] < pivot:
                i += 1
            while pivot < row[j][0]:
                j -= 1
            if j < i:
                break
            exchange(row, i, j)
            i, j = i + 1, j - 1
        exchange(row, low, j)
        low, high = (i if j <= k else low), (j - 1 if j >= k else high)
    if high == low + 1 and row[high][0] < row[low][0]:
        exchange(row, low, high)
    return row[k][1]


def pairs(ranks: np.ndarray) -> Row:
    """The pairs (rank, index) of a row, in its own order."""
    return [(rank, index) for index, rank in enumerate(ranks.tolist())]


def exchange(row: Row, i: int, j: int) -> None:
    """Exchange two elements."""
    row[i], row[j] = row[j], row[i]


def depth(n: int) -> int:
    """How many cuts may be made before a heap takes over."""
    return 2 * (n.bit_length() - 1)


# -- partition and sort --------------------------------------------------------------------------------


def cut(row: Row, low: int, high: int, nan: int | None) -> int:
    """Elements from `low` to `high` in two parts, those not above a pivot and those not below it: where
    the second begins. The pivot, the median of three, goes to `low`."""
    a, b, c = low + 1, low + (high - low) // 2, high - 1
    if not before(row[a], row[b], nan):
        a, b = b, a
    if before(row[b], row[c], nan):
        middle = b
    else:
        middle = c if before(row[a], row[c], nan) else a
    exchange(row, low, middle)
    pivot, i, j = row[low], low + 1, high - 1
    while True:
        while before(row[i], pivot, nan):
            i += 1
        while before(pivot, row[j], nan):
            j -= 1
        if i >= j:
            return i
        exchange(row, i, j)
        i, j = i + 1, j - 1


def before(a: tuple[int, int], b: tuple[int, int], nan: int | None) -> bool:
    """Whether one element comes before another."""
    return a[0] < b[0] and b[0] != nan


def insert(row: Row, low: int, high: int, nan: int | None) -> None:
    """Sort by insertion."""
    for i in range(low + 1, high):
        one, j = row[i], i
        if i < low + SHORT and before(one, row[low], nan):
            j = low
        else:
            while j > low and before(one, row[j - 1], nan):
                j -= 1
        row[j + 1 : i + 1] = row[j:i]
        row[j] = one


def partition(row: Row, k: int) -> None:
    """Bring the element that is the k-th in order to position k, those before it to its front."""
    low, high, left = 0, len(row), depth(len(row))
    while high - low > 3:
        if not left:
            to_heap(row, low, k + 1, high, None)
            return exchange(row, low, k)
        left -= 1
        at = cut(row, low, high, None)
        low, high = (at, high) if at <= k else (low, at)
    return insert(row, low, high, None)


def sort(row: Row, n: int, nan: int | None) -> None:
    """Sort the first n elements; equal ones do not stay as they stood."""
    parts = [(0, n, depth(n))]
    while parts:
        low, high, left = parts.pop()
        while high - low > SHORT:
            if not left:
                to_heap(row, low, high, high, nan)
                from_heap(row, low, high, nan)
                break
            left -= 1
            at = cut(row, low, high, nan)
            parts.append((at, high, left))
            high = at
    insert(row, 0, n, nan)


# -- heaps ---------------------------------------------------------------------------------------------


def to_heap(row: Row, low: int, middle: int, high: int, nan: int | None) -> None:
    """Make a heap, its last element first, of the elements from `low` to `middle`, and let it take in those
    up to `high` that come before its first."""
    for hole in range((middle - low) // 2 - 1, -1, -1):
        sink(row, low, hole, middle - low, row[low + hole], nan)
    for i in range(middle, high):
        if before(row[i], row[low], nan):
            one, row[i] = row[i], row[low]
            sink(row, low, 0, middle - low, one, nan)


def from_heap(row: Row, low: int, high: int, nan: int | None) -> None:
    """Sort a heap."""
    for last in range(high - 1, low, -1):
        one, row[last] = row[last], row[low]
        sink(row, low, 0, last - low, one, nan)


def sink(row: Row, low: int, hole: int, n: int, one: tuple[int, int], nan: int | None) -> None:
    """Put an element into a heap of n: the hole goes down to a leaf, the element up from there."""
    top = hole
    while (child := 2 * hole + 2) <= n:
        if child == n or before(row[low + child], row[low + child - 1], nan):
            child -= 1
        row[low + hole] = row[low + child]
        hole = child
    while hole > top and before(row[low + (hole - 1) // 2], one, nan):
        row[low + hole] = row[low + (hole - 1) // 2]
        hole = (hole - 1) // 2
    row[low + hole] = one
