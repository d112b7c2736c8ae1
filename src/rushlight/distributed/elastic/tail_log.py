"""`torch.distributed.elastic.multiprocessing.tail_log`: lines that processes write to files, shown while they are written."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TextIO

__all__ = ["TailLog"]

logger = logging.getLogger(__name__)


class TailLog:
    """One thread that passes the lines of files on, each with a text before it, from `start` to `stop`.

    The files may come later. `[NAME0]:` stands before the lines of file 0, if `log_line_prefixes` has nothing else for it.
    """

    def __init__(
        self, name: str, log_files: dict[int, str], dst: TextIO, log_line_prefixes: dict[int, str] | None = None,
        interval_sec: float = 0.1, log_line_filter: Callable[[str], bool] = lambda line: True,
    ) -> None:  # fmt: skip
        self._name, self._log_files, self._dst = name, log_files, dst
        self._prefixes, self._interval_sec = log_line_prefixes or {}, interval_sec
        self._filter, self._finished, self._stopped = log_line_filter, threading.Event(), False
        self._threadpool = ThreadPoolExecutor(1, f"TailLog_{name}") if log_files else None
        self._following: Future | None = None

    def start(self) -> TailLog:
        """Begin; the object itself."""
        if self._threadpool is not None:
            self._following = self._threadpool.submit(self._follow)
        return self

    def stop(self) -> None:
        """Pass on what is left, and end."""
        self._finished.set()
        if self._following is not None:
            self._following.result()
        if self._threadpool is not None:
            self._threadpool.shutdown()
        self._stopped = True

    def stopped(self) -> bool:
        """Whether it has ended."""
        return self._stopped

    def _follow(self) -> None:
        files: dict[int, TextIO] = {}
        begun = dict.fromkeys(
            self._log_files, ""
        )  # of each file a line whose end is not written yet
        failed = set()
        with contextlib.ExitStack() as opened:
            while True:
                last = self._finished.is_set()  # asked first: then nothing is written after it
                for k, path in self._log_files.items():
                    if k in failed:
                        continue
                    try:
                        if k not in files and os.path.exists(path):
                            files[k] = opened.enter_context(open(path, errors="replace"))
                        for line in files.get(k, ()):
                            begun[k] = self._show(k, begun[k] + line)
                    except OSError as error:  # the others go on
                        failed.add(k)
                        logger.error("the file of %s%s: %s", self._name, k, error)
                if last:
                    for k, line in begun.items():
                        self._show(k, line and line + "\n")
                    return
                self._finished.wait(self._interval_sec)

    def _show(self, k: int, line: str) -> str:
        """Pass a line on; what is left of it, as it has no end yet."""
        if not line.endswith("\n"):
            return line
        if self._filter(line):
            self._dst.write(self._prefixes.get(k, f"[{self._name}{k}]:") + line)
        return ""
