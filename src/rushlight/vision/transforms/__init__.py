"""Transforms of PIL images and tensors, and chains of them. Random ones draw from the default generator."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

from rushlight.vision.transforms import chains as _chains
from rushlight.vision.transforms import colours as _colours
from rushlight.vision.transforms import functional as functional
from rushlight.vision.transforms import places as _places
from rushlight.vision.transforms import policies as _policies
from rushlight.vision.transforms.functional import InterpolationMode as InterpolationMode

__all__ = ["InterpolationMode"]

for _file in (_chains, _colours, _places, _policies):
    for _name in _file.__all__:
        globals()[_name] = getattr(_file, _name)
        __all__.append(_name)


def __getattr__(name: str) -> Any:
    if name == "v2":
        return _import_module("rushlight.vision.transforms.v2")
    raise AttributeError(
        f"module 'rushlight.vision.transforms' has no attribute {name!r}: docs/coverage.md lists what there is"
    )
