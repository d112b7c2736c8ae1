"""Elementwise operators against NumPy and the mathematics; writing in place; errors."""

from __future__ import annotations

import doctest
import math
import warnings
from importlib import import_module

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.tensor import _wrap
from rushlight.dispatch import registry

FAMILIES = ["elementwise", "bounds", "unary", "binary", "bitwise", "comparison", "special"]


def f32(*values: float) -> torch.Tensor:
    return _wrap(np.array(values, np.float32))


def f64(*values: float) -> torch.Tensor:
    return _wrap(np.array(values, np.float64))


def i64(*values: int) -> torch.Tensor:
    return _wrap(np.array(values, np.int64))


def close(t: torch.Tensor, expected, tol: float = 1e-6) -> None:
    np.testing.assert_allclose(t._array, np.asarray(expected), rtol=tol, atol=tol, equal_nan=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_in_docstrings(family):
    module = import_module(f"rushlight.ops.pointwise.{family}")
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for op in {*registry.OPS.values()}:
        if op.declared.__module__ == module.__name__:
            for test in finder.find(op.declared, op.name, globs={}):
                runner.run(test)
    assert not runner.failures


# -- the straight path -----------------------------------------------------------------------------


def operator(name: str):
    getattr(torch, name)
    return registry.OPS[name]


def test_no_warning_of_numpy_becomes_an_error():
    """With warnings as errors the straight path gives up, and the general way knows how to hush."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = f32(0, -1, 1000, math.inf)
        for name in (
            "log",
            "sqrt",
            "exp",
            "reciprocal",
            "rsqrt",
            "acos",
            "lgamma",
            "erfinv",
            "sigmoid",
        ):
            getattr(x, name)()
        for call in (
            lambda: x / 0, lambda: x % 0, lambda: x**-1, lambda: 0 / x, lambda: x // 0, lambda: x.clamp(0, 1),
            lambda: x.clone().exp_(), lambda: x.clone().mul_(3e38), lambda: i64(1) / 0,
        ):  # fmt: skip
            call()


# -- arithmetic ------------------------------------------------------------------------------------


def test_alpha():
    x, y = f32(1, 2), f32(10, 20)
    close(torch.add(x, y, alpha=0.5), [6, 12])
    close(x.sub(y, alpha=2), [-19, -38])
    close(torch.rsub(x, y, alpha=3), [7, 14])
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        torch.add(i64(1), i64(2), alpha=0.5)
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        torch.add(x, y, alpha=True)


def test_alpha_in_place_and_its_gradient():
    x, y = f32(1, 2), f32(10, 20).requires_grad_()
    z = x * 1
    z.add_(y, alpha=3)
    assert type(z.grad_fn).__name__ == "AddBackward0"
    z.backward(f32(1, 1))
    close(y.grad, [3, 3])


def test_bool_is_not_for_subtraction():
    b = _wrap(np.array([True, False]))
    for call in (lambda: b - b, lambda: b - 1, lambda: 1 - b, lambda: -b):
        with pytest.raises(RuntimeError, match="is not supported"):
            call()
    assert (b + b).dtype is torch.bool and (b * 2).dtype is torch.int64


def test_division_rounds_as_asked():
    x = i64(-7, 7)
    assert (x / 2).dtype is torch.float32
    assert torch.div(x, 2, rounding_mode="floor").tolist() == [-4, 3]
    assert torch.div(x, 2, rounding_mode="trunc").tolist() == [-3, 3]
    assert (x // 2).tolist() == [-4, 3]
    assert (x % 4).tolist() == [1, 3]
    assert torch.fmod(x, 4).tolist() == [-3, 3]
    close(torch.div(f32(-7), f32(2), rounding_mode="trunc"), [-3])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // i64(0)
    with pytest.raises(RuntimeError, match="rounding_mode"):
        torch.div(x, 2, rounding_mode="up")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_quotients_of_half_types(dtype):
    """By a number in float32, as it is given; of two tensors the rounded quotient is rounded again."""
    x, y = (torch.arange(1, 4001) * f / 100 for f in (1.0, 0.3))
    x, y = x.to(dtype), y.to(dtype)
    for mode in ("trunc", "floor"):
        got = torch.div(x, 0.3, rounding_mode=mode)
        assert torch.equal(got, torch.div(x.float(), 0.3, rounding_mode=mode).to(dtype))
        assert torch.equal(x.clone().div_(0.3, rounding_mode=mode), got)
    assert torch.equal(x // 0.3, got)
    assert torch.equal(torch.div(x, y, rounding_mode="trunc"), torch.trunc(x / y))


def test_remainder_keeps_the_sign_of_zero():
    assert math.copysign(1, (f64(-4.0) % 2.0).item()) == -1


def test_the_remainder_of_a_number_has_a_gradient():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    (7.0 % x).sum().backward()
    assert x.grad.tolist() == [-3, -2]


def test_sinc_is_flat_around_zero():
    x = torch.tensor([0.0, 1e-40, -1e-30], requires_grad=True)
    torch.sinc(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_a_threshold_keeps_nan():
    found = torch.nn.functional.threshold(torch.tensor([math.nan, 0.0, 2.0]), 1.0, 5.0)
    assert math.isnan(found[0]) and found[1:].tolist() == [5, 2]


def test_integers_wrap_and_powers():
    u = _wrap(np.array([200, 100], np.uint8))
    assert (u + u).tolist() == [144, 200]
    assert (i64(2, -3) ** 3).tolist() == [8, -27]
    assert (i64(2, 1, -1) ** i64(-1, -2, -3)).tolist() == [0, 1, -1]
    for call in (lambda: i64(2) ** -1, lambda: i64(2).pow(-1), lambda: torch.pow(i64(2), -1)):
        with pytest.raises(RuntimeError, match="negative integer powers"):
            call()


def test_half_types_are_computed_in_float32():
    a = np.array([1.0, 0.1, 3.0], np.float16)
    h = _wrap(a)
    exact = a.astype(np.float32)
    close(
        torch.addcmul(h, h, h, value=0.1),
        (exact + np.float32(0.1) * exact * exact).astype(np.float16),
        0,
    )
    assert (h * 2.5).dtype is torch.float16
    assert torch.sigmoid(h.to(torch.bfloat16)).dtype is torch.bfloat16


def test_bounds():
    x = f32(-2, 0.5, math.nan, 3)
    close(x.clamp(-1, 1), [-1, 0.5, math.nan, 1])
    close(x.clamp(max=f32(0, 0, 0, 0)), [-2, 0, math.nan, 0])
    assert i64(1, 5).clamp(min=2.5).dtype is torch.float32
    assert i64(1, 5).clamp(2, 4).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="At least one of"):
        x.clamp()
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        i64(1).clamp_(0.5)
    close(torch.maximum(f32(1, math.nan), f32(2, 0)), [2, math.nan])
    close(torch.fmax(f32(1, math.nan), f32(2, 0)), [2, 0])


def test_numbers_only_where_pytorch_takes_them():
    x = f32(1)
    for call in (
        lambda: torch.maximum(x, 1), lambda: torch.exp(1.0), lambda: torch.eq(1, x),
        lambda: torch.add(x, "a"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="must be Tensor"):
            call()
    close(torch.pow(2, x), [2])
    close(torch.mul(1, x), [1])
    close(torch.remainder(5, f32(3)), [2])


def test_unknown_operands_are_left_to_python():
    x = f32(1)
    for call in (lambda: x + "a", lambda: x - None, lambda: {} * x):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()
    assert (x == None) is False  # noqa: E711 - what is tested
    assert (x != "a") is True


# -- in place --------------------------------------------------------------------------------------


def test_in_place_writes_the_same_memory():
    x = f32(1, 2, 3)
    memory, view = x._array, x[1:]
    x += 1
    x.mul_(f32(2, 2, 2)).sub_(1).exp_()
    assert x._array is memory and x._version == 4 == view._version
    close(view, np.exp([5.0, 7.0]), 1e-5)


def test_in_place_refuses_a_lower_kind_and_a_larger_shape():
    x, y = i64(1, 2), f32(1, 2)
    for call in (lambda: x.add_(y), lambda: x.mul_(1.5), lambda: x.div_(2), lambda: x.exp_()):
        with pytest.raises(
            RuntimeError, match="result type Float can't be cast to the desired output"
        ):
            call()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        y.add_(f32(1, 2).reshape(2, 1))
    assert x.tolist() == [1, 2] and y.tolist() == [1, 2] and not x._version and not y._version


def test_in_place_on_overlapping_memory():
    x = f32(1, 2, 3, 4)
    square = x.view(2, 2)
    writes = (
        lambda: x[1:].add_(x[:-1]),
        lambda: x.mul_(x[0]),
        lambda: square.div_(square[0]),
        lambda: x[:-1].lerp_(x[1:], 0.5),
        lambda: x[1:].copy_(x[:-1]),
        lambda: square.t().copy_(square),
        lambda: x.__setitem__(slice(1, None), x[:-1]),
        lambda: x.__setitem__([0, 1], x[1:3]),
        lambda: x[:-1].view(torch.int32).bitwise_and_(x[1:].view(torch.int32)),
        lambda: torch.exp(square, out=square.t()),
    )
    for write in writes:
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
        assert x.tolist() == [1, 2, 3, 4]
    x.add_(x).add_(x.view(4))  # all of it may be shared
    square[:, 0] = square[:, 1]  # arrays with gaps are not looked at
    square[:] = square[0]
    x[:2].fill_(x[3])
    x.masked_fill_(x > 5, x[0])
    assert x.tolist() == [8, 8, 8, 8]
    with pytest.raises(RuntimeError, match="more than one element"):
        f32(1).expand(3).add_(1)


def test_overflow_in_place_is_written_once():
    x = f32(3e38, 1)
    x.mul_(10)
    assert x.tolist() == [math.inf, 10]


def test_in_place_with_gradients():
    x = f32(1, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    y = x * 1
    y.mul_(x).add_(1)
    y.backward(f32(1, 1))
    close(x.grad, [2, 4])


def test_complex_absolute_value_is_not_written_in_place():
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex"):
        _wrap(np.array([3 + 4j])).abs_()


# -- comparison ------------------------------------------------------------------------------------


def test_comparison_and_closeness():
    x = f32(1, math.nan, math.inf)
    assert x.eq(x).tolist() == [True, False, True]
    assert (x < 2).tolist() == [True, False, False]
    assert torch.isclose(x, x).tolist() == [True, False, True]
    assert torch.allclose(x, x, equal_nan=True) and not torch.allclose(x, x)
    assert torch.equal(f32(1), f32(1)) and not torch.equal(f32(1), f32(1, 2))
    assert x.isnan().tolist() == [False, True, False] and i64(1).isfinite().tolist() == [True]
    with pytest.raises(RuntimeError, match="did not match"):
        torch.isclose(x, f64(1, 2, 3))


def test_aliases_are_the_same_operator():
    x = f32(0.5)
    for name, alias in (
        ("acos", "arccos"),
        ("mul", "multiply"),
        ("gt", "greater"),
        ("abs", "absolute"),
    ):
        assert getattr(torch, alias) is getattr(torch, name)
        assert hasattr(x, alias)
    assert torch.special.expit is torch.sigmoid
    close(f32(0.5).arccos_(), [math.acos(0.5)])


def test_bits():
    x = i64(1, -8, 5)
    assert (x << 2).tolist() == [4, -32, 20]
    assert (x >> 1).tolist() == [0, -4, 2]
    assert (x << 70).tolist() == [0, 0, 0] and (x >> 70).tolist() == [0, -1, 0]
    assert (~x).tolist() == [-2, 7, -6] and (x & 3 | 8 ^ 1).tolist() == [9, 9, 9]
    with pytest.raises(RuntimeError, match="not implemented for 'Float'"):
        f32(1) & 1


# -- functions -------------------------------------------------------------------------------------

WITH_MATH = {
    "exp": math.exp, "expm1": math.expm1, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh,
    "tanh": math.tanh, "asinh": math.asinh, "atanh": math.atanh, "erf": math.erf, "erfc": math.erfc,
    "lgamma": math.lgamma, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)), "deg2rad": math.radians, "rad2deg": math.degrees,
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_MATH)
def test_functions_of_the_math_module(name):
    values = [0.1, 0.25, 0.5, 0.75, 0.9]
    expected = [WITH_MATH[name](v) for v in values]
    close(getattr(torch, name)(f64(*values)), expected, 1e-14)
    close(getattr(torch, name)(f32(*values)), expected, 1e-6)


@pytest.mark.parametrize(
    "name", ["xlogy", "xlog1py", "gammainc", "gammaincc", "zeta", "chebyshev_polynomial_t"]
)
def test_large_arrays_in_any_order(name):
    """More elements than a block, transposed or with channels last: each is written."""
    function = getattr(torch.special, name)
    x = torch.linspace(1.1, 3, 48000).reshape(60, 4, 200)
    y = torch.linspace(3, 1.1, 48000).reshape(60, 4, 200).round()
    expected = function(x, y)
    for order in ((2, 1, 0), (0, 2, 1)):
        other = x.permute(order).contiguous().permute(order)
        for given in ((other, y), (other, y.permute(order).contiguous().permute(order))):
            assert torch.equal(function(*given), expected)


@pytest.mark.parametrize(
    "name", ["gammainc", "gammaincc", "zeta", "polygamma", "chebyshev_polynomial_t"]
)
def test_values_do_not_depend_on_their_neighbours(name):
    """A vector goes on until its slowest lane is done: the others stay as they would be alone."""
    function = getattr(torch.special, name)
    x, y = torch.linspace(1.1, 30, 17000), torch.linspace(40, 1.1, 17000).round()
    given = (3, x) if name == "polygamma" else (x, y)
    expected = function(*given)
    for k in range(0, 17000, 97):
        one = [each[k] if isinstance(each, torch.Tensor) else each for each in given]
        assert torch.equal(function(*one).nan_to_num(), expected[k].nan_to_num())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "name", "sin cos tan exp log tanh expm1 log1p exp2 log2 log10 atanh sqrt".split()
)
def test_values_do_not_depend_on_size_place_or_target(name, dtype):
    function = getattr(torch, name)
    x = torch.linspace(0.001, 0.99 if name == "atanh" else 50, 17000, dtype=dtype)
    expected = function(x)
    for size in (1, 3, 7, 8, 9, 17, 1000):
        for part in (slice(size), slice(5, 5 + size), slice(3, 3 + 7 * size, 7)):
            result, out = x[part].clone(), torch.empty(2 * size, dtype=dtype)
            getattr(result, f"{name}_")()
            function(x[part], out=out[::2])
            for found in (function(x[part]), result, out[::2]):
                assert torch.equal(found, expected[part])
    for k in range(0, 17000, 101):
        result, out = x[k].clone(), torch.empty((), dtype=dtype)
        getattr(result, f"{name}_")()
        function(x[k], out=out)
        assert function(x[k]) == result == out == expected[k]


def test_special_values():
    """Constants of DLMF and identities, to the precision of float64."""
    s = torch.special
    close(torch.digamma(f64(1, 2)), [-0.5772156649015329, 0.42278433509846714], 1e-15)
    close(torch.polygamma(1, f64(1)), [math.pi**2 / 6], 1e-15)
    close(s.zeta(f64(2, 4), 1), [math.pi**2 / 6, math.pi**4 / 90], 1e-15)
    close(s.bessel_j0(f64(0, 2.404825557695773, 10)), [1, 0, -0.2459357644513483], 1e-15)
    for far in (s.bessel_j0, s.bessel_j1, s.bessel_y0, s.bessel_y1):
        assert far(f64(math.inf)).isnan()  # as PyTorch and SciPy, though the limit is 0
    close(s.bessel_y1(f64(1, 10)), [-0.7812128213002887, 0.2490154242069539], 1e-15)
    close(
        s.airy_ai(f64(0, 1, -2.338107410459767)), [0.3550280538878172, 0.1352924163128814, 0], 1e-15
    )
    close(s.modified_bessel_k0(f64(1)), [0.42102443824070834], 1e-15)
    close(torch.i0(f64(1, 20)) / f64(1, 1e7), [1.2660658777520084, 4.355828255955355], 1e-14)
    close(torch.erfinv(torch.erf(f64(-0.3, 0.9))), [-0.3, 0.9], 1e-14)
    close(s.ndtri(s.ndtr(f64(-3, 0.5))), [-3, 0.5], 1e-13)
    close(s.log_ndtr(f64(-40)), [-804.608442013754], 1e-14)
    p, q = (
        torch.igamma(f64(2, 50, 1e4), f64(3, 45, 1e4)),
        torch.igammac(f64(2, 50, 1e4), f64(3, 45, 1e4)),
    )
    close(p + q, [1, 1, 1], 1e-15)
    close(p[:1], [1 - 4 * math.exp(-3)], 1e-15)
    close(
        torch.mvlgamma(f64(3), 2),
        [math.log(math.pi) / 2 + math.lgamma(3) + math.lgamma(2.5)],
        1e-15,
    )


def test_polynomials():
    x = f64(0.3)
    s = torch.special
    t, v = math.acos(0.3), 0.3
    close(s.chebyshev_polynomial_t(x, 20), [math.cos(20 * t)], 1e-13)
    close(s.chebyshev_polynomial_u(x, 3), [8 * v**3 - 4 * v], 1e-13)
    close(s.hermite_polynomial_h(x, 3), [8 * v**3 - 12 * v], 1e-13)
    close(s.hermite_polynomial_he(x, 3), [v**3 - 3 * v], 1e-13)
    close(s.laguerre_polynomial_l(x, 2), [v * v / 2 - 2 * v + 1], 1e-13)
    close(s.legendre_polynomial_p(x, i64(2, -1, 0)), [1.5 * v * v - 0.5, 0, 1], 1e-13)


def test_large_arrays_are_computed_block_by_block():
    a = np.linspace(-3, 3, 50_000)
    one = np.array([math.erf(v) for v in a[::997]])
    close(torch.erf(_wrap(a))[::997], one, 1e-14)
    crossed = _wrap(a.reshape(250, 200).T)
    close(torch.erf(crossed), torch.erf(_wrap(a.reshape(250, 200)))._array.T, 0)
    assert torch.erf(crossed).stride() == crossed.stride()


def test_rounding():
    assert torch.round(f32(0.5, 1.5, -2.5)).tolist() == [0, 2, -2]
    close(torch.round(f64(1.2345, -6.5), decimals=2), [1.23, -6.5], 1e-15)
    close(torch.round(f64(1234.5), decimals=-2), [1200], 1e-15)
    assert torch.round(i64(3)).dtype is torch.int64
    m, e = torch.frexp(f32(9, 0))
    assert m.tolist() == [0.5625, 0] and e.tolist() == [4, 0] and e.dtype is torch.int32


def test_shapes_without_elements_and_without_dimensions():
    for name in (*WITH_MATH, "digamma", "i0", "sign", "square"):
        assert getattr(torch, name)(_wrap(np.zeros((0, 3), np.float32))).shape == (0, 3)
        assert getattr(torch, name)(_wrap(np.array(0.5, np.float32))).shape == ()


GRADCHECKED = (
    "exp log sqrt rsqrt reciprocal tanh sigmoid sin cos tan asin acos atan sinh cosh asinh atanh expm1 log1p "
    "log2 log10 exp2 square abs erf erfc erfinv lgamma digamma i0 sinc logit deg2rad neg"
)


@pytest.mark.parametrize("name", GRADCHECKED.split(" "))
def test_gradients_by_differences(name):
    x = f64(0.2, 0.35, 0.5, 0.8).requires_grad_()
    assert torch.autograd.gradcheck(getattr(torch, name), (x,))
    assert torch.autograd.gradgradcheck(getattr(torch, name), (x,))


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "atan2",
        "hypot",
        "logaddexp",
        "xlogy",
        "maximum",
        "fmin",
        "remainder",
    ],
)
def test_gradients_of_two_by_differences(name):
    x, y = f64(0.2, 0.35, 1.5).requires_grad_(), f64(0.9, 0.7, 0.4).requires_grad_()
    assert torch.autograd.gradcheck(getattr(torch, name), (x, y))
    assert torch.autograd.gradgradcheck(getattr(torch, name), (x, y))


def test_complex_gradients():
    z = _wrap(np.array([0.3 + 0.4j, -0.2 + 1j])).requires_grad_()
    for name in (
        "exp",
        "sin",
        "tanh",
        "reciprocal",
        "sqrt",
        "log",
        "abs",
        "angle",
        "sgn",
        "acosh",
        "sigmoid",
    ):
        assert torch.autograd.gradcheck(getattr(torch, name), (z,)), name


def test_equal_promotes_and_tolerances_may_be_tensors():
    x = torch.ones(2)
    assert torch.equal(x, x.double()) and torch.equal(x, x.long())
    assert not torch.equal(torch.ones(2, dtype=torch.int64), x * 1.5)
    assert torch.isclose(x, x * 1.01, rtol=torch.tensor(0.1), atol=torch.tensor(0.0)).all()
    assert torch.allclose(x, x * 1.01, rtol=torch.tensor(0.1))
    with pytest.raises(TypeError, match="must be float, not Tensor"):
        torch.isclose(x, x, rtol=torch.tensor([0.1, 0.2]))


def test_a_number_over_a_tensor_leaves_foreign_operands_to_python():
    class Foreign:
        def __truediv__(self, other):
            return "theirs"

    assert torch.ones(2).__rtruediv__(object()) is NotImplemented
    assert Foreign() / torch.ones(2) == "theirs"
    assert torch.ones(2).__rtruediv__(2.0).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("gap", [2, 4, 8])
def test_negation_with_gaps(dtype, gap):
    """NumPy's own gives wrong numbers for some of these."""
    for n in (3, 40, 3000):
        x = (torch.arange(n * gap) % 100).to(getattr(torch, dtype)).view(n, gap)
        wanted = -x[:, 1].contiguous()
        y, z = x.clone(), x.clone()
        y[:, 1].neg_()
        torch.neg(x[:, 1], out=z[:, 0])
        assert torch.equal(y[:, 1], wanted)
        assert torch.equal(z[:, 0], wanted)
        assert torch.equal(-x[:, 1], wanted)


NUMBERS_OF_CALLS = {
    "add": lambda x, n: x.add(x, alpha=n),
    "sub_": lambda x, n: x.clone().sub_(x, alpha=n),
    "addcmul": lambda x, n: x.addcmul(x, x, value=n),
    "addcdiv_": lambda x, n: x.clone().addcdiv_(x, x + 3, value=n),
    "addmm": lambda x, n: torch.eye(3).addmm(torch.eye(3), torch.eye(3), beta=n, alpha=n),
    "_foreach_add": lambda x, n: torch._foreach_add([x], [x], alpha=n)[0],
    "leaky_relu": torch.nn.functional.leaky_relu,
    "threshold": lambda x, n: torch.threshold(x, n, n),
    "elu": torch.nn.functional.elu,
    "hardtanh": lambda x, n: torch.nn.functional.hardtanh(x, -n, n),
    "norm": torch.norm,
}


@pytest.mark.parametrize("name", NUMBERS_OF_CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_a_tensor_without_dimensions_stands_for_a_number(name, dtype):
    call, x, n = (
        NUMBERS_OF_CALLS[name],
        torch.tensor([-2.0, 0.25, 1.0]),
        torch.tensor(2, dtype=dtype),
    )
    assert torch.equal(call(x, n), call(x, n.item()))


def test_a_bound_that_is_a_tensor_stays_one():
    x = torch.tensor([True, False])
    assert torch.clamp_min(x, torch.tensor(True)).tolist() == [True, True]
    assert x.clone().clamp_max_(torch.tensor(False)).tolist() == [False, False]
    assert torch.clamp_min(torch.tensor([1, -1]), torch.tensor(0.5)).tolist() == [1.0, 0.5]
