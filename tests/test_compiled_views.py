"""Copies in machine code, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends import llvm
from rushlight._backends.llvm import pad, views
from rushlight._backends.reference import views as reference

DTYPES = [np.dtype(t) for t in (bool, np.int16, np.float32, np.int64, np.complex128)]
sizes = st.sampled_from([1, 2, 3, 4, 15, 16, 17, 33, 40])


@pytest.fixture(autouse=True, scope="module")
def of_any_size():
    llvm.activate()
    before, views.BYTES = views.BYTES, 1
    yield
    views.BYTES = before


def some(rng, shape, dtype):
    return guarded(rng.integers(-90, 90, shape).astype(dtype), rng.choice(["after", "before"]))


def seen(rng, a):
    """A view of an array, by transposing, slicing, turning round and repeating."""
    a = a.transpose(rng.permutation(a.ndim))
    key = []
    for n in a.shape:
        step = int(rng.choice([1, 1, 1, 2, -1, -2]))
        key.append(slice(int(rng.integers(0, n)) if step > 0 else None, None, step))
    a = a[tuple(key)]
    if rng.integers(4) == 0:
        at = int(rng.integers(0, a.ndim + 1))
        a = np.broadcast_to(
            np.expand_dims(a, at), (*a.shape[:at], int(rng.integers(1, 20)), *a.shape[at:])
        )
    return a


@given(shape=st.lists(sizes, min_size=1, max_size=4).map(tuple), seed=st.integers(0, 9999))
@settings(max_examples=300, deadline=None)
def test_copies(shape, seed):
    rng = np.random.default_rng(seed)
    while np.prod(shape) > 40000:
        shape = shape[1:]
    a = seen(rng, some(rng, shape, DTYPES[seed % len(DTYPES)]))
    r = views.row_major(a)
    assert np.array_equal(r, a) and r.flags.c_contiguous and not np.may_share_memory(r, a)
    # into a part of an array, in any order of dimensions, the rest of which stays
    order = rng.permutation(a.ndim)
    whole = some(rng, tuple(a.shape[d] + 2 * rng.integers(2) for d in order), a.dtype)
    part = tuple(slice(m - a.shape[d], None) for m, d in zip(whole.shape, order, strict=True))
    want, back = whole.copy(), np.argsort(order)
    want[part].transpose(back)[...] = a
    views.copy_into(whole[part].transpose(back), a)
    assert np.array_equal(whole, want)


def test_elements_that_share_memory_are_the_references():
    out = np.lib.stride_tricks.as_strided(np.zeros(20), (10, 10), (8, 8))
    copy = views.COPY[out.dtype]
    assert copy(out, np.ones((10, 10)).T) is None
    shared = np.lib.stride_tricks.as_strided(np.zeros(4), (4, 4), (0, 8))
    assert copy(shared, np.ones((4, 4)).T) is None
    a = np.arange(20.0)
    assert (
        copy(a[1:], a[:-1]) is None and copy(a[::-1], a) is None and copy(a[::2], a[1::2]) is None
    )
    assert a.tolist() == list(range(20))
    assert copy(a[10:], a[:10]) is True and a[10:].tolist() == a[:10].tolist()


@given(shape=st.lists(sizes, min_size=0, max_size=4).map(tuple), seed=st.integers(0, 9999))
@settings(max_examples=200, deadline=None)
def test_copies_are_broadcast(shape, seed):
    rng = np.random.default_rng(seed)
    while np.prod(shape) > 40000:
        shape = shape[1:]
    out = some(rng, shape, DTYPES[seed % 4])
    own = tuple(1 if rng.integers(2) else n for n in shape)[int(rng.integers(0, len(shape) + 1)) :]
    a = some(rng, own, out.dtype)
    assert views.COPY[out.dtype](out, a) is True
    assert np.array_equal(out, np.broadcast_to(a, shape))
    with pytest.raises(ValueError):
        views.copy_into(out, some(rng, (2, *shape), out.dtype))


@given(
    shape=st.lists(sizes, min_size=1, max_size=3).map(tuple),
    data=st.data(),
    seed=st.integers(0, 999),
)
@settings(max_examples=100, deadline=None)
def test_joined_rolled_and_tiled(shape, data, seed):
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for n in data.draw(st.lists(sizes, min_size=1, max_size=3)):
        own = list(shape)
        own[axis] = n
        parts.append(some(rng, own, dtype))
    parts[-1] = np.asfortranarray(parts[-1])
    r = views.cat(parts, axis)
    assert np.array_equal(r, np.concatenate(parts, axis)) and r.flags.c_contiguous
    whole = [np.ascontiguousarray(a) for a in parts]
    for some_parts in (whole, [guarded(a) for a in whole], parts, [a.T.copy().T for a in parts]):
        got = views.cat_contiguous(some_parts, axis)
        if r.size and dtype.itemsize < 16:
            assert np.array_equal(got, r) and got.flags.c_contiguous
        got = torch.cat([torch.from_numpy(a) for a in some_parts], axis)
        assert np.array_equal(got.numpy(), r) and got.is_contiguous()
    pair = whole[0], whole[0][::-1].copy()
    stacked = torch.stack([torch.from_numpy(a) for a in pair], axis).numpy()
    assert np.array_equal(stacked, np.stack(pair, axis))
    for own in ([a.T for a in pair], [np.broadcast_to(a[:1], a.shape) for a in pair]):
        if (got := views.stack_contiguous(own, axis)) is not None:
            assert np.array_equal(got, np.stack(own, axis)) and got.flags.c_contiguous
    dims = tuple(data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=3)))
    shifts = tuple(int(rng.integers(-50, 50)) for _ in dims)
    a = parts[0]
    assert np.array_equal(views.roll(a, shifts, dims), np.roll(a, shifts, dims))
    repeats = tuple(int(rng.integers(0, 4)) for _ in range(a.ndim + seed % 2))
    assert np.array_equal(views.tile(a, repeats), np.tile(a, repeats))


@given(shape=st.tuples(sizes, sizes, sizes), k=st.integers(-50, 50), lower=st.booleans())
@settings(max_examples=60, deadline=None)
def test_triangle(shape, k, lower):
    a = some(np.random.default_rng(k + 50), shape, DTYPES[k % 4])
    for b in (a, a.transpose(0, 2, 1)):
        assert np.array_equal(views.triangle(b, k, lower), reference.triangle(b, k, lower))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int64"])
def test_pads(mode, dtype):
    x = torch.arange(3 * 70 * 90).reshape(1, 3, 70, 90).to(getattr(torch, dtype))
    for pads in ((2, 3, 1, 0), (0, 5), (1, 1, 1, 1), (0, 0, 4, 0), (2, 1, 0, 3, 1, 1)):
        if mode != "constant" and len(pads) != 4:
            continue
        options = {"value": 7} if mode == "constant" else {}
        r = torch.nn.functional.pad(x, pads, mode, **options)
        width = [(0, 0)] * (4 - len(pads) // 2) + [
            (pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)
        ]
        names = {"replicate": "edge", "circular": "wrap"}
        values = {"constant_values": 7} if mode == "constant" else {}
        want = np.pad(x.to(torch.float64).numpy(), width, names.get(mode, mode), **values)
        assert np.array_equal(r.to(torch.float64).numpy(), want)


def test_nothing_is_shared_and_order_is_kept():
    x = torch.randn(300, 400)
    assert x.flip(0).flip(0).equal(x) and x[:1].flip(0).data_ptr() != x.data_ptr()
    y = torch.randn(4, 30, 40, 50).to(memory_format=torch.channels_last)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert y.clone().is_contiguous(memory_format=torch.channels_last) and y.clone().equal(y)
    assert y.contiguous().equal(y) and y.contiguous().is_contiguous()
    z = torch.zeros(400, 300)
    z.copy_(x.t())
    assert z.equal(x.t())
    z[1:] = z[:-1].clone()
    z.t().copy_(x)
    assert z.t().equal(x)
    w = torch.arange(40000).reshape(200, 200)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        w.copy_(w.t())  # onto its own memory
    assert w.equal(torch.arange(40000).reshape(200, 200))


@given(
    shape=st.lists(sizes, min_size=1, max_size=4).map(tuple),
    mode=st.sampled_from(["constant", "reflect", "replicate", "circular"]),
    data=st.data(),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_edges(shape, mode, data, seed):
    rng = np.random.default_rng(seed)
    while np.prod(shape) > 20000:
        shape = shape[1:]
    x = some(rng, shape, DTYPES[seed % 4])
    k = data.draw(st.integers(1, min(3, x.ndim)))
    most = [n - 1 if mode == "reflect" else n for n in shape[-k:]]
    pads = [(int(rng.integers(0, n + 1)), int(rng.integers(0, n + 1))) for n in most]
    r = pad.pad_constant(x, pads, 3) if mode == "constant" else pad.pad_edges(x, pads, mode)
    names = {"replicate": "edge", "circular": "wrap"}
    values = {"constant_values": 3} if mode == "constant" else {}
    want = np.pad(x, [(0, 0)] * (x.ndim - k) + pads, names.get(mode, mode), **values)
    assert np.array_equal(r, want)
    if mode == "constant":
        cut = [(-low, -high) for low, high in pads]
        assert np.array_equal(pad.pad_constant(r, cut, 0), x)
    else:  # the transpose: both sides are sums of the same products of whole numbers
        a, g = x.real.astype(np.float64), rng.integers(-9, 9, r.shape).astype(np.float64)
        back = pad.pad_edges_adjoint(g, pads, x.shape[x.ndim - k :], mode)
        assert back.shape == x.shape
        assert (pad.pad_edges(a, pads, mode) * g).sum() == (a * back).sum()


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("ndim", [4, 5])
def test_edges_of_other_layouts(mode, ndim):
    x = torch.arange(6 * 4 ** (ndim - 2)).float().reshape(2, 3, *[4] * (ndim - 2))
    last = x.to(memory_format=torch.channels_last if ndim == 4 else torch.channels_last_3d)
    pads = (1, 2, 2, 0, 1, 3)[: 2 * ndim - 4]
    for y in (last, x.transpose(2, 3).contiguous().transpose(2, 3)):
        x.requires_grad_()
        y = y.detach().requires_grad_()
        r, want = (torch.nn.functional.pad(a, pads, mode) for a in (y, x))
        assert r.equal(want)
        (r * r).sum().backward()
        (want * want).sum().backward()
        assert y.grad.equal(x.grad)
        x = x.detach()
    if mode != "circular":
        form = torch.channels_last if ndim == 4 else torch.channels_last_3d
        assert torch.nn.functional.pad(last, pads, mode).is_contiguous(memory_format=form)


def test_lists_are_looked_at_first():
    """Whatever stands in a list, or is no list: the general way, or NumPy's."""
    a = np.ones((3, 4), np.float32)
    cat, stack = views.CAT[a.dtype], views.STACK[a.dtype]
    assert cat([a, a], 1).shape == (3, 8) and stack([a, a], -1).shape == (3, 4, 2)
    for others in (
        [], (a, a), [a, None], [a, 1.0], [a, a.astype("f8")], [a, a.T], [a, a[:, :3].T], [a, a[0]], [a, [a]],
        [a, np.float32(1)], [np.float32(1)], [np.ones((), a.dtype)], [a[None][None], a], None, {0: a}, [a[:0]],
    ):  # fmt: skip
        assert cat(others, 0) is None
    assert cat([a], 2) is None and cat([a], -3) is None and stack([a], 3) is None
    assert cat([a], None) is None and cat([a], 1.0) is None and cat([a]) is None
    assert cat([a, a[:2]], 0).shape == (5, 4) and stack([a, a[:2]], 0) is None


