"""The arguments of functions that make tensors: shapes, dtypes, devices, numbers.

Shapes come as `f(2, 3)` or `f((2, 3))`, dtypes as `torch.float32` or Python's `float`, numbers as
Python's, NumPy's or 0-d tensors. Errors have PyTorch's types and words.
"""

from __future__ import annotations

from functools import lru_cache
from math import copysign, inf
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import sparse
from rushlight.autograd.state import active
from rushlight.core import dtypes, modes
from rushlight.core.device import device as Device
from rushlight.core.dtype_sets import C32, FULL, I64, REDUCED
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, new
from rushlight.dispatch import overrides
from rushlight.dispatch.registry import public
from rushlight.dispatch.results import kind

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = tuple[int, ...]

_SEQUENCES = frozenset({tuple, list, Size})
NUMBERS = (int, float, complex, np.number, np.bool_)
_REAL = frozenset({int, float, bool})


def sizes(name: str, args: tuple, size: Any = None, argument: str = "size") -> Shape:
    """The shape given as `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`."""
    if size is not None:
        if args:
            raise TypeError(f"{name}() got multiple values for argument '{argument}'")
        args = (size,)
    elif not args:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
    if len(args) == 1 and args[0].__class__ in _SEQUENCES:
        args = args[0]
    for n in args:
        if n.__class__ is not int or n < 0:
            return checked_sizes(name, args, argument)
    return tuple(args)


def checked_sizes(name: str, args: Any, argument: str = "size") -> Shape:
    """`sizes` where something is not a plain int: NumPy integers and integer tensors are taken."""
    if len(args) > 1 and args[0].__class__ in _SEQUENCES:
        raise TypeError(f"{name}() takes 1 positional argument but {len(args)} were given")
    shape = []
    for k, n in enumerate(args):
        try:
            if isinstance(n, bool) and not k:  # PyTorch looks at the first one only
                raise TypeError
            shape.append(index(n))
        except TypeError:
            if len(args) == 1:
                raise TypeError(
                    f"{name}(): argument '{argument}' (position 1) must be tuple of ints, not "
                    f"{type(n).__name__}"
                ) from None
            raise TypeError(
                f"{name}(): argument '{argument}' failed to unpack the object at pos {k + 1} with error "
                f'"type must be tuple of ints,but got {type(n).__name__}"'
            ) from None
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"{name}: Dimension size must be non-negative. Trying to create tensor with negative "
                f"dimension {n}: {shape}"
            )
    return tuple(shape)


def element_type(name: str, dtype: Any, default: np.dtype | None = None) -> np.dtype:
    """The NumPy dtype of `dtype=`; Python's `float`, `int`, `bool`, `complex` are taken too."""
    if dtype is None:
        return modes._default_dtype.np if default is None else default
    if dtype.__class__ is dtypes.dtype:
        return dtype.np
    if isinstance(dtype, type) and dtype in dtypes.OF_PYTHON:
        return dtypes.OF_PYTHON[dtype].np
    if dtype in dtypes.ONLY_COMPARED:
        raise NotImplementedError(
            f"{name}(): {dtype!r} is here to be compared with only: Rushlight has no tensors of it"
        )
    raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")


def check_options(name: str, layout: Any, pin_memory: bool) -> None:
    if layout is not None and layout is not dtypes.strided:
        if not isinstance(layout, dtypes.layout):
            raise TypeError(
                f"{name}(): argument 'layout' must be torch.layout, not {type(layout).__name__}"
            )
        sparse.refuse(name, "SparseCPU" if layout is dtypes.sparse_coo else "SparseCsrCPU")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
            "is available on this system."
        )


