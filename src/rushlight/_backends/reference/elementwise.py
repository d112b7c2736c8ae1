"""Kernels of arithmetic, comparison and bits that NumPy lacks or means differently.

All inputs of a kernel have one dtype (promotion was done before), or are Python numbers where the
straight path hands them over.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import dtypes, modes
from rushlight.core.dtype_sets import F16, F32, F64, REDUCED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight._backends.protocol.array import Array, Number

KERNELS = (
    "add_scaled addcdiv addcmul angle ceil clip clip_arrays copysign copysign_gradient "
    "deg2rad fill floor floor_divide fmod frac frexp heaviside hypot is_exact is_float "
    "isfinite isinf isnan isneginf isposinf ldexp left_shift lerp logaddexp logaddexp2 logit "
    "logit_gradient nan_to_num negative nextafter power rad2deg remainder reverse_subtract right_shift rint "
    "round_to rsqrt sgn sigmoid sign signbit sinc threshold_gradient trunc trunc_divide with_wide_number"
).split()

ZERO = np.zeros((), F32)


def negative(a: Any, out: Any = None, **options: Any) -> Any:
    """`-a`. NumPy's own (2.4.6) gives wrong numbers where elements are 16 bytes (of 4 each) or 64 (of 8 each) apart and
    the result has gaps, too."""
    if out is not None and not out.flags.forc:
        out[...] = np.negative(a, **options)
        return out
    return np.negative(a, out=out, **options)


negative.__wrapped__ = np.negative  # type: ignore[attr-defined] # it behaves as the ufunc
negative.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # of the contract
    [inspect.Parameter("a", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
)


def wide(kernel: Callable) -> Callable:
    """The kernel, computed in float32 for float16 and bfloat16, and rounded once."""

    @wraps(kernel)
    def computed(first: Any, *rest: Any) -> Any:
        d = first.dtype
        if d is F32 or d is F64 or d not in REDUCED:
            return kernel(first, *rest) if rest else kernel(first)
        rest = tuple([r.astype(F32) if hasattr(r, "astype") else r for r in rest])
        return kernel(first.astype(F32), *rest).astype(d)

    return computed


def dtype_with(a: np.ndarray, *numbers: Any) -> np.dtype:
    """The dtype of a computation on `a` and Python numbers (None for those that are left out)."""
    own = dtypes.OF[a.dtype]
    wrapped = None
    for n in numbers:
        if n is not None:
            d = modes.scalar_dtype(n)
            wrapped = d if wrapped is None else dtypes.promote_types(wrapped, d)
    return dtypes.result_dtype(*((own, None) if a.ndim else (None, own)), wrapped).np


def is_float(a: Any) -> bool:
    """Whether the dtype is floating (not complex)."""
    return dtypes.OF[a.dtype].kind == 2


def is_exact(a: Any) -> bool:
    """Whether the dtype is bool or an integer."""
    return a.dtype.kind in "iub"


# -- arithmetic ------------------------------------------------------------------------------------


def reverse_subtract(a: Any, b: Any) -> Any:
    """b - a."""
    return np.subtract(b, a)


def refuse_zero(b: Any) -> None:
    """Integers: PyTorch raises where a divisor is zero."""
    if not (b.all() if b.__class__ is np.ndarray else b):
        raise RuntimeError("ZeroDivisionError")


@wide
def remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor; a zero keeps the sign of the dividend."""
    if is_exact(a):
        refuse_zero(b)
        return np.remainder(a, b)
    m = np.asarray(np.fmod(a, b))
    odd = (m != 0) & ((m < 0) != np.less(b, 0))
    return np.add(m, b, out=m, where=odd)


def fmod(a: Any, b: Any) -> Any:
    """The remainder with the sign of the dividend."""
    if is_exact(a):
        refuse_zero(b)
    return np.fmod(a, b)


def floor_divide(a: Any, b: Any) -> Any:
    """The quotient rounded down."""
    if is_exact(a):
        refuse_zero(b)
    return np.floor_divide(a, b)


