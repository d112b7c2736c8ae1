"""Elementwise kernels as machine code; see `__init__.py` for when they run.

Each is a ufunc of ours for the dtypes that it is made for (see _codegen/kernels/pointwise.py), so arrays may
have any strides and broadcast; all else is the reference's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from operator import mul, truediv
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.registration import Binding, implements
from rushlight._backends.llvm.views import COPY, contiguous, in_memory_order
from rushlight._backends.reference import conversion, layout, views
from rushlight._backends.reference import elementwise as numpy_elementwise
from rushlight._codegen import language
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import activations, arithmetic, elementwise, math
from rushlight._codegen.kernels.pointwise import (
    ANY,
    CHEAP,
    COSTLY,
    FLOAT_TYPES,
    LANES,
    SINGLES,
    Pointwise,
)
from rushlight._codegen.native_entry import ByDtype
from rushlight._codegen.types import (
    Type,
    b1,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    of,
    u8,
    u16,
    u32,
    u64,
)
from rushlight.core import dtypes
from rushlight.core.dtype_sets import (
    BOOL,
    F16,
    F32,
    F64,
    FLOATING,
    FULL,
    I32,
    I64,
    REDUCED,
    U8,
    U16,
    U32,
    U64,
)

SMALL = threshold(1)  # elements from which a kernel takes less time than NumPy's passes
SHORT = threshold(64)  # and than NumPy's `where`
MIXED = threshold(16384)  # elements from which arrays are copied into one order first
NUMBERS = (float, int, bool)


def number_of(d: np.dtype, bound: bool) -> Callable[[float], Any]:
    """What makes a Python number the operand of a kernel of that dtype. With half types a `bound`,
    which elements are compared with, is rounded to that dtype first, as they were."""
    if d is F64 or d.kind in "iu":
        return d.type
    if bound and d.itemsize == 2:
        return lambda value: np.float32(np.asarray(value).astype(d))
    return np.float32


class Elementwise(Binding):
    """A function of the kernel language, of some arrays of one dtype and some Python numbers.

    `bounds`: elements of half types are compared with the numbers. `output`: the type of the result, where it is another.
    `vectors`: lanes of those that the function is written for. `half`: the function of bits that serves half types.
    `kinds`: of some types, what gives the number of an element's kind, and for each kind the function of its vectors.
    """

    def __init__(
        self, function: Any, arrays: int = 1, numbers: int = 0, grain: int = COSTLY, bounds: bool = False,
        types: tuple[Type, ...] = FLOAT_TYPES, output: Type | None = None, vectors: int = 0, half: Any = None,
        kinds: dict[Type, tuple] | None = None,
    ) -> None:  # fmt: skip
        self.function, self.arrays, self.numbers, self.bounds = function, arrays, numbers, bounds
        self.ufuncs = Pointwise(
            function, arrays, numbers, grain, output, types, vectors, half=half, kinds=kinds
        )
        self.entries = self.ufuncs.entries(types=(f32, f64) if bounds else ANY)

    @classmethod
    def of(cls, **how: Any) -> Callable[[Callable], Elementwise]:
        """The function that is decorated, in the kernel language."""
        return lambda function: cls(language.inline(function), **how)

    @property
    def formula(self) -> Pointwise:
        return self.ufuncs

    def bind(self, reference: Callable) -> Callable:
        """The function that checks the arguments and calls a ufunc of ours, or the reference."""
        ufuncs, arrays, numbers, bounds = self.ufuncs, self.arrays, self.numbers, self.bounds

        def compiled(*args: Any, out: np.ndarray | None = None) -> Any:
            a = args[0]
            if a.__class__ is np.ndarray and (u := ufuncs[a.dtype]) is not None:
                d, size = a.dtype, 0
                if d.kind not in "iub" and any(b.__class__ in NUMBERS for b in args[1:arrays]):
                    operands = [np.asarray(b, d) for b in args[:arrays]]  # as by any other way
                    args = (*operands, *args[arrays:])
                for b in args[:arrays]:
                    if b.__class__ is not np.ndarray or b.dtype is not d:
                        break
                    size = max(size, b.size)
                else:
                    exact = numbers and d.kind in "iu"
                    if exact and not all(n % 1 == 0 for n in args[arrays:]):
                        return into(out, reference(*args))
                    if size >= SMALL:
                        if arrays > 1 and a.size >= MIXED:
                            args = (*in_one_order(args[:arrays]), *args[arrays:])
                        if numbers:
                            rest = map(number_of(d, bounds), args[arrays:])
                            args = (*args[:arrays], *rest)
                        return u(*args) if out is None else u(*args, out=out)
            return into(out, reference(*args))

        return compiled


def in_one_order(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Arrays of the shape of the first one and without gaps, copied where they lie in another order than it: rows of
    one that are columns of another are read more slowly than they are copied."""
    first, *others = arrays
    if all(b.strides == first.strides for b in others):
        return arrays
    order = sorted(range(first.ndim), key=lambda d: -first.strides[d])
    if not first.transpose(order).flags.c_contiguous:
        return arrays
    back = sorted(range(first.ndim), key=order.__getitem__)
    return (
        first,
        *[
            b if b.shape != first.shape or 0 in b.strides
            else contiguous(b.transpose(order)).transpose(back)
            for b in others
        ],
    )  # fmt: skip