def only_sequence(name: str, size: Any) -> Shape:
    """The shape that `size=` gives, where separate numbers are no shape."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
            f"{type(size).__name__}"
        )
    return sizes(name, (size,), None, "size")


def number(name: str, value: Any, position: int, argument: str = "fill_value") -> Any:
    """A Python number from a number, a NumPy number, a 0-d tensor."""
    if isinstance(value, NUMBERS):
        return value.item() if isinstance(value, (np.number, np.bool_)) else value
    if isinstance(value, Tensor) and not value._array.ndim:
        return value.item()
    raise TypeError(
        f"{name}(): argument '{argument}' (position {position}) must be Number, not "
        f"{type(value).__name__}"
    )


_CPP = {"int32": "int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
        "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>"}  # fmt: skip


def converted(value: Any, d: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; RuntimeError when the dtype cannot hold it.

    Negative integers wrap around in unsigned dtypes, infinities stay infinite.
    """
    cls = value.__class__
    if cls is float:
        if d in FULL and -3e38 <= value <= 3e38:
            return xp.asarray(value, d)
    elif cls is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(
                "int too big to convert" if value > 0 else "can't convert negative int to unsigned"
            )
        if d in FULL or d is I64 and value < 1 << 63:
            return xp.asarray(value, d)
    kind = dtypes.OF[d]
    if kind is dtypes.bool_:
        return xp.asarray(bool(value))
    bad = False
    if isinstance(value, complex) and not kind.is_complex:
        bad = value.imag != 0
        value = value.real
    if kind.kind == 1 and not bad:
        least, most = (info := np.iinfo(d)).min, info.max
        if isinstance(value, float):
            bad = not (value == value and least <= value <= most)  # a nan is unequal to itself
        elif most < value < 1 << 63 and not kind.is_signed and d.itemsize < 8:
            bad = True
        else:
            bad = not (-most <= value <= most if not kind.is_signed else least <= value <= most)
        if not bad:
            return xp.asarray(int(value) % (most + 1) if not kind.is_signed else int(value), d)
    elif not bad:
        try:
            number = complex(value) if kind.is_complex else float(value)
        except OverflowError:
            number, bad = 0.0, True
        if kind is dtypes.float8_e8m0fnu:  # it has no sign and no 0
            bad, number = number < 0, number or 2.0**-127
        parts = (number.real, number.imag) if kind.is_complex else (number,)
        with np.errstate(all="ignore"):
            array = xp.asarray(number).astype(d)
            limit = _LARGEST[kind]
            bad = bad or any(abs(p) > limit and abs(p) != np.inf for p in parts)
        if not bad:
            return array
    name = _CPP.get(kind.name, f"{kind.name}_t")
    name = f"c10::{kind.scalar_name}" if kind.name.startswith("float8") else name
    raise RuntimeError(f"value cannot be converted to type {name} without overflow: {value!r}")


def one_number(values: Any, a: Any) -> Any:
    """The only number of an array, without dimensions, in the dtype of `a`; RuntimeError where that cannot hold it."""
    if values.dtype is a.dtype:
        return values.reshape(())
    if values.__class__ is not np.ndarray or a.__class__ is not np.ndarray:
        return values.reshape(()).astype(a.dtype)
    return converted(values.item(), a.dtype)


def scalar(value: Any, d: np.dtype) -> np.ndarray:
    """`converted`, which is remembered; nobody writes to the array."""
    if value.__class__ is float and value == 0 and copysign(1, value) < 0:  # -0.0 equals 0.0
        return converted(value, d)
    return _remembered(value, d)


_remembered = lru_cache(maxsize=256, typed=True)(converted)

_LARGEST = {
    dtypes.float16: 65504.0,
    dtypes.bfloat16: 3.3895313892515355e38,
    dtypes.float32: 3.4028234663852886e38,
    dtypes.float64: 1.7976931348623157e308,
    dtypes.float8_e4m3fn: 448.0,
    dtypes.float8_e4m3fnuz: 240.0,
    dtypes.float8_e5m2: 57344.0,
    dtypes.float8_e5m2fnuz: 57344.0,
    dtypes.float8_e8m0fnu: 2.0**127,
}
_LARGEST[dtypes.complex32] = _LARGEST[dtypes.float16]
_LARGEST[dtypes.complex64] = _LARGEST[dtypes.float32]
_LARGEST[dtypes.complex128] = _LARGEST[dtypes.float64]


# -- declarations ----------------------------------------------------------------------------------

