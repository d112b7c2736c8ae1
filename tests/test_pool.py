"""Pooling, padding, resampling against direct loops, and their derivatives against differences."""

import math
from itertools import product

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F
from test_conv import check_derivatives

RNG = np.random.default_rng(1)


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """For each output place: the positions of its window inside the input, one list a dimension."""
    lines = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        m = (math.ceil(room / s) if ceil_mode else room // s) + 1
        if ceil_mode and (m - 1) * s >= n + p:
            m -= 1
        lines.append(
            [[a for a in (o * s - p + j * d for j in range(k)) if 0 <= a < n] for o in range(m)]
        )
    return lines


def pooled(x, lines, reduce):
    y = np.zeros((*x.shape[: x.ndim - len(lines)], *map(len, lines)))
    for at in product(*(range(len(line)) for line in lines)):
        rows = [line[a] for line, a in zip(lines, at, strict=True)]
        part = x[(..., *np.ix_(*rows))]
        y[(..., *at)] = reduce(part.reshape(*part.shape[: x.ndim - len(lines)], -1), at)
    return y


CASES = [
    ((8,), (2,), (2,), (0,), (1,), False),
    ((9,), (3,), (2,), (1,), (2,), True),
    ((8, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((7, 8), (3, 2), (2, 1), (1, 1), (1, 1), True),
    ((9, 7), (3, 2), (1, 2), (1, 0), (2, 3), False),
    ((5, 6, 5), (2, 3, 2), (2, 2, 1), (0, 1, 1), (1, 1, 2), True),
]


@pytest.mark.parametrize("case", CASES)
def test_max_pool(case):
    sizes, kernel, stride, padding, dilation, ceil_mode = case
    x = RNG.permutation(6 * math.prod(sizes)).reshape(2, 3, *sizes).astype(float)
    function = getattr(F, f"max_pool{len(sizes)}d")
    arguments = (kernel, stride, padding, dilation, ceil_mode)
    want = pooled(x, windows(sizes, *arguments), lambda part, _: part.max(-1))
    y, places = function(torch.tensor(x), *arguments, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), want)
    np.testing.assert_array_equal(function(torch.tensor(x), *arguments).numpy(), want)
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), 2).reshape(want.shape), want
    )
    small = RNG.permutation(math.prod(sizes)).reshape(1, 1, *sizes) * 0.1
    check_derivatives(lambda t: function(t, *arguments) ** 2, [small])
    check_derivatives(lambda t: function(t, *arguments, return_indices=True)[0] ** 2, [small])


def test_max_pool_gradient_goes_to_the_first_maximum_and_to_nan():
    x = torch.tensor([[[1.0, 1.0, 0.0, float("nan")]]], requires_grad=True)
    y = F.max_pool1d(x, 2)
    assert y[0, 0, 0].item() == 1 and math.isnan(y[0, 0, 1].item())
    y.sum().backward()
    assert x.grad.tolist() == [[[1.0, 0.0, 0.0, 1.0]]]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool(case, include):
    sizes, kernel, stride, padding, _, ceil_mode = case
    ones = (1,) * len(sizes)
    x = RNG.standard_normal((2, 3, *sizes))
    function = getattr(F, f"avg_pool{len(sizes)}d")

    def average(part, at):
        counts = [
            (min(a * s - p + k, n + p) - (a * s - p)) if include else None
            for a, s, p, k, n in zip(at, stride, padding, kernel, sizes, strict=True)
        ]
        return part.sum(-1) / (math.prod(counts) if include else part.shape[-1])

    want = pooled(x, windows(sizes, kernel, stride, padding, ones, ceil_mode), average)
    arguments = (kernel, stride, padding, ceil_mode, include)
    np.testing.assert_allclose(function(torch.tensor(x), *arguments).numpy(), want, atol=1e-12)
    check_derivatives(lambda t: function(t, *arguments) ** 2, [x[:1, :1]])


