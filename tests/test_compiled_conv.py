"""Convolutions in machine code against the reference computed in float64."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.convolution import Problem, out_sizes
from rushlight._backends.llvm import candidates, conv
from rushlight._backends.llvm.conv_plans import (
    CHANNELS_LAST,
    FOREIGN,
    ROW_MAJOR,
    STRIDED,
    UNALIGNED,
)
from rushlight._backends.reference import conv as reference
from rushlight._codegen import product_sizes
from rushlight.core.dtype_sets import BF16

# images, channels, channels out, sizes, kernel, stride, padding, dilation, groups
CASES = {
    "hot": (2, 64, 64, (32, 32), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "uneven": (3, 5, 17, (9, 11), (3, 2), (2, 1), (1, 0), (1, 2), 1),
    "many products": (3, 150, 40, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many images": (70, 9, 20, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many places": (3, 9, 36, (40, 37), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "one small image": (1, 150, 120, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one small image, uneven": (1, 170, 140, (9, 12), (3, 2), (2, 3), (1, 0), (1, 2), 1),
    "one small image, dilated": (1, 150, 120, (4, 3), (3, 3), (1, 1), (2, 2), (2, 2), 1),
    "1x1": (2, 70, 35, (7, 9), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 strided": (2, 70, 35, (7, 9), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "stride beyond the kernel": (2, 20, 20, (11, 13), (2, 2), (3, 4), (0, 0), (1, 1), 1),
    "4x4 stride 2": (2, 24, 20, (12, 12), (4, 4), (2, 2), (1, 1), (1, 1), 1),
    "padding beyond the kernel": (2, 20, 20, (6, 5), (3, 3), (1, 1), (4, 3), (1, 1), 1),
    "pages apart": (2, 12, 40, (62, 62), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "groups": (2, 36, 40, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    "large kernel": (1, 3, 24, (30, 30), (11, 11), (4, 4), (2, 2), (1, 1), 1),
    "one dimension": (2, 20, 24, (50,), (5,), (2,), (4,), (2,), 1),
    "three dimensions": (2, 10, 40, (5, 6, 7), (3, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1),
    "whole input": (5, 12, 20, (4, 5), (4, 5), (2, 1), (0, 0), (1, 1), 1),
    "few in": (3, 3, 24, (17, 40), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one in, 7x7": (2, 1, 20, (40, 37), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "few out": (2, 20, 3, (18, 35), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "few out, 4x4 stride 2": (2, 20, 3, (18, 35), (4, 4), (2, 2), (1, 1), (1, 1), 1),
    "one out, 1x1": (2, 30, 1, (9, 20), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "depthwise": (2, 20, 20, (14, 29), (3, 3), (1, 1), (1, 1), (1, 1), 20),
    "depthwise stride 2": (2, 10, 10, (14, 29), (3, 3), (2, 2), (1, 1), (1, 1), 10),
    "depthwise 5x5 dilated": (2, 10, 10, (15, 16), (5, 5), (1, 1), (4, 4), (2, 2), 10),
    "six channels out": (3, 1, 6, (28, 17), (5, 5), (1, 1), (2, 2), (1, 1), 1),
    "groups of eight": (2, 24, 24, (9, 17), (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "large stride": (2, 6, 5, (17, 19), (9, 8), (8, 7), (1, 2), (1, 1), 1),
    "1x1 wide": (3, 80, 20, (5, 7), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "depthwise 7x7": (2, 20, 20, (9, 17), (7, 7), (1, 1), (3, 3), (1, 1), 20),
    "depthwise, stride 2": (2, 20, 20, (9, 18), (3, 3), (2, 2), (1, 1), (1, 1), 20),
    "depthwise, strides": (2, 17, 17, (9, 25), (5, 4), (3, 4), (2, 2), (1, 1), 17),
    "depthwise on a small image": (2, 33, 33, (3, 2), (5, 7), (1, 1), (2, 3), (1, 1), 33),
    "depthwise 11x11": (2, 3, 3, (30, 33), (11, 11), (1, 1), (0, 0), (1, 1), 3),
    "depthwise 7x7, many channels": (2, 90, 90, (40, 9), (7, 7), (1, 1), (3, 3), (1, 1), 90),
    "depthwise multiplied": (2, 8, 24, (9, 33), (3, 3), (2, 2), (0, 1), (1, 1), 8),
    "depthwise, padding beyond the kernel": (2, 20, 20, (7, 9), (3, 3), (1, 1), (4, 3), (1, 1), 20),
    "depthwise one dimension": (3, 12, 12, (70,), (3,), (1,), (2,), (1,), 12),
    "patches": (3, 4, 24, (12, 17), (4, 4), (4, 4), (0, 0), (1, 1), 1),
    "1x1 of lines": (3, 30, 24, (50,), (1,), (1,), (0,), (1,), 1),
    "thin groups": (2, 32, 24, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 8),
}

SCHEME_FOR = conv.winograd.scheme_for


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Machine code for the smallest convolutions too, and none of test_compiled_winograd.py's."""
    monkeypatch.setattr(conv, "SMALL", 0)
    monkeypatch.setattr(conv.winograd, "scheme_for", lambda _: None)
    candidates.forget()
    yield
    candidates.forget()


