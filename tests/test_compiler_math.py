"""The kernels' functions of mathematics: the bounds that _codegen/kernels/math.py states, and special values."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import elementwise, inverse_trigonometry, math, trigonometry
from rushlight._codegen.language import lanes, load, store
from rushlight._codegen.types import Ptr, f32, f64, i64

TYPES = [f32, f64]
WIDE = {f32: np.float64, f64: np.longdouble}
INF, NAN = float("inf"), float("nan")
precise = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="no format wider than float64 to compare with"
)


@kernel
def each(F, x: Ptr[T], out: Ptr[T], n: i64):
    for i in lanes(0, n):
        out[i] = F(x[i])


def run(function, x, t):
    out = np.empty_like(x)
    each.compiled(F=function, T=t)(x, out, x.size)
    return out


def errors(got, exact):
    """In units in the last place of the exact value's neighbourhood."""
    t = got.dtype.type
    with np.errstate(all="ignore"):
        near = np.abs(exact).astype(got.dtype)
    near = np.minimum(near, np.nextafter(np.finfo(t).max, t(0)))
    unit = np.spacing(near).astype(exact.dtype)
    assert (np.isnan(got) == np.isnan(exact)).all()
    infinite = np.isinf(got)
    with np.errstate(all="ignore"):
        away = (
            np.abs(np.where(infinite, 0, got).astype(exact.dtype) - np.where(infinite, 0, exact))
            / unit
        )
        # Infinite where the exact value is more than the largest number, or next to it.
        beyond = np.abs(exact) >= np.finfo(t).max * (1 - 4 * np.finfo(t).eps)
    assert (beyond & (np.signbit(got) == np.signbit(exact)))[infinite].all()
    return np.where(np.isnan(exact), 0, away)


