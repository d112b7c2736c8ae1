"""Elementwise kernels in machine code: against the reference on every layout, and IEEE's special values."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from guard import guarded
from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight._backends.llvm import activation as compiled_activation
from rushlight._backends.llvm import elementwise as compiled_elementwise
from rushlight._backends.llvm import loss as compiled_loss
from rushlight._backends.llvm import registration
from rushlight._backends.reference import activation as numpy_activation
from rushlight._backends.reference import elementwise as numpy_elementwise
from rushlight._backends.reference import loss as numpy_loss
from rushlight._backends.reference import polynomials
from rushlight.core import dtypes

# A kernel that hands its work to NumPy's loop, as one may that is being compiled, warns as NumPy does; the
# operators' calls are quiet.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")

KINDS = [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, 0.5, -3.0, 1e-40, -7.5, 300.0]

# name -> (arrays, numbers)
ACTIVATIONS = {
    "relu": (1, ()), "gelu": (1, ()), "gelu_tanh": (1, ()), "silu": (1, ()),
    "mish": (1, ()), "log_sigmoid": (1, ()), "hardsigmoid": (1, ()), "hardswish": (1, ()),
    "leaky_relu": (1, (0.1,)), "hardtanh": (1, (-0.75, 0.5)), "threshold": (1, (0.25, 3.0)),
    "hardshrink": (1, (0.5,)), "softshrink": (1, (0.5,)), "elu": (1, (1.25, 0.75, 0.5)),
    "scaled_softplus": (1, (0.5, 20.0)), "prelu": (2, ()), "gelu_gradient": (2, ()),
    "gelu_tanh_gradient": (2, ()), "silu_gradient": (2, ()), "mish_gradient": (2, ()),
    "log_sigmoid_gradient": (2, ()), "hardsigmoid_gradient": (2, ()),
    "hardswish_gradient": (2, ()), "leaky_relu_gradient": (2, (0.1,)),
    "hardtanh_gradient": (2, (-0.75, 0.5)), "clip_gradient": (2, (-0.75, 0.5)),
    "shrink_gradient": (2, (0.5,)), "elu_gradient": (2, (1.25, 0.75, 0.5)),
    "scaled_softplus_gradient": (2, (0.5, 20.0)), "prelu_gradient": (3, ()),
    "prelu_weight_gradient": (2, ()),
    "sigmoid_gradient": (2, ()), "tanh_gradient": (2, ()),
}  # fmt: skip
LOSSES = {
    "smooth_l1": (2, (0.5,)), "smooth_l1_gradient": (3, (0.5,)), "huber": (2, (0.5,)),
    "huber_gradient": (3, (0.5,)), "mse_gradient": (3, (2.0,)),
    "bce_with_logits": (2, ()), "bce_with_logits_gradient": (3, ()),
}  # fmt: skip
ARITHMETIC = {
    "sigmoid": (1, ()), "rsqrt": (1, ()), "sign": (1, ()), "frac": (1, ()), "floor": (1, ()),
    "ceil": (1, ()), "trunc": (1, ()), "rint": (1, ()), "copysign": (2, ()), "hypot": (2, ()),
    "logaddexp": (2, ()), "addcmul": (3, (0.5,)), "addcdiv": (3, (0.5,)),
    "add_scaled": (2, (0.5,)), "lerp": (2, (0.25,)), "clip": (1, (-0.5, 0.75)),
    "remainder": (2, ()), "fmod": (2, ()), "power": (2, ()), "threshold_gradient": (2, (0.25,)),
    "nan_to_num": (1, (1.0, 2.0, -2.0)), "logaddexp2": (2, ()), "sinc": (1, ()), "angle": (1, ()),
    "deg2rad": (1, ()), "rad2deg": (1, ()), "heaviside": (2, ()), "trunc_divide": (2, ()), "logit": (1, (0.1,)),
}  # fmt: skip
FAMILIES = [
    (compiled_activation, numpy_activation, ACTIVATIONS),
    (compiled_loss, numpy_loss, LOSSES),
    (compiled_elementwise, numpy_elementwise, ARITHMETIC),
]
CASES = [(a, b, name, *case) for a, b, cases in FAMILIES for name, case in cases.items()]


@pytest.fixture(autouse=True)
def activated():
    llvm.activate()


def numbers(n, dtype, seed=0):
    """Random numbers, and in the front every special value next to every other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n) * 3
    count = min(n, len(SPECIAL) ** 2)
    first = np.repeat(SPECIAL, len(SPECIAL)) if seed % 2 else np.tile(SPECIAL, len(SPECIAL))
    x[:count] = first[:count]
    with np.errstate(all="ignore"):
        return x.astype(dtype.np)


