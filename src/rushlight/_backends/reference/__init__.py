"""The reference kernels, by family: every kernel on NumPy arrays, correct for every dtype.

`from rushlight._backends.reference import reduce` gives a `Family`: its file is read when one of its kernels is first
called, or anything else is asked of it. Machine code calls them for rare arguments only.

>>> import numpy as np
>>> from rushlight._backends.reference import products
>>> products.trace(np.eye(3)).item()
3.0
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rushlight._backends.index import REFERENCE
from rushlight.core.unread import Unread

FAMILIES = frozenset(REFERENCE.values())


class Family(Unread):
    """A family in the place of its file."""

    def told(self, name: str) -> Callable | None:
        family = self.__name__.rpartition(".")[2]
        return unread(self, name) if REFERENCE.get(name) == family else None


def unread(family: Family, name: str) -> Callable:
    """A kernel whose file is read when it is first called; from then on the family gives the kernel itself."""
    kernel: Callable | None = None

    def called(*args: Any, **options: Any) -> Any:
        nonlocal kernel
        if kernel is None:
            kernel = getattr(import_module(family.__name__), name)
            if vars(family).get(name) is called:
                vars(family)[name] = kernel
        return kernel(*args, **options)

    called.__name__ = called.__qualname__ = name
    return called


def __getattr__(name: str) -> Any:
    if name not in FAMILIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = Family(f"{__name__}.{name}")
    return found
