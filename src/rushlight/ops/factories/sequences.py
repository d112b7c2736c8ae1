"""Tensors given by a rule: `arange`, `linspace`, `logspace`, `eye`, indices of triangles.

The numbers are PyTorch's to the last bit where it computes them in vectors of a fixed width: the
rounding of the first element of a vector is then part of the others.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight._backends.meta import Meta
from rushlight.core import dtypes, modes, settings
from rushlight.core.dtype_sets import (
    BF16,
    C128,
    F16,
    F64,
    FLOATING,
    FULL,
    I32,
    I64,
    REDUCED,
    STORED_ONLY,
)
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.transforms import Lifted
from rushlight.ops.factories import arguments, creation
from rushlight.ops.factories.arguments import valued
from rushlight.ops.factories.creation import (
    check_options,
    check_out,
    element_type,
    factory,
    finished,
)


def _real(name: str, value: Any, position: int, argument: str) -> Any:
    """A Python number for a bound or a step."""
    if isinstance(value, Tensor) and value._array.size == 1:
        return 0 if isinstance(value._array, Meta) else value.item()
    return arguments.number(name, value, position, argument)


def _refuse(name: str, d: np.dtype) -> None:
    kind = dtypes.OF[d]
    if kind.is_complex or kind is dtypes.bool_ or d in STORED_ONLY:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'")


def warn_of_resizing(out: Tensor, n: int) -> None:
    """Warn if `out` has elements, but not the `n` that are to be written to it."""
    if out._array.size in (0, n):
        return
    settings.warn(
        f"The number of elements in the out tensor of shape {list(out.shape)} is {out._array.size} which does not "
        f"match the computed number of elements {n}. Note that this may occur as a result of rounding error. "
        f"The out tensor will be resized to a tensor of shape ({n},)."
    )


def _deliver(
    name: str, make: Any, shape: tuple, d: np.dtype, out: Any, layout: Any, device: Any,
    pin_memory: bool, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """The values of `make()`, in row-major order into `out` or as a new tensor."""
    check_options(name, layout, pin_memory)
    if out is not None:
        if shape == (out._array.size,):
            shape = out._array.shape  # as many elements as there are: `out` keeps its shape
        return creation.filled_out(name, lambda s, t: make().reshape(s), shape, out)
    array = creation.filled(devices.for_device(device), lambda s, t: make(), shape, d)
    return finished(array, requires_grad)


# -- arange ----------------------------------------------------------------------------------------


def _ordinary_range(args: tuple, d: np.dtype | None) -> np.ndarray | None:
    """`arange` of Python numbers of ordinary size."""
    start, end, step = (0, *args, 1) if len(args) == 1 else args if len(args) == 3 else (*args, 1)
    whole = start.__class__ is int and end.__class__ is int and step.__class__ is int
    if whole and (d is None or d is I64):
        ordinary = -_MANY < start < _MANY and -_MANY < end < _MANY and -_MANY < step < _MANY
        return xp.arange(start, end, step) if ordinary and (end - start) * step > 0 else None
    if d is None:
        d = modes._default_dtype.np
    if d not in FLOATING or not _NUMBERS.issuperset(
        (start.__class__, end.__class__, step.__class__)
    ):
        return None
    if not (-_MANY < start < _MANY and -_MANY < end < _MANY and -_MANY < step < _MANY):
        return None
    n = (end - start) / step if step else 0.0
    if not 0.0 < n < _MANY:
        return None
    values = xp.empty(math.ceil(n), d)
    xp.arange_into(values, float(start), float(step))
    return values


@valued(_ordinary_range)
def arange(*args, start=None, end=None, step=1, out=None, dtype=None, layout=None, device=None,
           requires_grad=False, pin_memory=False):  # fmt: skip
    """start, start + step, ... below `end` (above it for a negative step): int64 for integers, else
    the default dtype.

    RuntimeError for a step of 0 and for bounds in the wrong order. The number of elements is
    ceil((end - start) / step), computed in float64.

    >>> import rushlight as torch
    >>> torch.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    start, end, step = _three("arange", args, start, end, step)
    d = _range_dtype("arange", (start, end, step), out, dtype)
    _refuse("arange", d)
    _check_range(start, end, step)
    if d.kind in "iu" and d.itemsize == 8:
        start, end, step = map(_whole, (start, end, step))
        if step == 0:
            raise ValueError("step must be nonzero: it was cut to an integer")
    if d.kind in "iu" and d.itemsize == 8:
        n = -((start - end) // step)
    else:
        n = math.ceil((float(end) - float(start)) / float(step))
    if out is not None:
        warn_of_resizing(out, n)
    return _deliver(
        "arange", lambda: _arange(start, step, n, d), (n,), d, out, layout, device, pin_memory,
        requires_grad,
    )  # fmt: skip


_NUMBERS = frozenset({int, float})
_MANY = 1 << 40


def _three(name: str, args: tuple, start: Any, end: Any, step: Any) -> tuple:
    if len(args) > 3 or (not args and end is None):
        raise TypeError(f"{name}() received an invalid combination of arguments - got {args}")
    if len(args) == 1 and end is None:
        end = args[0]
    elif len(args) >= 1:
        start = args[0]
        end = args[1] if len(args) > 1 else end
        step = args[2] if len(args) > 2 else step
    start = 0 if start is None else start
    values = []
    for k, (v, n) in enumerate(((start, "start"), (end, "end"), (step, "step"))):
        v = _real(name, v, k if len(args) > 1 else 1, n)
        if isinstance(v, complex):
            raise RuntimeError("value cannot be converted to type double without overflow")
        if isinstance(v, int) and not -(1 << 63) <= v < 1 << 63:
            raise RuntimeError(
                f"value cannot be converted to type int64_t without overflow: {n} is {v}"
            )
        values.append(v)
    return tuple(values)


def _range_dtype(name: str, values: tuple, out: Any, dtype: Any) -> np.dtype:
    if out is not None:
        return check_out(name, out, dtype)
    if dtype is not None:
        return element_type(name, dtype)
    if any(isinstance(v, float) for v in values):
        return modes._default_dtype.np
    return I64


def _whole(v: Any) -> int:
    if isinstance(v, float) and not math.isfinite(v):
        raise RuntimeError(f"value cannot be converted to type int64_t without overflow: {v}")
    return int(v)


def _check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0 or step != step:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            "upper bound and lower bound inconsistent with step sign: "
            f"start={start}, end={end}, step={step}"
        )


