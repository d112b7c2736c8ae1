"""Python functions applied to every element: `apply_`, `map_`, `map2_`. Slow: for odd jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor, _bump
from rushlight.dispatch.inplace import check_inplace
from rushlight.dispatch.registry import public

if TYPE_CHECKING:
    from collections.abc import Callable


def _write(name: str, self: Tensor, others: tuple[Tensor, ...], function: Callable) -> Tensor:
    """Write the results of a Python function of each element, or of each pair, into a tensor."""
    if thread.grad and any(isinstance(t, Tensor) and t.requires_grad for t in (self, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    if self.is_meta:
        raise NotImplementedError(f"{name}() cannot be called on a meta tensor: it has no values")
    check_inplace(self, name, False)
    a = self._array
    columns: list[Any] = [a]
    for other in others:
        if not isinstance(other, Tensor) or other._array.dtype is not a.dtype:
            got = other.type() if isinstance(other, Tensor) else type(other).__name__
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {got})")
        columns.append(devices.common((a, other._array)).broadcast_to(other._array, a.shape))
    results = [
        function(*values) for values in zip(*(c.ravel().tolist() for c in columns), strict=True)
    ]
    for r in results:
        if isinstance(r, (str, bytes)):
            raise TypeError(f"'{type(r).__name__}' object cannot be interpreted as a number")
    with np.errstate(all="ignore"):
        values = xp.asarray(results).reshape(a.shape).astype(a.dtype)
        a[...] = devices.of(a).from_numpy(values)
    _bump(self)
    return self


@public("Tensor")
def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replace every element by `callable(element)`."""
    return _write("apply_", self, (), callable)


@public("Tensor")
def map_(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replace every element by `callable(element, element of tensor)`; `tensor` is broadcast."""
    return _write("map_", self, (tensor,), callable)


@public("Tensor")
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Replace every element by `callable(element, element of x, element of y)`."""
    return _write("map2_", self, (x, y), callable)
