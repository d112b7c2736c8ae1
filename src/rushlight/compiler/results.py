"""What the results of programs are beside arrays: views of each other, and memory whose writes are counted."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.autograd.graph import version_of
from rushlight.autograd.views import View, edge_of
from rushlight.compiler.capture.consumed import consumed
from rushlight.core.tensor import INFERENCE, Tensor, _wrap


def watched(t: Tensor) -> tuple[Tensor, int]:
    """A tensor that knows of the writes to the memory of another, whose history it does not hold, and how many there were."""
    alias = _wrap(t._array)
    alias._counter = version_of(t)
    return alias, alias._counter.n


def bump(t: Tensor, times: int) -> None:
    """Count writes to the memory of a tensor."""
    if t._counter is not INFERENCE:
        version_of(t).n += times


def view_without_history(t: Tensor, base: Tensor, kind: int) -> None:
    """Make a result a view of another one: a write to one of them gives both a history, or is refused."""
    t._edge = View(base, in_place_of, (t._array, base._array), None, kind)
    t._counter = version_of(base)


def in_place_of(base: Tensor, view: Any, within: Any) -> Tensor:
    """The part of a tensor that an array is of the array `within`."""
    shape, strides, size = view.shape, view.strides, view.dtype.itemsize
    ahead = view.__array_interface__["data"][0] - within.__array_interface__["data"][0]
    is_complex = view.dtype.kind == "c" and within.dtype.kind == "f"
    if is_complex:
        size //= 2
        shape, strides = (*shape, 2), (*strides, size)
    elif within.dtype.kind == "c" and view.dtype.kind == "f":
        base = rushlight.view_as_real(base)
    elif view.dtype != within.dtype:
        base = base.view(view.dtype)
    at = base.storage_offset() + ahead // size
    part = base.as_strided(shape, tuple([s // size for s in strides]), at)
    return rushlight.view_as_complex(part) if is_complex else part


def view_that_refuses(t: Tensor, kind: int) -> None:
    """Make a result with a history a view of that kind, which refuses writes that are recorded."""
    base = _wrap(t._array)
    base._edge, base._counter = t._edge, version_of(t)
    t._edge = View(base, not_made_again, (), t._edge, kind)


def not_made_again(base: Tensor) -> Tensor:
    raise RuntimeError(
        "torch.compile: a view that a custom function gave was written to where calls are not recorded: "
        "its history is lost. Call the function without torch.compile."
    )


MADE_BY = (
    _wrap,
    bump,
    consumed,
    edge_of,
    version_of,
    view_that_refuses,
    view_without_history,
    watched,
)
# What programs make their results with, by name.
MAKERS = {f.__name__: f for f in MADE_BY} | {"INFERENCE": INFERENCE}
