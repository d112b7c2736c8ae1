"""Random sparse tensors, hybrid and empty ones too, do what their dense twins do, with the same gradients."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight._backends import sparse


def twins(rng):
    """(sparse tensor, its values, the dense twin, its values), of random shape and pattern."""
    ndim = rng.integers(1, 5)
    shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.05 else 1, 5, ndim))
    sparse_dim = int(rng.integers(1, ndim + 1))
    nnz = int(rng.integers(0, 7)) if all(shape[:sparse_dim]) else 0
    at = np.array([rng.integers(0, max(n, 1), nnz) for n in shape[:sparse_dim]], np.int64)
    at = at.reshape(sparse_dim, nnz)
    v = torch.tensor(rng.standard_normal((nnz, *shape[sparse_dim:])), requires_grad=True)
    s = torch.sparse_coo_tensor(torch.tensor(at), v, shape)
    w = v.detach().clone().requires_grad_()
    zeros = torch.zeros(shape, dtype=torch.float64)
    d = zeros.index_put(tuple(torch.tensor(i) for i in at), w, accumulate=True)
    return (s.coalesce() if rng.random() < 0.3 else s), v, d, w


def calls(rng, shape, sparse_dim):
    """Functions for tensors of that shape."""
    n = len(shape)
    k = int(rng.integers(0, n))
    perm = [*rng.permutation(sparse_dim), *(sparse_dim + rng.permutation(n - sparse_dim))]
    perm = [int(p) for p in perm]
    dims = tuple(int(i) for i in rng.choice(n, rng.integers(1, n + 1), replace=False))
    w = torch.tensor(rng.standard_normal(shape))
    yield lambda t: t.permute(*perm)
    yield lambda t: t.sum(dims)
    yield lambda t: t.sum(dims, keepdim=True)
    yield lambda t: t.sum()
    yield lambda t: t.unsqueeze(k)
    yield lambda t: torch.cat([t, t * 2, t], k)
    yield lambda t: torch.stack([t, t], k)
    yield lambda t: t * w
    yield lambda t: w + t
    yield lambda t: (t * 3 - t) / 2
    yield lambda t: t + t.clone()
    yield lambda t: t * t
    yield lambda t: t**2
    if shape[k]:
        index = torch.tensor(rng.integers(0, shape[k], int(rng.integers(1, 4))))
        place = int(rng.integers(-shape[k], shape[k]))
        yield lambda t: t.index_select(k, index)
        yield lambda t: t.select(k, place)
    if n == sparse_dim == 2:
        m = torch.tensor(rng.standard_normal((shape[1], 3)))
        yield lambda t: t @ m
        yield lambda t: m.t() @ t.t()
        yield lambda t: t @ t.t()
        yield lambda t: compressed(t, torch.sparse_csr) @ m
        yield lambda t: compressed(t, torch.sparse_csc) * 2
        yield lambda t: compressed(t, torch.sparse_csr).t()
    if n == sparse_dim == 3:
        batch = torch.tensor(rng.standard_normal((shape[0], shape[2], 2)))
        yield lambda t: torch.bmm(t, batch)


def compressed(t, layout):
    return t.to_sparse(layout=layout) if t.is_sparse else t


@pytest.mark.parametrize("seed", range(60))
def test_random_sparse_tensors(seed):
    rng = np.random.default_rng(seed)
    s, v, d, w = twins(rng)
    for function in calls(rng, tuple(s.shape), s.sparse_dim()):
        v.grad = w.grad = None
        got, want = function(s), function(d)
        if got.is_sparse and got.is_coalesced():
            a = got._array
            assert sparse.is_sorted(sparse.Coo(a.indices, a.values, a.shape))
        got = got.to_dense()
        torch.testing.assert_close(got, want)
        g = torch.tensor(rng.standard_normal(tuple(want.shape)))
        (got * g).sum().backward(retain_graph=True)
        (want * g).sum().backward(retain_graph=True)
        torch.testing.assert_close(v.grad, w.grad)
