"""Arithmetic, element by element."""

from __future__ import annotations

from rushlight.ops.registry import Array, elementwise


@elementwise(kernel="add")
def add(input: Array, other: Array):
    """`input + other`."""


add.grad(input=lambda g: g, other=lambda g: g)


@elementwise(kernel="multiply")
def mul(input: Array, other: Array):
    """`input * other`."""


mul.grad(input=lambda g, other: g * other, other=lambda g, input: g * input)


@elementwise(kernel="exp", promote="float")
def exp(input: Array):
    """e to the power of each element."""


exp.grad(input=lambda g, result: g * result)
