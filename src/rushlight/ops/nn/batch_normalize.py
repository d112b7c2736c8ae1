"""Normalisation over the batch, with running statistics, and of each instance by the same operator.

Gradients: Note [Gradients of normalisation] in normalize.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes
from rushlight.core.dtype_sets import FLOATING, REDUCED
from rushlight.core.tensor import INFERENCE, Tensor, _bump, _wrap
from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, composite, op
from rushlight.dispatch.transforms import Lifted
from rushlight.ops.nn.normalize import (
    arrays_as_given,
    as_given,
    check_mixed,
    derived,
    normalized_groups,
    refuse_exact,
    several_values,
    wide,
)

# -- batch normalisation ---------------------------------------------------------------------------


@op(name="_batch_norm", node="NativeBatchNormBackward0", method=False, out=False)
def normalized_batch(
    xp, input: Array, weight: Array | None, bias: Array | None, mean: Array, var: Array,
    training: bool, eps: float,
):  # fmt: skip
    """Normalised by the mean and (biased) variance that are given; in training by those of the batch,
    which are written there."""
    y, m, v = xp.batch_norm(input, weight, bias, mean, var, training, eps, True)
    if training and m is not mean and mean.flags.writeable:  # stand-ins of the meta device are not
        mean[...] = m
        var[...] = v
    return y


def rectified_batch(xp, input, weight, bias, mean, var, training, eps, added):
    """`normalized_batch` in training, plus what is `added`, or 0 where that is larger."""
    same_strides = (
        added is None or added.strides == input.strides
    )  # else sums have a layout of their own
    after = (added, True) if same_strides else ()
    y, m, v = xp.batch_norm(input, weight, bias, mean, var, training, eps, True, *after)
    if m is not mean:
        mean[...] = m
        var[...] = v
    return y if same_strides else xp.relu(xp.add(y, added))


def batch_rule(g, input, weight, mean, var, training, eps, needs):
    channels = input._array.shape[1:2]
    view = (1, -1, *[1] * (input.ndim - 2))
    dims = (0, *range(2, input.ndim))
    w = None if weight is None else weight.view(view)
    fixed = None if training else (mean.view(view), var.view(view))
    gx, gw, gb = derived(g, input, w, dims, eps, needs, fixed)
    gw, gb = (None if t is None else t.sum(dims) for t in (gw, gb))
    return *as_given(gx, gw, gb, input, weight, channels), None, None


def batch_gradients(xp, g, input, weight, mean, var, training, eps, needs):
    return rectified_batch_gradients(xp, g, input, weight, mean, var, training, eps, needs)


def rectified_batch_gradients(xp, g, input, weight, mean, var, training, eps, needs, *result):
    """The gradients of `normalized_batch`, or for those of its `result` where that was rectified."""
    needed = needs[:3]
    found = xp.batch_norm_gradients(g, input, weight, mean, var, training, eps, needed, *result)
    gx, gw, gb = found[0], found[1] if needs[1] else None, found[2] if needs[2] else None
    return *arrays_as_given(xp, gx, gw, gb, input, weight, input.shape[1:2]), None, None


normalized_batch.grad_all(batch_rule, kernel=batch_gradients, never=("mean", "var"))


def channels_checked(input: Tensor, **parameters: Tensor | None) -> None:
    if input.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{max(input.ndim, 1)}, "
            f"{max(input.ndim, 1) - 1}], but got 1)"
        )
    for name, t in parameters.items():
        if t is not None and t.numel() != input.shape[1]:
            raise RuntimeError(f"{name} should contain {input.shape[1]} elements not {t.numel()}")


def have_one_dtype(a: Any, *parameters: Any) -> bool:
    """Whether all that is given has the floating dtype of `a`, a number for each of its channels: no check
    is left."""
    d, channels = a.dtype, a.shape[1:2]
    if not channels or d not in FLOATING:
        return False
    for t in parameters:
        if t is not None and (t._array.dtype is not d or t._array.shape != channels):
            return False
    return True


def batch_normalized(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple:  # fmt: skip
    """(normalised, mean, biased variance); in training the running statistics are updated."""
    if not input._array.size:
        scale = input.clone() if weight is None else input * weight[0]
        empty = input.new_empty(input.shape[1:2])
        return scale if bias is None else scale + bias[0], empty, empty
    if not training:
        for name, t in (("running_mean", running_mean), ("running_var", running_var)):
            if t is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    if not have_one_dtype(input._array, weight, bias, running_mean, running_var):
        channels_checked(
            input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
        )
        refuse_exact(input, "batch_norm")
        check_mixed(input, weight, bias, running_mean, running_var)
    if not training:
        result = normalized_batch(input, weight, bias, running_mean, running_var, False, eps)
        return result, running_mean, running_var
    if isinstance(input._array, Lifted):
        dims = [d for d in range(input.ndim) if d != 1]
        var, mean = function("var_mean")(wide(input), dims, correction=0)
    else:
        mean, var = statistics(input), statistics(input)  # the kernel fills them
    result = normalized_batch(input, weight, bias, mean, var, True, eps)
    update_running(input, mean, var, running_mean, running_var, momentum)
    return result, mean, var


def statistics(input: Any) -> Any:
    """A tensor for numbers of the channels."""
    a = input._array
    if a.__class__ is not np.ndarray or active.modes:
        dtype = dtypes.float32 if a.dtype in REDUCED else input.dtype
        return input.detach().new_empty(a.shape[1], dtype=dtype)
    return _wrap(xp.empty(a.shape[1], np.float32 if a.dtype.itemsize == 2 else a.dtype))


def plain(t: Any) -> bool:
    """Whether a buffer's memory may be written to as it is."""
    return (
        t.__class__ is Tensor
        and t._array.__class__ is np.ndarray
        and t._edge is None
        and t._counter is not INFERENCE
        and not active.modes
    )


