"""Sparse tensors in coordinates: `out=`, in-place forms, broadcasting, sizes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch

A = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])


def coo(a):
    return torch.tensor(a).to_sparse()


def uncoalesced():
    """[[0, 3, 0], [0, 0, 3]], one entry of it in two parts."""
    return torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 2]], [1.0, 2.0, 3.0], (2, 3))


def hybrid():
    """One sparse and two dense dimensions."""
    v = torch.arange(8.0).reshape(2, 2, 2)
    return torch.sparse_coo_tensor([[0, 2]], v, (3, 2, 2))


def equal(t, wanted):
    np.testing.assert_array_equal(t.to_dense().numpy(), wanted)


@pytest.mark.parametrize(
    "call, wanted",
    [
        (lambda out: torch.neg(coo(A), out=out), -A),
        (lambda out: torch.sqrt(coo(A), out=out), np.sqrt(A)),
        (lambda out: torch.add(coo(A), coo(A), out=out), 2 * A),
        (lambda out: torch.sub(coo(A), coo(A), alpha=2, out=out), -A),
        (lambda out: torch.mul(coo(A), coo(A), out=out), A * A),
        (lambda out: torch.div(coo(A), 2, out=out), A / 2),
        (lambda out: torch.pow(coo(A), 3, out=out), A**3),
        (lambda out: torch.mm(coo(A), coo(A.T), out=out), A @ A.T),
    ],
)  # fmt: skip
def test_out(call, wanted):
    for out in (coo(np.ones((2, 3))), coo(np.ones(5)), coo(np.ones((4, 4)))):
        version = out._version
        assert call(out) is out and out.shape == wanted.shape and out._version > version
        equal(out, wanted)


def test_out_of_an_uncoalesced_tensor_stays_so_only_where_nothing_needs_the_sums():
    out = coo(np.zeros((2, 3), np.float32))
    assert torch.neg(uncoalesced(), out=out)._nnz() == 3
    assert torch.sin(uncoalesced(), out=out)._nnz() == 2
    equal(out, np.sin(np.array([[0, 3, 0], [0, 0, 3]], np.float32)))


def test_out_is_refused():
    with pytest.raises(
        RuntimeError, match="result type Float can't be cast to the desired .* Long"
    ):
        torch.sin(coo(np.array([1, 2])), out=coo(np.array([1, 2])))
    with pytest.raises(RuntimeError, match="is_sparse"):
        torch.sin(coo(A), out=torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(RuntimeError):
        torch.sin(torch.zeros(2, 3, dtype=torch.float64), out=coo(A))


def test_out_of_products():
    x, out = torch.ones(3, 2), coo(np.zeros((2, 2), np.float32))
    torch.hspmm(uncoalesced(), x, out=out)
    equal(out, [[3, 3], [3, 3]])
    assert out.sparse_dim() == 1
    torch.sspaddmm(coo(np.eye(2, dtype=np.float32)), uncoalesced(), x, out=out)
    equal(out, [[4, 3], [3, 4]])


def test_zeros_and_empty_into_a_sparse_tensor():
    for make in (torch.zeros, torch.empty):
        out = hybrid()
        assert make(4, 5, out=out) is out
        assert out.shape == (4, 5) and out._nnz() == 0 and out.sparse_dim() == 2
    with pytest.raises(RuntimeError, match="full.* is not implemented for sparse layout"):
        torch.full((2,), 1.0, layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match="memory format option is only supported by strided"):
        torch.zeros_like(coo(A), memory_format=torch.preserve_format)


@pytest.mark.parametrize("name", ["log1p_", "abs_", "sqrt_", "relu_", "sign_"])
def test_in_place_forms_want_coalesced_tensors(name):
    with pytest.raises(RuntimeError, match=f"{name} requires coalesced input"):
        getattr(uncoalesced(), name)()
    t = uncoalesced()
    equal(t.neg_(), [[0, -3, 0], [0, 0, -3]])
    assert t._nnz() == 3


def test_products_broadcast_the_dense_factor_and_the_sparse_one():
    x = np.arange(24.0).reshape(4, 2, 3)
    for factor in (x, x[0], x[0, :1], x[0, :, :1], x[0, 0], x[:1]):
        for product in (coo(A) * torch.tensor(factor), torch.tensor(factor) * coo(A)):
            equal(product, A * factor)
            assert product.is_coalesced()
    equal(
        hybrid() * torch.ones(4, 3, 2, 2),
        np.broadcast_to(hybrid().to_dense().numpy(), (4, 3, 2, 2)),
    )
    with pytest.raises(RuntimeError, match="must match the size"):
        coo(A) * torch.ones(5)


def test_products_of_two_sparse_tensors():
    scalar = torch.tensor(2.0, dtype=torch.float64).to_sparse()
    equal(coo(A) * scalar, 2 * A)
    equal(scalar * coo(A), 2 * A)
    assert (uncoalesced() * scalar).dtype is torch.float32
    row = torch.sparse_coo_tensor([[0, 1]], torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), (3, 1, 2))
    equal(hybrid() * row, hybrid().to_dense().numpy() * row.to_dense().numpy())
    for other in (coo(A[0]), coo(A[:1]), torch.ones(2, 3, dtype=torch.float64).to_sparse(1)):
        with pytest.raises(RuntimeError, match="equal dimensionality, number of sparse dimensions"):
            coo(A) * other


def test_gradient_of_a_broadcast_product():
    s = coo(A).requires_grad_()
    (s * torch.tensor([[[1.0]], [[5.0]]], dtype=torch.float64)).to_dense().sum().backward()
    equal(s.grad, np.where(A != 0, 6.0, 0.0))


def test_broadcast_to():
    column = np.array([[1.0], [0.0], [2.0]])
    equal(torch._sparse_broadcast_to(coo(column), (2, 3, 4)), np.broadcast_to(column, (2, 3, 4)))
    h = torch._sparse_broadcast_to(hybrid(), (2, 3, 2, 2))
    assert h.dense_dim() == 2
    equal(h, np.broadcast_to(hybrid().to_dense().numpy(), (2, 3, 2, 2)))
    assert torch._sparse_broadcast_to(coo(np.zeros((1, 2))), (0, 2)).shape == (0, 2)
    with pytest.raises(RuntimeError):
        torch._sparse_broadcast_to(coo(A), (2, 4))
    for call in (lambda: coo(A).expand(4, 2, 3), lambda: coo(A).broadcast_to((4, 2, 3))):
        with pytest.raises(RuntimeError, match="expand is unsupported for Sparse"):
            call()


def test_sums_of_tensors_with_other_sparse_dimensions():
    nothing = torch.sparse_coo_tensor((3, 2, 2))
    for total in (hybrid() + nothing, nothing + hybrid()):
        equal(total, hybrid().to_dense().numpy())
    with pytest.raises(RuntimeError, match="to have same density"):
        hybrid() + torch.ones(3, 2, 2).to_sparse()
    with pytest.raises(RuntimeError, match="add: expected 'self' and 'other' to have same size"):
        torch.zeros(2, 2) + uncoalesced()
    with pytest.raises(RuntimeError, match="same sparse_dim and dense_dim: 1, 2, but .* has 3, 0"):
        torch.cat([hybrid(), torch.ones(3, 2, 2).to_sparse()])


def test_narrow_copy():
    for dim, start, length in ((0, 1, 1), (1, 0, 2), (1, 3, 0)):
        part = [slice(None)] * 2
        part[dim] = slice(start, start + length)
        equal(coo(A).narrow_copy(dim, start, length), A[tuple(part)])
        equal(
            torch.narrow_copy(uncoalesced(), dim, start, length),
            uncoalesced().to_dense().numpy()[tuple(part)],
        )
    equal(hybrid().narrow_copy(2, 1, 1), hybrid().to_dense().numpy()[:, :, 1:])
    for arguments in ((2, 0, 1), (-1, 0, 1)):
        with pytest.raises(RuntimeError, match="out of range. Expecting 0 <= dim < 2"):
            coo(A).narrow_copy(*arguments)
    with pytest.raises(RuntimeError, match="Invalid range to narrow"):
        coo(A).narrow_copy(0, 1, 2)


def test_indices_may_count_from_the_end():
    equal(coo(A).index_select(1, torch.tensor([-1, 0])), A[:, [-1, 0]])
    equal(hybrid().index_select(2, torch.tensor([-1])), hybrid().to_dense().numpy()[:, :, [-1]])
    with pytest.raises(IndexError, match="out of range"):
        coo(A).index_select(1, torch.tensor([-4]))


def test_an_element_has_the_dtype_of_its_tensor():
    t = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.tensor([3, 4], dtype=torch.int8), (2, 2))
    assert t[0, 1].dtype is torch.int8 and t[0, 1].item() == 7
    assert t.sum(dtype=torch.int32).dtype is torch.int32 and t.sum().dtype is torch.int64


def test_norms_are_of_all_entries():
    assert uncoalesced().norm().item() == pytest.approx(18**0.5)
    assert coo(A).norm(1).item() == 9
    assert coo(A).norm(dim=(0, 1)).item() == pytest.approx(29**0.5)
    for options, error, words in (
        ({"keepdim": True}, RuntimeError, "does not support keepdim=True"),
        ({"dim": 0}, RuntimeError, "only supports full reductions"),
        ({"dtype": torch.double}, ValueError, "not supported in frobenius norm"),
        ({"dtype": torch.double, "p": 0}, RuntimeError, "does not support 'dtype' argument"),
    ):
        with pytest.raises(error, match=words):
            coo(A).norm(**options)


def test_new():
    t = coo(A)
    equal(t.new(t.indices(), t.values(), t.shape), A)
    equal(t.new(t.indices(), t.values()), A)
    assert t.new().shape == (0,) and t.new(2, 3).shape == (2, 3) and t.new(2, 3).is_sparse
    assert t.new(2, 3).dtype is torch.float64


def test_sizes_that_a_tensor_with_entries_cannot_have():
    for size, sparse, dense, words in (
        ((1, 3), 2, 0, r"shrinking the size of sparse dimensions \(from \[2, 3\] to \[1, 3\]\)"),
        ((6,), 1, 0, r"changing the number of sparse dimensions \(from 2 to 1\)"),
        ((2, 3, 4), 2, 1, r"changing the number of dense dimensions \(from 0 to 1\)"),
    ):
        with pytest.raises(RuntimeError, match=words):
            coo(A).sparse_resize_(size, sparse, dense)
    t = coo(A).resize_as_(coo(np.zeros((4, 3)).astype(float)))
    assert t.shape == (4, 3) and t.to_dense().sum().item() == 9


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="mat1 dtype Double does not match mat2 dtype Float"):
        torch.mm(coo(A), coo(A.T.astype(np.float32)))
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype"):
        coo(np.array([1, 2])).requires_grad_()
    with pytest.raises(RuntimeError, match="cannot raise to zeroth power"):
        coo(A) ** 0
    with pytest.raises(NotImplementedError, match="\"softmax\" not implemented for 'Long'"):
        torch.sparse.softmax(coo(np.array([1, 2])), 0)


def test_diagonals_of_nothing():
    empty = torch.sparse.spdiags(torch.ones(0, 3), torch.zeros(0, dtype=torch.int64), (2, 2))
    assert empty.shape == (2, 2) and empty._nnz() == 0


def test_masked_reductions_of_everything_specify_what_is_not_zero():
    mask = torch.tensor([[True, True, False], [False, False, False]])
    for name, number in (("sum", 2), ("prod", 0), ("amax", 2), ("amin", 0)):
        for keepdim in (False, True):
            r = getattr(torch.masked, name)(coo(A), mask=mask, keepdim=keepdim)
            assert r.to_dense().item() == number and r._nnz() == (number != 0)
    nothing = torch.masked.prod(coo(A), mask=torch.zeros(2, 3, dtype=torch.bool), keepdim=True)
    equal(nothing, [[1]])


def test_spdiags_makes_three_layouts():
    x, offsets = torch.ones(1, 2), torch.tensor([0])
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        assert torch.sparse.spdiags(x, offsets, (2, 2), layout).layout is layout
    with pytest.raises(RuntimeError, match="Offset Tensor must have dtype Long but got Int"):
        torch.sparse.spdiags(x, offsets.int(), (2, 2))
    with pytest.raises(RuntimeError, match="negative dimension -2"):
        torch.sparse.spdiags(x, offsets, (-2, 2))
    with pytest.raises(RuntimeError, match="Only output layouts .* are supported, got Strided"):
        torch.sparse.spdiags(x, offsets, (2, 2), torch.strided)


def test_factories_into_out_may_ask_for_gradients():
    for out in (torch.empty(2), coo(A)):
        assert torch.zeros(2, out=out, requires_grad=True).requires_grad


def test_numbers_times_a_tensor_without_dimensions():
    s = torch.tensor(3.0).to_sparse()
    for product in (s * 2, 2 * s, s * torch.tensor(2.0).to_sparse()):
        assert product.to_dense().item() == 6
    assert (coo(A) * True).dtype is torch.float64
    twice = torch.sparse_coo_tensor(torch.zeros(0, 2, dtype=torch.int64), [1.0, 4.0], ())
    for product in (s * twice, twice * s):
        assert product._nnz() == 2 and product.to_dense().item() == 15
    assert (s.double() * s).dtype is (s * s.double()).dtype is torch.float64
    for product in (s * torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]) * s):
        equal(product, [3, 6])


def test_gradients_of_products_of_two_sparse_matrices():
    """`torch.mm` gives all of them, `torch.sparse.mm` those at the entries there are."""
    g, a = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 2.0, 0.0], [3.0, 1.0, 0.0]])
    whole = g @ a + g.T @ a
    for product, wanted in ((torch.mm, whole), (torch.sparse.mm, np.where(a != 0, whole, 0))):
        x = coo(a).requires_grad_()
        product(x, x.t()).to_dense().backward(torch.tensor(g))
        equal(x.grad, wanted)


def test_indices_have_two_dimensions():
    for indices in ([0, 1], [], 0):
        with pytest.raises(RuntimeError, match="indices must be sparse_dim x nnz"):
            torch.sparse_coo_tensor(indices, [1.0, 2.0], (2,))


def test_strides_of_indices():
    """Indices stand row by row; where coordinates became fewer, with room for all that there were, as in PyTorch."""
    i = torch.tensor([[0, 2, 1, 2, 0], [1, 0, 1, 0, 1]])
    s = torch.sparse_coo_tensor(i, torch.arange(1.0, 6), (3, 4))
    c = s.coalesce()
    assert c.indices().tolist() == [[0, 1, 2], [1, 1, 0]]
    assert c.indices().stride() == (5, 1)
    assert s.t().coalesce().indices().stride() == (5, 1)
    assert s.sum(0).indices().stride() == (5, 1)
    d = torch.ones(4, 3)
    made = [
        -c, c * 2, c.double(), c.clone().coalesce(), c.sqrt(), c * d.t(), c @ d.to_sparse(), s @ d.to_sparse(),
        d.sparse_mask(c.t().coalesce()), torch.sparse.softmax(c, 1), d.to_sparse_csc().to_sparse(),
        c.index_select(0, torch.tensor([2, 0])), c.select(0, 2), c.narrow_copy(0, 1, 2), c.sum(0, keepdim=True),
        torch.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0]).coalesce(), torch.zeros_like(c), c.unsqueeze(0),
    ]  # fmt: skip
    for t in made:
        assert t._indices().is_contiguous(), t
    values = torch.arange(12.0).view(3, 2, 2).transpose(1, 2)
    hybrid = torch.sparse_coo_tensor(i[:, :3], values, (3, 4, 2, 2)).coalesce()
    assert hybrid.values().stride() == (4, 2, 1)


def test_what_counts_as_coalesced():
    c = torch.eye(3).to_sparse()
    assert c.clone().zero_().is_coalesced()
    assert c.sum(0).is_coalesced() and not c.sum(0, keepdim=True).is_coalesced()
    assert not c.unsqueeze(0).is_coalesced()
    assert not c.index_select(0, torch.tensor([0, 1])).is_coalesced()
    assert c.select(0, 1).is_coalesced()  # one entry
    hybrid = torch.ones(2, 3).to_sparse(1)
    assert hybrid.sum(1).is_coalesced() and not hybrid.select(1, 0).is_coalesced()
    uncoalesced = torch.sparse_coo_tensor([[1, 0, 1]], torch.ones(3, 2), (2, 2))
    total = uncoalesced.sum(1)
    assert total.is_coalesced() and total.values().tolist() == [2, 4]


def test_dense_dimensions_are_not_transposed():
    hybrid = torch.ones(2, 3, 4).to_sparse(1)
    with pytest.raises(
        RuntimeError, match="transposed dimensions must be sparse Got sparse_dim: 1, d0: 1, d1: 2"
    ):
        hybrid.transpose(1, 2)
