"""What autograd knows about the running thread: is it recording, is it in inference mode."""

from __future__ import annotations

import threading
from typing import Any


class ThreadState(threading.local):
    """Autograd's switches, one set per thread; a new thread starts with these values."""

    grad = True  # record operations for backward (`no_grad` and `set_grad_enabled` change it)
    inference = False  # inside `inference_mode`: results carry neither history nor a version
    node_watch: Any = None  # the profiler's: called as (node, run) around every node of a backward
    task: dict | None = None  # the table of the running backward: every node that takes part
    multithreading = True  # accepted for PyTorch's sake; the engine runs in the calling thread
    anomaly = False  # keep the forward line of every node, look for nan in every gradient
    anomaly_nan = True
    saved_hooks: tuple = ()  # stack of (pack, unpack) pairs for saved tensors
    saved_hooks_error: str | None = None  # message while saved tensor hooks are forbidden
    function_modes: tuple = ()  # stack of active TorchFunctionModes
    function_disabled = False  # inside DisableTorchFunctionSubclass
    autocast: tuple | None = None


thread = ThreadState()

# The globals of all generated operator functions (dispatch/specialise.py fills in the rest). `rare` counts
# the modes that are on in any thread: when it is not zero, every call takes the general way.
# `inference` counts those among them that are only `inference_mode`.
scope: dict[str, Any] = {"rare": 0, "inference": 0}
_scope_lock = threading.Lock()


def rare(change: int, inference: bool = False) -> None:
    """Count a mode that goes on (+1) or off (-1), from any thread."""
    with _scope_lock:
        scope["rare"] += change
        scope["inference"] += change * inference