def everywhere(t, low, high, seed=0):
    """Numbers between two bounds: evenly, near 0 and of every size, and next to the bounds."""
    random = np.random.default_rng(seed)
    even = random.uniform(low, high, 60_000)
    sizes = 10.0 ** random.uniform(
        -45 if t is f32 else -320, np.log10(max(abs(low), abs(high))), 60_000
    )
    sizes *= np.where(random.random(60_000) < 0.5, -1, 1)
    with np.errstate(all="ignore"):
        x = np.concatenate([even, sizes, [low, high]]).astype(t.np)
    return x[(x >= low) & (x <= high)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


#                name: (exact, ULP, range for f32, range for f64)
FUNCTIONS = {
    "exp": (np.exp, 2, (-110, 100), (-760, 720)),
    "exp_normal": (np.exp, 2, (-87, 87), (-708, 708)),
    "exp2": (np.exp2, 2, (-160, 130), (-1100, 1030)),
    "expm1": (np.expm1, 3, (-110, 100), (-760, 720)),
    "log": (np.log, 2, (1e-45, 3.4e38), (5e-324, 1.7e308)),
    "log1p": (np.log1p, 3, (-0.9999999, 3.4e38), (-0.9999999999, 1.7e308)),
    "log1p_of_exp": (lambda x: np.logaddexp(x, 0), 1.5, (-87, 0), (-708, 0)),
    "log2": (np.log2, 3, (1e-45, 3.4e38), (5e-324, 1.7e308)),
    "log10": (np.log10, 3, (1e-45, 3.4e38), (5e-324, 1.7e308)),
    "tanh": (np.tanh, {f32: 1, f64: 3}, (-12, 12), (-25, 25)),
    "sigmoid": (sigmoid, 3, (-87, 100), (-708, 800)),
}  # fmt: skip


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds(name, t):
    exact, bound, single, double = FUNCTIONS[name]
    x = everywhere(t, *(single if t is f32 else double))
    if name in ("log", "log2", "log10"):
        x = np.concatenate([x, everywhere(t, 0.5, 2.0), 1 + everywhere(t, -1e-3, 1e-3)])
    if name in ("expm1", "log1p", "log1p_of_exp", "tanh", "sigmoid"):
        x = np.concatenate([x, everywhere(t, -0.99, 0.0 if name == "log1p_of_exp" else 1.0)])
    with np.errstate(all="ignore"):
        reference = exact(x.astype(WIDE[t]))
    found = errors(run(getattr(math, name), x, t), reference)
    worst = int(np.argmax(found))
    limit = bound[t] if isinstance(bound, dict) else bound
    assert found[worst] <= limit, f"{name}({x[worst]!r}) is {found[worst]} ULP off"


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_softplus(t):
    x = np.concatenate([everywhere(t, -80, 90), everywhere(t, -3, 3, 1)])
    found = errors(run(elementwise.softplus, x, t), np.logaddexp(x.astype(WIDE[t]), 0))
    worst = int(np.argmax(found))
    assert found[worst] <= 1.5, f"softplus({x[worst]!r}) is {found[worst]} ULP off"


INVERSE = {
    "arcsin": (np.arcsin, 3, (-1, 1), (-1, 1)),
    "arccos": (np.arccos, 2, (-1, 1), (-1, 1)),
    "arctan": (np.arctan, 2, (-3.4e38, 3.4e38), (-8e307, 8e307)),
    "arcsinh": (np.arcsinh, 3, (-3.4e38, 3.4e38), (-8e307, 8e307)),
    "arccosh": (np.arccosh, 3, (-2, 3.4e38), (-2, 8e307)),
    "sinh": (np.sinh, 2, (-100, 100), (-720, 720)),
    "cosh": (np.cosh, 2, (-100, 100), (-720, 720)),
}


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("name", INVERSE)
def test_bounds_of_inverse_and_hyperbolic_functions(name, t):
    exact, bound, single, double = INVERSE[name]
    x = everywhere(t, *(single if t is f32 else double))
    if name not in ("arcsin", "arccos"):
        x = np.concatenate([x, everywhere(t, -5.0, 5.0), 1 + everywhere(t, -1e-3, 1e-3)])
    else:
        x = np.concatenate([x, everywhere(t, 0.4, 0.6), 1 - np.abs(everywhere(t, -1e-3, 1e-3))])
    with np.errstate(all="ignore"):
        reference = exact(x.astype(WIDE[t]))
    found = errors(run(getattr(inverse_trigonometry, name), x, t), reference)
    worst = int(np.argmax(found))
    assert found[worst] <= bound, f"{name}({x[worst]!r}) is {found[worst]} ULP off"


@kernel
def each_pair(F, y: Ptr[T], x: Ptr[T], out: Ptr[T], n: i64):
    for i in lanes(0, n):
        out[i] = F(y[i], x[i])


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_the_angle_of_a_point(t):
    random = np.random.default_rng(0)
    y, x = random.permutation(everywhere(t, -9, 9)), random.permutation(everywhere(t, -9, 9, 1))
    n = min(len(x), len(y))
    ends = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40], t.np)
    y = np.concatenate([y[:n], np.repeat(ends, len(ends))])
    x = np.concatenate([x[:n], np.tile(ends, len(ends))])
    out = np.empty_like(x)
    each_pair.compiled(F=inverse_trigonometry.arctan2, T=t)(y, x, out, x.size)
    exact = np.arctan2(y.astype(WIDE[t]), x.astype(WIDE[t]))
    assert (np.signbit(out) == np.signbit(exact))[~np.isnan(exact)].all()
    found = errors(out, exact)
    worst = int(np.argmax(found))
    assert found[worst] <= 3, f"({y[worst]!r}, {x[worst]!r}): {found[worst]} ULP off"


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_where_exp_leaves_the_normal_numbers(t):
    """Below them results are rounded to what numbers there are: half a unit more."""
    x = np.linspace(*((-104, -86) if t is f32 else (-746, -707)), 20_001).astype(t.np)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(WIDE[t]))
    assert errors(run(math.exp, x, t), exact).max() <= 2
    got, least = run(math.exp_below, x, t), -87.68 if t is f32 else -708.73
    assert errors(got[x >= least], exact[x >= least]).max() <= 2
    assert (got[x < least - 0.02] == 0).all()


