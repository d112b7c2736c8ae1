"""Stagers: what `async_save` copies a state with before training goes on."""

from __future__ import annotations

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rushlight.core.tensor import Tensor
from rushlight.distributed.tensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def staged_copy(value: Any) -> Any:
    """A copy of a state that nobody else writes to."""
    if isinstance(value, DTensor):
        return DTensor(value._local_tensor.detach().clone(), value._spec)
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: staged_copy(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([staged_copy(v) for v in value])
    return copy.deepcopy(value)


@runtime_checkable
class AsyncStager(Protocol):
    """What programs give to `async_save` to copy states their own way."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` calls `synchronize_staging` before it returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict) -> dict | Future:
        """A copy of a state, or a future of one."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Wait until the state has been copied."""

    def close(self) -> None:
        """Let go of what it holds."""


@dataclass
class StagingOptions:
    """How `DefaultStager` copies: in a thread or at once. The others are about memory of other devices."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies at once, or in a thread: then the state must not be changed before the future of `stage` is done.

    >>> import rushlight as torch
    >>> state = {"x": torch.ones(1)}
    >>> copied = DefaultStager(StagingOptions(use_async_staging=False)).stage(state)
    >>> state["x"].zero_(), copied
    (tensor([0.]), {'x': tensor([1.])})
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        config = StagingOptions() if config is None else config
        self._executor = ThreadPoolExecutor(1, "staging") if config.use_async_staging else None
        self._staging_future: Future | None = None

    def stage(self, state_dict: dict, **kwargs: Any) -> dict | Future:
        if self._executor is None:
            return staged_copy(state_dict)
        self._staging_future = self._executor.submit(staged_copy, state_dict)
        return self._staging_future

    def synchronize_staging(self) -> None:
        if self._staging_future is not None:
            self._staging_future.result()

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()


class BlockingAsyncStager(AsyncStager):
    """Copies at once. A cache would save memory that is asked for, and stand in the way of the save before: there is none."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check

    def stage(self, state_dict: dict) -> dict | Future:
        return staged_copy(state_dict)

    def synchronize_staging(self) -> None:
        pass

    def close(self) -> None:
        pass
