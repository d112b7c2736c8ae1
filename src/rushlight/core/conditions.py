"""Functions that raise unless a condition holds: `torch._check` and those like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import dtypes
from rushlight.core.tensor import Tensor


def _assert_async(value: Any, message: str = "") -> None:
    """RuntimeError with `message` unless the one element of the tensor is true."""
    if not value:
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None,
) -> None:  # fmt: skip
    """RuntimeError where the tensor has another size, stride, dtype, device or layout than is given."""
    for name, wanted, got in (
        ("sizes", None if size is None else list(size), list(a.shape)),
        ("strides", None if stride is None else list(stride), stride and list(a.stride())),
        ("dtype", dtype, a.dtype),
        ("device", None if device is None else str(device), str(a.device)),
        ("layout", layout, a.layout),
    ):
        if wanted is not None and wanted != got:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {wanted}, Got: {got}")


def _check_with(error_type: Any, cond: bool, message: Callable[[], object] | None) -> None:
    """Raise `error_type`, with what `message()` gives, unless the condition is True.

    TypeError for a condition that is no bool, and for a message that cannot be called.
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that "
            "all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if not issubclass(error_type, Exception) or issubclass(error_type, Warning):
        raise TypeError(f"error_type must be a subclass of Exception, but got {error_type}")
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: Callable[[], object] | None = None) -> None:
    """Raise RuntimeError, with what `message()` gives, unless the condition is True.

    >>> import rushlight as torch
    >>> torch._check(3 > 2, lambda: "three is not above two")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], object] | None = None) -> None:
    """Raise IndexError, with what `message()` gives, unless the condition is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], object] | None = None) -> None:
    """Raise ValueError, with what `message()` gives, unless the condition is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], object] | None = None) -> None:
    """Raise TypeError, with what `message()` gives, unless the condition is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], object] | None = None) -> None:
    """Raise NotImplementedError, with what `message()` gives, unless the condition is True."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(
    error_type: Any, cond: Any, message: Callable[[], object] | None = None
) -> None:
    """Raise `error_type`, with what `message()` gives, unless all elements of a tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], object] | None = None) -> None:
    """Raise RuntimeError, with what `message()` gives, unless all elements of a tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(
    i: int, message: Callable[[], object] | None = None, *, max: int | None = None
) -> None:
    """Raise RuntimeError unless a number is a size: 0 or more, and at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message)
