"""Compressed sparse tensors (csr, csc, bsr, bsc) against the dense tensors they stand for."""

import copy
import io
import itertools
import pickle

import pytest

import rushlight as torch

LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)
FLIPPED = dict(zip(LAYOUTS, (LAYOUTS[1], LAYOUTS[0], LAYOUTS[3], LAYOUTS[2]), strict=True))
DENSE = [[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, -3.0], [4.0, 0.0, 0.0, 0.0], [5.0, 6.0, 0.0, 0.0]]

layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def dense(*batch, dtype=torch.float64):
    """A matrix, or a batch of its multiples."""
    x = torch.tensor(DENSE, dtype=dtype)
    if not batch:
        return x
    n = 1
    for size in batch:
        n *= size
    return torch.stack([x * k for k in range(1, n + 1)]).reshape(*batch, 4, 4)


def compressed(x, layout, block=(2, 1), dense_dim=None):
    size = block if layout in BLOCKED else None
    return x.to_sparse(layout=layout, blocksize=size, dense_dim=dense_dim)


def indices(t):
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return t.crow_indices(), t.col_indices()
    return t.ccol_indices(), t.row_indices()


def same(t, x):
    assert t.shape == x.shape and t.dtype is x.dtype
    assert torch.allclose(t.to_dense(), x, equal_nan=True), (t, x)


# -- parts and conversions -------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_there_and_back(layout, batch):
    x = dense(*batch)
    t = compressed(x, layout)
    assert t.layout is layout and t.sparse_dim() == 2 and t.dense_dim() == 0
    assert t.is_sparse_csr == (layout is torch.sparse_csr) and not t.is_sparse
    same(t, x)
    pointers, plain = indices(t)
    assert pointers.shape[:-1] == plain.shape[:-1] == t.values().shape[: len(batch)] == batch
    assert t._nnz() == plain.shape[-1]
    again = torch.sparse_compressed_tensor(pointers, plain, t.values(), t.shape, layout=layout)
    same(again, x)
    torch._validate_sparse_compressed_tensor_args(pointers, plain, t.values(), t.shape, layout)
    same(t.to_sparse(), x)
    same(t.to_sparse_coo(), x)


@layouts
def test_entries_with_dimensions_of_their_own(layout):
    x = torch.einsum("ij,k->ijk", dense(), torch.tensor([1.0, -2.0], dtype=torch.float64))
    t = compressed(x, layout, dense_dim=1)
    assert t.dense_dim() == 1 and t.values().shape[-1] == 2
    same(t, x)
    same(compressed(x[:0], layout, dense_dim=1), x[:0])
    same(t.select(2, 1), x.select(2, 1))
    same(t * 2, x * 2)
    with pytest.raises(RuntimeError, match="hybrid sparse compressed"):
        t.transpose(0, 1)


def test_blocks_are_stored_where_one_of_their_elements_is_not_zero():
    t = dense().to_sparse_bsr((2, 2))
    assert t.crow_indices().tolist() == [0, 2, 3] and t.col_indices().tolist() == [0, 1, 0]
    assert t.values().tolist() == [
        [[0.0, 1.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, -3.0]], [[4.0, 0.0], [5.0, 6.0]]
    ]  # fmt: skip
    t = dense().to_sparse_bsc((1, 2))
    assert t.ccol_indices().tolist() == [0, 3, 5] and t.row_indices().tolist() == [0, 2, 3, 0, 1]
    assert t.values().shape == (5, 1, 2)


@layouts
def test_conversions_between_compressed_layouts(layout):
    x = dense()
    for other in LAYOUTS:
        t = compressed(x, layout, (1, 1))
        if layout in BLOCKED and other not in BLOCKED:
            with pytest.raises(RuntimeError, match="expected SparseCsr or SparseCsc layout"):
                compressed(t, other)
            continue
        found = compressed(t, other, (1, 1))
        assert found.layout is other
        same(found, x)
        assert (found is t) == (other is layout)


def test_conversions_keep_the_dtype_of_indices():
    t = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32),
        torch.tensor([1.0, 2.0]), (2, 2),
    )  # fmt: skip
    for found in (t, t.to_sparse_csc(), t.to_sparse_bsr((1, 2)), t + t, t * t, t @ t, t.clone()):
        assert {i.dtype for i in indices(found)} == {torch.int32}


