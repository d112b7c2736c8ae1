"""Views: the same memory under another shape."""

from __future__ import annotations

from rushlight.ops.registry import Array, op


@op(view=True, where="Tensor")
def expand(xp, input: Array, size: Sizes, *, implicit: bool = False):
    import numpy as np

    return np.broadcast_to(input, size)


expand.grad(input=lambda g, input_shape: g.sum_to_size(input_shape))


@op(view=True)
def transpose(xp, input: Array, dim0: int, dim1: int):
    return input.swapaxes(dim0, dim1)


transpose.grad(input=lambda g, dim0, dim1: g.transpose(dim0, dim1))
