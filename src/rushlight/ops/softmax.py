"""Softmax and its kin: exponentials that share one sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes, geometry
from rushlight.ops.registry import Array, composite, op

if TYPE_CHECKING:
    from rushlight.dtypes import dtype as DType


def shifted(xp: Any, a: np.ndarray, dim: int) -> tuple[np.ndarray, int]:
    """`a - max(a)` along `dim` (in float32 for half types), and the dimension counted from zero."""
    if a.dtype.kind not in "fcV":
        name = dtypes.OF[a.dtype].scalar_name
        raise RuntimeError(f"\"softmax_lastdim_kernel_impl\" not implemented for '{name}'")
    n = a.ndim
    axis = dim if 0 <= dim < n else geometry.wrap_dim(dim, n)
    wide = a if a.dtype.itemsize >= 4 else a.astype(np.float32)
    if not wide.size:
        return wide.copy(), axis
    if not n:
        return np.asarray(wide - wide), 0
    return wide - largest(wide, axis, None, None, True), axis


largest, added = np.maximum.reduce, np.add.reduce


@op(name="_softmax", node="SoftmaxBackward0", method=False)
def softmax_of(xp, input: Array, dim: int):
    """exp(x) / sum(exp(x)) along `dim`."""
    e, axis = shifted(xp, input, dim)
    np.exp(e, out=e)
    if e.size and e.ndim:
        e /= added(e, axis, None, None, True)
    return e if e.dtype is input.dtype else e.astype(input.dtype)


softmax_of.grad(input=lambda g, result, dim: softmax_backward(g, result, dim))


@op(name="_log_softmax", node="LogSoftmaxBackward0", method=False)
def log_softmax_of(xp, input: Array, dim: int):
    """x - log(sum(exp(x))) along `dim`."""
    s, axis = shifted(xp, input, dim)
    if s.size and s.ndim:
        s -= np.log(added(np.exp(s), axis, None, None, True))
    return s if s.dtype is input.dtype else s.astype(input.dtype)


log_softmax_of.grad(input=lambda g, result, dim: log_softmax_backward(g, result, dim))


@op(name="_softmax_backward_data", node="SoftmaxBackwardDataBackward0", method=False)
def softmax_backward(xp, grad_output: Array, output: Array, dim: int):
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
    g, y = grad_output, output
    if y.dtype.itemsize < 4:
        g, y = g.astype(np.float32), y.astype(np.float32)
    if not y.ndim:
        return (y * 0).astype(output.dtype)
    t = g * y
    t -= y * added(t, dim, None, None, True)
    return t if t.dtype is output.dtype else t.astype(output.dtype)


softmax_backward.grad(
    grad_output=lambda g, output, dim: softmax_backward(g, output, dim),
    output=lambda g, grad_output, output, dim: (
        g * (grad_output - (grad_output * output).sum(dim, keepdim=True))
        - grad_output * (g * output).sum(dim, keepdim=True)
    ),
)


@op(name="_log_softmax_backward_data", node="LogSoftmaxBackwardDataBackward0", method=False)
def log_softmax_backward(xp, grad_output: Array, output: Array, dim: int):
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
    g, y = grad_output, output
    if y.dtype.itemsize < 4:
        g, y = g.astype(np.float32), y.astype(np.float32)
    if not y.ndim:
        return (g * 0).astype(output.dtype)
    t = np.exp(y)
    t *= added(g, dim, None, None, True)
    t = np.subtract(g, t, out=t)
    return t if t.dtype is output.dtype else t.astype(output.dtype)


log_softmax_backward.grad(
    grad_output=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad_output, output, dim: (
        -g * output.exp() * grad_output.sum(dim, keepdim=True)
    ),
)


@composite
def softmax(input: Array, dim: int, dtype: DType | None = None):
    """exp(x) / sum(exp(x)) along `dim`; `dtype`: compute in it.

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
    import warnings

    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as "
        "an argument.",
        UserWarning,
        stacklevel=4,
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(where="nn.functional", name="softmax")
def functional_softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
):
    """As `torch.softmax`; without `dim` it is guessed, with a warning."""
    return softmax(input, implicit_dim("softmax", input.ndim) if dim is None else dim, dtype)


@composite(where="nn.functional", name="log_softmax")
def functional_log_softmax(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
):
    """As `torch.log_softmax`; without `dim` it is guessed, with a warning."""
    return log_softmax(
        input, implicit_dim("log_softmax", input.ndim) if dim is None else dim, dtype
    )


@composite(where="nn.functional")
def softmin(input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None):
    """softmax(-x)."""
    return softmax(-input, implicit_dim("softmin", input.ndim) if dim is None else dim, dtype)


softmax.alias("special.softmax")
log_softmax.alias("special.log_softmax")
