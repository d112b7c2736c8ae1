"""`torch.cuda.nccl`: NVIDIA's library for several GPUs, which Rushlight does not use."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["is_available", "version"]


def is_available(tensors: Any = ()) -> bool:
    """False."""
    return False


def version() -> NoReturn:
    """RuntimeError: there is no NCCL to have a version."""
    raise RuntimeError("PyTorch is not compiled with NCCL support (Rushlight computes on the CPU)")
