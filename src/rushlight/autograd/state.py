"""Autograd's switches of each thread, and the count of modes that are on in all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


class ThreadState(threading.local):
    """Autograd's switches, one set per thread; a new thread starts with these values."""

    grad = True  # record operations for backward (`no_grad` and `set_grad_enabled` change it)
    inference = False  # inside `inference_mode`: results carry neither history nor a version
    node_watch: Any = None  # the profiler's: called as (node, run) around every node of a backward
    depth = 0  # how many backwards of custom functions are running, one within the other
    task: dict | None = None  # the table of the running backward: every node that takes part
    multithreading = True  # without effect: the engine runs in the calling thread
    anomaly = False  # note the forward line of every node, look for nan in every gradient
    anomaly_nan = True
    saved_hooks: tuple = ()  # stack of (pack, unpack) pairs for saved tensors
    saved_hooks_error: str | None = None  # message while saved tensor hooks are forbidden
    mutation: Any = None  # the running allow_mutation_on_saved_tensors: it is notified of writes before they happen
    function_modes: tuple = ()  # stack of active TorchFunctionModes
    function_disabled = False  # inside DisableTorchFunctionSubclass
    dispatch_modes: tuple = ()  # stack of active TorchDispatchModes
    transforms = 0  # how many transforms of torch.func are running, one within the other
    tracking: tuple = ()  # those among them that take gradients
    tangents = True  # results have tangents in forward mode
    grad_above = True  # `grad` as it is around the `__torch_dispatch__` that is running
    dispatch_disabled = (
        False  # inside of what carries a call out without asking any `__torch_dispatch__`
    )


thread = ThreadState()
AT_END = "at end"  # the key in `thread.task` of what `queue_callback` was given


def queue_callback(function: Callable[[], None]) -> None:
    """Call a function at the end of the backward that is running. RuntimeError where none is."""
    if thread.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    thread.task.setdefault(AT_END, []).append(function)


UNREACHED = "unreached"  # and of the nodes that `unreached` was called with


def unreached(nodes: Iterable) -> None:
    """Note that nodes are in the graph of the backward that is running only because one node stands for several, as that
    of a compiled function does: where no gradient arrives, their hooks are not called."""
    thread.task.setdefault(UNREACHED, set()).update(nodes)


def is_unreached(node: Any, edges: tuple) -> bool:
    """Whether `unreached` was called with a node; then those behind it are so, too."""
    found = node in thread.task.get(UNREACHED, ())
    if found:
        unreached(edges)
    return found


# What generated functions see as globals; dispatch/nodes.py fills it in.
scope: dict[str, Any] = {}


class Active:
    """How many modes are on, in all threads together. While `modes` is not zero, no call takes a fast path.

    `inference` counts those among them that are only `inference_mode`.
    """

    __slots__ = ("inference", "modes")

    def __init__(self) -> None:
        self.modes = self.inference = 0


active = Active()
_lock = threading.Lock()


def count_mode(change: int, inference: bool = False) -> None:
    """Count a mode that goes on (+1) or off (-1), from any thread."""
    with _lock:
        active.modes += change
        active.inference += change * inference