@wide
def trunc_divide(a: Any, b: Any) -> Any:
    """The quotient rounded towards zero."""
    if not is_exact(a):
        return np.trunc(np.divide(a, b))
    refuse_zero(b)
    q = np.asarray(np.floor_divide(a, b))
    if a.dtype.kind == "i":  # one up where the exact quotient is negative and no integer
        q += ((np.less(a, 0) != np.less(b, 0)) & (np.multiply(q, b) != a)).astype(q.dtype)
    return q


def power(a: Any, b: Any) -> Any:
    """`a` to the power of `b`; common exponents by products, as PyTorch computes them."""
    if a.__class__ is not np.ndarray:
        a = np.asarray(a)
    d = a.dtype
    if d.kind in "iu":
        return integer_power(a, b)
    if getattr(b, "ndim", 0) == 0:
        n = b.item() if isinstance(b, np.ndarray) else b
        if n == 2:
            return np.square(a)
        if n == 1:
            return a.copy() if np.ndim(b) <= a.ndim else a
        if n == 0.5 and d is not F16:
            return np.sqrt(a)
        if n == 3 and d is not F16:
            return a * a * a
        if d not in REDUCED:
            if n == -1:
                return np.reciprocal(a)
            if n == -2:
                return np.reciprocal(a * a)
            if n == -0.5:
                return np.reciprocal(np.sqrt(a))
            if d.kind == "c" and n == 0:
                return np.ones_like(a)
    return np.power(a, b)


def integer_power(a: np.ndarray, b: Any) -> Any:
    """Integers wrap around; a negative exponent gives 0, save for the bases 1 and -1."""
    if b.__class__ is int and b < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    b = np.asarray(b)
    if b.dtype.kind == "u" or not (b < 0).any():
        return np.power(a, b.astype(a.dtype))
    r = np.asarray(np.power(a, np.maximum(b, 0).astype(a.dtype)))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)).astype(a.dtype)
    return np.where(b < 0, unit, r)


def clip(a: np.ndarray, low: Number | None, high: Number | None) -> np.ndarray:
    """`a` between two Python numbers, either may be None; NaN stays."""
    if a.dtype.kind != "f" or low.__class__ not in PLAIN or high.__class__ not in PLAIN:
        for n in (low, high):
            if n is not None and not isinstance(n, (int, float, np.number, np.bool_)):
                raise TypeError(
                    f"clamp(): a bound must be a number or a tensor, not {type(n).__name__}"
                )
        d = dtype_with(a, low, high)
        if d.kind == "b":
            raise NotImplementedError("\"clamp_cpu\" not implemented for 'Bool'")
        if d is not a.dtype:
            a = a.astype(d)
        low = None if low is None else bound(low, d)
        high = None if high is None else bound(high, d)
    if low is None:
        if high is None:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        return np.minimum(high, a)
    r = np.maximum(low, a)  # of equal ones the second, whose sign may be another
    return r if high is None else np.minimum(high, r)


PLAIN = frozenset((float, int, type(None)))


def bound(n: Any, d: np.dtype) -> Any:
    """A bound in the dtype of the result; RuntimeError where an integer type cannot hold it,
    OverflowError where none can. Below 0 it wraps around, as in C."""
    if d.kind not in "iu":
        return np.asarray(n).astype(d)
    if not -(1 << 63) <= n < 1 << 64:
        raise OverflowError("int too big to convert")
    limits = np.iinfo(d)
    if not (-limits.max if d.kind == "u" else limits.min) <= n <= limits.max:
        name = "int" if d == np.int32 else f"{d}_t"  # C++'s
        raise RuntimeError(f"value cannot be converted to type {name} without overflow: {n}")
    return np.array(int(n) % (limits.max + 1) if d.kind == "u" else int(n), d)