@pytest.fixture
def only_compiled(monkeypatch):
    """The reference is not asked."""
    for name in ("convolve", "convolve_transposed", "convolve_weight"):
        monkeypatch.delattr(conv.reference, name)


def random(shape, dtype, last=False, seed=0):
    """Random numbers, with the second dimension innermost in memory where `last`."""
    a = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) if last else a


def arrays(case, dtype, last=False):
    n, c, o, sizes, kernel, stride, padding, dilation, groups = case
    out = out_sizes(sizes, kernel, stride, padding, dilation)
    x, w = random((n, c, *sizes), dtype, last), random((o, c // groups, *kernel), dtype, last, 1)
    return x, w, random((n, o, *out), dtype, last, 2)


def three_ways(case, last=False):
    """For each direction: the function's name, its arguments, how many products a number sums."""
    n, _, _, sizes, kernel, stride, padding, dilation, groups = case

    def ways(x, w, g):
        bias, back = (random(a.shape[1], x.dtype, seed=3) for a in (g, x))
        shapes = (n, x.shape[1], *sizes), w.shape, g.shape
        forward, transposed, weight = (
            Problem(way, *shapes, stride, padding, dilation, groups, x.dtype, last)
            for way in ("forward", "transposed", "weight")
        )
        return [
            ("convolve", (x, w, None, forward), w[0].size),
            ("convolve", (x, w, bias, forward), w[0].size),
            ("convolve_transposed", (g, w, None, transposed), len(w) // groups * prod(kernel)),
            ("convolve_transposed", (g, w, back, transposed), len(w) * prod(kernel)),
            ("convolve_weight", (x, g, weight), n * prod(g.shape[2:])),
        ]

    return ways


def of_reference(name, args, change):
    """The reference's result for arrays that were changed."""
    arrays = [change(a) if isinstance(a, np.ndarray) else a for a in args[:-1]]
    return getattr(reference, name)(*arrays, args[-1])


def close(name, args, products):
    """Within the bound of a sum of products, each rounded once."""
    result = getattr(conv, name)(*args)
    exact = of_reference(name, args, lambda a: a.astype(np.float64))
    size = of_reference(name, args, lambda a: abs(a.astype(np.float64)))
    assert result.dtype == args[0].dtype
    assert result.shape == exact.shape
    assert [s * 8 for s in result.strides] == [s * result.itemsize for s in exact.strides]
    bound = (products + 4) * np.finfo(result.dtype).eps * size
    assert (abs(result - exact) <= bound).all(), abs(result - exact).max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_cases(case, last, dtype):
    case = CASES[case]
    if last and len(case[3]) == 1:
        pytest.skip("channels last begins with two dimensions")
    for way in three_ways(case, last)(*arrays(case, dtype, last)):
        close(*way)


def test_quick_ways_add_the_bias(monkeypatch):
    monkeypatch.setattr(conv.winograd, "scheme_for", SCHEME_FOR)
    case = CASES["hot"]
    for way in three_ways(case)(*arrays(case, np.float32)):
        close(*way)


@st.composite
def cases(draw):
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 9]))
    c, o = groups * draw(st.integers(1, 9)), groups * draw(st.integers(1, 9))
    sizes, kernel, stride, padding, dilation = [], [], [], [], []
    alike = draw(st.booleans())
    for i in range(draw(st.integers(1, 3))):
        kernel.append(draw(st.integers(1, 5)))
        stride.append(stride[0] if alike and i else draw(st.integers(1, 3)))
        dilation.append(dilation[0] if alike and i else draw(st.integers(1, 2)))
        padding.append(draw(st.integers(0, 4)))
        least = max(1, dilation[-1] * (kernel[-1] - 1) + 1 - 2 * padding[-1])
        sizes.append(draw(st.integers(least, least + 20)))
    lists = (sizes, kernel, stride, padding, dilation)
    return (draw(st.integers(1, 3)), c, o, *map(tuple, lists), groups)


