"""Hooks in a backward pass: the order in which nodes that have some run, and what one may return in place of gradients,
None or as many tensors of the same kind.

Note [The order of hooks]
    Users see in which order their code runs: what a module's forward put on a stack, its backward hook takes off again; a
    custom function's backward draws random numbers. So of the nodes with hooks and those of custom functions the one that was
    recorded last runs first. They wait in a heap until no other node is ready, for one of these may lead to a later one
    that waits. Which is later follows from when a node got its first hook, where it is not of a custom function; hooks on modules
    are set as the node is recorded.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from rushlight.autograd.graph import Output
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def in_turn(node: Any, ready: list, watched: list) -> Any:
    """The node to run when `node` with its `Hooks` or `Turn` (or None, where `ready` is empty) came up; None: another first."""
    if node is not None:
        if node.__class__ is Output:
            return node  # which only hands a gradient on to its node
        hooks = node.hooks
        if not (node._edges and (hooks.users or hooks.tensor_pre or hooks.pre or hooks.post)):
            return node  # leaves run at once, see the engine
        heappush(watched, (-hooks.number, node))
    return None if ready else heappop(watched)[1]


def replaced(old: Any, new: Any, hook: Callable) -> Any:
    """The gradient after a hook: what the hook returned, or `old` where that is None."""
    if new is None:
        return old
    name = getattr(hook, "__name__", type(hook).__name__)
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if new.dtype is not old.dtype or new.device.type != old.device.type:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {old.type()} got {new.type()})"
        )
    if new.shape != old.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    return new


def replaced_all(old: Any, new: Any, hook: Callable) -> Any:
    """The gradients of a node after a hook on it, which returns all of them or None."""
    if new is None:
        return old
    if not isinstance(new, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
    if len(new) != len(old):
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(new)}, but expected "
            f"{len(old)})"
        )
    return [None if b is None else replaced(a, b, hook) for a, b in zip(old, new, strict=True)]
