"""Views of conjugates and negatives: `x.conj()`, `x.conj().imag`; see Note [Conjugates are views]."""

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import rushlight as torch
import rushlight.multiprocessing  # noqa: F401 - registers how tensors are sent
from rushlight.fx.experimental.proxy_tensor import make_fx


def sample():
    return torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0j]])


def numbers(t):
    return t.resolve_conj().resolve_neg().numpy()


def test_a_conjugate_is_a_view():
    x = sample()
    c = x.conj()
    assert c.is_conj() and not x.is_conj() and c._base is x and c.data_ptr() == x.data_ptr()
    assert np.array_equal(numbers(c), x.numpy().conj())
    x[0, 0] = 5 + 5j
    assert c[0, 0].item() == 5 - 5j and c.tolist()[0][0] == 5 - 5j and f"{c[0, 0]}" == "(5-5j)"
    assert repr(c[0]) == repr(c[0].clone())
    assert not c.conj().is_conj() and c.conj()._base is x
    assert c.t().is_conj() and c.mH.data_ptr() == x.data_ptr() and not c.mH.is_conj()
    assert x.mH.is_conj() and all(row.is_conj() for row in c.unbind())
    for copied in (c.clone(), c * 1, c.t().contiguous(), -c):
        assert not copied.is_conj()
    assert torch.ones(2).conj().is_conj() is False


def test_real_and_imaginary_parts_of_a_conjugate():
    x = sample()
    c = x.conj()
    assert c.imag.is_neg() and not c.real.is_neg() and c.imag.data_ptr() == x.imag.data_ptr()
    assert np.array_equal(numbers(c.imag), -x.imag.numpy())
    c.imag.fill_(3)
    assert (x.imag == -3).all() and (c.imag + 1 == 4).all()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved conjugated"):
        torch.view_as_real(c)
    with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
        c.view(torch.float32)


WRITES = {
    "mul_": lambda t: t.mul_(1 + 2j),
    "add_": lambda t: t.add_(sample().conj()),
    "copy_": lambda t: t.copy_(sample() * 2),
    "fill_": lambda t: t.fill_(2j),
    "zero_": lambda t: t.zero_(),
    "item": lambda t: t.__setitem__((0, 1), 1 + 1j),
    "column": lambda t: t.__setitem__((slice(None), 1), sample()[0]),
    "index": lambda t: t.__setitem__(torch.tensor([1]), sample()[:1].conj()),
    "mask": lambda t: t.__setitem__(torch.tensor([[True, False], [False, True]]), 3j),
    "accumulate": lambda t: t.index_put_((torch.tensor([1]),), sample()[0], accumulate=True),
    "index_add_": lambda t: t.index_add_(0, torch.tensor([1]), sample()[:1]),
    "fill_diagonal_": lambda t: t.fill_diagonal_(2j),
    "addmm_": lambda t: t.addmm_(sample(), sample().conj(), beta=2j),
    "out": lambda t: torch.add(sample(), 1j, out=t),
    "transposed": lambda t: t.mH.mul_(2j),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_conjugate_is_one_to_its_base(name):
    x, like = sample(), sample().conj_physical()
    c = x.conj()
    WRITES[name](c)
    WRITES[name](like)
    assert c.is_conj() and np.allclose(numbers(c), like.numpy())
    assert np.allclose(x.numpy(), like.numpy().conj())


READS = {
    "cat": lambda t, c: torch.cat([t, c]),
    "stack": lambda t, c: torch.stack((c, t), 1),
    "mul_": lambda t, c: t.mul_(c),
    "with itself": lambda t, c: t.mul_(t.conj()),
    "alpha": lambda t, c: t.sub_(c, alpha=2j),
    "lerp_": lambda t, c: t.lerp_(c, 0.5),
    "baddbmm_": lambda t, c: t[None].baddbmm_(c[None], c[None]),
    "out": lambda t, c: torch.mul(c, c, out=t),
    "foreach": lambda t, c: torch._foreach_mul([t, c], [c, t])[1],
}


@pytest.mark.parametrize("name", READS)
def test_conjugates_in_lists_and_in_place(name):
    c = sample().conj() + 1
    marked = c.conj().resolve_conj().conj()
    assert marked.is_conj()
    t, like = sample(), sample()
    got, expected = READS[name](t, marked), READS[name](like, c)
    assert np.allclose(numbers(got), numbers(expected)) and np.allclose(numbers(t), numbers(like))
    assert marked.is_conj() and np.array_equal(numbers(marked), numbers(c))


def test_memory_of_a_conjugate_leaves_with_its_bit_or_not_at_all():
    c = sample().conj()
    for refused in (c.numpy, c.__array__, lambda: np.asarray(c)):
        with pytest.raises(RuntimeError, match="conjugate bit set"):
            refused()
    with pytest.raises(RuntimeError, match="negative bit set"):
        c.imag.numpy()
    with pytest.raises(BufferError, match="conjugate bit"):
        torch.from_dlpack(c)
    assert np.array_equal(c.numpy(force=True), numbers(c))
    for t in (c, c.imag):
        buffer = io.BytesIO()
        torch.save(t, buffer)
        buffer.seek(0)
        saved = torch.load(buffer)
        assert torch.equal(saved, t) and (saved.is_conj(), saved.is_neg()) == (
            t.is_conj(),
            t.is_neg(),
        )
    for other in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c), c.detach()):
        assert other.is_conj() and torch.equal(other, c)


