"""Neural networks: modules, their parameters, and losses.

A class loads its file at the first use; `index.py` says which that is.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from rushlight.nn import functional, init
from rushlight.nn.index import CLASSES
from rushlight.nn.module import Module
from rushlight.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    from rushlight.nn import utils

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
__all__ += list(CLASSES)


def __getattr__(name: str) -> object:
    if name in CLASSES:
        globals()[name] = found = getattr(_import_module(f"{__name__}.{CLASSES[name]}"), name)
        return found
    if name in ("grad", "modules", "utils") or name in _FILES:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(
        f"module 'rushlight.nn' has no attribute {name!r}: not implemented here; docs/coverage.md lists what is"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
