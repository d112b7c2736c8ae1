"""Running reductions: the sum, product, ... of everything up to each place along one dimension."""

from __future__ import annotations

from rushlight.ops.reduce import axis
from rushlight.ops.registry import Array, op


@op(inplace=True)
def cumsum(xp, input: Array, dim: int, *, dtype: DType | None = None):
    """The sum of the elements up to each place along `dim`. Integers and bool give int64.

    Floats accumulate in float64 (float16 and bfloat16 in float32), as PyTorch's do on a CPU.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    return xp.running(input, axis(dim, input.ndim, "cumsum"), xp.add, dtype and dtype.np)


cumsum.grad(input=lambda g, dim, dtype, input_dtype: from_the_end(g, dim, dtype and input_dtype))


def from_the_end(g, dim, dtype):
    """The sum of the elements from each place on."""
    if g.ndim and g.shape[dim] > 1:
        g = g.flip(dim).cumsum(dim).flip(dim)
    return g if dtype is None else g.to(dtype)
