"""Operators that need more than a call and its value, so that they have no row in opdb.py."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor


@pytest.mark.parametrize("name", ["cuda", "hpu", "ipu", "mtia", "xpu", "pin_memory"])
def test_absent_devices(name):
    """Where a device is not there, the error says so, and what the tensor holds is untouched."""
    if name in ("cuda", "pin_memory") and torch.cuda.is_available():
        pytest.skip("it is there")
    x = torch.ones(2)
    with pytest.raises((AssertionError, RuntimeError), match=r"not compiled with|accelerator"):
        getattr(x, name)()
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["coalesce", "indices", "values", "is_coalesced"])
def test_strided_tensors_are_not_sparse(name):
    with pytest.raises(RuntimeError, match=f"{name} expected sparse (coordinate )?tensor layout"):
        getattr(torch.ones(2), name)()


def test_resize():
    x = torch.arange(6)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_((2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]  # the memory was kept
    assert torch.resize_as_(x, torch.ones(4)) is x and x.tolist() == [0, 1, 2, 3]
    assert torch.ones(2).resize_(3, 3).shape == (3, 3)
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.resize(2, 2).shape == (2, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.resize_as(torch.ones(1, 4)).shape == (1, 4)
    with pytest.warns(UserWarning, match="deprecated"):
        y = x.resize((2, 2))
    y[0, 0] = 7
    assert x.tolist() == [7, 1, 2, 3]  # a view
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(
            RuntimeError, match="resize to 3 .3 elements in total.*can only change the shape"
        ),
    ):
        x.resize(3)


def test_set():
    x, source = torch.ones(2), torch.arange(6.0)
    assert x.set_(source) is x
    x[0] = 7.0
    assert source[0] == 7.0
    x.set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.set_().shape == (0,)


def test_setitem():
    x = torch.zeros(3, 4)
    x[1] = 1.0
    x[:, 0] = torch.tensor([2.0, 3.0, 4.0])
    x[torch.tensor([0, 2]), torch.tensor([3, 3])] = 5.0
    x[x == 1] = 6.0
    assert x.tolist() == [[2, 0, 0, 5], [3, 6, 6, 6], [4, 0, 0, 5]]
    leaf = torch.ones(3, requires_grad=True)
    y = leaf * 2
    y[1] = 0.0
    y.sum().backward()
    assert leaf.grad.tolist() == [2.0, 0.0, 2.0]
    with pytest.raises(IndexError):
        x[5] = 0.0


def test_share_memory():
    x = torch.ones(2)
    assert x.share_memory_() is x and x.is_shared() and x.tolist() == [1.0, 1.0]


def test_names_of_types():
    assert torch.typename(torch.ones(2)) == "torch.FloatTensor"
    assert torch.typename(torch.ones(2, dtype=torch.int64)) == "torch.LongTensor"
    assert torch.typename(Tensor) == "torch.Tensor" and torch.typename([1]) == "list"
    assert torch.typename(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert torch.typename(len) == "len" and torch.typename(type) == "type"
    assert torch.ones(2).storage_type() is torch.FloatStorage


def test_default_tensor_type():
    try:
        with pytest.warns(UserWarning, match="deprecated"):
            torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.ones(2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.ones(2).dtype is torch.float32


def test_swap_tensors():
    a, b = torch.ones(2), torch.zeros(3, requires_grad=True)
    torch.utils.swap_tensors(a, b)
    assert a.shape == (3,) and a.requires_grad and b.tolist() == [1.0, 1.0]


def test_tensors_of_a_graph_are_not_swapped():
    a, c, other = torch.ones(3, requires_grad=True), torch.full((3,), 2.0), torch.full((3,), 5.0)
    y = (a * c + a * a).sum()
    for t in (a, c):  # the node of the product would read the other tensor's numbers
        with pytest.raises(RuntimeError, match="Expected use_count of t1 to be 1"):
            torch.utils.swap_tensors(t, other)
    with pytest.raises(RuntimeError, match="Expected use_count of t2 to be 1"):
        torch.utils.swap_tensors(other, c)
    y.backward()
    assert a.grad.tolist() == [4.0] * 3
    base = torch.ones(3)
    view = base[1:]
    with pytest.raises(RuntimeError, match="view of it"):
        torch.utils.swap_tensors(base, other)
    torch.utils.swap_tensors(view, other)
    assert other.tolist() == [1.0, 1.0] and view.tolist() == [5.0] * 3 and other._base is base


def test_swapped_leaves_get_their_own_gradients():
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.full((2,), 2.0))
    a.register_hook(lambda g: g * 2)
    before = (a + 1).sum()
    torch.utils.swap_tensors(a, b)
    (a + b * 3).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0] and b.grad.tolist() == [6.0, 6.0]
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        before.backward()


def test_dlpack():
    x = torch.arange(3)
    for back in (torch.from_dlpack(x), torch.from_dlpack(torch.to_dlpack(x))):
        back[0] = 7
        assert x[0] == 7
        x[0] = 0
    assert np.from_dlpack(x).tolist() == [0, 1, 2]


def test_memory_from_outside(tmp_path):
    array = np.arange(3.0)
    torch.from_numpy(array)[0] = 5.0
    assert array[0] == 5.0
    data = bytearray(b"\1\0\2\0\3\0")
    x = torch.frombuffer(data, dtype=torch.int16, offset=2)
    assert x.tolist() == [2, 3]
    x[0] = 9
    assert data[2] == 9
    path = str(tmp_path / "numbers")
    np.arange(4, dtype=np.float32).tofile(path)
    assert torch.from_file(path, size=4).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_dirichlet_and_gamma():
    """Draws of both have their mean, and gradients by reparameterization."""
    torch.manual_seed(0)
    rate = torch.full((2000,), 2.0, requires_grad=True)
    draws = torch._standard_gamma(rate)
    assert abs(draws.mean().item() - 2.0) < 0.15
    draws.sum().backward()
    assert abs(rate.grad.mean().item() - 1.0) < 0.05  # E d(draw)/d(rate) = d E(draw)/d(rate) = 1
    shares = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0]).expand(1000, 3).contiguous())
    np.testing.assert_allclose(shares.sum(-1).numpy(), 1.0, rtol=1e-5)
    np.testing.assert_allclose(shares.mean(0).numpy(), [1 / 6, 2 / 6, 3 / 6], atol=0.03)


def test_grouped_mm():
    """Not for float64, so without a row: products of the groups, and their gradients."""
    a, b = torch.randn(5, 4, requires_grad=True), torch.randn(2, 4, 8, requires_grad=True)
    ends = torch.tensor([2, 5], dtype=torch.int32)
    out = torch.nn.functional.grouped_mm(a, b, offs=ends)
    want = torch.cat([a[:2] @ b[0], a[2:] @ b[1]])
    np.testing.assert_allclose(out.detach(), want.detach(), rtol=1e-5, atol=1e-5)
    weights = torch.randn(5, 8)
    for x, y in zip(
        torch.autograd.grad(out, (a, b), weights), torch.autograd.grad(want, (a, b), weights)
    ):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_an_import_that_is_done_again():
    """Ctrl-C may stop an import half way: what it declared is then declared once more, by another module
    of that name. Within one module a name is declared once."""
    from rushlight.dispatch.registry import OPS

    source = "from rushlight.dispatch.registry import op\n@op()\ndef twice(xp, input: 'Array'):\n    return input\n"
    try:
        for _ in range(2):
            exec(source, {"__name__": "rushlight.ops.stopped"})
        with pytest.raises(TypeError, match="twice] is declared twice"):
            exec(source, {"__name__": "rushlight.ops.another"})
        with pytest.raises(TypeError, match="twice] is declared twice"):
            exec(source + source, {"__name__": "rushlight.ops.stopped"})
    finally:
        OPS.pop("twice", None)


def test_a_parameter_with_a_name_of_printed_code():
    from rushlight.dispatch.registry import OPS, Array, op

    def turned(xp, input: Array, forward: bool = True):
        return input

    try:
        declared = op()(turned)
        with pytest.raises(TypeError, match=r"use the names \['forward'\] themselves"):
            declared(torch.ones(2))
    finally:
        OPS.pop("turned", None)


def test_too_little_memory_is_a_runtime_error():
    """Programs that look for a batch size that fits read PyTorch's words."""
    much = torch.ones(1).expand(1 << 60)
    for make in (lambda: much + 1, lambda: much.exp(), lambda: much.contiguous()):
        with pytest.raises(
            RuntimeError,
            match=r"DefaultCPUAllocator: can't allocate memory: you tried to allocate \d+",
        ):
            make()
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory"):
        torch.empty(1 << 60)
    for make in (
        lambda: much.double(),
        lambda: torch.nn.AdaptiveMaxPool1d(1 << 62)(torch.ones(4, 4, 4)),
    ):
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            make()


