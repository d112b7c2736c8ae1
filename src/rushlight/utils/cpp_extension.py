"""`torch.utils.cpp_extension`: extensions in C++ are compiled against PyTorch's own headers, which are not here.

Programs that look for a compiler or for CUDA find none; what would build something raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub

__all__ = [
    "CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths",
    "is_ninja_available", "load", "load_inline",
]  # fmt: skip

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
CUDNN_HOME: str | None = None


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"torch.utils.cpp_extension.{what}: extensions in C++ or CUDA need PyTorch itself, whose headers and libraries "
        "they are built against; Rushlight runs what is written in Python"
    )


@stub("absent", "Extensions in C++ are built against PyTorch itself.")
def load(name: str, sources: Any, *args: Any, **options: Any) -> NoReturn:
    """Raise RuntimeError: Rushlight has no C++ library to build against."""
    _refuse(f"load({name!r})")


@stub("absent", "Extensions in C++ are built against PyTorch itself.")
def load_inline(name: str, *args: Any, **options: Any) -> NoReturn:
    """Raise RuntimeError: Rushlight has no C++ library to build against."""
    _refuse(f"load_inline({name!r})")


@stub("absent", "Extensions in C++ are built against PyTorch itself.")
def CppExtension(name: str, sources: Any, *args: Any, **options: Any) -> NoReturn:
    """Raise RuntimeError: Rushlight has no C++ library to build against."""
    _refuse(f"CppExtension({name!r})")


@stub("absent", "Extensions in C++ are built against PyTorch itself.")
def CUDAExtension(name: str, sources: Any, *args: Any, **options: Any) -> NoReturn:
    """Raise RuntimeError: Rushlight has no C++ library to build against."""
    _refuse(f"CUDAExtension({name!r})")


@stub("absent", "Extensions in C++ are built against PyTorch itself.")
class BuildExtension:
    """RuntimeError when it is used."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        return cls


def include_paths(*args: Any, **options: Any) -> list[str]:
    """No folders."""
    return []


def is_ninja_available() -> bool:
    """True if the program `ninja` is installed."""
    import shutil

    return shutil.which("ninja") is not None
