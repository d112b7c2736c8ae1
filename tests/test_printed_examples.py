"""Short programs of an introduction to PyTorch: what they print, from the first tensor to a custom autograd function.

Numbers that are drawn at random are checked for shape and range.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function
from rushlight.nn import functional as F


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers in every run."""
    torch.manual_seed(0)


def shows(value: object, text: str) -> None:
    """`print(value)` prints `text`."""
    assert str(value) == text


# -- creating tensors ----------------------------------------------------------------------------------


def test_tensor_from_list_and_array():
    t = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    shows(t, "tensor([[ 1., -1.],\n        [ 1., -1.]])")
    shows(t.dtype, "torch.float32")
    a = torch.tensor(np.array([[1, 2, 3], [4, 5, 6]]), dtype=torch.long)
    shows(a, "tensor([[1, 2, 3],\n        [4, 5, 6]])")
    shows(a.dtype, "torch.int64")


def test_zeros_with_out_is_the_same_tensor():
    o_t = torch.tensor([1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # resizing an output that has elements
        t = torch.zeros((3, 3), out=o_t)
    assert t is o_t
    shows(t, "tensor([[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]])")


def test_zeros_like_full_arange():
    shows(torch.zeros_like(torch.ones(2, 2)), "tensor([[0., 0.],\n        [0., 0.]])")
    shows(
        torch.full((2, 3), 3.141592),
        "tensor([[3.1416, 3.1416, 3.1416],\n        [3.1416, 3.1416, 3.1416]])",
    )
    shows(torch.arange(1, 2.51, 0.5), "tensor([1.0000, 1.5000, 2.0000, 2.5000])")


def test_linspace_logspace_eye():
    shows(torch.linspace(3, 10, steps=5), "tensor([ 3.0000,  4.7500,  6.5000,  8.2500, 10.0000])")
    shows(torch.linspace(1, 5, steps=3), "tensor([1., 3., 5.])")
    shows(
        torch.logspace(start=0.1, end=1.0, steps=5),
        "tensor([ 1.2589,  2.1135,  3.5481,  5.9566, 10.0000])",
    )
    shows(torch.logspace(start=2, end=2, steps=1, base=2), "tensor([4.])")
    shows(torch.eye(3), "tensor([[1., 0., 0.],\n        [0., 1., 0.],\n        [0., 0., 1.]])")
    shows(
        torch.eye(3, 4),
        "tensor([[1., 0., 0., 0.],\n        [0., 1., 0., 0.],\n        [0., 0., 1., 0.]])",
    )


def test_random_creation():
    mean, std = torch.arange(1, 11.0), torch.arange(1, 0, -0.1)
    shows(mean, "tensor([ 1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10.])")
    shows(
        std,
        "tensor([1.0000, 0.9000, 0.8000, 0.7000, 0.6000, 0.5000, 0.4000, 0.3000, 0.2000,\n        0.1000])",
    )
    assert torch.normal(mean=mean, std=std).shape == (10,)
    drawn = torch.randint(3, 10, (2, 2))
    assert drawn.dtype is torch.int64 and drawn.min() >= 3 and drawn.max() < 10
    p = torch.empty(3, 3).uniform_(0, 1)
    b = torch.bernoulli(p)
    assert set(b.flatten().tolist()) <= {0.0, 1.0}


# -- operations ----------------------------------------------------------------------------------------


def test_scatter():
    src = torch.arange(1, 11).reshape((2, 5))
    shows(src, "tensor([[ 1,  2,  3,  4,  5],\n        [ 6,  7,  8,  9, 10]])")
    index = torch.tensor([[0, 1, 2, 0]])
    shows(
        torch.zeros(3, 5, dtype=src.dtype).scatter_(0, index, src),
        "tensor([[1, 0, 0, 4, 0],\n        [0, 2, 0, 0, 0],\n        [0, 0, 3, 0, 0]])",
    )


def test_in_place_addition_changes_its_operand():
    x1, x2 = torch.rand(2, 3), torch.rand(2, 3)
    before = x2.clone()
    x2.add_(x1)
    assert torch.equal(x2, before + x1)


def test_view_and_permute():
    x = torch.arange(6)
    shows(x, "tensor([0, 1, 2, 3, 4, 5])")
    x = x.view(2, 3)
    shows(x, "tensor([[0, 1, 2],\n        [3, 4, 5]])")
    shows(x.permute(1, 0), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])")


def test_matmul_of_integers():
    x, w = torch.arange(6).view(2, 3), torch.arange(9).view(3, 3)
    shows(torch.matmul(x, w), "tensor([[15, 18, 21],\n        [42, 54, 66]])")


def test_indexing():
    x = torch.arange(12).view(3, 4)
    shows(x[:, 1], "tensor([1, 5, 9])")
    shows(x[0], "tensor([0, 1, 2, 3])")
    shows(x[:2, -1], "tensor([3, 7])")
    shows(x[1:3, :], "tensor([[ 4,  5,  6,  7],\n        [ 8,  9, 10, 11]])")


def test_seeds():
    torch.manual_seed(42)
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(first, torch.rand(3)) and torch.initial_seed() == 42
    assert state.dtype is torch.uint8 and torch.seed() == torch.initial_seed()


def test_layouts():
    x = torch.arange(6).view(2, 3)
    assert x.stride() == (3, 1) and x.t().stride() == (1, 3) and x.t().data_ptr() == x.data_ptr()
    assert x.is_contiguous() and not x.t().is_contiguous()
    image = torch.zeros(1, 3, 4, 5).to(memory_format=torch.channels_last)
    assert image.stride() == (60, 1, 15, 3) and image.is_contiguous(
        memory_format=torch.channels_last
    )


# -- the graph -----------------------------------------------------------------------------------------


def graph():
    w, x = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    a, b = torch.add(w, x), torch.add(w, 1)
    return w, x, a, b, torch.mul(a, b)


def test_leaves_gradients_and_grad_fn():
    w, x, a, b, y = graph()
    y.backward()
    shows(w.grad, "tensor([5.])")
    assert [t.is_leaf for t in (w, x, a, b, y)] == [True, True, False, False, False]
    with pytest.warns(UserWarning, match="not a leaf"):
        assert a.grad is None
    shows(x.grad, "tensor([2.])")
    assert w.grad_fn is None and repr(a.grad_fn).startswith("<AddBackward0 object at 0x")
    assert y.grad_fn.name() == "MulBackward0"


def test_retain_graph():
    w, _, _, _, y = graph()
    y.backward(retain_graph=True)
    shows(w.grad, "tensor([5.])")
    y.backward()
    shows(w.grad, "tensor([10.])")
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_grad_tensors():
    w, _, a, b, y0 = graph()
    loss = torch.cat([y0, torch.add(a, b)], dim=0)
    loss.backward(gradient=torch.tensor([1.0, 2.0]))
    shows(w.grad, "tensor([9.])")


def test_second_derivative():
    x = torch.tensor([3.0], requires_grad=True)
    y = torch.pow(x, 2)
    grad_1 = torch.autograd.grad(y, x, create_graph=True)
    shows(grad_1, "(tensor([6.], grad_fn=<MulBackward0>),)")
    shows(torch.autograd.grad(grad_1[0], x), "(tensor([2.]),)")


def test_gradients_accumulate():
    w, x = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    seen = []
    for _ in range(4):
        torch.mul(torch.add(w, x), torch.add(w, 1)).backward()
        seen.append(str(w.grad))
    assert seen == ["tensor([5.])", "tensor([10.])", "tensor([15.])", "tensor([20.])"]


def test_what_depends_on_a_leaf_requires_grad():
    _, _, a, b, y = graph()
    assert (a.requires_grad, b.requires_grad, y.requires_grad) == (True, True, True)
    x, z = torch.rand(5, 5), torch.rand((5, 5), requires_grad=True)
    assert not (x + torch.rand(5, 5)).requires_grad and (x + z).requires_grad


def test_leaves_are_not_written_in_place():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = x * 2 + 1
    z.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.mul_(2)
    a = torch.ones((1,))
    same = a
    a += torch.ones((1,))
    assert a is same
    shows(a, "tensor([2.])")


def test_detach_shares_memory():
    w = torch.tensor([1.0], requires_grad=True)
    shows(w, "tensor([1.], requires_grad=True)")
    w.detach().data[0] = 999
    shows(w, "tensor([999.], requires_grad=True)")


def test_no_grad():
    x, w = torch.ones(5), torch.randn(5, 3, requires_grad=True)
    assert (torch.matmul(x, w)).requires_grad
    with torch.no_grad():
        assert not torch.matmul(x, w).requires_grad
    with torch.inference_mode():
        made = torch.matmul(x, w)
    with pytest.raises(RuntimeError, match="[Ii]nference tensors"):
        (made * w.sum()).sum().backward()


def test_only_scalars_start_without_a_gradient():
    inp = torch.eye(4, 5, requires_grad=True)
    out = (inp + 1).pow(2).t()
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        out.backward()
    out.backward(torch.ones_like(out), retain_graph=True)
    first = "tensor([[4., 2., 2., 2., 2.],\n        [2., 4., 2., 2., 2.],\n        [2., 2., 4., 2., 2.],\n"
    shows(inp.grad, first + "        [2., 2., 2., 4., 2.]])")
    out.backward(torch.ones_like(out), retain_graph=True)
    assert torch.equal(inp.grad, torch.full((4, 5), 4.0) + 4 * torch.eye(4, 5))
    inp.grad.zero_()
    out.backward(torch.ones_like(out), retain_graph=True)
    shows(inp.grad, first + "        [2., 2., 2., 4., 2.]])")


def test_retain_grad_of_a_middle_tensor():
    x = torch.tensor([3.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.backward()
    shows(y.grad, "tensor([1.])")
    shows(x.grad, "tensor([2.])")


def test_tensor_hook_sees_and_replaces_the_gradient():
    seen = []
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    handle = a.register_hook(lambda g: seen.append(g) or 0.001 * g)
    a.mul(torch.tensor([2.0, 3.0, 4.0])).sum().backward()
    shows(seen[0], "tensor([2., 3., 4.])")
    assert torch.allclose(a.grad, torch.tensor([0.002, 0.003, 0.004]))
    handle.remove()


def test_gradients_of_a_linear_layer():
    x, y = torch.ones(5), torch.zeros(3)
    w, b = torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    loss = F.binary_cross_entropy_with_logits(z, y)
    assert z.grad_fn.name() == "AddBackward0"
    assert loss.grad_fn.name() == "BinaryCrossEntropyWithLogitsBackward0"
    loss.backward()
    assert torch.allclose(b.grad, torch.sigmoid(z.detach()) / 3)
    assert torch.allclose(w.grad, b.grad.expand(5, 3))


def test_saved_tensors():
    x = torch.randn(5, requires_grad=True)
    y = x.pow(2)
    assert x.equal(y.grad_fn._saved_self) and x is y.grad_fn._saved_self
    y = x.exp()
    assert y.equal(y.grad_fn._saved_result) and y is not y.grad_fn._saved_result


def test_constants_are_not_tracked():
    x, y = torch.tensor([3.0], requires_grad=True), torch.tensor([2.0], requires_grad=False)
    z = x * y * 4
    z.backward()
    shows(x.grad, "tensor([8.])")
    assert y.grad is None


def test_control_flow():
    def f(a):
        b = a * 2
        while b.norm() < 1000:
            b = b * 2
        return b if b.sum() > 0 else 100 * b

    a = torch.randn(size=(), requires_grad=True)
    d = f(a)
    d.backward()
    assert torch.allclose(a.grad, d / a)  # the quotient may round differently


def test_gradients_at_points_that_have_none():
    """The six rules: subgradients of least norm, limits, and nan where there is no function."""

    def at(f, x):
        t = torch.tensor(x, requires_grad=True)
        f(t).backward()
        return t.grad.item()

    assert at(torch.relu, 0.0) == 0.0 and at(torch.abs, 0.0) == 0.0
    assert at(torch.sqrt, 0.0) == math.inf and math.isnan(at(torch.sqrt, -1.0))
    assert at(torch.log, -1.0) == -1.0  # the formula's value where the function is not defined
    assert not torch.tensor([0.5], requires_grad=True).argmax().requires_grad


# -- functions of one's own ----------------------------------------------------------------------------


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


class GradCoeff(Function):
    @staticmethod
    def forward(ctx, x, coeff):
        ctx.coeff = coeff
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.coeff * grad_output, None


class LegendrePolynomial3(Function):
    @staticmethod
    def forward(ctx, x):
        if isinstance(x, torch.Tensor):
            ctx.save_for_backward(x)
        return 0.5 * (5 * x**3 - 3 * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * x**2 - 1)


class MyConv2D(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight)

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        grad_weight = F.conv2d(x.transpose(0, 1), grad_out.transpose(0, 1)).transpose(0, 1)
        return F.conv_transpose2d(grad_out, weight), grad_weight


def test_own_exp():
    x = torch.tensor([1.0], requires_grad=True)
    y = Exp.apply(x)
    shows(y, "tensor([2.7183], grad_fn=<ExpBackward>)")
    y.backward()
    shows(x.grad, "tensor([2.7183])")
    x = torch.randn(3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(Exp.apply, (x,))


def test_own_gradient_coefficient():
    x = torch.tensor([2.0], requires_grad=True)
    y = GradCoeff.apply(x, -0.1) ** 2
    shows(y, "tensor([4.], grad_fn=<PowBackward0>)")
    y.backward()
    shows(x.grad, "tensor([-0.4000])")


def test_own_polynomial():
    a, b, c, d, x = 1, 2, 1, 2, 1
    assert a + b * LegendrePolynomial3.apply(c + d * x) == 127.0
    t = torch.randn(4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(LegendrePolynomial3.apply, (t,))


def test_own_convolution():
    weight = torch.rand(5, 3, 3, 3, requires_grad=True, dtype=torch.double)
    x = torch.rand(2, 3, 5, 5, requires_grad=True, dtype=torch.double)
    assert torch.autograd.gradcheck(MyConv2D.apply, (x, weight))
    y = MyConv2D.apply(x, weight)
    assert weight.grad is None
    F.mse_loss(y, torch.randn_like(y)).backward()
    assert weight.grad.shape == weight.shape


# -- around autograd -----------------------------------------------------------------------------------


def test_profiler_prints_what_ran():
    x = torch.randn(4, 4, requires_grad=True)
    with torch.autograd.profiler.profile(profile_memory=False, record_shapes=False) as prof:
        (x @ x).exp().sum().backward()
    text = str(prof)
    assert "aten::exp" in text and "ExpBackward0" in text and "Self CPU time total" in text


def test_anomaly_detection_finds_the_forward_line():
    x = torch.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly(check_nan=True):
            y = x.sqrt()
            with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
                y.backward()
    assert any("y = x.sqrt()" in str(w.message) for w in caught)
    torch.autograd.set_detect_anomaly(False)


def test_node_metadata_and_hooks():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.name() == "ExpBackward0" and y.grad_fn.metadata == {"note": 1}
    seen = []
    y.grad_fn.register_hook(
        lambda grad_inputs, grad_outputs: seen.append((grad_inputs, grad_outputs))
    )
    y.sum().backward()
    assert torch.equal(seen[0][0][0], x.exp()) and torch.equal(seen[0][1][0], torch.ones(2))


# -- nn ------------------------------------------------------------------------------------------------


def test_buffers_and_parameters():
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("my_buffer", torch.zeros(2))
            self.weight = nn.Parameter(torch.ones(3))
            self.plain = torch.ones(1)

    model = A()
    assert [n for n, _ in model.named_parameters()] == ["weight"]
    assert [n for n, _ in model.named_buffers()] == ["my_buffer"]
    assert list(model.state_dict()) == ["weight", "my_buffer"]
    assert not model.my_buffer.requires_grad and model.my_buffer.device.type == "cpu"


def test_sequential_and_module_list():
    model = nn.Sequential(
        nn.Linear(20, 10), nn.ReLU(), nn.Sequential(nn.Linear(10, 5), nn.ReLU()), nn.Linear(5, 1)
    )
    assert model(torch.randn(5, 20)).shape == (5, 1)
    layers = nn.ModuleList([nn.Linear(10, 20)])
    layers.append(nn.Linear(20, 5))
    layers.extend([nn.Linear(5, 3), nn.Sigmoid()])
    layers.insert(1, nn.BatchNorm1d(20))
    assert len(layers) == 5 and len(list(layers.parameters())) == 8


def test_linear_is_a_matmul():
    linear = nn.Linear(100, 50)
    x = torch.randn(10, 20, 100)
    by_hand = torch.matmul(x, linear.weight.transpose(0, 1).unsqueeze(0)) + linear.bias.view(
        1, 1, -1
    )
    assert torch.allclose(linear(x), by_hand, atol=1e-6)


def test_clipping_gradients():
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    (w * w).sum().backward()
    norm = nn.utils.clip_grad_norm_([w], max_norm=5, norm_type=2)
    assert norm == 10 and torch.allclose(w.grad, torch.tensor([3.0, 4.0]))
    nn.utils.clip_grad_value_([w], clip_value=0.5)
    shows(w.grad, "tensor([0.5000, 0.5000])")


def test_zero_grad_sets_none():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.zero_grad()
    assert model.weight.grad is None
    model(torch.ones(1, 2)).sum().backward()
    model.zero_grad()
    assert model.bias.grad is None
