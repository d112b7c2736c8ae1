"""torch.masked.MaskedTensor."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import rushlight as torch
from rushlight.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

X = torch.arange(6.0).reshape(2, 3)
M = torch.tensor([[True, False, True], [False, True, True]])


def content(t: MaskedTensor) -> list:
    """Nested lists with None for what is masked."""

    def nested(data, mask):
        if isinstance(data, list):
            return [nested(d, m) for d, m in zip(data, mask)]
        return data if mask else None

    return nested(t.get_data().tolist(), t.get_mask().tolist())


def test_making_and_printing():
    t = masked_tensor(X, M)
    assert is_masked_tensor(t)
    assert isinstance(t, torch.Tensor)
    assert (t.shape, t.dtype, t.numel()) == ((2, 3), torch.float32, 6)
    assert str(t) == (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [      --,   4.0000,   5.0000]\n  ]\n)"
    )
    assert repr(masked_tensor(torch.tensor(3), torch.tensor(False))) == "MaskedTensor(--, False)"
    assert repr(t.sum()) == "MaskedTensor( 11.0000, True)"
    assert t.to_tensor(7).tolist() == [[0, 7, 2], [7, 4, 5]]
    assert t.data.get_data() is not None
    for data, mask, error in (
        (X, M.float(), TypeError), (X, M[0], ValueError), (X, M[:, :2], ValueError), ([1], M, TypeError),
        (X, [True], TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            masked_tensor(data, mask)


def test_copies():
    t = masked_tensor(X, M, requires_grad=True)
    for other in (copy.deepcopy(t), copy.copy(t), pickle.loads(pickle.dumps(t))):
        assert content(other) == content(t)
        assert other.requires_grad
    assert copy.deepcopy(t).get_data() is not t.get_data()


def test_elementwise():
    t = masked_tensor(X, M)
    assert content(t + 1) == [[1, None, 3], [None, 5, 6]]
    assert content(2 * t) == content(t + t) == content(t + X) == [[0, None, 4], [None, 8, 10]]
    assert content(-t) == [[0, None, -2], [None, -4, -5]]
    assert content(t**2) == content(t.square()) == [[0, None, 4], [None, 16, 25]]
    assert content(t < 3) == [[True, None, True], [None, False, False]]
    assert content(torch.sqrt(t))[1][1] == 2
    assert content(t.long())[0] == [0, None, 2]
    u = masked_tensor(X, M)
    assert u.add_(1) is u
    assert content(u) == content(t + 1)
    with pytest.raises(ValueError, match="masks must match"):
        t + masked_tensor(X, ~M)
    with pytest.raises(TypeError, match="matmul"):
        t @ t


def test_reductions():
    t = masked_tensor(X, M)
    assert content(t.sum(1)) == [2, 9]
    assert content(torch.mean(t, 0)) == [0, 4, 3.5]
    assert content(t.prod(1)) == [0, 20]
    assert content(t.amin(1)) == [0, 4]
    assert content(t.amax(0)) == [0, 4, 5]
    assert content(t.sum(dim=1, keepdim=True)) == [[2], [9]]
    assert content(t.all()) is False
    assert content((t > 0).any(1)) == [True, True]
    nothing = masked_tensor(X, torch.tensor([[False] * 3, [True] * 3]))
    assert content(nothing.sum(1)) == [None, 12]
    assert content(t.softmax(1))[1][0] is None
    assert content(t.cumsum(1)) == [[0, None, 2], [None, 4, 9]]


def test_shapes():
    t = masked_tensor(X, M)
    assert content(t[0]) == [0, None, 2]
    assert content(t[:, 1:]) == [[None, 2], [4, 5]]
    assert content(t.T) == content(t.mT) == [[0, None], [None, 4], [2, 5]]
    assert content(t.view(6)) == content(t.flatten()) == [0, None, 2, None, 4, 5]
    assert content(torch.stack([t[0], t[1]])) == content(t)
    assert content(torch.where(M, t, t)) == content(t)
    assert [content(part) for part in t.unbind()] == content(t)
    assert t.unsqueeze(0).shape == (1, 2, 3)
    assert masked_tensor(torch.tensor(3.0), torch.tensor(True)).item() == 3
    for refused in (t.tolist, t.numpy):
        with pytest.raises(RuntimeError, match="not supported"):
            refused()


def test_gradients():
    d = X.clone().requires_grad_()
    t = as_masked_tensor(d, M)
    (t * t).sum().backward()
    assert content(d.grad) == [[0, None, 4], [None, 8, 10]]
    y = masked_tensor(X, M, requires_grad=True)
    assert y.requires_grad
    assert y.is_leaf
    (y.exp() / y).sum(1).sum().backward()  # nan only where the numbers count and it is right
    assert y.grad.get_mask().tolist() == M.tolist()
    found = content(y.grad)
    assert math.isnan(found[0][0])
    assert found[0][1] is None
    assert found[1][1] == pytest.approx(math.exp(4) * (1 / 4 - 1 / 16), rel=1e-5)
    y.grad = None
    (y * 3).backward(masked_tensor(torch.ones(2, 3), M))
    assert content(y.grad) == [[3, None, 3], [None, 3, 3]]
    with pytest.warns(UserWarning, match="not recommended to create a MaskedTensor"):
        assert not masked_tensor(d, M).requires_grad


def test_gradients_of_plain_tensors_are_masked():
    """What is masked stays out of them, be it nan."""
    x, d = X.clone().requires_grad_(), torch.tensor([[1.0, 0, 2], [0, 1, 4]], requires_grad=True)
    as_masked_tensor(x / d, M).sum().backward()
    assert content(x.grad) == [[1, None, 0.5], [None, 1, 0.25]]
    assert content(d.grad) == [[0, None, -0.5], [None, -4, -0.3125]]
    b = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    t = masked_tensor(X, M, requires_grad=True)
    product = t * b
    assert product.grad_fn.name() == "MulBackward0"
    product.sum().backward()
    assert content(b.grad) == [0, 4, 7]
    assert content(t.grad) == [[2, None, 4], [None, 3, 4]]
    (b * b).sum().backward()  # a plain gradient comes to a masked one, and the other way round
    assert content(b.grad) == [4, 10, 15]
    x.grad = torch.ones(2, 3)
    as_masked_tensor(x, M).sum().backward()
    assert content(x.grad) == [[2, None, 2], [None, 2, 2]]
    y = X.clone().requires_grad_()
    as_masked_tensor(
        y[:, 1:].expand(2, 2, 2), torch.tensor([[True, False], [False, False]]).expand(2, 2, 2)
    ).sum().backward()
    assert content(y.grad) == [[None, 2, None], [None, None, None]]
    z = X.clone().requires_grad_()
    as_masked_tensor(z.clamp(1, 4), M).sum().backward()
    assert content(z.grad) == [[0, None, 1], [None, 1, 0]]


def test_gradients_of_where_and_by_grad():
    a, c = masked_tensor(X, M, requires_grad=True), masked_tensor(X * 2, ~M, requires_grad=True)
    chosen = torch.where(M, a, c)
    assert bool(chosen.get_mask().all())
    chosen.sum().backward()
    assert content(a.grad) == [[1, None, 1], [None, 1, 1]]
    assert content(c.grad) == [[None, 1, None], [1, None, None]]
    (g,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
    assert content(g) == [[0, None, 12], [None, 48, 75]]
    (g,) = torch.autograd.grad(g.sum(), a)
    assert content(g) == [[0, None, 12], [None, 24, 30]]
    product = a * 2
    product.retain_grad()
    product.sum().backward()
    assert content(product.grad) == [[1, None, 1], [None, 1, 1]]


def test_no_memory_is_shared():
    t = masked_tensor(X, M)
    t.detach().add_(1)
    t[0].mul_(3)
    t.view(6).exp_()
    assert content(t) == [[0, None, 2], [None, 4, 5]]
    assert t.mul_(t) is t
    assert content(t) == [[0, None, 4], [None, 16, 25]]
    leaf = masked_tensor(X, M, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.add_(1)
    inner = leaf * 2
    inner.exp_().sum().backward()
    assert content(leaf.grad)[0][2] == pytest.approx(2 * math.exp(4), rel=1e-5)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse(layout):
    t = masked_tensor(X, M, requires_grad=True)
    s = t.to_sparse() if layout is torch.sparse_coo else t.to_sparse_csr()
    assert s.layout is layout
    assert (s.is_sparse, s.is_sparse_coo(), s.is_sparse_csr()) == (
        True, layout is torch.sparse_coo, layout is torch.sparse_csr,
    )  # fmt: skip
    assert str(s) == str(t)
    assert content((s * 2 + s).to_dense()) == [[0, None, 6], [None, 12, 15]]
    assert s.sum().item() == 11
    assert s.amax().item() == 5
    s.square().to_dense().sum().backward()
    assert content(t.grad) == [[0, None, 4], [None, 8, 10]]
    mask = s.get_mask()
    leaf = masked_tensor(X.sparse_mask(mask), mask, requires_grad=True)
    (leaf * 3).to_dense().sum().backward()
    assert leaf.grad.layout is layout
    assert content(leaf.grad.to_dense()) == [[3, None, 3], [None, 3, 3]]
    for refused in (leaf.contiguous, leaf.is_contiguous):
        with pytest.raises(ValueError, match="sparse data do not have is_contiguous"):
            refused()
    with pytest.raises(TypeError, match="over a dimension of a sparse"):
        leaf.sum(0)


def test_what_makes_none():
    coo = torch.eye(3).to_sparse()
    csc = torch.eye(3).to_sparse_csc()
    other = torch.eye(3).flip(0).bool()
    for data, mask, error, text in (
        (masked_tensor(X, M), M, TypeError, "data must be a Tensor"), (X, masked_tensor(X, M), TypeError, "mask must be"),
        (coo, torch.eye(3).bool(), TypeError, "must have the same layout"),
        (csc, csc.bool(), TypeError, "data layout of .*csc is not supported"),
        (coo, other.to_sparse(), ValueError, "do not have the same indices"),
        (torch.eye(3).to_sparse_csr(), other.to_sparse_csr(), ValueError, "do not share either crow or col"),
        (X.bfloat16(), M, TypeError, "bfloat16 is not supported"), (X.byte(), M, TypeError, "uint8 is not supported"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            masked_tensor(data, mask)
    with pytest.raises(ValueError, match="masked"):
        masked_tensor(torch.tensor(1.0), torch.tensor(False)).item()


def test_arguments_of_reductions():
    t = masked_tensor(X, M)
    assert content(t.sum(1, True)) == content(t.sum(dim=1, keepdim=True)) == [[2], [9]]
    assert content(t.norm(dim=1))[0] == 2
    assert content(torch.norm(t, 1, 1)) == [2, 9]
    assert t.mean(dtype=torch.float64).dtype is torch.float64
    assert float(t.sum()) == 11
    assert bool(t.sum() > 3)
