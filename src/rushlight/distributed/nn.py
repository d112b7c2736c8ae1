"""`torch.distributed.nn`: collectives with gradients, for programs that import them. All raise."""

from __future__ import annotations

from rushlight.compat.unavailable import functions
from rushlight.core.stub import declare
from rushlight.distributed.absent import REASON, refuse

__all__: list[str] = []

_FUNCTIONS = frozenset(
    "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter".split()
)
declare("absent", REASON, __name__, " ".join(_FUNCTIONS))

__getattr__ = functions(globals(), _FUNCTIONS, refuse, "RuntimeError: it is not there.")
