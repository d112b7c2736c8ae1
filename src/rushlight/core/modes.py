"""The default dtype, one for the process, and the default device, one for each thread.

>>> get_default_dtype()
torch.float32
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import dtypes

if TYPE_CHECKING:
    from rushlight.core.device import device

_default_dtype = dtypes.float32
device_set = False  # whether any thread has ever had a default device


class PerThread(threading.local):
    """State of one thread; the class attributes are its initial values."""

    device: device | None = None  # None: the CPU
    device_stack: tuple[
        Any, ...
    ] = ()  # the devices that `with device(...)` blocks of this thread restore


thread = PerThread()


def get_default_dtype() -> dtypes.dtype:
    """The floating type of `zeros(2)`, and of Python floats that meet integer tensors."""
    return _default_dtype


def set_default_dtype(d: dtypes.dtype, /) -> None:
    """Set the default floating dtype. TypeError if `d` is not a floating dtype."""
    global _default_dtype
    if not isinstance(d, dtypes.dtype):
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type, "
            f"got {d!r} of type {type(d).__name__}"
        )
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    _default_dtype = d


def get_default_complex_dtype() -> dtypes.dtype:
    """The type of `tensor([1j])`: the complex type of the default dtype.

    complex64 for bfloat16.
    """
    return _default_dtype.to_complex()


def scalar_dtype(value: object) -> dtypes.dtype:
    """The type that a number of Python's or NumPy's has where it meets tensors: for `result_dtype(..., wrapped=)`.

    >>> scalar_dtype(True), scalar_dtype(1), scalar_dtype(1.0), scalar_dtype(1j)
    (torch.bool, torch.int64, torch.float32, torch.complex64)
    """
    if isinstance(value, float):
        return _default_dtype
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    if isinstance(value, complex):
        return get_default_complex_dtype()
    if isinstance(value, (np.number, np.bool_)):
        return scalar_dtype(value.item())
    raise TypeError(f"scalar_dtype: expected a Python number, got {type(value).__name__}")
