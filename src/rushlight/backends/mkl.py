"""`torch.backends.mkl`: whether NumPy uses Intel's MKL."""

from __future__ import annotations

from rushlight.core.stub import Block, stub

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether NumPy was built with MKL."""
    import numpy as np

    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    except (TypeError, KeyError):  # other versions of NumPy have other keys
        return False
    return "mkl" in str(blas.get("name", "")).lower()


@stub("no-op", "Calls of MKL are not seen.")
class verbose(Block):
    """A block in which MKL reports its calls; it has no effect."""

    def __init__(self, enable: int) -> None:
        self.enable = enable