def erf_of(x):
    """erf in decimal arithmetic: the series whose terms are all positive."""
    with localcontext() as context:
        context.prec = 40
        x = Decimal(x)
        term = total = x
        n = 1
        while abs(term) > abs(total) * Decimal(10) ** -38:
            term = term * 2 * x * x / (2 * n + 1)
            total += term
            n += 1
        return +(total * 2 / PI.sqrt() * (-x * x).exp())


def tail_of(x):
    """(1 - erf(x / sqrt(2))) / 2 by the continued fraction of Laplace, or from the series."""
    with localcontext() as context:
        context.prec = 40
        x = Decimal(x)
        if x < 3:
            return (1 - erf_of(x / Decimal(2).sqrt())) / 2
        fraction = x
        for k in range(400, 0, -1):
            fraction = x + k / fraction
        return (-x * x / 2).exp() / (2 * PI).sqrt() / fraction


PI = Decimal("3.141592653589793238462643383279502884197169399375105820974944592307816")


def decimals(function, x):
    """The function's values at numbers, as the nearest of a wider format."""
    return np.array([np.longdouble(str(function(float(v)))) for v in x])


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_erf(t):
    random = np.random.default_rng(0)
    most = 4.5 if t is f32 else 6.5
    x = np.concatenate([
        np.linspace(-most, most, 401), np.linspace(0.8, 1.1, 200), [0.5, 0.9, 4.0, 6.0], np.nextafter([0.5, 0.9, 4.0, 6.0], 0.0),
        10.0 ** random.uniform(-37 if t is f32 else -300, 0, 100),
    ]).astype(t.np)  # fmt: skip
    assert errors(run(math.erf, x, t), decimals(erf_of, x)).max() <= (2 if t is f32 else 3)


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_normal_below(t):
    x = np.linspace(0, 12.9 if t is f32 else 37.4, 301).astype(t.np)
    got, exact = run(math.normal_below, -x, t), decimals(tail_of, x)
    normal = exact > 2 * np.finfo(t.np).tiny
    away = np.abs(got - exact)[normal] / exact[normal]
    fixed, growing = (3e-7, 3e-8) if t is f32 else (4e-15, 6e-17)
    assert (away <= fixed + growing * x[normal].astype(np.float64) ** 2).all(), away.max()
    assert (
        run(math.normal_below, -np.array([13.1 if t is f32 else 38.0, INF], t.np), t) == 0
    ).all()


@precise
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_erfc(t):
    def exact(x):
        with localcontext() as context:
            context.prec = 40
            tail = 2 * tail_of(abs(Decimal(x)) * Decimal(2).sqrt())
            return 2 - tail if x < 0 else tail

    most = 9.2 if t is f32 else 26.5  # where results are normal numbers
    x = np.concatenate([np.linspace(-most, most, 401), np.linspace(-1, 1, 200)]).astype(t.np)
    assert errors(run(math.erfc, x, t), decimals(exact, x)).max() <= 7
    beyond = np.array([9.5, 10.0, 10.05, 10.3, 50] if t is f32 else [26.8, 27.2, 27.5, 50], t.np)
    got, want = run(math.erfc, beyond, t), decimals(exact, beyond)
    assert (np.abs(got - want) <= 2 * np.finfo(t.np).smallest_subnormal).all()


