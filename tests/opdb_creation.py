"""Rows of creation, copying, conversion, random numbers and questions about a tensor."""

from __future__ import annotations

import itertools

import numpy as np

import rushlight
from opdb_rows import B, C, I, Input, K, N, P, U, c, fixed, row, v

F64 = rushlight.float64


def sizes(args):
    return args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args


def shaped(fill):
    return lambda *size, dtype=None, **_: np.full(sizes(size), fill, float)


def has_shape(result, *size, dtype=None, **_):
    assert result.shape == tuple(sizes(size)) and result.dtype.kind == "f"


def like(result, x, *size, dtype=None, **_):
    assert result.dtype == (x.dtype if dtype is None else dtype.np)
    assert result.shape == (tuple(sizes(size)) if size else x.shape)


def convert(kind):
    """`x.int()`: its dtype is asked of the operator's own test; the values are NumPy's."""
    return lambda x, *_: x.astype(kind)


def conversion(name, kind, **options):
    cases = (
        [c(U(1, 9)(3, 4)), c(U(1, 9)())]
        if options.get("order", 0)
        else [v(U(1, 9)(3, 4)), v(I(3, low=0))]
    )
    return row(
        "Tensor." + name,
        convert(kind),
        *cases,
        **({"order": 0, "casts": True, "view": None, "tol": 1e-2, "tol32": 1e-2} | options),
    )


def samples(low=-np.inf, high=np.inf, mean=None, std=None, kind="f", whole=False):
    """Random numbers: their range, and (of many) their mean and standard deviation within five errors."""

    def check(result, *args, **_):
        assert result.dtype.kind == kind
        assert ((result >= low) & (result <= high)).all()
        assert not whole or (result == np.rint(result)).all()
        n = result.size
        if n >= 1000 and mean is not None:
            assert abs(result.mean() - mean) < 5 * std / np.sqrt(n)
            assert abs(result.std() - std) < 0.1 * std

    return check


def of_shape(check):
    def both(result, *args, **_):
        assert result.shape == tuple(sizes([a for a in args if isinstance(a, int | tuple)]))
        check(result)

    return both


def inplace(name, check, *args, **options):
    """An in-place random function: the row's first case has enough elements for the moments."""
    return row(
        "Tensor." + name,
        None,
        v(N(40, 50), *args),
        v(N(), *args),
        v(N(0, 2), *args),
        check=check,
        order=0,
        writes=True,
        **options,
    )


def checks_permutation(result, n, **_):
    np.testing.assert_array_equal(np.sort(result), np.arange(n))


def checks_multinomial(result, p, n, replacement=False):
    assert result.dtype == np.int64 and result.shape == (*p.shape[:-1], n)
    for line, w in zip(result.reshape(-1, n), p.reshape(-1, p.shape[-1])):
        assert (w[line] > 0).all()
        assert replacement or len(set(line)) == n


def checks_bernoulli(result, p, q=None, **_):
    p = p if q is None else np.full(p.shape, q)
    assert set(np.unique(result)) <= {0, 1}
    if result.size > 1000:
        assert abs(result.mean() - p.mean()) < 0.06


def checks_normal(result, mean=0.0, std=1.0, size=None, **_):
    z = (result - mean) / std
    assert np.abs(z).max(initial=0) < 7
    if z.size > 1000:
        assert abs(z.mean()) < 0.15 and abs(z.std() - 1) < 0.15


def checks_poisson(result, rate):
    assert (result == np.rint(result)).all() and (result >= 0).all()
    if result.size > 1000:
        assert abs((result - rate).mean()) < 0.2


def checks_binomial(result, n, p):
    assert ((result >= 0) & (result <= n)).all() and (result == np.rint(result)).all()
    if result.size > 1000:
        assert abs((result - n * p).mean()) < 0.3


def fill_diagonal(x, value, wrap=False):
    out = x.copy()
    np.fill_diagonal(out, value, wrap)
    return out


def indices(f):
    return lambda row_, col, offset=0: np.stack(f(row_, offset, col))


def logspace(a, b, n, base=10.0, dtype=None):
    return np.logspace(a, b, n, base=base)


