"""Numbers rounded as if they were quantised, for training that gets used to it: `fake_quantize_per_tensor_affine` and its like.

The gradient is straight through: that of the result where a number is within the bounds, and 0 elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import dtypes, geometry
from rushlight.core.dtype_sets import F32, REDUCED
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, op

NODES = {
    "tensor": "FakeQuantizePerTensorAffineCachemaskBackward0",
    "parameters": "FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0",
    "channel": "FakeQuantizePerChannelAffineCachemaskBackward0",
}
WHOLE = 2.0**63  # what a channel's kernel makes an int64 of, is below it


def node_of(how: str, **rest: Any) -> str:
    return NODES[how]


@op(where="internal", name="fake_quantize", node=node_of, intermediates=("within",), out=False)
def rounded(
    xp, input: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int, how: str,
    keep: bool,
):  # fmt: skip
    """(min(max(rint(x / scale) + zero_point, quant_min), quant_max) - zero_point) * scale, by arrays that broadcast.

    Intermediate: where the number was within the bounds.
    """
    x = xp.cast(input, F32) if input.dtype in REDUCED else input
    scaled, zero = x * (1 / scale), xp.cast(zero_point, F32)
    fraction = how == "channel" and zero_point.dtype.kind != "i"
    q = xp.rint(scaled + zero) if fraction else xp.rint(scaled) + zero
    if how == "channel":
        q[~(abs(q) < WHOLE)] = -math.inf
    within = (q >= quant_min) & (q <= quant_max) if keep else None
    q = xp.fmin(xp.fmax(q, q.dtype.type(quant_min)), q.dtype.type(quant_max))
    r = ((q if how == "channel" else xp.cast(q, F32)) - zero) * scale
    return xp.laid_out(xp.cast(r, input.dtype), input), within


rounded.grad(input=lambda g, within: g * within)


def check_bounds(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def check_kind(input: Tensor, name: str) -> None:
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.scalar_name}'")


@composite(method=False, inplace=False, out=False)
def fake_quantize_per_tensor_affine(
    input: Array, scale: Any, zero_point: Any, quant_min: int, quant_max: int
):
    """`input` rounded to multiples of `scale`: whole numbers from `quant_min` to `quant_max`, of which `zero_point` is 0.

    `scale` and `zero_point` are numbers, or tensors of one element.

    >>> import rushlight as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, -0.74, 9.0]), 0.1, 0, -5, 5)
    tensor([ 0.3000, -0.5000,  0.5000])
    """
    from rushlight import tensor

    check_bounds(quant_min, quant_max)
    both = isinstance(scale, Tensor) and isinstance(zero_point, Tensor)
    how = "parameters" if both else "tensor"
    if how == "parameters":
        if scale.requires_grad:
            raise RuntimeError(
                "The function '_fake_quantize_per_tensor_affine_cachemask_tensor_qparams' is not differentiable with "
                "respect to argument 'scale'. This input cannot have requires_grad True."
            )
        scale, zero_point = scale.reshape(()), zero_point.reshape(())
    else:
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
        scale, zero_point = tensor(float(scale)), tensor(int(zero_point))
    check_kind(input, "fake_quantize_tensor_cachemask_kernel_type_handling")
    scale = scale.to(dtypes.float32)
    return rounded(input, scale, zero_point, int(quant_min), int(quant_max), how)


@composite(method=False, inplace=False, out=False)
def fake_quantize_per_channel_affine(
    input: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
):
    """As `fake_quantize_per_tensor_affine`, with a scale and a zero point for each place along `axis`.

    >>> import rushlight as torch
    >>> x, zeros = torch.tensor([[0.26, 0.26], [2.0, 2.0]]), torch.zeros(2, dtype=torch.int32)
    >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.2]), zeros, 1, -5, 5)
    tensor([[0.3000, 0.2000],
            [0.5000, 1.0000]])
    """
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scale.dtype.scalar_name}")
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(
            f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.scalar_name}"
        )
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError("scale and zero point need to be 1-D tensors")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    d = geometry.wrap_dim(axis, input.ndim)
    if input.shape[d] != scale.numel():
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )
    check_bounds(quant_min, quant_max)
    if zero_point.dtype is dtypes.int32 and bool(
        ((zero_point < quant_min) | (zero_point > quant_max)).any()
    ):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    check_kind(input, "fake_quantize_channel_cachemask_cpu_type_handling")
    shape = [1] * input.ndim
    shape[d] = -1
    scale, zero_point = (
        scale.detach().to(dtypes.float32).reshape(shape),
        zero_point.detach().reshape(shape),
    )
    return rounded(input, scale, zero_point, int(quant_min), int(quant_max), "channel")