@pytest.mark.parametrize("out", [(1, 1), (2, 3), (3, 4), (8, 9), (5, 1)])
def test_adaptive_pool(out):
    sizes = (6, 7)
    x = RNG.permutation(2 * 42).reshape(1, 2, *sizes) * 0.1
    lines = [
        [list(range(i * n // m, -(-(i + 1) * n // m))) for i in range(m)]
        for n, m in zip(sizes, out, strict=True)
    ]
    y = F.adaptive_avg_pool2d(torch.tensor(x), out)
    np.testing.assert_allclose(
        y.numpy(), pooled(x, lines, lambda part, _: part.mean(-1)), atol=1e-12
    )
    y = F.adaptive_max_pool2d(torch.tensor(x), out)
    np.testing.assert_array_equal(y.numpy(), pooled(x, lines, lambda part, _: part.max(-1)))
    check_derivatives(lambda t: F.adaptive_avg_pool2d(t, out) ** 2, [x])
    check_derivatives(lambda t: F.adaptive_max_pool2d(t, out) ** 2, [x])


NODES = {
    "MaxPool2DWithIndicesBackward0": lambda x, n: getattr(F, f"max_pool{n}d")(x, 2),
    "AvgPool2DBackward0": lambda x, n: getattr(F, f"avg_pool{n}d")(x, 2),
    "AdaptiveAvgPool2DBackward0": lambda x, n: getattr(F, f"adaptive_avg_pool{n}d")(x, 2),
    "AdaptiveMaxPool2DBackward0": lambda x, n: getattr(F, f"adaptive_max_pool{n}d")(x, 2),
}


@pytest.mark.parametrize("node", NODES)
def test_nodes_of_pooling(node):
    """Lines are images of one row in PyTorch: what users see is that the row is squeezed."""
    pool, x = NODES[node], torch.rand(1, 2, 4, 4, requires_grad=True)
    assert pool(x, 2).grad_fn.name() == node
    assert pool(x[0], 1).grad_fn.name() == "SqueezeBackward1"


def test_unpool_puts_maxima_back():
    x = torch.tensor(RNG.standard_normal((1, 2, 4, 6)))
    y, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(y, places, 2)
    assert back.shape == x.shape
    kept = back.numpy() != 0
    assert kept.sum() == y.numel() and (back.numpy()[kept] == x.numpy()[kept]).all()
    with pytest.raises(RuntimeError, match="Found an invalid max index: 99"):
        F.max_unpool2d(y, torch.full_like(places, 99), 2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 3), (0, 1, 2, 1, 1, 1)])
def test_pad(mode, pad):
    x = RNG.standard_normal((2, 2, *(4, 5, 4)[: len(pad) // 2]))
    pairs = [(0, 0)] * 2 + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    want = np.pad(x, pairs, {"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    np.testing.assert_array_equal(F.pad(torch.tensor(x), pad, mode).numpy(), want)
    check_derivatives(lambda t: F.pad(t, pad, mode) ** 2, [x])


def test_negative_pad_cuts_off():
    x = torch.arange(6.0).view(1, 6)
    assert F.pad(x, (-1, 2), value=9.0).tolist() == [[1, 2, 3, 4, 5, 9, 9]]
    with pytest.raises(RuntimeError, match="negative"):
        F.pad(x, (-7, 0))


def test_fold_adds_up_what_unfold_takes_out():
    x = RNG.standard_normal((2, 3, 6, 5))
    columns = F.unfold(torch.tensor(x), (2, 3), padding=1, stride=2)
    assert columns.shape == (2, 18, 12)
    counts = F.fold(torch.ones(2, 18, 12).double(), (6, 5), (2, 3), padding=1, stride=2)
    back = F.fold(columns, (6, 5), (2, 3), padding=1, stride=2)
    np.testing.assert_allclose(back.numpy(), x * counts.numpy(), atol=1e-12)
    check_derivatives(lambda t: F.unfold(t, 2, dilation=2) ** 2, [x[:1]])
    check_derivatives(lambda t: F.fold(t, (4, 3), 2) ** 2, [RNG.standard_normal((1, 4, 6))])


# -- resampling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(3, 9), (7, 2), (1, 5)])
def test_bilinear_is_linear_in_both_directions(corners, size):
    x = RNG.standard_normal((1, 2, 5, 4))
    y = F.interpolate(torch.tensor(x), size, mode="bilinear", align_corners=corners).numpy()
    for (i, j), _ in np.ndenumerate(np.zeros(size)):
        at = []
        for o, n, m in zip((i, j), (5, 4), size, strict=True):
            if corners:
                a = o * (n - 1) / (m - 1) if m > 1 else 0.0
            else:
                a = max((o + 0.5) * n / m - 0.5, 0.0)
            low = min(int(a), n - 1)
            at.append((low, min(low + 1, n - 1), a - low))
        (r, r2, u), (c, c2, v) = at
        want = (1 - u) * ((1 - v) * x[..., r, c] + v * x[..., r, c2]) + u * (
            (1 - v) * x[..., r2, c] + v * x[..., r2, c2]
        )
        np.testing.assert_allclose(y[..., i, j], want, atol=1e-12)


MODES = [
    ("nearest", 1, {}),
    ("nearest-exact", 2, {}),
    ("linear", 1, {}),
    ("bilinear", 2, {"align_corners": True}),
    ("bicubic", 2, {}),
    ("trilinear", 3, {}),
    ("area", 2, {}),
    ("bilinear", 2, {"antialias": True}),
    ("bicubic", 2, {"antialias": True}),
]


@pytest.mark.parametrize(("mode", "nd", "more"), MODES)
def test_interpolation_keeps_constants_and_has_derivatives(mode, nd, more):
    for size in ((3, 7, 2)[:nd], (8, 2, 6)[:nd]):
        flat = F.interpolate(torch.full((1, 1, *(5, 4, 3)[:nd]), 2.5), size, mode=mode, **more)
        np.testing.assert_allclose(flat.numpy(), 2.5, rtol=1e-6)
        x = RNG.standard_normal((1, 2, *(5, 4, 3)[:nd]))
        check_derivatives(lambda t, s=size: F.interpolate(t, s, mode=mode, **more) ** 2, [x])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_at_nan_is_nan_where_weights_are_polynomials(padding):
    x, grid = torch.ones(1, 1, 5, 7), torch.tensor([[[[torch.nan, 0.3], [0.2, 0.1]]]])
    y = F.grid_sample(x, grid, "bicubic", padding, align_corners=False)
    assert y.isnan().tolist() == [[[[True, False]]]]


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    x = RNG.standard_normal((2, 2, 4, 5))
    rows, columns = np.meshgrid(np.arange(4), np.arange(5), indexing="ij")
    same = np.stack([columns / 4 * 2 - 1, rows / 3 * 2 - 1], -1)[None].repeat(2, 0)
    y = F.grid_sample(torch.tensor(x), torch.tensor(same), mode, padding, align_corners=True)
    np.testing.assert_allclose(y.numpy(), x, atol=1e-12)
    grid = RNG.uniform(-1.3, 1.3, (2, 3, 2, 2))
    check_derivatives(
        lambda a, g: F.grid_sample(a, g, mode, padding, align_corners=False), [x, grid]
    )


def test_affine_grid_of_the_identity_reads_the_image():
    theta = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], requires_grad=True)
    x = torch.arange(12.0).view(1, 1, 3, 4)
    grid = F.affine_grid(theta, (1, 1, 3, 4), align_corners=False)
    np.testing.assert_allclose(
        F.grid_sample(x, grid, align_corners=False).detach().numpy(), x.numpy(), atol=1e-5
    )


def test_pixel_shuffle_and_back():
    x = torch.tensor(RNG.standard_normal((2, 8, 3, 2)))
    y = F.pixel_shuffle(x, 2)
    assert y.shape == (2, 2, 6, 4)
    assert y[0, 1, 3, 2].item() == x[0, 1 * 4 + (3 % 2) * 2 + 2 % 2, 1, 1].item()
    np.testing.assert_array_equal(F.pixel_unshuffle(y, 2).numpy(), x.numpy())
    z = F.channel_shuffle(x, 4)
    np.testing.assert_array_equal(
        z.numpy(), x.numpy().reshape(2, 4, 2, 3, 2).swapaxes(1, 2).reshape(x.shape)
    )
    check_derivatives(lambda t: F.channel_shuffle(t, 4) ** 2, [x.numpy()])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: F.max_pool2d(x, 9), RuntimeError, "Given input size: (3x8x8). Calculated output size"),
        (lambda x: F.max_pool2d(x, 2, padding=2), RuntimeError, "pad should be at most half of effective"),
        (lambda x: F.max_pool2d(x, 2, stride=0), RuntimeError, "stride should not be zero"),
        (lambda x: F.max_pool2d(x, 2, 2.0), TypeError, "must be tuple of ints, not float"),
        (lambda x: F.max_pool2d(x.bool(), 2), NotImplementedError, "not implemented for 'Bool'"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), RuntimeError, "divisor must be not zero"),
        (lambda x: F.adaptive_avg_pool2d(x, -1), RuntimeError, "greater than or equal to 0"),
        (lambda x: F.pad(x, (8, 0, 0, 0), "reflect"), RuntimeError, "Argument #4: Padding size should be less"),
        (lambda x: F.interpolate(x), ValueError, "either size or scale_factor should be defined"),
        (lambda x: F.interpolate(x, 4, mode="linear"), NotImplementedError, "linear mode needs 3D input"),
        (lambda x: F.unfold(x, 9), RuntimeError, "its components must be at least one"),
        (lambda x: F.pixel_shuffle(x, 2), RuntimeError, "divisible by the square of upscale_factor"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(call, error, text):
    with pytest.raises(error) as caught:
        call(torch.ones(1, 3, 8, 8))
    assert text in str(caught.value)


def test_a_result_of_one_element_a_plane_from_an_input_that_lies_otherwise():
    """The result is contiguous, the input is not: their leading dimensions are not joined alike."""
    x = torch.arange(72.0).reshape(2, 3, 6, 2).permute(0, 3, 1, 2)
    y = torch.nn.functional.max_pool2d(x, 3, 2, dilation=(1, 2))
    assert y.tolist() == x.amax((2, 3), keepdim=True).sub(2).tolist()


@pytest.mark.parametrize("n", (1, 2, 3))
def test_result_of_max_pooling_may_be_written_to(n):
    pool = getattr(torch.nn.functional, f"max_pool{n}d")
    torch.manual_seed(0)
    x = torch.randn(2, 3, *(6,) * n, requires_grad=True)
    (expected,) = torch.autograd.grad(pool(x, 2).relu().square().sum(), x)
    (got,) = torch.autograd.grad(pool(x, 2).relu_().square().sum(), x)
    assert torch.equal(got, expected)


def test_fold_of_tiles_is_the_inverse_of_unfold():
    x = torch.arange(2 * 3 * 8 * 12.0).view(2, 3, 8, 12)
    columns = F.unfold(x, (2, 3), stride=(2, 3))
    assert torch.equal(F.fold(columns, (8, 12), (2, 3), stride=(2, 3)), x)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.max_pool1d(x.requires_grad_(), 2),
        lambda x: F.max_pool1d(x, 2, return_indices=True)[1],
        lambda x: F.adaptive_avg_pool1d(x, 2),
        lambda x: F.adaptive_max_pool1d(x, 2),
        lambda x: F.lp_pool1d(x, 2, 2),
    ],
)
def test_lines_whose_channels_lie_innermost_give_such_lines(pool):
    x = torch.arange(24.0).reshape(2, 4, 3).transpose(1, 2)
    y = pool(x)
    assert y.shape == (2, 3, 2) and y.stride() == (6, 1, 3)
    assert y.tolist() == pool(x.detach().contiguous()).tolist()
    assert y.transpose(1, 2).view(2, 6).shape == (2, 6)
    assert pool(x.detach().contiguous()).is_contiguous()
    assert pool(x.detach()[0]).is_contiguous()


def test_max_pool1d_without_a_gradient_gives_contiguous_lines():
    x = torch.arange(24.0).reshape(2, 4, 3).transpose(1, 2)
    assert F.max_pool1d(x, 2).is_contiguous()


def test_bytes_are_resampled_in_fixed_point():
    x = torch.tensor([[[[2, 7, 0, 0, 0, 0, 0, 0]]]], dtype=torch.uint8)
    y = F.interpolate(x, (1, 5), mode="bilinear")
    # 0.7 * 2 + 0.3 * 7 is 3.5, but (22938 * 2 + 9830 * 7 + 2**14) >> 15 is 3.
    assert y.tolist() == [[[[3, 1, 0, 0, 0]]]]
