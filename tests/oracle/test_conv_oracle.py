"""Convolution, pooling, padding and resampling against PyTorch, on random settings.

Compared: shapes, strides (where the rank has PyTorch's rule), values, first and second derivatives, and
the type of the exception where PyTorch raises one.
"""

import random
import warnings

import numpy as np
import pytest
import torch as oracle

import rushlight as torch

LAST = {4: oracle.channels_last, 5: oracle.channels_last_3d}


def ours(t, *, grad=False):
    a = torch.tensor(t.detach().contiguous().numpy())
    if t.dim() in LAST and not t.is_contiguous():
        a = a.contiguous(
            memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d
        )
    return a.requires_grad_() if grad else a


def close(mine, theirs, what):
    np.testing.assert_allclose(
        mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=what
    )


def compare(name, *arguments, strides=True, derivatives=True, **options):
    what = f"{name} {[tuple(a.shape) if oracle.is_tensor(a) else a for a in arguments]} {options}"
    theirs = [
        a.detach().clone().requires_grad_(a.is_floating_point()) if oracle.is_tensor(a) else a
        for a in arguments
    ]
    mine = [ours(a, grad=a.is_floating_point()) if oracle.is_tensor(a) else a for a in theirs]
    try:
        want = getattr(oracle.nn.functional, name)(*theirs, **options)
    except Exception as e:
        with pytest.raises(type(e)):
            getattr(torch.nn.functional, name)(*mine, **options)
        return
    got = getattr(torch.nn.functional, name)(*mine, **options)
    pairs = list(zip(got, want, strict=True)) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        assert tuple(a.shape) == tuple(b.shape), what
        if strides:
            assert tuple(a.stride()) == b.stride(), what
        close(a, b, what)
    a, b = pairs[0]
    if not (derivatives and b.requires_grad and b.numel()):
        return
    g = oracle.randn_like(b, requires_grad=True)
    h = ours(g, grad=True)
    inputs = [t for t in theirs if oracle.is_tensor(t) and t.requires_grad]
    own = [t for t in mine if isinstance(t, torch.Tensor) and t.requires_grad]
    first = oracle.autograd.grad(b, inputs, g, create_graph=True)
    ours_first = torch.autograd.grad(a, own, h, create_graph=True)
    for x, y in zip(ours_first, first, strict=True):
        close(x, y, what)
    live = [
        (x, y, oracle.randn_like(y))
        for x, y in zip(ours_first, first, strict=True)
        if y.requires_grad
    ]
    if not live:
        return
    second = oracle.autograd.grad(
        [y for _, y, _ in live], [*inputs, g], [k for *_, k in live], allow_unused=True
    )
    ours_second = torch.autograd.grad(
        [x for x, *_ in live], [*own, h], [ours(k) for *_, k in live], allow_unused=True
    )
    for x, y in zip(ours_second, second, strict=True):
        if y is not None and x is not None:
            close(x, y, what)
        else:
            assert (y is None or not y.any()) and (x is None or not x.numpy().any()), what