def into(out: np.ndarray | None, result: Any) -> Any:
    if out is None:
        return result
    np.copyto(out, result, casting="unsafe")
    return out


sigmoid = implements("sigmoid")(Elementwise(math.sigmoid))
rsqrt = implements("rsqrt")(Elementwise(elementwise.rsqrt))
sign = implements("sign")(Elementwise(arithmetic.sign, 1, 0, CHEAP, types=(*FLOAT_TYPES, i64, i32)))


@implements("sgn")
def sgn(a: Any) -> Any:
    """The sign; of a complex number z / |z|."""
    return numpy_elementwise.sgn(a) if a.dtype.kind == "c" else sign(a)


frac = implements("frac")(Elementwise(arithmetic.frac, 1, 0, CHEAP))
erf = implements("erf")(Elementwise(math.erf))
erfc = implements("erfc")(Elementwise(math.erfc))
xlogy = implements("xlogy")(Elementwise(arithmetic.xlogy, 2))
threshold_gradient = implements("threshold_gradient")(Elementwise(elementwise.above, 2, 1, CHEAP))
addcmul = implements("addcmul")(
    Elementwise(elementwise.add_product, 3, 1, CHEAP, types=(*FLOAT_TYPES, i64))
)
addcdiv = implements("addcdiv")(Elementwise(elementwise.add_quotient, 3, 1, CHEAP))
copysign = implements("copysign")(
    Elementwise(language.copysign, 2, 0, CHEAP, half=arithmetic.copysign_half)
)
copysign_gradient = implements("copysign_gradient")(
    Elementwise(arithmetic.copysign_gradient, 3, 0, CHEAP)
)
logit_gradient = implements("logit_gradient")(
    Elementwise(arithmetic.logit_gradient, 2, 3, CHEAP, bounds=True)
)
_hypot = Elementwise(arithmetic.hypot, 2)
hypot = implements("hypot")(_hypot)
logaddexp = implements("logaddexp")(Elementwise(arithmetic.logaddexp, 2))
logaddexp2 = implements("logaddexp2")(Elementwise(arithmetic.logaddexp2, 2))
sinc = implements("sinc")(Elementwise(arithmetic.sinc, vectors=16))
angle = implements("angle")(Elementwise(arithmetic.angle, 1, 0, CHEAP))
deg2rad = implements("deg2rad")(Elementwise(arithmetic.deg2rad, 1, 0, CHEAP))
rad2deg = implements("rad2deg")(Elementwise(arithmetic.rad2deg, 1, 0, CHEAP))
heaviside = implements("heaviside")(
    Elementwise(arithmetic.heaviside, 2, 0, CHEAP, types=(*FLOAT_TYPES, i64, i32))
)
nextafter = implements("nextafter")(
    Elementwise(arithmetic.nextafter, 2, 0, CHEAP, types=(f32, f64))
)
left_shift = implements("left_shift")(
    Elementwise(arithmetic.left_shift, 2, 0, CHEAP, types=(i64, i32))
)
right_shift = implements("right_shift")(
    Elementwise(arithmetic.right_shift, 2, 0, CHEAP, types=(i64, i32))
)
_round_up = Elementwise(arithmetic.round_up, 1, 1, CHEAP)
_round_down = Elementwise(arithmetic.round_down, 1, 1, CHEAP)


