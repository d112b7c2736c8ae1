"""How many floating-point operations a call takes, by PyTorch's formulas for profiles."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.core import geometry
from rushlight.core.tensor import Tensor

PRODUCTS = frozenset("mm bmm addmm baddbmm".split())
TRANSPOSED = ("nn.functional.linear", "internal.times_adjoint")  # their second factor is


def flops_of(name: str, inputs: Any, path: str) -> int:
    """The operations of an event with this name; 0 where PyTorch has no formula.

    `inputs`: the arguments of the operator `path`, which the event is, or is a part of.
    """
    name = name.removeprefix("aten::")
    if name in PRODUCTS:
        tensors = [t for t in inputs if isinstance(t, Tensor)]
        a, b = tensors[1:3] if path in PRODUCTS and name.find("add") >= 0 else tensors[:2]
        if a.ndim < 2 or b.ndim < 2:
            return 0
        columns = b.shape[-2] if path in TRANSPOSED else b.shape[-1]
        batch = geometry.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return 2 * prod(batch) * a.shape[-2] * a.shape[-1] * columns
    if name in ("add", "mul"):
        return prod(inputs[0].shape) if isinstance(inputs[0], Tensor) else 0
    return _conv2d(*inputs[:7]) if name == "conv2d" else 0


def _conv2d(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> int:
    """The operations of a 2d convolution; 0 where its padding is a word, or its input is no batch of images."""
    if isinstance(padding, str) or input.ndim != 4:
        return 0
    stride, padding, dilation = (
        v if isinstance(v, (tuple, list)) else (v, v) for v in (stride, padding, dilation)
    )
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(
            input.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    return 2 * input.shape[0] * prod(out) * prod(weight.shape)
