"""The gradients of convolutions as functions: `torch.nn.grad`.

`conv2d_input(size, weight, g)` is the gradient of `conv2d(input, weight)` by an input of that size,
`conv2d_weight(input, size, g)` the one by the weight, where g is the gradient of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.ops.nn.conv import expanded, input_gradient, weight_gradient

__all__ = [f"conv{n}d_{what}" for n in (1, 2, 3) for what in ("input", "weight")]


def _input(n: int) -> Callable:
    def gradient(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        how = (expanded(v, n, "argument") for v in (stride, padding, dilation))
        return input_gradient(grad_output, weight, tuple(input_size), *how, False, groups)

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_input"
    gradient.__doc__ = f"The gradient of `conv{n}d` by an input of size `input_size`."
    return gradient


def _weight(n: int) -> Callable:
    def gradient(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        how = (expanded(v, n, "argument") for v in (stride, padding, dilation))
        return weight_gradient(grad_output, input, tuple(weight_size), *how, False, groups)

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_weight"
    gradient.__doc__ = f"The gradient of `conv{n}d` by a weight of size `weight_size`."
    return gradient


conv1d_input, conv2d_input, conv3d_input = map(_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight, (1, 2, 3))
