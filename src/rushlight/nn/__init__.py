"""Neural networks: modules, their parameters, and losses."""

from __future__ import annotations

import importlib

from rushlight.nn import functional, init, utils
from rushlight.nn.module import Module
from rushlight.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

# Each file's public classes are public here.
_FILES = [
    "adaptive", "attention", "activation", "batchnorm", "container", "conv", "distance", "dropout",
    "flatten", "fold", "instancenorm", "linear", "linear_loss", "loss", "normalization", "padding",
    "parallel", "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling",
]  # fmt: skip

__all__ = [
    "Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional",
    "init", "utils",
]  # fmt: skip

for _name in _FILES:
    _file = importlib.import_module(f"{__name__}.{_name}")
    for _public in _file.__all__:
        globals()[_public] = getattr(_file, _public)
        __all__.append(_public)


def __getattr__(name: str) -> object:
    if name in ("grad", "modules"):
        return importlib.import_module(f"rushlight.nn.{name}")
    raise AttributeError(
        f"module 'rushlight.nn' has no attribute {name!r}: not implemented here; docs/coverage.md lists what is"
    )
