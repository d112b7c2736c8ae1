"""Bits of integers, and truth values taken as one bit."""

from __future__ import annotations

from rushlight.dispatch.registry import Array, elementwise

BOTH = ("input", "other")


@elementwise(kernel="bitwise_and", accepts="bi", numbers=BOTH)
def bitwise_and(input: Array, other: Array):
    """`input & other`."""


@elementwise(kernel="bitwise_or", accepts="bi", numbers=BOTH)
def bitwise_or(input: Array, other: Array):
    """`input | other`."""


@elementwise(kernel="bitwise_xor", accepts="bi", numbers=BOTH)
def bitwise_xor(input: Array, other: Array):
    """`input ^ other`."""


@elementwise(kernel="invert", accepts="bi")
def bitwise_not(input: Array):
    """`~input`: all bits flipped; the negation of truth values.

    >>> import rushlight as torch
    >>> ~torch.tensor([0, 1, -1])
    tensor([-1, -2,  0])
    """


@elementwise(kernel="left_shift", accepts="i", numbers=BOTH)
def bitwise_left_shift(input: Array, other: Array):
    """`input << other`; 0 when `other` is negative or no less than the number of bits."""


@elementwise(kernel="right_shift", accepts="i", numbers=BOTH)
def bitwise_right_shift(input: Array, other: Array):
    """`input >> other`, with the sign; only the sign is left of what is shifted out of range."""
