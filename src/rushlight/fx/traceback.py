"""What new nodes inherit while a graph is transformed: the stack trace and the other `meta` of the old node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.fx.node import Node

__all__ = [
    "annotate", "format_stack", "get_current_meta", "has_preserved_node_meta",
    "preserve_node_meta", "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr",
    "set_stack_trace",
]  # fmt: skip

_current: dict[str, Any] = {}
_preserve = False


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """In the block, nodes that are made inherit the meta that `set_current_meta` sets."""
    global _preserve, _current
    before, kept = _preserve, dict(_current)
    _preserve = enable
    try:
        yield
    finally:
        _preserve, _current = before, kept


def has_preserved_node_meta() -> bool:
    """Whether new nodes inherit meta."""
    return _preserve


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """In the block, new nodes inherit the meta of `node`."""
    global _current
    if not _preserve or not node.meta:
        yield
        return
    before, _current = _current, dict(node.meta)
    try:
        yield
    finally:
        _current = before


def get_current_meta() -> dict[str, Any]:
    """The meta that new nodes inherit."""
    return _current


def set_stack_trace(stack: list[str]) -> None:
    """Set the stack trace that new nodes inherit."""
    if _preserve and stack:
        _current["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Set the number of the autograd node that new nodes belong to."""
    if _preserve:
        _current["grad_fn_seq_nr"] = [*_current.get("grad_fn_seq_nr", []), seq_nr]
        _current["in_grad_fn"] = _current.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last `set_grad_fn_seq_nr`."""
    if _preserve and _current.get("grad_fn_seq_nr"):
        _current["grad_fn_seq_nr"].pop()
        _current["in_grad_fn"] -= 1


def format_stack() -> list[str]:
    """The stack trace that new nodes inherit, as a list of at most one text."""
    trace = _current.get("stack_trace")
    return [trace] if _preserve and trace else []


@contextmanager
def annotate(annotation_dict: dict) -> Iterator[None]:
    """In the block, new nodes have these entries in `meta["custom"]`."""
    global _current
    before = _current
    _current = {**_current, "custom": {**_current.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _current = before
