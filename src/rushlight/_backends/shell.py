"""Shells: arrays without memory of tensors that wrap others, and of fake ones; they say which device those are on.

No kernel computes on a shell: a call with one goes to the `__torch_dispatch__` of its tensor.
"""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from rushlight._backends import cpu, devices, meta
from rushlight.core import dtypes, geometry
from rushlight.core.device import device

NO_STORAGE = (
    "Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor) that doesn't have storage: no kernel can "
    "compute on it"
)


class Shell(meta.Meta):
    """An array of shape, strides and dtype only, that is said to be on `device`, in `layout`."""

    device: Any = None
    layout: Any = dtypes.strided

    def __array_finalize__(self, other: Any) -> None:
        if isinstance(other, Shell):
            self.device, self.layout = other.device, other.layout

    def __array_ufunc__(self, *args: Any, **options: Any) -> NoReturn:
        refused()


def shell(
    shape: tuple, dtype: np.dtype, strides: tuple | None, offset: int, on: device, layout: Any
) -> Shell:
    """A new shell; `strides` and `offset` in elements."""
    size = dtype.itemsize
    strides = geometry.contiguous_strides(shape) if strides is None else strides
    steps = tuple([s * size for s in strides])
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if prod(shape) else 0
    try:
        n = (offset + reach) * size
        whole = np.ndarray.__new__(meta.Meta, (n,), np.uint8, meta.reserve(n))
        a = np.ndarray.__new__(Shell, shape, dtype, whole, offset * size, steps)
    except OSError:  # more addresses than the system gives
        a = meta.empty(shape, dtype, steps).view(Shell)
    a.device, a.layout = on, layout
    return a


class Kernels:
    """What is asked of the back end of shells."""

    def device_of(self, a: Shell) -> device:
        return a.device

    def __getattr__(self, name: str) -> Any:
        if name in MAKING:
            return getattr(cpu, name)
        if name in ABOUT:
            return getattr(meta, name)
        return refused


def refused(*args: Any, **options: Any) -> NoReturn:
    """RuntimeError: a shell has no memory."""
    raise RuntimeError(NO_STORAGE)


MAKING = frozenset("zeros ones empty full asarray from_numpy number empty_strided arange".split())
ABOUT = frozenset("shares_memory root address basic_index as_strided broadcast_to".split())
devices.add_class(Shell, Kernels())
