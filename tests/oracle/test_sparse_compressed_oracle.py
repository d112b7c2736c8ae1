"""Compressed sparse tensors against PyTorch: text, errors, gradients, files, in every layout."""

from __future__ import annotations

import io

import pytest
import torch

import rushlight

# PyTorch says of each layout that it is in beta.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")


def names(lib, layout):
    """What the expressions below speak of, made with either library: `c` a matrix, `b` a batch of two."""
    d = lib.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    block = (2, 2) if layout[-3] == "b" else None
    own = getattr(lib, layout)
    convert = lambda x: x.to_sparse(layout=own, blocksize=block)
    return {
        "torch": lib, "d": d, "c": convert(d), "b": convert(lib.stack([d, d * 2])),
        "w": convert(d).requires_grad_(), "other": convert(d * 4), "block": block, "own": own,
        "hybrid": lib.stack([d, d * 5], -1).to_sparse(layout=own, blocksize=block, dense_dim=1),
    }  # fmt: skip


LAYOUTS = ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]

# Printed alike by both, character by character.
TEXTS = """c; b; w; hybrid; c.to(torch.float64); c.int(); c.bool(); c.half()
c * 2; 2 * c; c * torch.tensor(2); c.abs(); c.sin(); c.relu(); c.isnan(); c.sgn(); b * 2
c.t(); c.mT; c.mH; c.transpose(0, 1); b.transpose(-1, -2); b.transpose(0, 0); c.t().t()
c.t()._is_view(), c.values()._is_view(); b[1]; b.select(0, -1); hybrid.select(2, 1); torch.select_copy(b, 0, 1)
torch.select_copy(c, 0, 0); torch.select_copy(c, 1, 2)
c.nbytes; b.nbytes; c.sum(); b.sum(); c.sum(dtype=torch.float64); c.values(); c._nnz(); b._nnz()
c.sparse_dim(), c.dense_dim(), hybrid.dense_dim(), b.sparse_dim(); c.is_sparse, c.layout, c.numel(), len(c)
c.to_dense(); b.to_dense(); hybrid.to_dense(); c.to_sparse(layout=torch.strided); c.to_sparse().to_dense()
d.sparse_mask(c); c.sparse_mask(c); torch.zeros_like(c); torch.ones_like(c); torch.full_like(c, 3.0); torch.zeros_like(b)
c.clone(); c.detach(); c.clone().mul_(3); c.clone().fill_(2.0); c.clone().zero_(); c.clone().copy_(other)
b.clone().resize_as_sparse_(b)._nnz(); d.to_sparse().to_sparse(layout=own, blocksize=block)"""
ROWS_ONLY = """c + c; c * c; c * d; d * c; c.add_(c); torch.add(c, c, alpha=3); c.resize_(3, 4); c[0]; c[:, 2]
c.sum(0, keepdim=True); c.sum((0, 1), keepdim=True); c @ c.t(); c @ torch.ones(4, 2); torch.ones(3, 2) @ c
c @ torch.ones(4); torch.addmm(torch.ones(2, 2), c, torch.ones(4, 2)); d + c; d.clone().add_(c); c.to_sparse()
torch.sparse.mm(c, torch.ones(4, 2)); torch.sparse.mm(c, torch.ones(4, 2), "mean"); torch.sparse.mm(c, torch.ones(4, 2), "amax")
torch.sparse.sampled_addmm(c, torch.ones(2, 3), torch.ones(3, 4), beta=2, alpha=3); c.to_sparse_csc(); c.to_sparse_bsr((1, 2))
torch.sparse.sampled_addmm(c, torch.ones(2, 2, 3), torch.ones(2, 3, 4)); c.to_sparse_bsc((2, 1)); b.to_sparse_csc(); b.to_sparse()
torch.empty(2, 3, layout=own)._nnz(); torch.zeros(2, 3, layout=own); torch._convert_indices_from_csr_to_coo(b.crow_indices(), b.col_indices())
torch.sin(c, out=torch.empty_like(c)); w * 2; w.t(); w @ torch.ones(4, 2); w.sum(); w.clone()"""


def expressions(text):
    return [e.strip() for line in text.splitlines() for e in line.split(";")]


CASES = [(e, layout) for e in expressions(TEXTS) for layout in LAYOUTS]
CASES += [(e, "sparse_csr") for e in expressions(ROWS_ONLY)]


@pytest.mark.parametrize(("expression", "layout"), CASES)
def test_prints_the_same(expression, layout):
    want = repr(eval(expression, names(torch, layout)))
    assert repr(eval(expression, names(rushlight, layout))) == want


