"""Neural networks: modules, their parameters, and losses.

A class loads its file at the first use; `index.py` says which that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import lazy
from rushlight.nn import functional, init
from rushlight.nn.index import CLASSES

if TYPE_CHECKING:
    from rushlight.nn import utils
    from rushlight.nn.module import Module
    from rushlight.nn.parameter import (
        Buffer,
        Parameter,
        UninitializedBuffer,
        UninitializedParameter,
    )

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


# What all modules stand on: functions alone do without.
_BASES = lazy.by_name(
    {"module": "Module", "parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter"}
)
__getattr__, __dir__ = lazy.names(
    globals(), CLASSES | _BASES, ("grad", "module", "modules", "parameter", "utils", *_FILES)
)