def _arange(start: Any, step: Any, n: int, d: np.dtype) -> np.ndarray:
    if d.kind in "iu":
        first, by = _whole(start), _whole(step)
        if d.itemsize == 8 and d.kind == "i" and abs(first) + abs(by) * n < 1 << 62:
            return (
                xp.arange(first, first + by * n, by, np.int64)[:n] if by else xp.full(n, first, d)
            )
        i = xp.arange(n, dtype=np.int64)
        with np.errstate(all="ignore"):
            return (np.int64(first) + np.int64(by) * i).astype(d)
    values = xp.empty(n, d)
    xp.arange_into(values, float(start), float(step))
    return values


@factory
def range(*args, start=None, end=None, step=1, out=None, dtype=None, layout=None, device=None,
          requires_grad=False, pin_memory=False):  # fmt: skip
    """As `arange` with `end` included, floating; deprecated by PyTorch in favour of `arange`."""
    settings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
        "[start, end)."
    )
    start, end, step = _three("range", args, start, end, step)
    if out is not None:
        d = check_out("range", out, dtype)
    else:
        d = element_type("range", dtype)
    _refuse("range", d)
    _check_range(start, end, step)
    n = int((float(end) - float(start)) / float(step)) + 1

    def make() -> np.ndarray:
        i = xp.arange(n)
        if d.kind in "iu":
            return (np.int64(int(start)) + np.int64(int(step)) * i).astype(d)
        wide = float(start) + float(step) * i
        return (wide if d.itemsize == 8 else wide.astype(np.float32)).astype(d)

    return _deliver("range", make, (n,), d, out, layout, device, pin_memory, requires_grad)


# -- linspace --------------------------------------------------------------------------------------


def _ordinary_spaces(args: tuple, d: np.dtype | None) -> np.ndarray | None:
    """`linspace` of Python numbers of ordinary size."""
    bounds = _bounds(*args, d or modes._default_dtype.np)
    return bounds and _linspace(*bounds)


def _bounds(start: Any, end: Any, steps: Any, d: np.dtype) -> tuple | None:
    """What `_spaced` gives for numbers of ordinary size."""
    if start.__class__ not in _NUMBERS or end.__class__ not in _NUMBERS:
        return None
    if steps.__class__ is not int or steps < 1:
        return None
    most = _MANY if d in _WIDE else 0
    if not (-most < start < most and -most < end < most):
        return None
    return (int(start), int(end), steps, d) if d is I64 and steps > 1 else (start, end, steps, d)


_WIDE = FULL | {BF16, I64}  # hold all numbers of ordinary size


