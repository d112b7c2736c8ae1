"""Softmax and its kin: exponentials that share one sum."""

from __future__ import annotations

from rushlight.core import settings
from rushlight.dispatch.registry import Array, DType, composite, op

# The inner operators take PyTorch's arguments: its other devices convert to float32 on the way.
NO_CONVERSION = "{} with half to float conversion is not supported on CPU: convert the input before"


@op(name="_softmax", node="SoftmaxBackward0", method=False)
def softmax_of(xp, input: Array, dim: int, half_to_float: bool = False):
    """exp(x) / sum(exp(x)) along `dim`."""
    if half_to_float:
        raise RuntimeError(NO_CONVERSION.format("softmax"))
    return xp.softmax(input, dim)


softmax_of.grad(input=lambda g, result, dim: softmax_backward(g, result, dim))


@op(name="_log_softmax", node="LogSoftmaxBackward0", method=False)
def log_softmax_of(xp, input: Array, dim: int, half_to_float: bool = False):
    """x - log(sum(exp(x))) along `dim`."""
    if half_to_float:
        raise RuntimeError(NO_CONVERSION.format("log_softmax"))
    return xp.log_softmax(input, dim)


log_softmax_of.grad(input=lambda g, result, dim: log_softmax_backward(g, result, dim))


@op(name="_softmax_backward_data", node="SoftmaxBackwardDataBackward0", method=False)
def softmax_backward(
    xp, grad_output: Array, output: Array, dim: int, input_dtype: DType | None = None
):
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
    found = xp.softmax_gradient(grad_output, output, dim)
    return found if input_dtype is None else found.astype(input_dtype.np, copy=False)


softmax_backward.grad(
    grad_output=lambda g, output, dim: softmax_backward(g, output, dim),
    output=lambda g, grad_output, output, dim: (
        g * (grad_output - (grad_output * output).sum(dim, keepdim=True))
        - grad_output * (g * output).sum(dim, keepdim=True)
    ),
)


@op(name="_log_softmax_backward_data", node="LogSoftmaxBackwardDataBackward0", method=False)
def log_softmax_backward(
    xp, grad_output: Array, output: Array, dim: int, input_dtype: DType | None = None
):
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
    found = xp.log_softmax_gradient(grad_output, output, dim)
    return found if input_dtype is None else found.astype(input_dtype.np, copy=False)


log_softmax_backward.grad(
    grad_output=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad_output, output, dim: (
        -g * output.exp() * grad_output.sum(dim, keepdim=True)
    ),
)


@composite
def softmax(input: Array, dim: int, dtype: DType | None = None):
    """exp(x) / sum(exp(x)) along `dim`, of the shape of `input`; `dtype`: compute in it.

    >>> import rushlight as torch
    >>> torch.softmax(torch.zeros(4), dim=0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return softmax_of(input if dtype is None else input.to(dtype), dim)


@composite
def log_softmax(input: Array, dim: int, dtype: DType | None = None):
    """log(softmax(x)) along `dim`, computed stably."""
    return log_softmax_of(input if dtype is None else input.to(dtype), dim)


def implicit_dim(name: str, ndim: int) -> int:
    """The dimension PyTorch takes where none is given: deprecated there too."""
    settings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as "
        "an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(where="nn.functional", name="softmax")
def functional_softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
):
    """As `torch.softmax`; without `dim` it is guessed, with a warning."""
    dim = implicit_dim("softmax", input.ndim) if dim is None else dim
    return softmax_of(input if dtype is None else input.to(dtype), dim)


@composite(where="nn.functional", name="log_softmax")
def functional_log_softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
):
    """As `torch.log_softmax`; without `dim` it is guessed, with a warning."""
    dim = implicit_dim("log_softmax", input.ndim) if dim is None else dim
    return log_softmax_of(input if dtype is None else input.to(dtype), dim)


@composite(where="nn.functional")
def softmin(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None):
    """The softmax of -x."""
    return softmax(-input, implicit_dim("softmin", input.ndim) if dim is None else dim, dtype)


softmax.alias("special.softmax")
log_softmax.alias("special.log_softmax")
