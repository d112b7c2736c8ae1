"""Reductions: one value from many."""

from __future__ import annotations

from rushlight.ops.registry import Array, op


@op()
def sum(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    return input.sum(axis=dim, keepdims=keepdim)


sum.grad(input=lambda g, input_shape, dim, keepdim: g.expand(input_shape))


@op(where="Tensor")
def sum_to_size(xp, input: Array, size: Sizes):
    """Sum over the dimensions that `expand` stretched, so that the result has the shape `size`."""
    lead = input.ndim - len(size)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(size) if n == 1 and input.shape[i + lead] != 1
    )
    return input.sum(axis=axes, keepdims=True).reshape(size)


sum_to_size.grad(input=lambda g, input_shape: g.expand(input_shape))
