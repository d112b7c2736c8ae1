"""Elementwise operators against PyTorch: every pair of dtypes, numbers, special values, errors."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import rushlight
from rushlight.core import dtypes
from rushlight.core.tensor import _wrap

torch = pytest.importorskip("torch")
warnings.filterwarnings("ignore", module="torch")

NAMES = [
    d.name for d in dtypes.NAMED if d.name not in ("uint16", "uint32", "uint64")
]  # complex32: test_dtypes_oracle.py
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, float("inf"), -float("inf"), float("nan")]
INTEGERS = [0, 1, 2, 3, 7, 100, 127, 5, -1, -2, -7]


def values(name: str, flip: bool = False) -> np.ndarray:
    """Some values of a dtype, as a torch tensor and ours alike."""
    d = getattr(dtypes, name if name != "bool" else "bool_")
    if d.kind >= 2:
        with np.errstate(all="ignore"):
            a = np.array(SPECIAL)
            a = a[::-1].copy() if flip else a
            if d.kind == 3:
                a = a[:8] if not flip else a[3:]
                a = a + 1j * a[::-1]
            return a.astype(d.np)
    a = np.array(INTEGERS[::-1] if flip else INTEGERS)
    return a.astype(d.np)


def theirs(a: np.ndarray):
    name = dtypes.OF[a.dtype].name
    if name == "bfloat16":
        return torch.from_numpy(a.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(a.copy())


def outcome(f):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f()
    except Exception as e:  # the type of the error is what is compared
        return e


def agree(ours, expected, what: str, rtol: float | None = None) -> str | None:
    """None, or what differs."""
    if isinstance(expected, Exception):
        if not isinstance(ours, Exception):
            return f"{what}: no error, PyTorch raises {type(expected).__name__}: {expected}"
        if not isinstance(ours, (RuntimeError, TypeError, NotImplementedError, ValueError)):
            return f"{what}: {ours!r}, PyTorch: {expected!r}"
        return None
    if isinstance(ours, Exception):
        return f"{what}: {type(ours).__name__}: {ours}"
    if str(ours.dtype) != str(expected.dtype):
        return f"{what}: {ours.dtype}, PyTorch {expected.dtype}"
    e = expected.to(torch.complex128 if expected.is_complex() else torch.float64).numpy()
    a = ours._array.astype(e.dtype)
    if a.shape != e.shape:
        return f"{what}: shape {a.shape}, PyTorch {e.shape}"
    if rtol is None:
        rtol = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "complex64": 2e-6}.get(
            ours.dtype.name, 1e-12
        )
    with np.errstate(all="ignore"):
        if not np.allclose(a, e, rtol=rtol, atol=1e-12 if rtol < 1e-9 else 1e-7, equal_nan=True):
            bad = ~np.isclose(a, e, rtol=rtol, atol=1e-7, equal_nan=True)
            return f"{what}: {a[bad][:4]}, PyTorch {e[bad][:4]} at {np.flatnonzero(bad)[:4]}"
        if e.dtype.kind == "f" and not np.isnan(e).any():
            zeros = (e == 0) & (np.signbit(a) != np.signbit(e))
            if zeros.any():
                return f"{what}: sign of zero at {np.flatnonzero(zeros)}"
    return None


BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "rsub",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "atan2",
    "hypot",
    "copysign",
    "nextafter",
    "ldexp",
    "gcd",
    "lcm",
    "logaddexp",
    "logaddexp2",
    "heaviside",
    "float_power",
    "true_divide",
    "xlogy",
    "igamma",
    "igammac",
    "clamp_min",
    "clamp_max",
]
UNARY = [
    "abs",
    "neg",
    "positive",
    "sign",
    "sgn",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "trunc",
    "round",
    "frac",
    "deg2rad",
    "rad2deg",
    "sinc",
    "logit",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "isreal",
    "signbit",
    "logical_not",
    "bitwise_not",
    "nan_to_num",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "i0",
    "angle",
    "conj_physical",
    "frexp",
]


def set_aside(name: str, *operands: object) -> bool:
    """What is not compared: complex32, which we lack; PyTorch's sums of complex infinities, where it
    multiplies by alpha = 1 and gets NaN; its complex logaddexp and ldexp, which overflow."""
    kinds = {str(getattr(x, "dtype", type(x).__name__)) for x in operands}
    if "float16" in kinds and kinds & {"complex", "complex64", "complex128"}:
        return True
    is_complex = any(k.startswith("complex") for k in kinds)
    return is_complex and name in ("add", "sub", "rsub", "logaddexp", "ldexp", "+", "-")


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_dtypes(name):
    """Every pair of dtypes with dimensions: dtype and values of the result, or the error."""
    odd = []
    ours, expected = getattr(rushlight, name), getattr(torch, name)
    for x, y in itertools.product(NAMES, NAMES):
        a, b = values(x), values(y, flip=True)
        if set_aside(name, a, b):
            continue
        n = min(len(a), len(b))
        a, b = a[:n], b[:n]
        if (
            name in INTEGER_DIVISION
            and not dtypes.promote_types(dtypes.OF[a.dtype], dtypes.OF[b.dtype]).is_floating_point
        ):
            b = np.where(b == 0, np.ones((), b.dtype), b)
        if name.endswith("shift"):
            b = np.abs(b) % 5 if b.dtype.kind == "i" else b
        got = agree(
            outcome(lambda: ours(_wrap(a), _wrap(b))),
            outcome(lambda: expected(theirs(a), theirs(b))),
            f"{name}({x}, {y})",
        )
        if got:
            odd.append(got)
    assert not odd, f"{len(odd)} of {len(NAMES) ** 2}\n" + "\n".join(odd[:12])


INTEGER_DIVISION = ("floor_divide", "remainder", "fmod")
NUMBERS = (2, 3, -1, True, 0.5, -2.5, float("nan"), 1 + 2j)
WITH_NUMBERS = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "rsub",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "copysign",
    "float_power",
    "true_divide",
    "xlogy",
    "clamp_min",
    "clamp_max",
    "clamp",
]


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers(name):
    """Python numbers with every dtype, tensors with dimensions and without."""
    odd = []
    ours, expected = getattr(rushlight, name), getattr(torch, name)
    for x, n in itertools.product(NAMES, NUMBERS):
        for a in (values(x), values(x)[3]):
            a = np.asarray(a)
            if set_aside(name, a, n) or (name == "pow" and x == "bool" and n is True):
                continue
            got = agree(
                outcome(lambda: ours(_wrap(a), n)),
                outcome(lambda: expected(theirs(a), n)),
                f"{name}({x}{list(a.shape)}, {n!r})",
            )
            if got:
                odd.append(got)
    assert not odd, f"{len(odd)}\n" + "\n".join(odd[:12])


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    """Every dtype, special values included."""
    odd = []
    ours, expected = getattr(rushlight, name), getattr(torch, name)
    for x in NAMES:
        a = values(x)
        o, e = outcome(lambda: ours(_wrap(a))), outcome(lambda: expected(theirs(a)))
        if name == "frexp" and not isinstance(e, Exception) and not isinstance(o, Exception):
            o, e = o[0], e[0]
        got = agree(o, e, f"{name}({x})")
        if got:
            odd.append(got)
    assert not odd, "\n".join(odd)


REVERSED = {
    "+": lambda n, t: n + t, "-": lambda n, t: n - t, "*": lambda n, t: n * t, "/": lambda n, t: n / t,
    "//": lambda n, t: n // t, "%": lambda n, t: n % t, "**": lambda n, t: n**t, "&": lambda n, t: n & t,
    "|": lambda n, t: n | t, "^": lambda n, t: n ^ t, "<<": lambda n, t: n << t, ">>": lambda n, t: n >> t,
    "<": lambda n, t: n < t, "==": lambda n, t: n == t,
}  # fmt: skip


@pytest.mark.parametrize("sign", REVERSED)
def test_number_before_tensor(sign):
    odd = []
    f = REVERSED[sign]
    for x, n in itertools.product(NAMES, (2, 7, True, 0.5, -3.5, 2j)):
        a = values(x)
        if set_aside(sign, a, n):
            continue
        a = np.where(a == 0, np.ones((), a.dtype), a) if sign in ("//", "%") else a
        if sign in ("<<", ">>") and a.dtype.kind == "i":
            a = np.abs(a) % 5
        got = agree(
            outcome(lambda: f(n, _wrap(a))), outcome(lambda: f(n, theirs(a))), f"{n!r} {sign} {x}"
        )
        if got:
            odd.append(got)
    assert not odd, f"{len(odd)}\n" + "\n".join(odd[:12])


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "pow", "remainder", "eq", "clamp_min"]
)
def test_zero_dimensions_promote_weakly(name):
    odd = []
    ours, expected = getattr(rushlight, name), getattr(torch, name)
    for x, y in itertools.product(NAMES, NAMES):
        a, b = values(x), np.asarray(values(y)[2])
        for p, q in ((a, b), (b, a)):
            if set_aside(name, p, q):
                continue
            if name == "remainder":
                q = np.where(q == 0, np.ones((), q.dtype), q)
            got = agree(
                outcome(lambda: ours(_wrap(p), _wrap(q))),
                outcome(lambda: expected(theirs(p), theirs(q))),
                f"{name}({x}{list(p.shape)}, {y}{list(q.shape)})",
            )
            if got:
                odd.append(got)
    assert not odd, f"{len(odd)}\n" + "\n".join(odd[:12])


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "remainder",
        "eq",
        "logical_and",
        "atan2",
        "exp",
        "sqrt",
        "round",
        "abs",
    ],
)
def test_in_place(name):
    """In place: the same values, or RuntimeError where the result's dtype does not fit."""
    odd = []
    binary = name in BINARY
    for x, y in itertools.product(NAMES, NAMES if binary else [""]):
        a = values(x)
        more = (values(y, flip=True)[: len(a)],) if binary else ()
        a = a[: len(more[0])] if binary else a
        if set_aside(name, a, *more):
            continue
        if name == "remainder":
            more = (np.where(more[0] == 0, np.ones((), more[0].dtype), more[0]),)
        got = agree(
            outcome(lambda: getattr(_wrap(a.copy()), name + "_")(*map(_wrap, more))),
            outcome(lambda: getattr(theirs(a), name + "_")(*map(theirs, more))),
            f"{name}_({x}, {y})",
        )
        if got:
            odd.append(got)
    assert not odd, f"{len(odd)}\n" + "\n".join(odd[:12])