def close(got, want, dtype, context, scale=1):
    """Equal up to a few units in the last place of the larger of the result and 1: what the reference
    adds and subtracts in between is rounded too."""
    assert got.dtype == want.dtype and got.shape == want.shape, context
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        # A half may be rounded the other way, where float32 is a unit off.
        eps = {2: 2.0**-10 if dtype is dtypes.float16 else 2.0**-7, 4: 3e-6, 8: 1e-14}
        least = 1 if dtype.itemsize > 2 else 1e-2
        bound = eps[dtype.itemsize] * np.maximum(np.abs(b), least * scale)
        right = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound)
    assert right.all(), (context, np.flatnonzero(~right.ravel())[:5], a[~right][:5], b[~right][:5])


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[2])
def test_as_the_reference(case, dtype):
    machine, reference, name, arrays, rest = case
    wide = np.float64 if dtype is dtypes.float64 else np.float32
    args = [numbers(3001, dtype, seed) for seed in range(arrays)]
    if name in ("hypot", "logaddexp", "addcdiv"):
        args = [np.where(np.abs(a) < 1e-30, a.dtype.type(0.25), a) for a in args]
    if name == "gelu_tanh_gradient":  # where the reference's slope is 0 and ours is not quite
        args[0][np.isinf(args[0])] = 1
    with np.errstate(all="ignore"):
        want = np.asarray(getattr(reference, name)(*[a.astype(wide) for a in args], *rest))
        want = want.astype(dtype.np)
    kernel = quiet(getattr(machine, name))
    finite = np.abs(args[0].astype("d"))
    scale = np.maximum(np.where(finite < np.inf, finite, 1), 1)  # of gradients: of what comes in
    close(kernel(*args, *rest), want, dtype, name, scale)
    # Every other element, from the end, and a row for all rows.
    spread = [np.stack([a, a], 1)[::-1, 0] for a in args]
    close(kernel(*spread, *rest), want[::-1], dtype, (name, "strided"), scale[::-1])
    if arrays > 1:
        rows = [np.stack([a[:1000]] * 3) for a in args[:-1]]
        got = kernel(*rows, args[-1][:1000], *rest)
        close(got, np.stack([want[:1000]] * 3), dtype, (name, "broadcast"), scale[:1000])


def quiet(kernel):
    """What kernels hand to the reference may warn; the operators' calls are quiet too."""

    def call(*args):
        with np.errstate(all="ignore"):
            return kernel(*args)

    return call


UFUNCS = (
    "add subtract multiply divide maximum minimum fmax fmin square sqrt absolute negative equal "
    "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not"
)


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", UFUNCS.split())
def test_ufuncs_round_as_numpy(name, dtype):
    ours, numpys = getattr(xp, name), getattr(np, name)
    args = [numbers(5000, dtype, seed) for seed in range(numpys.nin)]
    wide = [a.astype(np.float32) if dtype.itemsize == 2 else a for a in args]
    with np.errstate(all="ignore"):
        want = numpys(*wide)
        want = want if want.dtype == bool else want.astype(dtype.np)
    for cut in (slice(None), slice(None, None, 3), slice(None, None, -1)):
        got = ours(*[a[cut] for a in args])
        np.testing.assert_array_equal(got.astype(np.float64), want[cut].astype(np.float64))
        assert got.dtype == want.dtype
    if name not in ("fmax", "fmin", "maximum", "minimum"):  # of -0 and 0 either will do
        real = ours(*args)
        assert (np.signbit(real.astype("d")) == np.signbit(want.astype("d")))[want == want].all()


BY_SINGLE = "sin cos tan sinh cosh arcsin arccos arctan arcsinh arccosh arctan2"


