"""`Join`: processes that run out of inputs answer the collectives of those that have more.

Note [Uneven inputs]
In each step the first `Joinable` tells all processes that this one still has inputs: a sum over the processes. One that has
left the loop adds zero to that sum, and calls the hooks of all joinables, which take part in the collectives of a step; when
the sum is zero all have left.
"""

from __future__ import annotations

import abc
import warnings
from typing import Any

import rushlight
from rushlight.distributed import collectives

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does: `main_hook` in each step of the others, `post_hook` at the end."""

    def main_hook(self) -> None:
        """Take part in the collectives of a step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """All have left; `is_last_joiner`: this process was among the last."""


class Joinable(abc.ABC):
    """What `Join` can be used with: it calls `Join.notify_join_context` in each step, before its own collectives."""

    _join: Join | None = None  # the context, for the first of its joinables
    _joined: Join | None = None  # the context, for all

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this process does when it has no inputs."""

    @property
    @abc.abstractmethod
    def join_device(self) -> Any:
        """Where the collectives run."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """The processes that take part."""


class Join:
    """A context around a training loop whose processes have different numbers of inputs. See Note [Uneven inputs]."""

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:  # fmt: skip
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable = joinables, enable
        self._throws, self.options = throw_on_early_termination, kwargs
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        self._group = joinables[0].join_process_group
        if any(each.join_process_group is not self._group for each in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self.active = self._group.size()  # processes that have inputs in this step
        self.has_inputs = True

    def __enter__(self) -> Join:
        if self._enable:
            self._joinables[0]._join = self
            for each in self._joinables:
                each._joined = self
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not self._enable:
            return
        self._joinables[0]._join, self.has_inputs = None, False
        try:
            if kind is None:
                self._follow()
        finally:
            for each in self._joinables:
                each._joined = None

    def _follow(self) -> None:
        """Take part in the steps of those that have inputs."""
        last, steps = True, 0
        while self._count(0):
            if self._throws:
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            last, steps = False, steps + 1
            if steps == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._group.rank()} has at least 1000 fewer inputs than other currently-active ranks.",
                    stacklevel=2,
                )
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _count(self, mine: int) -> int:
        """How many processes have inputs."""
        found = rushlight.tensor([mine])
        collectives.all_reduce(found, group=self._group)
        self.active = int(found)
        return self.active

    def _stop(self) -> None:
        raise RuntimeError(
            "Detected at least one rank that exhausted inputs. Throwing across all ranks."
        )

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell the others that this process has inputs. Only the first joinable of a context does that."""
        context = joinable._join
        if context is not None:
            context._count(1)
            if context._throws and context.active < context._group.size():
                context._stop()
        return None
