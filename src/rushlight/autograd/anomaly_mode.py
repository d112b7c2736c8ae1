"""Anomaly detection: the forward line of a node whose backward fails or makes the first nan."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from rushlight._backends import devices
from rushlight._backends.sparse import Sparse
from rushlight.autograd.grad_mode import Switch
from rushlight.autograd.graph import Node, hooks_of
from rushlight.autograd.state import count_mode, thread

_running: list[Node] = []  # the nodes whose backward is running, innermost last


def trace(node: Node) -> None:
    """Note the line of the user's program that recorded `node`."""
    import traceback
    from pathlib import Path

    import rushlight

    inside = str(Path(rushlight.__file__).parent)
    frames = [
        f for f in traceback.extract_stack() if not f.filename.startswith((inside, "<rushlight"))
    ]
    hooks = hooks_of(node)
    hooks.trace = "".join(traceback.format_list(frames))
    hooks.parent = _running[-1] if _running else None


def apply(node: Node, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
    """Run a node; if it raises or makes a nan, warn with the line of its forward."""
    _running.append(node)
    try:
        gradients = node.apply(g, edges, keep, record)
    except Exception:
        explain(node)
        raise
    finally:
        _running.pop()
    if thread.anomaly_nan:
        for i, x in enumerate(gradients):
            if x is not None and x._array.dtype.kind in "fcV" and has_nan(x._array):
                explain(node)
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output."
                )
    return gradients


def has_nan(a: Any) -> bool:
    a = a.values if isinstance(a, Sparse) else a
    return bool(devices.of(a).isnan(a).any())


def warn_or_print(text: str) -> None:
    """Warn; print, where warnings are errors: the error that is on its way is the one to raise."""
    try:
        warnings.warn(text, UserWarning, stacklevel=5)
    except UserWarning as e:
        print(f"UserWarning: {e}", file=sys.stderr)


def explain(node: Node) -> None:
    """Warn with the forward lines of `node` and of the nodes whose backward recorded it."""
    at = node.hooks.trace if node.hooks is not None else None
    if at is None:
        warn_or_print(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information.",
        )
        return
    warn_or_print(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{at}",
    )
    parent = node.hooks.parent
    while parent is not None and parent.hooks is not None and parent.hooks.trace is not None:
        warn_or_print(
            "\n\nPrevious calculation was induced by "
            f"{parent.name()}. Traceback of forward call that induced the previous calculation:\n"
            f"{parent.hooks.trace}",
        )
        parent = parent.hooks.parent


def _switch(mode: bool, check_nan: bool) -> None:
    count_mode(int(mode) - int(thread.anomaly))
    thread.anomaly, thread.anomaly_nan = mode, check_nan


class set_detect_anomaly(Switch):
    """Switch anomaly detection on or off, from this call on, or in a `with` block.

    `check_nan`: raise RuntimeError when a backward makes a nan.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = thread.anomaly, thread.anomaly_nan
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(*self.before)


class detect_anomaly(Switch):
    """A block in which a failing backward shows the forward line of its node, and a nan raises.

    >>> import warnings
    >>> import rushlight as torch
    >>> x = torch.tensor([0.0], requires_grad=True)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # it warns that it is slow
    ...     with torch.autograd.detect_anomaly(check_nan=False):
    ...         (x * 2).backward()
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def clone(self) -> detect_anomaly:
        fresh = object.__new__(detect_anomaly)
        fresh.check_nan = self.check_nan
        return fresh

    def __enter__(self) -> None:
        self.before = thread.anomaly, thread.anomaly_nan
        _switch(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _switch(*self.before)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on in this thread."""
    return thread.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for nan."""
    return thread.anomaly_nan
