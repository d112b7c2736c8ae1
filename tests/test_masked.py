"""`torch.masked`: what the mask leaves out does not count."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch

A = np.random.RandomState(0).randn(4, 5)
MASK = ~np.eye(4, 5, dtype=bool)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "amax", "amin"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_are_those_of_masked_arrays(name, dim):
    got = getattr(torch.masked, name)(torch.tensor(A), dim, mask=torch.tensor(MASK))
    array = np.ma.masked_array(A, ~MASK)
    options = {"ddof": 1} if name in ("var", "std") else {}
    want = getattr(array, {"amax": "max", "amin": "min"}.get(name, name))(axis=dim, **options)
    np.testing.assert_allclose(got.numpy(), np.asarray(want))


def test_the_identity_of_a_reduction():
    def identity(name, dtype, *args):
        found = torch.masked._reduction_identity(name, torch.ones(2, dtype=dtype), *args)
        return None if found is None else (found.item(), found.dtype)

    assert identity("masked.sum", torch.int8) == (0, torch.int8)
    assert identity("prod", torch.bool) == (True, torch.bool)
    assert identity("amax", torch.float16) == (-math.inf, torch.float16)
    assert identity("logsumexp", torch.uint8) == (0, torch.uint8)
    assert identity("norm", torch.float32, -math.inf) == (math.inf, torch.float32)
    assert identity("mean", torch.float32) is None
    for name, dtype in (("softmax", torch.float32), ("amax", torch.bool)):
        with pytest.raises(NotImplementedError, match="identity of"):
            identity(name, dtype)


def test_nothing_left_gives_the_identity():
    x, none = torch.ones(2, 3), torch.zeros(3, dtype=torch.bool)
    assert torch.masked.sum(x, 1, mask=none).tolist() == [0, 0]
    assert torch.masked.prod(x, 1, mask=none).tolist() == [1, 1]
    assert torch.masked.amax(x, 1, mask=none).tolist() == [-np.inf] * 2
    assert np.isnan(torch.masked.mean(x, 1, mask=none).numpy()).all()


def test_softmax_and_gradients_pass_the_mask_by():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mask = torch.tensor([True, True, False])
    y = torch.masked.softmax(x, 0, mask=mask)
    np.testing.assert_allclose(
        y.numpy(force=True), [*np.exp([1, 2]) / np.exp([1, 2]).sum(), 0], rtol=1e-6
    )
    y[0].backward()
    assert x.grad[2].item() == 0


def test_a_mask_that_does_not_fit_is_an_error():
    with pytest.raises(RuntimeError, match="expanded size"):
        torch.masked.sum(torch.ones(2, 3), mask=torch.ones(3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        torch.masked.mean(torch.tensor([1, 2]))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin"])
def test_reductions_of_sparse_tensors(name, layout):
    reduce = getattr(torch.masked, name)
    x = torch.tensor([[1.0, 0.0, -3.0], [0.0, 0.0, 0.0], [2.0, 5.0, 0.0]])
    mask = torch.tensor([[True, False, True], [False] * 3, [True, True, True]])
    got = reduce(x.to_sparse(layout=layout), 1, keepdim=True, mask=mask.to_sparse(layout=layout))
    assert got.layout is layout and got.shape == (3, 1)
    want = reduce(x, 1, keepdim=True, mask=mask)
    assert got.to_dense()[[0, 2]].tolist() == want[[0, 2]].tolist()
    assert got.to_dense()[1].tolist() == [0.0]  # nothing is specified there
    if name in ("prod", "amax", "amin"):
        with pytest.raises(ValueError, match="expects explicit mask"):
            reduce(x.to_sparse(layout=layout), 1, keepdim=True)


def test_without_a_mask_what_a_sparse_tensor_specifies_counts():
    x = torch.sparse_coo_tensor(
        [[0, 1, 1], [0, 0, 2]], [[1.0, 2.0], [4.0, 4.0], [0.0, 8.0]], (2, 3, 2)
    )
    got = torch.masked.mean(x, 1)
    assert got.layout is torch.sparse_coo and got.dense_dim() == 1
    assert got.to_dense().tolist() == [[1.0, 2.0], [2.0, 6.0]]
    assert torch.masked.sum(x).to_dense().tolist() == 19.0


def test_a_product_over_an_empty_list_of_dimensions_reduces_nothing():
    x = torch.arange(1.0, 5.0).reshape(2, 2)
    assert torch.masked.prod(x, dim=[]).tolist() == x.tolist()
    assert torch.masked.prod(x, dim=()).item() == 24