def clip_arrays(a: Any, low: Array | None, high: Array | None) -> Any:
    """`a` between two arrays, either may be None."""
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def add_scaled(a: Any, b: Any, factor: Number) -> Any:
    """a + factor * b; of half types the factor is rounded to half, the sum once."""
    d = a.dtype
    if d.kind == "b":
        return a | b if factor else a | np.zeros_like(b)
    factor = np.asarray(factor).astype(d)
    if d in REDUCED:
        return (a.astype(F32) + b.astype(F32) * factor.astype(F32)).astype(d)
    return np.add(a, np.multiply(b, factor))


def with_wide_number(kernel: Callable, a: Any, b: Any) -> Any:
    """`kernel` of a half type and one number, which is float32, as the computation; rounded once."""
    return kernel(a.astype(F32), np.asarray(b).astype(F32)).astype(a.dtype)


@wide
def lerp(a: Any, end: Any, weight: Any) -> Any:
    """a + weight * (end - a), exact at both ends."""
    if not isinstance(weight, np.ndarray):
        weight = np.asarray(weight, a.dtype)
    away = np.subtract(end, a)
    near = np.abs(weight) < 0.5
    if near.ndim == 0:
        return a + weight * away if near else end - away * (1 - weight)
    return np.where(near, a + weight * away, end - away * (1 - weight))


def threshold_gradient(g: np.ndarray, a: np.ndarray, threshold: float) -> np.ndarray:
    """g where `a` is above the threshold or NaN, else 0."""
    return np.where(a <= threshold, ZERO if g.dtype is F32 else g.dtype.type(0), g)


def scaled(value: Any, d: np.dtype) -> Any:
    return np.asarray(value).astype(F32 if d in REDUCED else d)


@wide
def addcmul(a: Any, b: Any, c: Any, value: Number) -> Any:
    """a + value * b * c."""
    if value == 1:
        return np.add(a, np.multiply(b, c))
    return np.add(a, np.multiply(np.multiply(b, scaled(value, a.dtype)), c))


@wide
def addcdiv(a: Any, b: Any, c: Any, value: Number) -> Any:
    """a + value * b / c."""
    if value == 1:
        return np.add(a, np.divide(b, c))
    return np.add(a, np.divide(np.multiply(b, scaled(value, a.dtype)), c))


@wide
def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b))."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)
    high = np.where(np.real(a) < np.real(b), b, a)
    low = np.where(np.real(a) < np.real(b), a, b)
    same = (high == low) & ~np.isfinite(np.real(high))
    return np.where(same, high, high + np.log1p(np.exp(low - high)))


@wide
def logaddexp2(a: Any, b: Any) -> Any:
    """log2(2**a + 2**b)."""
    return np.logaddexp2(a, b)


@wide
def hypot(a: Any, b: Any) -> Any:
    """sqrt(a*a + b*b) without overflow."""
    return np.hypot(a, b)


def copysign(a: Any, b: Any) -> Any:
    """|a| with the sign of b."""
    return np.copysign(a, b)


def frexp(a: Any) -> Any:
    """Mantissa and exponent (int32); of NaN and the infinities the exponent is 0."""
    if a.dtype in REDUCED:
        m, e = np.frexp(a.astype(F32))
        return m.astype(a.dtype), e
    return np.frexp(a)


def no_shift(b: Any, bits: int) -> Any:
    return (np.less(b, 0) if np.asarray(b).dtype.kind == "i" else False) | np.greater_equal(b, bits)


def left_shift(a: Any, b: Any) -> Any:
    """`a << b`, 0 for a shift that is negative or no less than the number of bits."""
    if np.ndim(b) == 0 and 0 <= b < a.dtype.itemsize * 8:
        return np.left_shift(a, b)
    odd = no_shift(b, a.dtype.itemsize * 8)
    zero = np.zeros((), a.dtype)
    return np.where(odd, zero, np.left_shift(a, np.where(odd, zero, b)))


