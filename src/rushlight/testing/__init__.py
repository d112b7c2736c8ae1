"""What tests use: `assert_close`, `make_tensor`, `FileCheck`."""

from __future__ import annotations

from rushlight.testing.comparison import assert_close
from rushlight.testing.creation import make_tensor
from rushlight.testing.file_check import FileCheck

__all__ = ["FileCheck", "assert_close", "make_tensor"]


def assert_allclose(
    actual: object, expected: object, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """The old name of `assert_close`: dtypes and devices may differ, NaN equals NaN."""
    import rushlight

    if not isinstance(actual, rushlight.Tensor):
        actual = rushlight.tensor(actual)
    if not isinstance(expected, rushlight.Tensor):
        expected = rushlight.tensor(expected, dtype=actual.dtype)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
        check_dtype=False, check_stride=False, msg=msg or None,
    )  # fmt: skip