@pytest.mark.parametrize("dtype", KINDS[2:], ids=lambda d: d.name)
@pytest.mark.parametrize("name", BY_SINGLE.split())
def test_halves_by_float32(name, dtype):
    """What NumPy computes in float32, with one rounding; blocks, and a rest, of any strides."""
    ours, numpys = getattr(xp, name), getattr(np, name)
    args = [numbers(5001, dtype, seed) for seed in range(numpys.nin)]
    with np.errstate(all="ignore"):
        want = numpys(*[a.astype(np.float32) for a in args]).astype(dtype.np).astype("d")
    for cut in (slice(None), slice(None, None, 3), slice(None, None, -1)):
        got = ours(*[a[cut] for a in args])
        assert got.dtype == dtype.np
        np.testing.assert_allclose(got.astype("d"), want[cut], rtol=2.0**-7, atol=1e-7)
    out = np.zeros(2 * 5001, dtype.np)[::2]
    ours(*args, out=out)
    np.testing.assert_array_equal(out.astype("d"), ours(*args).astype("d"))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum"])
def test_what_depends_on_order_is_numpys(name):
    """Sums, running sums, and an output that is an input one further."""
    ours, numpys = getattr(xp, name), getattr(np, name)
    x = np.random.default_rng(0).standard_normal(40_000).astype("f") * 0.1 + 1
    assert ours.reduce(x) == numpys.reduce(x)
    np.testing.assert_array_equal(ours.accumulate(x), numpys.accumulate(x))
    a, b = x.copy(), x.copy()
    ours(a[1:], a[:-1], out=a[1:])
    numpys(b[1:], b[:-1], out=b[1:])
    np.testing.assert_array_equal(a, b)


def test_warnings_are_not_made():
    x = np.array([-1.0, 0.0, np.inf] * 1000, np.float32)
    with np.errstate(all="raise"):
        xp.log(x)
        xp.sqrt(x)
        xp.divide(x, np.zeros_like(x))
        xp.exp(np.full(2000, 100, np.float32))
        xp.sin(x)


def test_streamed_results():
    """Results of 32 MiB are written around the caches, in whole lines and a rest."""
    x = np.random.default_rng(0).standard_normal((9 << 20) + 13).astype("f")
    np.testing.assert_array_equal(xp.multiply(x, x), x * x)
    np.testing.assert_array_equal(compiled_elementwise.clip(x, -1, 1), np.clip(x, -1, 1))
    view = np.empty(x.size + 1, "f")[1:]  # not aligned to a line
    np.testing.assert_array_equal(xp.add(x, x, out=view), x + x)


def test_the_same_bits_with_any_number_of_threads():
    x = numbers(200_000, dtypes.float32)
    before = rushlight.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            rushlight.set_num_threads(n)
            found.append([xp.exp(x), xp.add(x, x), compiled_activation.gelu(x)])
    finally:
        rushlight.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()


