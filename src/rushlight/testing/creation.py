"""`make_tensor`: random tensors for tests, of any dtype and layout in memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of `shape` with elements uniform in [low, high).

    By default [-9, 9) for floating and complex dtypes, -9 to 9 for signed integers, 0 to 9 for
    uint8, both truth values for bool. `noncontiguous`: every second element of a longer memory.
    `exclude_zero`: the smallest positive number in the place of 0. ValueError for an empty interval,
    for one outside of what the dtype holds, for integers that are to require a gradient.

    >>> import rushlight as torch
    >>> t = torch.testing.make_tensor((2, 3), dtype=torch.float32, low=0, high=1)
    >>> t.shape, bool(((t >= 0) & (t < 1)).all())
    (torch.Size([2, 3]), True)
    """
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    eight_bits = dtype in dtypes.EIGHT_BITS
    floating = dtype.is_floating_point or dtype.is_complex
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and not floating:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, "
            f"but got dtype={dtype}"
        )
    least, most = _interval(dtype, low, high)
    spread = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if spread else shape
    if floating:
        result = torch.empty(drawn, dtype=torch.float32 if eight_bits else dtype, device=device)
        real = torch.view_as_real(result) if dtype.is_complex else result
        if most - least < torch.finfo(real.dtype).max:
            real.uniform_(least, most)
        else:  # uniform_ refuses an interval that is longer than the largest number
            real.uniform_(least / 2, most / 2).mul_(2)
        result = result.to(dtype)
    else:
        result = torch.randint(int(least), int(most), drawn, dtype=dtype, device=device)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = torch.finfo(dtype).tiny if floating else 1
    return result.requires_grad_(requires_grad) if requires_grad and not eight_bits else result


def _interval(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The half-open interval to draw from: the dtype's own where `low` or `high` is None."""
    if dtype is torch.bool:
        lowest, highest, default = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        limit = torch.finfo(dtype).max
        lowest, highest, default = -limit, limit, (-9, 9)
    else:
        info = torch.iinfo(dtype)
        lowest, highest, default = info.min, info.max + (dtype is not torch.int64), (-9, 10)
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    integral = not (dtype.is_floating_point or dtype.is_complex)
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if low == high and not integral and dtype not in dtypes.EIGHT_BITS:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{lowest}, {highest})"
        )
    low, high = (min(max(limit, lowest), highest) for limit in (low, high))
    return (math.ceil(low), math.ceil(high)) if integral else (low, high)
