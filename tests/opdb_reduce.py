"""Rows of reductions, scans, sorting, statistics, histograms and differences."""

from __future__ import annotations

import numpy as np

from opdb_rows import (
    B,
    C,
    I,
    Input,
    K,
    N,
    P,
    along,
    axis,
    c,
    distinct,
    fixed,
    reduction,
    row,
    scipy,
    v,
)


def extreme(f, arg):
    """torch.max and torch.min: of all, of one dimension (with places), of two tensors."""

    def reference(x, dim=None, keepdim=False, other=None):
        if other is not None or isinstance(dim, np.ndarray):
            return f(x, dim if other is None else other)
        if dim is None:
            return f.reduce(x, axis=None)
        return f.reduce(x, axis=dim, keepdims=keepdim), arg(x, axis=dim, keepdims=keepdim)

    return reference


def flat_arg(f):
    def reference(x, dim=None, keepdim=False):
        return f(x, axis=dim, keepdims=keepdim)

    return reference


def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def lower_median(x, dim=None, keepdim=False):
    if dim is None:
        return np.sort(x, axis=None)[(x.size - 1) // 2]
    k = (x.shape[dim] - 1) // 2 if x.ndim else 0
    return kth(x, k + 1, dim, keepdim)


def nan_median(x, dim=None, keepdim=False):
    if dim is None:
        return np.sort(x, axis=None)[(np.count_nonzero(~np.isnan(x)) - 1) // 2]
    k = (np.count_nonzero(~np.isnan(x), axis=dim, keepdims=True) - 1) // 2
    order = np.argsort(x, axis=dim, kind="stable")
    at = np.take_along_axis(order, k, dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def kth(x, k, dim=-1, keepdim=False):
    at = np.take(np.argsort(x, axis=dim, kind="stable"), [k - 1], axis=dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def running(f):
    """Values and places of a running maximum or minimum."""

    def reference(x, dim):
        values = f.accumulate(x, axis=dim)
        n = np.arange(x.shape[dim]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
        return values, np.maximum.accumulate(np.where(values == x, n, 0), axis=dim)

    return reference


def spread(f):
    def reference(x, dim=None, unbiased=True, keepdim=False, correction=None):
        ddof = int(unbiased) if correction is None else correction
        return f(x, axis=dim, ddof=ddof, keepdims=keepdim)

    return reference


def with_mean(f):
    def reference(x, dim=None, **more):
        return spread(f)(x, dim, **more), np.mean(x, axis=dim, keepdims=more.get("keepdim", False))

    return reference


SPREAD = [
    c(N(3, 4)), c(N(3, 4), dim=1), c(N(3, 4), dim=(0, 1), keepdim=True), c(N(2, 3, 4), dim=(0, 2), correction=0), c(N(3, 4), dim=0, unbiased=False),
]  # fmt: skip


def sort(x, dim=-1, descending=False, stable=False):
    at = np.argsort(-x if descending else x, axis=dim, kind="stable") if x.ndim else np.array(0)
    return (np.take_along_axis(x, at, dim) if x.ndim else x), at


def topk(x, k, dim=-1, largest=True, sorted=True):
    values, at = sort(x, dim, largest)
    return values.take(range(k), dim), at.take(range(k), dim)


def topk_chosen(result, x, k, dim=-1, **options):
    """Halves have equal elements, of which PyTorch's algorithm chooses (test_sorting.py): here any is right."""
    values, at = result
    want, _ = topk(x, k, dim, **options)
    np.testing.assert_allclose(values.astype(np.float64), want.astype(np.float64), rtol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(x, at, dim).astype(np.float64), want, rtol=1e-6)
    order = np.sort(at, dim)
    assert (np.diff(order, axis=dim) > 0).all()


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return np.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)


def consecutive(x, return_inverse=False, return_counts=False):
    starts = np.r_[True, x[1:] != x[:-1]]
    groups = np.cumsum(starts) - 1
    found = (x[starts], groups) if return_inverse else (x[starts],)
    found += (np.bincount(groups),) if return_counts else ()
    return found if len(found) > 1 else found[0]


def search(boundaries, x, right=False, **_):
    if boundaries.ndim == 1:
        return np.searchsorted(boundaries, x, "right" if right else "left")
    rows = [np.searchsorted(b, y, "right" if right else "left") for b, y in zip(boundaries, x)]
    return np.stack(rows)


def gradient(x, spacing=None, dim=None, edge_order=1):
    found = np.gradient(x, *([] if spacing is None else [spacing]), axis=dim, edge_order=edge_order)
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def trapezoid(y, x=None, dx=1.0, dim=-1):
    return np.trapezoid(y, x, dx, dim)


def cumulative_trapezoid(y, x=None, dx=1.0, dim=-1):
    return scipy("integrate.cumulative_trapezoid")(y, x, dx, axis=dim)


def renorm(x, p, dim, maxnorm):
    others = tuple(d for d in range(x.ndim) if d != dim)
    norms = (np.abs(x) ** p).sum(axis=others, keepdims=True) ** (1 / p)
    return np.where(norms > maxnorm, x * maxnorm / (norms + 1e-7), x)  # 1e-7: as defined


def norm(x, p="fro", dim=None, keepdim=False, dtype=None):
    p = 2 if p == "fro" else p
    if p in (np.inf, -np.inf):
        return along(np.max if p > 0 else np.min)(np.abs(x), dim, keepdim)
    return np.sum(np.abs(x) ** p, axis=dim, keepdims=keepdim) ** (1 / p)


def pdist(x, p=2.0):
    i, j = np.triu_indices(len(x), 1)
    return norm(x[i] - x[j], p, 1)


def segments(data, reduce, lengths=None, axis=0, **_):
    ends = np.cumsum(lengths)
    f = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}[reduce]
    return np.stack([f(part, axis=0) for part in np.split(data, ends[:-1])])


def checks_mode(result, x, dim=-1, keepdim=False):
    values, at = result
    assert values.shape == at.shape and at.dtype == np.int64
    line, places = np.moveaxis(x, dim, -1), at if not keepdim else at.squeeze(dim)
    picked = np.take_along_axis(line, places[..., None], -1)[..., 0]
    np.testing.assert_array_equal(picked, values if not keepdim else values.squeeze(dim))
    for row_, value in zip(line.reshape(-1, line.shape[-1]), picked.reshape(-1)):
        found, counts = np.unique(row_, return_counts=True)
        assert value == found[np.argmax(counts)]


def hash_tensor(x):
    """The bits of all elements, as 64-bit numbers, exclusive-or'ed."""
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    return np.bitwise_xor.reduce(wide.view(np.uint64), axis=None)


LEVELS = K([[1.0, 2.0, 2.0, 3.0], [5.0, 4.0, 5.0, 4.0], [0.0, -1.0, -1.0, 0.0]])

ROWS = [
    reduction("sum", np.sum, cplx=True, ints="int64"),
    reduction("nansum", np.nansum, ints="int64"),
    reduction("mean", np.mean, cplx=True),
    row("nanmean", along(np.nanmean), c(N(3, 4)), c(N(3, 4), 1), c(N(3, 4), (0, 1), True), v(K([[1.0, np.nan], [3.0, 4.0]]), 0)),
    row("prod", along(np.prod), c(N(3, 4)), c(N(3, 4), 1), c(N(3, 4), -1, True), v(N(0, 3)), v(N(0, 3), 0), c(K([0.0, 2.0, 3.0])), c(K([[0.0, 2.0, 0.0]]), 1), c(C(3)), c(N()), ints="int64"),
    row("logsumexp", along(logsumexp), c(N(3, 4), 1), c(N(2, 3, 2), (0, 2), True), c(N(3), -1), v(K([-np.inf, 0.0]), 0), v(N(0, 3), 1)),
    reduction("all", np.all, lambda *s: Input("f", s, lambda r, s: r.integers(0, 4, s)), order=0, ints=None),
    reduction("any", np.any, lambda *s: Input("f", s, lambda r, s: r.integers(0, 2, s)), order=0),
    row("count_nonzero", lambda x, dim=None: np.count_nonzero(x, axis=dim), c(I(3, 4)), c(B(3, 4), 1), c(N(2, 3, 2), (0, 2)), c(I(0, 3), 0), c(N()), order=0),
    row("Tensor.sum_to_size", lambda x, *s: x.sum(0).sum(-1, keepdims=True), c(N(2, 3, 4), 3, 1)),
    row("amax", along(np.max), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(2, 3, 2), (0, 2), True), c(N()), v(N(0, 3), 1), v(K([1.0, np.nan])), ints=None, half=True),
    row("amin", along(np.min), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(2, 3, 2), (0, 2), True), c(N()), v(N(0, 3), 1), v(K([1.0, np.nan])), half=True),
    row("aminmax", lambda x, dim=None, keepdim=False: (along(np.min)(x, dim, keepdim), along(np.max)(x, dim, keepdim)), c(distinct(3, 4)), c(distinct(3, 4), dim=1), c(distinct(3, 4), dim=0, keepdim=True), c(N())),
    row("argmax", flat_arg(np.argmax), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(3, 4), 0, True), c(K([1, 3, 3])), c(N()), order=0, half=False),
    row("argmin", flat_arg(np.argmin), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(3, 4), 0, True), c(K([1, 3, 1])), c(N()), order=0),
    row("max", extreme(np.maximum, np.argmax), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(3, 4), 0, True), c(N(3), N(3)), c(N(3, 2), other=N(2)), v(K([2, 7, 7])), v(K([1.0, np.nan])), half=True),
    row("min", extreme(np.minimum, np.argmin), c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(3, 4), 0, True), c(N(3), N(3)), c(N(3, 2), other=N(2)), v(K([2, 7, 2])), v(K([1.0, np.nan])), half=True),
    row("hash_tensor", hash_tensor, c(N(3, 4)), c(I(5)), order=0, out=False, f32=False),
    # scans
    row("cumsum", axis(np.cumsum), c(N(3, 4), 0), c(N(3, 4), -1), c(N(2, 0), 1), c(C(3), 0), c(N(2, 3, 2), dim=1), ints="int64"),
    row("cumprod", axis(np.cumprod), c(N(3, 4), 0), c(N(3, 4), -1), c(N(2, 0), 1), c(C(3), 0), c(K([2.0, 0.0, 3.0, 0.0, 1.0]), 0), ints="int64"),
    row("logcumsumexp", lambda x, dim: np.logaddexp.accumulate(x, axis=dim), c(N(3, 4), 0), c(N(3, 4), 1), v(K([-np.inf, 0.0, 1.0]), 0)),
    row("cummax", running(np.maximum), c(distinct(3, 4), 0), c(distinct(3, 4), -1), v(I(6), 0)),
    row("cummin", running(np.minimum), c(distinct(3, 4), 0), c(distinct(3, 4), -1), v(I(6), 0)),
    row("segment_reduce", segments, *(c(distinct(6, 2), how, lengths=K([2, 1, 3])) for how in ("sum", "mean", "max", "min")), meta=False),
    # sorting
    row("sort", sort, c(distinct(3, 4)), c(distinct(3, 4), 0), c(distinct(3, 4), descending=True), c(I(9), stable=True), c(N()), c(N(2, 0)), out=True),
    row("argsort", lambda *a, **k: sort(*a, **k)[1], c(distinct(3, 4)), c(distinct(3, 4), 0, True), c(I(9), stable=True), c(I(7), descending=True, stable=True), order=0),
    row("msort", lambda x: np.sort(x, axis=0), c(distinct(3, 4)), c(distinct(5))),
    row("topk", topk, c(distinct(3, 4), 2), c(distinct(3, 4), 1, 0), c(distinct(5), 3, largest=False), c(distinct(3), 0), c(distinct(3), 3), check=topk_chosen),
    row("kthvalue", kth, c(distinct(3, 4), 2), c(distinct(3, 4), 1, 0), c(distinct(3, 4), 3, 1, True), half=False),
    row("median", lower_median, c(distinct(3, 4)), c(distinct(3, 4), 1), c(distinct(3, 5), 0, True), c(N(7))),
    row("nanmedian", nan_median, c(distinct(3, 4)), c(distinct(3, 4), 1), v(K([[1.0, np.nan, 3.0], [np.nan, 5.0, 4.0]]), 1)),
    row("mode", None, c(distinct(3, 4)), v(LEVELS, 1, True), c(I(20), 0), check=checks_mode),
    row("unique", unique, v(I(9)), v(I(3, 3), return_inverse=True), v(I(9), return_counts=True), v(K([[1, 2], [1, 2], [0, 3]]), dim=0), v(K([2.0, 1.0, 2.0])), order=0, meta=False),
    row("unique_consecutive", consecutive, v(K([1, 1, 2, 1, 1])), v(K([1, 1, 2, 1, 1]), return_inverse=True, return_counts=True), v(K([True, False, False])), order=0, meta=False),
    row("searchsorted", search, v(K([1.0, 2.0, 3.0]), N(4)), v(K([1, 2, 2, 3]), K([2, 0, 9]), right=True), v(K([[1, 3], [2, 4]]), K([[3, 0], [3, 5]])), order=0),
    row("bucketize", lambda x, b, **k: search(b, x, **k), v(N(4), K([-1.0, 0.0, 1.0])), v(K([2, 0]), K([1, 2, 2]), right=True), order=0),
    row("isin", lambda a, b, invert=False, **_: np.isin(a, b, invert=invert), v(I(9), I(3)), v(I(3, 3), I(2), invert=True), v(I(4), 2), order=0),
    # statistics
    row("std", spread(np.std), *SPREAD, half=True),
    row("var", spread(np.var), *SPREAD, c(C(3)), half=True),
    row("std_mean", with_mean(np.std), *SPREAD),
    row("var_mean", with_mean(np.var), *SPREAD),
    row("quantile", lambda x, q, dim=None, keepdim=False, interpolation="linear": np.quantile(x, q, axis=dim, keepdims=keepdim, method=interpolation),
        c(distinct(3, 4), 0.4), c(distinct(3, 5), K([0.1, 0.7]), 1), c(distinct(3, 5), 0.3, 0, True), *(c(distinct(7), 0.4, interpolation=i) for i in ("lower", "higher", "midpoint", "nearest")), order=2, half=False),
    row("nanquantile", lambda x, q, dim=None, keepdim=False: np.nanquantile(x, q, axis=dim, keepdims=keepdim), c(distinct(3, 4), 0.4), v(K([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]]), 0.3, 1), half=False),
    row("cov", lambda x, correction=1, fweights=None, aweights=None: np.cov(x, ddof=correction, fweights=fweights, aweights=aweights),
        c(N(3, 5)), c(N(5)), c(N(3, 5), correction=0), c(N(2, 4), fweights=K([1, 2, 1, 3])), c(N(2, 4), aweights=fixed(P(4))), c(C(2, 4)), meta=False),
    row("corrcoef", np.corrcoef, c(N(3, 5)), c(C(2, 4))),
    # histograms
    row("bincount", lambda x, w=None, minlength=0: np.bincount(x, w, minlength), v(K([0, 3, 1, 3])), v(K([0, 3, 1, 3]), N(4)), v(K([1]), minlength=5), order=0, meta=False, half=False),
    row("histc", lambda x, bins=100, min=0, max=0: np.histogram(x, bins, (min, max))[0].astype(float), v(N(50), 10, -2, 2), v(K([1.0, 2.0, 1.0]), 4, 0, 3), order=0),
    row("histogram", lambda x, bins, range=None, weight=None, density=False: (lambda h, e: (h.astype(float), e))(*np.histogram(x, bins, range, density, weight)),
        v(N(50), 10, range=(-2.0, 2.0)), v(N(20), K([-1.0, 0.0, 2.0])), v(N(20), 5, range=(-1.0, 1.0), density=True), order=0, meta=False),
    row("histogramdd", lambda x, bins, range=None: (lambda h, e: (h, list(e)))(*np.histogramdd(x, bins, list(zip(range[::2], range[1::2])))), v(N(30, 2), [3, 4], range=[-1.0, 1.0, -2.0, 2.0]), order=0, meta=False),
    # differences
    row("diff", lambda x, n=1, dim=-1, prepend=None, append=None: np.diff(x, n, dim, **{k: a for k, a in (("prepend", prepend), ("append", append)) if a is not None}),
        c(N(5)), c(N(3, 4), 2), c(N(3, 4), dim=0), c(N(3), prepend=N(1), append=N(2)), c(I(4)), c(C(4))),
    row("gradient", gradient, c(N(5)), c(N(3, 4)), c(N(5), spacing=0.5), c(N(3, 4), dim=0), c(N(6), edge_order=2)),
    row("trapezoid", trapezoid, c(N(5)), c(N(3, 4), dx=0.5), c(N(3, 4), N(4)), c(N(3, 4), dim=0), aka="trapz"),
    row("cumulative_trapezoid", cumulative_trapezoid, c(N(5)), c(N(3, 4), dx=0.5), c(N(3, 4), N(4)), c(N(3, 4), dim=0)),
    # distances
    row("dist", lambda x, y, p=2: norm(x - y, p), c(N(3, 4), N(3, 4)), c(N(3), N(3), 1), c(N(3), N(3), 3.5), c(N(2, 3), N(3)), c(distinct(4), N(4), np.inf)),
    row("norm", norm, c(N(3, 4)), c(N(3, 4), 1), c(N(3, 4), 3, 1), c(N(3, 4), 2, 0, True), c(distinct(5), np.inf), c(C(3))),
    row("renorm", renorm, c(N(3, 4), 2, 0, 1.0), c(N(3, 4), 1, 1, 2.0), c(N(2, 3, 2), 2.5, 1, 1.0)),
    row("cdist", lambda x, y, p=2.0: norm(x[..., :, None, :] - y[..., None, :, :], p, -1), c(N(3, 4), N(2, 4)), c(N(2, 3, 2), N(2, 4, 2), 1.0), c(N(3, 2), N(4, 2), 3.0), c(distinct(3, 4), N(2, 4), np.inf), order=2, half=False),
    row("pdist", pdist, c(N(4, 3)), c(N(4, 3), 1.0), c(N(4, 3), 3.0), aka="nn.functional.pdist"),
]  # fmt: skip
