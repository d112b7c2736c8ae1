"""What a hook may return in place of gradients: None, or as many tensors of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


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
