"""Arguments for every kernel that machine code replaces: for its name what draws them, plain arrays.

An example is a function of a random number generator and a dtype; see `odd_arrays.py` for what is done
with them.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np

import odd_matrices
from odd_draws import (
    F32,
    F64,
    FLOATS,
    INTEGERS,
    any_shape,
    axis_of,
    index_into,
    long_or,
    shape_of,
    small,
    some,
)
from odd_places import (
    add_rows,
    bag_factors_gradient,
    bincount,
    cat,
    copy_into,
    cumulative_extreme,
    embedding_bag,
    embedding_bag_gradient,
    fill_masked,
    gather,
    gather_gradient,
    histogram,
    index_add_at,
    index_put,
    index_select,
    index_select_gradient,
    index_take,
    isin,
    kthvalue,
    masked,
    masked_expand,
    masked_scatter,
    median_with_index,
    nonzero,
    out_of_range,
    pad_constant,
    pad_edges,
    pad_edges_adjoint,
    put_slices,
    reduce_slices,
    roll,
    scatter,
    scatter_reduce,
    searchsorted,
    sort,
    stacked,
    tile,
    topk,
    triangle,
    unique,
)
from rushlight._backends.convolution import Problem, out_sizes
from rushlight._backends.windows import Windows
from rushlight._codegen.dtype_entry import function_behind
from rushlight._codegen.kernels.pointwise import Pointwise


def attention(rng, d):
    n, heads, length, s, e, v = (small(rng) for _ in range(6))
    if rng.integers(2):
        length, s, e = small(rng, 1, 70), small(rng, 1, 70), small(rng, 1, 40)
    q, k, values = (
        some(rng, (n, heads, length, e), d),
        some(rng, (n, heads, s, e), d),
        some(rng, (n, heads, s, v), d),
    )
    mask = (
        None
        if rng.integers(2)
        else some(rng, (1, heads, 1, s) if rng.integers(2) else (n, heads, length, s), d)
    )
    return q, k, values, mask, bool(rng.integers(2)), 0.3, True


def attention_gradients(rng, d):
    q, k, v, mask, causal, scale, _ = attention(rng, F32)
    out, kept = import_module("rushlight._backends.llvm.attention").attention(
        q, k, v, mask, causal, scale, True
    )
    return (
        some(rng, out.shape, F32),
        q,
        k,
        v,
        mask,
        causal,
        np.array(out),
        np.array(kept),
        scale,
        (True, True, True, False),
    )


def geometry(rng):
    nd = small(rng, 1, 4)
    several = lambda low, high: tuple(small(rng, low, high) for _ in range(nd))  # noqa: E731
    kernel = (3,) * nd if rng.integers(2) else several(1, 4)
    stride = (1,) * nd if rng.integers(2) else several(1, 4)
    return nd, kernel, stride, several(0, 3), (1,) * nd if rng.integers(2) else several(1, 3)


def windows_of(rng, nd, kernel, stride, padding, dilation):
    """Sizes of an input, and of what windows over it give."""
    out = tuple(small(rng, 1, 8) for _ in range(nd))
    reach = [
        (o - 1) * s + d * (k - 1) + 1
        for o, s, d, k in zip(out, stride, dilation, kernel, strict=True)
    ]
    sizes = tuple(
        max(1, r - 2 * p + small(rng, 0, s)) for r, p, s in zip(reach, padding, stride, strict=True)
    )
    return sizes, out_sizes(sizes, kernel, stride, padding, dilation)


def convolution(rng, d):
    nd, kernel, stride, padding, dilation = geometry(rng)
    sizes, out = windows_of(rng, nd, kernel, stride, padding, dilation)
    groups, n = small(rng, 1, 3), small(rng, 1, 4)
    c, o = (int(rng.choice([1, 2, 3, 16, 32])) for _ in range(2))
    if nd == 2 and kernel == (3, 3) and rng.integers(3) == 0:
        groups, stride, dilation, c, o = 1, (1, 1), (1, 1), 32, 32
        padding = (1, 1)
        out = sizes
    x, w = some(rng, (n, c * groups, *sizes), d), some(rng, (o * groups, c, *kernel), d)
    g = some(rng, (n, o * groups, *out), d)
    last = bool(x.ndim == 4 and rng.integers(2))
    shapes = x.shape, w.shape, g.shape
    return x, w, g, (*shapes, stride, padding, dilation, groups, x.dtype, last)


def convolve(rng, d):
    x, w, _, problem = convolution(rng, d)
    bias = some(rng, (len(w),), d) if rng.integers(2) else None
    return x, w, bias, Problem("forward", *problem)


def convolve_transposed(rng, d):
    x, w, g, problem = convolution(rng, d)
    bias = some(rng, x.shape[1:2], d) if rng.integers(2) else None
    return g, w, bias, Problem("transposed", *problem)


def convolve_weight(rng, d):
    x, _, g, problem = convolution(rng, d)
    return x, g, Problem("weight", *problem)


def sizes_of_product(rng):
    return tuple(long_or(rng, 1, 2, 5, 17, 130) for _ in range(3))


def matrices(rng, d):
    m, k, n = sizes_of_product(rng)
    return some(rng, (m, k), d), some(rng, (k, n), d)


def batches(rng, d):
    a, b = matrices(rng, d)
    many = shape_of(rng, 1, 2)
    return some(rng, (*many, *a.shape), d), some(
        rng, (*many, *b.shape) if rng.integers(2) else b.shape, d
    )


def products(rng, d):
    a, b = matrices(rng, d)
    which = rng.integers(5)
    if which == 0:
        return a, b
    if which == 1:
        return a, some(rng, b.shape[:1], d)
    if which == 2:
        return some(rng, b.shape[:1], d), b
    return batches(rng, d)


def linear(rng, d):
    a, b = products(rng, d)
    n = small(rng, 1, 80)
    return a, some(rng, (n, a.shape[-1]), d), some(rng, (n,), d) if rng.integers(2) else None


def accumulate(rng, d):
    a, b = matrices(rng, d)
    whole = (a.shape[0], b.shape[1])
    shape = [whole, whole[1:], (1, whole[1]), (whole[0], 1), ()][rng.integers(5)]
    return some(rng, shape, d), a, b, *([1, 1] if rng.integers(2) else [0.5, 2.0])


def accumulate_activated(rng, d):
    return *accumulate(rng, d), ("relu", "gelu")[rng.integers(2)]


def outer_added(rng, d):
    a, b = vectors(rng, d)[0], vectors(rng, d)[0]
    return some(rng, (a.size, b.size), d), a, b, 0.5, 2.0


def outer(rng, d):
    return some(rng, (long_or(rng, 1, 300),), d), some(rng, (long_or(rng, 1, 300),), d)


def cross(rng, d):
    outer, inner = long_or(rng, 1, 300), small(rng, 1, 20)
    a = some(rng, (outer, 3, inner), d)
    return a, some(rng, a.shape if rng.integers(2) else (3, 1), d), -2


def three_matrices(rng, d):
    m, k, n = sizes_of_product(rng)
    batch = small(rng, 1, 4)
    return some(rng, (batch, m, k), d), some(rng, (batch, k, n), d)


def vectors(rng, d):
    n = long_or(rng, 1, 300, 20_000)
    return some(rng, (n,), d), some(rng, (n,), d)


def norm_input(rng, d):
    n, groups, each = small(rng, 1, 4), small(rng, 1, 4), small(rng, 1, 4)
    sizes = shape_of(rng, 0, 3)
    channels = groups * each
    affine = [some(rng, (channels,), d) if rng.integers(2) else None for _ in range(2)]
    return some(rng, (n, channels, *sizes), d), *affine, groups


def group_norm(rng, d):
    return *norm_input(rng, d), 0.1


def group_norm_gradients(rng, d):
    a, w, _, groups = norm_input(rng, d)
    return some(rng, a.shape, d), a, w, groups, 0.1, (True, True, True)


def rms_norm(rng, d):
    a, w, _, n, eps = layer_norm(rng, d)
    return a, w, n, eps


def rms_norm_gradients(rng, d):
    g, a, w, n, eps, needs = layer_norm_gradients(rng, d)
    return g, a, w, n, eps, needs[:2]


def l2_norm(rng, d):
    a = some(rng, (*shape_of(rng, 0, 3), long_or(rng, 1, 7)), d)
    return a, (a.ndim - 1, None, 0)[int(rng.integers(3))], bool(rng.integers(2))


def statistics(rng, a):
    d = F32 if a.dtype.itemsize == 2 else a.dtype
    return some(rng, a.shape[1:2], d), np.abs(some(rng, a.shape[1:2], d)) + d.type(0.1)


def batch_norm(rng, d):
    a, w, b, _ = norm_input(rng, d)
    return a, w, b, *statistics(rng, a), bool(rng.integers(2)), 0.1


def batch_norm_gradients(rng, d):
    a, w, _, _ = norm_input(rng, d)
    return (
        some(rng, a.shape, d),
        a,
        w,
        *statistics(rng, a),
        bool(rng.integers(2)),
        0.1,
        (True, True, True),
    )


def ctc_loss(rng, d):
    steps, n, classes, longest = 6, int(rng.integers(1, 4)), 5, int(rng.integers(1, 4))
    x = some(rng, (steps, n, classes), d)
    targets = rng.integers(1, classes, (n, longest))
    heard, said = rng.integers(0, steps + 1, n).tolist(), rng.integers(0, longest + 1, n).tolist()
    return x, targets, heard, said, 0


def ctc_loss_gradient(rng, d):
    x, targets, heard, said, blank = ctc_loss(rng, d)
    alpha = -np.abs(rng.standard_normal((x.shape[1], x.shape[0], 2 * targets.shape[1] + 1)))
    return some(rng, x.shape[1:2], d), x, targets, heard, said, alpha, blank, bool(rng.integers(2))


def cdist(rng, d):
    lead, k = shape_of(rng, 0, 1), long_or(rng, 1, 3)
    a, b = (some(rng, (*lead, long_or(rng, 1, 5), k), d) for _ in "ab")
    return a, b, float(rng.choice([0, 1, 2, np.inf]))


def cdist_gradient(rng, d):
    a, b, p = cdist(rng, d)
    shape = (*a.shape[:-1], b.shape[-2])
    return some(rng, shape, d), np.abs(some(rng, shape, d)), a, b, p


def pdist(rng, d):
    return cdist(rng, d)[0].reshape(-1, 1), float(rng.choice([0, 1, 2, np.inf]))


def pdist_gradient(rng, d):
    a, p = pdist(rng, d)
    shape = (len(a) * (len(a) - 1) // 2,)
    return some(rng, shape, d), np.abs(some(rng, shape, d)), a, p


def glu(rng, d):
    a = some(rng, (*shape_of(rng, 0, 2), 2 * long_or(rng, 1, 7), *shape_of(rng, 0, 1)), d)
    return a, next(k for k in range(a.ndim) if a.shape[k] % 2 == 0)


def glu_gradient(rng, d):
    a, axis = glu(rng, d)
    return some(rng, (*a.shape[:axis], a.shape[axis] // 2, *a.shape[axis + 1 :]), d), a, axis


def layer_norm(rng, d):
    a = some(rng, (*shape_of(rng, 0, 3), long_or(rng, 1, 7)), d)
    n = a.shape[-1]
    return a, *(some(rng, (n,), d) if rng.integers(2) else None for _ in range(2)), n, 0.1


def layer_norm_gradients(rng, d):
    a, w, _, n, eps = layer_norm(rng, d)
    return some(rng, a.shape, d), a, w, n, eps, (True, True, True)


def pool(rng, d):
    nd, kernel, stride, _, dilation = geometry(rng)
    padding = tuple(small(rng, 0, k // 2 + 1) for k in kernel)
    sizes, out = windows_of(rng, nd, kernel, stride, padding, dilation)
    x = some(rng, (small(rng, 1, 3), small(rng, 1, 20), *sizes), d)
    return x, Windows(sizes, kernel, stride, padding, dilation, out)


def grid_sample(rng, d):
    n, nd, mode = small(rng, 1, 4), 2, str(rng.choice(["bilinear", "nearest", "bicubic"]))
    if mode != "bicubic":
        nd = int(rng.integers(2, 4))
    out = (*(small(rng) for _ in range(nd - 1)), long_or(rng, 1, 5))
    # NumPy 2.0 takes no negative bound for an unsigned array.
    grid = np.clip(some(rng, (n, *out, nd), d), 0 if np.dtype(d).kind == "u" else -3, 3)
    padding = str(rng.choice(["zeros", "border", "reflection"]))
    x = some(rng, (n, small(rng), *(small(rng) for _ in range(nd))), d)
    return x, grid, mode, padding, bool(rng.integers(2))


def grid_sample_gradients(rng, d):
    x, grid, *how = grid_sample(rng, d)
    g = some(rng, (*x.shape[:2], *grid.shape[1:-1]), d)
    return g, x, grid, *how, (True, bool(rng.integers(2)))


def resample(rng, d):
    resampling = import_module("rushlight._backends.reference.resample")
    nd = small(rng, 1, 4)
    sizes, out = ([long_or(rng, 1, 3) if nd < 3 else small(rng) for _ in range(nd)] for _ in "ab")
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    taps = [
        resampling.taps_of(n, m, None, mode, False, False, d)
        for n, m in zip(sizes, out, strict=True)
    ]
    return some(rng, (small(rng, 1, 3), small(rng, 1, 20), *sizes), d), taps


def resample_adjoint(rng, d):
    x, taps = resample(rng, d)
    out = [positions.shape[1] for positions, _ in taps]
    return some(rng, (*x.shape[:2], *out), d), taps, x.shape[2:]


def add_at_indices(rng, d):
    x, windows = pool(rng, d)
    places = rng.integers(0, int(np.prod(windows.sizes)), (*x.shape[:2], *windows.out))
    return some(rng, places.shape, d), places, windows.sizes


def taken_at_places(rng, d):
    x, windows = pool(rng, d)
    places = rng.integers(0, int(np.prod(windows.sizes)), (*x.shape[:2], *windows.out))
    return x, places, len(windows.sizes)


def columns(rng, d):
    _, w = pool(rng, d)
    while len(w.sizes) != 2:
        _, w = pool(rng, d)
    shape = (small(rng, 1, 3), small(rng, 1, 4) * int(np.prod(w.kernel)), int(np.prod(w.out)))
    return some(rng, shape, d), w.sizes, w.kernel, w.dilation, w.padding, w.stride


def adaptive(rng, d):
    x, windows = pool(rng, d)
    return x, windows.out


def adaptive_adjoint(rng, d):
    x, windows = pool(rng, d)
    return some(rng, (*x.shape[:2], *windows.out), d), windows.sizes


def fractional(rng, d):
    nd = small(rng, 2, 4)
    kernel = tuple(small(rng, 1, 4) for _ in range(nd))
    sizes = tuple(k + small(rng, 0, 9) for k in kernel)
    x = some(rng, (small(rng, 1, 3), small(rng, 1, 20), *sizes), d)
    samples = rng.random((*x.shape[:2], nd)).astype(d)
    return x, samples, kernel, tuple(small(rng, 1, 4) for _ in range(nd)), tuple(range(nd))


def averages(rng, d):
    x, w = pool(rng, d)
    ones = (1,) * len(w.kernel)
    out = out_sizes(w.sizes, w.kernel, w.stride, w.padding, ones)
    windows = Windows(w.sizes, w.kernel, w.stride, w.padding, ones, out)
    return x, windows, (bool(rng.integers(2)), 3 if rng.integers(2) else None)


def averages_adjoint(rng, d):
    x, windows, divisor = averages(rng, d)
    return some(rng, (*x.shape[:2], *windows.out), d), windows, divisor


def drawing(kinds, *rest, least=1):
    def make(rng, d):
        from rushlight.rng.generator import Generator

        n = long_or(rng, 1, 16, 624, 5000)
        generator = Generator().manual_seed(int(rng.integers(99)))
        return generator, np.zeros(max(n, least), kinds[rng.integers(len(kinds))]), *rest

    return make


def of_generator(rng, d):
    from rushlight.rng.generator import Generator

    return Generator().manual_seed(3), long_or(rng, 2, 16, 625, 5000) + 1


def weights_of(rng, d):
    """Weights of rows, now and then some that cannot be."""
    w = rng.random((small(rng), long_or(rng, 1))).astype(d)
    if rng.integers(3) == 0:
        w[rng.integers(len(w)), rng.integers(w.shape[1])] = rng.choice([-1.0, np.inf, np.nan, 0.0])
    if rng.integers(3) == 0:
        w[rng.integers(len(w))] = 0
    return w


def chosen(rng, d):
    from rushlight.rng.generator import Generator

    w = rng.random((small(rng), long_or(rng, 1))).astype(d) + d.type(0.01)
    return Generator().manual_seed(3), w, small(rng)


def rates(rng, d):
    from rushlight.rng.generator import Generator

    return Generator().manual_seed(3), rng.random(long_or(rng, 1)) * rng.choice([1.0, 30.0, 1e6])


def trials(rng, d):
    """What `rng.rejection.binomial` computes of numbers of trials and probabilities."""
    from rushlight.rng.generator import Generator

    n, p = np.floor(rng.random(long_or(rng, 1)) * rng.choice([5, 300])), rng.random()
    rare = min(p, 1 - p)
    rest = rare / (1 - rare) + 0 * n, np.floor((n + 1) * rare), np.log1p(-rare) + 0 * n
    rows = n, p + 0 * n, rare + 0 * n, n * rare, np.sqrt(n * rare * (1 - rare)), *rest
    return Generator().manual_seed(3), np.stack(rows, 1)


def shapes_of_gammas(rng, d):
    from rushlight.rng.generator import Generator

    alpha = rng.random(long_or(rng, 1)) * rng.choice([1.0, 3.0, 1e3])
    rows = np.stack((alpha, 1 / alpha, alpha + (alpha < 1) - 1 / 3), 1)
    return Generator().manual_seed(3), rows, 0.0331


def seeded(rng, d):
    return rng.integers(0, 2**32, 624, dtype=np.uint32), int(rng.integers(2**32))


def normals(dtype):
    def make(rng, d):
        tail = rng.random(16).astype(dtype) if rng.integers(2) else None
        return rng.random(16 * small(rng, 1, 40)).astype(dtype), 0.5, 2.0, tail

    return make


def recurrent(rng, d):
    kind = ("lstm", "gru", "tanh", "relu")[rng.integers(4)]
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    steps, n, size = small(rng, 1, 4), small(rng, 1, 14), long_or(rng, 1, 16)
    features, sizes = small(rng, 1, 9), None
    if rng.integers(2):
        sizes = [n, *sorted(rng.integers(1, n + 1, steps - 1).tolist(), reverse=True)]
    x = some(rng, (steps, n, features) if sizes is None else (sum(sizes), features), d)
    w = [some(rng, (gates * size, k), d) / d.type(8) for k in (features, size)]
    bias = [some(rng, (gates * size,), d) if rng.integers(2) else None for _ in range(2)]
    states = [some(rng, (n, size), d), some(rng, (n, size), d) if kind == "lstm" else None]
    return x, *w, *bias, *states, kind, sizes, bool(rng.integers(2)), True


def recurrent_gradients(rng, d):
    given = recurrent(rng, d)
    x, w_ih, w_hh, _, _, h, c, kind, sizes, reverse, _ = given
    y, _, _, *kept = import_module("rushlight._backends.reference.recurrent").recurrent_layer(
        *given
    )
    g = some(rng, y.shape, d), some(rng, h.shape, d), None if c is None else some(rng, h.shape, d)
    return (
        *g,
        x,
        w_ih,
        w_hh,
        h,
        c,
        y.copy(),
        *kept,
        kind,
        sizes,
        reverse,
        True,
        bool(rng.integers(2)),
    )


def one(rng, d):
    return (some(rng, any_shape(rng), d),)


def along_axis(*rest):
    def make(rng, d):
        a = some(rng, any_shape(rng), d)
        return a, axis_of(rng, a) if rng.integers(4) else None, *rest

    return make


def cumulative(rng, d):
    a = some(rng, any_shape(rng) or (3,), d)
    return a, axis_of(rng, a), np.add


def sum_to(rng, d):
    a = some(rng, any_shape(rng), d)
    return a, a.shape[small(rng, 0, a.ndim + 1) :]


def softmax(arrays):
    def make(rng, d):
        a = some(rng, any_shape(rng) or (3,), d)
        return *(some(rng, a.shape, d) for _ in range(arrays)), axis_of(rng, a)

    return make


def margins(rng, d):
    n, c = long_or(rng, 1, 7), long_or(rng, 1, 40)
    weight = None if rng.integers(2) else some(rng, (c,), d)
    y = np.asarray(index_into(rng, (n,), c, np.int64))
    return some(rng, (n, c), d), y, weight, int(rng.integers(1, 3)), 0.5


def margins_gradient(rng, d):
    x, *rest = margins(rng, d)
    return some(rng, (len(x),) if rng.integers(2) else (), d), x, *rest, 0.25


def label_margins(rng, d):
    n, c = small(rng, 1, 7), long_or(rng, 1, 20)
    y = np.asarray(index_into(rng, (n, c), c, np.int64)).copy()
    y[:, c // 2 :] = -1
    return some(rng, (n, c), d), y


def label_margins_gradient(rng, d):
    x, y = label_margins(rng, d)
    is_label = np.zeros(x.shape, d)
    np.put_along_axis(is_label, y[:, : x.shape[1] // 2], 1, 1)
    return some(rng, (len(x),) if rng.integers(2) else (), d), x, y, is_label, 0.25


def classes(rng, d):
    n, c = long_or(rng, 1, 7), long_or(rng, 1, 10)
    sizes = (small(rng, 1, 6), small(rng, 1, 9)) if rng.integers(2) else ()
    target = np.asarray(index_into(rng, (n, *sizes), c, np.int64))
    weight = None if rng.integers(2) else some(rng, (c,), d)
    return some(rng, (n, c, *sizes), d), target, weight, -100, 0.1 * float(rng.integers(2))


def classes_gradient(rng, d):
    a, target, weight, skip, smoothing = classes(rng, d)
    wide = F32 if d.itemsize == 2 else d
    sums = np.log(np.exp(a.astype(F64)).sum(1)).astype(wide)
    g = some(rng, target.shape if rng.integers(2) else (), wide)
    return g, a, target, weight, sums, skip, smoothing, np.asarray(4.0)


def facts_of_losses(rng, d):
    """The sum of losses, that of weights, and how many classes are out of range."""
    facts = [rng.standard_normal(), rng.integers(3), rng.integers(2)]
    return np.array(facts, F64), bool(rng.integers(2)), d


def nll_loss(rng, d):
    n, c = long_or(rng, 1, 7), long_or(rng, 1, 10)
    target = np.abs(np.asarray(index_into(rng, (n,), c, np.int64))) % c
    weight = None if rng.integers(4) else some(rng, (c,), d)
    reduction = ("none", "sum", "mean")[rng.integers(3)]
    return (
        some(rng, (n, c), d),
        target,
        weight,
        reduction,
        (-100, int(target[0]) + 1)[rng.integers(2)],
    )


def nll_loss_gradient(rng, d):
    x, target, weight, reduction, skip = nll_loss(rng, d)
    g = some(rng, target.shape if reduction == "none" else (), d)
    return g, target, weight, reduction, skip, x.shape


def elements(arrays, numbers=()):
    """Arrays of one shape, or that broadcast to the first."""

    def make(rng, d):
        shape = any_shape(rng)
        others = [shape, shape, shape[1:], (1,) * len(shape)]
        return (
            some(rng, shape, d),
            *(some(rng, others[rng.integers(4)], d) for _ in range(arrays - 1)),
            *numbers,
        )

    return make


def same_shape(rng, d):
    a = some(rng, any_shape(rng), d)
    return a, some(rng, a.shape, d)


def positive(make):
    return lambda rng, d: tuple(
        1 / (1 + np.exp(-a.astype(F64))).astype(d) if isinstance(a, np.ndarray) else a
        for a in make(rng, d)
    )


def wide_number(rng, d):
    from rushlight._backends import cpu as xp

    return xp.multiply, *one(rng, d), np.float32(0.1)


def where(rng, d):
    a, b = elements(2)(rng, d)
    b = b if b.shape == a.shape else b.reshape(-1)[0:1].reshape(())
    return some(rng, a.shape, F32) > 0, a, b


def cast(rng, d):
    return *one(rng, d), FLOATS[rng.integers(len(FLOATS))]


def update_running_stats(rng, d):
    n = long_or(rng, int(rng.integers(1, 70)))
    wide = F32 if d.itemsize == 2 else d
    return *(some(rng, (n,), t) for t in (d, d, wide, wide)), 0.1, 1.5


NUMBERS = (0.5, 1.5, 0.5)
NAMED = (
    add_at_indices, grid_sample_gradients, grid_sample, scatter_reduce,
    embedding_bag, embedding_bag_gradient, bag_factors_gradient, bincount, masked_expand, masked_scatter, cumulative_extreme, histogram, searchsorted, isin, unique, nonzero,
    put_slices, reduce_slices, pad_constant, pad_edges, pad_edges_adjoint, copy_into, cat, roll, tile, triangle,
    attention, attention_gradients, convolve, convolve_transposed, convolve_weight, accumulate,
    accumulate_activated, outer_added,
    linear, gather_gradient, add_rows, gather, index_add_at, index_put, index_take,
    fill_masked,
    out_of_range, index_select_gradient, index_select, scatter, batch_norm, batch_norm_gradients,
    ctc_loss, ctc_loss_gradient, cdist, cdist_gradient, pdist, pdist_gradient,
    nll_loss, nll_loss_gradient, glu, glu_gradient, group_norm, group_norm_gradients, layer_norm, layer_norm_gradients, cumulative,
    l2_norm, update_running_stats, resample, resample_adjoint, rms_norm, rms_norm_gradients, sum_to,
    sort, topk, kthvalue, median_with_index, where, cast,
)  # fmt: skip
EXAMPLES = {f.__name__: f for f in NAMED} | odd_matrices.EXAMPLES | {
    "layer_norm_with_statistics": layer_norm, "bmm": three_matrices, "dot": vectors, "vdot": vectors, "outer": outer, "mm": matrices,
    "matmul": products,
    "cross": cross, "kron": matrices, "trace": lambda rng, d: matrices(rng, d)[:1],
    "mv": lambda rng, d: (lambda a, b: (a, b[:, 0].copy()))(*matrices(rng, d)),
    "times_adjoint": lambda rng, d: (lambda a, b: (a, b.swapaxes(-1, -2).copy()))(*batches(rng, d)),
    "adjoint_times": lambda rng, d: (lambda a, b: (a.swapaxes(-1, -2).copy(), b))(*batches(rng, d)),
    "max_pool": pool, "max_pool_indices": pool, "window_averages": averages,
    "window_averages_adjoint": averages_adjoint, "adaptive_averages": adaptive, "col2im": columns, "put_at_indices": add_at_indices,
    "take_at_indices": taken_at_places, "adaptive_maxima": adaptive,
    "adaptive_averages_adjoint": adaptive_adjoint, "fractional_maxima": fractional,
    "by_c_library": lambda rng, d: ("log", np.abs(some(rng, (long_or(rng, 1),), F64)) + 0.1),
    "random_uniform": drawing([F32, F64], -1.0, 2.0), "random_doubles": drawing([F64]),
    "random_floats": drawing([F32, *FLOATS[3:]]), "random_bernoulli": drawing([*FLOATS, *INTEGERS], 1 << 52, 1),
    "random_integers": drawing([np.dtype(np.int64)], 3, 17), "random_normals": normals(np.float32),
    "random_wide_normals": normals(np.float64), "random_scalar_normals": drawing(FLOATS, 0.5, 2.0),
    "random_permutation": drawing([np.dtype(np.int64)], least=2), "random_choices": chosen,
    "laid_out": lambda rng, d: (lambda a, b: (a + b, a, b))(*elements(2)(rng, d)),
    "random_poissons": rates, "random_binomials": trials, "random_gammas": shapes_of_gammas,
    "random_exponentials": drawing([F32, F64], -0.5), "random_cauchys": drawing([F32, F64], 0.5, 2.0),
    "random_geometrics": drawing([F32, F64, np.dtype(np.int64)], 0.25),
    "random_slopes": lambda rng, d: (of_generator(rng, d)[0], *one(rng, d), 0.125, 0.375),
    "invalid_weights": lambda rng, d: (weights_of(rng, d),),
    "random_seeded": seeded, "random_words": of_generator, "random_wide_words": of_generator, "recurrent_layer": recurrent,
    "recurrent_layer_gradients": recurrent_gradients,
    "cat_contiguous": cat, "stack_contiguous": stacked,
    "argmax": along_axis(False), "argmin": along_axis(True), "sum": along_axis(False),
    "mean": along_axis(True), "amax": along_axis(False), "amin": along_axis(True),
    "max_with_index": along_axis(False), "min_with_index": along_axis(True),
    "variance": along_axis(False, 1), "logsumexp": along_axis(False), "softmax": softmax(1),
    "log_softmax": softmax(1),
    "softmax_gradient": softmax(2), "log_softmax_gradient": softmax(2), "cross_entropy": classes, "margins": margins,
    "margins_gradient": margins_gradient, "label_margins": label_margins,
    "label_margins_gradient": label_margins_gradient,
    "cross_entropy_gradient": classes_gradient, "entropy_total": facts_of_losses, "clip_gradient": elements(2, (-0.5, 0.5)),
    "add_scaled": elements(2, (0.5,)), "lerp": elements(3), "clip": elements(1, (-0.5, 0.5)),
    "clip_arrays": elements(3), "power": positive(elements(2)), "reverse_subtract": elements(2),
    "logit": elements(1, (0.25,)), "logit_gradient": elements(2, (0.25, 0.75, 0.0)),
    "copysign_gradient": elements(3), "round_to": elements(1, (2,)),
    "nan_to_num": elements(1, (None, None, None)), "sgn": one, "relu": one,
    "arange_into": lambda rng, d: (some(rng, (long_or(rng, int(rng.integers(2, 70))),), d), 0.5, 0.25),
    "linspace_into": lambda rng, d: (some(rng, (long_or(rng, int(rng.integers(2, 70))),), d), 0.5, 2.5),
    "histc": elements(1, (7, -0.5, 0.5)), "powers_into": lambda rng, d: (some(rng, (long_or(rng, int(rng.integers(2, 70))),), d), 2.5),
    "both_ends_into": lambda rng, d: (some(rng, (long_or(rng, int(rng.integers(2, 70))),), d), 0.5, 2.5, 0.1),
    "fill": lambda rng, d: (*one(rng, d), 3), "squared_distance": same_shape,
    "prod": along_axis(False), "nansum": along_axis(False),
    "count_nonzero": along_axis(), "random_normal_floats": drawing([F32], 0.5, 2.0, least=16),
    "digamma": one, "entr": one, "erfinv": one, "lgamma": one, "ndtr": one, "ndtri": one,
    "polygamma": lambda rng, d: (1, *one(rng, d)), "xlog1py": elements(2),
    "logcumsumexp": lambda rng, d: sort(rng, d)[:2],
    "mode": sort, "median": lambda rng, d: (*one(rng, d), False), "masked_select": masked, "contiguous": one, "row_major": one,
    "with_wide_number": wide_number, "binary_cross_entropy": positive(elements(2)),
    "binary_cross_entropy_gradient": positive(elements(3)),
    "binary_cross_entropy_target_gradient": positive(elements(2)),
}  # fmt: skip


def example_of(name, function):
    """What makes the arguments of a kernel; None where that is not known."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    for cell in getattr(function_behind(function), "__closure__", None) or ():
        if isinstance(cell.cell_contents, Pointwise):
            return elements(cell.cell_contents.arrays, NUMBERS[: cell.cell_contents.numbers])
    return elements(2) if name in ("fmod", "remainder", "floor_divide", "trunc_divide") else None
