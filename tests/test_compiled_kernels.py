"""Machine code for elements, reductions, softmax and normalisation against the NumPy kernels: any
shape, strides, dtype and alignment, arrays that are each other's memory, and protected pages around all."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

from guard import guarded
from rushlight._backends import cpu as xp
from rushlight._backends.index import LLVM
from rushlight._backends.llvm import activation as compiled_activation
from rushlight._backends.llvm import batch_normalize as compiled_batch_normalize
from rushlight._backends.llvm import cross_entropy as compiled_cross_entropy
from rushlight._backends.llvm import elementwise as compiled_elementwise
from rushlight._backends.llvm import extremes as compiled_extremes
from rushlight._backends.llvm import loss as compiled_loss
from rushlight._backends.llvm import normalize as compiled_normalize
from rushlight._backends.llvm import reduce as compiled_reduce
from rushlight._backends.llvm import registration
from rushlight._backends.llvm import scan as compiled_scan
from rushlight._backends.llvm import softmax as compiled_softmax
from rushlight._codegen.dtype_entry import function_behind
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight.core import dtypes

# A kernel that hands its work to NumPy's loop, as one may that is being compiled, warns as NumPy does; the
# operators' calls are quiet.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")

BINDINGS = {
    "activation": compiled_activation,
    "batch_normalize": compiled_batch_normalize,
    "cross_entropy": compiled_cross_entropy,
    "elementwise": compiled_elementwise,
    "extremes": compiled_extremes,
    "loss": compiled_loss,
    "normalize": compiled_normalize,
    "reduce": compiled_reduce,
    "scan": compiled_scan,
    "softmax": compiled_softmax,
}
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), dtypes.bfloat16.np]
OTHERS = [np.dtype(t) for t in (np.int64, np.int32, np.uint8, np.bool_, np.complex64)]
LAYOUTS = (
    "rows", "rows", "columns", "steps", "backwards", "repeated", "odd", "after", "before", "constant",
)  # fmt: skip
SPECIAL = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, 6e4, -6e4]
# What a result may be off by, of its size and of that of the largest: (float32, float64, halves).
CLOSE = {4: 3e-6, 8: 1e-13, 2: 2.0**-7}


class Guarding:
    """NumPy, whose new arrays end at a protected page."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=float, order="C"):
        return guarded(np.zeros(shape, dtype))

    @staticmethod
    def empty_like(a):
        like = np.empty_like(a)
        if not like.flags.c_contiguous or not like.size:
            return like
        return guarded(np.zeros(like.shape, like.dtype))


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Machine code for the smallest arrays too, and nothing beyond the ends of what it makes."""
    for binding in BINDINGS.values():
        monkeypatch.setattr(binding, "np", Guarding(), raising=False)
        for name, value in list(vars(binding).items()):
            if name in ("SMALL", "SHORT") and isinstance(value, int):
                monkeypatch.setattr(binding, name, 0)
            elif "least" in getattr(value, "__globals__", {}):
                monkeypatch.setitem(value.__globals__, "least", 1)


def reference(name):
    """The NumPy kernel that a compiled one stands for."""
    return registration.reference_of(name)


def laid(values, layout):
    """The same numbers in memory of another kind."""
    if layout == "columns":
        return np.asarray(values, order="F")
    if layout == "steps" and values.ndim:
        wide = np.full((*values.shape[:-1], 2 * values.shape[-1] + 1), 77, values.dtype)
        wide[..., 1::2] = values
        return wide[..., 1::2]
    if layout == "backwards" and values.ndim:
        return np.ascontiguousarray(values[..., ::-1])[..., ::-1]
    if layout == "repeated" and values.ndim:
        return np.broadcast_to(values[:1], values.shape)
    if layout == "odd" and values.size:
        space = np.zeros(values.nbytes + 1, np.uint8)
        out = space[1:].view(values.dtype).reshape(values.shape)
        out[...] = values
        return out
    if layout in ("after", "before") and values.size:
        return guarded(values, layout)
    if layout == "constant":
        values = values.copy()
        values.flags.writeable = False
    return values


@st.composite
def arrays(draw, shape=None, dtype=None, special=True):
    """An array of random numbers, a few of them special."""
    shape = draw(shapes()) if shape is None else shape
    dtype = draw(st.sampled_from(FLOATS)) if dtype is None else dtype
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    with np.errstate(all="ignore"):
        values = random.standard_normal(shape) * draw(st.sampled_from((0.1, 1.0, 10.0)))
        if special and draw(st.integers(0, 3)) == 0:
            where = random.random(shape) < 0.1
            values = np.where(where, random.choice(SPECIAL, shape), values)
        values = np.asarray(values.astype(dtype))
    return laid(values, draw(st.sampled_from(LAYOUTS)))


def shapes(least=0, most=4):
    return st.one_of(
        st.lists(st.integers(0, 7), min_size=least, max_size=most).map(tuple),
        st.lists(st.integers(1, 40), min_size=max(least, 1), max_size=2).map(
            lambda s: tuple(s) + (3,) * (least - len(s))
        ),
    )


def check(name, got, expected, scale=0.0):
    """The result is the reference's: dtype, shape, NaN and infinities, and numbers to rounding.

    `scale`: the size of what is added up, where sums may cancel.
    """
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            check(name, g, e, scale)
        return
    if expected is None:
        assert got is None
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, name
    assert got.dtype == expected.dtype, name
    if expected.dtype.kind in "iub":
        assert (got == expected).all(), name
        return
    size = expected.dtype.itemsize
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        g, e = got.astype(wide), expected.astype(wide)
        assert (np.isnan(g) == np.isnan(e)).all(), (name, g, e)
        finite = np.isfinite(e)
        largest = np.abs(e[finite]).max(initial=0.0)
        # Half types: what is next to the largest number may be rounded to infinity by one only.
        edge = np.abs(e) > 0.99 * float(np.finfo(np.float16).max) if size == 2 else ~finite
        same = finite & np.isfinite(g)
        assert ((g == e) | np.isnan(e) | same | edge).all(), (name, g, e)
        bound = CLOSE[4 if expected.dtype.kind == "c" else size] * (np.abs(e) + largest + scale)
        assert (np.abs(g - e) <= bound + 1e-30)[same].all(), (name, np.abs(g - e)[same].max(), g, e)


def compare(name, *args, scale=0.0, needs=None):
    """Run both; an error must be the same, and no argument may change."""
    binding = BINDINGS[LLVM[name]]
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        try:
            expected = reference(name)(*before)
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
            with pytest.raises(type(error)):
                getattr(binding, name)(*args)
            return
        held = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        got = getattr(binding, name)(*args)
    for a, b in zip(args, held, strict=True):
        if isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes(), f"{name} wrote into an argument"
    if needs is not None:  # what is not needed may be anything
        got, expected = (
            tuple(r for r, n in zip(rs, needs, strict=True) if n) for rs in (got, expected)
        )
    check(name, got, expected, scale)


def pointwise(name):
    """(arrays, numbers) of a kernel that is a loop over elements; None for others."""
    for family in ("activation", "elementwise", "loss"):
        if LLVM.get(name) == family:
            for cell in function_behind(registration.kernel(name)).__closure__ or ():
                if isinstance(cell.cell_contents, Pointwise):
                    return cell.cell_contents.arrays, cell.cell_contents.numbers
    return None


DIVISIONS = ("fmod", "remainder", "floor_divide", "trunc_divide")
# Truth values; see test_compiled_elementwise.py.
KINDS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf")
SHIFTS = ("left_shift", "right_shift")  # of integers only; see test_compiled_elementwise.py
OF_ELEMENTS = [
    name
    for name, family in LLVM.items()
    if family in ("activation", "elementwise", "loss")
    if pointwise(name) and name not in DIVISIONS + KINDS + SHIFTS
]
GIVEN = {0: (), 1: (0.5,), 2: (0.5, 1.5), 3: (1.0, 1.5, 0.5)}
PROBABILITIES = [f"binary_cross_entropy{of}" for of in ("", "_gradient", "_target_gradient")]


def sized(*arrays):
    """The size of the largest number, at least 1."""
    with np.errstate(all="ignore"):
        sizes = [np.abs(a.astype(np.float64)) for a in arrays]
    return max([1.0, *(float(v[np.isfinite(v)].max(initial=0)) for v in sizes)])


@pytest.mark.parametrize("name", OF_ELEMENTS)
@given(st.data())
@settings(max_examples=25)
def test_functions_of_elements(name, data):
    count, numbers = pointwise(name)
    given, binding = GIVEN[numbers], next(b for b in BINDINGS.values() if hasattr(b, name))
    function = getattr(binding, name)
    special = name not in PROBABILITIES
    a = data.draw(arrays(special=special))
    others = [
        a if data.draw(st.booleans()) else data.draw(arrays(a.shape, a.dtype, special))
        for _ in range(count - 1)
    ]
    args = [a, *others]
    if name in PROBABILITIES:
        args = [np.asarray(1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype) for x in args]
    before = [x.tobytes() for x in args]
    with np.errstate(all="ignore"):
        # float32 against float64, since the reference rounds as often as we do.
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in args]
        expected = np.asarray(reference(name)(*wide, *given)).astype(a.dtype)
        got = function(*args, *given)
        if (
            sized(*args) > 1e4
        ):  # special values: how large what they are computed from is, is another thing
            expected = np.asarray(reference(name)(*args, *given))
        check(name, got, expected, sized(*args))
        assert [x.tobytes() for x in args] == before, f"{name} wrote into an argument"
        # Into memory that is given: guarded, an argument's own, and one that overlaps it.
        out = guarded(np.zeros(a.shape, a.dtype)) if a.size else np.empty(a.shape, a.dtype)
        assert function(*args, *given, out=out) is out
        check(name, out, got)
        buffer = np.zeros(a.size + 1, a.dtype)
        buffer[1:] = args[0].reshape(-1)
        first, shifted = buffer[1:].reshape(a.shape), buffer[:-1].reshape(a.shape)
        function(first, *args[1:], *given, out=shifted)
        check(name, shifted, got)
        mine = args[0].copy()
        function(mine, *args[1:], *given, out=mine)
        check(name, mine, got)


@pytest.mark.parametrize("name", ["gelu", "silu", "sigmoid"])
def test_small_results_are_right_too(name):
    x = np.linspace(-12, -1, 500, dtype=np.float32)
    exact = x.astype(np.float64)
    if name == "gelu":
        exact = exact * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in exact])
    else:
        exact = 1 / (1 + np.exp(-exact)) * (exact if name == "silu" else 1)
    got = getattr(compiled_activation if name != "sigmoid" else compiled_elementwise, name)(x)
    assert (np.abs(got - exact) <= 5e-6 * np.abs(exact)).all()


@pytest.mark.parametrize("name", ["relu", "sigmoid", "erf", "rsqrt", "sign"])
@pytest.mark.parametrize("dtype", OTHERS[:4], ids=str)
def test_other_dtypes_are_the_references(name, dtype):
    compare(name, np.ones((3, 4), dtype))


@pytest.mark.parametrize("name", DIVISIONS)
@given(st.data())
@settings(max_examples=40)
def test_divisions_with_remainder(name, data):
    a = data.draw(arrays())
    compare(
        name, a, data.draw(arrays(a.shape, a.dtype)), scale=sized(a) if name == "remainder" else 0.0
    )
    compare(name, a, data.draw(st.sampled_from((2, 0.75, -3, 0))), scale=sized(a))


@given(st.data())
@settings(max_examples=60)
def test_power(data):
    a = data.draw(arrays(dtype=data.draw(st.sampled_from(FLOATS[:2])), special=False))
    b = data.draw(arrays(a.shape, a.dtype, special=False))
    assert LLVM["power"] == "elementwise"
    with np.errstate(all="ignore"):
        for x in (a, np.abs(a)):
            exact = np.power(x.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
            got = compiled_elementwise.power(x, b)
            assert (np.isnan(got) == np.isnan(exact)).all()
            real = np.isfinite(exact) & np.isfinite(got)
            assert (np.isfinite(exact) == np.isfinite(got)).all()
            assert (np.abs(got - exact) <= 2 * CLOSE[a.dtype.itemsize] * np.abs(exact) + 1e-44)[
                real
            ].all()
        for n in (2, 3, -1, -2, 0.5, -0.5, 1, 0, 2.5):
            compare("power", a, n)


@pytest.mark.parametrize("to", FLOATS + OTHERS[:4], ids=str)
@given(st.data())
@settings(max_examples=30)
def test_cast(to, data):
    a = data.draw(
        arrays(dtype=data.draw(st.sampled_from(FLOATS + OTHERS[:4])), special=to.kind != "i")
    )
    compare("cast", np.abs(a) if to == np.uint8 and a.dtype != bool else a, to)


@given(arrays())
def test_signs(a):
    compare("sgn", a)


@given(arrays(), st.sampled_from((None, 0.5)), st.sampled_from((None, 7.0)))
def test_replace_nonfinite(a, nan, infinite):
    compare("nan_to_num", a, nan, infinite, None)


@given(st.data())
def test_numbers_wider_than_the_array(data):
    a = data.draw(arrays(dtype=data.draw(st.sampled_from(FLOATS[2:]))))
    for kernel in (xp.multiply, xp.divide):
        compare("with_wide_number", kernel, a, np.float32(0.1))
    compare("reverse_subtract", a, 2.0 if a.dtype.kind == "f" else a)


@given(st.data())
@settings(max_examples=40)
def test_bounds_and_weights(data):
    a = data.draw(arrays())
    b = data.draw(arrays(a.shape, a.dtype))
    low, high = data.draw(st.sampled_from(((-0.5, 1.0), (None, 0.5), (0, None), (1.0, -1.0))))
    compare("clip", a, low, high)
    compare("clip_gradient", b, a, low, high)
    compare("clip_arrays", a, b, None)
    compare("lerp", a, b, 0.25, scale=sized(a, b))
    compare("lerp", a, b, data.draw(arrays(a.shape, a.dtype)), scale=sized(a, b) ** 2)
    compare("add_scaled", a, b, -1.5, scale=sized(a, b))


@given(st.data())
@settings(max_examples=80)
def test_where(data):
    shape = data.draw(shapes())
    dtype = data.draw(st.sampled_from(FLOATS + OTHERS[:4]))
    condition = data.draw(arrays(shape, np.dtype(bool)))
    a, b = (data.draw(arrays(data.draw(st.sampled_from((shape, ()))), dtype)) for _ in range(2))
    compare("where", condition, a, b)
    compare("where", condition, a, a)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@given(arrays(), st.integers(-5, 4))
@settings(max_examples=60)
def test_softmax(name, a, dim):
    compare(name, a, dim)


@pytest.mark.parametrize("name", ["softmax_gradient", "log_softmax_gradient"])
@given(st.data())
@settings(max_examples=60)
def test_gradients_of_softmax(name, data):
    y = data.draw(arrays(special=False))
    g = y if data.draw(st.booleans()) else data.draw(arrays(y.shape, y.dtype, special=False))
    dim = data.draw(st.integers(-max(y.ndim, 1), max(y.ndim - 1, 0)))
    compare(name, g, y, dim, scale=sized(g, y))


@given(st.data())
@settings(max_examples=80)
def test_cross_entropy(data):
    classes = data.draw(st.integers(1, 40))
    shape = (
        data.draw(st.integers(1, 9)),
        classes,
        *data.draw(st.lists(st.integers(1, 40), max_size=2)),
    )
    a = data.draw(arrays(shape, special=False))
    if data.draw(st.integers(0, 4)) == 0 and a.ndim == 4:
        a = np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)
    places = (shape[0], *shape[2:])
    target = data.draw(arrays(places, special=False))
    target = guarded(np.abs(target * 10).astype(np.int64) % classes)
    if data.draw(st.integers(0, 4)) == 0:
        target.reshape(-1)[0] = data.draw(st.sampled_from((-1, classes, 2**40)))
    weight = data.draw(st.one_of(st.none(), arrays((classes,), a.dtype, special=False)))
    skip, smoothing = data.draw(st.sampled_from((-100, 0))), data.draw(st.sampled_from((0.0, 0.1)))
    scale = sized(a) * (1 if weight is None else sized(weight) * classes)
    args = (a, target, weight, skip, smoothing)
    got, want = (
        f(*args) for f in (compiled_cross_entropy.cross_entropy, reference("cross_entropy"))
    )
    check("cross_entropy", got[:2], want[:2], scale)
    size, facts = max(1, target.size) * scale, got[2].reshape(-1, 3).sum(0)
    assert np.allclose(
        facts[:2], want[2][:2], rtol=1e-5, atol=1e-2 * size if a.itemsize == 2 else 1e-5 * size
    )
    assert facts[2] == want[2][2]  # the number of targets out of bounds
    wide = np.float32 if a.itemsize == 2 else a.dtype
    g = data.draw(st.one_of(arrays((), wide, special=False), arrays(places, wide, special=False)))
    args = (g, a, target, weight, want[1], skip, smoothing, np.asarray(4.0))
    compare("cross_entropy_gradient", *args, scale=scale * sized(g))


@pytest.mark.parametrize("way", [compiled_cross_entropy.cross_entropy, reference("cross_entropy")])
@pytest.mark.parametrize("step", [1, 2])
def test_classes_that_are_ruled_out(way, step):
    """Logits of -inf, also that of the first class; rows with gaps between their numbers."""
    a = np.zeros((3, 4 * step), np.float32)[:, ::step]
    a[:, 0] = a[0, 2] = -np.inf
    losses, sums, *_ = way(a, np.array([1, 2, 0]), None, -100, 0.0)
    assert np.allclose(sums, np.log([2, 3, 3]))
    assert np.allclose(losses, [np.log(2), np.log(3), np.inf])


def axes(data, a):
    some = st.lists(st.integers(0, max(a.ndim - 1, 0)), unique=True, max_size=a.ndim).map(tuple)
    one = st.integers(-max(a.ndim, 1), max(a.ndim - 1, 0))
    return data.draw(st.one_of(st.none(), one, some) if a.ndim else st.none())


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
@given(st.data())
@settings(max_examples=80)
def test_reductions(name, data):
    a = data.draw(arrays())
    compare(name, a, axes(data, a), data.draw(st.booleans()), scale=sized(a))


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", FLOATS + OTHERS, ids=str)
def test_sums_in_other_dtypes(name, dtype):
    a = np.ones((5, 6), dtype)
    for to in (np.dtype(np.float64), np.dtype(np.float32)):
        if dtype.kind != "c":
            compare(name, a, 1, False, to)


@given(st.data())
@settings(max_examples=80)
def test_variance(data):
    a = data.draw(arrays())
    compare(
        "variance",
        a,
        axes(data, a),
        data.draw(st.booleans()),
        data.draw(st.sampled_from((0, 1, 2.5))),
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(st.data())
@settings(max_examples=80)
def test_places(name, data):
    a = data.draw(arrays())
    axis = data.draw(
        st.one_of(st.none(), st.integers(-a.ndim, a.ndim - 1)) if a.ndim else st.none()
    )
    compare(name, a, axis, data.draw(st.booleans()))


@given(st.data())
@settings(max_examples=80)
def test_running(data):
    a = data.draw(arrays(special=False))
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1)) if a.ndim else 0
    compare("cumulative", a, axis, np.add, scale=sized(a))
    compare("cumulative", a, axis, np.multiply)
    compare("logcumsumexp", data.draw(arrays(a.shape, a.dtype)), axis if a.ndim else None)


@given(st.data())
@settings(max_examples=60)
def test_sum_to(data):
    shape = data.draw(shapes(1))
    kept = tuple(1 if data.draw(st.integers(0, 3)) == 0 else n for n in shape)
    first = data.draw(st.integers(0, len(shape)))
    a = data.draw(arrays(shape))
    compare("sum_to", a, kept[first:], scale=sized(a))


@given(st.data())
@settings(max_examples=80)
def test_layer_norm(data):
    shape = data.draw(shapes(1).filter(lambda s: math.prod(s) > 0))
    a = data.draw(arrays(shape, special=False))
    n = shape[-1]
    w, b = (data.draw(st.one_of(st.none(), arrays((n,), a.dtype, special=False))) for _ in range(2))
    scale = sized(a)
    compare("layer_norm", a, w, b, n, 1e-5, scale=scale)
    compare("layer_norm_with_statistics", a, w, b, n, 1e-2, scale=scale)
    g = a if data.draw(st.booleans()) else data.draw(arrays(shape, a.dtype, special=False))
    needs = tuple(data.draw(st.booleans()) for _ in range(3))
    compare("layer_norm_gradients", g, a, w, n, 1e-2, needs, scale=sized(g, a), needs=needs)
    compare("rms_norm", a, w, n, 1e-5, scale=scale)
    needs = needs[:2]
    compare("rms_norm_gradients", g, a, w, n, 1e-2, needs, scale=sized(g, a), needs=needs)


@given(st.data())
@settings(max_examples=60)
def test_lengths_and_logarithms_of_sums(data):
    a = data.draw(arrays(data.draw(shapes(1))))
    keep = data.draw(st.booleans())
    axis = data.draw(st.integers(0, a.ndim - 1))
    compare("l2_norm", a, axis, keep, scale=sized(a))
    compare("l2_norm", a, None, keep, scale=sized(a))
    compare("logsumexp", a, (axis,), keep, scale=sized(a))


@given(st.data())
@settings(max_examples=80)
def test_group_and_batch_norm(data):
    groups, each = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    channels = groups * each
    shape = (
        data.draw(st.integers(1, 4)),
        channels,
        *data.draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)),
    )
    a = data.draw(arrays(shape, special=False))
    if data.draw(st.integers(0, 4)) == 0 and a.ndim == 4:
        a = np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)
    w, b = (
        data.draw(st.one_of(st.none(), arrays((channels,), a.dtype, special=False)))
        for _ in range(2)
    )
    g = a if data.draw(st.booleans()) else data.draw(arrays(shape, a.dtype, special=False))
    needs = tuple(data.draw(st.booleans()) for _ in range(3))
    scale = sized(a)
    eps = 1e-1  # two elements that are nearly equal have a gradient that is all rounding
    compare("group_norm", a, w, b, groups, eps, scale=scale)
    compare("group_norm_gradients", g, a, w, groups, eps, needs, scale=scale, needs=needs)
    mean = data.draw(arrays((channels,), np.dtype(np.float32), special=False))
    var = np.abs(data.draw(arrays((channels,), np.dtype(np.float32), special=False))) + np.float32(
        0.1
    )
    training = data.draw(st.booleans())
    if a.dtype.itemsize != 2:
        mean, var = mean.astype(a.dtype), var.astype(a.dtype)
    compare("batch_norm", a, w, b, mean, var, training, eps, scale=scale)
    compare(
        "batch_norm_gradients", g, a, w, mean, var, training, eps, needs, scale=scale, needs=needs
    )
    rectified = data.draw(st.booleans())
    compare("batch_norm", a, w, b, mean, var, training, eps, False, g, rectified, scale=scale)
    compare(
        "batch_norm_gradients",
        g,
        a,
        w,
        mean,
        var,
        training,
        eps,
        needs,
        a,
        scale=scale,
        needs=needs,
    )


@pytest.mark.parametrize("shape", [(70, 3), (1000, 70), (3, 70, 5), (2, 3, 600), (40, 5, 9, 9)])
def test_statistics_of_channels_far_from_zero(shape):
    a = (np.random.default_rng(0).standard_normal(shape) + 300).astype(np.float32)
    for laid in (a, np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)):
        y, mean, var = compiled_batch_normalize.batch_norm(laid, None, None, None, None, True, 1e-5)
        dims = tuple(k for k in range(a.ndim) if k != 1)
        wide = a.astype(np.float64)
        assert np.allclose(mean, wide.mean(dims), rtol=1e-6)
        assert np.allclose(var, wide.var(dims), rtol=1e-4)
        assert y.strides == laid.strides or a.ndim < 4


@pytest.mark.parametrize("d", FLOATS)
def test_running_statistics(d):
    random = np.random.default_rng(0)
    given = [random.standard_normal(37).astype(d) for _ in range(2)]
    found = [
        random.standard_normal(37).astype(d if d.itemsize > 2 else np.float32) for _ in range(2)
    ]
    places = [guarded(v) for v in given]
    compiled_batch_normalize.update_running_stats(*places, *map(guarded, found), 0.25, 1.5)
    reference("update_running_stats")(*given, *found, 0.25, 1.5)
    check("update_running_stats", tuple(places), tuple(given))


@pytest.mark.parametrize("d", FLOATS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("n, ignored", [(1, -100), (7, 2), (300, -100)])
def test_losses_of_classes(d, weighted, reduction, n, ignored):
    random = np.random.default_rng(0)
    x = random.standard_normal((n, 5)).astype(d)
    target = random.integers(0, 5, n)
    weight = random.random(5).astype(d) if weighted else None
    given = x, target, weight, reduction, ignored
    places = [guarded(a) if isinstance(a, np.ndarray) else a for a in given]
    found = compiled_loss.nll_loss(*places)
    check("nll_loss", found, reference("nll_loss")(*given))
    g = np.ones_like(np.asarray(found))
    given, places = (g, *given[1:], x.shape), (g, *places[1:], x.shape)
    found = compiled_loss.nll_loss_gradient(*places)
    check("nll_loss_gradient", found, reference("nll_loss_gradient")(*given))
    wrong = np.where(np.arange(n) == n - 1, 5, target)
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        compiled_loss.nll_loss(guarded(x), guarded(wrong), weight, reduction, ignored)


@pytest.mark.parametrize("d", FLOATS)
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("facts", [(3.5, 2.0, 0.0), (3.5, 0.0, 0.0), (1.0, 2.0, 1.0)])
def test_the_total_of_an_entropy(d, mean, facts):
    facts = np.array(facts)
    found = compiled_cross_entropy.entropy_total(guarded(facts), mean, d)
    expected = reference("entropy_total")(facts, mean, d)
    if expected is None:
        assert found is None
    else:
        check("entropy_total", found, expected)


def test_all_kernels_of_these_families_are_tried():
    """Here, or beside here."""
    beside = [
        Path(__file__).with_name(f"test_compiled_{f}.py")
        for f in ("elementwise", "fold", "losses", "masks")
    ]
    text = "".join(file.read_text(encoding="utf-8") for file in (Path(__file__), *beside))
    names = [n for n, f in LLVM.items() if f in BINDINGS and n not in OF_ELEMENTS]
    assert [n for n in names if not re.search(rf"[\".]{n}\b", text)] == []
