"""Calls whose arguments are of several dtypes, by the shortest way: `mask * x`, `indices + 1`, `half * 2.5`.

Each function gives the result of a call of which nothing is recorded, or None where there is more to it than it
sees: then the general way (calls.py) is taken, which would have had the same result.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes, modes
from rushlight.core.dtype_sets import FLOATING, FULL, I64, REDUCED
from rushlight.core.tensor import Tensor, _wrap

if TYPE_CHECKING:
    from rushlight.dispatch.general import Built

ndarray = np.ndarray
# What kernels raise; the general way does it again, and says it in PyTorch's words.
ERRORS = (ValueError, RuntimeWarning, TypeError, OverflowError, RuntimeError)
WIDE = FULL | {I64}
SAME = ("same", "bool")


def of_tensors(built: Built, input: Tensor, other: Tensor) -> Any:
    """Two tensors of different dtypes: what is cast must need no gradient, since the cast is not recorded."""
    a, b = input._array, other._array
    if active.modes or built.op.promote not in SAME or a.dtype is b.dtype:
        return None
    if not (a.__class__ is b.__class__ is ndarray and a.ndim and b.ndim):
        return None
    d = dtypes.promote_types(dtypes.OF[a.dtype], dtypes.OF[b.dtype]).np
    if d not in WIDE:
        return None
    if a.dtype is not d:
        if input._edge is not None:
            return None
        input = _wrap(a.astype(d))
    if b.dtype is not d:
        if other._edge is not None:
            return None
        other = _wrap(b.astype(d))
    return built.operator(input, other)


def of_number(built: Built, input: Tensor, number: Any) -> Any:
    """A tensor of integers, bools or a half type, and a Python number."""
    op, a = built.op, input._array
    if a.__class__ is not ndarray or active.modes or not a.ndim or op.kernel is None:
        return None
    if not op.elementwise or op.promote is None or input._edge is not None and thread.grad:
        return None
    kind, taken = a.dtype.kind, None
    if op.variant is not None:
        named = dict(zip(op.params, (input, number), strict=False))
        taken = op.taken_over(op.defaults | named)
    try:
        if a.dtype in REDUCED:
            if taken is not None:  # by one that takes the number as it is
                if not taken.has_body or taken.promote is not None:
                    return None
                r = taken.declared(xp, a, number)
            else:
                r = getattr(xp, op.kernel)(a, rounded(number, a.dtype))
        elif taken is not None or kind not in "biu":
            return None
        elif number.__class__ is float or op.promote == "float":
            return built.operator(_wrap(a.astype(modes._default_dtype.np)), number)
        elif kind == "b":
            return built.operator(_wrap(a.astype(np.int64)), number)
        else:
            bits = 8 * a.itemsize - (kind == "i")
            if not (-1 << bits if kind == "i" else 0) <= number < 1 << bits:
                return None  # it wraps around, in comparisons too, where NumPy compares exactly
            r = getattr(xp, op.kernel)(a, number)
    except ERRORS:
        return None
    if r.dtype is not a.dtype and op.promote != "bool":
        return None
    return _wrap(r)


def rounded(number: Any, d: np.dtype) -> Any:
    """A Python number as a 0-d array of a half type."""
    return known(number, d) if number else xp.number(number, d)  # 0.0 and -0.0 are one key


known = functools.lru_cache(256)(lambda number, d: xp.number(number, d))


def of_integers(built: Built, input: Tensor, *rest: Any) -> Any:
    """A function of one tensor that computes in floating point, of integers or bools."""
    op = built.op
    if op.promote != "float" or len(op.inputs) > 1 or input.__class__ is not Tensor:
        return None
    a = input._array
    if a.__class__ is not ndarray or active.modes or not a.ndim or a.dtype.kind not in "biu":
        return None
    if op.has_out:
        *rest, out = rest
        if out is not None:
            return None
    n = op.n_positional - 1
    named = dict(zip(op.params[n + 1 :], rest[n:], strict=True))
    return built.function(_wrap(a.astype(modes._default_dtype.np)), *rest[:n], **named)


def with_numbers(built: Built, values: tuple) -> Any:
    """An operator whose further inputs may be numbers (`lerp`), of floating-point tensors of one dtype."""
    op = built.op
    if op.kernel is None or not op.elementwise or op.promote != "same" or active.modes:
        return None
    n = len(op.inputs)
    if n < 3 or len(op.params) > n or values[n:] != (None,) * len(values[n:]):
        return None
    given, d = [], None
    for v in values[:n]:
        if v.__class__ is Tensor:
            a = v._array
            d = a.dtype if d is None else d
            if a.__class__ is not ndarray or a.dtype is not d or not a.ndim:
                return None
            if v._edge is not None and thread.grad:
                return None
            given.append(a)
        elif given and (v.__class__ is float or v.__class__ is int):
            given.append(v)
        else:
            return None
    if d not in FLOATING:
        return None
    try:
        if d not in REDUCED:
            r = getattr(xp, op.kernel)(*given)
        elif op.variant is not None and (taken := op.variant(*values[:n])) is not None:
            r = getattr(taken, "op", taken).declared(xp, *given)
        else:
            return None
    except ERRORS:
        return None
    return _wrap(r) if r.__class__ is ndarray and r.dtype is d else None


def by_variant(built: Built, values: tuple) -> Any:
    """An operator that another takes over (`add` with an `alpha`), of floating-point tensors of one dtype."""
    op = built.op
    if op.variant is None or (op.has_out and values[-1] is not None):
        return None
    named = dict(zip(op.params, values, strict=False))
    d = None
    for i in op.inputs:
        v = named[i]
        if v.__class__ is not Tensor or v._edge is not None and thread.grad:
            return None
        a = v._array
        d = a.dtype if d is None else d
        if a.__class__ is not ndarray or a.dtype is not d or not a.ndim:
            return None
        named[i] = a
    if d not in FULL:
        return None
    try:
        taken = op.taken_over(dict(zip(op.params, values, strict=False)))
        if taken is None or not taken.has_body or taken.inputs != op.inputs or taken.outputs:
            return None
        n = taken.n_positional
        r = taken.declared(
            xp, *[named[p] for p in taken.params[:n]], **{p: named[p] for p in taken.params[n:]}
        )
    except ERRORS:
        return None
    return _wrap(r) if r.__class__ is ndarray and r.dtype is d else None
