"""Where what processes write goes: `Std` and `DefaultLogsSpecs` of `torch.distributed.elastic.multiprocessing`."""

from __future__ import annotations

import enum
import os

__all__ = ["DefaultLogsSpecs", "Std"]


class Std(enum.IntFlag):
    """The streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """As on the command line: a number for all processes of a machine, or one for each.

        >>> Std.from_str("3"), Std.from_str("0:1,1:2")
        (<Std.ALL: 3>, {0: <Std.OUT: 1>, 1: <Std.ERR: 2>})
        """
        found: dict[int, Std] = {}
        try:
            if ":" not in vm:
                return cls(int(vm))
            for each in vm.split(","):
                rank, stream = map(int, each.split(":"))
                found[rank] = cls(stream)
        except ValueError:
            raise ValueError(
                f"{vm!r} is no number of a stream (0 to 3), nor RANK:STREAM,..."
            ) from None
        return found


class DefaultLogsSpecs:
    """Streams that go to files in `log_dir`: only there (`redirects`), or there, too (`tee`); and the processes that are shown."""

    def __init__(
        self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE, tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:  # fmt: skip
        if log_dir and os.path.exists(log_dir) and not os.path.isdir(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @property
    def root_log_dir(self) -> str | None:
        """The folder, None for a new one."""
        return self._root_log_dir

    def arguments(self) -> list[str]:
        """The options of torchrun that mean the same."""
        shown = ",".join(map(str, sorted(self._local_ranks_filter or ())))
        made = [f"--redirects={_mask(self._redirects)}", f"--tee={_mask(self._tee)}", f"--local-ranks-filter={shown}"]  # fmt: skip
        return [*made, f"--log-dir={self._root_log_dir}"] if self._root_log_dir else made


def _mask(streams: Std | dict[int, Std]) -> str:
    if isinstance(streams, dict):
        return ",".join(f"{rank}:{int(each)}" for rank, each in streams.items()) or "0"
    return str(int(streams))
