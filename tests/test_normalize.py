"""Normalisation against direct formulas; derivatives against differences; running statistics."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F

RNG = np.random.default_rng(5)


def tensor(*shape, grad=True):
    return torch.tensor(RNG.normal(size=shape), requires_grad=grad)


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape, last", [((4, 7), 1), ((2, 3, 5), 2), ((40, 3000), 1), ((3,), 1)])
def test_layer_norm(shape, last):
    x, w, b = tensor(*shape), tensor(*shape[-last:]), tensor(*shape[-last:])
    want = normal(x.detach().numpy(), tuple(range(-last, 0)))
    y = F.layer_norm(x, shape[-last:])
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-10, atol=1e-10)
    y = F.layer_norm(x, shape[-last:], w, b)
    want = want * w.detach().numpy() + b.detach().numpy()
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-10, atol=1e-10)
    assert y.grad_fn.name() == "NativeLayerNormBackward0"


@pytest.mark.parametrize("weights", ["both", "weight", "bias", "none"])
def test_derivatives_of_layer_and_group_norm(weights):
    x = tensor(2, 4, 3)
    w = tensor(4, 3) if weights in ("both", "weight") else None
    b = tensor(4, 3) if weights in ("both", "bias") else None
    run = lambda *a: F.layer_norm(*a[:1], (4, 3), *a[1:])  # noqa: E731
    assert gradcheck(run, (x, w, b))
    assert gradgradcheck(run, (x, w, b))
    w = tensor(4) if weights in ("both", "weight") else None
    b = tensor(4) if weights in ("both", "bias") else None
    run = lambda *a: F.group_norm(*a[:1], 2, *a[1:])  # noqa: E731
    assert gradcheck(run, (x, w, b))
    assert gradgradcheck(run, (x, w, b))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4), (2, 3, 2, 2), (2, 3, 40, 500)])
def test_batch_norm(shape, training):
    x, w, b = tensor(*shape), tensor(3), tensor(3)
    mean, var = tensor(3, grad=False), tensor(3, grad=False).abs() + 0.5
    view = (1, 3, *[1] * (len(shape) - 2))
    axes = (0, *range(2, len(shape)))
    a = x.detach().numpy()
    if training:
        want = normal(a, axes)
    else:
        want = (a - mean.view(view).numpy()) / np.sqrt(var.view(view).numpy() + 1e-5)
    want = want * w.detach().view(view).numpy() + b.detach().view(view).numpy()
    old = mean.clone().numpy(), var.clone().numpy()
    y = F.batch_norm(x, mean, var, w, b, training, 0.25)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-9, atol=1e-9)
    if training:
        np.testing.assert_allclose(mean.numpy(), 0.75 * old[0] + 0.25 * a.mean(axes))
        np.testing.assert_allclose(var.numpy(), 0.75 * old[1] + 0.25 * a.var(axes, ddof=1))
    else:
        np.testing.assert_array_equal(mean.numpy(), old[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4)])
def test_derivatives_of_batch_norm(shape, training):
    mean, var = tensor(3, grad=False), tensor(3, grad=False).abs() + 0.5
    inputs = (tensor(*shape), tensor(3), tensor(3))

    def run(x, w, b):
        return F.batch_norm(x, mean.clone(), var.clone(), w, b, training)

    assert gradcheck(run, inputs)
    assert gradgradcheck(run, inputs)


def test_channels_last_stays():
    x = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    for y, want in (
        (F.batch_norm(x, None, None, training=True), (0, 2, 3)),
        (F.group_norm(x, 4), (2, 3)),
    ):
        assert y.is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_allclose(y.numpy(), normal(x.numpy(), want), rtol=1e-4, atol=1e-5)


def test_running_statistics_count_as_a_write():
    mean, var = torch.zeros(3), torch.ones(3)
    before = mean._version
    F.batch_norm(torch.randn(4, 3), mean, var, training=True)
    assert mean._version > before
    F.batch_norm(torch.randn(4, 3), mean, var)
    assert torch.isfinite(mean).all()


def test_refusals_change_nothing():
    mean, var = torch.zeros(3), torch.ones(3)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(torch.ones(1, 3), mean, var, training=True)
    with pytest.raises(RuntimeError, match="should contain 3 elements not 4"):
        F.batch_norm(torch.ones(2, 3), mean, var, torch.ones(4), training=True)
    assert mean._version == 0 and (mean == 0).all()
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(torch.ones(2, 3, 4), 2)
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        F.layer_norm(torch.ones(2, 3), (2,))
    with pytest.raises(RuntimeError, match="share same datatype"):
        F.layer_norm(torch.ones(2, 3, dtype=torch.float64), (3,), torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(dtype):
    x = (torch.randn(8, 300) * 30 + 1000).to(dtype)  # squares overflow float16
    y = F.layer_norm(x, (300,))
    assert y.dtype is dtype
    np.testing.assert_allclose(
        y.float().numpy(), normal(x.double().numpy(), 1), rtol=2e-2, atol=2e-2
    )


def test_instance_rms_local_response_and_division_by_a_norm():
    x = tensor(2, 4, 3, 5)
    a = x.detach().numpy()
    np.testing.assert_allclose(F.instance_norm(x).detach().numpy(), normal(a, (2, 3)))
    want = a / np.sqrt((a * a).mean((2, 3), keepdims=True) + 1e-3)
    np.testing.assert_allclose(F.rms_norm(x, (3, 5), eps=1e-3).detach().numpy(), want)
    squares = np.pad(a * a, ((0, 0), (1, 1), (0, 0), (0, 0)))
    mean = sum(squares[:, k : k + 4] for k in range(3)) / 3
    want = a / (2 + 0.5 * mean) ** 0.75
    np.testing.assert_allclose(F.local_response_norm(x, 3, 0.5, 0.75, 2.0).detach().numpy(), want)
    want = a / np.sqrt((a * a).sum(1, keepdims=True))
    np.testing.assert_allclose(F.normalize(x).detach().numpy(), want)
    for run in (
        F.instance_norm,
        lambda x: F.rms_norm(x, (3, 5)),
        lambda x: F.local_response_norm(x, 3),
        F.normalize,
    ):
        assert gradcheck(run, (x,))
    assert gradgradcheck(F.instance_norm, (tensor(2, 2, 3),))


def test_empty_inputs():
    assert F.layer_norm(torch.ones(0, 3), (3,)).shape == (0, 3)
    assert F.batch_norm(torch.ones(0, 3, 2), None, None, training=True).shape == (0, 3, 2)
    assert F.group_norm(torch.ones(0, 4, 2), 2).shape == (0, 4, 2)
    x = torch.ones(0, 4, 2, requires_grad=True)
    F.group_norm(x, 2).sum().backward()
    assert x.grad.shape == x.shape
    x, w = torch.ones(3, 0, requires_grad=True), torch.ones(0, requires_grad=True)
    F.layer_norm(x, (0,), w, w).sum().backward()
    assert x.grad.shape == x.shape and w.grad.shape == w.shape


def test_a_group_of_millions_of_elements_is_summed_accurately():
    torch.manual_seed(0)
    x = torch.rand(1, 2, 2_000_000)
    wide = x.double()
    exact = (wide - wide.mean()) / (wide.var(unbiased=False) + 1e-5).sqrt()
    assert (F.group_norm(x, 1) - exact).abs().max() < 6e-7


@pytest.mark.parametrize(
    ("layer", "shape", "keeps"),
    [
        (torch.nn.RMSNorm(4), (2, 3, 4, 4), True),
        (torch.nn.InstanceNorm2d(3), (2, 3, 4, 4), False),
        (torch.nn.AvgPool2d(2), (2, 3, 4, 4), True),
        (torch.nn.AvgPool3d(2), (2, 3, 4, 4, 4), False),
        (torch.nn.AdaptiveAvgPool3d(2), (2, 3, 4, 4, 4), False),
        (torch.nn.AdaptiveAvgPool3d(3), (2, 3, 4, 4, 4), False),
        (torch.nn.ConstantPad3d(1, 3.0), (1, 2, 1, 2, 1), True),
    ],
    ids=str,
)
def test_the_layers_that_keep_channels_last(layer, shape, keeps):
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    x = torch.rand(shape)
    y = layer(x.to(memory_format=last))
    assert y.is_contiguous(memory_format=last if keeps else torch.contiguous_format)
    torch.testing.assert_close(y, layer(x))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_images_with_channels_last_and_one_column(training):
    """The channels stay last; the gradient is in the format that the input suggests, which is another
    where the stride of the one column says nothing of channels."""
    layer = torch.nn.BatchNorm2d(2).train(training)
    for x, of_gradient in (
        (torch.arange(6.0).reshape(1, 3, 2, 1).permute(0, 2, 1, 3), (6, 3, 1, 1)),
        (torch.arange(6.0).reshape(1, 2, 3, 1).to(memory_format=torch.channels_last), (6, 1, 2, 2)),
    ):
        x.requires_grad_()
        y = layer(x)
        assert y.stride() == (6, 1, 2, 2)
        assert torch.autograd.grad(y.sum(), x)[0].stride() == of_gradient