def _entry(how: Elementwise, back: Callable) -> Callable:
    return put_entries_before(how.entries)(how.bind(back))


_logit = _entry(
    Elementwise(arithmetic.logit, 1, 2), lambda a, low, high: numpy_elementwise.logit(a, low)
)
_round_by = (
    _entry(_round_down, lambda a, ten: np.rint(a / ten) * ten),
    _entry(_round_up, lambda a, ten: np.rint(a * ten) / ten),
)


@implements("logit")
def logit(a: Any, eps: float | None) -> Any:
    """log(a / (1 - a)), of `a` between eps and 1 - eps."""
    if a.__class__ is np.ndarray and a.size and a.dtype in FLOATING:
        return _logit(a, *((-np.inf, np.inf) if eps is None else (eps, 1 - eps)))
    return numpy_elementwise.logit(a, eps)


@implements("round_to")
def round_to(a: Any, decimals: int) -> Any:
    """Rounded half to even at `decimals` digits."""
    if a.__class__ is np.ndarray and a.size and a.dtype in FLOATING and abs(decimals) < 30:
        return _round_by[decimals > 0](a, 10.0 ** abs(decimals))
    return numpy_elementwise.round_to(a, decimals)


_adding = Elementwise(elementwise.add_scaled, 2, 1, CHEAP)
_added = _adding.bind(numpy_elementwise.add_scaled)


@implements("add_scaled", formula=_adding.formula)
@put_entries_before(Pointwise(elementwise.add_scaled, 2, 1, CHEAP, types=(f32, f64)).entries())
def add_scaled(a: Any, b: Any, factor: Any, out: np.ndarray | None = None) -> Any:
    """a + factor * b; of half types the factor is rounded to half, the sum once."""
    if a.__class__ is np.ndarray and a.dtype in REDUCED:
        factor = float(np.asarray(factor).astype(a.dtype))
    return _added(a, b, factor, out=out)


_number = Elementwise(elementwise.between, 2, 1, CHEAP)
_by_number = _number.bind(numpy_elementwise.lerp)
_arrays = Elementwise(elementwise.between, 3, 0, CHEAP)
_by_arrays = put_entries_before(_arrays.entries)(_arrays.bind(numpy_elementwise.lerp))


@implements(
    "lerp",
    formula=lambda xp, a, end, weight: xp.apply(
        (_number if isinstance(weight, (int, float)) else _arrays).formula, a, end, weight
    ),
)
@put_entries_before(_number.entries)
def lerp(a: Any, end: Any, weight: Any, out: np.ndarray | None = None) -> Any:
    """a + weight * (end - a), exact at both ends."""
    by = _by_arrays if weight.__class__ is np.ndarray else _by_number
    return by(a, end, weight) if out is None else by(a, end, weight, out=out)


class Divided(Binding):
    """A function of the kernel language that divides with a remainder (or takes powers), of two arrays or
    an array and a number. `whole`: the same of integers; `zero`: it is defined for a second operand of 0."""

    def __init__(
        self, function: Any, types: tuple[Type, ...] = FLOAT_TYPES, vectors: int = LANES, whole: Any = None,
        zero: bool = False,
    ) -> None:  # fmt: skip
        self.ufuncs = Pointwise(function, 2, types=types, vectors=vectors)
        self.integers = Pointwise(
            whole, 2, types=(i64, i32) if whole else (), vectors=0 if zero else 16, divides=not zero
        )
        floats, integers = self.ufuncs.entries(), self.integers.entries()
        self.entries = ByDtype(lambda d: (integers if d.kind in "iu" else floats)[d])

    @property
    def formula(self) -> Pointwise:
        return self.ufuncs

    def bind(self, reference: Callable) -> Callable:
        ufuncs, integers = self.ufuncs, self.integers

        def compiled(a: Any, b: Any) -> Any:
            if a.__class__ is np.ndarray and a.size >= SMALL:
                d = a.dtype
                if (u := ufuncs[d]) is not None:
                    if b.__class__ is np.ndarray:
                        if b.dtype is d:
                            return u(a, b)
                    elif d in FULL and (b.__class__ is float or b.__class__ is int):
                        return u(a, d.type(b))
                elif (u := integers[d]) is not None:
                    if b.__class__ is np.ndarray:
                        if b.dtype is d and b.all():
                            return u(a, b)
                    elif b.__class__ is int and b and abs(b) < 1 << 31:
                        return u(a, d.type(b))
            return reference(a, b)

        return compiled


