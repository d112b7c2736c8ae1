"""Arguments for kernels that move elements: by indices, in order, side by side; see `odd_examples.py`."""

from __future__ import annotations

import numpy as np

from odd_draws import F32, any_shape, axis_of, index_into, long_or, shape_of, small, some


def slices(rng, d):
    shape = shape_of(rng, 1, 3)
    axis = small(rng, 0, len(shape))
    index = index_into(rng, (long_or(rng, 1, 7),), shape[axis])
    return shape, axis, index, some(rng, (*shape[:axis], index.size, *shape[axis + 1 :]), d)


def index_select(rng, d):
    shape, axis, index, _ = slices(rng, d)
    return some(rng, shape, d), index.reshape(1, -1) if rng.integers(2) else index, axis


def add_slices(rng, d):
    shape, axis, index, values = slices(rng, d)
    return some(rng, shape, d), index, axis, values


def index_select_gradient(rng, d):
    shape, axis, index, values = slices(rng, d)
    return shape, index, axis, values


def index_add_at(rng, d):
    shape, axis, index, values = slices(rng, d)
    return (
        some(rng, shape, d),
        (*(slice(None),) * axis, index - shape[axis] * int(rng.integers(2))),
        values,
    )


def several(rng, d):
    """An array, a key with one to all of its dimensions indexed, and the shape of what that selects."""
    shape = shape_of(rng, 1, 3)
    first = small(rng, 0, len(shape))
    last = small(rng, first, len(shape)) + 1
    k = long_or(rng, 1, 7)
    index = [
        index_into(rng, (k,), n, np.int64) - n * int(rng.integers(2)) for n in shape[first:last]
    ]
    key = (*(slice(None),) * first, *index)
    return some(rng, shape, d), key, (*shape[:first], k, *shape[last:])


def index_take(rng, d):
    return several(rng, d)[:2]


def index_put(rng, d):
    a, key, selected = several(rng, d)
    if rng.integers(2):
        return a, key, some(rng, (), d)  # of several values for one place, which stays is open
    first = next(k for k in key if k.__class__ is np.ndarray)
    n = min(len(first), a.shape[len(key) - 1])
    key = (*key[:-1], rng.permutation(a.shape[len(key) - 1])[:n])
    key = tuple(k[:n] if k.__class__ is np.ndarray else k for k in key)
    return a, key, some(rng, a[key].shape, d)


def put_slices(rng, d):
    z, index, axis, values = add_slices(rng, d)
    if rng.integers(2):  # which of several values for one place stays is open
        return z, index, axis, some(rng, (), d), bool(rng.integers(2))
    return z, index, axis, values, True


def fill_masked(rng, d):
    z = some(rng, any_shape(rng), d)
    return z, some(rng, z.shape, F32) > 0, some(rng, (), d)


def add_rows(rng, d):
    r, k, c = small(rng), long_or(rng, 1, 7), small(rng, 1, 40)
    return some(rng, (r, c), d), index_into(rng, (k,), r, np.int64), some(rng, (k, c), d)


def along(rng, d):
    shape = shape_of(rng, 1, 3)
    dim = small(rng, 0, len(shape))
    own = (*shape[:dim], long_or(rng, 1, 7), *shape[dim + 1 :])
    return shape, dim, index_into(rng, own, shape[dim], np.int64), some(rng, own, d)


def gather(rng, d):
    shape, dim, index, _ = along(rng, d)
    return some(rng, shape, d), index, dim


def scatter(rng, d):
    shape, dim, index, values = along(rng, d)
    values = values if rng.integers(3) else some(rng, (), d)
    add = bool(rng.integers(2))
    if not add:  # which of two values for one place stays is open
        index = np.broadcast_to(
            rng.permutation(shape[dim])[: index.shape[dim]].reshape(
                (-1,) + (1,) * (len(shape) - dim - 1)
            ),
            (*shape[:dim], min(shape[dim], index.shape[dim]), *shape[dim + 1 :]),
        ).copy()
        values = values if values.ndim == 0 else some(rng, index.shape, d)
    return some(rng, shape, d), index, dim, values, add


def scatter_reduce(rng, d):
    shape, dim, index, values = along(rng, d)
    how = ["sum", "mean", "prod", "amax", "amin"][rng.integers(5)]
    return some(rng, shape, d), index, dim, values, how, bool(rng.integers(2))


def reduce_slices(rng, d):
    how = ["sum", "mean", "prod", "amax", "amin"][rng.integers(5)]
    return *add_slices(rng, d), how, bool(rng.integers(2))


def gather_gradient(rng, d):
    shape, dim, index, values = along(rng, d)
    return shape, index, dim, values


def out_of_range(rng, d):
    n = small(rng)
    index = index_into(rng, (long_or(rng, 1, 200),), n)
    if rng.integers(2):
        index[rng.integers(index.size)] = n
    return index, n


def sort(rng, d):
    a = some(rng, any_shape(rng) or (3,), d)
    return a, axis_of(rng, a), bool(rng.integers(2))


def median_with_index(rng, d):
    a, axis, skip_nan = sort(rng, d)
    return a, axis, bool(rng.integers(2)), skip_nan


def kthvalue(rng, d):
    a, axis, keepdims = sort(rng, d)
    return a, axis, keepdims, int(rng.integers(a.shape[axis]))


def topk(rng, d):
    a, axis, largest = sort(rng, d)
    return a, small(rng, 1, a.shape[axis] + 1), axis, largest, bool(rng.integers(2))


