"""Methods of `Tensor` that register hooks. A tensor's hooks are kept by the node of its edge."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from rushlight.autograd.graph import (
    AccumulateGrad,
    HookTable,
    RemovableHandle,
    _register,
    hooks_of,
    node_and_output,
)
from rushlight.autograd.views import edge_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called on this non-leaf tensor."""
    e = edge_of(self)
    if e is None or not e.edges:
        return False
    node, nr = node_and_output(e)
    return node.hooks is not None and nr in node.hooks.retain


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf tensor in `.grad` at the next backward."""
    e = edge_of(self)
    if e is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if e.edges:
        node, nr = node_and_output(e)
        hooks_of(node).retain[nr] = weakref.ref(self)


def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` whenever the gradient of this tensor is computed. A tensor that it returns replaces
    the gradient."""
    e = edge_of(self)
    if e is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node, nr = node_and_output(e)
    return _register(hooks_of(node).tensor_pre.setdefault(nr, HookTable()), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(tensor)` after a backward has added to this leaf's `.grad`."""
    e = edge_of(self)
    if e is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if e.__class__ is not AccumulateGrad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _register(hooks_of(e).accumulated, hook)