# Raised by both, with the same message.
ERRORS = """c.stride(); c.is_contiguous(); c.to_sparse_bsr((3, 3)); c.to_sparse_csr(dense_dim=1); d.to_sparse_bsr((0, 1)); d.to_sparse_bsr((1, 1, 1))
d.to_sparse_csr(dense_dim=1); c.to_sparse(layout=torch.sparse_bsr); c.to_sparse(layout=torch.sparse_csr, blocksize=(1, 1))
d.to_sparse(layout=torch.sparse_bsc); d.to_sparse(1).to_sparse_csr(); b.to_sparse(layout=torch.sparse_bsr, blocksize=(1, 1))
c.copy_(d); c.copy_(torch.zeros_like(c)); d.copy_(c); c.copy_(c.t()); b.transpose(0, 1); hybrid.transpose(0, 1); b.t()
b.select(1, 0); c.select(0, 9); c.indices(); c.coalesce(); c.is_coalesced(); d.crow_indices()
c.resize_as_sparse_(d); d.resize_as_sparse_(c); c.resize_as_sparse_(c.t()); torch.empty_like(c, layout=torch.strided)
torch.sparse_compressed_tensor([0, 1], [0], [1.0]); torch.sparse_csr_tensor([0, 1], [0], [1.0], layout=torch.sparse_csc)
torch.sparse_csr_tensor([0, 1], [0], [1.0], (1,), check_invariants=True); torch.sparse_csr_tensor(torch.tensor(0), [0], [1.0])
torch.sparse_bsr_tensor([0, 1], [0], [1.0]); torch.sparse_csr_tensor([0, 1, 1], [0], [1.0], (1, 1), check_invariants=True)
torch.sparse_csr_tensor([0, 1, 2], [0], [1.0], check_invariants=True); torch.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], check_invariants=True)
torch.sparse_csr_tensor([0, 1], [3], [1.0], (1, 2), check_invariants=True); torch.zeros(0, 2, 2).to_sparse(layout=own, blocksize=block)"""
ERRORS_OF_ROWS = """c.t().crow_indices(); c.ccol_indices(); c.resize_(2); c.resize_(3, 2); c + torch.eye(3).to_sparse_csr(); c @ torch.ones(3, 2); c @ torch.ones(3)
torch.sparse.sampled_addmm(c, d, d); torch.sparse.sampled_addmm(c, torch.ones(3), d); torch.sparse.sampled_addmm(c, c, d)
torch.sparse.sampled_addmm(c.t(), d, d); c * torch.ones(4); torch._convert_indices_from_coo_to_csr(torch.ones(2, 2, dtype=torch.int64), 2)"""
ERROR_CASES = [(e, layout) for e in expressions(ERRORS) for layout in LAYOUTS]
ERROR_CASES += [(e, "sparse_csr") for e in expressions(ERRORS_OF_ROWS)]


@pytest.mark.parametrize(("expression", "layout"), ERROR_CASES)
def test_errors(expression, layout):
    with pytest.raises(Exception) as wanted:
        eval(expression, names(torch, layout))
    with pytest.raises(Exception) as found:
        eval(expression, names(rushlight, layout))
    assert str(found.value) == str(wanted.value)
    assert isinstance(found.value, wanted.type)


# With the same gradient, printed alike.
GRADIENTS = """w.to_dense(); w.values(); w.clone().to_dense(); w.sum(); w.to_dense(masked_grad=False)
w @ torch.ones(4, 2); torch.sparse.mm(w, torch.ones(4, 2)); torch.addmm(d[:, :2], w, torch.ones(4, 2)); w * w
torch.sparse.sampled_addmm(w, torch.ones(2, 3), torch.ones(3, 4)).values(); (w + w).values(); w.sum(0, keepdim=True)"""


@pytest.mark.parametrize("expression", expressions(GRADIENTS))
def test_gradients(expression):
    texts = []
    for lib in (torch, rushlight):
        given = names(lib, "sparse_csr")
        eval(expression, given).sum().backward()
        texts.append(repr(given["w"].grad))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("writer", "reader"), [(rushlight, torch), (torch, rushlight)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_files(writer, reader, layout):
    given = names(writer, layout)
    parts = {name: given[name] for name in ("c", "b", "hybrid")}
    file = io.BytesIO()
    writer.save(parts, file)
    file.seek(0)
    assert repr(reader.load(file)) == repr(parts)