SPECIAL = {
    "exp": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (1e4, INF), (-1e4, 0.0)],
    "expm1": [(INF, INF), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (-1e-40, -1e-40)],
    "log": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN)],
    "log1p": [(INF, INF), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (1e-40, 1e-40)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (50.0, 1.0), (1e-40, 1e-40)],
    "sigmoid": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (-0.0, 0.5), (-1e4, 0.0), (1e4, 1.0)],
    "erf": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (30.0, 1.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0), (-0.0, 1.0)],
    "normal_below": [(-INF, 0.0), (-50.0, 0.0)],
    "exp2": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (10.0, 1024.0), (-3.0, 0.125), (1e5, INF)],
    "erfcx": [(INF, 0.0), (-INF, INF), (-1e3, INF)],
    "arcsin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (INF, NAN), (1e-40, 1e-40)],
    "arccos": [(1.0, 0.0), (1.5, NAN), (-INF, NAN)],
    "arctan": [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40)],
    "sinh": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (1e4, INF), (1e-40, 1e-40)],
    "cosh": [(INF, INF), (-INF, INF), (0.0, 1.0), (-0.0, 1.0), (-1e4, INF)],
    "arcsinh": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40)],
    "arccosh": [(INF, INF), (-INF, NAN), (1.0, 0.0), (0.5, NAN), (-3.0, NAN)],
    "exp_below": [(-INF, 0.0), (0.0, 1.0), (-0.0, 1.0)],
    "exp_normal": [(0.0, 1.0)],
    "log2": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (8.0, 3.0), (0.125, -3.0)],
    "log10": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN)],
    "log1p_of_exp": [(-INF, 0.0), (-1e4, 0.0)],
}  # fmt: skip


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, t):
    given, expected = (np.array(v, t.np) for v in zip(*SPECIAL[name], (NAN, NAN), strict=True))
    # Alone and in every lane of vectors: the two are compiled apart.
    for repeat in (1, 16):
        file = math if hasattr(math, name) else inverse_trigonometry
        got = run(getattr(file, name), np.repeat(given, repeat), t)
        want = np.repeat(expected, repeat)
        np.testing.assert_array_equal(got, want)
        real = want == want
        assert (np.signbit(got) == np.signbit(want))[real].all()


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_smaller_numbers_have_smaller_functions(t):
    """Nowhere more than the stated error below the value before: no jump at the seams of two formulas."""
    for name, bound in (("exp", 2), ("tanh", 3), ("erf", 3), ("sigmoid", 3), ("log1p", 3)):
        x = np.linspace(-0.99 if name == "log1p" else -8, 8, 200_001).astype(t.np)
        y = run(getattr(math, name), x, t)
        assert (y[1:] - y[:-1] >= -2 * bound * np.spacing(np.abs(y[:-1]))).all(), name


@kernel
def each_vector(F, x: Ptr[T], out: Ptr[T], n: i64):
    for i in range(0, n, 16):
        store(out + i, F(load(x + i, 16)))


@precise
@pytest.mark.parametrize(
    "compiled", [each.compiled, each_vector.compiled], ids=["numbers", "vectors"]
)
@pytest.mark.parametrize(("name", "bound"), [("sin", 2), ("cos", 2), ("tan", 4)])
@pytest.mark.parametrize("t", TYPES, ids=str)
def test_bounds_of_sines(t, compiled, name, bound):
    """Near multiples of pi / 2 too, and far from 0."""
    random = np.random.default_rng(0)
    multiples = random.integers(-(2**29), 2**29, 16_000) * (np.pi / 2)
    sizes = 10.0 ** random.uniform(-300, 300, 16_000) * random.choice([-1, 1], 16_000)
    edges = [
        0.0,
        -0.0,
        INF,
        -INF,
        NAN,
        2.0**30,
        2.0**30 + 1,
        np.pi,
        1e22,
        1e300,
        5e-324,
        1,
        -1,
        2,
        3,
        4,
    ]
    with np.errstate(all="ignore"):
        x = np.concatenate([random.uniform(-40, 40, 64_000), multiples, sizes, edges]).astype(t.np)
    out = np.empty_like(x)
    compiled(F=getattr(trigonometry, name), T=t)(x, out, x.size)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(WIDE[t]))
    assert errors(out, exact).max() <= bound
    assert (np.signbit(out) == np.signbit(exact))[exact == exact].all()


def test_every_function_is_tried_here():
    from rushlight._codegen.language import Source

    pieces = {
        "horner",
        "power_of_two",
        "reduced",
        "log_reduced",
        "log_ends",
        "monic",
        "normal_parts",
    }
    functions = {k for k, v in vars(math).items() if isinstance(v, Source)} - pieces
    assert functions <= set(SPECIAL)
