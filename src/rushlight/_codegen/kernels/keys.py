"""Integers that have the order of elements.

A key of an element is an integer of 32 or 64 bits: of a floating-point number its bits, all but the
sign of a negative one turned over; -0 counts as 0, and NaN is above all others. Descending order is
the order of the keys with all bits turned over.
"""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.types import Type, f32, f64, i32, i64

KEYS = {f32: i32, f64: i64, i64: i64}


def key_type(t: Type) -> Type:
    """The type of the keys of elements of type `t`."""
    return KEYS.get(t.loaded, i32)


@inline
def key(v, DOWN, K):
    """The key of an element, or of a vector of them; DOWN: whether of descending order."""
    return ~rising(v, K) if DOWN else rising(v, K)


@inline
def rising(v, K):
    """The key of an element, or of a vector of them, of ascending order."""
    if typeof(v).is_float:
        raw = bits(v + 0, K)
        ordered = raw ^ ((raw >> (8 * K.size - 1)) & ((1 << (8 * K.size - 1)) - 1))
        k = select(v != v, (1 << (8 * K.size - 1)) - 1, ordered)
    else:
        k = K(v)
    return k


@inline
def nan_key(T, K):
    """The key of NaN, or None."""
    return (1 << (8 * K.size - 1)) - 1 if T.is_float else None
