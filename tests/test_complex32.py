"""complex32: pairs of float16, moved as they are, computed in complex64 and rounded once."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import rushlight as torch

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]

X = np.array([1 + 2j, 3 - 4j, 0.1 + 0.3j], np.complex64)
Y = np.array([-2 + 0.5j, 1j, 7], np.complex64)


def half(a):
    """The nearest complex numbers with parts in half precision."""
    parts = np.ascontiguousarray(a).view(np.float32).astype(np.float16).astype(np.float32)
    return parts.view(np.complex64)


def tensor(a, **options):
    return torch.tensor(a.tolist(), dtype=torch.complex32, **options)


def values(t):
    assert t.dtype is torch.complex32
    return np.array(t.tolist(), np.complex64)


def test_dtype():
    assert torch.chalf is torch.complex32
    assert torch.complex32.is_complex and not torch.complex32.is_floating_point
    assert torch.complex32.itemsize == 4
    assert torch.float16.to_complex() is torch.complex32
    assert torch.complex32.to_real() is torch.float16
    assert torch.finfo(torch.complex32).bits == 16


@pytest.mark.parametrize(
    "other, wanted",
    [
        ("int64", "complex32"),
        ("float16", "complex32"),
        ("bfloat16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("complex64", "complex64"),
    ],
)
def test_promotion(other, wanted):
    other, wanted = getattr(torch, other), getattr(torch, wanted)
    assert torch.promote_types(torch.complex32, other) is wanted
    assert (torch.ones(2, dtype=torch.complex32) + torch.ones(2, dtype=other)).dtype is wanted


def test_promotion_with_numbers():
    assert (torch.ones(2, dtype=torch.float16) * 1j).dtype is torch.complex32
    assert (torch.ones(2, dtype=torch.complex32) + torch.tensor(1.0)).dtype is torch.complex32


def test_elements_are_rounded_to_halves():
    np.testing.assert_array_equal(values(tensor(X)), half(X))
    assert tensor(X)[2].item() == complex(half(X)[2])
    with pytest.raises(RuntimeError, match="overflow"):
        torch.full((2,), 70000.0, dtype=torch.complex32)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda x, y: x + y, lambda x, y: x + y),
        (lambda x, y: x - y, lambda x, y: x - y),
        (lambda x, y: x * y, lambda x, y: x * y),
        (lambda x, y: torch.add(x, y, alpha=2), lambda x, y: x + 2 * y),
        (lambda x, y: -x, lambda x, y: -x),
        (lambda x, y: x.conj(), lambda x, y: x.conj()),
        (lambda x, y: x + 1, lambda x, y: x + 1),
        (lambda x, y: x * 2.5, lambda x, y: x * np.float32(2.5)),
        (lambda x, y: torch.addcmul(x, x, y), lambda x, y: x + x * y),
        (lambda x, y: torch.outer(x, y), lambda x, y: np.outer(x, y)),
        (lambda x, y: x.clone().mul_(y), lambda x, y: x * y),
    ],
)  # fmt: skip
def test_computed_in_complex64_and_rounded_once(ours, theirs):
    np.testing.assert_array_equal(
        values(ours(tensor(X), tensor(Y))), half(theirs(half(X), half(Y)))
    )


def test_results_that_are_not_complex():
    x = tensor(X)
    assert x.abs().dtype is torch.float16
    np.testing.assert_array_equal(x.abs().numpy(), np.abs(half(X)).astype(np.float16))
    assert (x == x).tolist() == [True] * 3
    assert (x != tensor(Y)).tolist() == [True] * 3
    assert x.isfinite().tolist() == [True] * 3
    assert tensor(np.array([1j, 2, 0], np.complex64)).isreal().tolist() == [False, True, True]
    assert x.nonzero().tolist() == [[0], [1], [2]]
    np.testing.assert_allclose(x.norm().item(), np.linalg.norm(half(X)), rtol=1e-3)
    np.testing.assert_allclose(x.var().item(), half(X).var(ddof=1), rtol=1e-3)


@pytest.mark.parametrize(
    "move, like",
    [
        (lambda x: torch.cat([x, x]), lambda a: np.concatenate([a, a])),
        (lambda x: torch.stack([x, x], 1), lambda a: np.stack([a, a], 1)),
        (lambda x: x[[2, 0]], lambda a: a[[2, 0]]),
        (lambda x: x[1:], lambda a: a[1:]),
        (lambda x: x.roll(1), lambda a: np.roll(a, 1)),
        (lambda x: x.repeat(2), lambda a: np.tile(a, 2)),
        (lambda x: x.index_select(0, torch.tensor([2, 2])), lambda a: a[[2, 2]]),
        (lambda x: x.expand(2, 3).contiguous(), lambda a: np.stack([a, a])),
        (lambda x: torch.where(torch.tensor([True, False, True]), x, x[:1]),
         lambda a: np.where([True, False, True], a, a[:1])),
        (lambda x: x.expand(3, 3).tril(), lambda a: np.tril(np.stack([a, a, a]))),
        (lambda x: x.masked_fill(torch.tensor([True, False, False]), 2j), lambda a: np.array([2j, *a[1:]])),
        (lambda x: x.index_add(0, torch.tensor([0, 0]), x[1:]), lambda a: half(np.array([a.sum(), *a[1:]], np.complex64))),
        (lambda x: torch.squeeze_copy(x[None]), lambda a: a),
        (lambda x: torch.nn.functional.pad(x, (1, 0)), lambda a: np.array([0, *a])),
    ],
)  # fmt: skip
def test_moved(move, like):
    np.testing.assert_array_equal(values(move(tensor(X))), like(half(X)))


def test_an_operator_that_PyTorch_lacks_is_refused():
    x = tensor(X)
    for call in (
        lambda: x / x, lambda: x.exp(), lambda: x.sum(), lambda: x @ x, lambda: x.prod(), lambda: x**2,
        lambda: x.sqrt(), lambda: x.cumsum(0), lambda: x.clone().div_(2), lambda: x.gather(0, torch.tensor([0])),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
            call()
    with pytest.raises(TypeError, match="unsupported ScalarType ComplexHalf"):
        x.numpy()


def test_parts_are_views():
    x = tensor(X)
    assert x.real.dtype is torch.float16
    np.testing.assert_array_equal(x.imag.numpy(), X.imag.astype(np.float16))
    x.imag.fill_(7)
    np.testing.assert_array_equal(values(x), half(X.real + 7j))
    pairs = torch.view_as_real(x)
    assert pairs.dtype is torch.float16 and pairs.shape == (3, 2)
    pairs[:, 0] = 1
    np.testing.assert_array_equal(values(x), np.full(3, 1 + 7j))
    back = torch.view_as_complex(pairs)
    assert back.data_ptr() == x.data_ptr() and back.dtype is torch.complex32
    assert x.view(torch.float16).tolist() == [1, 7] * 3
    assert torch.tensor([1.0, 2.0, 3.0, 4.0]).half().view(torch.complex32).tolist() == [
        1 + 2j, 3 + 4j,
    ]  # fmt: skip


def test_made_and_converted():
    a = torch.tensor([1.0, 2.0]).half()
    assert torch.complex(a, -a).tolist() == [1 - 1j, 2 - 2j]
    assert a.chalf().tolist() == torch.tensor([1, 2]).chalf().tolist() == [1, 2]
    x = tensor(X)
    np.testing.assert_array_equal(x.to(torch.complex64).numpy(), half(X))
    np.testing.assert_array_equal(x.cdouble().numpy(), half(X).astype(complex))
    np.testing.assert_array_equal(
        values(torch.tensor(X.tolist(), dtype=torch.complex128).chalf()), half(X)
    )
    assert x.float().tolist() == half(X).real.tolist()
    assert x.bool().tolist() == [True] * 3
    for name in ("zeros", "ones", "empty", "rand", "randn"):
        assert getattr(torch, name)(2, dtype=torch.complex32).dtype is torch.complex32
    assert torch.full((1,), 2j, dtype=torch.chalf).tolist() == [2j]
    assert torch.zeros_like(x).tolist() == x.new_zeros(3).tolist() == [0] * 3
    y = torch.zeros(2, dtype=torch.complex64)
    assert y.copy_(x[:2]).tolist() == [1 + 2j, 3 - 4j]


def test_random_numbers_are_those_of_halves():
    torch.manual_seed(3)
    pairs = torch.rand(4, 2, dtype=torch.float16)
    torch.manual_seed(3)
    assert torch.view_as_real(torch.rand(4, dtype=torch.complex32)).equal(pairs)


def test_large_arrays():
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(70000) + 1j * rng.standard_normal(70000)).astype(np.complex64)
    x = torch.from_numpy(a).chalf()
    np.testing.assert_array_equal(values(x * x), half(half(a) * half(a)))
    np.testing.assert_array_equal(values(torch.cat([x, x])), np.tile(half(a), 2))
    np.testing.assert_array_equal(
        values(x.view(7, -1).t().contiguous().t()), half(a).reshape(7, -1)
    )


def test_gradients():
    x, y = tensor(X, requires_grad=True), tensor(Y)
    z = x * y
    assert z.grad_fn.name() == "MulBackward0"
    z.backward(torch.ones_like(z))
    np.testing.assert_array_equal(values(x.grad), half(Y).conj())
    x.grad = None
    x.real.backward(torch.ones(3, dtype=torch.float16))
    assert x.grad.tolist() == [1] * 3
    x.grad = None
    x.to(torch.complex64).abs().sum().backward()
    np.testing.assert_array_equal(values(x.grad), half(half(X) / np.abs(half(X))))


def test_stored_copied_and_exchanged():
    x = tensor(X)
    file = io.BytesIO()
    torch.save({"x": x, "part": x[1:]}, file)
    file.seek(0)
    loaded = torch.load(file)
    np.testing.assert_array_equal(values(loaded["x"]), half(X))
    loaded["x"].zero_()
    assert loaded["part"].tolist() == [0, 0]  # one memory
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), torch.from_dlpack(x)):
        np.testing.assert_array_equal(values(y), half(X))
        assert values(y + y).shape == (3,)
    assert x.untyped_storage().nbytes() == 12
    assert x.storage().tolist() == x.tolist()


def test_shown():
    assert repr(tensor(X[:2])) == "tensor([1.+2.j, 3.-4.j], dtype=torch.complex32)"
    assert tensor(X).type() == "torch.ComplexHalfTensor"


def test_without_memory():
    x = torch.empty(2, dtype=torch.complex32, device="meta")
    assert (x + 1).dtype is torch.complex32 and x.real.dtype is torch.float16
    with pytest.raises(NotImplementedError, match="ComplexHalf"):
        x.exp()


def test_sparse_tensors_hold_it():
    s = torch.sparse_coo_tensor([[0, 2]], tensor(X[:2]), (3,))
    assert s.to_dense().tolist() == [1 + 2j, 0, 3 - 4j]


@pytest.mark.filterwarnings("default:ComplexHalf support")
def test_warning_is_given_once():
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
            torch.zeros(1, dtype=torch.complex32)
    finally:
        torch.set_warn_always(False)


def test_what_is_listed_are_operators():
    import importlib
    import pkgutil

    import rushlight.ops
    from rushlight._backends import complex32
    from rushlight.dispatch.registry import OPS

    for module in pkgutil.walk_packages(rushlight.ops.__path__, "rushlight.ops."):
        importlib.import_module(module.name)
    listed = complex32.MOVING | complex32.COMPUTING
    assert not complex32.MOVING & complex32.COMPUTING
    assert listed <= {path for path, op in OPS.items() if not op.composite}


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_convolution():
    x = torch.tensor([[[1 + 1j, 2, 3j, 1]]], dtype=torch.complex32)
    layer = torch.nn.ConvTranspose1d(1, 1, 2).to(torch.complex32)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[1, 1j]]])), layer.bias.fill_(0.5)
    y = layer(x)
    np.testing.assert_array_equal(
        values(y)[0, 0], np.convolve([1 + 1j, 2, 3j, 1], [1, 1j]).astype(np.complex64) + 0.5
    )
    y.backward(torch.ones_like(y))
    assert layer.bias.grad.tolist() == [5]