@given(st.floats(width=32), st.floats(width=32), st.sampled_from(["remainder", "fmod", "power"]))
@settings(max_examples=300, deadline=None)
def test_divisions_and_powers_are_exact(a, b, name):
    """fmod and remainder give the exact result, a power one of the two numbers next to it."""
    x, y = np.full(100, a, "f"), np.full(100, b, "f")
    with np.errstate(all="ignore"):
        if name == "power":
            want = np.power(x.astype("d"), y.astype("d")).astype("f")
        else:
            want = getattr(numpy_elementwise, name)(x, y)
        got = getattr(compiled_elementwise, name)(x, y)
        near = np.abs(got - want) <= np.spacing(np.abs(want)) if name == "power" else got == want
    assert (near | (got == want) | (np.isnan(got) & np.isnan(want))).all(), (a, b, got[0], want[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_powers_of_integers_wrap_around(dtype):
    """Those of negative exponents are 0, save for the bases 1 and -1."""
    bits = 8 * np.dtype(dtype).itemsize
    least = -(1 << (bits - 1))
    bases, exponents = [0, 1, -1, 2, -3, 10, least, ~least], [0, 1, 2, 5, 33, 70, -1, -2, ~least]
    a, b = (x.astype(dtype) for x in np.meshgrid(bases, exponents))
    got = compiled_elementwise.power(np.ascontiguousarray(a), np.ascontiguousarray(b))
    for x, y, z in zip(a.flat, b.flat, got.flat, strict=True):
        x, y = int(x), int(y)
        if y < 0:
            want = {1: 1, -1: 1 - 2 * (y & 1)}.get(x, 0)
        else:
            want = (pow(x, y, 1 << bits) - least) % (1 << bits) + least
        assert z == want, (x, y)


@given(
    st.floats(),
    st.floats(),
    st.sampled_from(["remainder", "fmod", "floor_divide", "trunc_divide", "nextafter"]),
)
@settings(max_examples=300, deadline=None)
def test_of_float64_the_same_bits(a, b, name):
    """Where a quotient has more digits than a float64, too."""
    x, y = np.full(33, a), np.full(33, b)
    with np.errstate(all="ignore"):
        want = getattr(numpy_elementwise, name)(x, y)
        got = getattr(compiled_elementwise, name)(x, y)
    assert np.array_equal(got, want, equal_nan=True), (a, b, got[0], want[0])
    assert (np.signbit(got) == np.signbit(want))[want == want].all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_functions_of_integers(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-100, 100, 999).astype(dtype), rng.integers(-5, 70, 999).astype(dtype)
    for name in ("left_shift", "right_shift", "heaviside"):
        got = getattr(compiled_elementwise, name)(a, b)
        np.testing.assert_array_equal(got, getattr(numpy_elementwise, name)(a, b))
        assert got.dtype == dtype
    for name in ("left_shift", "right_shift"):
        for number in (0, 3, 31, 63, 64, -1):
            shift = getattr(numpy_elementwise, name)
            expected = shift(a, np.full(999, number, dtype))
            np.testing.assert_array_equal(shift(a, number), expected)
            assert shift(a, number).dtype == dtype
    least = np.iinfo(dtype).min
    a[:3], b[b == 0], b[:2] = (least, -7, 7), 1, -1
    large = rng.integers(least, -least - 1, (2, 999), dtype)
    large[1][large[1] == 0] = 1
    large[1, :6] = [2**30, 2**30 + 1, -(2**30) - 1, least // 3, -1, 3]
    for x, y in ((a, b), large, (large[0], b), (a, large[1])):
        for name in ("trunc_divide", "floor_divide", "remainder", "fmod"):
            kernel, plain = getattr(compiled_elementwise, name), getattr(numpy_elementwise, name)
            for divisor in (y, 3, -7):
                with np.errstate(all="ignore"):
                    want = plain(x, divisor)
                got = kernel(x, divisor)
                np.testing.assert_array_equal(got, want)
                assert got.dtype == dtype
            for divisor in (b * 0, 0, *(np.where(np.arange(999) == k, 0, b) for k in (0, 9, 998))):
                with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                    kernel(a, divisor)
    for name, numbers in (
        ("threshold", (-3, 10)),
        ("threshold", (0.5, 2)),
        ("hardtanh", (-7, 9)),
        ("hardtanh", (-1.0, 1.0)),
        ("hardtanh", (-0.5, 1.5)),
    ):
        got = getattr(compiled_activation, name)(a, *numbers)
        np.testing.assert_array_equal(got, getattr(numpy_activation, name)(a, *numbers))


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("decimals", [2, -1])
def test_rounding_to_digits(dtype, decimals):
    x = numbers(999, dtype)
    assert compiled_elementwise._round_up.ufuncs[x.dtype] is not None
    got = compiled_elementwise.round_to(x, decimals)
    with np.errstate(all="ignore"):
        want = numpy_elementwise.round_to(x, decimals)
    assert got.dtype is want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", polynomials.KERNELS)
def test_orthogonal_polynomials(name, dtype):
    """Inside [-1, 1] and outside, of low and high degrees."""
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-1, 1, 500), rng.uniform(-3, 3, 50), [1, -1, 0, np.nan, np.inf]]
    )
    n = np.concatenate([rng.integers(-2, 80, 500), rng.integers(-2, 12, 50), [70, 71, 7, 3, 0]])
    x, n = x.astype(dtype.np), n.astype(dtype.np)
    with np.errstate(all="ignore"):
        want = getattr(polynomials, name)(x, n)
        got = getattr(xp, name)(x, n)
        scale = np.maximum(np.abs(want.astype(np.float64)), n.astype(np.float64))
    eps = {8: 1e-13, 4: 1e-6, 2: 2.0**-7}[dtype.itemsize]
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        right = (
            (a == b)
            | (np.isnan(a) & np.isnan(b))
            | (np.abs(a - b) <= eps * np.maximum(scale, 1) * 10)
        )
    assert right.all(), (x[~right][:3], n[~right][:3], a[~right][:3], b[~right][:3])


@pytest.mark.parametrize("source", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("target", [*KINDS, dtypes.bool_], ids=lambda d: d.name)
def test_conversions(source, target):
    x = numbers(2000, source)
    with np.errstate(all="ignore"):
        want = registration.reference_of("cast")(x, target.np)
    got = compiled_elementwise.cast(x, target.np)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype("d"), want.astype("d"))


