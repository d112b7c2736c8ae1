"""`torch.utils.benchmark`: how long a statement takes.

>>> from rushlight.utils.benchmark import Timer
>>> measured = Timer("x + x", globals={"x": 1}).timeit(100)
>>> measured.median > 0
True
"""

from __future__ import annotations

import timeit as _timeit
from typing import Any

from rushlight.core.stub import stub

__all__ = ["Compare", "Measurement", "Timer", "timer"]

timer = _timeit.default_timer


class Measurement:
    """The times of several runs of a statement, each of `number_per_run` executions."""

    def __init__(
        self, number_per_run: int, raw_times: list[float], task_spec: dict[str, Any]
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.task_spec = task_spec

    @property
    def times(self) -> list[float]:
        """Seconds for one execution, of each run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        times = sorted(self.times)
        at = q * (len(times) - 1)
        low = int(at)
        high = min(low + 1, len(times) - 1)
        return times[low] + (at - low) * (times[high] - times[low])

    @property
    def mean(self) -> float:
        """Seconds for one execution: the mean over the runs."""
        return sum(self.times) / len(self.raw_times)

    @property
    def median(self) -> float:
        """Seconds for one execution: the median over the runs."""
        return self._quantile(0.5)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def title(self) -> str:
        """Label, sub-label and description; else the statement."""
        parts = [self.task_spec[k] for k in ("label", "sub_label", "description")]
        return ": ".join(p for p in parts if p) or str(self.task_spec["stmt"])

    def __repr__(self) -> str:
        lines = [f"<{__name__}.Measurement object at {hex(id(self))}>", self.title]
        n = len(self.raw_times)
        runs = f"{n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs "
        runs += "per measurement, " if n > 1 else ", "
        threads = self.task_spec["num_threads"]
        runs += f"{threads} thread{'s' if threads > 1 else ''}"
        if n == 1:
            return "\n".join([*lines, f"  {_time(self.mean)}", f"  {runs}"])
        shown = [f"  Median: {_time(self.median)}"]
        if n > 3:
            shown.append(f"  IQR:    {_time(self.iqr)}")
        return "\n".join([*lines, *shown, f"  {runs}"])


def _time(seconds: float) -> str:
    for unit, scale in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds:.2f} s"


class Timer:
    """Measures the statement `stmt`, a string or a function without arguments, after `setup`.

    `globals`: the names that the statement sees; `num_threads`: how many threads operations may use
    meanwhile.
    """

    def __init__(
        self, stmt: Any = "pass", setup: Any = "pass", global_setup: str = "", timer: Any = timer,
        globals: dict[str, Any] | None = None, label: str | None = None,
        sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        import textwrap

        import rushlight

        if str(getattr(language, "value", language)).lower() not in ("python", "py", "0"):
            raise ValueError(
                f"Timer: only Python statements are measured, got language={language!r}"
            )
        names = {"torch": rushlight, **(globals or {})}
        if isinstance(stmt, str):
            stmt = textwrap.dedent(stmt).strip()
        if isinstance(setup, str):
            setup = textwrap.dedent(setup).strip() or "pass"
        self._timer = _timeit.Timer(stmt, setup, timer, names)
        self._threads = num_threads
        self._spec = {
            "stmt": stmt, "setup": setup, "label": label, "sub_label": sub_label,
            "description": description, "env": env, "num_threads": num_threads,
        }  # fmt: skip

    def _measured(self, run: Any) -> Measurement:
        import rushlight

        before = rushlight.get_num_threads()
        rushlight.set_num_threads(self._threads)
        try:
            number, times = run()
        finally:
            rushlight.set_num_threads(before)
        return Measurement(number, times, self._spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` executions, after a few to warm up."""

        def run() -> tuple[int, list[float]]:
            self._timer.timeit(max(number // 100, 2))
            return number, [self._timer.timeit(number)]

        return self._measured(run)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of so many executions that the clock does not matter, for `min_run_time` seconds."""

        def run() -> tuple[int, list[float]]:
            number = 1
            self._timer.timeit(1)
            while (spent := self._timer.timeit(number)) < min_run_time / 100 and number < 10**9:
                number *= 10
            times = [spent]
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return number, times

        return self._measured(run)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:  # fmt: skip
        """As `blocked_autorange`, until the quartiles are within `threshold` of the median."""
        measured = self.blocked_autorange(callback, min_run_time)
        while (len(measured.times) < 4 or measured.iqr > threshold * measured.median) and sum(
            measured.raw_times
        ) < max_run_time:
            more = self.blocked_autorange(callback, min_run_time)
            if more.number_per_run != measured.number_per_run:
                measured = more if more.number_per_run > measured.number_per_run else measured
            measured.raw_times.extend(more.raw_times if more is not measured else [])
        return measured


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: list[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    @stub("no-op", "Times are shown with two decimals, without colours.")
    def trim_significant_figures(self) -> None:
        """Accepted: times are shown with two decimals."""

    colorize = trim_significant_figures

    def __str__(self) -> str:
        columns = list(dict.fromkeys(m.task_spec["description"] or "" for m in self._results))
        rows = list(
            dict.fromkeys(
                m.task_spec["sub_label"] or str(m.task_spec["stmt"]) for m in self._results
            )
        )
        found = {
            (
                m.task_spec["sub_label"] or str(m.task_spec["stmt"]),
                m.task_spec["description"] or "",
            ): m
            for m in self._results
        }
        table = [["", *columns]]
        for row in rows:
            cells = [found.get((row, column)) for column in columns]
            table.append([row, *("" if m is None else _time(m.median) for m in cells)])
        widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
        return "\n".join(
            "  |  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True))
            for line in table
        )

    def print(self) -> None:
        """Print the table."""
        print(str(self))