def update_running(
    input: Any, mean: Any, var: Any, running_mean: Any, running_var: Any, momentum: float
) -> None:
    """Move the running statistics towards those of the batch (its unbiased variance)."""
    shape = input._array.shape
    n = prod(shape)
    if running_mean is None and running_var is None or not n:
        return
    n //= shape[1]
    unbiased = n / (n - 1) if n > 1 else float("nan")
    if plain(running_mean) and plain(running_var) and mean._array.__class__ is np.ndarray:
        xp.update_running_stats(
            running_mean._array, running_var._array, mean._array, var._array, momentum, unbiased
        )
        _bump(running_mean)
        _bump(running_var)
        return
    for t in (running_mean, running_var):
        if isinstance(mean._array, Lifted) and t is not None and not isinstance(t._array, Lifted):
            mean._array.refuse_update()
    recording, thread.grad = thread.grad, False
    try:
        for t, found, share in (
            (running_mean, mean, momentum), (running_var, var, momentum * unbiased)
        ):  # fmt: skip
            if t is not None:  # halves are rounded once, as the kernel does
                t.copy_(wide(t) * (1 - momentum) + found * share)
    finally:
        thread.grad = recording


@composite(method=False, inplace=False)
def batch_norm(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
):  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel (Ioffe and Szegedy 2015).

    `input`: (N, C, *). In training the statistics are the batch's, and the running ones move to
    them by `momentum`; else they are the running ones.
    """
    return batch_normalized(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


@composite(method=False, inplace=False)
def native_batch_norm(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, training: bool, momentum: float, eps: float,
):  # fmt: skip
    """(batch_norm(input), mean, 1 / sqrt(var + eps)); the last two are empty unless `training`."""
    result, mean, var = batch_normalized(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    d = input.dtype if weight is None else weight.dtype
    if not training:
        return result, input.new_empty(0, dtype=d), input.new_empty(0, dtype=d)
    if is_plain(mean) and is_plain(var):
        rstd = _wrap(xp.rsqrt(var._array + eps))
    else:
        mean, rstd = mean.detach(), (var.detach() + eps).rsqrt()
    return result, cast_to(mean, d), cast_to(rstd, d)


def is_plain(t: Tensor) -> bool:
    """Whether a tensor is its array and nothing else."""
    return t._edge is None and t._array.__class__ is np.ndarray and not active.modes


def cast_to(t: Tensor, d: Any) -> Tensor:
    return t if t.dtype is d else t.to(d)


@composite(where="nn.functional", name="batch_norm", inplace=False)
def functional_batch_norm(
    input: Array, running_mean: Array | None, running_var: Array | None,
    weight: Array | None = None, bias: Array | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
):  # fmt: skip
    """As `torch.batch_norm`; in training every channel must have more than one value.

    >>> import rushlight as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if training:
        if not input.ndim:
            raise IndexError("tuple index out of range")
        several_values(input._array.shape)
    return batch_normalized(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


# -- instance normalisation ------------------------------------------------------------------------


@composite(method=False, inplace=False)
def instance_norm(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool,
):  # fmt: skip
    """Batch normalisation of each sample by itself (Ulyanov 2016).

    The running statistics move towards the mean over the samples.
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    if input.ndim < 2:
        channels_checked(input)
    n, c = input.shape[:2]
    if running_mean is None and running_var is None and input.numel():
        channels_checked(input, weight=weight, bias=bias)
        refuse_exact(input, "batch_norm")
        check_mixed(input, weight, bias)
        return normalized_groups(input.contiguous(), weight, bias, c, eps).view(input.shape)

    def repeated(t: Any) -> Any:
        return None if t is None else t.repeat(n)

    parts = [repeated(t) for t in (weight, bias, running_mean, running_var)]
    folded = input.contiguous().view(1, n * c, *input.shape[2:])
    result = batch_norm(folded, *parts, use_input_stats, momentum, eps, cudnn_enabled)
    recording, thread.grad = thread.grad, False
    try:
        for running, copies in ((running_mean, parts[2]), (running_var, parts[3])):
            if running is not None and use_input_stats:
                running.copy_(copies.view(n, c).mean(0))
    finally:
        thread.grad = recording
    return result.view(input.shape)


@composite(where="nn.functional", name="instance_norm", inplace=False)
def functional_instance_norm(
    input: Array, running_mean: Array | None = None, running_var: Array | None = None,
    weight: Array | None = None, bias: Array | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
):  # fmt: skip
    """As `torch.instance_norm`; every sample must have more than one spatial element."""
    if use_input_stats and input.ndim > 1 and prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    return instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )
