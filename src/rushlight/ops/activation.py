"""Activation functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.ops.registry import Array, composite, elementwise, op

if TYPE_CHECKING:
    from rushlight.tensor import Tensor


@elementwise(node="ReluBackward0")
def relu(xp, input: Array):
    """max(x, 0), element by element.

    >>> import rushlight as torch
    >>> torch.relu(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    if input.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    return np.maximum(input, input.dtype.type(0))


relu.grad(input=lambda g, result: threshold_backward(g, result, 0))


@op(method=False)
def threshold_backward(xp, grad_output: Array, input: Array, threshold: float):
    """The gradient where the input is above the threshold, else 0."""
    return np.where(input > threshold, grad_output, grad_output.dtype.type(0))


threshold_backward.grad(
    grad_output=lambda g, input, threshold: threshold_backward(g, input, threshold)
)


@composite(where="nn.functional", name="relu")
def functional_relu(input: Array, inplace: bool = False):
    """As `torch.relu`; `inplace`: into the input's memory."""
    return input.relu_() if inplace else relu(input)


@composite(where="nn.functional", name="relu_", inplace=False)
def functional_relu_(input: Array):
    """`relu` into the input's memory."""
    return input.relu_()


def dropout_mask(input: Tensor, p: float, shape: Any = None) -> Tensor:
    """Zeros with probability `p`, else 1 / (1 - p), drawn as PyTorch draws them."""
    mask = input.new_empty(input.shape if shape is None else shape).bernoulli_(1 - p)
    return mask.div_(1 - p)


@composite
def dropout(input: Array, p: float, train: bool):
    """Zero elements with probability `p` and scale the rest by 1 / (1 - p), when training."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * input.new_zeros(())
    return input * dropout_mask(input, p)


@composite(where="nn.functional", name="dropout")
def functional_dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False):
    """As `torch.dropout`; `inplace`: into the input's memory."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return input.dropout_(p, training) if inplace else dropout(input, p, training)
