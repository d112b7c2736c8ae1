"""`torch.distributed.elastic.multiprocessing.redirects`: what this process writes goes to a file, also what C and children write."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from typing import IO

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Iterator[None]:
    """Within it, what is written to the descriptor of `stdout` or `stderr` goes to a new file."""
    if std not in ("stdout", "stderr"):
        raise ValueError(f"unknown standard stream <{std}>, must be one of stdout, stderr")
    stream = getattr(sys, std)
    number = stream.fileno()
    before = os.dup(number)
    try:
        with open(to_file, "w+b") as file:
            _point(stream, number, file.fileno())
        try:
            yield
        finally:
            _point(stream, number, before)
    finally:
        os.close(before)


def _point(stream: IO[str], number: int, target: int) -> None:
    """Let a descriptor mean another one's file, once all that waits in buffers is written."""
    stream.flush()
    ctypes.CDLL(None).fflush(None)
    os.dup2(target, number)


redirect_stdout = functools.partial(redirect, "stdout")
redirect_stderr = functools.partial(redirect, "stderr")
