"""Sparse gradients: of embeddings and bags, added up, and in the optimizers that take them."""

from __future__ import annotations

import pytest

import rushlight as torch
from processes import printed


def test_embedding_gradients_are_sparse():
    e = torch.nn.Embedding(5, 2, padding_idx=1, sparse=True)
    e(torch.tensor([[0, 2], [1, 0]])).sum().backward()
    g = e.weight.grad
    assert g.is_sparse and g._indices().tolist() == [[0, 2, 0]] and g.shape == (5, 2)
    assert g.to_dense()[:, 0].tolist() == [2, 0, 1, 0, 0]
    e(torch.tensor([3])).sum().backward()  # sparse and sparse
    assert e.weight.grad.is_sparse and e.weight.grad.to_dense()[:, 0].tolist() == [2, 0, 1, 1, 0]
    e.weight.sum().backward()  # sparse and dense
    assert not e.weight.grad.is_sparse and e.weight.grad[:, 0].tolist() == [3, 1, 2, 2, 1]
    dense = e.weight.grad
    e(torch.tensor([3])).sum().backward()  # dense and sparse
    assert e.weight.grad is dense and dense[:, 0].tolist() == [3, 1, 2, 3, 1]
    e.zero_grad(set_to_none=False)
    (e(torch.tensor([3])).sum() + e.weight.sum()).backward()  # both in one walk
    assert e.weight.grad[:, 0].tolist() == [1, 1, 1, 2, 1]
    scaled = torch.nn.functional.embedding(
        torch.tensor([0]), e.weight, scale_grad_by_freq=True, sparse=True
    )
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported"):
        scaled.sum().backward()


def test_the_first_sparse_tensor_may_arise_in_a_backward():
    program = (
        "import rushlight as torch\n"
        "e = torch.nn.Embedding(3, 1, sparse=True)\n"
        "(e(torch.tensor([2])).sum() + e.weight.sum()).backward()\n"
        "assert e.weight.grad.tolist() == [[1], [1], [2]]\n"
    )
    printed(program)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode):
    index, offsets = torch.tensor([0, 1, 2, 1, 3]), torch.tensor([0, 2, 2])
    grads = []
    for sparse in (True, False):
        torch.manual_seed(0)
        b = torch.nn.EmbeddingBag(4, 3, mode=mode, sparse=sparse, padding_idx=3)
        b(index, offsets).pow(2).sum().backward()
        assert b.weight.grad.is_sparse is sparse
        grads.append(b.weight.grad)
    torch.testing.assert_close(grads[0].to_dense(), grads[1])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ],
)
def test_optimizers_step_as_with_dense_gradients(name, settings):
    weights = []
    for sparse in (True, False):
        torch.manual_seed(0)
        e = torch.nn.Embedding(6, 3, sparse=sparse)
        optimizer = getattr(torch.optim, name)(e.parameters(), **settings)
        for k in range(4):
            optimizer.zero_grad()
            e(torch.tensor([k, 1, 1])).sin().sum().backward()
            optimizer.step()
        weights.append(e.weight.detach())
    torch.testing.assert_close(weights[0], weights[1])


def test_sparse_adam_touches_only_rows_that_have_gradients():
    e = torch.nn.Embedding(4, 2, sparse=True)
    before = e.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(e.parameters(), lr=0.1)
    e(torch.tensor([1, 1])).sum().backward()
    optimizer.step()
    changed = (e.weight.detach() != before).any(1)
    assert changed.tolist() == [False, True, False, False]
    for refusing in (torch.optim.Adam, torch.optim.RMSprop):
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            refusing(e.parameters()).step()
    with pytest.raises(ValueError, match="requires dense parameter tensors"):
        torch.optim.SparseAdam([torch.eye(2).to_sparse().requires_grad_()])


def test_hooks_and_grad():
    e = torch.nn.Embedding(3, 2, sparse=True)
    layouts = []
    e.weight.register_hook(lambda g: layouts.append(g.layout))
    (g,) = torch.autograd.grad(e(torch.tensor([1])).sum(), e.weight)
    assert g.is_sparse and layouts == [torch.sparse_coo]
