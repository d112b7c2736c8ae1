"""`functorch.experimental`: what became public in `torch.func` since, and `chunk_vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight._higher_order_ops import control_flow
from rushlight.func import (
    functionalize,
    hessian,
    jacfwd,
    jvp,
    replace_all_batch_norm_modules_,
    vmap,
)
from rushlight.func.batching import mapped_size

__all__ = ["chunk_vmap", "control_flow", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]  # fmt: skip


def chunk_vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable:
    """`vmap` in a number of chunks; `vmap(chunk_size=)` says how long they are instead."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = -(-mapped_size(func, in_dims, args) // chunks)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(size, 1))(*args, **kwargs)

    return wrapper
