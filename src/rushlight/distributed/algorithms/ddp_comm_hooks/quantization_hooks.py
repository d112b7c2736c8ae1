"""Communication hooks that send gradients as whole numbers from 0 to 255: a quarter of the bytes, and not the same average."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import _get_default_group
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

LAST = 255  # the greatest number that is sent


def quantization_pertensor_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average of gradients, each rounded to one of 256 numbers between the least and the greatest of the bucket."""
    return _averaged(process_group, bucket, max(1, len(bucket.buffer())))


def quantization_perchannel_hook(
    process_group: Any, bucket: GradBucket, bucket_size: int = 512
) -> Future[Tensor]:
    """As `quantization_pertensor_hook`, with the least and the greatest of each `bucket_size` gradients."""
    return _averaged(process_group, bucket, bucket_size)


def _averaged(process_group: Any, bucket: GradBucket, size: int) -> Future[Tensor]:
    group = _get_default_group() if process_group is None else process_group
    row = bucket.buffer()
    rows = rushlight.nn.functional.pad(row.float(), (0, -len(row) % size)).view(-1, size)
    steps, numbers = _rounded(rows)
    all_steps = [rushlight.empty_like(steps) for _ in range(group.size())]
    all_numbers = [rushlight.empty_like(numbers) for _ in range(group.size())]
    # mypy: with `async_op` there is something to wait for
    first: Any = collectives.all_gather(all_steps, steps, group, async_op=True)
    second: Any = collectives.all_gather(all_numbers, numbers, group, async_op=True)

    def average(done: Any) -> Tensor:
        done.value()
        first.wait()
        total = rushlight.zeros_like(rows)
        for (step, zero), each in zip([s.unbind(1) for s in all_steps], all_numbers):
            total += (each.float() - zero[:, None]) * step[:, None]
        return row.copy_(total.view(-1)[: len(row)].div_(group.size()))

    return second.get_future().then(average)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(for each row how far numbers are apart and which one is 0, the numbers)."""
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    step = ((high - low) / LAST).clamp(min=rushlight.finfo(rushlight.float32).eps)
    zero = (-(low / step).round()).clamp(0, LAST)
    numbers = (rows * step.reciprocal()[:, None]).round() + zero[:, None]
    return rushlight.stack([step, zero], 1), numbers.clamp(0, LAST).to(rushlight.uint8)
