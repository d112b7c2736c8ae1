"""Two processes of one thread each: all-reduce and steps of DistributedDataParallel, against PyTorch with gloo.

    python benchmarks/distributed.py [--ranks 2] [--rounds 15] [--only all-reduce]

Both libraries are in every process and take turns: the processes meet, time one stretch of calls of one side, meet again.
The number of calls of a stretch is the same for all. Medians over the rounds, of the slowest process.
The column "scaling" is weak scaling: the time of the same step in one process, while the others rest, over that of the job.
"machine" is what it would be if communication took no time: the same over all processes at once, which share memory and
caches, and only wait for each other after each step.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import alternation
import training

SIZES = {"4 B": 1, "4 KB": 1 << 10, "1 MB": 1 << 18, "64 MB": 1 << 24}  # numbers of float32
STEPS = {
    "mlp": "mlp 784-128-64-10, batch 64",
    "cnn": "mnist cnn, batch 64",
    "gpt": "gpt 4 x 128, 128 tokens, batch 16",
}
STRETCH = 0.1  # seconds


def cases(torch: Any) -> dict[str, Callable[[], object]]:
    """What is timed, of one library."""
    found: dict[str, Callable[[], object]] = {}
    for name, count in SIZES.items():
        row = torch.zeros(count)
        found[f"all-reduce, {name}"] = lambda row=row: torch.distributed.all_reduce(row)
    for name, case in STEPS.items():
        training.wrapped = torch.nn.parallel.DistributedDataParallel
        found[f"DDP step, {name}"] = training.made(torch, case)
        training.wrapped = lambda model: model
    return found


def alone(torch: Any) -> dict[str, Callable[[], object]]:
    """The same steps in one process."""
    return {f"DDP step, {name}": training.made(torch, case) for name, case in STEPS.items()}


class Ranks:
    """The processes of this benchmark, which agree on numbers."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.rank = torch, torch.distributed.get_rank()

    def most(self, value: float) -> float:
        """The largest of what all have."""
        row = self.torch.tensor([value], dtype=self.torch.float64)
        self.torch.distributed.all_reduce(row, self.torch.distributed.ReduceOp.MAX)
        return row.item()

    def calls(self, call: Callable[[], object]) -> int:
        """How many calls fill a stretch."""
        times = 1
        while (taken := self.most(alternation.seconds(call, times) * times)) < STRETCH / 4:
            times *= 2
        return max(1, round(times * STRETCH / taken))

    def seconds(self, call: Callable[[], object], times: int) -> float:
        """The time of one of `times` calls of the slowest process, after all have met."""
        time.sleep(alternation.REST)
        call()
        self.most(0.0)
        return self.most(alternation.seconds(call, times))


def compare(ranks: Ranks, calls: list[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds per call of each, turn and turn about, for each round."""
    for call in calls:
        call()
    counts = [ranks.calls(call) for call in calls]
    rows = []
    for number in range(rounds):
        row = [0.0] * len(calls)
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for k in order:
            row[k] = ranks.seconds(calls[k], counts[k])
        rows.append(row)
    return rows


def scaling(
    ranks: Ranks, alone: Callable[[], object], in_job: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """The time of a step in one process while the others rest, over that of the same step in all at once, and of the job's.

    The fastest of the rounds, turn and turn about: other work on the machine only ever adds.
    """
    from rushlight.distributed.shared_rows import shared_rows
    from rushlight.distributed.work import give_way

    rows = shared_rows(64, ranks.torch.distributed.group.WORLD)

    def together() -> None:
        alone()
        if rows is not None:  # or one takes the machine while the others have paused
            barrier = rows.barrier()
            while not barrier.Test():
                give_way()

    times = ranks.calls(in_job)
    single, side, job = [], [], []
    for _ in range(rounds):
        ranks.most(0.0)
        single.append(ranks.most(alternation.stretch_of(alone, times) if ranks.rank == 0 else 0.0))
        side.append(ranks.seconds(together, times))
        job.append(ranks.seconds(in_job, times))
    return min(single) / min(side), min(single) / min(job)


def measure(arguments: argparse.Namespace) -> None:
    """What each process does."""
    import torch

    import rushlight

    for library, backend in ((rushlight, "mpi"), (torch, "gloo")):
        library.set_num_threads(1)
        library.distributed.init_process_group(backend)
        os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    ranks = Ranks(rushlight)
    ours, theirs, single = cases(rushlight), cases(torch), alone(rushlight)
    if ranks.rank == 0:
        print(alternation.machine())
        print(f"PyTorch  {torch.__version__} with gloo, {arguments.ranks} processes of 1 thread\n")
        print(
            f"{'case':<24} {'Rushlight us':>12} {'PyTorch us':>11} {'ratio':>6}   (quartiles)   scaling  machine"
        )
    for name, call in ours.items():
        if arguments.only not in name:
            continue
        rows = compare(ranks, [call, theirs[name]], arguments.rounds)
        a, b, ratio, low, high = alternation.measured(rows)
        line = (
            f"{name:<24} {1e6 * a:>12.1f} {1e6 * b:>11.1f} {ratio:>6.2f}  ({low:.2f} .. {high:.2f})"
        )
        if name in single:
            machine, job = scaling(ranks, single[name], call, arguments.rounds)
            line += f"  {job:>6.2f}  {machine:>6.2f}"
        if ranks.rank == 0:
            print(line, flush=True)
    rushlight.distributed.barrier()
    for library in (rushlight, torch):
        library.distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    arguments = parser.parse_args()
    alternation.limit_threads(1)
    if "RANK" in os.environ:
        measure(arguments)
        return
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (one, two)]
    shared = dict(
        os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports[0]), SECOND_PORT=str(ports[1])
    )
    processes = [
        subprocess.Popen([sys.executable, *sys.argv], env=shared | {"RANK": str(k), "WORLD_SIZE": str(arguments.ranks)})
        for k in range(arguments.ranks)
    ]  # fmt: skip
    sys.exit(max(abs(process.wait()) for process in processes))


if __name__ == "__main__":
    main()
