"""`checkpoint_wrapper`: modules whose intermediate values are computed again in backward, under their own names."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.autograd.saved_hooks import save_on_cpu
from rushlight.distributed.fsdp.wrap import as_policy, lambda_auto_wrap_policy, wrap_inside
from rushlight.nn.module import Module
from rushlight.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """The two kinds of `torch.utils.checkpoint.checkpoint`."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module):
    """A module inside of another. Names of parameters and states are the inner ones."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator:
        """The parameters, under the names that they have in the inner module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """A module inside of another that keeps what backward needs in the memory of the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The inner module's."""
        with save_on_cpu():
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module inside of another that calls it through `checkpoint`."""

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The inner module's."""
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT:
            return self.checkpoint_fn(inner, *args, **kwargs)
        count = len(args)  # the reentrant kind has no arguments by name

        def called(*values: Any) -> Any:
            return inner(*values[:count], **dict(zip(kwargs, values[count:], strict=True)))

        return self.checkpoint_fn(called, *args, *kwargs.values())


def _without_prefix(module: Any, states: dict, prefix: str, metadata: Any) -> None:
    for key in [k for k in states if k.startswith(prefix + _CHECKPOINT_PREFIX)]:
        states[prefix + key[len(prefix + _CHECKPOINT_PREFIX) :]] = states.pop(key)


def _with_prefix(module: Any, states: dict, prefix: str, *_: Any) -> None:
    for key in [
        k for k in states if k.startswith(prefix) and not k.startswith(prefix + _CHECKPOINT_PREFIX)
    ]:
        states[prefix + _CHECKPOINT_PREFIX + key[len(prefix) :]] = states.pop(key)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """A module that computes the inner values of another again in backward, and does not keep them."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """A module whose activations are kept in the memory of the CPU."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable = checkpoint_wrapper, check_fn: Callable = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:  # fmt: skip
    """Put the wrapper around every module inside of a model for which `check_fn(module)` holds, or that a policy of FSDP names."""
    by_function = functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_inside(model, as_policy(auto_wrap_policy) or by_function, checkpoint_wrapper_fn, set())
