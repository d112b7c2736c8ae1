"""The library behind NumPy's matrix products: its functions, and how many threads it uses."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any


@cache
def libraries() -> list[Any]:
    """The copies of OpenBLAS that came with NumPy; none where NumPy uses another library, or one elsewhere."""
    import ctypes

    import numpy as np

    home = os.path.dirname(np.__file__)
    found = []
    for path in _files(f"{home}.libs") + _files(f"{home}/.dylibs"):
        with suppress(OSError):
            found.append(ctypes.CDLL(path))
    return found


def function(name: str) -> Any:
    """OpenBLAS's own function of this name (`get_corename`), or None."""
    return first_function(
        f"{p}_{name}{s}" for p in ("scipy_openblas", "openblas") for s in ("64_", "")
    )


def fortran(name: str) -> int | None:
    """The address of a routine of BLAS or LAPACK (`dgetrf`) with integers of 64 bits, or None."""
    import ctypes

    found = first_function(f"{p}{name}_64_" for p in ("scipy_", ""))
    return None if found is None else ctypes.cast(found, ctypes.c_void_p).value


def first_function(names: Iterable[str]) -> Any:
    """The first function of these names that there is."""
    several = [*names]
    return next((getattr(b, n) for b in libraries() for n in several if hasattr(b, n)), None)


def _files(folder: str) -> list[str]:
    """The files of OpenBLAS in a folder, if there is one."""
    try:
        return sorted(os.path.join(folder, f) for f in os.listdir(folder) if "openblas" in f)
    except OSError:
        return []


_before: list[int] = []  # the number of threads that `use_one_thread` found


def use_one_thread() -> None:
    """Make NumPy's products and factorizations stay on the thread that calls them.

    OpenBLAS's threads go on waiting in a loop for about a tenth of a second after their last job, and
    so take a core from the threads of compiled kernels: with two cores a training step takes almost
    twice as long when one small product in it went to OpenBLAS's threads.
    """
    limit, threads = function("set_num_threads"), function("get_num_threads")
    if limit is not None and threads is not None:
        _before[:] = [threads()]
        limit(1)


def use_former_threads() -> None:
    """Take back what `use_one_thread` did."""
    if _before:
        function("set_num_threads")(_before.pop())
