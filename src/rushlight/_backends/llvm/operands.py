"""Which arrays compiled kernels take; native code gets their memory, so this comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._codegen.native_entry import ByDtype, unbound
from rushlight._codegen.types import Type, of
from rushlight.core.dtype_sets import FLOATING

if TYPE_CHECKING:
    from rushlight._codegen.kernel import Kernel

LARGE = threshold(1024)  # for kernels that are called with arrays, not by way of a ufunc


def is_floating(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one) of a floating dtype that
    kernels know, in this machine's order of bytes."""
    return a.__class__ is np.ndarray and a.dtype in FLOATING


def takes(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one), large enough, and of a
    floating dtype that kernels know."""
    return a.__class__ is np.ndarray and a.size >= LARGE and a.size > 0 and a.dtype in FLOATING


def entries(make: Callable[[np.dtype, Type], Any], types: Mapping[Any, Type]) -> ByDtype:
    """The native entries that `make` makes for a dtype and its type in `types`, which stands there under the dtype
    or its size."""

    def entry(dtype: np.dtype) -> Any:
        t = types.get(dtype if dtype in types else dtype.itemsize)
        return unbound if t is None or dtype.hasobject else make(dtype, t)

    return ByDtype(entry)


class Compiled(dict):
    """A kernel compiled for the values of its parameters without a type, in their order, and for a dtype for each
    type that it leaves open; R is what T is computed in. To find one takes a fifth of the time of asking
    `compiled` for it by names, which counts for small arrays.

    >>> from rushlight._codegen.kernels.norm import row_lengths
    >>> Compiled(row_lengths)[(np.dtype(np.float32),)].__name__
    'row_lengths'
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __missing__(self, key: tuple) -> Callable[..., None]:
        known = dict(zip(self.kernel.open_names(), key, strict=True))
        known = {name: of(v) if isinstance(v, np.dtype) else v for name, v in known.items()}
        if "T" in known:
            known.setdefault("R", known["T"].loaded)
        self[key] = made = self.kernel.compiled(**known)
        return made
