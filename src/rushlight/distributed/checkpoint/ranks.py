"""Steps of saving and loading that all processes take together: one that fails anywhere fails everywhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from rushlight.distributed import groups, objects
from rushlight.distributed.checkpoint.api import CheckpointException

__all__ = ["Ranks"]


class Failure:
    """What was raised by a process."""

    def __init__(self, error: BaseException) -> None:
        try:
            pickle.loads(pickle.dumps(error))
            self.error = error
        except Exception:  # an error of any class may not be a pickle
            self.error = RuntimeError(f"{type(error).__name__}: {error}")


def attempted(step: Callable[[], Any]) -> Any:
    """What a step returns, or its failure."""
    try:
        return step()
    except Exception as error:  # the others are told
        return Failure(error)


class Ranks:
    """The processes that save or load together; this one alone without a process group."""

    def __init__(self, group: Any, alone: bool) -> None:
        self.group, self.alone = group, alone or not groups.is_initialized()
        self.rank = 0 if self.alone else groups.get_rank(group)
        self.size = 1 if self.alone else groups.get_world_size(group)

    @property
    def is_first(self) -> bool:
        """Whether this process is the first."""
        return self.rank == 0

    def gathered(self, name: str, step: Callable[[], Any]) -> list:
        """What a step gives on each process, everywhere."""
        found = [attempted(step)] * self.size
        if not self.alone:
            objects.all_gather_object(found, found[0], self.group)
        return self._checked(name, dict(enumerate(found)))

    def on_first(self, name: str, step: Callable[[], Any]) -> Any:
        """What a step gives on the first process, everywhere."""
        found = [attempted(step) if self.is_first else None]
        if not self.alone:
            objects.broadcast_object_list(found, group=self.group, group_src=0)
        return self._checked(name, {0: found[0]})[0]

    def _checked(self, name: str, found: dict[int, Any]) -> list:
        failures = {self._global(k): v.error for k, v in found.items() if isinstance(v, Failure)}
        if failures:
            raise CheckpointException(name, failures)
        return list(found.values())

    def _global(self, k: int) -> int:
        return k if self.alone or self.group is None else groups.get_global_rank(self.group, k)
