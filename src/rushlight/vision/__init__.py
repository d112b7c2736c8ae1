"""Data sets, transforms, models, reading and drawing of images, under `torchvision`'s names.

    import rushlight.vision as torchvision

Reading and writing image files, and transforms of PIL images, need Pillow (`pip install rushlight[images]`).
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

__version__ = "0.28.0"  # torchvision's release that goes with the PyTorch whose API this is

_SUBMODULES = ("datasets", "io", "models", "ops", "transforms", "utils")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return _import_module(f"rushlight.vision.{name}")
    raise AttributeError(
        f"module 'rushlight.vision' has no attribute {name!r}: docs/coverage.md lists what there is"
    )


def set_image_backend(backend: str) -> None:
    """Accept "PIL", the one way images are read here; ValueError otherwise."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def get_image_backend() -> str:
    """The package that reads images: "PIL"."""
    return "PIL"


def _is_tracing() -> bool:
    """Always False: `torch.jit.trace` does not trace.

    >>> _is_tracing()
    False
    """
    return False
