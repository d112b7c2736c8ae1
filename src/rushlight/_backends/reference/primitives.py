"""The primitives by which the reference computes its compositions (see `_backends/compose.py`)."""

from __future__ import annotations

from numpy import (  # noqa: F401
    absolute,
    asarray,
    concatenate,
    exp,
    expm1,
    log,
    log1p,
    matmul,
    maximum,
    minimum,
    tanh,
    where,
)

from rushlight._backends.reference.elementwise import sigmoid, sign  # noqa: F401
from rushlight._backends.reference.special import erf  # noqa: F401