# A factory is a plain function without tensor inputs, which function modes can take over. Of most the commonest
# call is short: positional arguments alone, while no mode is on and the CPU is the default device. What there
# is more to goes to the function that is declared. A call that has drawn random numbers is never begun again.


def factory(function: Callable) -> Callable:
    """Declare a factory."""
    return public()(overrides.overridable(function, tensors=False, primitive=True))


def plainly(options: dict, d: np.dtype | None) -> Any:
    """The dtype that the options ask for, `d` where they name none; False where they ask for more than a dtype and
    the CPU."""
    for name, value in options.items():
        if name == "dtype" and value.__class__ is dtypes.dtype and value.np is not C32:
            d = value.np
        elif name != "device" or not (
            value == "cpu" if value.__class__ is str else getattr(value, "type", "") == "cpu"
        ):
            return False
    return d


def shaped(make: Callable, draw: Callable | None = None) -> Callable:
    """Declare a factory whose arguments are a shape: `make(shape, dtype)` gives the array, and `draw(array)`
    fills it with random numbers."""

    def declare(function: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            d = own = modes._default_dtype.np
            if options:
                d = plainly(options, own)
            plain = args and (d is own or d is not False and draw is None)
            if plain and not (active.modes or modes.device_set and modes.thread.device):
                shape = args[0] if len(args) == 1 and args[0].__class__ in _SEQUENCES else args
                for n in shape:
                    if n.__class__ is not int:
                        break
                else:
                    try:
                        a = make(shape, d)
                    except (ValueError, MemoryError):
                        return general(*args, **options)  # says what is wrong
                    if draw is not None:
                        draw(a)
                    t = new(Tensor)
                    t._array, t._edge, t._counter = a, None, None
                    return t
            return general(*args, **options)

        general = overrides.overridable(function, False, call, primitive=True)
        return public()(overrides.named(call, function))

    return declare


def shaped_as(make: Callable, numbers: int = 0) -> Callable:
    """Declare a method whose arguments are a shape, or a tuple or list that is one, and a `numbers` of real
    numbers: `make(shape, *numbers, dtype)` gives the array, of the tensor's dtype."""

    def declare(function: Callable) -> Callable:
        def call(self: Tensor, *args: Any, **options: Any) -> Any:
            a = getattr(self, "_array", None)
            if a.__class__ is np.ndarray and args and not active.modes:
                d, shape, given = a.dtype, args, ()
                if options:
                    d = plainly(options, d)
                if args[0].__class__ in _SEQUENCES and len(args) == 1 + numbers:
                    shape, *given = args
                if d is False or len(given) != numbers:
                    return general(self, *args, **options)
                for n in shape:
                    if n.__class__ is not int or n < 0:
                        return general(self, *args, **options)
                if given:
                    if given[0].__class__ not in _REAL:
                        return general(self, *args, **options)
                    given = (scalar(given[0], d),)
                try:
                    made = make(shape, *given, d)
                except (ValueError, MemoryError):
                    return general(self, *args, **options)  # says what is wrong
                t = new(Tensor)
                t._array, t._edge, t._counter = made, None, None
                return t
            return general(self, *args, **options)

        general = overrides.overridable(function, True, call, primitive=True)
        return overrides.named(call, function)

    return declare


def factory_like(
    make: Callable, fill: Callable | None = None, draw: Callable | None = None, numbers: int = 0
) -> Callable:
    """Declare a factory that takes a tensor and a `numbers` of real numbers; see `shaped`, `shaped_as`. Where the
    tensor lies in memory in another order than the usual, `fill(array, *numbers)` writes into memory as `a` has, as
    `draw(array)` does into all."""

    def declare(function: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            if not active.modes and len(args) == 1 + numbers:
                a = getattr(args[0], "_array", None)
                if a.__class__ is np.ndarray:
                    d, given = a.dtype, ()
                    if options:
                        d = plainly(options, d)
                    if numbers and d is not False:
                        if args[1].__class__ not in _REAL:
                            return general(*args, **options)
                        given = (scalar(args[1], d),)
                    made, same = None, d is a.dtype
                    usual = 1 not in a.shape  # strides may differ where a size is 1
                    if a.flags.c_contiguous:
                        if same or d is not False and draw is None and usual:
                            made = make(a.shape, *given, d)
                            if not usual and made.strides != a.strides:
                                made = None
                    elif same and (fill is not None or draw is not None):
                        made = xp.empty_with_strides_of(a)
                        if made is not None and fill is not None:
                            fill(made, *given)
                    if made is not None:
                        if draw is not None:
                            draw(made)
                        t = new(Tensor)
                        t._array, t._edge, t._counter = made, None, None
                        return t
            return general(*args, **options)

        general = overrides.overridable(function, True, call, primitive=True)
        return public()(overrides.named(call, function))

    return declare


def valued(make: Callable, draw: Callable | None = None) -> Callable:
    """Declare a factory whose arguments are numbers: `make(args, dtype)` gives the array (dtype None: none was
    asked for), or None where there is more to it; `draw(array, args)` fills it with random numbers."""

    def declare(function: Callable) -> Callable:
        def call(*args: Any, **options: Any) -> Any:
            d = plainly(options, None) if options else None
            if d is not False and not (active.modes or modes.device_set and modes.thread.device):
                try:
                    a = make(args, d)
                except (TypeError, ValueError, MemoryError):
                    return general(*args, **options)  # says what is wrong
                if a is not None:
                    if draw is not None:
                        draw(a, args)
                    t = new(Tensor)
                    t._array, t._edge, t._counter = a, None, None
                    return t
            return general(*args, **options)

        general = overrides.overridable(function, False, call, primitive=True)
        return public()(overrides.named(call, function))

    return declare


def quick_number(value: Any, d: np.dtype) -> np.ndarray | None:
    """A Python number in the usual dtypes; None for others, and where it may not fit."""
    c = value.__class__
    if c is not float and c is not int:
        return None
    if d in FULL:
        most = 1e38 if c is float else 1e18
    elif d in REDUCED:
        most = 6e4
    elif d is I64 and c is int:
        most = 1e18
    else:
        return None
    if -most < value < most or (d is not I64 and value in (inf, -inf)):
        return xp.asarray(value, d)
    return None


# -- the arguments of `to` ---------------------------------------------------------------------------

FORMS = (  # of the arguments of `to`
    ("device", "dtype", "non_blocking", "copy"),
    ("dtype", "non_blocking", "copy"),
    ("tensor", "non_blocking", "copy"),
)
NOTHING = type(None)
TAKES: dict[str, tuple[type, ...]] = {
    "device": (Device, str, int, NOTHING),
    "dtype": (dtypes.dtype, type, NOTHING),
    "tensor": (Tensor,),
    "non_blocking": (bool,),
    "copy": (bool,),
    "memory_format": (dtypes.memory_format, NOTHING),
}


def fits(form: tuple[str, ...], given: dict[str, Any]) -> bool:
    """Whether arguments by name are those of a form of `to`."""
    return (form is FORMS[0] or given.get(form[0]) is not None) and all(
        name in (*form, "memory_format")
        and isinstance(value, TAKES[name])
        and not (name == "device" and isinstance(value, bool))
        for name, value in given.items()
    )


def of_conversion(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `to` by name, in the form that takes them; TypeError where none does."""
    for form in FORMS:
        given = dict(zip(form, args))
        if len(args) <= len(form) and not given.keys() & kwargs and fits(form, given | kwargs):
            return given | kwargs
    got = [kind(a) for a in args] + [f"{k}={kind(v)}" for k, v in kwargs.items()]
    raise TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(got)}), but expected one of:\n"
        " * (torch.device device, torch.dtype dtype, bool non_blocking, bool copy, *, torch.memory_format memory_format)\n"
        " * (torch.dtype dtype, bool non_blocking, bool copy, *, torch.memory_format memory_format)\n"
        " * (Tensor tensor, bool non_blocking, bool copy, *, torch.memory_format memory_format)\n"
    )
