"""Convolutions against direct loops, and their derivatives against finite differences."""

from itertools import product

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

RNG = np.random.default_rng(0)


def loops(x, w, bias, stride, padding, dilation, groups):
    """The definition: a sum over the kernel and the group's channels for every place of the output."""
    nd = x.ndim - 2
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out = [
        (wide.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(nd)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    each = w.shape[1]
    for n, o in product(range(x.shape[0]), range(w.shape[0])):
        first = o // (w.shape[0] // groups) * each
        for at in product(*map(range, out)):
            spans = tuple(
                slice(a * s, a * s + d * (k - 1) + 1, d)
                for a, s, d, k in zip(at, stride, dilation, w.shape[2:], strict=True)
            )
            window = wide[(n, slice(first, first + each), *spans)]
            y[(n, o, *at)] = (window * w[o]).sum()
    return y if bias is None else y + bias.reshape(-1, *(1,) * nd)


def transposed_loops(x, w, stride, padding, dilation, groups, output_padding):
    """Every input adds the kernel, times its value, to the output."""
    nd = x.ndim - 2
    each, into = w.shape[0] // groups, w.shape[1]
    wide = [
        (x.shape[2 + i] - 1) * stride[i]
        + dilation[i] * (w.shape[2 + i] - 1)
        + 1
        + output_padding[i]
        for i in range(nd)
    ]
    y = np.zeros((x.shape[0], into * groups, *wide), x.dtype)
    for n, c in product(range(x.shape[0]), range(w.shape[0])):
        first = c // each * into
        for at in product(*map(range, x.shape[2:])):
            spans = tuple(
                slice(a * s, a * s + d * (k - 1) + 1, d)
                for a, s, d, k in zip(at, stride, dilation, w.shape[2:], strict=True)
            )
            y[(n, slice(first, first + into), *spans)] += x[(n, c, *at)] * w[c]
    inner = tuple(slice(p, m - p) for p, m in zip(padding, wide, strict=True))
    return y[(..., *inner)]


CASES = [
    # in, channels, out channels, kernel, stride, padding, dilation, groups
    ((9,), 2, 3, (3,), (1,), (0,), (1,), 1),
    ((9,), 4, 6, (2,), (2,), (1,), (2,), 2),
    ((6, 7), 1, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((7, 6), 3, 2, (2, 3), (2, 1), (0, 2), (1, 2), 1),
    ((6, 6), 3, 3, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((6, 5), 2, 6, (3, 2), (2, 2), (1, 0), (1, 1), 2),
    ((14, 13), 8, 5, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((5, 5), 6, 2, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((5, 5), 6, 2, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((4, 5, 4), 2, 2, (2, 2, 3), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
    ((4, 4, 4), 4, 4, (2, 2, 2), (2, 1, 1), (0, 0, 0), (1, 2, 1), 4),
]


def tensors(sizes, c, o, kernel, groups, n=3):
    return (
        RNG.standard_normal((n, c, *sizes)),
        RNG.standard_normal((o, c // groups, *kernel)),
        RNG.standard_normal(o),
    )


@pytest.mark.parametrize("case", CASES)
def test_convolution_is_its_definition(case):
    sizes, c, o, kernel, stride, padding, dilation, groups = case
    x, w, b = tensors(sizes, c, o, kernel, groups)
    function = getattr(F, f"conv{len(sizes)}d")
    y = function(*map(torch.tensor, (x, w, b)), stride, padding, dilation, groups)
    want = loops(x, w, b, stride, padding, dilation, groups)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-11, atol=1e-11)
    single = function(torch.tensor(x[0]), torch.tensor(w), None, stride, padding, dilation, groups)
    np.testing.assert_allclose(
        single.numpy(), want[0] - b.reshape(-1, *(1,) * len(sizes)), atol=1e-11
    )


@pytest.mark.parametrize("case", CASES)
def test_transposed_convolution_is_its_definition(case):
    sizes, c, o, kernel, stride, padding, dilation, groups = case
    x, w = RNG.standard_normal((2, o, *sizes)), RNG.standard_normal((o, c // groups, *kernel))
    extra = tuple(s - 1 for s in stride)
    function = getattr(F, f"conv_transpose{len(sizes)}d")
    y = function(torch.tensor(x), torch.tensor(w), None, stride, padding, extra, groups, dilation)
    want = transposed_loops(x, w, stride, padding, dilation, groups, extra)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-11, atol=1e-11)


def slope(f, arrays, direction, eps=1e-6):
    """The derivative of the scalar f along a direction, by differences."""
    up = f(*(a + eps * d for a, d in zip(arrays, direction, strict=True)))
    down = f(*(a - eps * d for a, d in zip(arrays, direction, strict=True)))
    return (up - down) / (2 * eps)


def check_derivatives(function, arrays):
    """First and second derivatives along random directions, against differences."""
    shape = function(*map(torch.tensor, arrays)).shape
    cotangent = torch.tensor(RNG.standard_normal(tuple(shape)))
    direction = [RNG.standard_normal(a.shape) for a in arrays]
    again = [RNG.standard_normal(a.shape) for a in arrays]

    def value(*given):
        return float((function(*map(torch.tensor, given)) * cotangent).sum().item())

    def first(*given):
        ts = [torch.tensor(a, requires_grad=True) for a in given]
        got = torch.autograd.grad((function(*ts) * cotangent).sum(), ts)
        return sum(float((g.numpy() * d).sum()) for g, d in zip(got, direction, strict=True))

    exact = first(*arrays)
    assert abs(exact - slope(value, arrays, direction)) < 1e-5 * max(1, abs(exact))
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    got = torch.autograd.grad((function(*ts) * cotangent).sum(), ts, create_graph=True)
    dot = sum((g * torch.tensor(d)).sum() for g, d in zip(got, direction, strict=True))
    if dot.requires_grad:
        second = torch.autograd.grad(dot, ts, allow_unused=True)
        exact = sum(
            float((g.numpy() * d).sum())
            for g, d in zip(second, again, strict=True)
            if g is not None
        )
        assert abs(exact - slope(first, arrays, again)) < 1e-5 * max(1, abs(exact))


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_convolution(case):
    sizes, c, o, kernel, stride, padding, dilation, groups = case
    function = getattr(F, f"conv{len(sizes)}d")
    check_derivatives(
        lambda x, w, b: function(x, w, b, stride, padding, dilation, groups),
        tensors(sizes, c, o, kernel, groups, n=2),
    )


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_transposed_convolution(case):
    sizes, c, o, kernel, stride, padding, dilation, groups = case
    function = getattr(F, f"conv_transpose{len(sizes)}d")
    x, w = RNG.standard_normal((2, o, *sizes)), RNG.standard_normal((o, c // groups, *kernel))
    check_derivatives(
        lambda x, w: function(x, w, None, stride, padding, 0, groups, dilation), [x, w]
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_same_padding_keeps_the_size():
    x, w = RNG.standard_normal((1, 1, 5, 6)), RNG.standard_normal((1, 1, 2, 4))
    y = F.conv2d(torch.tensor(x), torch.tensor(w), padding="same")
    want = loops(np.pad(x, [(0, 0), (0, 0), (0, 1), (1, 2)]), w, None, (1, 1), (0, 0), (1, 1), 1)
    np.testing.assert_allclose(y.numpy(), want, atol=1e-12)
    with pytest.raises(RuntimeError, match="padding='same' is not supported for strided"):
        F.conv2d(torch.tensor(x), torch.tensor(w), padding="same", stride=2)


def test_channels_last_in_channels_last_out():
    x, w, b = tensors((6, 6), 3, 4, (3, 3), 1)
    last = torch.tensor(x).contiguous(memory_format=torch.channels_last)
    y = F.conv2d(last, torch.tensor(w), torch.tensor(b))
    assert y.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(y.numpy(), loops(x, w, b, (1, 1), (0, 0), (1, 1), 1), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_summed_in_float32(dtype):
    d = getattr(torch, dtype)
    x, w = torch.ones(1, 300, 3, 3).to(d), torch.ones(1, 300, 3, 3).to(d)
    y = F.conv2d(x, w)
    assert y.dtype is d
    assert abs(y.item() - 2700) <= (2 if dtype == "float16" else 12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: F.conv2d(x, torch.ones(6, 1, 5, 5)),
            (
                "Given groups=1, weight of size [6, 1, 5, 5], expected input[1, 3, 8, 8] to have 1 "
                "channels, but got 3 channels instead"
            ),
        ),
        (
            lambda x: F.conv2d(x, torch.ones(6, 3, 9, 9)),
            (
                "Calculated padded input size per channel: (8 x 8). Kernel size: (9 x 9). Kernel size "
                "can't be greater than actual input size"
            ),
        ),
        (
            lambda x: F.conv2d(x, torch.ones(6, 3, 3, 3), torch.ones(5)),
            "expected bias to be 1-dimensional with 6 elements, but got bias of size [5] instead",
        ),
        (
            lambda x: F.conv2d(x, torch.ones(6, 3, 3, 3), stride=0),
            "non-positive stride is not supported",
        ),
        (
            lambda x: F.conv2d(x, torch.ones(6, 3, 3, 3), padding=-1),
            "negative padding is not supported",
        ),
        (
            lambda x: F.conv2d(x[0, 0], torch.ones(6, 3, 3, 3)),
            "Expected 3D (unbatched) or 4D (batched)",
        ),
        (
            lambda x: F.conv2d(x.double(), torch.ones(6, 3, 3, 3)),
            "expected scalar type Double but found Float",
        ),
        (
            lambda x: F.conv_transpose2d(x, torch.ones(3, 6, 3, 3), output_padding=1),
            "output padding must be smaller than either stride or dilation, but got output_padding_height: 1",
        ),
    ],
)
def test_errors_name_what_is_wrong(call, text):
    with pytest.raises(RuntimeError) as caught:
        call(torch.ones(1, 3, 8, 8))
    assert text in str(caught.value)


def test_node_names():
    x = torch.ones(1, 1, 3, 3, requires_grad=True)
    assert F.conv2d(x, torch.ones(1, 1, 2, 2)).grad_fn.name() == "ConvolutionBackward0"


def test_gradients_as_functions():
    from rushlight.nn import grad

    x, w, _ = tensors((7, 6), 3, 2, (2, 3), 1)
    x, w = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    y = F.conv2d(x, w, None, 2, (0, 1))
    g = torch.tensor(RNG.standard_normal(tuple(y.shape)))
    y.backward(g)
    got = grad.conv2d_input(x.shape, w, g, 2, (0, 1)), grad.conv2d_weight(x, w.shape, g, 2, (0, 1))
    for mine, leaf in zip(got, (x, w), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), leaf.grad.numpy(), atol=1e-12)


def test_arguments_are_expanded_once(monkeypatch):
    from rushlight.ops.nn import conv

    expanded, calls = conv.expanded, []

    def counted(value, n, name):
        calls.append(name)
        return expanded(value, n, name)

    monkeypatch.setattr(conv, "expanded", counted)
    x, w = torch.ones(1, 3, 8, 8, requires_grad=True), torch.ones(4, 3, 3, 3, requires_grad=True)
    F.conv2d(x, w, padding=1).sum().backward()
    assert sorted(calls) == ["dilation", "padding", "stride"]


@pytest.mark.parametrize(
    ("stride", "error"), [((1.0, 1.0), TypeError), ("1", TypeError), ((1, 1, 1), RuntimeError)]
)
def test_geometry_of_a_call_like_one_before_is_looked_at(stride, error):
    x, w = torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)
    rest = ((0, 0), (1, 1), False, (0, 0), 1)
    torch.convolution(x, w, None, (1, 1), *rest)
    assert torch.convolution(x, w, None, [1], [0], [1], False, [0], 1).shape == (1, 4, 6, 6)
    for call in (
        lambda: F.conv2d(x, w, stride=stride),
        lambda: torch.convolution(x, w, None, stride, *rest),
    ):
        with pytest.raises(error):
            call()


def test_what_nodes_save_of_the_geometry():
    x = torch.ones(1, 1, 5, 5, requires_grad=True)
    node = F.conv2d(x, torch.ones(1, 1, 2, 2), stride=2, padding=1).grad_fn
    assert node._saved_stride == (2, 2)
    assert node._saved_padding == (1, 1)
    assert node._saved_groups == 1


def test_a_weight_of_one_place_with_channels_last_makes_the_result_so():
    x, weight = torch.ones(2, 4, 5, 5), torch.ones(8, 4, 1, 1)
    result = torch.nn.functional.conv2d(x, weight.to(memory_format=torch.channels_last))
    assert result.stride() == (200, 1, 40, 8)
    assert torch.nn.functional.conv2d(x, weight).stride() == (200, 25, 5, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_an_input_without_channels_gives_a_result_without_channels(n):
    x, weight = torch.ones(2, 0, *[4] * n), torch.ones(3, 0, *[2] * n, requires_grad=True)
    bias = torch.ones(3, requires_grad=True)
    y = getattr(F, f"conv{n}d")(x, weight, bias)
    assert y.shape == (2, 0, *[3] * n)
    y.sum().backward()
    assert bias.grad.tolist() == [0, 0, 0] and weight.grad.shape == weight.shape
