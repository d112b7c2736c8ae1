"""`torch.cuda.nvtx`: marks for NVIDIA's profiler; all of them raise."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.compat.unavailable import functions
from rushlight.core.stub import declare, stub

_FUNCTIONS = ("mark", "range_end", "range_pop", "range_push", "range_start")
__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]  # noqa: F822

declare("absent", "There is no CUDA device.", __name__, " ".join(_FUNCTIONS))


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build? Rushlight computes on the CPU; "
        "torch.profiler.record_function marks ranges there"
    )


__getattr__ = functions(globals(), _FUNCTIONS, _refuse, "RuntimeError: there is no CUDA device.")


@stub("absent", "There is no CUDA device.")
class range:
    """A block whose entry raises RuntimeError: there is no CUDA device."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self.msg = msg

    def __enter__(self) -> NoReturn:
        _refuse("range")

    def __exit__(self, *exception: object) -> None:
        pass