def ctc(x, targets, lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Minus the logarithm of the sum over all alignments, each a way to stretch the target: by enumeration."""
    reduction = {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
    found = []
    for n in range(x.shape[1]):
        want, total = list(targets[n][: target_lengths[n]]), 0.0
        for path in itertools.product(range(x.shape[2]), repeat=int(lengths[n])):
            if [k for k, _ in itertools.groupby(path) if k != blank] == want:
                total += np.exp(sum(x[t, n, k] for t, k in enumerate(path)))
        found.append(-np.log(total))
    found = np.array(found)
    if reduction == "none":
        return found
    return found.sum() if reduction == "sum" else (found / np.asarray(target_lengths)).mean()


def log_probabilities(*shape):
    def draw(rng, s):
        z = rng.standard_normal(s)
        return z - np.log(np.exp(z).sum(-1, keepdims=True))

    return Input("f", shape, draw)


def nonzero_static(x, *, size, fill_value=-1):
    found = np.argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)]).astype(
        np.int64
    )


def answer(name, ref, *cases, **options):
    return row(
        name, ref, *cases, order=0, out=False, casts=True, f32=False, strided=False, **options
    )


CTC = (log_probabilities(4, 2, 3), K([[1, 2], [2, 2]]), (4, 4), (2, 1))

ROWS = [
    # creation
    row("zeros", shaped(0), v(2, 3, dtype=F64), v((2,), dtype=F64), v(0, dtype=F64), order=0, out=False),
    row("ones", shaped(1), v(2, 3, dtype=F64), v((2,), dtype=F64), order=0, out=False),
    row("full", lambda size, value, dtype=None: np.full(size, value), v((2, 3), 2.5, dtype=F64), v((2,), 3), v((), True), order=0, out=False),
    row("zeros_like", lambda x, **_: np.zeros_like(x), v(N(2, 3)), v(I(3)), v(N()), order=0),
    row("ones_like", lambda x, **_: np.ones_like(x), v(N(2, 3)), v(I(3)), v(N()), order=0),
    row("full_like", lambda x, value: np.full_like(x, value), v(N(2, 3), 2.5), v(I(3), 4), order=0),
    row("empty", None, v(2, 3), v((0, 2)), check=has_shape, order=0, out=False, strided=False),
    row("empty_like", None, v(N(2, 3)), v(I(3)), check=like, order=0, strided=False, f32=False),
    row("empty_strided", None, v((2, 3), (1, 2)), check=lambda r, size, stride: has_shape(r, size), order=0),
    row("empty_permuted", None, v((2, 3), (1, 0)), check=lambda r, size, layout: has_shape(r, size), order=0),
    row("Tensor.new_zeros", lambda x, *s: np.zeros(sizes(s), x.dtype), v(N(3), 2, 3), v(I(3), (2,)), order=0),
    row("Tensor.new_ones", lambda x, *s: np.ones(sizes(s), x.dtype), v(N(3), 2, 3), v(I(3), (2,)), order=0),
    row("Tensor.new_full", lambda x, s, value: np.full(s, value, x.dtype), v(N(3), (2, 3), 2.5), v(I(3), (2,), 4), order=0),
    row("Tensor.new_empty", None, v(N(3), 2, 3), v(I(3), (2,)), check=like, order=0, strided=False, f32=False),
    row("Tensor.new_empty_strided", None, v(N(3), (2, 3), (1, 2)), check=lambda r, x, size, stride: like(r, x, size), order=0, strided=False, f32=False),
    row("Tensor.new_tensor", lambda x, data: np.array(data, x.dtype), v(N(3), [1.0, 2.0]), v(I(3), [1, 2]), order=0),
    row("Tensor.new", None, v(N(3), 2, 3), check=like, order=0, strided=False, f32=False, meta=False),
    row("tensor", lambda data, dtype=None: np.array(data), v([1.0, 2.0]), v([[1, 2], [3, 4]]), v(True), v(2.5), v([1j, 2.0]), v([], dtype=F64), order=0),
    row("as_tensor", lambda data, dtype=None: np.array(data), v([1.0, 2.0]), v([1, 2]), c(N(3)), order=2, view=None, half=False),
    row("asarray", lambda data: np.array(data), v([1.0, 2.0]), v([1, 2]), c(N(3)), order=2, view=None, warns=True, half=False),
    row("scalar_tensor", lambda s, dtype=None: np.array(float(s)), v(2.5), v(3, dtype=F64), order=0),
    row("arange", lambda *a, dtype=None: np.arange(*a), v(5), v(1, 7, 2), v(0.5, 2.0, 0.5), v(5, 0, -2), v(0), order=0, out=False),
    row("range", lambda a, b, s=1: np.arange(a, b + s / 2, s, float), v(1, 4), v(0.5, 2.0, 0.5), order=0, out=False, warns=True),
    row("linspace", lambda a, b, n, dtype=None: np.linspace(a, b, n), v(0, 1, 5, dtype=F64), v(3.0, -1.0, 4, dtype=F64), v(2.0, 3.0, 1, dtype=F64), v(K(0.0), K(2.0), 3, dtype=F64), order=0, out=False, f32=False, meta=False),
    row("logspace", logspace, v(0, 1, 5, dtype=F64), v(-1.0, 2.0, 4, 2.0, dtype=F64), order=0, out=False),
    row("eye", lambda n, m=None, dtype=None: np.eye(n, m), v(3), v(2, 4, dtype=F64), v(0), order=0, out=False),
    row("tril_indices", indices(np.tril_indices), v(3, 4), v(3, 3, 1), v(4, 2, -1), order=0),
    row("triu_indices", indices(np.triu_indices), v(3, 4), v(3, 3, 1), v(4, 2, -1), order=0),
    row("complex", lambda a, b: a + 1j * b, c(N(3, 4), N(4)), c(N(), N()), half=False),
    row("polar", lambda r, a: r * np.exp(1j * a), c(P(3, 4), N(4)), half=False),
    # copies and conversions
    row("clone", lambda x: x, c(N(3, 4)), c(C(3)), c(N()), c(N(0, 2)), half=True),
    row("detach", lambda x: x, v(N(3, 4)), order=0, view=True),
    row("detach_", lambda x: x, v(N(3, 4)), order=0, writes=True),
    row("Tensor.contiguous", lambda x: x, c(N(3, 4)), view=None),
    row("Tensor.to", lambda x, dtype: x.astype(dtype), c(N(3), rushlight.float32), c(N(3), F64), v(N(3), rushlight.int64), view=None, casts=True, tol=1e-6, order=0, half=False),
    row("Tensor.type", lambda x, t: x.astype(t), v(N(3), rushlight.int32), v(N(3), rushlight.float32), view=None, casts=True, order=0, tol=1e-6, half=False),
    row("Tensor.type_as", lambda x, y: x.astype(y.dtype), c(N(3), fixed(N(2))), v(N(3), I(2)), view=None),
    row("Tensor.cpu", lambda x: x, c(N(3)), view=None, meta=False),
    row("Tensor.to_dense", lambda x: x, c(N(3)), view=None),
    conversion("double", np.float64, order=2),
    conversion("float", np.float32),
    conversion("half", np.float16),
    conversion("bfloat16", np.float32),
    conversion("bool", bool),
    conversion("byte", np.uint8),
    conversion("char", np.int8),
    conversion("short", np.int16),
    conversion("int", np.int32),
    conversion("long", np.int64),
    conversion("cfloat", np.complex64),
    conversion("cdouble", np.complex128),
    row("Tensor.copy_", lambda x, y: np.broadcast_to(y, x.shape).astype(x.dtype), c(N(3, 4), N(4)), c(N(3), N()), v(N(3), I(3)), writes=True),
    row("fill", lambda x, value: np.full_like(x, value), c(N(3, 4), 2.5), c(N(3), N())),
    row("fill_", lambda x, value: np.full_like(x, value), c(N(3, 4), 2.5), c(N(3), N()), writes=True),
    row("zero_", np.zeros_like, c(N(3, 4)), writes=True),
    row("Tensor.fill_diagonal_", fill_diagonal, c(N(3, 4), 2.5), c(N(5, 2), 1.0, True), writes=True),
    row("Tensor.apply_", lambda x, f: np.vectorize(f, otypes=[float])(x), v(N(3), lambda x: 2 * x + 1), order=0, writes=True),
    row("Tensor.map_", lambda x, y, f: np.vectorize(f, otypes=[float])(x, y), v(N(3), N(3), lambda x, y: x - 2 * y), order=0, writes=True),
    row("Tensor.map2_", lambda x, y, z, f: np.vectorize(f, otypes=[float])(x, y, z), v(N(3), N(3), N(3), lambda x, y, z: x * y + z), order=0, writes=True),
    row("nonzero_static", nonzero_static, v(I(3, 3), size=4), v(B(5), size=9, fill_value=7), order=0, meta=False),
    row("unravel_index", lambda i, shape: list(np.unravel_index(i, shape)), v(K([5, 2, 0]), (2, 3)), v(K([[7]]), (2, 2, 2)), order=0),
    # random numbers
    row("rand", None, v(40, 50), v((2, 3)), check=of_shape(samples(0, 1, 0.5, 12**-0.5)), order=0, out=False),
    row("randn", None, v(40, 50), v((2, 3)), check=of_shape(samples(-7, 7, 0.0, 1.0)), order=0, out=False),
    row("randint", None, v(-2, 3, (40, 50)), check=samples(-2, 2, 0.0, 2**0.5, "i"), order=0, out=False),
    row("rand_like", None, v(N(40, 50)), check=samples(0, 1, 0.5, 12**-0.5), order=0),
    row("randn_like", None, v(N(40, 50)), check=samples(-7, 7, 0.0, 1.0), order=0),
    row("randint_like", None, v(I(40, 50), -2, 3), check=samples(-2, 2, 0.0, 2**0.5, "i"), order=0),
    row("randperm", None, v(17), v(0), check=checks_permutation, order=0, out=False),
    row("bernoulli", None, v(U(0, 1)(50, 40)), v(N(50, 40), 0.3), check=checks_bernoulli, order=0, method=False, out=False),
    row("multinomial", None, v(P(6), 3), v(K([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0]]), 2), v(P(4), 50, True), check=checks_multinomial, order=0, strided=False),
    row("normal", None, v(N(40, 50), P(40, 50)), v(N(40, 50), 2.0), v(1.0, P(40, 50)), v(0.5, 2.0, (30, 40)), check=checks_normal, order=0, out=False, casts=True, half=False),
    row("poisson", None, v(U(0.5, 20)(40, 50)), v(N(0)), check=checks_poisson, order=0),
    row("binomial", None, v(fixed(K(np.full((40, 50), 10.0))), U(0, 1)(40, 50)), check=checks_binomial, order=0, half=False),
    inplace("uniform_", samples(-1, 3, 1.0, 4 * 12**-0.5), -1.0, 3.0),
    inplace("normal_", samples(-30, 30, 1.0, 2.0), 1.0, 2.0),
    inplace("exponential_", samples(0, np.inf, 0.5, 0.5), 2.0),
    inplace("geometric_", samples(1, np.inf, 2.0, 2**0.5, whole=True), 0.5),
    inplace("log_normal_", samples(0), 0.0, 0.5),
    inplace("cauchy_", samples(), 0.0, 1.0),
    inplace("bernoulli_", samples(0, 1, 0.3, 0.21**0.5, whole=True), 0.3),
    inplace("random_", samples(2, 6, 4.0, 2**0.5, whole=True), 2, 7),
    # questions
    answer("is_complex", np.iscomplexobj, v(N(2)), v(C(2)), v(I(2))),
    answer("is_floating_point", lambda x: x.dtype.kind == "f", v(N(2)), v(C(2)), v(I(2))),
    answer("is_signed", lambda x: x.dtype.kind != "u", v(N(2)), v(I(2, dtype=np.uint8, low=0))),
    answer("is_conj", lambda x: False, v(N(2)), v(C(2)), aka="is_neg is_inference is_distributed Tensor.is_distributed"),
    answer("is_nonzero", bool, v(K(2.0)), v(K([0])), aka="Tensor.is_nonzero", meta=False),
    answer("is_same_size", lambda x, y: x.shape == y.shape, v(N(2), N(2)), v(N(2), N(1, 2)), aka="Tensor.is_same_size"),
    answer("is_tensor", lambda x: isinstance(x, np.ndarray), v(N(2)), v(2.5)),
    answer("is_storage", lambda x: False, v(N(2)), v(2.5)),
    answer("numel", np.size, v(N(2, 3)), v(N()), v(N(0))),
    answer("get_device", lambda x: -1, v(N(2))),
    answer("result_type", lambda x, y: {("i", "f"): rushlight.float64, ("i", "i"): rushlight.int64, ("i", float): rushlight.float32}[x.dtype.kind, y.dtype.kind if isinstance(y, np.ndarray) else type(y)], v(I(2), K([1.0])), v(I(2), I(2)), v(I(2), 2.5)),
    answer("Tensor.dense_dim", np.ndim, v(N(2, 3)), v(N())),
    answer("Tensor.sparse_dim", lambda x: 0, v(N(2, 3))),
    answer("Tensor.dim_order", lambda x: tuple(range(x.ndim)), v(N(2, 3, 4)), v(N(2))),
    answer("Tensor.is_set_to", lambda x, y: False, v(N(2), N(2))),
    # in place, and others
    *(row(name, ref, c(N(3, 4), *a), writes=True) for name, ref, a in [
        ("nn.functional.elu_", lambda x, alpha=1.0: np.where(x > 0, x, alpha * (np.exp(x) - 1)), ()), ("nn.functional.hardtanh_", lambda x, a=-1.0, b=1.0: np.clip(x, a, b), (-0.5, 0.5)),
        ("nn.functional.leaky_relu_", lambda x, s=0.01: np.where(x > 0, x, s * x), (0.2,)), ("threshold_", lambda x, t, value: np.where(x > t, x, value), (0.1, 2.0))]),
    row("nn.functional.ctc_loss", ctc, *(c(*CTC, reduction=r) for r in ("mean", "sum", "none")), order=1, out=False, tol=1e-8, through=lambda x: x.log_softmax(-1), half=False),
    row("ctc_loss", lambda *args: ctc(*args[:4], *args[4:5] or (0,), *args[5:] or (0,)), c(*CTC), c(*CTC, 0, 1), c(*CTC, 0, 2), order=1, out=False, tol=1e-8, through=lambda x: x.log_softmax(-1), half=False),
]  # fmt: skip
