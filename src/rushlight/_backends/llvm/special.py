"""Special functions of float32 and half types as machine code; float64 is the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import Elementwise
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import gamma as reference
from rushlight._codegen.kernels import special as of
from rushlight._codegen.kernels.pointwise import SINGLES, Pointwise

lgamma = implements("lgamma")(Elementwise(of.lgamma, types=SINGLES))
digamma = implements("digamma")(Elementwise(of.digamma, types=SINGLES))
erfinv = implements("erfinv")(Elementwise(of.erfinv, types=SINGLES))
ndtri = implements("ndtri")(Elementwise(of.ndtri, types=SINGLES))
ndtr = implements("ndtr")(Elementwise(of.ndtr, types=SINGLES))
entr = implements("entr")(Elementwise(of.entropy, types=SINGLES))

_trigamma = Elementwise(of.trigamma, types=SINGLES).bind(lambda a: reference.polygamma(1, a))
_xlog1py = Pointwise(of.xlog1py, 2, types=SINGLES)


@implements("polygamma")
def polygamma(n: int, a: Any) -> Any:
    """The derivative number `n` of digamma."""
    return _trigamma(a) if n == 1 else digamma(a) if n == 0 else reference.polygamma(n, a)


@implements("xlog1py")
def xlog1py(a: Any, b: Any) -> Any:
    """a * log(1 + b), 0 where a is 0 and b is not NaN."""
    if a.__class__ is b.__class__ is np.ndarray and a.dtype is b.dtype and a.size and b.size:
        if (u := _xlog1py[a.dtype]) is not None:
            return u(a, b)
    return reference.xlog1py(a, b)
