"""What programs ask of the tensors of transforms, and the switch of the loop that `vmap` falls back to."""

from __future__ import annotations

from rushlight._ops import TransformType
from rushlight.core.tensor import Tensor
from rushlight.dispatch import batch
from rushlight.dispatch.batch import Batch, batched
from rushlight.dispatch.transforms import Level, Lifted, tensor_inside
from rushlight.func import batching

__all__ = [
    "TransformType", "get_unwrapped", "is_batchedtensor", "maybe_get_bdim", "maybe_get_level",
]  # fmt: skip


def _is_vmap_fallback_enabled() -> bool:
    """Whether operators without a batching rule run once for each element."""
    return batch.fallback_on


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Allow it, or let it raise RuntimeError."""
    batch.fallback_on = enabled


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether `vmap` maps over a tensor.

    >>> import rushlight as torch
    >>> is_batchedtensor(torch.ones(2))
    False
    """
    return isinstance(tensor._array, Batch)


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor inside of one of a transform, the mapped dimension where `vmap` was given it."""
    a = tensor._array
    if not isinstance(a, Lifted):
        raise RuntimeError("No wrappers present!")
    return a.original[0] if isinstance(a, Batch) else tensor_inside(a)


def maybe_get_bdim(tensor: Tensor) -> int:
    """The mapped dimension in `get_unwrapped(tensor)`, -1 where there is none."""
    a = tensor._array
    dim = a.original[1] if isinstance(a, Batch) else None
    return -1 if dim is None else dim


def maybe_get_level(tensor: Tensor) -> int:
    """The depth of the transform that a tensor belongs to, -1 for one of none."""
    a = tensor._array
    return a.level.depth if isinstance(a, Lifted) else -1


def _add_batch_dim(tensor: Tensor, dim: int, level: Level) -> Tensor:
    """A tensor of a level of `vmap` whose mapped dimension is `dim`; the level is that of a `HigherOrderOperator`'s part."""
    return batched(tensor, dim, level)


def _remove_batch_dim(tensor: Tensor, level: Level, batch_size: int, out_dim: int) -> Tensor:
    """A tensor without a level of `vmap`, with the mapped dimension at `out_dim`; one that has none is repeated."""
    return batching.unbatched(tensor, out_dim, level, batch_size)
