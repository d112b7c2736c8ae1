"""`finfo` and `iinfo`: the range and the precision of a dtype.

>>> iinfo(dtypes.int8)
iinfo(min=-128, max=127, dtype=int8)
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rushlight.core import dtypes
from rushlight.core.modes import get_default_dtype


class _Info:
    """Base of `finfo` and `iinfo`: read-only, equal for equal dtypes, not hashable."""

    __slots__ = ("_type", "bits", "dtype", "max", "min")

    _type: dtypes.dtype
    bits: int
    dtype: str  # the name, without "torch."
    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(
            f"attribute {attribute!r} of 'torch.{type(self).__name__}' objects is not writable"
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._type is other._type  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type,)

    def _fill(self, **values: object) -> None:
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)


class finfo(_Info):
    """Limits of a floating dtype, or of the parts of a complex one.

    `type` is by default the default dtype. `eps` is the step from 1 to the next number, `tiny` (=
    `smallest_normal`) the least normal number above 0, `resolution` 10 to the minus number of
    certain decimal digits.

    >>> finfo(dtypes.float16).max
    65504.0
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")

    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: dtypes.dtype | None = None) -> None:
        if type is None:
            type = get_default_dtype()
        dtypes.check_dtype("finfo", "type", 1, type)
        if not (type.is_floating_point or type.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. "
                f"Use torch.iinfo to handle '{type}'"
            )
        part = type.to_real()
        numbers = (np.finfo if part.np.isbuiltin == 1 else ml_dtypes.finfo)(part.np)
        self._fill(
            _type=part,
            bits=numbers.bits,
            dtype=part.name,
            eps=float(numbers.eps),
            max=float(numbers.max),
            min=float(numbers.min),
            # one decimal digit is not certain in eight bits
            resolution=10.0**-numbers.precision if part.itemsize > 1 else 1.0,
            smallest_normal=float(numbers.smallest_normal),
            tiny=float(numbers.smallest_normal),
        )

    def __repr__(self) -> str:
        # Six digits, as a C++ stream prints them.
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Info):
    """Limits of an integer dtype.

    >>> iinfo(dtypes.uint64).max
    18446744073709551615
    """

    __slots__ = ()

    max: int
    min: int

    def __init__(self, type: dtypes.dtype) -> None:
        dtypes.check_dtype("iinfo", "type", 1, type)
        if type is dtypes.bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.kind != 1:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'"
            )
        numbers = np.iinfo(type.np)
        self._fill(
            _type=type,
            bits=numbers.bits,
            dtype=type.name,
            max=int(numbers.max),
            min=int(numbers.min),
        )

    def __repr__(self) -> str:
        return f"iinfo(min={float(self.min):g}, max={float(self.max):g}, dtype={self.dtype})"
