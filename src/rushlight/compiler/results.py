"""What the results of programs are beside arrays: views of each other, and memory whose writes are counted."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.graph import version_of
from rushlight.autograd.views import View
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
    if view.dtype != within.dtype:
        base = base.view(view.dtype)
    size = view.dtype.itemsize
    ahead = view.__array_interface__["data"][0] - within.__array_interface__["data"][0]
    strides = tuple([s // size for s in view.strides])
    return base.as_strided(view.shape, strides, base.storage_offset() + ahead // size)


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