def test_no_function_of_numpy_computes_on_marked_memory():
    a = sample().conj()._array
    for function in (np.abs, np.sum, lambda a: a + 1, lambda a: np.concatenate([a, a])):
        with pytest.raises(TypeError):
            function(a)


def gradient(f):
    x = sample().requires_grad_()
    y = torch.view_as_real(f(x).resolve_conj())
    (y * torch.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum().backward()
    return x.grad


def written(x):
    y = x * 1
    y.conj().mul_(1 + 2j)
    return y * y


def part_written(x):
    y = x * 1
    y.conj().imag[0] = x[1].real
    return y * y


def seen(x):
    y = x * 1
    c = y.conj()
    y.mul_(3j)
    return c * c


@pytest.mark.parametrize(
    ("of_views", "of_copies"),
    [
        (lambda x: x.conj() * x, lambda x: x.conj_physical() * x),
        (lambda x: x.mH @ x, lambda x: x.t().conj_physical() @ x),
        (written, lambda x: (x * (1 - 2j)) ** 2),
        (seen, lambda x: (x * 3j).conj_physical() ** 2),
        (part_written, lambda x: torch.stack([torch.complex(x[0].real, -x[1].real), x[1]]) ** 2),
    ],
)
def test_gradients_through_conjugates(of_views, of_copies):
    assert torch.allclose(gradient(of_views), gradient(of_copies))


def test_gradients_and_optimizers_read_marked_gradients():
    p = sample().requires_grad_()
    p.backward(sample().conj())
    assert torch.equal(p.grad, sample().conj())
    p.grad = sample().conj()
    torch.optim.SGD([p], lr=1.0).step()
    assert torch.equal(p, sample() - sample().conj_physical())


def test_conjugates_in_transforms():
    x = sample()
    assert torch.allclose(torch.vmap(lambda v: v.conj() * v)(x), x.conj_physical() * x)
    assert torch.allclose(torch.vmap(torch.dot)(x.conj(), x), (x.conj_physical() * x).sum(1))
    y, tangent = torch.func.jvp(lambda v: v.conj() * v, (x,), (x * 1j,))
    assert torch.allclose(tangent, torch.zeros(2, 2, dtype=y.dtype))
    compiled = torch.compile(lambda x: x.conj().imag * 2 + x.mH.real)
    assert torch.equal(compiled(x), -x.imag * 2 + x.t().real)
    traced = make_fx(lambda x: x.conj() * 2)(x)
    assert torch.equal(traced(x * 1j), (x * 1j).conj_physical() * 2)


def test_conjugates_of_subclasses():
    class Named(torch.Tensor):
        pass

    x = sample()
    c = x.as_subclass(Named).conj()
    assert type(c) is Named and c.is_conj()
    c.mul_(2j)
    assert torch.equal(x, sample() * -2j)


def test_random_numbers_with_marked_parameters():
    torch.manual_seed(0)
    a = torch.normal(torch.ones(3)._neg_view(), torch.ones(3))
    torch.manual_seed(0)
    assert torch.equal(a, torch.normal(-torch.ones(3), torch.ones(3)))
    assert torch.ones(2, dtype=torch.bfloat16)._neg_view().tolist() == [-1, -1]
    assert (torch.ones(2, dtype=torch.bfloat16)._neg_view() * 3).tolist() == [-3, -3]


def test_writes_of_another_dtype_to_marked_memory():
    x = torch.ones(3)
    x._neg_view().lt_(torch.zeros(3))
    assert x.tolist() == [-1.0] * 3
    x._neg_view().copy_(torch.arange(3))
    assert x.tolist() == [0.0, -1.0, -2.0]
    repeats = torch.tensor([-1, -2])._neg_view()
    assert torch.repeat_interleave(torch.tensor([1, 2]), repeats).tolist() == [1, 2, 2]


def test_a_conjugate_goes_to_another_process_with_its_bit():
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(sample().conj())
    received = pickle.loads(buffer.getvalue())
    assert received.is_conj() and torch.equal(received, sample().conj())


@pytest.mark.parametrize(
    "f, shapes",
    [
        (torch.dot, ((4,), (4,))),
        (torch.vdot, ((4,), (4,))),
        (torch.mv, ((3, 4), (4,))),
        (torch.inner, ((3, 4), (3, 4))),
        (torch.kron, ((2, 2), (2, 2))),
        (torch.linalg.cross, ((2, 3), (2, 3))),
        (torch.linalg.vecdot, ((2, 3), (2, 3))),
        (torch.nn.functional.linear, ((3, 4), (5, 4))),
        (torch.nn.functional.conv1d, ((1, 2, 8), (3, 2, 3))),
        (lambda a, b: torch.sgn(a) * b, ((3,), (3,))),
    ],
)
def test_gradients_of_complex_operators_make_no_views_of_conjugates(f, shapes):
    """Such views end the recording of a compiled program."""
    inputs = [torch.randn(*s, dtype=torch.complex64).requires_grad_() for s in shapes]

    def gradients(f):
        result = f(*inputs)
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    compiled = torch.compile(lambda a, b: f(a, b))
    gradients(compiled)
    for found, wanted in zip(gradients(compiled), gradients(f), strict=True):
        torch.testing.assert_close(found, wanted)
    assert compiled.programs, compiled.reasons


def conjugated_in_place(x):
    c = x.conj()
    x.add_(1j)
    c.imag.mul_(2)
    return c * 2, c, c.imag


@pytest.mark.parametrize(
    "f, recorded",
    [
        (lambda x: x.conj() * x, True),
        (lambda x: (x.mH @ x, x.mH), True),
        (lambda x: torch.cat([x.conj(), x]).conj().imag, True),
        (lambda x: x.conj().split([1, 2])[1] + 1, True),
        (lambda x: torch.linalg.inv(x), True),
        (lambda x: tuple(torch.linalg.qr(x)), True),
        (lambda x: tuple(torch.linalg.slogdet(x)), True),
        (conjugated_in_place, False),
    ],
)
def test_compiled_programs_take_views_of_conjugates(f, recorded):
    """With their bits, their memory and their gradients; a write to an argument that is in a graph is not recorded."""
    start = torch.randn(3, 3, dtype=torch.complex64)

    def outcome(f, needs):
        x = start.clone().requires_grad_(needs)
        y = x * 1
        results = f(y)
        results = [*(results if isinstance(results, tuple) else (results,))]
        found = (
            torch.autograd.grad(results, x, [torch.ones_like(r) for r in results]) if needs else ()
        )
        return [*results, y, *found]

    compiled = torch.compile(f)
    for needs in (False, True):
        wanted = outcome(f, needs)
        for _ in range(2):
            for a, b in zip(outcome(compiled, needs), wanted, strict=True):
                assert (a.is_conj(), a.is_neg(), a.stride()) == (
                    b.is_conj(),
                    b.is_neg(),
                    b.stride(),
                )
                torch.testing.assert_close(a, b)
        assert bool(compiled.reasons) is (needs and not recorded), compiled.reasons
