"""Optimizers: they update parameters from their gradients. Each loads its file at the first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import lazy

if TYPE_CHECKING:
    from rushlight.optim import lr_scheduler, swa_utils
    from rushlight.optim.adadelta import Adadelta
    from rushlight.optim.adafactor import Adafactor
    from rushlight.optim.adagrad import Adagrad
    from rushlight.optim.adam import Adam, AdamW
    from rushlight.optim.adamax import Adamax
    from rushlight.optim.asgd import ASGD
    from rushlight.optim.lbfgs import LBFGS
    from rushlight.optim.muon import Muon
    from rushlight.optim.nadam import NAdam
    from rushlight.optim.optimizer import Optimizer
    from rushlight.optim.radam import RAdam
    from rushlight.optim.rmsprop import RMSprop
    from rushlight.optim.rprop import Rprop
    from rushlight.optim.sgd import SGD
    from rushlight.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

_FILES = {
    "adadelta": "Adadelta", "adafactor": "Adafactor", "adagrad": "Adagrad", "adam": "Adam AdamW", "adamax": "Adamax",
    "asgd": "ASGD", "lbfgs": "LBFGS", "muon": "Muon", "nadam": "NAdam", "optimizer": "Optimizer", "radam": "RAdam",
    "rmsprop": "RMSprop", "rprop": "Rprop", "sgd": "SGD", "sparse_adam": "SparseAdam",
}  # fmt: skip

__getattr__, __dir__ = lazy.names(
    globals(), lazy.by_name(_FILES), (*_FILES, "lr_scheduler", "swa_utils")
)