class Draw:
    """Random settings."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        oracle.manual_seed(seed)

    def one(self, *values):
        return self.rng.choice(values)

    def some(self, nd, *values):
        return tuple(self.one(*values) for _ in range(nd))

    def image(self, nd, channels, *sizes, batched=None):
        lead = [] if batched is None and self.rng.random() < 0.2 else [self.one(1, 3)]
        x = oracle.randn(*lead, channels, *self.some(nd, *sizes), dtype=oracle.double)
        if x.dim() == 4 and self.rng.random() < 0.3:
            x = x.contiguous(memory_format=oracle.channels_last)
        return x


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_convolutions(seed):
    draw = Draw(seed)
    nd, groups, each = draw.one(1, 2, 3), draw.one(1, 1, 2, 3), draw.one(1, 2)
    x = draw.image(nd, groups * each, 4, 5, 7)
    out = groups * draw.one(1, 2)
    w = oracle.randn(out, each, *draw.some(nd, 1, 2, 3), dtype=oracle.double)
    b = draw.one(None, oracle.randn(out, dtype=oracle.double))
    stride = draw.one(1, 2, draw.some(nd, 1, 2))
    padding = draw.one(0, 1, "same", "valid", draw.some(nd, 0, 1, 2))
    compare(f"conv{nd}d", x, w, b, stride, padding, draw.one(1, 2), groups)
    w = oracle.randn(groups * each, draw.one(1, 2), *draw.some(nd, 1, 2, 3), dtype=oracle.double)
    compare(
        f"conv_transpose{nd}d",
        x,
        w,
        None,
        stride,
        draw.one(0, 1),
        draw.one(0, 1),
        groups,
        draw.one(1, 2),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_pooling(seed):
    draw = Draw(seed)
    nd = draw.one(1, 2, 3)
    x = draw.image(nd, draw.one(1, 2, 4), 4, 5, 7)
    if draw.one(0, 0, 1):
        x = (2 * x).round()  # equal elements: the first one counts
    kernel = draw.one(2, 3, draw.some(nd, 1, 2, 3))
    stride, padding, ceil_mode = draw.one(None, 1, 2, 3), draw.one(0, 0, 1), draw.one(False, True)
    compare(
        f"max_pool{nd}d", x, kernel, stride, padding, draw.one(1, 1, 2), ceil_mode,
        return_indices=draw.one(False, True),
    )  # fmt: skip
    compare(f"avg_pool{nd}d", x, kernel, stride, padding, ceil_mode, draw.one(True, False))
    out = draw.one(1, 3, draw.some(nd, 1, 2, 5, 9))
    compare(f"adaptive_avg_pool{nd}d", x, out)
    compare(f"adaptive_max_pool{nd}d", x, out, return_indices=draw.one(False, True))
    compare(f"lp_pool{nd}d", x.abs() + 0.1, 2.0, 2)
    if nd > 1 and x.dim() == nd + 2:
        u = oracle.rand(x.shape[0], x.shape[1], nd, dtype=oracle.double)
        name = f"fractional_max_pool{nd}d"
        want = getattr(oracle.nn.functional, name)(x, 2, 2, _random_samples=u, return_indices=True)
        got = getattr(torch.nn.functional, name)(
            ours(x), 2, 2, _random_samples=ours(u), return_indices=True
        )
        for a, b in zip(got, want, strict=True):
            close(a, b, name)


@pytest.mark.parametrize("seed", SEEDS)
def test_padding_and_folding(seed):
    draw = Draw(seed)
    nd = draw.one(1, 2, 3)
    x = draw.image(nd, 2, 4, 5, 7)
    pad = draw.some(2 * nd, 0, 1, 2, 3, -1)
    for mode in ("reflect", "replicate", "circular", "constant"):
        compare("pad", x, pad, mode)
    if nd == 2:
        how = (draw.one(2, (3, 1)), draw.one(1, 2), draw.one(0, 1), draw.one(1, (2, 1)))
        compare("unfold", x, *how)
        try:
            columns = oracle.nn.functional.unfold(x, *how)
        except RuntimeError:
            return
        compare("fold", columns, tuple(x.shape[-2:]), *how)


@pytest.mark.parametrize("seed", SEEDS)
def test_resampling(seed):
    draw = Draw(seed)
    nd = draw.one(1, 2, 3)
    x = draw.image(nd, 2, 4, 5, 7, batched=True)
    smooth = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[nd]
    mode = draw.one("nearest", "nearest-exact", "area", *smooth, *smooth)
    options = {"mode": mode}
    if mode in smooth:
        options["align_corners"] = draw.one(None, True, False)
        # PyTorch's antialiased result of width 1 repeats the first row: not compared
        options["antialias"] = nd == 2 and draw.one(True, False)
    if draw.one(True, False):
        options["size"] = draw.some(nd, 2, 3, 8)
    else:
        options["scale_factor"] = draw.one(2, 0.5, draw.some(nd, 0.7, 1.5, 3.3))
        options["recompute_scale_factor"] = draw.one(None, True)
    compare("interpolate", x, **options)
    if nd > 1:
        grid = oracle.randn(x.shape[0], *draw.some(nd, 1, 2, 3), nd, dtype=oracle.double)
        modes = ["bilinear", "nearest", "bicubic"][: 3 if nd == 2 else 2]
        compare(
            "grid_sample", x, grid, draw.one(*modes), draw.one("zeros", "border", "reflection"),
            draw.one(True, False), strides=False,
        )  # fmt: skip
        theta = oracle.randn(x.shape[0], nd, nd + 1, dtype=oracle.double)
        compare("affine_grid", theta, tuple(x.shape), draw.one(True, False))
    pixels = oracle.randn(2, draw.one(4, 8, 9), draw.one(2, 4), draw.one(4, 6), dtype=oracle.double)
    for name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
        compare(name, pixels, draw.one(1, 2, 3))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_elements(mode):
    """Of all sizes: in the middle between two elements it is rounding that decides."""
    for dtype in (np.float32, np.float64):
        for n in range(1, 12):
            x = np.arange(n, dtype=dtype)[None, None]
            for m in range(1, 70):
                ours, theirs = (
                    lib.nn.functional.interpolate(lib.from_numpy(x), m, mode=mode).numpy()
                    for lib in (torch, oracle)
                )
                assert np.array_equal(ours, theirs), (dtype, n, m)


def test_wrong_calls_raise_the_same_types():
    x = oracle.randn(1, 3, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, *arguments in [
            ("conv2d", x, oracle.randn(6, 1, 5, 5)),
            ("conv2d", x, oracle.randn(6, 3, 3)),
            ("conv2d", x.bool(), oracle.ones(6, 3, 3, 3).bool()),
            ("conv_transpose2d", x, oracle.randn(3, 6, 3, 3), None, 1, 20),
            ("max_pool2d", x.bool(), 2),
            ("max_pool2d", x, (1, 2, 3)),
            ("avg_pool2d", x[0, 0], 2),
            ("adaptive_avg_pool2d", x, (1, 2, 3)),
            ("fractional_max_pool2d", x, 2),
            ("pad", x, (1, 1), "nowhere"),
            ("pad", x, (1, 2, 3)),
            ("fold", x[0], 8, 2),
            ("grid_sample", x, oracle.zeros(2, 2, 2, 2)),
            ("affine_grid", oracle.randn(1, 3, 3), (1, 3, 4, 5)),
        ]:
            compare(name, *arguments)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_where_fractional_windows_begin_is_rounded_to_the_dtype(dtype):
    rng = np.random.default_rng(0)
    for nd, shape, kernel, out in (
        (2, (2, 3, 8, 9), 2, (4, 5)),
        (2, (3, 8, 19), (2, 3), (3, 11)),
        (3, (1, 2, 6, 7, 8), 2, (3, 3, 4)),
    ):
        numbers = rng.standard_normal(shape)
        samples = rng.random((1 if len(shape) == nd + 1 else shape[0], shape[-nd - 1], nd))
        for last in (False, True):
            found = []
            for m in (torch, oracle):
                x, u = (m.tensor(a.tolist(), dtype=getattr(m, dtype)) for a in (numbers, samples))
                if last and x.dim() == 4:
                    x = x.contiguous(memory_format=m.channels_last)
                pool = getattr(m.nn.functional, f"fractional_max_pool{nd}d")
                for _ in range(3):  # the third call has a plan
                    r = pool(x, kernel, out, return_indices=True, _random_samples=u)
                found.append([(t.stride(), t.tolist()) for t in r])
            assert found[0] == found[1], (shape, last)
