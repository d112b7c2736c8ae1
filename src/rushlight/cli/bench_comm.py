"""`rushlight bench comm`: what messages between processes cost, and what that means for training in many of them.

Note [The model of communication]
A message of n bytes takes alpha + n * beta seconds; to reduce two rows of n bytes takes n * gamma. An all-reduce among P
processes is the quicker of two ways: log2(P) exchanges of the whole row, or parts that are reduced and given to all,
2 (P - 1) messages of n / P bytes. A step of data-parallel training takes its time on one process, and what is left of the
reductions: those of all buckets but the last run while backward computes, which is two thirds of a step.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.cli import MISUSED, fail, show

SIZES = [4 << (2 * k) for k in range(13)]  # 4 bytes to 64 MiB
BUCKET = 25 << 20  # bytes, as of DistributedDataParallel
FIRST_BUCKET = 1 << 20
RANKS = [1 << k for k in range(11)]


class Cost(NamedTuple):
    """Seconds: of a message, of a byte on its way, of a byte that is reduced."""

    alpha: float
    beta: float
    gamma: float

    def all_reduce(self, size: float, ranks: int) -> float:
        """The seconds that an all-reduce of so many bytes takes."""
        if ranks == 1:
            return 0.0
        byte, turns = self.beta + self.gamma, math.ceil(math.log2(ranks))
        whole = turns * (self.alpha + size * byte)
        share = size * (ranks - 1) / ranks
        return min(whole, 2 * (ranks - 1) * self.alpha + share * (2 * self.beta + self.gamma))

    def step(self, compute: float, gradients: float, ranks: int) -> float:
        """The seconds of a step of data-parallel training that takes `compute` in one process."""
        first = min(FIRST_BUCKET, gradients)
        count, rest = divmod(gradients - first, BUCKET)
        buckets = [first, *[BUCKET] * int(count), *([rest] if rest else [])]
        times = [self.all_reduce(size, ranks) for size in buckets]
        backward = 2 / 3 * compute
        return compute + times[-1] + max(0.0, sum(times[:-1]) - backward * (1 - 1 / len(times)))


def fitted(messages: dict[int, float], reductions: dict[int, float], ranks: int) -> Cost:
    """The numbers of the model that fit measured times by size best: relative errors count alike."""
    rows = [(1 / t, size / t) for size, t in messages.items()]  # alpha / t + beta * size / t = 1
    aa, ab, bb = (sum(x * y for x, y in pairs) for pairs in (
        [(a, a) for a, _ in rows], rows, [(b, b) for _, b in rows]
    ))  # fmt: skip
    a, b, determinant = sum(r[0] for r in rows), sum(r[1] for r in rows), aa * bb - ab * ab
    alpha, beta = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    alpha, beta = max(alpha, 1e-9), max(beta, 1e-13)
    size = max(reductions)
    left = reductions[size] - Cost(alpha, beta, 0.0).all_reduce(size, ranks)
    return Cost(alpha, beta, max(left / (size * (ranks - 1) / ranks), 0.0))


def timed(torch: Any, call: Callable[[], Any], size: int) -> float:
    """The median seconds of a call, in all processes alike."""
    times = []
    for _ in range(max(5, min(200, (1 << 24) // size))):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    longest = torch.tensor(statistics.median(times[len(times) // 5 :]), dtype=torch.float64)
    torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX)
    return longest.item()


def measured(torch: Any, largest: float) -> dict[str, dict[int, float]]:
    """Seconds by size: of a message from process 0 to 1, and of collectives of all."""
    dist = torch.distributed
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, dict[int, float]] = {
        "message": {},
        "all_reduce": {},
        "broadcast": {},
        "all_gather": {},
    }
    for bytes_ in [each for each in SIZES if each <= largest]:
        row = torch.zeros(bytes_ // 4)
        part, whole = torch.zeros(max(1, bytes_ // 4 // size)), None

        def there_and_back(row: Any = row) -> None:
            if rank == 0:
                dist.send(row, 1)
                dist.recv(row, 1)
            elif rank == 1:
                dist.recv(row, 0)
                dist.send(row, 0)

        whole = torch.zeros(size * len(part))
        calls = {
            "all_reduce": lambda row=row: dist.all_reduce(row),
            "broadcast": lambda row=row: dist.broadcast(row, 0),
            "all_gather": lambda part=part, whole=whole: dist.all_gather_into_tensor(whole, part),
        }
        dist.barrier()
        found["message"][bytes_] = timed(torch, there_and_back, bytes_) / 2
        for name, call in calls.items():
            dist.barrier()
            found[name][bytes_] = timed(torch, call, bytes_)
    return found


def process(rank: int, options: Any, path: str) -> None:
    """One of the processes that are measured; the first one prints."""
    import rushlight as torch

    torch.set_num_threads(1)
    if path:
        torch.distributed.init_process_group(
            "mpi", f"file://{path}", rank=rank, world_size=options.nproc
        )
    else:
        torch.distributed.init_process_group("mpi")
    times, ranks = measured(torch, options.largest), torch.distributed.get_world_size()
    if torch.distributed.get_rank() == 0:
        report(options, fitted(times["message"], times["all_reduce"], ranks), times, ranks)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def report(options: Any, cost: Cost, times: dict[str, dict[int, float]], ranks: int) -> None:
    """Print what was measured, and what the model says."""
    predictions = {
        p: options.step / cost.step(options.step, options.gradients, p) for p in RANKS if options.step
    }  # fmt: skip
    if options.json:
        show(
            {
                "unit": "s",
                "ranks": ranks,
                "times": times,
                **cost._asdict(),
                "efficiency": predictions,
            }
        )
        return
    if times:
        print(
            f"{ranks} processes; us, and GB/s of the row\n\n{'bytes':>9}"
            + "".join(f"{n:>21}" for n in times)
        )
    for size in times.get("message", ()):
        row = (f"{1e6 * t[size]:>12.1f} {size / t[size] / 1e9:>8.3f}" for t in times.values())
        print(f"{size:>9}" + "".join(row))
    print(
        f"\na message takes {1e6 * cost.alpha:.2f} us and {1e9 * cost.beta:.3f} ns a byte; reducing takes "
        f"{1e9 * cost.gamma:.3f} ns a byte"
    )
    if predictions:
        print(f"\nstep of {1e3 * options.step:g} ms, {options.gradients / 1e6:g} MB of gradients")
        print("ranks     " + " ".join(f"{p:>6}" for p in predictions))
        print("efficiency" + " ".join(f"{e:>6.3f}" for e in predictions.values()))


def main(options: Any) -> None:
    """Measure in the job that this process belongs to, or in processes of this machine; or take the model's numbers."""
    given = (options.alpha, options.beta, options.gamma)
    if all(each is not None for each in given):
        report(options, Cost(*given), {}, 0)
        return
    if any(each is not None for each in given):
        fail("bench comm: --alpha, --beta and --gamma go together", MISUSED)
    from rushlight import multiprocessing
    from rushlight.distributed import world

    if world.launched() or "RANK" in os.environ:
        process(0, options, "")
        return
    if options.nproc < 2:
        fail("bench comm: --nproc must be at least 2", MISUSED)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(process, (options, os.path.join(folder, "store")), options.nproc)
