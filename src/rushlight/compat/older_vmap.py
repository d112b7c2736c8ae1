"""`torch._vmap_internals`: where `vmap` was before PyTorch had `torch.func`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rushlight import func

__all__ = ["vmap"]


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0) -> Callable:
    """`torch.func.vmap`, with a warning that this name is old."""
    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.",
        FutureWarning,
        stacklevel=2,
    )
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable:
    """`torch.func.vmap`; with `allow_none_pass_through` results in a tuple may be None."""
    if not allow_none_pass_through:
        return _mapped(func, in_dims, out_dims)

    def mapped(*args: Any) -> tuple:
        is_tensor: list[bool] = []

        def tensors(*inside: Any) -> tuple:
            results = func(*inside)
            is_tensor[:] = [r is not None for r in results]
            return tuple(r for r in results if r is not None)

        found = iter(_mapped(tensors, in_dims, out_dims)(*args))
        return tuple(next(found) if there else None for there in is_tensor)

    return mapped


_mapped = func.vmap
