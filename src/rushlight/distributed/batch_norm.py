"""Batch normalisation over the batches of all processes, which `torch.nn.SyncBatchNorm` calls."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.nn import all_reduce

__all__ = ["batch_norm"]


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, momentum: float, eps: float, group: Any,
) -> Tensor:  # fmt: skip
    """Normalise by the mean and variance of all processes' elements of each channel; batches may differ in size."""
    channels = [1, -1] + [1] * (input.dim() - 2)
    over = [d for d in range(input.dim()) if d != 1]
    x = input.float() if input.dtype.itemsize < 4 else input
    own = x.new_full((1,), input.numel() // max(input.size(1), 1))
    sums = all_reduce(rushlight.cat([x.sum(over), own]), group=group)
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = x - mean.view(channels)
    variance = all_reduce((centred * centred).sum(over), group=group) / count
    if running_mean is not None and running_var is not None:
        with rushlight.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            unbiased = variance * (count / (count - 1).clamp(min=1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    result = centred * (variance + eps).rsqrt().view(channels)
    if weight is not None:
        result = result * weight.view(channels)
    if bias is not None:
        result = result + bias.view(channels)
    return result.to(input.dtype)
