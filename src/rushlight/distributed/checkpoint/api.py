"""What goes wrong with a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """A step of saving or loading failed on some ranks: `failures` has what was raised on each."""

    def __init__(self, msg: str, failures: Mapping[int, BaseException]) -> None:
        super().__init__(msg, dict(failures))
        self._failures = dict(failures)

    @property
    def failures(self) -> dict[int, BaseException]:
        """Rank -> what was raised there."""
        return self._failures

    def __str__(self) -> str:
        rows = [f"{rank}: {type(e).__name__}: {e}" for rank, e in self._failures.items()]
        return f"CheckpointException ranks:{self._failures.keys()}\n{self.args[0]}\n" + "\n".join(
            rows
        )
