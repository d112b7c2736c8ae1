"""Models for images. Attribute names, and so the keys and shapes of `state_dict()`, are torchvision's: its files load.

Trained weights are not fetched: `weights=` must be None.
"""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.nn import Module
from rushlight.vision.models.blocks import MODELS

_FILES = (
    "alexnet densenet efficientnet googlenet inception mobilenetv2 mobilenetv3 resnet shufflenetv2 "
    "squeezenet vgg vision_transformer"
).split()

__all__ = ["get_model", "list_models"]

for _name in _FILES:
    _file = importlib.import_module(f"{__name__}.{_name}")
    for _public in _file.__all__:
        # `models.alexnet` is the function, as in torchvision, though a file has the same name.
        globals()[_public] = getattr(_file, _public)
        __all__.append(_public)


def list_models() -> list[str]:
    """The names of the model functions, sorted."""
    return sorted(MODELS)


def get_model(name: str, **config: Any) -> Module:
    """The model called `name`, built with `config`; ValueError for an unknown name.

    >>> get_model("squeezenet1_1", num_classes=10).num_classes
    10
    """
    if name.lower() not in MODELS:
        raise ValueError(f"Unknown model {name}: the models here are {', '.join(list_models())}")
    return MODELS[name.lower()](**config)


class _Weights:
    """Stands for trained weights, which are not fetched: a model function given one says so."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, member: str) -> _Weights:
        if member.startswith("_") or "." in self.name:
            raise AttributeError(member)
        return _Weights(f"{self.name}.{member}")

    def __repr__(self) -> str:
        return self.name


def __getattr__(name: str) -> Any:
    # Programs import `ResNet18_Weights` beside `resnet18` even where they end up with weights=None.
    if name.removesuffix("_Weights").lower() in MODELS and name.endswith("_Weights"):
        return _Weights(name)
    raise AttributeError(
        f"module 'rushlight.vision.models' has no attribute {name!r}: the models here are "
        f"{', '.join(list_models())}"
    )