@valued(_ordinary_spaces)
def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None,
             requires_grad=False, pin_memory=False):  # fmt: skip
    """`steps` numbers from `start` to `end`, both included, at equal distances: [steps].

    The first half is counted from `start`, the second from `end`, so that both are met exactly.

    >>> import rushlight as torch
    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if _of_transform(start, end):
        return _between("linspace", start, end, steps, dtype)
    start, end, n, d = _spaced("linspace", start, end, steps, out, dtype)
    return _deliver(
        "linspace", lambda: _linspace(start, end, n, d), (n,), d, out, layout, device, pin_memory,
        requires_grad,
    )  # fmt: skip


def _of_transform(*bounds: Any) -> bool:
    """Whether a bound is a tensor inside of a function transform, which has no single value."""
    return any(isinstance(v, Tensor) and isinstance(v._array, Lifted) for v in bounds)


def _single(name: str, start: Any, end: Any) -> None:
    """RuntimeError for bounds with dimensions."""
    for v, what in ((start, "start"), (end, "end")):
        if isinstance(v, Tensor) and v._array.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {what} with "
                f"{v._array.ndim} dimension(s)."
            )


def _between(name: str, start: Any, end: Any, n: int, dtype: Any) -> Tensor:
    """`linspace` in operators."""
    _single(name, start, end)
    if n < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {n}")
    at = _wrap(xp.arange(n, dtype=np.float64))
    first = _wrap((xp.arange(n) < n / 2).astype(np.float64))
    start, end = (v.double() if isinstance(v, Tensor) else v for v in (start, end))
    step = (end - start) / max(n - 1, 1)
    values = first * (at * step + start) + (1 - first) * (end - step * (n - 1 - at))
    return values.to(dtype or modes.get_default_dtype())


def _spaced(name: str, start: Any, end: Any, steps: Any, out: Any, dtype: Any) -> tuple:
    """The arguments of `linspace` and `logspace`, checked: start, end, the number of steps, the dtype."""
    _single(name, start, end)
    start, end = _real(name, start, 1, "start"), _real(name, end, 2, "end")
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({type(start).__name__}, "
            f"{type(end).__name__}, {type(steps).__name__}): steps must be int"
        )
    n = steps.__index__()
    if n < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {n}")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    if out is not None:
        d = check_out(name, out, dtype)
    elif dtype is None:
        d = (modes.get_default_complex_dtype() if is_complex else modes._default_dtype).np
    else:
        d = element_type(name, dtype)
    kind = dtypes.OF[d]
    if is_complex and not kind.is_complex:
        own = modes.get_default_complex_dtype()
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {own} can't be safely cast to passed dtype "
            f"{kind.scalar_name}"
        )
    if (kind is dtypes.bool_ or d in STORED_ONLY) and n:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind.scalar_name}'")
    bounds = arguments.converted(start, d), arguments.converted(end, d)
    if kind.kind == 1:
        start, end = (int(b) for b in bounds)
    return start, end, n, d


def _linspace(start: Any, end: Any, n: int, d: np.dtype) -> np.ndarray:
    if n == 0:
        return xp.empty(0, d)
    if n == 1:
        return xp.full((1,), arguments.scalar(start, d), d)
    if d in FLOATING:
        values = xp.empty(n, d)
        xp.linspace_into(values, float(start), float(end))
        return values
    with np.errstate(all="ignore"):
        if d.kind == "c":
            part = np.dtype(f"f{d.itemsize // 2}")
            made = xp.empty(n, d)
            start, end = complex(start), complex(end)
            made.real = _linspace(start.real, end.real, n, part)
            made.imag = _linspace(start.imag, end.imag, n, part)
            return made
        values = xp.empty(n)
        xp.linspace_into(values, float(int(start)), float(int(end)))
        return values.astype(d)


def _ordinary_powers(args: tuple, d: np.dtype | None) -> np.ndarray | None:
    """`logspace` of Python numbers of ordinary size."""
    base = args[3] if len(args) == 4 else 10.0
    if base.__class__ not in _NUMBERS or not 0 < base < _MANY:
        return None
    bounds = _bounds(*args[:3], d or modes._default_dtype.np)
    return bounds and _logspace(*bounds, base)


@valued(_ordinary_powers)
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None,
             requires_grad=False, pin_memory=False):  # fmt: skip
    """`base` to the power of `linspace(start, end, steps)`."""
    if _of_transform(start, end):
        powers = base ** _between("logspace", start, end, steps, dtypes.float64)
        return powers.to(dtype or modes.get_default_dtype())
    first = start
    start, end, n, d = _spaced("logspace", start, end, steps, out, dtype)
    if n == 1:
        start = _real("logspace", first, 1, "start")  # an exponent that is not rounded
    base = _real("logspace", base, 4, "base")
    return _deliver(
        "logspace", lambda: _logspace(start, end, n, d, base), (n,), d, out, layout, device, pin_memory,
        requires_grad,
    )  # fmt: skip


def _logspace(start: Any, end: Any, n: int, d: np.dtype, base: Any) -> np.ndarray:
    most = 30 if d in FLOATING and d is not F16 else 18 if d is I64 else 0
    if d.kind != "c" and 0.1 <= base <= 10 and -most < start < most and -most < end < most:
        if n == 1:  # whose exponent is not rounded
            return xp.full((1,), arguments.scalar(float(base) ** start, d), d)
        return _powers(start, end, n, d, base)  # nothing overflows, and nobody has to be told
    with np.errstate(all="ignore"):
        return _powers(start, end, n, d, base)


def _powers(start: Any, end: Any, n: int, d: np.dtype, base: Any) -> np.ndarray:
    if d.kind == "c":
        powers = np.power(np.complex128(base), _linspace(start, end, n, C128))
        return powers.astype(d)
    if n == 1:
        power = float(np.power(float(base), float(start)))
        made = xp.cast(np.float64([power]), d) if d in REDUCED else arguments.scalar(power, d)
        return xp.full((1,), made, d)
    apart = end - start
    if d in FLOATING and d is not F64:
        start, end = _rounded(start, d), _rounded(end, d)
        apart = _rounded(end - start, d)
    powers = xp.empty(n)  # float64, whatever the dtype
    xp.both_ends_into(powers, float(start), float(end), apart / max(n - 1, 1))
    xp.powers_into(powers, float(base))
    return powers.astype(d) if d.kind in "iu" else xp.cast(powers, d)


@lru_cache(256)
def _rounded(value: Any, d: np.dtype) -> float:
    return float(np.float32(value).astype(d))


# -- matrices --------------------------------------------------------------------------------------


def _identity(rows: int, columns: int, d: np.dtype) -> np.ndarray:
    a = xp.zeros((rows, columns), d)
    a.ravel()[: min(rows, columns) * (columns + 1) : columns + 1].fill(1)
    return a


def _square(args: tuple, d: np.dtype | None) -> np.ndarray | None:
    """`eye` of an int."""
    (n,) = args
    d = d or modes._default_dtype.np
    return _identity(n, n, d) if n.__class__ is int and d in FULL else None


@valued(_square)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False,
        pin_memory=False):  # fmt: skip
    """The identity matrix of n rows (and m columns), [n, m]: ones on the diagonal, zeros elsewhere."""
    rows = _int("eye", n, "n", 1)
    columns = rows if m is None else _int("eye", m, "m", 2)
    if rows < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {rows}")
    if columns < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {columns}")
    d = element_type("eye", dtype) if out is None else check_out("eye", out, dtype)

    return _deliver(
        "eye", lambda: _identity(rows, columns, d), (rows, columns), d, out, layout, device, pin_memory,
        requires_grad,
    )  # fmt: skip


def _int(name: str, value: Any, argument: str, position: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be int, not "
            f"{type(value).__name__}"
        )
    return value.__index__()


@factory
def tril_indices(row, col, offset=0, *, dtype=None, device=None, layout=None, pin_memory=False):
    """Where the lower triangle of a row x col matrix is: [2, n], the rows and the columns."""
    check_options("tril_indices", layout, pin_memory)
    return _triangle("tril_indices", row, col, offset, dtype, device, xp.less_equal)


@factory
def triu_indices(row, col, offset=0, *, dtype=None, device=None, layout=None, pin_memory=False):
    """Where the upper triangle of a row x col matrix is: [2, n], the rows and the columns."""
    check_options("triu_indices", layout, pin_memory)
    return _triangle("triu_indices", row, col, offset, dtype, device, xp.greater_equal)


def _triangle(
    name: str, row: int, col: int, offset: int, dtype: Any, device: Any, test: Any
) -> Tensor:
    for n, what in ((row, "row"), (col, "col")):
        if n < 0:
            raise RuntimeError(f"{what} must be non-negative, got{n}")
    d = element_type(name, dtype, I64)
    if d not in (I64, I32):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtypes.OF[d].scalar_name}'")
    inside = test(xp.arange(col)[None, :] - xp.arange(row)[:, None], offset)
    found = xp.nonzero(inside).astype(d)
    return finished(devices.for_device(device).from_numpy(found))