@pytest.mark.parametrize(
    "source", ["f4", "f8", "f2", "bfloat16", "i8", "i4", "i2", "i1", "u1", "?"]
)
def test_conversions_of_all_kinds(source):
    """NaN, infinities and what does not fit too: to the integers as NumPy, which does as C++."""
    d = dtypes.bfloat16.np if source == "bfloat16" else np.dtype(source)
    if d.kind in "iub":
        top = 2 if d.kind == "b" else np.iinfo(d).max
        x = np.random.default_rng(0).integers(-top if d.kind == "i" else 0, top, 3000).astype(d)
        x[:3] = 0, 1, top
    else:
        x = (np.random.default_rng(0).standard_normal(3000) * 1e3).astype("f4")
        x[:8] = np.nan, np.inf, -np.inf, -0.0, 0.0, 1e10, -1e10, 0.5
        x = x.astype(d)
    for target in (*KINDS, dtypes.int64, dtypes.int32, dtypes.bool_):
        to = target.np
        if to is d:
            continue
        for a in (x, x[:1], x[::3], x.reshape(100, 30).T, guarded(x)):
            with np.errstate(all="ignore"):
                want = registration.reference_of("cast")(a, to)
            got = compiled_elementwise.cast(a, to)
            assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
            np.testing.assert_array_equal(got.astype("d"), want.astype("d"), f"{d} to {to}")


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "isposinf", "isneginf"])
@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.int32, dtypes.int64]
)
def test_kinds_of_numbers(name, dtype):
    x = np.float32([0, -0.0, 1, np.nan, np.inf, -np.inf, 65504, -1e-7] * 40)
    x = x.astype(dtype.np) if dtype.is_floating_point else np.arange(320, dtype=dtype.np)
    for a in (x, x[::3], x[:1], guarded(x)):
        got = getattr(compiled_elementwise, name)(a)
        assert got.dtype == bool and (got == getattr(np, name)(a.astype("f4"))).all()


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_bounds_of_integers(dtype):
    x = np.random.default_rng(0).integers(-(1 << 31), (1 << 31) - 1, 3000).astype(dtype)
    for low, high in ((0, 1), (-5, None), (None, 7), (3, -3), (-(1 << 31), (1 << 31) - 1)):
        for a in (x, x[::2], x[:1], guarded(x)):
            want = np.minimum(
                a if low is None else np.maximum(a, low),
                1 << 62
                if high is None and dtype is np.int64
                else (1 << 31) - 1
                if high is None
                else high,
            )
            got = compiled_elementwise.clip(a, low, high)
            assert got.dtype == dtype and (got == want).all()
            out = a.copy()
            assert compiled_elementwise.clip(out, low, high, out=out) is out and (out == want).all()
    assert (compiled_elementwise.clip(x, 0.5, 2.5) == np.clip(x, 0.5, 2.5)).all()


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"])
def test_one_bound_and_two(dtype):
    x = np.arange(6).astype(dtype)
    nan, inf = float("nan"), float("inf")
    for bounds in [(2, None), (None, 3), (1, 4), (0.5, None), (None, 2.5), (nan, None), (1, nan), (-inf, 2), (None, inf)]:  # fmt: skip
        for a in (x, x[::2], x[:1], x.reshape(2, 3).T):
            got = compiled_elementwise.clip(a, *bounds)
            want = numpy_elementwise.clip(a, *bounds)
            assert got.dtype == want.dtype, bounds
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["relu_", "sigmoid_", "clamp_", "add_", "addcmul_", "lerp_"])
def test_in_place(name):
    x = rushlight.randn(40, 50)
    args = {
        "clamp_": (-0.5, 0.5),
        "add_": (x.flip(0),),
        "addcmul_": (x.flip(0), x.flip(1)),
        "lerp_": (x.flip(0), 0.3),
    }.get(name, ())
    options = {"alpha": 0.5} if name == "add_" else {}
    want = getattr(x, name[:-1])(*args, **options)
    for y in (x.clone(), x.t().clone().t()):
        version, address = y._version, y.data_ptr()
        assert getattr(y, name)(*args, **options) is y
        assert y._version == version + 1 and y.data_ptr() == address
        assert (y == want).all()


@pytest.mark.parametrize("n", [1, 63, 1000])
@pytest.mark.parametrize("value", [1, -3, 1 << 62])
def test_a_product_of_whole_numbers_is_added_without_rounding(n, value):
    x, y, z = (np.arange(n, dtype=np.int64) * k + (1 << 53) for k in (1, -7, 3))
    wrapped = [
        (int(a) + value * int(b) * int(c)) % (1 << 64) for a, b, c in zip(x, y, z, strict=True)
    ]
    assert (xp.addcmul(x, y, z, value).view(np.uint64) == np.array(wrapped, np.uint64)).all()


