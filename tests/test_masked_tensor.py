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
    assert d.grad.tolist() == [[0, 0, 4], [0, 8, 10]]
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
    assert not masked_tensor(d, M).requires_grad
