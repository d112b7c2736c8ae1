"""What `autograd.grad` gives lies in memory as PyTorch's does, for leaves of several layouts and two gradients of results."""

import numpy as np
import pytest
import torch as oracle

import rushlight as torch

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGES = (2, 3, 6, 6)


def at(names, *shapes, **options):
    """(names of functions, their arguments): called with tensors of `shapes` and `options`."""
    return [
        (name, lambda m, *a, name=name: found(m, name)(*a, **options), shapes)
        for name in names.split()
    ]


def found(m, name):
    for part in name.split("."):
        m = getattr(m, part)
    return m


F = "nn.functional."
CASES = [
    *at("matmul", (4,), (2, 4, 5)),
    *at("matmul", (3, 4), (4, 5)),
    *at("matmul", (3, 4), (2, 4, 5)),
    *at("matmul", (2, 3, 4), (2, 4, 5)),
    *at("matmul", (2, 3, 4), (4, 5)),
    *at(F + "linear", (4,), (5, 4), (5,)),
    *at(F + "linear", (2, 3, 4), (5, 4), (5,)),
    *at("block_diag", (2, 3), (3,)),
    *at("view_as_complex", (5, 2)),
    *at("fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft", (4, 5), n=7, dim=0),
    *at("fft.fft fft.irfft fft.hfft", (4, 5), n=3, dim=0),
    *at("fft.fftn fft.irfftn fft.rfft2 fft.hfft2", (4, 5, 6), s=(7, 8), dim=(0, 1)),
    *at("fft.ifft2 fft.irfft2 fft.ihfft2", (4, 5, 6), s=(3, 3)),
    *at("fft.fftn fft.irfft fft.hfft", (4, 5)),
    *at(F + "conv2d", IMAGES, (4, 3, 3, 3), (4,)),
    *at(F + "conv_transpose2d", IMAGES, (3, 4, 3, 3), stride=2, dilation=3, output_padding=2),
    *at(F + "max_pool2d", IMAGES, kernel_size=3, stride=1),
    *at(F + "adaptive_max_pool2d", IMAGES, output_size=2),
    *at(F + "batch_norm", IMAGES, running_mean=None, running_var=None, training=True),
    *at(F + "interpolate", IMAGES, scale_factor=2),
    *at("softmax cumsum amax logsumexp var", IMAGES, dim=1),
    *at("mul add", IMAGES, (3, 1, 6)),
    *at("linalg.inv linalg.det linalg.eigvalsh", (3, 3)),
    *at("linalg.solve", (3, 3), (3, 2)),
]
# Leaves whose columns lie dense: PyTorch gives them gradients that lie so, we row-major ones.
BY_COLUMNS = {"matmul", F + "linear"}


def leaf(m, shape, layout):
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape)
    if layout == "transposed" and len(shape) > 1:
        t = m.tensor(np.ascontiguousarray(numbers.swapaxes(-1, -2))).transpose(-1, -2)
    else:
        t = m.tensor(numbers)
    if layout == "channels last" and len(shape) == 4:
        t = t.contiguous(memory_format=m.channels_last)
    return t.detach().requires_grad_()


def gradients(m, function, shapes, layout, expanded):
    """(strides, values) of each gradient, but strides of dimensions of size 1."""
    leaves = [leaf(m, s, layout) for s in shapes]
    r = function(m, *leaves)
    one = m.ones((), dtype=r.dtype)
    g = one.expand(r.shape) if expanded else m.ones(tuple(r.shape), dtype=r.dtype)
    for t in m.autograd.grad(r, leaves, g):
        steps = [s if n > 1 else 0 for s, n in zip(t.stride(), t.shape, strict=True)]
        yield steps, t.resolve_conj().numpy()


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last"])
def test_gradients_lie_as_pytorchs(layout):
    for name, function, shapes in CASES:
        if layout == "transposed" and (
            name in BY_COLUMNS or len(shapes[0]) == 2 and "view" in name
        ):
            continue
        if layout == "channels last" and not any(len(s) == 4 for s in shapes):
            continue
        for expanded in (False, True)[: 1 if layout == "transposed" else 2]:
            case = function, shapes, layout, expanded
            for a, b in zip(gradients(torch, *case), gradients(oracle, *case), strict=True):
                assert a[0] == b[0], f"{name} {shapes} expanded={expanded}"
                np.testing.assert_allclose(a[1], b[1], 1e-6, 1e-8, err_msg=name)