def right_shift(a: Any, b: Any) -> Any:
    """`a >> b`, filled with the sign; out of range all bits are the sign."""
    bits = a.dtype.itemsize * 8
    if np.ndim(b) == 0 and 0 <= b < bits:
        return np.right_shift(a, b)
    last = np.asarray(bits - 1, a.dtype)
    return (
        np.right_shift(a, np.where(no_shift(b, bits), last, b))
        if a.dtype.kind == "i"
        else (
            np.where(
                no_shift(b, bits), np.zeros((), a.dtype), np.right_shift(a, np.minimum(b, last))
            )
        )
    )


def heaviside(a: Any, b: Any) -> Any:
    """0 below zero, 1 above, `b` at zero; NaN counts as neither below nor zero."""
    if a.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    return np.where(np.equal(a, 0), b, np.asarray(np.greater(a, 0)).astype(a.dtype)).astype(a.dtype)


def nextafter(a: Any, b: Any) -> Any:
    """The next number after a towards b."""
    return np.nextafter(a, b)


def ldexp(a: Any, b: Any) -> Any:
    """a * 2**b for integers `b`, in the dtype of `a`."""
    if b.dtype.kind == "b":
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
    d = a.dtype
    a = a.astype(F32) if d in REDUCED else a
    return np.ldexp(a, np.clip(b, -30000, 30000).astype(np.int32)).astype(d)


@wide
def logit(a: Any, eps: float | None) -> Any:
    """log(a / (1 - a))."""
    if eps is not None:
        a = np.minimum(np.maximum(a, a.dtype.type(eps)), a.dtype.type(1 - eps))
    return np.log(np.divide(a, 1 - a))


@wide
def logit_gradient(g: Any, a: Any, low: float, high: float, beyond: float) -> Any:
    """g / (a (1 - a)) where `a` is between two numbers, else `beyond`."""
    with np.errstate(all="ignore"):
        inside = (a >= low) & (a <= high)
        return np.where(inside, g / (a * (1 - a)), g.dtype.type(beyond))


@wide
def copysign_gradient(g: Any, a: Any, result: Any) -> Any:
    """g times the sign that `copysign` gave `a`; 0 where `a` is 0."""
    with np.errstate(all="ignore"):
        return np.where(a == 0, g.dtype.type(0), g * (result / a))


@wide
def sinc(a: Any) -> Any:
    """sin(pi a) / (pi a)."""
    p = np.multiply(a, a.dtype.type(np.pi))
    zero = np.equal(a, 0)
    return np.where(zero, np.ones((), a.dtype), np.sin(p) / np.where(zero, np.ones((), a.dtype), p))


# -- unary -----------------------------------------------------------------------------------------


@wide
def rsqrt(a: Any) -> Any:
    """1 / sqrt(a)."""
    r = np.sqrt(a)
    return np.reciprocal(r)


@wide
def sigmoid(a: Any) -> Any:
    """1 / (1 + exp(-a))."""
    r = np.negative(a) if a.ndim else np.negative(a, out=np.empty_like(a))
    np.exp(r, r)
    r += 1
    return np.reciprocal(r, r)


def sign(a: Any) -> Any:
    """-1, 0 or 1; 0 for NaN."""
    if a.dtype.kind == "b":
        return a.copy()
    if a.dtype.kind in "iu":
        return np.sign(a)
    return (np.greater(a, 0).view(np.int8) - np.less(a, 0).view(np.int8)).astype(a.dtype)


def sgn(a: Any) -> Any:
    """The sign; of a complex number z / |z|."""
    if a.dtype.kind != "c":
        return sign(a)
    size = np.abs(a)
    return np.where(size == 0, np.zeros((), a.dtype), a / np.where(size == 0, 1, size))


def angle(a: Any) -> Any:
    """The angle of complex numbers; pi below zero and 0 above of real ones, NaN of NaN."""
    if a.dtype.kind == "c":
        return np.arctan2(a.imag, a.real)
    flat = np.less(a, 0) * a.dtype.type(np.pi)
    return np.where(np.isnan(a), a, flat.astype(a.dtype))