fmod = implements("fmod")(Divided(arithmetic.fmod, whole=arithmetic.fmod_whole))
remainder = implements("remainder")(Divided(arithmetic.remainder, whole=arithmetic.remainder_whole))
floor_divide = implements("floor_divide")(
    Divided(arithmetic.floor_divide, whole=arithmetic.floor_divide_whole)
)
trunc_divide = implements("trunc_divide")(
    Divided(arithmetic.trunc_divide, vectors=0, whole=arithmetic.quotient)
)


_power = Divided(arithmetic.power, SINGLES, whole=arithmetic.power_whole, zero=True)
_powers = put_entries_before(_power.entries)(_power.bind(numpy_elementwise.power))
_cube = Pointwise(arithmetic.cube, grain=CHEAP)


def power_formula(space: Any, a: Any, b: Any) -> Any:
    """The exponents that `power` takes by products and roots; NotImplemented for all others."""
    simple = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
    if b in simple:
        return getattr(space, simple[b])(a)
    if b == 3:
        return space.apply(_cube, a)
    if b in (-2, -0.5):
        return space.reciprocal(space.square(a) if b == -2 else space.sqrt(a))
    return NotImplemented


@implements("power", formula=power_formula)
def power(a: Any, b: Any) -> Any:
    """`a` to the power of `b`; common exponents by products, as PyTorch computes them."""
    if a.__class__ is np.ndarray and a.ndim and a.dtype in FLOATING:
        d = a.dtype
        n = b if b.__class__ is not np.ndarray else None if b.ndim else b.item()
        if n == 2:
            return cpu.square(a)
        if n == 0.5 and d is not F16:
            return cpu.sqrt(a)
        if n == 3 and d is not F16:
            return cpu.multiply(cpu.multiply(a, a), a) if d.itemsize == 2 else _cube[d](a)
        if n == -1:
            return cpu.reciprocal(a)
        if d is F32 or d is F64:
            if n == -2:
                return cpu.reciprocal(cpu.square(a))
            if n == -0.5:
                return cpu.reciprocal(cpu.sqrt(a))
        if n == 1:
            return numpy_elementwise.power(a, b)
        if d.itemsize == 2 and (n.__class__ is float or n.__class__ is int):
            b = np.asarray(n, d)
    if b.__class__ is int and b < 0:
        return numpy_elementwise.power(a, b)  # of integers it refuses that
    return _powers(a, b)


_WIDE = {
    "multiply": Pointwise(mul, 1, 1, CHEAP),
    "divide": Pointwise(truediv, 1, 1, CHEAP),
    "floor_divide": Pointwise(arithmetic.floor_divide, 1, 1, vectors=LANES),
    "trunc_divide": Pointwise(arithmetic.trunc_divide, 1, 1, CHEAP),
}


@implements("with_wide_number")
def with_wide_number(kernel: Callable, a: Any, b: Any) -> Any:
    """`kernel` of a half type and one number, which is float32, as the computation; rounded once."""
    ufuncs = _WIDE.get(kernel.__name__)
    if a.__class__ is np.ndarray and a.dtype.itemsize == 2 and ufuncs is not None:
        if (u := ufuncs[a.dtype]) is not None:
            return u(a, np.float32(b))
    return numpy_elementwise.with_wide_number(kernel, a, b)


floor = implements("floor")(Elementwise(language.floor, 1, 0, CHEAP))
ceil = implements("ceil")(Elementwise(language.ceil, 1, 0, CHEAP))
trunc = implements("trunc")(Elementwise(language.trunc, 1, 0, CHEAP))
rint = implements("rint")(Elementwise(language.rint, 1, 0, CHEAP))


