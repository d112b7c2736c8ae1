"""Communication hooks that average gradients, in their own dtype or in a narrow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import _get_default_group
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip


def _averaged(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Tensor]:
    group = _get_default_group() if process_group is None else process_group
    row = bucket.buffer()
    narrow = row.to(dtype).div_(group.size())
    future = collectives.all_reduce(narrow, group=group, async_op=True).get_future()  # type: ignore[union-attr]
    return future.then(lambda done: row.copy_(done.value()[0]))


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average, in the gradients' own dtype."""
    return _averaged(process_group, bucket, bucket.buffer().dtype)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average, sent as float16."""
    return _averaged(process_group, bucket, rushlight.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average, sent as bfloat16."""
    return _averaged(process_group, bucket, rushlight.bfloat16)


def _compressed(hook: Callable, dtype: Any) -> Callable:
    def wrapped(state: Any, bucket: GradBucket) -> Future[Tensor]:
        row = bucket.buffer()
        bucket.set_buffer(row.to(dtype))
        try:
            future = hook(state, bucket)
        finally:
            bucket.set_buffer(row)
        return future.then(lambda done: row.copy_(done.value()))

    return wrapped


def fp16_compress_wrapper(hook: Callable) -> Callable:
    """A hook that gets gradients as float16."""
    return _compressed(hook, rushlight.float16)


def bf16_compress_wrapper(hook: Callable) -> Callable:
    """A hook that gets gradients as bfloat16."""
    return _compressed(hook, rushlight.bfloat16)
