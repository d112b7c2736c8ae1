"""`torch.backends.mkl`: is NumPy's linear algebra Intel's?"""

from __future__ import annotations

from rushlight.core.stub import stub

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether NumPy was built with MKL."""
    import numpy as np

    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    except (TypeError, KeyError):  # another NumPy may know less about itself
        return False
    return "mkl" in str(blas.get("name", "")).lower()


@stub("no-op", "Calls of MKL are not seen.")
class verbose:
    """A block in which MKL would report its calls: without effect."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