def test_conversions_that_are_refused():
    x = dense()
    csr, bsr = x.to_sparse_csr(), x.to_sparse_bsr((2, 2))
    for convert, message in (
        (lambda: x.to_sparse(layout=torch.sparse_bsr), "without blocksize argument given"),
        (lambda: x.to_sparse(layout=torch.sparse_csr, blocksize=(1, 1)), "with blocksize argument"),
        (lambda: x.to_sparse_bsr((3, 1)), r"size \(4,4\) must be divisible .* \(3,1\)"),
        (lambda: x.to_sparse_bsr((0, 1)), "blocksize needs to be positive"),
        (lambda: x.to_sparse_csr(dense_dim=1), r"dense_dim argument must be in \[0,0\] range"),
        (lambda: bsr.to_sparse_bsr((1, 1)), r"blocksize changed from \[2, 2\] to \[1, 1\]"),
        (lambda: csr.to_sparse_csc(dense_dim=0), "with dense_dim argument given"),
        (lambda: x.to_sparse(1).to_sparse_csr(), r"sparse_dim\(\)!=2"),
        (lambda: dense(2).to_sparse_csr().to_sparse_bsr((1, 1)), "for batched inputs"),
        (lambda: torch.stack([x, x * 0]).to_sparse_csr(), "same number of specified elements"),
        (lambda: torch.zeros(0, 2, 2).to_sparse_csc(), "batch dimensions to be non-zero"),
        (lambda: csr.ccol_indices(), "column compressed tensor layout but got SparseCsr"),
        (lambda: bsr.indices(), "coordinate tensor layout but got SparseBsr"),
    ):
        with pytest.raises(RuntimeError, match=message):
            convert()


@layouts
def test_printing_and_copies(layout):
    t = compressed(dense(2), layout)
    assert f"size=(2, 4, 4), nnz={t._nnz()}" in repr(t) and str(layout) in repr(t)
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    for found in (copy.deepcopy(t), pickle.loads(pickle.dumps(t)), torch.load(file), t.clone()):
        assert found.layout is layout
        same(found, t.to_dense())
    t.clone().values().zero_()
    same(t, dense(2))


# -- invariants ------------------------------------------------------------------------------------

