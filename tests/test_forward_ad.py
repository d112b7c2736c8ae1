"""Forward mode: tangents through computations."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD


def test_tangent_is_the_jacobian_times_the_tangents():
    x, t = torch.randn(3), torch.randn(3)
    w, s = torch.randn(2, 3), torch.randn(2, 3)

    def f(x, w):
        return (w @ x.sin()).exp()

    with fwAD.dual_level():
        out = fwAD.unpack_dual(f(fwAD.make_dual(x, t), fwAD.make_dual(w, s)))
    want, tangent = torch.autograd.functional.jvp(f, (x, w), (t, s))
    torch.testing.assert_close(out.primal, want)
    torch.testing.assert_close(out.tangent, tangent)


def test_modules():
    layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    tangents = {name: torch.ones_like(p) for name, p in layer.named_parameters()}
    with fwAD.dual_level():
        duals = {n: fwAD.make_dual(p.detach(), tangents[n]) for n, p in layer.named_parameters()}
        out = torch.func.functional_call(layer, duals, (x,))
        assert fwAD.unpack_dual(out).tangent.tolist() == [[4.0, 4.0]]


def test_what_has_no_tangent():
    with fwAD.dual_level():
        assert fwAD.unpack_dual(torch.ones(2)).tangent is None
        w = torch.ones(2, requires_grad=True)
        fwAD.make_dual(torch.ones(2), torch.ones(2))
        assert fwAD.unpack_dual(w * 2).tangent is None
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(torch.ones(2), torch.ones(2))
    with fwAD.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode"):
        fwAD.enter_dual_level()


def test_custom_function_with_a_jvp_only():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.result, ctx.exp = torch.exp(x) * scale, torch.exp(x)
            return ctx.result.clone()

        @staticmethod
        def jvp(ctx, x_t, scale_t):
            out = x_t * ctx.result
            return out if scale_t is None else out + scale_t * ctx.exp

    torch.manual_seed(0)
    x, s, t, u = (torch.randn(4, dtype=torch.float64) for _ in range(4))
    x.requires_grad_()
    with fwAD.dual_level():
        one = fwAD.unpack_dual(Scaled.apply(fwAD.make_dual(x, t), s)).tangent
        both = fwAD.unpack_dual(
            Scaled.apply(fwAD.make_dual(x, t), fwAD.make_dual(s, u)) * 2
        ).tangent
    assert torch.allclose(one, x.exp() * s * t)
    assert torch.allclose(both, 2 * (x.exp() * s * t + x.exp() * u))
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        Scaled.apply(x, s).sum().backward()


def test_a_tangent_has_a_dtype_of_its_own():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.tensor([1.0, 2.0], dtype=torch.float64))
        value, tangent = fwAD.unpack_dual(x * 3)
        assert value.dtype is torch.float32
        assert tangent.dtype is torch.float64
        assert tangent.tolist() == [3, 6]
        with pytest.raises(RuntimeError, match="different size"):
            fwAD.make_dual(torch.ones(2), torch.ones(3))
        with pytest.raises(ValueError, match="tangent to be floating point"):
            fwAD.make_dual(torch.ones(2), torch.ones(2, dtype=torch.int64))


def test_jvp_gets_zeros_for_tensors_without_a_tangent():
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, n, x, y):
            return n * x + y

        @staticmethod
        def jvp(ctx, n, x, y):
            assert n is None
            return 2 * x + y

    with fwAD.dual_level():
        x = fwAD.make_dual(torch.tensor(1.0), torch.tensor(3.0))
        assert fwAD.unpack_dual(Sum.apply(2, x, torch.tensor(5.0))).tangent == 6
        assert fwAD.unpack_dual(Sum.apply(2, torch.tensor(5.0), x)).tangent == 3


def test_a_view_made_before_its_base_is_written_has_the_tangent():
    base = torch.zeros(4)
    v = base[1:3]
    w = v.view(2, 1)
    with fwAD.dual_level():
        base.copy_(fwAD.make_dual(torch.arange(4.0), torch.tensor([10.0, 20.0, 30.0, 40.0])))
        assert fwAD.unpack_dual(v).tangent.tolist() == [20, 30]
        assert fwAD.unpack_dual((w * 2).sum(1)).tangent.tolist() == [40, 60]
        z, whole = torch.zeros(3), torch.zeros(2)
        z[1:] = v
        whole.copy_(v)
        assert fwAD.unpack_dual(z).tangent.tolist() == [0, 20, 30]
        assert fwAD.unpack_dual(whole).tangent.tolist() == [20, 30]
        w[0] = 7
        assert fwAD.unpack_dual(base).tangent.tolist() == [10, 0, 30, 40]
    assert base.tolist() == [0, 7, 2, 3] and (v * 2).tolist() == [14, 4]


def test_tangents_can_be_switched_off():
    x, t = torch.tensor(0.5), torch.tensor(1.0)

    def f(x):
        with fwAD._set_fwd_grad_enabled(False):
            shift = x**2
        return x**2 - shift

    assert torch.func.jvp(f, (x,), (t,))[1].item() == 1
    assert torch.func.jvp(lambda x: torch.func.jvp(f, (x,), (t,))[1], (x,), (t,))[1].item() == 2
    with fwAD._set_fwd_grad_enabled(False):
        assert torch.func.jvp(lambda x: x * x, (x,), (t,))[1].item() == 1
    assert fwAD._is_fwd_grad_enabled()


def test_tangents_of_a_number_that_fills_a_mask():
    x, v = torch.randn(4), torch.tensor(2.0)
    mask = torch.tensor([True, False, True, False])
    with fwAD.dual_level():
        d = fwAD.make_dual(v, torch.ones(()))
        for t in (x.masked_fill(mask, d), x.clone().masked_fill_(mask, d)):
            assert fwAD.unpack_dual(t).tangent.tolist() == [1, 0, 1, 0]


def test_views_follow_bases_under_vmap():
    def f(x, y):
        x = x.clone()
        view = x[0]
        x.copy_(y)
        return view, x

    x, y, t = torch.randn(3, 2, 4), torch.randn(3, 2, 4), torch.randn(3, 2, 4)
    both = torch.func.vmap(lambda x, y, t: torch.func.jvp(lambda y: f(x, y), (y,), (t,)))
    _, (of_view, of_base) = both(x, y, t)
    assert torch.equal(of_view, t[:, 0]) and torch.equal(of_base, t)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 1)])
def test_batched_tangents_beside_tensors_without_a_batch(shape):
    torch.manual_seed(0)
    x, tangents = torch.randn(shape).double(), torch.randn(4, *shape).double()
    target = torch.ones(shape[:1] + shape[2:] if len(shape) > 1 else (), dtype=torch.int64)

    def tangent(t):
        with fwAD.dual_level():
            loss = torch.nn.functional.cross_entropy(fwAD.make_dual(x, t), target)
            return fwAD.unpack_dual(loss).tangent

    got = torch.func.vmap(tangent)(tangents)
    torch.testing.assert_close(got, torch.stack([tangent(t) for t in tangents]))
    difference = torch.nn.functional.cross_entropy(x + 1e-6 * tangents[0], target)
    difference -= torch.nn.functional.cross_entropy(x - 1e-6 * tangents[0], target)
    torch.testing.assert_close(got[0], difference / 2e-6)


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("order", [1, 1.5, 2, 3])
def test_tangents_of_norms_at_zero(n, order):
    f = lambda x: torch.linalg.vector_norm(x, order)  # noqa: E731
    x, t = torch.zeros(n), torch.ones(n)
    assert torch.func.jvp(f, (x,), (t,))[1].item() == 0


def test_sparse_results_have_no_tangents_and_say_so():
    x, t = torch.randn(3, 3), torch.randn(3, 3)
    eye = torch.eye(3).to_sparse()
    for f in (lambda x: x.to_sparse().to_dense(), lambda x: x.sparse_mask(eye), lambda x: eye * x):
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with"):
            torch.func.jvp(f, (x,), (t,))
    for f in (lambda x: torch.sparse.mm(2 * eye, x), lambda x: 2 * eye @ x):
        torch.testing.assert_close(torch.func.jvp(f, (x,), (t,))[1], 2 * t)


def test_products_of_sparse_matrices_under_vmap():
    x, eye = torch.randn(2, 3, 3), torch.eye(3).to_sparse()
    with pytest.warns(UserWarning, match="runs once for each element"):
        got = torch.vmap(lambda x: torch.sparse.mm(2 * eye, x))(x)
    torch.testing.assert_close(got, 2 * x)


@pytest.mark.parametrize("what", ["vectors", "values", "solve", "inverse"])
def test_second_derivatives_of_factored_matrices(what):
    """Of Hermitian matrices, gradients are Hermitian; of factors they are of all elements, as in PyTorch."""
    torch.manual_seed(0)
    a, d = torch.randn(4, 4).double(), torch.randn(4, 4).double()
    w, b = torch.randn(4, 4).double(), torch.randn(4, 2).double()
    a, d = (
        (a + a.mT, d + d.mT) if what in ("vectors", "values") else (a.tril() + 5 * torch.eye(4), d)
    )
    f = {
        "vectors": lambda x: (torch.linalg.eigh(x)[1].square() * w).sum(),
        "values": lambda x: (torch.linalg.eigvalsh(x) ** 2 * w[0]).sum(),
        "solve": lambda x: torch.cholesky_solve(b, x.tril()).square().sum(),
        "inverse": lambda x: (torch.cholesky_inverse(x.tril()) * w).sum(),
    }[what]
    g = torch.func.grad(f)
    if what in ("vectors", "values"):
        torch.testing.assert_close(g(a), g(a).mT)
    difference = (g(a + 1e-5 * d) - g(a - 1e-5 * d)) / 2e-5
    forward = torch.func.jvp(g, (a,), (d,))[1]
    backward = torch.func.vjp(g, a)[1](d)[0]
    torch.testing.assert_close(forward, difference, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(backward, difference, rtol=1e-5, atol=1e-6)


def test_second_derivatives_of_running_sums_of_exponentials():
    torch.manual_seed(0)
    x, w, d = (torch.randn(3, 4).double() for _ in range(3))
    g = torch.func.grad(lambda x: (torch.logcumsumexp(x, 0) * w).sum())
    torch.testing.assert_close(torch.func.jvp(g, (x,), (d,))[1], torch.func.vjp(g, x)[1](d)[0])


def test_statistics_of_batch_norm_have_no_gradients_inside_of_transforms():
    x = torch.randn(5, 3)
    for of in (1, 2):
        f = lambda x, of=of: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[of]  # noqa: E731
        assert not torch.func.jvp(f, (x,), (x,))[1].any()
        assert not torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x[None]).any()


@pytest.mark.parametrize("offset", [None, 0, 3, 5, 6, 10, 14])
def test_tangents_of_as_strided_of_a_part_of_its_memory(offset):
    x, t = torch.arange(20.0)[5:15], torch.arange(10.0) + 1
    memory = torch.zeros(20)
    memory[5:15] = t
    out, tangent = torch.func.jvp(lambda x: x.as_strided((2, 2), (1, 2), offset), (x,), (t,))
    assert torch.equal(out, torch.arange(20.0)[5:15].as_strided((2, 2), (1, 2), offset))
    assert torch.equal(tangent, memory.as_strided((2, 2), (1, 2), 5 if offset is None else offset))


def test_writes_to_as_strided_reach_the_tangent_of_its_base():
    def write(x):
        x = x.clone()
        x.as_strided((2,), (2,), 1).mul_(3)
        return x

    factors = torch.tensor([1.0, 3.0, 1.0, 3.0])
    x, t = torch.arange(4.0), torch.arange(4.0) + 1
    out, tangent = torch.func.jvp(write, (x,), (t,))
    assert torch.equal(out, x * factors)
    assert torch.equal(tangent, t * factors)


def test_a_dual_of_a_dual_and_into_out_is_refused():
    one = torch.ones(2)
    with fwAD.dual_level():
        x = fwAD.make_dual(one, one)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fwAD.make_dual(x, one)
        with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
            fwAD.make_dual(one, x)
        with pytest.raises(NotImplementedError, match="with add_out .* it is an out= function"):
            torch.add(x, x, out=torch.ones(2))
        with pytest.raises(TypeError, match="must be Tensor, not float"):
            fwAD.unpack_dual(1.0)


COMPLEX = torch.arange(2.0).to(torch.complex64)


@pytest.mark.parametrize(
    "primal, tangent, kept",
    [
        (torch.ones(2, 3), torch.rand(2, 3), True),
        (torch.ones(5)[1:], torch.rand(5)[1:], True),
        (COMPLEX.conj(), COMPLEX.conj(), True),
        (torch.ones(3, 1), torch.rand(1, 3).t(), True),
        (torch.ones(2, 3), torch.rand(3, 2).t(), False),
        (torch.ones(3, 2).t(), torch.rand(2, 3), False),
        (torch.ones(5)[:4], torch.rand(4), False),
        (torch.ones(4), torch.rand(5)[:4], False),
        (torch.ones(5)[1:], torch.rand(5)[:4], False),
        (torch.ones(2, 3), torch.rand(3).expand(2, 3), False),
        (COMPLEX.conj(), COMPLEX, False),
        (COMPLEX, COMPLEX.conj(), False),
    ],
)
def test_a_tangent_in_another_layout_is_copied(primal, tangent, kept):
    with fwAD.dual_level():
        got = fwAD.unpack_dual(fwAD.make_dual(primal, tangent)).tangent
    assert (got.data_ptr() == tangent.data_ptr()) is kept and torch.equal(got, tangent)
    assert kept or got.stride() == primal.stride()
    assert got.storage_offset() == primal.storage_offset()
    assert got.untyped_storage().nbytes() == primal.untyped_storage().nbytes()
    assert got.is_conj() == primal.is_conj()


def test_a_copied_tangent_is_seen_through_the_same_views_and_has_its_history():
    tangent = torch.rand(4, requires_grad=True)
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(5)[:4], tangent)
        wide = fwAD.unpack_dual(x.as_strided((5,), (1,), 0)).tangent
    assert wide.tolist() == [*tangent.tolist(), 0.0]
    wide.sum().backward()
    assert tangent.grad.tolist() == [1.0] * 4


def test_gradcheck_of_forward_mode_gives_every_input_a_tangent():
    def product(x, y):
        if fwAD._current_level >= 0:
            value, tangent = fwAD.unpack_dual(y)
            y = fwAD.make_dual(value, tangent * factor)
        return x * y

    x, y = (torch.rand(2, dtype=torch.double, requires_grad=True) for _ in range(2))
    checks = {
        "check_backward_ad": False,
        "check_undefined_grad": False,
        "check_batched_grad": False,
    }
    for factor in (1.0, 1.1):
        run = lambda: torch.autograd.gradcheck(product, (x, y), check_forward_ad=True, **checks)
        if factor == 1.0:
            assert run()
        else:
            with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
                run()
