"""Linear algebra: products, factorizations and solvers against NumPy and against their definitions."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest

import rushlight as torch
from processes import finished

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def array(*shape, seed=0, dtype=np.float64):
    r = np.random.RandomState(seed)
    a = r.randn(*shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * r.randn(*shape)
    return np.asarray(a).astype(dtype)


def matrix(*shape, grad=False, **options):
    return torch.tensor(array(*shape, **options)).requires_grad_(grad)


def close(got, want, tolerance=1e-5):
    got, want = (t.detach().numpy() if isinstance(t, torch.Tensor) else t for t in (got, want))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def differences(f, inputs, seed=1):
    """The gradients of Re <cotangent, f(inputs)> by central differences, beside those of backward."""
    ts = [torch.tensor(a).requires_grad_() for a in inputs]
    out = f(*ts)
    w = array(*out.shape, seed=seed, dtype=out.detach().numpy().dtype)
    out.backward(torch.tensor(w))

    def value(arrays):
        r = f(*[torch.tensor(a) for a in arrays]).numpy()
        return (np.conj(w) * r).sum().real

    for k, t in enumerate(ts):
        numeric = np.zeros_like(inputs[k])
        for at in np.ndindex(inputs[k].shape):
            for unit in (1, 1j) if inputs[k].dtype.kind == "c" else (1,):
                moved = [a.copy() for a in inputs]
                moved[k][at] += 1e-6 * unit
                up = value(moved)
                moved[k][at] -= 2e-6 * unit
                numeric[at] += (up - value(moved)) / 2e-6 * unit
        np.testing.assert_allclose(t.grad.numpy(), numeric, rtol=1e-5, atol=1e-5)


# -- products --------------------------------------------------------------------------------------

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (5, 3, 2)),
    ((5, 2, 3), (1, 3, 2)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((2, 0, 3), (3, 4)),
    ((1, 2, 0), (3, 0, 4)),
]


@pytest.mark.parametrize("dtype", [*DTYPES, np.int64, np.uint8], ids=lambda d: d.__name__)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul_is_numpys(shapes, dtype):
    x, y = (array(*s, seed=i, dtype=np.float64) * 3 for i, s in enumerate(shapes))
    x, y = x.astype(dtype), y.astype(dtype)
    want = np.matmul(x, y)
    got = torch.tensor(x) @ torch.tensor(y)
    assert got.numpy().dtype == want.dtype
    close(got, want, 1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=lambda d: d.__name__)
@pytest.mark.parametrize("shapes", SHAPES[:12], ids=str)
def test_gradient_of_matmul(shapes, dtype):
    differences(lambda a, b: a @ b, [array(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)])


def variants(*shape, seed):
    """Tensors of one shape with all kinds of strides."""
    *lead, n, m = shape
    yield matrix(*shape, seed=seed)
    yield matrix(*lead, m, n, seed=seed).mT
    yield matrix(*lead, n, 2 * m, seed=seed)[..., ::2]
    yield matrix(*lead, 3 * n, m, seed=seed)[..., ::3, :]
    yield matrix(n, m, *lead, seed=seed).movedim((0, 1), (-2, -1))
    yield matrix(*lead, 1, m, seed=seed).expand(shape)
    yield matrix(*lead, n, 1, seed=seed).expand(shape)


@pytest.mark.parametrize("lead", [(), (2,)], ids=str)
def test_any_strides(lead):
    for a, b in itertools.product(variants(*lead, 4, 5, seed=0), variants(*lead, 5, 3, seed=1)):
        close(a @ b, a.numpy() @ b.numpy())


def test_transposed_operands_are_not_copied():
    from rushlight._backends.reference.products import blas_strides

    a = array(4, 3, 5)
    assert blas_strides(a.swapaxes(-1, -2)).base is not None
    assert blas_strides(a[..., ::2]).flags.c_contiguous


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_multiply_in_float32(dtype):
    a = torch.full((1, 4096), 0.1).to(dtype)
    exact = float((a.float() @ a.float().mT).item())
    assert float((a @ a.mT).item()) == float(torch.tensor(exact).to(dtype).item())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: matrix(2, 3) @ matrix(4, 5),
            r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)",
        ),
        (
            lambda: matrix(2, 3) @ matrix(3, 2, dtype=np.float32),
            "expected m1 and m2 to have the same dtype",
        ),
        (lambda: matrix(2, 2, 3) @ matrix(3, 3, 5), "must match the size of tensor b"),
        (
            lambda: matrix(2, 3).mv(matrix(4)),
            r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)",
        ),
        (lambda: torch.dot(matrix(2), matrix(3)), "inconsistent tensor size"),
        (lambda: torch.bmm(matrix(2, 3, 4), matrix(2, 5, 6)), r"batch2 tensor to be: \[2, 4\]"),
        (lambda: torch.tensor(1.0) @ matrix(3), "both arguments to matmul need to be at least 1D"),
    ],
)
def test_errors_of_products(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_linear_is_one_node_with_three_gradients():
    x, w, b = matrix(4, 3, grad=True), matrix(2, 3, seed=1, grad=True), matrix(2, seed=2, grad=True)
    y = torch.nn.functional.linear(x, w, b)
    assert y.grad_fn.name() == "AddmmBackward0"
    close(y, x.detach().numpy() @ w.detach().numpy().T + b.detach().numpy())
    for shape in ((4, 3), (3,), (2, 4, 3)):
        differences(
            torch.nn.functional.linear, [array(*shape), array(2, 3, seed=1), array(2, seed=2)]
        )
    differences(
        torch.nn.functional.linear,
        [array(*s, dtype=np.complex128, seed=i) for i, s in enumerate(((4, 3), (2, 3), (2,)))],
    )


def test_beta_zero_does_not_read_the_input():
    nan = torch.full((2, 2), float("nan"))
    assert torch.addmm(nan, torch.ones(2, 3), torch.ones(3, 2), beta=0).tolist() == [[3, 3], [3, 3]]


def test_second_derivatives_of_products():
    a, b = matrix(2, 3, grad=True), matrix(3, 2, seed=1, grad=True)
    (g,) = torch.autograd.grad((a @ b).pow(2).sum(), a, create_graph=True)
    g.pow(2).sum().backward()
    assert b.grad is not None
    assert a.grad is not None


# -- einsum ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shapes", "strides"),
    [
        ("bildsk,biokl->bolsd", [(2, 4, 3, 2, 5, 3), (2, 4, 6, 3, 3)], (180, 10, 60, 2, 1)),
        ("ij,jk->ki", [(2, 3), (3, 4)], (2, 1)),
        ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)], (72, 18, 6, 1)),
        ("bhqk,bkhd->bqhd", [(2, 4, 3, 6), (2, 6, 4, 5)], (60, 5, 15, 1)),
        ("ijk->kj", [(2, 3, 4)], (3, 1)),
    ],
)
def test_results_of_einsum_lie_as_pytorchs(equation, shapes, strides):
    """Programs take views of them."""
    operands = [torch.rand(s) for s in shapes]
    found = torch.einsum(equation, *operands)
    assert found.stride() == strides
    assert np.allclose(found, np.einsum(equation, *[t.numpy() for t in operands]))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...i,...i->...", [(2, 3, 4), (3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("abc,cd,be,ef->adf", [(2, 3, 4), (4, 5), (3, 2), (2, 6)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("iij,jkk->ik", [(2, 2, 3), (3, 4, 4)]),
        ("ij,k->k", [(2, 3), (4,)]),
        (" a b , b c -> c a ", [(2, 3), (3, 4)]),
    ],
)
def test_einsum(equation, shapes):
    arrays = [array(*s, seed=i) for i, s in enumerate(shapes)]
    close(
        torch.einsum(equation, *map(torch.tensor, arrays)), np.asarray(np.einsum(equation, *arrays))
    )
    differences(lambda *ts: torch.einsum(equation, *ts), arrays)


def test_einsum_with_lists_and_sizes_of_one():
    a, b = array(2, 3), array(3, 4)
    close(torch.einsum(torch.tensor(a), [0, 1], torch.tensor(b), [1, 2], [0, 2]), a @ b)
    close(torch.einsum("ij,jk->ik", torch.tensor(a[:, :1]), torch.tensor(b)), a[:, :1] * b.sum(0))


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "does not broadcast"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear"),
        ("ij->ii", [(2, 3)], "appears more than once"),
        ("ijk->i", [(2, 3)], r"number of subscripts in the equation \(3\)"),
        ("i1->i", [(2, 3)], "invalid subscript given at index 1"),
        ("i,i", [(2,)], "fewer operands"),
    ],
)
def test_errors_of_einsum(equation, shapes, text):
    with pytest.raises(RuntimeError, match=text):
        torch.einsum(equation, *[matrix(*s) for s in shapes])


# -- factorizations --------------------------------------------------------------------------------


def spd(*shape, dtype=np.float64):
    a = array(*shape, dtype=dtype)
    return a @ np.conj(a.swapaxes(-1, -2)) + shape[-1] * np.eye(shape[-1])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize(
    "shape", [(4, 4), (2, 5, 3), (3, 5), (0, 3), (2, 0, 0), (70, 70), (80, 40)], ids=str
)
def test_factors_give_the_matrix_back(shape, dtype):
    a = torch.tensor(array(*shape, dtype=dtype))
    p, low, up = torch.linalg.lu(a)
    close(p @ low @ up, a, 2e-3)
    q, r = torch.linalg.qr(a)
    close(q @ r, a, 2e-3)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    close((u * s.unsqueeze(-2)).to(a.dtype) @ vh, a, 2e-3)
    h, tau = torch.geqrf(a[..., : min(shape[-2:])])
    close(
        torch.linalg.householder_product(h, tau),
        torch.linalg.qr(a[..., : min(shape[-2:])])[0],
        2e-3,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (65, 65)], ids=str)
def test_spectra_and_solvers(shape, dtype):
    a = torch.tensor(spd(*shape, dtype=dtype).astype(dtype))
    b = matrix(*shape[:-1], 2, dtype=dtype, seed=3)
    tolerance = 1e-3 if a.dtype.itemsize // (2 if a.is_complex() else 1) == 4 else 1e-8
    values, vectors = torch.linalg.eigh(a)
    close(a @ vectors, vectors * values.unsqueeze(-2), tolerance * 100)
    values, vectors = torch.linalg.eig(a)
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), tolerance * 100)
    low = torch.linalg.cholesky(a)
    close(low @ low.mH, a, tolerance)
    close(torch.linalg.cholesky(a, upper=True), low.mH.resolve_conj(), tolerance)
    close(a @ torch.linalg.solve(a, b), b, tolerance)
    close(b.mT.contiguous(), torch.linalg.solve(a, b.mT, left=False) @ a, tolerance)
    close(a @ torch.cholesky_solve(b, low), b, tolerance)
    close(torch.cholesky_inverse(low), torch.linalg.inv(a), tolerance)
    for left, adjoint in itertools.product((True, False), repeat=2):
        factors = torch.linalg.lu_factor(a)
        c = b if left else b.mT
        x = torch.linalg.lu_solve(*factors, c, left=left, adjoint=adjoint)
        m = a.mH if adjoint else a
        close(m @ x if left else x @ m, c, tolerance)
    for upper, left, unit in itertools.product((True, False), repeat=3):
        t = low.mH if upper else low
        c = b if left else b.mT
        x = torch.linalg.solve_triangular(t, c, upper=upper, left=left, unitriangular=unit)
        m = (
            t - t.diagonal(0, -2, -1).diag_embed() + torch.eye(shape[-1], dtype=a.dtype)
            if unit
            else t
        )
        if not unit:
            close(m @ x if left else x @ m, c, tolerance)
    ld, pivots = torch.linalg.ldl_factor(a, hermitian=True)
    close(a @ torch.linalg.ldl_solve(ld, pivots, b, hermitian=True), b, tolerance)
    close(torch.linalg.matrix_exp(torch.linalg.inv(a)) @ torch.linalg.matrix_exp(-torch.linalg.inv(a)),
          np.broadcast_to(np.eye(shape[-1], dtype=dtype), shape), tolerance)  # fmt: skip


def test_indefinite_ldl():
    for seed in range(20):
        for hermitian, dtype in (
            (False, np.float64),
            (True, np.complex128),
            (False, np.complex128),
        ):
            a = array(6, 6, seed=seed, dtype=dtype)
            a = a + (np.conj(a.T) if hermitian else a.T)
            a[np.arange(6), np.arange(6)] *= seed % 3
            b = array(6, 2, seed=1, dtype=dtype)
            ld, pivots = torch.linalg.ldl_factor(torch.tensor(a), hermitian=hermitian)
            close(
                a
                @ torch.linalg.ldl_solve(ld, pivots, torch.tensor(b), hermitian=hermitian).numpy(),
                b,
            )


GRADIENTS = {
    "inv": lambda a: torch.linalg.inv(a),
    "det": lambda a: torch.linalg.det(a),
    "logabsdet": lambda a: torch.linalg.slogdet(a).logabsdet,
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(3, dtype=a.dtype)),
    "lu": lambda a: (lambda f: f[1] @ f[2] @ f[2])(torch.linalg.lu(a)),
    "qr": lambda a: (lambda f: f[0] @ f[1] @ f[1])(torch.linalg.qr(a)),
    "eigh": lambda a: (lambda f: (f[1] * f[0].unsqueeze(-2).exp()) @ f[1].mH)(
        torch.linalg.eigh(a + a.mH)
    ),
    "eig": lambda a: torch.linalg.eigvals(a).abs().sort().values,
    "svd": lambda a: (lambda f: (f[0] * f[1].unsqueeze(-2).exp()) @ f[2])(torch.linalg.svd(a)),
    "svdvals": lambda a: torch.linalg.svdvals(a),
    "pinv": lambda a: torch.linalg.pinv(a[:, :2]),
    "exp": lambda a: torch.linalg.matrix_exp(a),
    "power": lambda a: torch.linalg.matrix_power(a, -3),
    "nuclear": lambda a: torch.linalg.matrix_norm(a, "nuc"),
    "cube": lambda a: torch.linalg.vector_norm(a, 3, 0),
    "root": lambda a: torch.linalg.vector_norm(a, 0.5),
    "vecdot": lambda a: torch.linalg.vecdot(a, a @ a),
    "kron": lambda a: torch.kron(a, a[:2]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, dtype):
    differences(GRADIENTS[name], [array(3, 3, dtype=dtype)])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=lambda d: d.__name__)
def test_gradients_of_oblong_factors(shape, dtype):
    for name in ("lu", "qr", "svd"):

        def f(a, name=name):
            kwargs = {"full_matrices": False} if name == "svd" else {}
            *_, x, y = getattr(torch.linalg, name)(a, **kwargs)
            return (
                x @ y if name != "svd" else x.to(y.dtype).unsqueeze(-2) @ (y @ y.mH)
            ) + y.abs().sum()

        differences(f, [array(*shape, dtype=dtype)])


def test_gradient_of_a_singular_determinant_is_the_cofactor_matrix():
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)
    torch.linalg.det(a).backward()
    close(a.grad, np.array([[4.0, -2.0], [-2.0, 1.0]]))


def test_second_derivatives_of_solvers():
    a, b = matrix(3, 3, grad=True), matrix(3, seed=1, grad=True)
    (g,) = torch.autograd.grad(torch.linalg.solve(a, b).sum(), a, create_graph=True)
    g.sum().backward()
    inverse = np.linalg.inv(a.detach().numpy())
    ones = np.ones(3)
    # g = -u xᵀ with u = A⁻ᵀ 1 and x = A⁻¹ b: the sum is -(1·u)(1·x), and 1·x has the gradient u in b
    close(b.grad, -(ones @ (inverse.T @ ones)) * (inverse.T @ ones), 1e-8)


def test_singular_matrices():
    zero = torch.zeros(2, 2)
    with pytest.raises(torch.linalg.LinAlgError, match="The diagonal element 1 is zero"):
        torch.linalg.inv(zero)
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): The diagonal element 2 is zero"):
        torch.linalg.inv(torch.tensor([[[1.0, 0], [0, 1]], [[1, 2], [2, 4]]]))
    with pytest.raises(
        torch.linalg.LinAlgError, match="The solver failed because the input matrix is singular"
    ):
        torch.linalg.solve(zero, torch.ones(2))
    with pytest.raises(
        torch.linalg.LinAlgError, match="the leading minor of order 2 is not positive"
    ):
        torch.linalg.cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    assert torch.linalg.inv_ex(zero).info.item() == 1
    assert torch.linalg.cholesky_ex(-torch.eye(2)).info.item() == 1
    assert torch.linalg.solve_ex(zero, torch.ones(2)).info.dtype is torch.int32
    x = torch.linalg.solve_triangular(zero, torch.ones(2, 1), upper=True)
    assert not x.isfinite().any()


def test_results_have_names():
    names = torch.linalg.eigh(torch.eye(2))._fields
    assert names == ("eigenvalues", "eigenvectors")
    assert type(torch.linalg.qr(torch.eye(2))).__name__ == "linalg_qr"
    out = torch.empty(0), torch.empty(0, dtype=torch.int32)
    torch.linalg.inv_ex(torch.eye(2), out=out)
    assert out[0].tolist() == [[1, 0], [0, 1]]


def test_namespace():
    assert "svd" in dir(torch.linalg)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        torch.linalg.nothing_of_this_name


# -- norms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, float("inf"), -float("inf"), -1])
@pytest.mark.parametrize("dim", [None, 0, (0, 1)])
def test_vector_norms(order, dim):
    a = array(3, 4)
    flat = a.reshape(-1) if dim is None or dim == (0, 1) else a
    want = np.linalg.norm(flat, order, axis=0)
    close(torch.linalg.vector_norm(torch.tensor(a), order, dim), np.asarray(want))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")])
@pytest.mark.parametrize("keepdim", [False, True])
def test_matrix_norms(order, keepdim):
    a = array(2, 3, 4)
    want = np.linalg.norm(a, order, axis=(2, 0), keepdims=keepdim)
    close(torch.linalg.matrix_norm(torch.tensor(a), order, (2, 0), keepdim), want)


def test_norm_at_zero_has_gradient_zero():
    for order in (1, 1.5, 2, 3, 0.5):
        x = torch.zeros(3, requires_grad=True)
        torch.linalg.vector_norm(x, order).backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_rank_and_condition():
    a = np.diag([3.0, 1.0, 0.0])
    assert torch.linalg.matrix_rank(torch.tensor(a)).item() == 2
    assert torch.linalg.matrix_rank(torch.tensor(a), atol=2.0).item() == 1
    assert torch.linalg.cond(torch.tensor(a)).item() == np.inf
    close(torch.linalg.cond(matrix(3, 3), 1), np.asarray(np.linalg.cond(array(3, 3), 1)))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    a, b = array(2, 4, 3), array(5, 3, seed=1)
    want = np.linalg.norm(a[:, :, None] - b, p, axis=-1)
    close(torch.cdist(torch.tensor(a), torch.tensor(b), p), want)
    i, j = np.triu_indices(4, 1)
    close(torch.pdist(torch.tensor(a[0]), p), np.linalg.norm(a[0][i] - a[0][j], p, axis=-1))
    if p > 0.5:
        differences(lambda x, y: torch.cdist(x, y, p), [a, b])


def test_many_distances_by_a_product():
    a, b = array(40, 3), array(30, 3, seed=1)
    want = np.linalg.norm(a[:, None] - b, axis=-1)
    close(torch.cdist(torch.tensor(a), torch.tensor(b)), want)
    close(
        torch.cdist(torch.tensor(a), torch.tensor(b), compute_mode="donot_use_mm_for_euclid_dist"),
        want,
    )


# -- the rest --------------------------------------------------------------------------------------


def test_chains_and_tensors():
    ms = [array(a, b, seed=a) for a, b in ((2, 9), (9, 3), (3, 7), (7, 4))]
    close(torch.linalg.multi_dot([torch.tensor(m) for m in ms]), np.linalg.multi_dot(ms))
    a, b = array(3, 4, 5), array(4, 3, 2, seed=1)
    close(
        torch.tensordot(torch.tensor(a), torch.tensor(b), ([1, 0], [0, 1])),
        np.tensordot(a, b, ([1, 0], [0, 1])),
    )
    c = array(2, 3, 6)
    close(torch.linalg.tensorinv(torch.tensor(c)), np.linalg.tensorinv(c))
    close(
        torch.linalg.tensorsolve(torch.tensor(c), torch.tensor(array(2, 3))),
        np.linalg.tensorsolve(c, array(2, 3)),
    )
    close(torch.kron(torch.tensor(a[0]), torch.tensor(b[0])), np.kron(a[0], b[0]))
    close(
        torch.linalg.cross(torch.tensor(a[:, :3, 0]), torch.tensor(a[:, :3, 1])),
        np.cross(a[:, :3, 0], a[:, :3, 1]),
    )
    close(torch.vander(torch.tensor(a[0, :, 0])), np.vander(a[0, :, 0]))


def test_least_squares():
    a, b = array(5, 3), array(5, 2, seed=1)
    want, residuals, rank, _ = np.linalg.lstsq(a, b)
    got = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver="gelsd")
    close(got.solution, want)
    close(got.residuals, residuals)
    assert got.rank.item() == rank


def test_least_squares_of_integers_are_refused():
    for dtype in (torch.int64, torch.float16):
        a = torch.ones(3, 2, dtype=dtype)
        with pytest.raises(RuntimeError, match="types other than float and double"):
            torch.linalg.lstsq(a, a)


def test_low_rank():
    torch.manual_seed(0)
    a = torch.tensor(array(30, 3) @ array(3, 20, seed=1))
    for x in (a, a.mT):
        u, s, v = torch.svd_lowrank(x, 4)
        close((u * s) @ v.mT, x.contiguous(), 1e-8)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_low_rank_of_sparse_matrices(layout):
    values = array(7, 5)
    values[values < 0] = 0
    a = torch.tensor(values).to_sparse(layout=layout).requires_grad_()
    for center, want in ((True, values - values.mean(0)), (False, values)):
        u, s, v = torch.pca_lowrank(a, 5, center)
        close((u * s) @ v.T, want, 1e-8)
        s.square().sum().backward()  # the sum of the squares of all elements
        close(a.grad.to_dense()[values != 0], 2 * want[values != 0], 1e-8)
        a.grad = None
    u, s, v = torch.svd_lowrank(a, 5, M=torch.ones(1, 5, dtype=a.dtype))
    close((u * s) @ v.T, values - 1, 1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize(("shape", "rank"), [((7, 4), 4), ((4, 7), 4), ((5, 5), 5), ((2, 6, 3), 3), ((7, 4), 2), ((4, 7), 2)])  # fmt: skip
def test_least_squares_of_full_and_of_lesser_rank_are_those_of_the_pseudoinverse(
    shape, rank, dtype
):
    torch.manual_seed(0)
    m, n = shape[-2:]
    a = torch.randn(*shape[:-2], m, rank, dtype=dtype) @ torch.randn(rank, n, dtype=dtype)
    a = torch.randn(shape, dtype=dtype) if rank == min(m, n) else a
    a, b = a.requires_grad_(), torch.randn(*shape[:-1], 2, dtype=dtype, requires_grad=True)
    rcond = 1e-5
    got = torch.linalg.lstsq(a, b, rcond=rcond)
    want = torch.linalg.pinv(a, rtol=rcond) @ b
    assert got.rank.unique().tolist() == [rank] and got.rank.shape == a.shape[:-2]
    tolerance = 1e-10 if dtype is torch.float64 else 2e-4
    torch.testing.assert_close(got.solution, want, rtol=tolerance, atol=tolerance)
    g = torch.randn_like(want)
    for x, y in zip(
        *(torch.autograd.grad(r, (a, b), g) for r in (got.solution, want)), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("driver", ["gels", "gelsd"])
def test_lstsq_with_an_rcond_of_one(driver):
    """ "gels" does not look at it, and "gelsd" not at one outside of (0, 1)."""
    a, b = torch.tensor([[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]]), torch.tensor([[2.0], [1.0], [3.0]])
    assert torch.linalg.lstsq(a, b, rcond=1, driver=driver).solution.flatten().tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.complex64])
@pytest.mark.parametrize("n, m", [(0, 0), (5, 0), (0, 5), (5, 1)])
def test_addr_of_nothing_and_of_one_element(n, m, dtype):
    for b in (torch.ones(m, dtype=dtype), torch.ones(1, dtype=dtype).expand(m)):
        for matrix in (torch.ones(n, m, dtype=dtype), torch.ones(m, n, dtype=dtype).T):
            c = torch.addr(matrix, torch.ones(n, dtype=dtype), b, alpha=2)
            assert c.shape == (n, m)
            assert (c == 3).all()


def pivots(*rows):
    return torch.tensor(rows, dtype=torch.int32)


REFUSED = {
    "a pivot of 0": (
        lambda: torch.linalg.lu_solve(torch.eye(3), pivots(0, 1, 2), torch.ones(3, 1)), "greater or equal to 1",
    ),
    "a pivot beyond": (
        lambda: torch.lu_solve(torch.ones(3, 1), torch.eye(3), pivots(1, 1, 4)), "smaller or equal to LU.size",
    ),
    "truth beside numbers": (
        lambda: torch.addr(torch.eye(2), torch.ones(2), torch.ones(2), beta=True), "Boolean beta only",
    ),
    "a fraction beside integers": (
        lambda: torch.addr(*(torch.ones(n, dtype=torch.int64) for n in (2, 2, 2)), alpha=0.5),
        "argument alpha must not be a floating point number",
    ),
    "what does not fit": (
        lambda: torch.linalg.tensorsolve(torch.eye(24).reshape(6, 4, 2, 3, 4), torch.ones(8, 4)),
        "Expected self to satisfy the requirement",
    ),
    **{
        f"the removed {name}": (
            lambda name=name: getattr(torch, name)(torch.eye(2), torch.eye(2)), f"removed. Use `torch.linalg.{now}`",
        )
        for name, now in {
            "eig": "eig", "lstsq": "lstsq", "matrix_rank": "matrix_rank", "solve": "solve", "symeig": "eigh",
        }.items()
    },
    "a removed method": (lambda: torch.eye(2).solve(torch.eye(2)), "removed. Use `torch.linalg.solve`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(RuntimeError, match=text):
        call()


def test_dimensions_that_are_no_ints():
    for dim in ((0, 1.0), (None,)):
        with pytest.raises(TypeError, match="must be tuple of ints"):
            torch.linalg.vector_norm(torch.ones(2, 2), dim=dim)
    with pytest.raises(ValueError, match="at least one operand"):
        torch.einsum("", [])


def test_tensordot_of_numbers():
    assert torch.tensordot(torch.tensor(2.0), torch.tensor(3.0), 0).tolist() == 6.0
    assert torch.tensordot(torch.tensor(2.0), torch.ones(3), 0).tolist() == [2.0] * 3


@pytest.mark.parametrize("name", ["svd", "eig", "eigh"])
def test_a_loss_that_depends_on_phases_has_no_gradient(name):
    a = torch.tensor(
        [[1, 2j, 3], [4, 5, 6j], [1 + 1j, 0, 2]], dtype=torch.complex128, requires_grad=True
    )
    vectors = torch.linalg.svd(a)[0] if name == "svd" else getattr(torch.linalg, name)(a + a.mH)[1]
    (vectors.abs() ** 2).sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="ill-defined"):
        vectors.sum().abs().backward()


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_of_an_inverse_have_no_sign(dtype):
    """Before machine code and after."""
    for _ in range(2):
        parts = torch.linalg.inv(torch.diag(torch.tensor(np.array([2, 4, 8], dtype)))).numpy()
        assert not np.signbit(parts.real).any() and not np.signbit(parts.imag).any()
        torch.zeros(20000).exp()


def test_the_inverse_of_a_factor_with_a_zero_on_its_diagonal():
    factor = torch.eye(3)
    factor[1, 1] = 0
    with pytest.raises(
        torch.linalg.LinAlgError, match="cholesky_inverse: The diagonal element 2 is zero"
    ):
        torch.cholesky_inverse(factor)
    with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
        torch.cholesky_inverse(torch.stack([torch.eye(3), factor]))


def test_tolerances_are_real():
    for which in ("atol", "rtol"):
        with pytest.raises(RuntimeError, match=f"{which} tensor of complex type is not supported"):
            torch.linalg.matrix_rank(torch.eye(2), **{which: torch.tensor(1j)})
    with pytest.raises(RuntimeError, match="rcond tensor of complex type is not supported"):
        torch.linalg.pinv(torch.eye(2), rcond=torch.tensor(1j))


def test_what_linalg_has_under_another_name_says_so_once():
    a, pivots = torch.eye(3), torch.tensor([1, 2, 3], dtype=torch.int32)
    calls = {
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky": lambda: torch.cholesky(a),
        "torch.qr is deprecated in favor of torch.linalg.qr": lambda: a.qr(),
        "torch.lu is deprecated in favor of torch.linalg.lu_factor": lambda: torch.lu(a),
        "torch.lu_solve is deprecated": lambda: torch.lu_solve(a, a, pivots),
        "torch.triangular_solve is deprecated": lambda: torch.triangular_solve(a, a),
        "torch.chain_matmul is deprecated": lambda: torch.chain_matmul(a, a),
        "without specifying the dim arg": lambda: torch.cross(a, a),
    }
    for text, call in calls.items():
        torch.set_warn_always(True)
        try:
            with pytest.warns(UserWarning, match=text):
                call()
        finally:
            torch.set_warn_always(False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_addr_lies_in_memory_as_its_input(dtype):
    """With factors, and without: the steps of halves are rounded as in any other order."""
    x, a, b = (torch.arange(1, n + 1).to(dtype) for n in (300 * 20, 20, 300))
    x = x.reshape(300, 20).t()
    for factors in ({}, {"beta": 2, "alpha": 3}, {"beta": 0}):
        result = torch.addr(x, a, b, **factors)
        assert result.stride() == (1, 20)
        assert torch.equal(result, torch.addr(x.contiguous(), a, b, **factors))


def test_the_power_0_is_the_identity_whatever_the_matrix_holds():
    a = torch.tensor([[float("nan"), 1.0], [2.0, float("inf")]], requires_grad=True)
    r = torch.linalg.matrix_power(a, 0)
    assert torch.equal(r, torch.eye(2))
    r.sum().backward()
    assert torch.equal(a.grad, torch.zeros(2, 2))
    assert torch.linalg.matrix_power(torch.ones(3, 2, 2).mT, 0).stride() == (4, 2, 1)


def test_large_kronecker_products_and_those_of_columns():
    for shapes in [
        ((60, 20), (30, 7)),
        ((3, 50, 40), (6, 2, 5)),
        ((400,), (300,)),
        ((9, 300), (20, 1)),
    ]:
        a, b = (
            torch.arange(np.prod(s), dtype=torch.float64).reshape(s).requires_grad_()
            for s in shapes
        )
        got = torch.kron(a, b)
        assert (got.detach().numpy() == np.kron(a.detach().numpy(), b.detach().numpy())).all()
        got.sum().backward()
        assert (a.grad == b.detach().sum()).all() and (b.grad == a.detach().sum()).all()
    a, b = torch.arange(6.0).reshape(3, 2).t(), torch.arange(12.0).reshape(4, 3).t()
    assert torch.kron(a, b).stride() == (1, 6)
    assert (torch.kron(a, b).numpy() == np.kron(a.numpy(), b.numpy())).all()


def test_a_trace_is_added_up_in_double_precision():
    assert torch.trace(torch.ones(300, 300, dtype=torch.bfloat16)) == 300
    a = torch.full((3, 3), 2.0**24)
    a[1, 1], a[2, 2] = 1, 1
    assert torch.trace(a.t()) == 2**24 + 2
    assert torch.trace(torch.full((2, 5), 200, dtype=torch.uint8)) == 400
    assert torch.trace(torch.ones(0, 3)) == 0


def test_cross_products_lie_in_order_and_take_one_dtype():
    x, y = torch.randn(3, 4, dtype=torch.float64).t(), torch.randn(1, 3, dtype=torch.float64)
    for a, b in ((x, x.flip(0)), (x, y), (y, x)):
        got = torch.linalg.cross(a, b)
        assert got.stride() == (3, 1)
        close(got, np.cross(a.numpy(), b.numpy()))
    n = torch.tensor([[1, 2, 3], [200, 5, 7]], dtype=torch.uint8)
    assert torch.cross(n, n.flip(0), dim=1)[0].tolist() == [
        (2 * 7 - 3 * 5) % 256,
        (3 * 200 - 7) % 256,
        (5 - 400) % 256,
    ]
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Double"):
        torch.linalg.cross(n.long(), x[:2])
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.linalg.cross(n.bool(), n.bool())


def test_distances_that_count_differences_are_nan_beside_nan_and_have_no_slope():
    x = torch.tensor([[1.0, float("inf")], [2.0, 3.0]], requires_grad=True)
    y = torch.tensor([[1.0, 2.0], [float("nan"), 0.0]])
    d = torch.cdist(x, y, 0.0)
    assert d[:, 0].tolist() == [1, 2] and d[:, 1].isnan().all()
    d.sum().backward()
    assert not x.grad.any()
    assert torch.pdist(x, 0.0).item() == 2


def test_addr_of_halves_rounds_after_each_step():
    torch.manual_seed(0)
    x, a, b = torch.randn(4, 5).half(), torch.randn(4).half(), torch.randn(5).half()
    stepwise = x * 2 + (a * -1.5).unsqueeze(1) * b
    assert torch.equal(torch.addr(x, a, b, beta=2, alpha=-1.5), stepwise)


def test_an_ellipsis_stands_once():
    for equation in ("i...->......", "i...->...i...", "i...->...."):
        with pytest.raises(RuntimeError, match="for output but an ellipsis .* was already found"):
            torch.einsum(equation, torch.ones(2))
    with pytest.raises(RuntimeError, match="for output that is not part of any ellipsis"):
        torch.einsum("i->.", torch.ones(2))
    with pytest.raises(RuntimeError, match="operand 0 for which an ellipsis was already found"):
        torch.einsum("....i->i", torch.ones(2))


def test_an_invalid_subscript_is_named_by_its_place_in_the_equation():
    for equation, n in (("a,1->a", 2), ("ab,cd->1", 7), ("a->a#", 4)):
        tensors = [torch.ones(2, 2) if "ab" in equation else torch.ones(2)] * (
            1 + equation.count(",")
        )
        with pytest.raises(
            RuntimeError, match=f"invalid subscript given at index {n} in the equation"
        ):
            torch.einsum(equation, *tensors)


# -- what LAPACK computes ----------------------------------------------------------------------------


def test_reflections_keep_no_copy_for_each():
    """A product of n reflections of an n x n matrix records a few matrices, not n of them."""
    n = 150
    a, tau = torch.geqrf(matrix(n, n))
    other = matrix(n, n, seed=1)
    a.requires_grad_()
    for call in (torch.linalg.householder_product, lambda v, t: torch.ormqr(v, t, other)):
        call(a, tau)
        tracemalloc.start()
        result = call(a, tau)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert held < 10 * other.numel() * other.element_size()
        result.sum().backward()


def test_solutions_from_the_right_lie_as_in_pytorch():
    a, b = matrix(2, 4, 4) + 4 * torch.eye(4, dtype=torch.float64), matrix(2, 3, 4, seed=1)
    x = torch.linalg.solve_triangular(a, b, upper=True, left=False)
    close(x @ a.triu(), b)
    assert x.stride() == (12, 1, 3)
    x = torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False)
    close(x @ a, b)
    assert x.stride() == (12, 4, 1)


def test_the_other_triangle_of_a_factor_is_not_read():
    a = matrix(4, 4)
    a = a @ a.mT + torch.eye(4, dtype=torch.float64)
    for upper in (False, True):
        factor = torch.linalg.cholesky(a, upper=upper)
        other = torch.full_like(a, float("nan"))
        with_nan = factor + (other.tril(-1) if upper else other.triu(1))
        close(torch.cholesky_inverse(with_nan, upper=upper) @ a, np.eye(4))
        close(a @ torch.cholesky_solve(torch.ones_like(a), with_nan, upper=upper), np.ones((4, 4)))


def test_factors_of_other_dtypes_are_refused():
    half = torch.ones(2, 2, dtype=torch.bfloat16)
    for call in (
        lambda: torch.cholesky_solve(half, half),
        lambda: torch.linalg.householder_product(half, half[0]),
        lambda: torch.ormqr(half, half[0], half),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'BFloat16'"):
            call()
    with pytest.raises(RuntimeError, match="Expected b and A to have the same dtype"):
        torch.cholesky_solve(torch.ones(2, 1), torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("at", [torch.eye(3), torch.zeros(3, 3)])
def test_values_alone_have_gradients_where_they_are_equal(at):
    """Nobody sent a gradient of the vectors: no quotient of differences of values is formed."""
    weights = torch.arange(3.0)
    for values in (
        lambda x: torch.linalg.eigh(x).eigenvalues,
        lambda x: torch.linalg.svd(x).S,
        lambda x: torch.linalg.eig(x).eigenvalues.real,
    ):
        x = at.clone().requires_grad_()
        (values(x) * weights).sum().backward()
        assert torch.isfinite(x.grad).all()
        torch.testing.assert_close(x.grad.trace(), weights.sum())


def test_gradients_of_factors_are_of_all_their_elements():
    """As the gradients of `L @ L.mT`, whose triangle above `L` is not read."""
    torch.manual_seed(0)
    factor, b = torch.randn(3, 3).tril() + 3 * torch.eye(3), torch.randn(3, 2)
    for upper in (False, True):
        for solved in (
            lambda f, u=upper: torch.cholesky_solve(b, f, upper=u),
            lambda f, u=upper: torch.cholesky_inverse(f, upper=u),
        ):
            one = (factor.mT if upper else factor).clone().requires_grad_()
            two = one.detach().clone().requires_grad_()
            product = two.mT @ two if upper else two @ two.mT
            other = torch.linalg.inv(product)
            result = solved(one)
            result.square().sum().backward()
            (other @ b if result.shape == b.shape else other).square().sum().backward()
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-5)


def test_factorizations_without_gradients_say_so():
    x = (torch.rand(3, 3) + 3 * torch.eye(3)).requires_grad_()
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented"):
        torch.geqrf(x)[0].sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::linalg_ldl_factor_ex is not impl"):
        torch.linalg.ldl_factor(x)[0].sum().backward()


@pytest.mark.parametrize("compiled", ["0", ""])
def test_what_overflows_within_functions_of_numpy_warns_nobody(compiled):
    program = """
