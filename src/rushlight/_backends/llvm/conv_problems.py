"""What convolutions have, by which `conv.py` chooses how to compute them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rushlight._backends.llvm.conv_plans import ROW_MAJOR

if TYPE_CHECKING:
    from rushlight._backends.convolution import Problem


def are_shapes_of_one(p: Problem) -> bool:
    """Whether the shapes go together."""
    return (
        len(p.y) <= 5
        and p.x[0] == p.y[0]
        and p.x[1] == p.w[1] * p.groups
        and p.w[0] == p.y[1]
        and p.w[0] % p.groups == 0
        and min(p.x) > 0
        and min(p.y) > 0
        and min(p.w) > 0
    )


def reads_inside(p: Problem) -> bool:
    """Whether the windows of all outputs lie within the padded input."""
    each = zip(p.sizes, p.kernel, p.out, p.stride, p.padding, p.dilation, strict=True)
    return all((o - 1) * s + d * (k - 1) < n + 2 * q for n, k, o, s, q, d in each)


def is_pointwise(p: Problem) -> bool:
    """Whether each position is for itself: a product with the weight's matrix."""
    return (
        p.groups == prod(p.kernel) == max(p.stride) == 1
        and not any(p.padding)
        and (p.direction != "transposed" or p.sizes == p.out)
    )


def is_row_major(p: Problem) -> bool:
    """Whether both arrays and the result are row-major."""
    return not p.channels_last and p.layouts[:2] == (ROW_MAJOR, ROW_MAJOR)