READS = {  # of rows of numbers [6, 5] and indices [6] of columns
    "argmax": lambda x, i: x.argmax(1),
    "clone": lambda x, i: x.clone(),
    "cross_entropy": lambda x, i: torch.nn.functional.cross_entropy(x, i),
    "cross_entropy, smoothed": lambda x, i: torch.nn.functional.cross_entropy(x, i, label_smoothing=0.1),
    "zeros_like": lambda x, i: torch.zeros_like(x),
    "gather": lambda x, i: x.gather(1, i[:, None]),
    "index_select": lambda x, i: x.index_select(1, i),
    "indices": lambda x, i: x[:, i],
    "indices in pairs": lambda x, i: x[torch.arange(6), i],
    "log_softmax": lambda x, i: x.log_softmax(1),
    "logsumexp": lambda x, i: x.logsumexp(1),
    "mean": lambda x, i: x.mean(0),
    "median": lambda x, i: x.median(1).values,
    "nansum": lambda x, i: x.nansum(1),
    "nll_loss": lambda x, i: torch.nn.functional.nll_loss(x, i),
    "norm": lambda x, i: x.norm(dim=1),
    "prod": lambda x, i: x.prod(1),
    "sum": lambda x, i: x.sum(1),
    "topk": lambda x, i: x.topk(2, 1).values,
    "var": lambda x, i: x.var(0),
    "var of both": lambda x, i: x[:, None].var((0, 2)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", READS)
def test_gaps_between_numbers_and_indices(name, dtype):
    """Small arrays with gaps are copied for kernels: the results, their layout and the gradients are those of copies."""
    torch.manual_seed(0)
    x = torch.randn(6, 5, 7).to(getattr(torch, dtype))[:, :, 3]
    i = torch.randint(0, 5, (6, 4))[:, 1]
    a, b = x.detach().requires_grad_(), x.contiguous().requires_grad_()
    got, want = READS[name](a, i), READS[name](b, i.contiguous())
    close = {"rtol": 0.01, "atol": 0.01} if dtype == "bfloat16" else {}
    torch.testing.assert_close(got, want, **close)
    assert got.stride() == want.stride()
    if want.requires_grad:
        got.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(a.grad, b.grad, **close)


@pytest.mark.parametrize("a", [1, 0.5, 7])
@pytest.mark.parametrize("b", [0, 2.0])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_where_of_two_numbers(a, b, shape):
    condition = torch.ones(shape, dtype=torch.bool)
    got = torch.where(condition, a, b)
    both_whole = isinstance(a, int) and isinstance(b, int)
    assert got.dtype is (torch.int64 if both_whole else torch.float32)
    assert got.equal(torch.full(shape, a, dtype=got.dtype))
    assert torch.where(~condition, a, b).equal(torch.full(shape, b, dtype=got.dtype))
