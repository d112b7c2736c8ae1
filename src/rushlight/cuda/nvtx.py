"""`torch.cuda.nvtx`: marks for NVIDIA's profiler; all of them raise."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


@stub("absent", "There is no CUDA device.")
def range_push(msg: str = "") -> NoReturn:
    """RuntimeError: there is no CUDA here."""
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build? Rushlight computes on the CPU; "
        "torch.profiler.record_function marks ranges there"
    )


@stub("absent", "There is no CUDA device.")
def range_pop() -> NoReturn:
    """RuntimeError: there is no CUDA here."""
    range_push()


@stub("absent", "There is no CUDA device.")
def range_start(msg: str) -> NoReturn:
    """RuntimeError: there is no CUDA here."""
    range_push()


@stub("absent", "There is no CUDA device.")
def range_end(range_id: int) -> NoReturn:
    """RuntimeError: there is no CUDA here."""
    range_push()


@stub("absent", "There is no CUDA device.")
def mark(msg: str) -> NoReturn:
    """RuntimeError: there is no CUDA here."""
    range_push()


@stub("absent", "There is no CUDA device.")
class range:
    """A block whose entry raises RuntimeError: there is no CUDA here."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self.msg = msg

    def __enter__(self) -> NoReturn:
        range_push()

    def __exit__(self, *exception: object) -> None:
        pass
