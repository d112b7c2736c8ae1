"""Special functions of float32 and half types as machine code; float64 is the reference's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends.reference import gamma as reference_gamma
from rushlight._backends.reference import special as reference_special
from rushlight._codegen.kernels import special as of
from rushlight._codegen.kernels.pointwise import SINGLES, Pointwise


def of_one(function: Any, reference: Callable) -> Callable:
    """The kernel `reference` of one array."""
    ufuncs = Pointwise(function, types=SINGLES)

    def compiled(a: Any) -> Any:
        if a.__class__ is np.ndarray and a.size and (u := ufuncs[a.dtype]) is not None:
            return u(a)
        return reference(a)

    compiled.__name__ = compiled.__qualname__ = reference.__name__
    compiled.__doc__ = reference.__doc__
    return compiled


lgamma = of_one(of.lgamma, reference_gamma.lgamma)
digamma = of_one(of.digamma, reference_gamma.digamma)
trigamma = of_one(of.trigamma, lambda a: reference_gamma.polygamma(1, a))
erfinv = of_one(of.erfinv, reference_special.erfinv)
ndtri = of_one(of.ndtri, reference_special.ndtri)
ndtr = of_one(of.ndtr, reference_special.ndtr)
entr = of_one(of.entropy, reference_special.entr)

_xlog1py = Pointwise(of.xlog1py, 2, types=SINGLES)


def polygamma(n: int, a: Any) -> Any:
    """The derivative number `n` of digamma."""
    return trigamma(a) if n == 1 else digamma(a) if n == 0 else reference_gamma.polygamma(n, a)


def xlog1py(a: Any, b: Any) -> Any:
    """a * log(1 + b), 0 where a is 0 and b is not NaN."""
    if a.__class__ is b.__class__ is np.ndarray and a.dtype is b.dtype and a.size and b.size:
        if (u := _xlog1py[a.dtype]) is not None:
            return u(a, b)
    return reference_gamma.xlog1py(a, b)