def rounding(function: Callable) -> Callable:
    """A kernel that leaves integers as they are."""

    def kernel(a: Any) -> Any:
        return a.copy(order="K") if a.dtype.kind in "iu" else function(a)

    kernel.__name__ = function.__name__
    kernel.__doc__ = f"`{function.__name__}` of NumPy; integers as they are."
    return kernel


floor, ceil, trunc, rint = map(rounding, (np.floor, np.ceil, np.trunc, np.rint))


@wide
def round_to(a: Any, decimals: int) -> Any:
    """Rounded half to even at `decimals` digits, as PyTorch does it: scaled, rounded, scaled back."""
    ten = a.dtype.type(10.0 ** abs(decimals))
    return np.rint(a * ten) / ten if decimals > 0 else np.rint(a / ten) * ten


def frac(a: Any) -> Any:
    """What is behind the point, with the sign of `a`."""
    return np.subtract(a, np.trunc(a))


@wide
def deg2rad(a: Any) -> Any:
    """a * pi / 180."""
    return a * a.dtype.type(np.pi / 180)


@wide
def rad2deg(a: Any) -> Any:
    """a * 180 / pi."""
    return a * a.dtype.type(180 / np.pi)


def isnan(a: Any) -> Any:
    """NaN."""
    return np.zeros(a.shape, bool) if a.dtype.kind in "iub" else np.isnan(a)


def isinf(a: Any) -> Any:
    """Infinite."""
    return np.zeros(a.shape, bool) if a.dtype.kind in "iub" else np.isinf(a)


def isfinite(a: Any) -> Any:
    """Neither infinite nor NaN."""
    return np.ones(a.shape, bool) if a.dtype.kind in "iub" else np.isfinite(a)


def isposinf(a: Any) -> Any:
    """+infinity."""
    return _is_infinity(a, np.inf)


def isneginf(a: Any) -> Any:
    """-infinity."""
    return _is_infinity(a, -np.inf)


def _is_infinity(a: Any, which: float) -> Any:
    if a.dtype.kind == "c":
        raise RuntimeError("isposinf and isneginf do not support complex inputs.")
    if is_float(a):
        return np.equal(a, which)
    if a.flags.c_contiguous or not a.flags.f_contiguous:
        return np.zeros(a.shape, bool) if a.flags.c_contiguous else np.zeros_like(a, bool)
    return np.zeros(a.shape[::-1], bool).T


def signbit(a: Any) -> Any:
    """The sign is set, of -0.0 too."""
    if a.dtype.kind == "i":
        return np.less(a, 0)
    return np.zeros(a.shape, bool) if a.dtype.kind in "ub" else np.signbit(a)


def nan_to_num(a: Any, nan: Number | None, posinf: Number | None, neginf: Number | None) -> Any:
    """NaN and the infinities replaced; None: 0, the largest and the lowest number of the dtype."""
    if a.dtype.kind in "iub":
        return a.copy(order="K")
    if a.dtype.kind == "c":
        r = np.empty_like(a)
        r.real = nan_to_num(np.asarray(a.real), nan, posinf, neginf)
        r.imag = nan_to_num(np.asarray(a.imag), nan, posinf, neginf)
        return r
    from rushlight.core.type_info import finfo

    info = finfo(dtypes.OF[a.dtype])
    r = a.copy(order="K")
    for where, value, default in (
        (np.isnan(a), nan, 0.0),
        (np.equal(a, np.inf), posinf, info.max),
        (np.equal(a, -np.inf), neginf, info.min),
    ):
        np.copyto(r, np.asarray(default if value is None else value).astype(a.dtype), where=where)
    return r


def fill(a: Any, value: Number) -> None:
    """`a[...] = value`, a number; by their bits for halves, which NumPy writes one by one."""
    if a.itemsize == 2 and a.nbytes > 4096 and a.__class__ is np.ndarray:
        a, value = a.view(np.uint16), np.asarray(value, a.dtype).view(np.uint16)
    a[...] = value