BROKEN = {
    "first pointer": ([1, 2, 4], [0, 1, 0, 2], r"crow_indices\[..., 0\] == 0"),
    "last pointer": ([0, 2, 5], [0, 1, 0, 2], r"crow_indices\[..., -1\] == nnz"),
    "falling": ([0, 5, 4], [0, 1, 0, 2], r"crow_indices\[..., 1:\] - crow_indices"),
    "negative": ([0, 2, 4], [0, -1, 0, 2], "`0 <= col_indices < ncols`"),
    "too large": ([0, 2, 4], [0, 1, 0, 3], "`0 <= col_indices < ncols`"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_indices_are_refused_unless_checks_are_disabled(case):
    pointers, plain, message = BROKEN[case]
    parts = (pointers, plain, [1.0, 2.0, 3.0, 4.0], (2, 3))
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_csr_tensor(*parts)
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_csr_tensor(*parts, check_invariants=True)
    assert torch.sparse_csr_tensor(*parts, check_invariants=False)._nnz() == 4
    with torch.sparse.check_sparse_tensor_invariants(False):
        assert torch.sparse_csr_tensor(*parts)._nnz() == 4


def test_unsorted_entries_are_refused_only_where_asked():
    parts = ([0, 2, 4], [1, 0, 0, 2], [1.0, 2.0, 3.0, 4.0], (2, 3))
    same(torch.sparse_csr_tensor(*parts), torch.tensor([[2.0, 1.0, 0.0], [3.0, 0.0, 4.0]]))
    with pytest.raises(RuntimeError, match="sorted and distinct"):
        torch.sparse_csr_tensor(*parts, check_invariants=True)
    check = torch.sparse.check_sparse_tensor_invariants()
    with check, pytest.raises(RuntimeError, match="sorted and distinct"):
        torch.sparse_csr_tensor(*parts)
    with check, pytest.raises(RuntimeError, match="already activated"), check:
        pass


def test_parts_that_do_not_fit():
    one = torch.tensor([1.0, 2.0])
    i16 = torch.tensor([0, 1, 2], dtype=torch.int16)
    for pointers, plain, values, size, message in (
        (torch.tensor(0), [0], one, (2, 2), "dimensionality >= 1 but got 0"),
        ([[0, 1, 2]], [0, 1], one, (2, 2), "dimensionalities must be equal but got 2 and 1"),
        ([[0, 1, 2]], [[0, 1]], one, (2, 2), r"block dimensionalities \(=1 \+ 0\) but got 1"),
        ([0, 1, 2], [0, 1], one, (2,), r"\(=0 \+ 2 \+ 0\) but got 1"),
        ([[0, 1, 2]], [[0, 1]], one[None], (3, 2, 2), r"batch dimensions \(=\[3\]\)"),
        ([0, 1, 2, 2], [0, 1], one, (2, 2), r"number of rows \+ 1 \(=3\), but got 4"),
        ([0, 1, 2], [0, 1, 1], one, (2, 2), r"equal to nnz \(=2\) .* but got 3"),
        (torch.tensor([0, 9, 1, 9, 2])[::2], [0, 1], one, (2, 2), "contiguous tensor per batch"),
        (i16, i16[:2], one, (2, 2), "must be Int or Long, but got Short"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.sparse_csr_tensor(pointers, plain, values, size, check_invariants=True)
    with pytest.raises(RuntimeError, match=r"shape\[1\] \(=3\) must be divisible with blocksize"):
        torch.sparse_bsr_tensor([0, 1], [0], torch.ones(1, 1, 2), (1, 3))
    with pytest.raises(RuntimeError, match="layout must be SparseCsr but got SparseCsc"):
        torch.sparse_csr_tensor([0, 1], [0], [1.0], layout=torch.sparse_csc)
    with pytest.raises(RuntimeError, match="expected sparse compressed tensor layout but got none"):
        torch.sparse_compressed_tensor([0, 1], [0], [1.0])


def test_sizes_are_found_from_the_parts():
    assert torch.sparse_csr_tensor([0, 1, 1], [4], [1.0]).shape == (2, 5)
    assert torch.sparse_csc_tensor([0, 1, 1], [4], [1.0]).shape == (5, 2)
    assert torch.sparse_bsr_tensor([0, 1], [1], torch.ones(1, 2, 3)).shape == (2, 6)
    assert torch.sparse_bsc_tensor([[0, 1]], [[1]], torch.ones(1, 1, 2, 3, 7)).shape == (1, 4, 3, 7)


# -- operators -------------------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_functions_of_each_value(layout, batch):
    x = dense(*batch)
    t = compressed(x, layout)
    for f in (torch.sin, torch.neg, torch.relu, lambda v: v**2, lambda v: v / 2, lambda v: 3 * v):
        found = f(t)
        assert found.layout is layout
        same(found, f(x))
    same(t.to(torch.float32), x.to(torch.float32))
    own = t.clone()
    values = own.values()
    assert own.mul_(2) is own
    same(own, x * 2)
    assert values.data_ptr() == own.values().data_ptr()
    out = torch.empty_like(t)
    assert torch.sin(t, out=out) is out
    same(out, torch.sin(x))
    with pytest.raises(RuntimeError, match="result type"):
        t.to(torch.int64).sin_()


@layouts
@pytest.mark.parametrize("batch", [(), (2,)])
def test_sums_and_products_of_two(layout, batch):
    x, y = dense(*batch), dense(*batch).mT.contiguous()
    t, u = compressed(x, layout), compressed(y, layout)
    for f in (torch.add, torch.sub):
        found = f(t, u, alpha=3)
        assert found.layout is layout
        same(found, f(x, y, alpha=3))
        assert torch.equal(f(x, u, alpha=3), f(x, y, alpha=3))
    same(x * u, x * y)
    same(t * y, x * y)
    if not batch:  # the batches of a product may differ in their numbers of entries
        assert (t * u).layout is layout
        same(t * u, x * y)
    out = t.clone()
    torch.add(t, u, out=out)
    same(out, x + y)
    with pytest.raises(RuntimeError, match="Expected input tensors to have the same shape"):
        t + compressed(torch.ones(2, 2, dtype=torch.float64), layout)


@layouts
def test_products_of_matrices(layout):
    x, y, v = dense(), dense().T.contiguous(), torch.arange(4, dtype=torch.float64)
    t = compressed(x, layout)
    assert torch.equal(t @ y, x @ y) and torch.equal(y @ t, y @ x) and torch.equal(t @ v, x @ v)
    assert torch.equal(torch.addmm(y, t, y, beta=2, alpha=3), torch.addmm(y, x, y, beta=2, alpha=3))
    assert torch.equal(torch.addmv(v, t, v, beta=2), torch.addmv(v, x, v, beta=2))
    for other in LAYOUTS:
        found = t @ compressed(y, other)
        assert found.layout is torch.sparse_csr
        same(found, x @ y)
    total = torch.addmm(t, t, t, beta=0.5, alpha=2)
    assert total.layout is layout
    same(total, torch.addmm(x, x, x, beta=0.5, alpha=2))
    assert torch.equal(torch.addmm(y, t, t), torch.addmm(y, x, x))
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(4x4 and 3x2\)"):
        t @ torch.ones(3, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="size mismatch, got"):
        t @ torch.ones(3, dtype=torch.float64)


@layouts
def test_batches_of_products(layout):
    x, y = dense(3), dense(3).mT.contiguous()
    assert torch.allclose(torch.bmm(compressed(x, layout), y), x @ y)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_sampled_addmm(batch):
    x = dense(*batch)
    t = x.to_sparse_csr()
    torch.manual_seed(0)
    a, b = torch.randn(*batch, 4, 5, dtype=x.dtype), torch.randn(*batch, 5, 4, dtype=x.dtype)
    expected = 2 * (a @ b) * (x != 0) + 3 * x
    same(torch.sparse.sampled_addmm(t, a, b, alpha=2, beta=3), expected)
    same(torch.sparse.sampled_addmm(dense().to_sparse_csr(), a, b), (a @ b) * (x != 0) + dense())
    out = torch.zeros_like(t)
    torch.sparse.sampled_addmm(t, a, b, alpha=2, beta=3, out=out)
    same(out, expected)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.sparse.sampled_addmm(t, a, a)
    with pytest.raises(RuntimeError, match="must match mat2.shape"):
        torch.sparse.sampled_addmm(t, a, torch.cat([b, b], -1))


@pytest.mark.parametrize(
    "upper, transpose, unitriangular", [*itertools.product([True, False], repeat=3)]
)
def test_triangular_solve(upper, transpose, unitriangular):
    torch.manual_seed(0)
    x = torch.randn(5, 5, dtype=torch.float64) + 5 * torch.eye(5, dtype=torch.float64)
    x[0, 3] = x[3, 1] = 0
    b = torch.randn(5, 2, dtype=torch.float64)
    options = {"upper": upper, "transpose": transpose, "unitriangular": unitriangular}
    expected = torch.triangular_solve(b, x, **options).solution
    found = torch.triangular_solve(b, x.to_sparse_csr(), **options)
    assert torch.allclose(found.solution, expected) and found.cloned_coefficient.numel() == 0
    inputs = (b.requires_grad_(), x.requires_grad_())
    wanted = torch.autograd.grad(
        torch.triangular_solve(b, x, **options).solution.sin().sum(), inputs
    )
    t = x.detach().to_sparse_csr().requires_grad_()
    torch.triangular_solve(b, t, **options).solution.sin().sum().backward()
    assert torch.allclose(b.grad, wanted[0])
    assert torch.allclose(t.grad.to_dense(), wanted[1] * (x != 0))


def test_a_triangular_system_without_entries_has_no_solution():
    x = torch.zeros(3, 3).to_sparse_csr()
    assert torch.triangular_solve(torch.ones(3, 1), x).solution.isnan().all()


@layouts
def test_reductions(layout):
    x = dense()
    t = compressed(x, layout)
    assert torch.equal(t.sum(), x.sum()) and torch.allclose(t.norm(), x.norm())
    assert torch.equal(t.sum(0, keepdim=True).to_dense(), x.sum(0, keepdim=True))
    assert torch.equal(t.sum(1).to_dense(), x.sum(1))
    if layout not in BLOCKED:
        t.requires_grad_()
        total = t.sum((0, 1), keepdim=True)
        assert total.layout is layout
        total.sum().backward()
        assert torch.equal(t.grad, torch.ones_like(x))  # as that of a dense tensor


# -- shapes ----------------------------------------------------------------------------------------


@layouts
def test_transpose_is_a_view(layout):
    x = dense(2, 3)
    t = compressed(x, layout)
    u = t.transpose(-1, -2)
    assert u.layout is FLIPPED[layout] and u._base is t and u._is_view()
    same(u, x.mT)
    assert u.values()._is_view() and u.values().data_ptr() == t.values().data_ptr()
    same(u.mT, x)
    assert t.transpose(0, 1).layout is layout
    same(t.transpose(0, 1), x.transpose(0, 1))
    for dims in ((0, 2), (3, 1)):
        with pytest.raises(RuntimeError, match="dimensions of the same type"):
            t.transpose(*dims)
    same(compressed(dense(), layout).t(), dense().t())


@layouts
def test_select(layout):
    x = dense(2, 3)
    t = compressed(x, layout)
    assert t[1].layout is layout
    same(t[1], x[1])
    same(t[1, 2], x[1, 2])
    assert torch.equal(t[1, 2, 3, 1].to_dense(), x[1, 2, 3, 1])
    one = compressed(dense(), layout)
    for dim, index in itertools.product((0, 1), (0, 3, -1)):
        same(one.select(dim, index), dense().select(dim, index))
        same(torch.select_copy(one, dim, index), dense().select(dim, index))
    with pytest.raises(RuntimeError, match="selecting sparse dimensions"):
        t.select(2, 0)
    with pytest.raises(IndexError, match="index 4 out of range"):
        one.select(0, 4)
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        one[0, 0] = 1.0


@layouts
def test_tensors_like_another(layout):
    t = compressed(dense(2), layout)
    empty = torch.empty_like(t, dtype=torch.float32)
    assert empty.layout is layout and empty._nnz() == t._nnz() and empty.dtype is torch.float32
    assert torch.zeros_like(t)._nnz() == 0
    same(torch.zeros_like(t), torch.zeros_like(dense(2)))
    assert torch.equal(torch.ones_like(t).values(), torch.ones_like(t.values()))
    assert torch.randn_like(t).values().std() > 0
    with pytest.raises(RuntimeError, match="different sparse layout is not supported"):
        torch.empty_like(t, layout=FLIPPED[layout])
    assert torch.zeros(2, 3, 4, layout=torch.sparse_csc).ccol_indices().shape == (2, 5)
    with pytest.raises(RuntimeError, match="torch.empty: Only batched sparse compressed"):
        torch.empty(5, layout=torch.sparse_csr)
    with pytest.raises(RuntimeError, match=r"expected sparse compressed \(non-block\)"):
        torch.zeros(2, 2, layout=torch.sparse_bsr)


@layouts
def test_fill_writes_the_entries_and_zero_takes_them_away(layout):
    t = compressed(dense(2), layout)
    values, version = t.values(), t._version
    assert t.fill_(3) is t and (values == 3).all() and t._version > version
    assert t.zero_() is t and t._nnz() == 0
    same(t, torch.zeros_like(dense(2)))
    with pytest.raises(RuntimeError, match="fill_"):
        compressed(dense(), layout).requires_grad_().fill_(1.0)


@layouts
def test_copy_(layout):
    t = compressed(dense(), layout)
    values = t.values()
    t.copy_(t * 2)
    same(t, dense() * 2)
    assert values.data_ptr() == t.values().data_ptr()
    for other, message in (
        (dense(), "having different layouts"),
        (compressed(dense() * 0, layout), "same number of specified elements"),
        (compressed(dense()[:, :2].repeat(2, 1), layout), "match along dimension 0"),
    ):
        if "dimension" in message and other._nnz() != t._nnz():
            continue
        with pytest.raises(RuntimeError, match=message):
            t.copy_(other)
    with pytest.raises(RuntimeError, match="expected sparse compressed tensor layout"):
        dense().copy_(t)


def test_resize():
    t = dense(2).to_sparse_csr()
    t.resize_(2, 6, 5)
    x = torch.zeros(2, 6, 5, dtype=torch.float64)
    x[:, :4, :4] = dense(2)
    same(t, x)
    t.resize_(6, 5)
    same(t, x[0])
    with pytest.raises(RuntimeError, match="Resizing columns of sparse CSR tensors to a smaller"):
        t.resize_(6, 4)
    with pytest.raises(RuntimeError, match="Only batched sparse CSR matrices are supported"):
        t.resize_(6)


@layouts
def test_resize_as_sparse_(layout):
    t, like = compressed(dense(), layout), compressed(dense(2, 3), layout, (1, 2))
    t.resize_as_sparse_(like)
    assert t.shape == (2, 3, 4, 4) and t._nnz() == like._nnz()
    assert t.values().shape == like.values().shape
    with pytest.raises(RuntimeError, match="src  expected sparse compressed tensor layout"):
        t.resize_as_sparse_(dense())
    with pytest.raises(RuntimeError, match="must have the same layout"):
        t.resize_as_sparse_(compressed(dense(), FLIPPED[layout]))


# -- gradients -------------------------------------------------------------------------------------

FUNCTIONS = {
    "to_dense": lambda t: t.to_dense().sin(),
    "unmasked": lambda t: t.to_dense(masked_grad=False).sin(),
    "values": lambda t: t.values() ** 2,
    "transpose": lambda t: t.mT.to_dense().cos(),
    "add": lambda t: (t + t.sin()).to_dense(),
    "mul": lambda t: (t * t).values(),
    "product": lambda t: (t * dense()).to_dense(),
    "mm": lambda t: torch.sparse.mm(t, dense()),
    "adjoint": lambda t: dense() @ t,
    "mv": lambda t: t @ torch.arange(4, dtype=torch.float64),
    "matmul": lambda t: (t @ t).to_dense(),
    "sum": lambda t: t.sum(0, keepdim=True).to_dense(),
    "clone": lambda t: t.clone().values(),
    "select": lambda t: t.select(0, 3).to_dense(),
    "coo": lambda t: t.to_sparse().to_dense().sin(),
    "mask": lambda t: t.sparse_mask(t).values() ** 3,
    "cast": lambda t: t.to(torch.float32).to(torch.float64).to_dense() * dense(),
}


@layouts
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(layout, name):
    """Those of the entries there are, as the dense function has them."""
    f, x = FUNCTIONS[name], dense()
    t = compressed(x, layout).requires_grad_()
    f(t).sum().backward()
    values = t.detach().values().clone().requires_grad_()
    pointers, plain = indices(t)

    def of_values(v):
        made = torch.sparse_compressed_tensor(pointers, plain, v, t.shape, layout=layout)
        return f(made)

    if name != "cast":
        torch.autograd.gradcheck(of_values, (values,))
    of_values(values).sum().backward()
    if t.grad.layout is torch.strided:
        masked = t.grad.sparse_mask(t.detach())
    elif name == "unmasked":
        masked = t.grad.to_dense().sparse_mask(t.detach())
    else:
        assert t.grad.layout is layout
        masked = t.grad
    assert torch.allclose(masked.values(), values.grad)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_gradients_of_conversions(form):
    x = dense().requires_grad_()
    (getattr(x, f"to_sparse_{form}")().to_dense() * dense()).sum().backward()
    assert torch.equal(x.grad, dense())
    x.grad = None
    (x.to_sparse_bsr((2, 1)).values() ** 2).sum().backward()
    assert torch.equal(x.grad, 2 * dense())


def test_gradients_of_sampled_addmm():
    torch.manual_seed(0)
    t = dense().to_sparse_csr().requires_grad_()
    a, b = (torch.randn(4, 4, dtype=torch.float64).requires_grad_() for _ in "ab")
    torch.sparse.sampled_addmm(t, a, b, alpha=2, beta=3).values().sin().sum().backward()
    x, c, d = (u.detach().to_dense().clone().requires_grad_() for u in (t, a, b))
    (2 * (c @ d) * (dense() != 0) + 3 * x).sin().sum().backward()
    assert torch.allclose(a.grad, c.grad) and torch.allclose(b.grad, d.grad)
    assert t.grad.layout is torch.sparse_csr
    assert torch.allclose(t.grad.to_dense(), x.grad * (dense() != 0))


def test_set_puts_a_view_on_other_memory():
    view = torch.arange(3).unsqueeze(0)
    view.set_(torch.arange(4))
    assert view.tolist() == [0, 1, 2, 3]


def test_what_compressed_tensors_do_not_have():
    t = dense().to_sparse_csr()
    with pytest.raises(RuntimeError, match="Cannot access storage of SparseCsrTensorImpl"):
        t.storage()
    with pytest.raises(RuntimeError, match="Sparse CSR tensors do not have strides"):
        t.stride()
    with pytest.raises(RuntimeError, match="Sparse CSC tensors do not have is_contiguous"):
        t.t().is_contiguous()
    assert t.nbytes == 16 * 8
    with pytest.raises(TypeError, match="convert SparseCsr layout tensor to numpy"):
        t.numpy()
