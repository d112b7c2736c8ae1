"""`checkpoint`: a module whose intermediate values are computed again in backward, without a module around it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from rushlight.distributed._composable.contract import contract
from rushlight.nn.module import Module
from rushlight.utils.checkpoint import noop_context_fn, recomputed

__all__ = ["checkpoint"]


class _CheckpointState:
    """Whether the module's calls are checkpointed, and the one that runs."""

    def __init__(self) -> None:
        self.enable_hook, self.running = True, contextlib.ExitStack()

    def again(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """A recomputation, which is not checkpointed."""
        before, self.enable_hook = self.enable_hook, False
        try:
            module(*args, **kwargs)
        finally:
            self.enable_hook = before


@contract(_CheckpointState)
def checkpoint(
    module: Module, *, use_reentrant: bool = False, preserve_rng_state: bool = True,
    context_fn: Callable = noop_context_fn, determinism_check: str = "default", debug: bool = False, early_stop: bool = True,
    **kwargs: Any,
) -> Module:  # fmt: skip
    """The module, which calls itself as `torch.utils.checkpoint.checkpoint(module, ..., use_reentrant=False)` does from now on.

    >>> import rushlight as torch
    >>> layer = checkpoint(torch.nn.Linear(2, 2))
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> layer.bias.grad
    tensor([1., 1.])
    """
    if use_reentrant:
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint: use torch.utils.checkpoint.checkpoint instead"
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))

    def enter(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if (state := _state(module)).enable_hook:
            again, checked = functools.partial(state.again, module), determinism_check == "default"
            context = recomputed(
                again, (args, kwargs), {}, preserve_rng_state, context_fn, early_stop, checked
            )
            state.running.enter_context(context)

    def leave(module: Module, args: tuple, output: Any) -> None:
        if (state := _state(module)).enable_hook:
            state.running.close()

    module.register_forward_pre_hook(enter, with_kwargs=True)
    module.register_forward_hook(leave, prepend=True, always_call=True)
    return module


def _state(module: Module) -> _CheckpointState:
    return checkpoint.state(module)  # type: ignore[attr-defined]