import rushlight as torch
a = torch.full((3, 3), 1e30) + 1e30 * torch.eye(3)
found = torch.linalg.det(a), torch.linalg.inv(1e-35 * a / 1e35), torch.matrix_exp(a * 1e8)
print(found[0].item(), torch.linalg.solve(a / 1e35, a).isinf().any().item())
"""
    done = finished("-c", program, RUSHLIGHT_COMPILED=compiled)
    assert (done.stdout, done.stderr) == ("inf False\n", "")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", [(300, 4, 4), (2, 70, 3, 3), (90, 1, 1), (0, 4, 4), (3, 0, 0)])
def test_a_stack_has_the_bits_of_its_matrices(shape, dtype):
    """Also where its matrices are transposed, or lie apart, which changes at most the bits of determinants: where real numbers
    lie without gaps the transposed matrix is factored, as in PyTorch."""
    a = torch.tensor(array(*shape, dtype=dtype))
    wide = torch.zeros(*shape[:-1], 2 * shape[-1], dtype=a.dtype)
    wide[..., ::2] = a
    for b in (a, wide[..., ::2], a.mT.contiguous().mT):
        for f in (torch.linalg.det, torch.linalg.inv, lambda x: torch.linalg.qr(x).R):
            found, single = f(b), b if f is torch.linalg.det else a
            for at in [*np.ndindex(shape[:-2])][::50]:
                assert (found[at] == f(single[at])).all()
        close(torch.linalg.det(b), np.linalg.det(a.numpy()), 1e-4)
        unit = np.broadcast_to(np.eye(shape[-1]), shape)
        close(torch.linalg.inv(b) @ a, unit.astype(dtype), 3e-2 if a.dtype.itemsize == 4 else 1e-2)


def test_determinants_are_products_of_pivots():
    assert torch.linalg.det(torch.tensor([[0.0, 3.0], [7.0, 0.0]])).item() == -21
    big = torch.diag_embed(torch.tensor([[1e30, 1e30], [0.0, 5.0], [float("nan"), 1]]))
    assert str(torch.linalg.det(big).tolist()) == "[inf, 0.0, nan]"
    one = torch.eye(3).repeat(200, 1, 1)
    one[150, 2, 2] = 0
    assert torch.linalg.det(one).argmin() == 150
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"\(Batch element 150\): The diagonal element 3"
    ):
        torch.linalg.inv(one)
    assert torch.linalg.inv_ex(one).info.nonzero().tolist() == [[150]]
