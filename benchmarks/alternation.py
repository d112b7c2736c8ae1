"""Timing of two libraries against each other: one process, turn and turn about, medians.

A machine changes its speed while it runs: it warms up, it has other work. So neither side is timed by itself: each round
times one short stretch of calls of either side, in an order that alternates, and the ratio is taken within the round.

Before each stretch both sides rest. OpenMP's threads, PyTorch's among them, go on waiting in a loop for some
milliseconds after their last job: on a machine with as many cores as threads they take a core from who comes next.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REST = 0.01  # seconds: by then the threads of the side before have gone to sleep
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads(count: int) -> None:
    """Set the number of threads of every numerical library; must run before any of them is imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(count)


class Measured(NamedTuple):
    """Seconds per call of either side (medians over the rounds), and the ratio ours / theirs: median and quartiles."""

    ours: float
    theirs: float
    ratio: float
    low: float
    high: float


def measured(taken: list[tuple[float, float]]) -> Measured:
    """What rounds of (seconds of a call of ours, of theirs) come to."""
    low, ratio, high = statistics.quantiles([a / b for a, b in taken], n=4)
    ours, theirs = (statistics.median(side) for side in zip(*taken, strict=True))
    return Measured(ours, theirs, ratio, low, high)


def in_turn(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> Measured:
    """Two sides, each a function that times itself, in rounds that either side begins in turn."""
    taken = []
    for number in range(rounds):
        if number % 2:
            b = theirs()
            a = ours()
        else:
            a = ours()
            b = theirs()
        taken.append((a, b))
    return measured(taken)


def seconds(
    call: Callable[[], object], times: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The time of one of `times` calls in a row."""
    rounds = range(times)
    start = clock()
    for _ in rounds:
        call()
    return (clock() - start) / times


def stretch_of(call: Callable[[], object], times: int, rest: float = REST) -> float:
    """The time of one of `times` calls, after a rest and one call that wakes this side's own threads."""
    time.sleep(rest)
    call()
    return seconds(call, times)


def calls_that_take(
    call: Callable[[], object], stretch: float, clock: Callable[[], float] = time.perf_counter
) -> int:
    """How many calls fill about `stretch` seconds."""
    times = 1
    while (taken := seconds(call, times, clock) * times) < stretch / 4:
        times *= 2
    return max(1, round(times * stretch / taken))


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """What is garbage now is collected, and nothing until the end of the block."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def alternate(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int = 25,
    stretch: float = 0.04,
    rest: float = REST,
) -> Measured:
    """Time two callables in alternating rounds of about `stretch` seconds each, without garbage collection."""
    for call in (ours, theirs):
        seconds(call, 3)
    counts = calls_that_take(ours, stretch), calls_that_take(theirs, stretch)
    with no_collection():
        return in_turn(
            partial(stretch_of, ours, counts[0], rest),
            partial(stretch_of, theirs, counts[1], rest),
            rounds,
        )


def fastest(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int = 25,
    stretch: float = 0.001,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Seconds per call of either side: the fastest of many short stretches, turn and turn about.

    What a call costs when nothing disturbs it: other work on the machine, and the garbage collector, only
    ever add to a stretch. For calls so short that a stretch of many fits between two disturbances.
    """
    for call in (ours, theirs):
        seconds(call, 3)
    counts = [calls_that_take(call, stretch, clock) for call in (ours, theirs)]
    with no_collection():
        taken = [
            (seconds(ours, counts[0], clock), seconds(theirs, counts[1], clock))
            for _ in range(rounds)
        ]
    return min(a for a, _ in taken), min(b for _, b in taken)


def machine() -> str:
    """Lines that belong above every table: processor, cores, load, threads, BLAS and its settings, versions."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index, call-overload]
    settings = [
        f"{k}={v}"
        for k, v in sorted(os.environ.items())
        if k.startswith(("OPENBLAS_", "OMP_", "MKL_"))
    ]
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"date     {time.strftime('%Y-%m-%d')}\n"
        f"CPU      {_processor()}, {os.cpu_count()} cores seen, load {load}\n"
        f"threads  {' '.join(settings) or 'no settings'}\n"
        f"BLAS     {blas['name']} {blas['version']}\n"
        f"Python   {platform.python_version()}, NumPy {np.__version__}, {platform.system()} {platform.machine()}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: the standard library's name has to do
    return platform.processor() or "unknown"


def row(name: str, measured: Measured, target: float | None = None) -> str:
    """One line of a table: the case, microseconds of either side, the ratio with its quartiles, the target."""
    line = (
        f"{name:<44} {measured.ours * 1e6:>11.2f} {measured.theirs * 1e6:>11.2f} "
        f"{measured.ratio:>7.3f}  ({measured.low:.3f} .. {measured.high:.3f})"
    )
    if target is None:
        return line
    return f"{line}  <= {target:.2f} {'yes' if measured.ratio <= target else 'NO'}"


HEADER = f"{'case':<44} {'Rushlight us':>11} {'PyTorch us':>11} {'ratio':>6}   (quartiles)         target"