@settings(max_examples=40)  # almost every one compiles a kernel
@given(cases(), st.booleans())
def test_any(case, last):
    for way in three_ways(case, last)(*arrays(case, np.float64, last)):
        close(*way)


@settings(max_examples=30)
@given(cases(), st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_transposed_to_other_sizes(case, more):
    _, _, _, sizes, _, stride, padding, dilation, groups = case
    sizes = tuple(n + min(m, s - 1) for n, m, s in zip(sizes, more, stride, strict=False))
    x, w, g = arrays(case, np.float64)
    shapes = (*x.shape[:2], *sizes), w.shape, g.shape
    problem = Problem("transposed", *shapes, stride, padding, dilation, groups, x.dtype, False)
    close("convolve_transposed", (g, w, None, problem), w.size // w.shape[1])


@pytest.mark.parametrize("case", ["hot", "uneven", "few in", "few out", "depthwise stride 2"])
def test_nothing_goes_to_the_reference(case, only_compiled):
    case = CASES[case]
    for name, args, _ in three_ways(case)(*arrays(case, np.float32)):
        getattr(conv, name)(*args)


def place(a, side, last):
    """A copy of `a` that ends or begins at a protected page, its layout kept."""
    if not last or a.flags.c_contiguous:
        return guarded(a, side)
    return np.moveaxis(guarded(np.moveaxis(a, 1, -1), side), -1, 1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("side", ["after", "before"])
@pytest.mark.parametrize("case", CASES)
def test_reads_within_the_arrays(case, side, last):
    case = CASES[case]
    given = [place(a, side, last) for a in arrays(case, np.float32, last and len(case[3]) > 1)]
    for way in three_ways(case, last and len(case[3]) > 1)(*given):
        close(*way)


@pytest.mark.parametrize("side", ["after", "before"])
@pytest.mark.parametrize("case", ["uneven", "groups", "padding beyond the kernel", "one dimension"])
def test_small_sums_read_within_the_arrays(case, side, monkeypatch):
    monkeypatch.setattr(conv, "SMALL", 10**9)
    case = CASES[case]
    for last in (False, len(case[3]) > 1):
        given = [place(a, side, last) for a in arrays(case, np.float32, last)]
        for way in three_ways(case, last)(*given):
            close(*way)


def test_strides_of_any_kind():
    case = CASES["uneven"]
    x, w, g = arrays(case, np.float32)
    for steps in (2, -1):
        wide = [
            np.repeat(a, abs(steps), -1)[..., ::-1][..., ::-1][..., :: abs(steps)]
            for a in (x, w, g)
        ]
        for way in three_ways(case)(*wide):
            close(*way)
    broadcast = [np.broadcast_to(a[:, :1], a.shape) for a in (x, w, g)]
    for way in three_ways(case)(*broadcast):
        close(*way)


@pytest.mark.parametrize(
    "case",
    ["hot", "4x4 stride 2", "few in", "few out", "depthwise", "depthwise, stride 2", "thin groups"],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_not_finite_stays_where_it_is(case, value, last):
    case = CASES[case]
    x, w, g = arrays(case, np.float32, last)
    at = tuple(n // 2 for n in x.shape)
    x[at] = value
    g[tuple(n // 2 for n in g.shape)] = value
    for name, args, _ in three_ways(case, last)(x, w, g):
        with np.errstate(invalid="ignore"):
            result, expected = getattr(conv, name)(*args), getattr(reference, name)(*args)
        assert np.array_equal(np.isfinite(result), np.isfinite(expected)), name
        assert np.array_equal(np.isnan(result), np.isnan(expected)), name


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_same_bits_for_any_number_of_threads(case, last):
    case = CASES[case]
    last = last and len(case[3]) > 1
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            ways = three_ways(case, last)(*arrays(case, np.float32, last))
            results.append([getattr(conv, name)(*args) for name, args, _ in ways])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("n, c, o", list(product((0, 2), (0, 3), (3,))))
def test_empty(n, c, o):
    x, w, g = np.ones((n, c, 5, 5), "f"), np.ones((o, c, 3, 3), "f"), np.ones((n, o, 3, 3), "f")
    case = (n, c, o, (5, 5), (3, 3), (1, 1), (0, 0), (1, 1), 1)
    for name, args, _ in three_ways(case)(x, w, g):
        result, expected = getattr(conv, name)(*args), getattr(reference, name)(*args)
        assert result.shape == expected.shape
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("last", [False, True], ids=["row-major", "channels last"])
@pytest.mark.parametrize(
    "case",
    ["uneven", "1x1", "1x1 strided", "patches", "1x1 of lines", "many images", "4x4 stride 2", "groups",
     "padding beyond the kernel", "three dimensions", "one dimension", "whole input", "pages apart"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32(name, case, last):
    dtype = getattr(torch, name)
    eps = torch.finfo(dtype).eps
    case = CASES[case]
    last = last and len(case[3]) > 1
    given = [a.astype(dtype.np) for a in arrays(case, np.float32, last)]
    for way, args, _ in three_ways(case, last)(*given):
        result = getattr(conv, way)(*args)
        expected = of_reference(way, args, lambda a: a.astype(np.float32))
        assert result.dtype == given[0].dtype
        bound = eps * abs(expected) + 1e-4
        assert (abs(result.astype(np.float32) - expected) <= bound).all()


def test_halves_with_a_bias_that_has_gaps():
    case = CASES["uneven"]
    for name, (a, b, *bias, problem), _ in three_ways(case)(*arrays(case, np.float16)):
        if bias and bias[0] is not None:
            function, gaps = getattr(conv, name), np.repeat(bias[0], 2)[::2]
            expected = function(a, b, bias[0], problem)
            assert np.array_equal(function(a, b, gaps, problem), expected)


@pytest.mark.parametrize("size", [0, 10**9], ids=["large", "small"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.complex64])
@pytest.mark.parametrize(
    "case",
    ["uneven", "1x1", "groups", "few out", "depthwise", "depthwise multiplied", "whole input"],
)
def test_whole_and_complex_numbers_are_exact(case, dtype, size, monkeypatch):
    monkeypatch.setattr(conv, "SMALL", size)
    case = CASES[case]
    for last in (False, True):
        x, w, g = (np.round(3 * a.real).astype(dtype) for a in arrays(case, np.float32, last))
        for name, args, _ in three_ways(case, last)(x, w, g):
            result, expected = getattr(conv, name)(*args), getattr(reference, name)(*args)
            assert result.dtype == expected.dtype
            assert result.strides == expected.strides
            assert np.array_equal(result, expected)


@settings(max_examples=60)
@given(cases(), st.booleans(), st.sampled_from(["float32", "float64", "bfloat16"]))
def test_few_multiplications(case, last, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv, "SMALL", 10**9)
        candidates.forget()
        given = arrays(case, getattr(torch, dtype).np, last)
        for way, args, products in three_ways(case, last)(*given):
            problem, (a, b, bias) = args[-1], (*args[:2], None)
            layouts = [conv.layout_of(v, v.shape, v.dtype) for v in (a, b)]
            assert conv.choose(problem, (*layouts, bias))[0] is conv.Small
            if dtype != "bfloat16":
                close(way, args, products)
                continue
            result = getattr(conv, way)(*args)
            expected = of_reference(way, args, lambda a: a.astype(np.float64))
            size = of_reference(way, args, lambda a: abs(a.astype(np.float64)))
            assert result.dtype == given[0].dtype
            bound = 2**-8 * abs(expected) + products * 2**-23 * size
            assert (abs(result.astype(np.float64) - expected) <= bound).all()


def test_what_does_not_fit_is_refused():
    x, w, g = np.ones((1, 3, 5, 5), "f"), np.ones((4, 2, 3, 3), "f"), np.ones((1, 4, 3, 3), "f")
    case = (1, 3, 4, (5, 5), (3, 3), (1, 1), (0, 0), (1, 1), 1)
    (name, args, _), *_ = three_ways(case)(x, w, g)
    with pytest.raises(ValueError):
        getattr(conv, name)(*args)


def test_gradients():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 9, 8, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 3, 3, 2, dtype=torch.float64, requires_grad=True)

    def f(x, w):
        return torch.nn.functional.conv2d(x, w, stride=(2, 1), padding=1, groups=2)

    assert torch.autograd.gradcheck(f, (x, w))
    assert torch.autograd.gradgradcheck(f, (x, w))


# What is chosen for (images, channels, channels out, sizes, kernel, stride, padding, dilation, groups), in float32:
# forward, for the input's gradient, for the weight's; first of row-major arrays, then channels last. A name stands
# for all three.
CHOICES = {
    "resnet 3x3": ((8, 64, 64, (32, 32), (3, 3), (1, 1), (1, 1), (1, 1), 1), "winograd", "winograd"),
    "resnet 1x1": (
        (8, 64, 256, (14, 14), (1, 1), (1, 1), (0, 0), (1, 1), 1),
        ("pointwise_1x1", "pointwise_1x1", "implicit_gemm"), "pointwise_1x1",
    ),
    "wide 1x1": (
        (8, 256, 64, (14, 14), (1, 1), (1, 1), (0, 0), (1, 1), 1),
        ("pointwise_1x1", "pointwise_1x1", "implicit_gemm"), "pointwise_1x1",
    ),
    "few positions 1x1": (
        (8, 64, 256, (7, 7), (1, 1), (1, 1), (0, 0), (1, 1), 1), "implicit_gemm", "pointwise_1x1",
    ),
    "patches": ((4, 3, 96, (32, 32), (8, 8), (8, 8), (0, 0), (1, 1), 1), "implicit_gemm", "implicit_gemm"),
    "one small image": (
        (1, 256, 64, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1),
        *[("windows_as_columns", "implicit_gemm", "implicit_gemm")] * 2,
    ),
    "whole input": ((8, 32, 64, (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), 1), "full_window_gemm", "implicit_gemm"),
    "depthwise": (
        (4, 96, 96, (14, 14), (7, 7), (1, 1), (3, 3), (1, 1), 96),
        "direct_small_channels", "depthwise_channels_last",
    ),
    "depthwise, wide": (
        (4, 96, 96, (14, 14), (11, 11), (1, 1), (5, 5), (1, 1), 96), "direct_small_channels", "row_major_copies",
    ),
    "thin groups": (
        (4, 64, 64, (32, 32), (3, 3), (1, 1), (1, 1), (1, 1), 16), "direct_small_channels", "row_major_copies",
    ),
    "first layer": (
        (8, 1, 6, (32, 32), (5, 5), (1, 1), (2, 2), (1, 1), 1),
        "direct_small_channels", ("implicit_gemm", "row_major_copies", "implicit_gemm"),
    ),
    "three dimensions": (
        (1, 16, 32, (6, 12, 12), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1), "implicit_gemm", "implicit_gemm",
    ),
    "few": ((1, 4, 4, (16, 16), (3, 3), (1, 1), (1, 1), (1, 1), 1), "direct_small_channels", "row_major_copies"),
    "small": ((1, 2, 2, (5, 5), (3, 3), (1, 1), (1, 1), (1, 1), 1), "small_sums", "small_sums"),
}  # fmt: skip


def chosen(case, dtype="f4", layout=ROW_MAJOR, bias=None):
    """The names of the candidates for a case in its three directions."""
    n, c, o, sizes, *geometry, groups = case
    out = out_sizes(sizes, *geometry)
    shapes = (n, c, *sizes), (o, c // groups, *geometry[0]), (n, o, *out)
    fields = (*shapes, *geometry[1:], groups, np.dtype(dtype), layout == CHANNELS_LAST)
    return tuple(
        conv.choose(Problem(way, *fields), (layout, layout, bias))[0].name
        for way in ("forward", "transposed", "weight")
    )


@pytest.fixture
def of_default_sizes(monkeypatch):
    """Sizes from which machine code pays, whatever the environment says."""
    monkeypatch.setattr(conv, "SMALL", 2_000)
    monkeypatch.setattr(conv.winograd, "LOSS", 100)
    monkeypatch.setattr(conv.winograd, "scheme_for", SCHEME_FOR)
    SCHEME_FOR.cache_clear()
    yield
    SCHEME_FOR.cache_clear()


@pytest.mark.parametrize("case", CHOICES)
def test_what_is_chosen(case, of_default_sizes):
    case, *wanted = CHOICES[case]
    for layout, names in zip((ROW_MAJOR, CHANNELS_LAST), wanted, strict=True):
        assert chosen(case, layout=layout) == ((names,) * 3 if isinstance(names, str) else names)


def test_what_is_chosen_for_dtypes_and_layouts(of_default_sizes):
    case = CHOICES["resnet 3x3"][0]
    assert chosen(case, "f8") == ("implicit_gemm",) * 3
    assert chosen(case, "f2") == ("in_float32",) * 3
    assert chosen(case, "i8") == ("implicit_gemm",) * 3
    assert chosen(case, "c8") == ("reference",) * 3
    assert chosen(case, layout=STRIDED) == ("winograd",) * 3
    assert chosen(case, layout=UNALIGNED) == ("reference",) * 3
    assert chosen(case, layout=FOREIGN) == ("reference",) * 3
    assert chosen(case, bias=UNALIGNED) == ("reference",) * 3
    case = CHOICES["wide 1x1"][0]
    assert chosen(case, bias=ROW_MAJOR)[1] == "pointwise_1x1"
    assert chosen(case, "i8")[:2] == ("implicit_gemm", "pointwise_1x1")
    assert chosen(CHOICES["one small image"][0], bias=ROW_MAJOR)[0] == "windows_as_columns"
    last = CHOICES["depthwise"][0]
    assert chosen(last, layout=STRIDED) == ("row_major_copies",) * 3


@pytest.mark.skipif(
    not product_sizes.pairs(), reason="the processor multiplies no pairs of bfloat16"
)
def test_pairs_of_bfloat16(of_default_sizes):
    pairs, single = "implicit_gemm_of_bfloat16_pairs", "in_float32"
    assert chosen(CHOICES["resnet 3x3"][0], BF16) == (single,) * 3  # Winograd's
    assert chosen(CASES["1x1 strided"], BF16) == (pairs,) * 3
    assert chosen(CASES["three dimensions"], BF16, layout=CHANNELS_LAST) == (pairs,) * 3
    assert chosen(CASES["1x1"], BF16) == ("pointwise_bfloat16",) * 3
    assert chosen(CASES["1x1"], BF16, bias=ROW_MAJOR)[:2] == (pairs, pairs)
    one = (1, 16, 16, (9, 9, 9), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1)
    assert chosen(one, BF16) == (pairs, pairs, single)  # one image is no pair
    assert chosen(CASES["depthwise"], BF16) == (single,) * 3
    line = (4, 32, 32, (900,), (3,), (1,), (1,), (1,), 1)
    assert chosen(line, BF16, layout=STRIDED)[0] == pairs


@pytest.mark.skipif(
    not product_sizes.tiles(), reason="the processor multiplies no bfloat16 in tiles"
)
def test_tiles_of_bfloat16(of_default_sizes):
    tiles = "implicit_gemm_of_bfloat16_tiles"
    for case in ("1x1 strided", "three dimensions", "uneven", "4x4 stride 2"):
        for layout in (ROW_MAJOR, CHANNELS_LAST, STRIDED):
            assert chosen(CASES[case], BF16, layout=layout) == (tiles,) * 3
    assert chosen(CHOICES["resnet 3x3"][0], BF16) == (tiles,) * 3
    assert chosen(CASES["1x1"], BF16) == ("pointwise_bfloat16",) * 3
    assert chosen(CASES["depthwise"], BF16) == ("in_float32",) * 3
    odd = (2, 5, 6, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 2)  # channels of a group make no pairs
    assert tiles not in chosen(odd, BF16)[::2]


def test_all_candidates_stand_in_the_table():
    names = [c.name for c in conv.TABLE]
    own = [c for c in conv.Candidate.__subclasses__() if c.__module__ == conv.__name__]
    assert len(set(names)) == len(names) == len(own)
    assert names[-1] == "implicit_gemm"  # takes what is left


def test_explain_names_the_choice(capsys, of_default_sizes):
    x, w = torch.randn(2, 64, 16, 16), torch.randn(64, 64, 3, 3, requires_grad=True)
    call = lambda: torch.nn.functional.conv2d(x, w, padding=1).sum().backward()  # noqa: E731
    torch.compiler.explain(call, show="")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("convol")]
    assert [line.partition(" of ")[0] for line in lines] == [
        "convolution (forward)",
        "convolution (weight)",
    ]
    assert all(line.endswith("float32: winograd") for line in lines)