def test_names_that_follow_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.Storage is torch.FloatStorage
    with pytest.raises(TypeError, match="Torch not compiled with CUDA enabled"):
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
    with pytest.raises(TypeError, match="invalid type object"):
        torch.set_default_tensor_type(torch.float32)


def test_a_condition_on_a_tensor_is_of_bools():
    torch._check_tensor_all(torch.ones(2) > 0)
    with pytest.raises(TypeError, match="must have dtype torch.bool"):
        torch._check_tensor_all(torch.ones(2))


def test_numbers_as_if_quantised():
    """Rounded to the nearest multiple of the scale, half to even, within bounds; the gradient goes straight through."""
    inf, nan, i32 = float("inf"), float("nan"), torch.int32
    numbers = [-1.0, -0.26, 0.0, 0.5, 0.74, nan, inf, -inf, 1e20]
    x = torch.tensor(numbers, requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -5, 5)
    steps = torch.tensor([-5.0, -3, 0, 5, 5, -5, 5, -5, 5])
    assert torch.equal(y, steps * torch.tensor(0.1))
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0, 0, 0, 0, 0]
    assert y.grad_fn.name() == "FakeQuantizePerTensorAffineCachemaskBackward0"
    y = torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(1), -5, 5)
    assert y.grad_fn.name() == "FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0"
    assert torch.equal(y[:3], torch.tensor([-6.0, -3, 0]) * torch.tensor(0.1))
    rows, scales, zeros = torch.tensor([[0.26, 0.26], [9, 9]]), torch.tensor([0.1, 0.2]), [0, 1]
    x = rows.clone().requires_grad_()
    y = torch.fake_quantize_per_channel_affine(x, scales, torch.tensor(zeros, dtype=i32), 1, -5, 5)
    assert torch.equal(y, torch.tensor([[3.0, 1], [5, 4]]) * scales)
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0]]
    y = torch.fake_quantize_per_channel_affine(rows.T, scales, torch.tensor([0.5, 0]), 0, -5, 5)
    assert y.stride() == (1, 2) and torch.allclose(y, torch.tensor([[0.25, 0.45], [0.2, 1.0]]))
    assert torch.fake_quantize_per_tensor_affine(rows.half(), 0.1, 0, -3, 3).dtype is torch.float16
    for bad in ((0.1, 9, -5, 5), (0.1, 0, 5, -5)):
        with pytest.raises(RuntimeError, match="must be between|less than or equal"):
            torch.fake_quantize_per_tensor_affine(rows, *bad)
    with pytest.raises(RuntimeError, match="not consistent"):
        torch.fake_quantize_per_channel_affine(rows, scales[:1], torch.tensor([0.0]), 1, -5, 5)
    with pytest.raises(RuntimeError, match="Int32, Float or Half"):
        torch.fake_quantize_per_channel_affine(rows, scales, torch.tensor([0, 0]), 1, -5, 5)
    with pytest.raises(RuntimeError, match="not differentiable"):
        scale = torch.tensor(0.1, requires_grad=True)
        torch.fake_quantize_per_tensor_affine(rows, scale, torch.tensor(0), -5, 5)
