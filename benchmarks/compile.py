"""Steps that `torch.compile` makes programs of: against the same steps as written, PyTorch, its compiler, and JAX.

    python benchmarks/compile.py [--rounds 7] [--threads 1] [--only mlp] [--sides rushlight,compiled,torch] [--jax PYTHON]

Each case is a step (`compile_cases.py`; in JAX `compile_jax.py`): a training step with its optimizer, or the inference of
one example. Each side of a case is a process of its own. They run turn and turn about, one stretch of steps each while
the others wait; the median of the stretches counts.

Columns: milliseconds of a step of each side, then how often as long as ours compiled each other side takes (above 1: the
compiled step is ahead). Behind them, of our compiled side and of our side as written: the seconds by which the first
three steps took longer than later ones, which is what compiling takes; then, compared with our side as written, the most
that the process held beyond the import, code included, and the most that arrays of all sizes held in a later step.

Sides: `rushlight`, `compiled`, `torch`, `torch.compile` (needs a C++ compiler), `jax` (`jax.jit` with donated arguments;
`--jax` names a Python that has it).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import alternation

SIDES = ("rushlight", "compiled", "torch", "torch.compile", "jax")
STRETCH = 0.3  # seconds
FIRST = 3  # steps in which a program is captured, lowered, and takes over


def step_of(side: str, case: str, threads: int) -> Callable[[], Any]:
    """The step of a case, of one side."""
    if side == "jax":
        import compile_jax  # its threads are as many as the cores that the process may use

        return compile_jax.step_of(case)
    import compile_cases

    if side in ("rushlight", "compiled"):
        import rushlight as torch
    else:
        import torch  # type: ignore[no-redef]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = compile_cases.CASES[case](torch)
    return torch.compile(step) if side in ("compiled", "torch.compile") else step


def work(side: str, case: str, threads: int) -> None:
    """In a process of its own: take as many steps as each line of the input says, and print the seconds of one."""
    from training import most_held

    if side == "jax":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import jax  # noqa: F401
    else:
        __import__("rushlight" if side in ("rushlight", "compiled") else "torch")
    before = most_held()
    step = step_of(side, case, threads)
    begin = time.perf_counter()
    for _ in range(FIRST):
        step()
    first = time.perf_counter() - begin
    step()
    about = {"first": first, "held": most_held() - before, "arrays": arrays_of(side, step)}
    say({**about, "count": alternation.calls_that_take(step, STRETCH)})
    for line in sys.stdin:
        say(alternation.stretch_of(step, int(line)))


def arrays_of(side: str, step: Callable[[], Any]) -> int:
    """The most bytes that a step held of what it and the step before it made: arrays of all sizes, Python's objects."""
    if side not in ("rushlight", "compiled"):
        return 0
    tracemalloc.start()
    step()
    step()
    tracemalloc.reset_peak()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def say(value: Any) -> None:
    print("=>", json.dumps(value), flush=True)


class Side:
    """The process of one side."""

    def __init__(self, python: str, side: str, case: str, threads: int) -> None:
        command = [python, __file__, "--work", side, "--only", case, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self.answer()
        self.times: list[float] = []

    def answer(self) -> Any:
        for line in self.process.stdout:  # type: ignore[union-attr]
            if line.startswith("=> "):
                return json.loads(line[3:])
        return None

    def stretch(self) -> None:
        """Let it take a stretch of steps; a side that could not take the first takes none."""
        if self.about is None:
            self.times.append(math.nan)
            return
        self.process.stdin.write(f"{self.about['count']}\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        self.times.append(self.answer())

    def end(self) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def measure(case: str, options: argparse.Namespace) -> list[float]:
    """Print the row of a case; gives the time of each side in those of the compiled one."""
    names = options.sides.split(",")
    sides = []
    for name in names:
        python = options.jax if name == "jax" else sys.executable
        sides.append(Side(python, name, case, options.threads))
    for turn in range(options.rounds):
        for side in sides[:: -1 if turn % 2 else 1]:
            side.stretch()
    for side in sides:
        side.end()
    medians = [statistics.median(side.times) for side in sides]
    ours, written = names.index("compiled"), names.index("rushlight")
    ratios = [m / medians[ours] for m in medians]
    first = [sides[k].about["first"] - FIRST * medians[k] for k in (ours, written)]
    held, arrays = (
        sides[ours].about[what] / max(1, sides[written].about[what]) for what in ("held", "arrays")
    )
    print(
        f"{case:8}", *[f"{1e3 * m:9.3f}" for m in medians], " ", *[f"{r:6.2f}" for r in ratios],
        f"  first {first[0]:.2f} s ({first[1]:.2f}), memory {held:.2f}, arrays {arrays:.2f}", flush=True,
    )  # fmt: skip
    return ratios


def main() -> None:
    import compile_cases

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--sides", default="rushlight,compiled,torch")
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--work", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    alternation.limit_threads(options.threads)
    if options.work:
        work(options.work, options.only, options.threads)
        return
    print(alternation.machine())
    names = options.sides.split(",")
    print(f"{'':8}", *[f"{n[:9]:>9}" for n in names], " ", *[f"{n[:6]:>6}" for n in names])
    rows = [measure(case, options) for case in compile_cases.TRAINING if options.only in case]
    if rows:
        mean = [
            math.exp(statistics.fmean([math.log(r) for r in column if r == r]))
            for column in zip(*rows, strict=True)
        ]
        print("geometric mean of the training steps", *[f"{r:6.2f}" for r in mean])
    for case in compile_cases.INFERENCE:
        if options.only in case:
            measure(case, options)


if __name__ == "__main__":
    main()
