"""Transforms of PIL images and tensors, and their compositions. Random ones draw from the default generator."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from rushlight.vision.transforms import color as _color
from rushlight.vision.transforms import compose as _compose
from rushlight.vision.transforms import functional as functional
from rushlight.vision.transforms import geometry as _geometry
from rushlight.vision.transforms import policies as _policies
from rushlight.vision.transforms.functional import InterpolationMode as InterpolationMode

__all__ = ["InterpolationMode"]

for _file in (_compose, _color, _geometry, _policies):
    for _name in _file.__all__:
        globals()[_name] = getattr(_file, _name)
        __all__.append(_name)


def __getattr__(name: str) -> Any:
    if name == "v2":
        return _import_module("rushlight.vision.transforms.v2")
    raise AttributeError(
        f"module 'rushlight.vision.transforms' has no attribute {name!r}: docs/coverage.md lists what there is"
    )
