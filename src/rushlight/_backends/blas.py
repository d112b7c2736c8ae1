"""The library behind NumPy's matrix products: what it calls itself, and how many threads it uses."""

from __future__ import annotations

import glob
import os
from typing import Any


def function(name: str) -> Any:
    """OpenBLAS's function of this name (`get_corename`) in the library that NumPy has loaded, or
    None where NumPy uses another library, or one that stands elsewhere."""
    import ctypes

    import numpy as np

    home = os.path.dirname(np.__file__)
    for path in sorted(
        glob.glob(f"{home}.libs/*openblas*") + glob.glob(f"{home}/.dylibs/*openblas*")
    ):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for whole in (
            f"{p}_{name}{s}" for p in ("scipy_openblas", "openblas") for s in ("64_", "")
        ):
            if hasattr(library, whole):
                return getattr(library, whole)
    return None


def use_one_thread() -> None:
    """Make NumPy's products and factorizations stay on the thread that calls them.

    OpenBLAS's threads go on waiting in a loop for about a tenth of a second after their last job, and
    so take a core from the threads of compiled kernels: with two cores a training step takes almost
    twice as long when one small product in it went to OpenBLAS's threads.
    """
    limit = function("set_num_threads")
    if limit is not None:
        limit(1)