def pad_constant(rng, d):
    x = some(rng, (small(rng, 1, 3), small(rng, 1, 3), *shape_of(rng, 1, 3)), d)
    return x, [(small(rng, 0, 5), small(rng, 0, 5)) for _ in range(x.ndim - 2)], 1.5


def pad_edges(rng, d):
    x, pads, _ = pad_constant(rng, d)
    pads = [(min(a, n - 1), min(b, n - 1)) for (a, b), n in zip(pads, x.shape[2:], strict=True)]
    return x, pads, ["reflect", "replicate", "circular"][rng.integers(3)]


def pad_edges_adjoint(rng, d):
    x, pads, mode = pad_edges(rng, d)
    wide = [n + low + high for n, (low, high) in zip(x.shape[2:], pads, strict=True)]
    return some(rng, (*x.shape[:2], *wide), d), pads, x.shape[2:], mode


def copy_into(rng, d):
    a = some(rng, any_shape(rng), d)
    return some(rng, a.shape, d), a


def cat(rng, d):
    shape = any_shape(rng) or (3,)
    axis = small(rng, 0, len(shape))
    sizes = [small(rng) for _ in range(small(rng, 1, 4))]
    return [some(rng, (*shape[:axis], n, *shape[axis + 1 :]), d) for n in sizes], axis


def stacked(rng, d):
    a = some(rng, any_shape(rng) or (3,), d)
    return [a, *(some(rng, a.shape, d) for _ in range(small(rng, 1, 4)))], small(rng, 0, a.ndim)


def roll(rng, d):
    a = some(rng, any_shape(rng) or (3,), d)
    dims = tuple(rng.permutation(a.ndim)[: small(rng, 1, 3)].tolist())
    return a, tuple(int(rng.integers(-20, 20)) for _ in dims), dims


def tile(rng, d):
    a = some(rng, shape_of(rng, 0, 3), d)
    return a, tuple(small(rng, 1, 4) for _ in range(a.ndim + int(rng.integers(2))))


def triangle(rng, d):
    a = some(rng, (*shape_of(rng, 0, 2), long_or(rng, 1), long_or(rng, 1)), d)
    return a, int(rng.integers(-20, 20)), bool(rng.integers(2))


def bincount(rng, d):
    a = index_into(rng, (long_or(rng, 1, 300),), small(rng))
    weights = some(rng, a.shape, d) if rng.integers(2) and d.itemsize > 2 else None
    return a, weights, small(rng, 0, 20)


def histogram(rng, d):
    n, columns = long_or(rng, 1, 300), int(rng.integers(1, 4))
    edges = [np.sort(some(rng, (int(rng.integers(2, 9)),), d)) for _ in range(columns)]
    weights = some(rng, (n,), d) if rng.integers(2) else None
    return some(rng, (n, columns), d), edges, weights, False


def searchsorted(rng, d):
    shape = shape_of(rng, 0, 2)
    n, m = long_or(rng, 1, 17), long_or(rng, 1, 17)
    seq = np.sort(some(rng, (*shape, n) if rng.integers(2) else (n,), d), -1)
    return seq, some(rng, (*shape, m), d), bool(rng.integers(2)), np.dtype(np.int64)


def isin(rng, d):
    a = some(rng, any_shape(rng), d)
    tests = some(rng, (long_or(rng, 1, 5, 33),), d)
    if rng.integers(2):
        tests[::2] = rng.choice(a.reshape(-1), tests[::2].shape)
    return a, tests, bool(rng.integers(2))


def unique(rng, d):
    return some(rng, any_shape(rng), d), False, True


def embedding_bag(rng, d):
    rows, n, width = small(rng), small(rng), long_or(rng, 1, 17)
    indices = index_into(rng, (long_or(rng, 1, 40),), rows, np.int64)
    offsets = np.sort(rng.integers(0, indices.size + 1, n))
    offsets[0] = 0
    factors = some(rng, indices.shape, d) if rng.integers(2) else None
    return some(rng, (rows, width), d), indices, offsets, factors, 0, -1


def embedding_bag_gradient(rng, d):
    weight, indices, offsets, factors, *_ = embedding_bag(rng, d)
    padding_idx = int(rng.integers(-1, len(weight)))
    bags = np.searchsorted(offsets, np.arange(indices.size), "right") - 1
    sizes = np.bincount(bags[indices != padding_idx], minlength=len(offsets))
    g, mode = (
        some(rng, (len(offsets), weight.shape[1]), d),
        0 if factors is not None else small(rng, 0, 2),
    )
    return g, indices, bags, sizes, factors, len(weight), mode, padding_idx


def bag_factors_gradient(rng, d):
    g, indices, bags, _, _, n, _, padding_idx = embedding_bag_gradient(rng, d)
    return g, some(rng, (n, g.shape[1]), d), indices, bags, padding_idx


def masked(rng, d):
    a = some(rng, any_shape(rng) or (3,), d)
    return a, np.asarray(some(rng, a.shape, F32) > 0)


def masked_expand(rng, d):
    a, mask = masked(rng, d)
    return a[mask], mask


def masked_scatter(rng, d):
    z, mask = masked(rng, d)
    return z, mask, some(rng, (max(0, int(mask.sum()) + int(rng.integers(-1, 4))),), d)


def nonzero(rng, d):
    return (some(rng, any_shape(rng) or (3,), d),)


def cumulative_extreme(rng, d):
    a, axis, down = sort(rng, d)
    return a, axis, np.minimum if down else np.maximum
