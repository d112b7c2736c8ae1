"""Sparse tensors: their parts, what is computed on them, gradients, and that the rest refuses them by name."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import rushlight as torch

DENSE = [[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]]


def example(requires_grad=False, dtype=None):
    """DENSE in coordinates that are neither sorted nor unique."""
    return torch.sparse_coo_tensor(
        [[1, 0, 1, 1], [2, 1, 0, 0]],
        [4.0, 2.0, 1.0, 2.0],
        (2, 3),
        requires_grad=requires_grad,
        dtype=dtype,
    )


def same(got, want):
    got = got.to_dense() if got.layout is not torch.strided else got
    assert got.shape == want.shape and got.dtype is want.dtype
    torch.testing.assert_close(got, want)


def test_parts():
    s = example()
    assert s.is_sparse and s.layout is torch.sparse_coo and not s.is_sparse_csr
    assert s.shape == (2, 3) and s.numel() == 6 and len(s) == 2 and s.ndim == 2
    assert (s.sparse_dim(), s.dense_dim(), s._nnz()) == (2, 0, 4)
    assert not s.is_coalesced() and s._indices().shape == (2, 4)
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        s.indices()
    c = s.coalesce()
    assert c.is_coalesced() and c.coalesce() is c and c.is_leaf
    assert c.indices().tolist() == [[0, 1, 1], [1, 0, 2]] and c.values().tolist() == [2, 3, 4]
    assert torch.indices_copy(c).tolist() == c.indices().tolist()
    assert torch.values_copy(c).tolist() == [2, 3, 4]
    assert s.to_dense().tolist() == DENSE
    s._values().mul_(2)  # the memory itself
    assert s.to_dense().tolist() == [[0, 4, 0], [6, 0, 8]]


def test_values_share_memory_with_what_they_were_made_of():
    v = torch.ones(2)
    s = torch.sparse_coo_tensor([[0, 1]], v, (3,))
    v[0] = 5.0
    assert s.to_dense().tolist() == [5, 1, 0]


def test_sizes():
    assert torch.sparse_coo_tensor([[0, 4]], [1.0, 2.0]).shape == (5,)
    assert torch.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0] * 3] * 2
    assert torch.sparse_coo_tensor(torch.empty(2, 0), [], (2, 3))._nnz() == 0
    hybrid = torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 4), (3, 4))
    assert (hybrid.sparse_dim(), hybrid.dense_dim()) == (1, 1)
    point = torch.sparse_coo_tensor(torch.empty(0, 1), [3.0], ())
    assert point.to_dense().tolist() == 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 5]], [1.0, 2.0], (3,)), "size is 3 but found index 5"),
        (([[0, -1]], [1.0, 2.0], (3,)), "found negative index -1 for dim 0"),
        (([[0, -1]], [1.0, 2.0]), "found negative index -1"),
        (([[0, 1]], [1.0], (3,)), "must have same nnz"),
        (([[0, 1]], [1.0, 2.0], (3, 3)), "len.size. == sparse_dim"),
        (([[0, 1]], torch.ones(2, 2), (3, 3)), "values has incorrect size"),
    ],
)
def test_what_cannot_be_made(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_coo_tensor(*arguments)


def test_only_on_the_cpu():
    for call in (
        lambda: torch.ones(2, device="meta").to_sparse(),
        lambda: torch.sparse_coo_tensor([[0]], [1.0], device="meta"),
        lambda: torch.sparse_coo_tensor([[0]], torch.ones(1, device="meta")),
        lambda: torch.sparse_csr_tensor([0, 1], [0], torch.ones(1, device="meta")),
    ):
        with pytest.raises(NotImplementedError, match="live on the CPU"):
            call()


def test_promises():
    assert torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], is_coalesced=True).is_coalesced()
    torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], is_coalesced=True)
    with pytest.raises(RuntimeError, match="cannot set is_coalesced"):
        torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], is_coalesced=True, check_invariants=True)
    checks = torch.sparse.check_sparse_tensor_invariants
    with checks(), pytest.raises(RuntimeError, match="cannot set is_coalesced"):
        torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], is_coalesced=True)
    assert not checks.is_enabled()

    @checks(True)
    def enabled():
        return checks.is_enabled()

    assert enabled() and not checks.is_enabled()
    with checks(False):  # what the two switches do is undone here
        checks.enable()
        assert checks.is_enabled()
        checks.disable()
        assert not checks.is_enabled()


def test_conversions():
    d = torch.tensor(DENSE)
    same(d.to_sparse(), d)
    assert d.to_sparse().is_coalesced() and d.to_sparse()._nnz() == 3
    assert d.to_sparse(1).values().shape == (2, 3)
    same(d.to_sparse(1), d)
    same(d.to_sparse_coo(), d)
    csc = torch.sparse_csc_tensor([0, 1, 2, 3], [1, 0, 1], [3.0, 2.0, 4.0], (2, 3))
    same(csc, d)
    for layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo):
        c = d.to_sparse(layout=layout)
        assert c.layout is layout
        same(c, d)
        same(c.to_sparse(), d)
        same(c.to_sparse_csr(), d)
        same(c.to_sparse_csc(), d)
    csr = d.to_sparse_csr()
    assert csr.crow_indices().tolist() == [0, 1, 3] and csr.col_indices().tolist() == [1, 0, 2]
    assert d.to_dense() is d
    with pytest.raises(RuntimeError, match="dense_to_sparse"):
        d.to_sparse(0)
    with pytest.raises(RuntimeError, match="crow_indices expected sparse row compressed"):
        d.crow_indices()
    s = example()
    assert s.float() is s and s.cpu() is s and s.to("cpu") is s
    assert s.double().dtype is torch.float64 and s.int().to_dense().tolist() == DENSE
    assert s.type() == "torch.sparse.FloatTensor"


CALLS = {
    "add": lambda s, d: s + s * 2,
    "sub": lambda s, d: s - s * 3,
    "add to dense": lambda s, d: d + s,
    "dense minus": lambda s, d: d - s,
    "mul": lambda s, d: s * 2.5,
    "mul sparse": lambda s, d: s * s,
    "mul dense": lambda s, d: s * d,
    "dense mul": lambda s, d: d * s,
    "div": lambda s, d: s / 3,
    "floor_divide": lambda s, d: s // 2,
    "neg": lambda s, d: -s,
    "pow": lambda s, d: s**2,
    "sqrt": lambda s, d: s.sqrt(),
    "tanh": lambda s, d: torch.tanh(s),
    "relu": lambda s, d: torch.nn.functional.relu(-s),
    "sum": lambda s, d: s.sum(),
    "sum 0": lambda s, d: s.sum(0),
    "sum 1 keepdim": lambda s, d: s.sum(1, keepdim=True),
    "norm": lambda s, d: s.norm(),
    "t": lambda s, d: s.t(),
    "T": lambda s, d: s.T,
    "permute": lambda s, d: s.permute(1, 0),
    "unsqueeze": lambda s, d: s.unsqueeze(-1),
    "select": lambda s, d: s[1],
    "select twice": lambda s, d: s[1, 2],
    "column": lambda s, d: s[:, 0],
    "None": lambda s, d: s[None],
    "index_select": lambda s, d: s.index_select(1, torch.tensor([2, 0, 2])),
    "cat": lambda s, d: torch.cat([s, s], 1),
    "stack": lambda s, d: torch.stack([s, s], 1),
    "mm": lambda s, d: torch.mm(s, d.t()),
    "matmul": lambda s, d: s @ d.t(),
    "dense @ sparse": lambda s, d: d.t() @ s,
    "sparse @ sparse": lambda s, d: s @ s.t(),
    "mv": lambda s, d: s @ d[0],
    "vec @ sparse": lambda s, d: d[:, 0] @ s,
    "addmm": lambda s, d: torch.addmm(d[:, :2], s, d.t(), beta=2, alpha=3),
    "linear": lambda s, d: torch.nn.functional.linear(s, d, d[:, 0]),
    "clone": lambda s, d: s.clone(),
    "unbind": lambda s, d: s.unbind(0)[1],
}


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", CALLS)
def test_as_dense(name, layout):
    """The same as on the dense tensor, with its gradients; or an error that says it is not done."""
    d = torch.tensor([[1.0, -2.0, 3.0], [0.5, 5.0, -1.0]])
    function = CALLS[name]
    s, x = example().requires_grad_(), torch.tensor(DENSE, requires_grad=True)
    if layout is torch.sparse_csr:
        s = s.detach().to_sparse_csr().requires_grad_()
    e, y = d.clone().requires_grad_(), d.clone().requires_grad_()
    want = function(x, y)
    if layout is torch.sparse_csr:
        try:
            got = function(s, e)
        except NotImplementedError as error:
            if "SparseCsr" not in str(error):
                raise
            return
    else:
        got = function(s, e)
    same(got, want)
    weight = torch.arange(1.0, want.numel() + 1).reshape(want.shape)
    if got.layout is not torch.strided:
        got = got.to_dense()
    if name == "floor_divide":  # has no derivative
        return
    (got * weight).sum().backward()
    (want * weight).sum().backward()
    if y.grad is not None:
        same(e.grad, y.grad)
    where = torch.tensor(DENSE) != 0
    if name == "sqrt":  # infinite where there is nothing
        x.grad[~where] = 0
    grad = s.grad.to_dense() if s.grad.layout is not torch.strided else s.grad
    same(grad * where, x.grad * where)


def test_dense_plus_sparse_only_in_this_order():
    s, d = example(), torch.ones(2, 3)
    for call in (lambda: s + d, lambda: s + 1, lambda: s - d, lambda: 1 + s):
        with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
            call()
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        s / d


REFUSED = (
    "exp sigmoid cos mean max argmax sort softmax cumsum eq gt flip nonzero view reshape squeeze expand "
    "repeat argsort prod std var median log logsumexp tril diag where narrow chunk unfold roll"
).split()
ARGUMENTS = {
    "eq": (1,), "gt": (1,), "flip": (0,), "view": (6,), "reshape": (6,), "expand": (2, 3),
    "repeat": (2, 2), "cumsum": (0,), "softmax": (0,), "logsumexp": (0,), "narrow": (0, 0, 1),
    "chunk": (2,), "unfold": (0, 1, 1), "roll": (1,), "where": (torch.ones(2, 3) > 0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    s = example()
    before = s.to_dense()
    method = getattr(torch, name) if name == "where" else getattr(s, name)
    arguments = ARGUMENTS.get(name, ())
    if name == "where":
        arguments = (arguments[0], s, arguments[1])
    with pytest.raises((NotImplementedError, RuntimeError), match="SparseCPU|[Ss]parse"):
        method(*arguments)
    same(s, before)


def test_numpy_does_not_compute_on_them():
    s = example()
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        s.numpy()
    with pytest.raises(BufferError, match="layout other than torch.strided"):
        torch.from_dlpack(s)
    assert not s.is_conj() and not s.is_neg() and s.resolve_conj() is s
    for call in (np.asarray, np.exp, lambda x: np.add(x, 1)):
        with pytest.raises(TypeError, match="can't convert Sparse layout"):
            call(s)
        with pytest.raises(RuntimeError, match=r"SparseCPU|data pointer"):
            call(s._array)
    with pytest.raises(RuntimeError, match="data pointer"):
        s.data_ptr()
    with pytest.raises(RuntimeError, match="nbytes is not defined"):
        _ = s.nbytes
    for call in (lambda: s.tolist(), lambda: s.untyped_storage(), lambda: s.contiguous()):
        with pytest.raises((RuntimeError, TypeError)):
            call()


def test_in_place():
    s = example()
    t = s.clone()
    assert t.mul_(2) is t and t.to_dense().tolist() == (torch.tensor(DENSE) * 2).tolist()
    same(t.add_(s), torch.tensor(DENSE) * 3)
    same(t.div_(3).sub_(s), torch.zeros(2, 3))
    version = t._version
    assert t.copy_(s) is t and t._version > version
    same(t, torch.tensor(DENSE))
    assert t.zero_()._nnz() == 0
    d = torch.ones(2, 3)
    same(d.add_(s, alpha=2), torch.tensor(DENSE) * 2 + 1)
    same(d.sub_(s), torch.tensor(DENSE) + 1)
    same(d.mul_(s), (torch.tensor(DENSE) + 1) * torch.tensor(DENSE))
    for call, words in (
        (lambda: d.copy_(s), "between dense and sparse"),
        (lambda: torch.ones(3, 3).add_(s), "expected sizes"),
        (lambda: torch.ones(2, 3, dtype=torch.int64).add_(s), "can't be cast"),
        (lambda: s.int().add_(s), "can't be cast"),
        (lambda: torch.ones(3, 3).mul_(s), "size|shape|match"),
        (lambda: torch.ones(1, 3).expand(2, 3).add_(s), "single memory location"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(RuntimeError, match="not recorded"):
        example(requires_grad=True).mul_(2)
    assert s.sparse_resize_((4, 4), 2, 0) is s and s.shape == (4, 4)
    with pytest.raises(RuntimeError, match="shrinking the size of sparse dimensions"):
        s.sparse_resize_((2, 2), 2, 0)
    assert t.resize_as_sparse_(s).shape == (4, 4)
    assert s.sparse_resize_and_clear_((5, 5), 2, 0)._nnz() == 0 and s.shape == (5, 5)


def test_likes():
    s = example()
    for made in (torch.zeros_like(s), torch.empty_like(s)):
        assert made.is_sparse and made._nnz() == 0 and made.shape == s.shape
    with pytest.raises(NotImplementedError, match="ones_like"):
        torch.ones_like(s)


def test_gradient_of_a_value_that_stands_twice():
    v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    s = torch.sparse_coo_tensor([[0, 0, 1]], v, (3,))
    for call in (
        lambda: s.to_dense(),
        lambda: (s * 1).to_dense(),
        lambda: (s + s * 0).to_dense(),
        lambda: s.coalesce().to_dense(),
    ):
        v.grad = None
        call().backward(torch.tensor([1.0, 2.0, 3.0]))
        assert v.grad.tolist() == [1, 1, 2]


def test_gradients_of_the_sparse_factor():
    d = torch.arange(6.0).reshape(3, 2)
    s = example(requires_grad=True)
    torch.sparse.mm(s, d).sum().backward()
    assert s.grad.is_sparse and s.grad._nnz() == 3
    assert s.grad.to_dense().tolist() == [[0, 5, 0], [1, 0, 9]]
    s.grad = None
    (s @ d).sum().backward()  # as PyTorch: dense
    assert s.grad.tolist() == [[1, 5, 9], [1, 5, 9]]
    with pytest.raises(RuntimeError, match="Expected dim 0 size 3, got 2"):
        torch.sparse.mm(s, torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        s @ d.double()


CHECKED = {
    "mm": lambda s, d: torch.sparse.mm(s, d),
    "torch.mm": lambda s, d: s @ d,
    "mm sparse": lambda s, d: torch.sparse.mm(s, s.t()),
    "addmm": lambda s, d: torch.sparse.addmm(d[:2], s, d, beta=2, alpha=3),
    "mul": lambda s, d: s * s * 2,
    "mul dense": lambda s, d: s * d.t(),
    "sum": lambda s, d: torch.sparse.sum(s, 0),
    "softmax": lambda s, d: torch.sparse.softmax(s, 1),
    "log_softmax": lambda s, d: torch.sparse.log_softmax(s, 0),
    "values": lambda s, d: s.coalesce().values() * 2,
    "csr": lambda s, d: s.to_sparse_csr() @ d,
    "bmm": lambda s, d: torch.bmm(torch.stack([s, s]), torch.stack([d, d])),
    "mask": lambda s, d: d.t().sparse_mask(s.detach()),
    "amax": lambda s, d: torch.sparse.mm(s.to_sparse_csr(), d, "amax"),
    "mean": lambda s, d: torch.sparse.mm(s.to_sparse_csr(), d, "mean"),
    "cat": lambda s, d: torch.cat([s, s * 2]).t(),
}


def test_gradcheck_of_sparse_inputs():
    s = example(dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: torch.sparse.mm(s, s.t()), s, masked=True)
    with pytest.raises(RuntimeError, match="Jacobian"):
        torch.autograd.gradcheck(lambda s: s * s.detach(), s, masked=True)


@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck(name):
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    s = example(dtype=torch.float64).requires_grad_()
    d = torch.tensor([[1.0, 2.5], [-0.5, 3.0], [2.0, 0.7]], dtype=torch.float64).requires_grad_()
    assert check(CHECKED[name], (s, d), masked=True)


def test_second_derivatives():
    v = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    d = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)

    def function(v, d):
        return torch.sparse.mm(torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v, (2, 3)), d).sin()

    assert torch.autograd.gradgradcheck(function, (v, d))


def test_complex():
    s = torch.tensor([[0, 1 + 2j], [3j, 0]]).to_sparse()
    d = torch.tensor([[1 + 1j, 2.0], [1j, 1.0]])
    same(s @ d, s.to_dense() @ d)
    same(d @ s, d @ s.to_dense())
    same(s.conj(), s.to_dense().conj())
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    x = s.to(torch.complex128).requires_grad_()
    y = d.to(torch.complex128).requires_grad_()
    assert check(lambda x, y: torch.sparse.mm(x, y), (x, y), masked=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_dtypes(dtype):
    s = example().to(dtype)
    d = torch.tensor(DENSE).to(dtype)
    same(s, d)
    same(s @ d.t(), d @ d.t())
    same((s + s), d + d)
    same(s.sum(), d.sum())
    assert torch.tensor([True, False]).to_sparse().to_dense().tolist() == [True, False]


def test_reductions_over_neighbours():
    a = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]).to_sparse_csr()
    x = torch.tensor([[1.0, 1.0], [3.0, -4.0], [5.0, 5.0]])
    want = {"sum": [11, -3], "mean": [5.5, -1.5], "amax": [6, 5], "amin": [5, -8]}
    want |= {"max": want["amax"], "min": want["amin"]}
    for reduce, row in want.items():
        assert torch.sparse.mm(a, x, reduce).tolist() == [row, [0, 0]]
    with pytest.raises(RuntimeError, match="reduce argument"):
        torch.sparse.mm(a, x, "median")
    with pytest.raises(RuntimeError, match="prod has not been enabled"):
        torch.sparse.mm(a, x, "prod")
    with pytest.raises(NotImplementedError, match="_sparse_mm_reduce_impl"):
        torch.sparse.mm(a.to_sparse(), x, "mean")


def test_softmax_of_hybrid_tensors():
    h = torch.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 5.0]], (3, 2))
    same(
        torch.sparse.softmax(h, 1).coalesce().values(),
        torch.softmax(torch.tensor([[1.0, 2.0], [3.0, 5.0]]), 1),
    )
    same(torch.sparse.softmax(h, 0).values(), torch.softmax(torch.tensor([[1.0, 2], [3, 5]]), 0))


def test_sampled_products():
    a, b = torch.rand(3, 4, dtype=torch.float64), torch.rand(4, 5, dtype=torch.float64)
    s = (torch.rand(3, 5, dtype=torch.float64) * (torch.rand(3, 5) > 0.5)).to_sparse()
    for t in (s, s.to_sparse_csr()):
        got = torch.sparse.sampled_addmm(t, a, b, beta=2, alpha=3)
        assert got.layout is t.layout
        same(got, (s.to_dense() != 0) * (2 * s.to_dense() + 3 * a @ b))
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    inputs = [x.requires_grad_() for x in (s, a, b)]
    assert check(lambda s, a, b: torch.sparse.sampled_addmm(s, a, b), inputs)
    with pytest.raises(RuntimeError, match="sampled_addmm: self has shape"):
        torch.sparse.sampled_addmm(s, a, b[:, :4])


def test_spdiags():
    d = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    got = torch.sparse.spdiags(d, torch.tensor([0, 1]), (3, 3))
    assert got.to_dense().tolist() == [[1, 5, 0], [0, 2, 6], [0, 0, 3]]
    got = torch.sparse.spdiags(d, torch.tensor([-1, 2]), (4, 3), layout=torch.sparse_csr)
    assert got.layout is torch.sparse_csr
    assert got.to_dense().tolist() == [[0, 0, 6], [1, 0, 0], [0, 2, 0], [0, 0, 3]]
    with pytest.raises(RuntimeError, match="duplicate"):
        torch.sparse.spdiags(d, torch.tensor([0, 0]), (3, 3))


def test_large_products_go_block_by_block(monkeypatch):
    from rushlight._backends import sparse_products

    monkeypatch.setattr(sparse_products, "BLOCK", 8)
    d = torch.rand(20, 30) * (torch.rand(20, 30) > 0.7)
    x = torch.rand(30, 4)
    s = d.to_sparse().requires_grad_()
    same(torch.sparse.mm(s, x), d @ x)
    torch.sparse.mm(s, x).pow(2).sum().backward()
    want = 2 * (d @ x) @ x.t()
    same(s.grad, want * (d != 0))


# -- printing, copies, files -----------------------------------------------------------------------


def test_printing():
    assert repr(example()) == (
        "tensor(indices=tensor([[1, 0, 1, 1],\n"
        "                       [2, 1, 0, 0]]),\n"
        "       values=tensor([4., 2., 1., 2.]),\n"
        "       size=(2, 3), nnz=4, layout=torch.sparse_coo)"
    )
    assert repr(torch.sparse_coo_tensor((2,), dtype=torch.float64)) == (
        "tensor(indices=tensor([], size=(1, 0)),\n"
        "       values=tensor([], size=(0,)),\n"
        "       size=(2,), nnz=0, dtype=torch.float64, layout=torch.sparse_coo)"
    )
    assert repr(torch.tensor([[1.0]]).to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1]),\n"
        "       col_indices=tensor([0]),\n"
        "       values=tensor([1.]), size=(1, 1), nnz=1, layout=torch.sparse_csr)"
    )


def everything():
    s = example()
    return [
        s,
        s.coalesce(),
        example(requires_grad=True),
        s.double(),
        s.bool(),
        s.to_sparse_csr(),
        s.to_sparse_csc(),
        torch.sparse_coo_tensor([[0, 2]], torch.ones(2, 4), (3, 4)),
        torch.sparse_coo_tensor((2, 3)),
    ]


def saved_and_loaded(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s)), saved_and_loaded]
)
def test_copies_and_files(copied):
    for s in everything():
        t = copied(s)
        assert t is not s and t.layout is s.layout and t.dtype is s.dtype and t._nnz() == s._nnz()
        same(t.detach(), s.detach().to_dense())
        if s.is_sparse:
            assert t.is_coalesced() == s.is_coalesced()
        (t * 2).detach().to_dense()  # its dtype is one of ours


def test_damaged_files_are_refused():
    for index in ([[0, 7]], [[0, -1]]):
        s = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))
        s._array.indices = np.array(index)
        buffer = io.BytesIO()
        torch.save(s, buffer)
        buffer.seek(0)
        with pytest.raises(RuntimeError, match="index"):
            torch.load(buffer)


def test_in_modules():
    m = torch.nn.Linear(2, 2)
    m.register_buffer("graph", torch.eye(2).to_sparse())
    again = torch.nn.Linear(2, 2)
    again.register_buffer("graph", torch.zeros(2, 2).to_sparse())
    again.load_state_dict(m.state_dict())
    assert again.graph.to_dense().tolist() == [[1, 0], [0, 1]]
    assert m.double().graph.dtype is torch.float64


def test_names_of_compressed_layouts():
    csr = torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3))
    assert csr.is_sparse_csr and not csr.is_sparse and csr._nnz() == 3
    assert (csr.sparse_dim(), csr.dense_dim()) == (2, 0)
    csc = csr.t()
    assert csc.layout is torch.sparse_csc and csc.ccol_indices().tolist() == [0, 1, 3]
    assert csc.row_indices().tolist() == [2, 0, 2]
    assert torch.row_indices_copy(csc).tolist() == torch.col_indices_copy(csr).tolist()
    assert torch.ccol_indices_copy(csc).tolist() == torch.crow_indices_copy(csr).tolist()
    same(csc, csr.to_dense().t())
    same((csr + csr * 2), csr.to_dense() * 3)
    same(csr @ csr.t().to_sparse_csr(), csr.to_dense() @ csr.to_dense().t())
    with pytest.raises(RuntimeError, match="is_coalesced expected sparse coordinate tensor"):
        csr.is_coalesced()
    for pointers, columns in (([0, 1, 4], [2, 0, 2]), ([0, 1, 3], [2, 0, 7]), ([0, 3], [0, 1, 2])):
        with pytest.raises(RuntimeError):
            torch.sparse_csr_tensor(pointers, columns, [3.0, 4.0, 5.0], (2, 3))


def test_older_products():
    s, d = example(), torch.arange(6.0).reshape(3, 2)
    same(torch.spmm(s, d), s.to_dense() @ d)
    assert torch.smm(s, d).is_sparse
    same(torch.smm(s, d), s.to_dense() @ d)
    assert torch.hspmm(s, d).dense_dim() == 1
    same(torch.hspmm(s, d), s.to_dense() @ d)
    same(torch.hsmm(s, d), s.to_dense() @ d)
    same(torch.dsmm(d, s), d @ s.to_dense())
    same(torch.saddmm(torch.zeros(2, 2).to_sparse(), s, d), s.to_dense() @ d)
    total = torch.sspaddmm(torch.zeros(2, 2).to_sparse(), s, d, alpha=2)
    same(total, s.to_dense() @ d * 2)


def test_older_types():
    index, v = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    s = torch.sparse.FloatTensor(index, v, torch.Size([2, 3]))
    assert s.is_sparse and s.to_dense().tolist() == [[0, 1, 0], [2, 0, 0]]
    assert torch.sparse.FloatTensor(index, v).shape == (2, 2)
    assert torch.sparse.DoubleTensor(2, 3).dtype is torch.float64
    assert torch.sparse.FloatTensor()._nnz() == 0
    assert isinstance(s, torch.sparse.FloatTensor) and not isinstance(v, torch.sparse.FloatTensor)
    assert not isinstance(s, (torch.sparse.DoubleTensor, torch.FloatTensor))
    assert repr(torch.sparse.FloatTensor) == "<class 'torch.sparse.FloatTensor'>"
    assert s.type(torch.sparse.DoubleTensor).dtype is torch.float64
    assert s.type("torch.sparse.HalfTensor").dtype is torch.float16
    with pytest.raises(AttributeError):
        _ = torch.sparse.NoTensor


class Graphs(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.sparse_coo_tensor([[0, i]], [1.0, float(i)], (5,))


def test_between_processes():
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(
            Graphs(), batch_size=2, num_workers=workers, collate_fn=torch.stack
        )
        batches = [batch.to_dense().tolist() for batch in loader]
        assert batches[1] == [[1, 0, 2, 0, 0], [1, 0, 0, 3, 0]]
    with pytest.raises(NotImplementedError, match="Cannot access storage"):
        example().untyped_storage()


def test_modes():
    s, d = example(), torch.arange(6.0).reshape(3, 2)
    with torch.inference_mode():
        same(s @ d, s.to_dense() @ d)
        same(torch.sparse_coo_tensor([[0]], [1.0], (2,)) * 2, torch.tensor([2.0, 0.0]))
    with torch.profiler.profile() as profile:
        s @ d
    assert any(row.key.endswith("matmul") for row in profile.key_averages())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (s @ d).dtype is torch.bfloat16
    w = example(requires_grad=True)
    with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
        torch.sparse.mm(w, d).sum().backward()
        with pytest.raises(RuntimeError, match="nan"):
            (w * float("nan")).to_dense().sum().backward()
    p = torch.nn.Parameter(example())
    assert p.is_sparse and repr(p).startswith("Parameter containing:\ntensor(indices=")


def test_out():
    s, d = example(), torch.arange(6.0).reshape(3, 2)
    out = torch.empty(2, 2)
    assert torch.mm(s, d, out=out) is out
    same(out, s.to_dense() @ d)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_zeros_of_a_sparse_layout_store_nothing(layout):
    """What has no other value than zero can be made sparse; what fills all elements raises."""
    x = torch.ones(2, 3)
    for t in (
        torch.zeros(2, 3, layout=layout),
        torch.empty(2, 3, layout=layout),
        torch.zeros_like(x, layout=layout),
        torch.zeros_like(x.to_sparse(), layout=layout),
        torch.zeros_like(x.to_sparse_csr(), layout=layout),
        x.new_zeros(2, 3, layout=layout),
        x.to_sparse(layout=layout).new_zeros(2, 3),
    ):
        assert t.layout is layout and t._nnz() == 0 and t.shape == (2, 3)
        assert torch.equal(t.to_dense(), torch.zeros(2, 3))
    assert (
        torch.zeros(2, 3, layout=layout, dtype=torch.int32, requires_grad=False).dtype
        is torch.int32
    )
    assert torch.zeros(2, 3, layout=layout, requires_grad=True).requires_grad
    for make in (torch.ones, torch.rand):
        with pytest.raises(NotImplementedError, match="sparse"):
            make(2, 3, layout=layout)
    with pytest.raises(RuntimeError, match="does not match layout of out"):
        torch.zeros(2, 3, layout=layout, out=x)
    assert torch.zeros_like(x.to_sparse(), layout=torch.strided).layout is torch.strided


def test_dimensions_of_the_entries():
    x = torch.eye(4).reshape(4, 2, 2)
    s = x.to_sparse(dense_dim=1)
    assert (s.sparse_dim(), s.dense_dim()) == (2, 1)
    assert torch.equal(s.to_dense(), x)
    assert torch.equal(x.to_sparse_csr(dense_dim=1).to_dense(), x)
    with pytest.raises(RuntimeError, match="SparseCsr with blocksize argument"):
        x[0].to_sparse(layout=torch.sparse_csr, blocksize=(1, 1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float32])
def test_differences_of_unsigned_entries_are_taken_in_the_common_dtype(dtype):
    a = torch.tensor([[1, 0], [2, 0]], dtype=dtype)
    b = torch.tensor([[0, 3], [5, 0]], dtype=torch.uint8)
    expected = a - b
    for found in (a - b.to_sparse(), (a.to_sparse() - b.to_sparse()).to_dense()):
        assert found.dtype is expected.dtype and torch.equal(found, expected)
    if dtype is not torch.int8:
        assert torch.equal(a.clone().sub_(b.to_sparse()), expected)


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("name", ["add_", "sub_", "mul_"])
def test_sparse_tensors_are_added_to_dense_ones_in_place_with_their_gradient(name, needs):
    """As peft's Shira does: a weight that needs no gradient `+=` a sparse tensor that does."""
    places = torch.tensor([[0, 1, 1], [2, 0, 2]])
    found = []
    for sparse in (True, False):
        values = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
        start = torch.full((2, 3), 2.0, requires_grad=needs)
        written = start.clone()
        version = written._version
        other = torch.sparse_coo_tensor(places, values, (2, 3))
        assert getattr(written, name)(other if sparse else other.to_dense()) is written
        assert written._version > version
        (written * torch.arange(6.0).view(2, 3)).sum().backward()
        gradient = start.grad.to_dense() if needs else None
        found.append(
            (
                written.tolist(),
                values.grad.tolist(),
                gradient if gradient is None else gradient.tolist(),
            )
        )
    assert found[0] == found[1]
    leaf = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        getattr(leaf, name)(other)
