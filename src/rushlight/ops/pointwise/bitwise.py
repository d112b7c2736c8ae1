"""Bits of integers, and truth values taken as one bit."""

from __future__ import annotations

from rushlight.dispatch.registry import Array, elementwise

for name, kernel, accepts, meaning in (
    ("bitwise_and", "bitwise_and", "bi", "`input & other`."),
    ("bitwise_or", "bitwise_or", "bi", "`input | other`."),
    ("bitwise_xor", "bitwise_xor", "bi", "`input ^ other`."),
    ("bitwise_left_shift", "left_shift", "i",
     "`input << other`; 0 when `other` is negative or no less than the number of bits."),
    ("bitwise_right_shift", "right_shift", "i",
     "`input >> other`, with the sign; only the sign is left of what is shifted out of range."),
):  # fmt: skip

    @elementwise(kernel, name=name, doc=meaning, accepts=accepts, numbers=("input", "other"))
    def declared(input: Array, other: Array):
        pass


@elementwise(kernel="invert", accepts="bi")
def bitwise_not(input: Array):
    """`~input`: all bits flipped; the negation of truth values.

    >>> import rushlight as torch
    >>> ~torch.tensor([0, 1, -1])
    tensor([-1, -2,  0])
    """
