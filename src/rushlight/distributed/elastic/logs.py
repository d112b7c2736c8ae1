"""Where what processes write goes: `Std` and `DefaultLogsSpecs` of `torch.distributed.elastic.multiprocessing`."""

from __future__ import annotations

import abc
import enum
import os
import shutil
import tempfile
from dataclasses import dataclass, field

from rushlight.distributed.elastic.errors import FILE

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "to_map"]


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
                return _stream(vm)
            for each in vm.split(","):
                rank, stream = each.split(":")
                found[int(rank)] = _stream(stream)
        except ValueError:
            raise ValueError(
                f"{vm!r} is no number of a stream (0 to 3), nor RANK:STREAM,..."
            ) from None
        return found


def _stream(text: str) -> Std:
    if (number := int(text)) not in range(4):
        raise ValueError(text)
    return Std(number)


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """The streams of each process of a machine.

    >>> to_map({1: Std.OUT}, 2)
    {0: <Std.NONE: 0>, 1: <Std.OUT: 1>}
    """
    given = val_or_map if isinstance(val_or_map, dict) else dict.fromkeys(range(local_world_size), val_or_map)  # fmt: skip
    return {local: given.get(local, Std.NONE) for local in range(local_world_size)}


@dataclass
class LogsDest:
    """The files of each process; the path "" is the stream of this process. `tee_stdouts` and `tee_stderrs` are shown, too."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(abc.ABC):
    """Streams that go to files in `log_dir`: only there (`redirects`), or there, too (`tee`); and the processes that are shown."""

    def __init__(
        self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE, tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:  # fmt: skip
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Make the folders of one start, by the environments of its processes, and tell the files."""

    @property
    @abc.abstractmethod
    def root_log_dir(self) -> str | None:
        """The folder, None for a new one."""


class DefaultLogsSpecs(LogsSpecs):
    """Files in LOG_DIR/NAME_.../attempt_N/PROCESS, with the name of the job and the number of its start; `/dev/null` makes none."""

    def __init__(
        self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE, tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:  # fmt: skip
        if log_dir and log_dir != os.devnull and os.path.exists(log_dir) and not os.path.isdir(log_dir):  # fmt: skip
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str | None:
        """The folder, None for a new one."""
        return self._root_log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Make the folders of one start; the environment of each process names its file for errors."""
        count = len(envs)
        if self._root_log_dir == os.devnull:
            for env in envs.values():
                env[FILE] = ""
            here, no_file = dict.fromkeys(envs, ""), dict.fromkeys(envs, os.devnull)
            return LogsDest({**here}, {**here}, error_files=no_file)
        folder = self._new_folder(envs.get(0, {}))
        moved, copied = to_map(self._redirects, count), to_map(self._tee, count)
        made = LogsDest(
            filtered_stdout=os.path.join(folder, "filtered_stdout.log"),
            filtered_stderr=os.path.join(folder, "filtered_stderr.log"),
        )
        streams = (
            (Std.OUT, "stdout.log", made.stdouts, made.tee_stdouts),
            (Std.ERR, "stderr.log", made.stderrs, made.tee_stderrs),
        )
        for local in range(count):
            own = os.path.join(folder, str(local))
            os.makedirs(own)
            shown = not self._local_ranks_filter or local in self._local_ranks_filter
            for stream, name, files, shown_files in streams:
                if not stream & (moved[local] | copied[local]):
                    files[local] = "" if shown else os.devnull
                    continue
                files[local] = os.path.join(own, name)
                if shown and stream & copied[local]:
                    shown_files[local] = files[local]
            envs[local][FILE] = made.error_files[local] = os.path.join(own, "error.json")
        return made

    def _new_folder(self, env: dict[str, str]) -> str:
        """The empty folder of one start of a job."""
        if self._run_log_dir is None:
            if self._root_log_dir:
                os.makedirs(self._root_log_dir, exist_ok=True)
            prefix = f"{env.get('TORCHELASTIC_RUN_ID', 'job')}_"
            self._run_log_dir = tempfile.mkdtemp(prefix=prefix, dir=self._root_log_dir)
        attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
        folder = os.path.join(self._run_log_dir, f"attempt_{attempt}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def arguments(self) -> list[str]:
        """The options of torchrun that mean the same."""
        shown = ",".join(map(str, sorted(self._local_ranks_filter or ())))
        made = [f"--redirects={_mask(self._redirects)}", f"--tee={_mask(self._tee)}", f"--local-ranks-filter={shown}"]  # fmt: skip
        return [*made, f"--log-dir={self._root_log_dir}"] if self._root_log_dir else made


def _mask(streams: Std | dict[int, Std]) -> str:
    if isinstance(streams, dict):
        return ",".join(f"{rank}:{int(each)}" for rank, each in streams.items()) or "0"
    return str(int(streams))