@implements("reverse_subtract", formula=lambda xp, a, b: xp.subtract(b, a))
def reverse_subtract(a: Any, b: Any) -> Any:
    return cpu.subtract(b, a)


_replaced = Pointwise(arithmetic.replace_nonfinite, 1, 3, CHEAP)


@cache
def _finite(d: np.dtype) -> tuple[float, float, float]:
    """What stands for None in nan_to_num."""
    from rushlight.core.type_info import finfo

    info = finfo(dtypes.OF[d])
    return 0.0, info.max, info.min


@implements("nan_to_num")
@put_entries_before(_replaced.entries(_finite))
def nan_to_num(a: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """NaN and the infinities replaced; None: 0, the largest and the lowest number of the dtype."""
    if a.__class__ is np.ndarray and (u := _replaced[a.dtype]) is not None:
        pairs = zip((nan, posinf, neginf), _finite(a.dtype), strict=True)
        numbers = [other if n is None else n for n, other in pairs]
        return u(a, *map(number_of(a.dtype, False), numbers))
    return numpy_elementwise.nan_to_num(a, nan, posinf, neginf)


# LLVM leaves open what a floating number becomes that an integer does not hold; the instructions give the
# smallest number, of which the narrower integers keep the lowest bits.
SOURCES = (f32, f64, f16, bf16, i64, i32, i16, i8, u8, b1)
_casts = {
    t.np: Pointwise(f32 if t in (f16, bf16) else t, 1, 0, CHEAP, output=t, types=SOURCES)
    for t in (f16, bf16, f32, f64, i64, i32, b1)
}
for narrow, function in ((i8, arithmetic.to_i8), (i16, arithmetic.to_i16), (u8, arithmetic.to_u8)):
    _casts[narrow.np] = Pointwise(function, 1, 0, CHEAP, output=narrow, types=SOURCES)
_quick_casts = {to: ufuncs.entries() for to, ufuncs in _casts.items()}


@implements("cast", formula=lambda xp, a, to: xp.apply(_casts[to], a))
def cast(a: np.ndarray, to: np.dtype) -> np.ndarray:
    """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary part)."""
    if a.__class__ is np.ndarray and a.size >= SMALL and (d := a.dtype) is not to:
        if (entries := _quick_casts.get(to)) is not None:
            r = entries[d](a)
            if r is not None:
                return r if 1 not in a.shape or views.plain(a) else layout.copied_as(a, r)
            if a.ndim and (u := _casts[to][d]) is not None:
                return layout.copied_as(a, u(a))
    return conversion.cast(a, to)


_bounded = Pointwise(activations.hardtanh, 1, 2, CHEAP, types=(*FLOAT_TYPES, i64, i32))


def range_of(d: np.dtype) -> tuple[Any, Any]:
    """The least and the largest number of a dtype."""
    if d not in (I64, I32):
        return -np.inf, np.inf
    bits = 8 * d.itemsize - 1
    return -(1 << bits), (1 << bits) - 1


def clip_formula(space: Any, a: Any, low: Any, high: Any) -> Any:
    least, most = range_of(a.dtype)
    return space.apply(_bounded, a, least if low is None else low, most if high is None else high)


@implements("clip", formula=clip_formula)
@put_entries_before(_bounded.entries(range_of))
def clip(a: np.ndarray, low: Any, high: Any, out: np.ndarray | None = None) -> np.ndarray:
    """`a` between two Python numbers, either may be None; NaN stays."""
    if a.__class__ is np.ndarray and a.size >= SMALL and not low is high is None:
        d = a.dtype
        least, most = range_of(d)
        p, q = least if low is None else low, most if high is None else high
        plain = (int,) if d in (I64, I32) else (int, float)
        fits = p.__class__ in plain and q.__class__ in plain and least <= p <= most
        if fits and least <= q <= most and (u := _bounded[d]) is not None:
            number = d.type if d in FULL or d in (I64, I32) else np.float32
            return u(a, number(p), number(q), out=out)
    return into(out, numpy_elementwise.clip(a, low, high))


_clip_by = Elementwise(arithmetic.clip_by, 3, 0, CHEAP, types=(*FLOAT_TYPES, i64, i32))


@implements("clip_arrays")
@put_entries_before(_clip_by.entries)
def clip_arrays(a: Any, low: Any, high: Any, out: np.ndarray | None = None) -> Any:
    """`a` between two arrays, either may be None."""
    if low is not None:
        a = cpu.maximum(a, low, out=out)
    return a if high is None else cpu.minimum(a, high, out=out)


@implements("where", formula=lambda xp, condition, a, b: xp.select(condition, a, b))
def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b."""
    if (
        condition.__class__ is a.__class__ is b.__class__ is np.ndarray
        and condition.size >= (SHORT if a.dtype.kind != "V" else 1)
        and condition.size
        and condition.dtype == BOOL
        and a.dtype is b.dtype
        and (t := of(a.dtype)) is not None
        and (a.ndim == 0 or a.shape == condition.shape)
        and (b.ndim == 0 or b.shape == condition.shape)
    ):
        if not condition.flags.c_contiguous:
            if condition.flags.f_contiguous:
                return where(condition.T, a.T, b.T).T
            return np.where(condition, a, b)
        if condition.size >= MIXED:
            a, b = [x if x.ndim == 0 else contiguous(x) for x in (a, b)]
        if (a.ndim == 0 or a.flags.carray) and (b.ndim == 0 or b.flags.carray):
            out = np.empty(condition.shape, a.dtype)
            kernel = elementwise.choose.compiled(ONE_A=a.ndim == 0, ONE_B=b.ndim == 0, T=t)
            kernel(condition, a, b, out, out.size)
            return out
    return np.where(condition, a, b)


WHOLE = i64, i32  # of which no number is infinite or NaN
TESTED = f16, bf16, *WHOLE  # NumPy's are as quick for the others.
isnan = implements("isnan")(Elementwise(arithmetic.isnan, 1, 0, CHEAP, types=TESTED, output=b1))
isinf = implements("isinf")(Elementwise(arithmetic.isinf, 1, 0, CHEAP, types=TESTED, output=b1))
isfinite = implements("isfinite")(
    Elementwise(arithmetic.isfinite, 1, 0, CHEAP, types=TESTED, output=b1)
)
isposinf = implements("isposinf")(
    Elementwise(arithmetic.isposinf, 1, 0, CHEAP, types=(*FLOAT_TYPES, *WHOLE), output=b1)
)
isneginf = implements("isneginf")(
    Elementwise(arithmetic.isneginf, 1, 0, CHEAP, types=(*FLOAT_TYPES, *WHOLE), output=b1)
)


MANY = threshold(32768)  # elements that two threads fill sooner
_BITS: dict[int, tuple[np.dtype, Any]] = {1: (U8, u8), 2: (U16, u16), 4: (U32, u32), 8: (U64, u64)}


def pattern(value: Any, d: np.dtype) -> int:
    """The bits of a number in a dtype, as a signed number of 64."""
    with np.errstate(all="ignore"):
        bits = int(np.full((1,), value, d).view(_BITS[d.itemsize][0])[0])
    return bits - ((bits >> 63) << 64)


# Of numbers that are equal to themselves and to no other one, as 0.0 is to -0.0.
_kept_pattern = lru_cache(64, typed=True)(pattern)


@implements("fill")
@put_entries_before(COPY)  # takes numbers that are arrays
def fill(a: Any, value: Any) -> None:
    """`a[...] = value`, a number."""
    if a.__class__ is np.ndarray and a.size >= MANY and not a.flags.c_contiguous:
        a = in_memory_order(a)
    if a.__class__ is np.ndarray and a.size >= MANY and a.flags.carray and a.size:
        if a.itemsize in _BITS and a.dtype.isnative:
            number = isinstance(value, (float, np.generic)) and value and value == value
            kept = number or value.__class__ is int
            bits = (_kept_pattern if kept else pattern)(value, a.dtype)
            elementwise.fill.compiled(T=_BITS[a.itemsize][1])(a, bits, a.size)
            return
    numpy_elementwise.fill(a, value)
