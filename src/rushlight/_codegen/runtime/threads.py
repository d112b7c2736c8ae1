"""Threads for native code: `rushlight_parallel` runs a function over chunks of a range on all cores.

    void rushlight_parallel(void (*body)(void *args, int64_t low, int64_t high), void *args,
                            int64_t n, int64_t grain)

calls `body(args, k * grain, min(n, (k + 1) * grain))` once for every k, on several threads at once.
The chunks are the same for any number of threads, so a body that makes one result per chunk makes
the same result everywhere. A body must not raise or end its thread.

How that works says `workers.py`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import cache

from rushlight._codegen import native
from rushlight._codegen.runtime.workers import FAR, SPIN, text
from rushlight.core import settings


class _Native:
    """The module's functions, loaded."""

    def __init__(self) -> None:
        from ctypes import CFUNCTYPE, c_int32, c_int64

        machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine(), platform.machine()
        )
        names = ("rushlight_parallel", "threads", "forked", "flush", "pauses", "spins", "ticks")
        made = lambda: text(machine, sys.platform)
        self.parallel, *found = native.load(f"threads {machine} {sys.platform}", made, names)
        number = CFUNCTYPE(None, c_int32)
        self.threads, self.flush, self.pauses = map(number, (found[0], found[2], found[3]))
        self.forked = CFUNCTYPE(None)(found[1])
        self.spins = CFUNCTYPE(None, c_int32, c_int32)(found[4])
        self.ticks = CFUNCTYPE(c_int64)(found[5])
        native.symbol("rushlight_parallel", self.parallel)
        self.spins(*self._pace())
        self.set(settings.get_num_threads())
        settings.watch_num_threads(self.set)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    def _pace(self) -> tuple[int, int]:
        """How many pauses `SPIN` is, since on some processors one takes ten times as long as on others, and how many ticks
        `FAR` is."""
        from time import perf_counter_ns

        best = 1_000_000
        begin, before = perf_counter_ns(), self.ticks()
        for _ in range(5):
            start = perf_counter_ns()
            self.pauses(100)
            best = min(best, perf_counter_ns() - start)
        passed, ticks = perf_counter_ns() - begin, self.ticks() - before
        return max(10, 100 * SPIN // max(best, 1)), max(1, FAR * ticks // max(passed, 1))

    def set(self, threads: int) -> None:
        self.threads(threads - 1)


_native = cache(_Native)


def start() -> int:
    """Make `rushlight_parallel` callable from modules that are loaded from now on; its address.

    The number of threads is `torch.get_num_threads()`, now and whenever it changes. They are made
    when the first job needs them.
    """
    return _native().parallel


def flush_denormal(on: bool) -> bool:
    """Whether this thread, and what it runs on others, takes denormal numbers for zero.

    The result says whether that can be set; it is off at first.
    """
    if not on and _native.cache_info().currsize == 0:
        return True
    if not native.available():
        return False
    if on:
        import numpy as np

        # These look for their smallest number at the first use, and warn when it is zero.
        for kind in (np.float16, np.float32, np.float64, np.longdouble):
            np.finfo(kind)
    _native().flush(on)
    return True


def parallel() -> Callable[[int, int, int, int], None]:
    """`rushlight_parallel` as a function of Python: of addresses and numbers."""
    from ctypes import CFUNCTYPE, c_int64, c_void_p

    return CFUNCTYPE(None, c_void_p, c_void_p, c_int64, c_int64)(start())
