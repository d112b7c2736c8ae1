"""`torch.distributed.breakpoint`: the debugger in one process, while the others wait."""

from __future__ import annotations

import pdb
import sys
from collections import Counter
from datetime import timedelta
from typing import Any

from rushlight.distributed.collectives import barrier
from rushlight.distributed.groups import _get_default_group, get_rank

__all__ = ["breakpoint"]

_passed: Counter[tuple[str, int]] = Counter()  # (file, line) of a call -> how often it was passed


class _Debugger(pdb.Pdb):
    """Reads from the terminal in processes that `multiprocessing` started, which have no standard input."""

    def interaction(self, *args: Any, **kwargs: Any) -> None:
        before = sys.stdin
        try:
            with open("/dev/stdin") as sys.stdin:
                super().interaction(*args, **kwargs)
        finally:
            sys.stdin = before


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Stop one process in the debugger; the others wait until it goes on.

    The first `skip` calls of a place do nothing. Groups wait at least `timeout_s` seconds from then on.
    """
    caller = sys._getframe(1)
    if skip > 0:
        place = (caller.f_code.co_filename, caller.f_lineno)
        _passed[place] += 1
        if _passed[place] <= skip:
            return
    if timeout_s is not None:
        group = _get_default_group()
        group.timeout = max(group.timeout, timedelta(seconds=timeout_s))
    if get_rank() == rank:
        debugger = _Debugger()
        debugger.message(
            f"'up' leads to the frame that called dist.breakpoint(rank={rank}); the other processes wait"
        )
        debugger.set_trace()
    barrier()