@pytest.mark.parametrize("n", [64, 65, 100, 1024, 16385])
@pytest.mark.parametrize("side", ["after", "before"])
def test_stays_within_its_arrays(n, side):
    x, y, out = (guarded(np.full(n, v, np.float32), side) for v in (1.5, 2.5, 0))
    xp.add(x, y, out=out)
    compiled_activation.gelu(x, out=out)
    compiled_elementwise.remainder(x, y)
    compiled_elementwise.addcmul(x, y, x, 2.0, out=out)
    assert (out == 1.5 + 2 * 2.5 * 1.5).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "bfloat16", "i8", "i4", "u1", "?"])
def test_fill(dtype):
    d = dtypes.bfloat16.np if dtype == "bfloat16" else np.dtype(dtype)
    for value in (0, 1, -0.0, 0.1, -3, float("nan"), float("inf")):
        if d.kind in "iu?b" and (not np.isfinite(value) or value < 0 and d.kind != "i"):
            continue
        for n in (0, 1, 40_001):
            got, want = guarded(np.ones(n, d)), np.ones(n, d)
            compiled_elementwise.fill(got, value)
            want[...] = value
            assert got.tobytes() == want.tobytes()
    view = np.zeros((300, 400), d)
    compiled_elementwise.fill(view[:, ::2], 1)
    assert view[:, ::2].all() and not view[:, 1::2].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_choices_in_the_order_of_memory(dtype):
    rng = np.random.default_rng(0)
    condition, a, b = (rng.integers(0, 2, (7, 9, 5)).T for _ in range(3))
    condition, a, b = condition.astype(bool, order="K"), a.astype(dtype, "K"), b.astype(dtype, "K")
    for x, y in ((a, b), (a, np.asarray(3, dtype)), (np.asarray(3, dtype), b)):
        got = compiled_elementwise.where(condition, x, y)
        np.testing.assert_array_equal(got, np.where(condition, x, y))
        assert got.dtype == dtype and got.flags.f_contiguous
    mixed = compiled_elementwise.where(condition, a, np.ascontiguousarray(b))
    np.testing.assert_array_equal(mixed, np.where(condition, a, b))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_halves_in_the_order_of_memory(axis):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 6, 8)).astype(np.float32).T
    got, want = compiled_activation.glu(a, axis), numpy_activation.glu(a, axis)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.flags.f_contiguous
    for order in "CF":
        g = np.asarray(rng.standard_normal(got.shape), np.float32, order)
        got_gradient = compiled_activation.glu_gradient(g, a, axis)
        want_gradient = numpy_activation.glu_gradient(g, a, axis)
        np.testing.assert_allclose(got_gradient, want_gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["xlogy", "special.xlog1py", "special.zeta"])
def test_a_number_gives_the_bits_of_an_array(name):
    function = attrgetter(name)(rushlight)
    for dtype in (rushlight.float32, rushlight.float64):
        x = rushlight.linspace(1.5, 3, 7, dtype=dtype)
        want = function(x, rushlight.full((7,), 1.7, dtype=dtype))
        assert all(rushlight.equal(function(x, 1.7), want) for _ in range(4))


@pytest.mark.parametrize(
    "name", ["special.zeta", "special.gammaincc", "special.bessel_y0", "erfinv"]
)
@pytest.mark.parametrize("dtype", KINDS[:2], ids=str)
def test_kinds_of_arguments_are_apart(name, dtype):
    """Elements of one kind are computed together: each is what it is alone, wherever it lies."""
    f = attrgetter(name)(rushlight)
    numbers = np.random.default_rng(3).uniform(-9, 9, (2, 700))
    numbers[:, : len(SPECIAL)] = SPECIAL
    given = [rushlight.tensor(r, dtype=dtype) for r in numbers[: 2 - (name[-1] in "0v")]]
    together = f(*given)
    alone = rushlight.stack([f(*parts) for parts in zip(*given, strict=True)])
    assert together.numpy().tobytes() == alone.numpy().tobytes()
    backwards = f(*[rushlight.stack([t, t]).T.flip(0)[:, 1] for t in given])
    assert backwards.flip(0).numpy().tobytes() == together.numpy().tobytes()
