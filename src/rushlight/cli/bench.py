"""Time a few operations; beside PyTorch, turn by turn in one process, where it is installed.

examples:
  rushlight bench
  rushlight bench --only softmax
  rushlight bench --json
  rushlight bench --html report.html                  a page with bars, the table and the machine
  rushlight bench comm --nproc 4                      messages between processes: latency and bandwidth
  rushlight bench comm --step 0.4 --gradients 3.3e6   and what they mean for data-parallel training

`benchmarks/` of the repository has the full measurements."""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.cli import MISUSED, fail, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=["operators", "comm"], default="operators",
        help="operators (the default), or comm: messages between processes",
    )  # fmt: skip
    comm = parser.add_argument_group("comm")
    comm.add_argument("--nproc", type=int, default=2, help="processes on this machine (2)")
    comm.add_argument(
        "--largest", type=float, default=2**26, metavar="BYTES", help="largest message (64 MiB)"
    )
    comm.add_argument(
        "--step", type=float, metavar="S", help="predict: seconds of a training step in one process"
    )
    comm.add_argument(
        "--gradients", type=float, default=0.0, metavar="BYTES", help="of a step, all together"
    )
    for name, what in (
        ("alpha", "message"),
        ("beta", "byte of it"),
        ("gamma", "byte that is reduced"),
    ):
        comm.add_argument(
            f"--{name}", type=float, metavar="S", help=f"do not measure: seconds of a {what}"
        )
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name has this text")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each side (30)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", metavar="FILE", help="write a report, one page of HTML")


def cases(torch: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, function to time), for Rushlight or PyTorch."""
    torch.manual_seed(0)
    a, b = torch.ones(4, requires_grad=True), torch.full((4,), 0.5)
    yield "add, 4 elements, recorded", lambda: a + b

    def chain() -> None:
        x = a
        for _ in range(20):
            x = x * b + b
        x.sum().backward()
        a.grad = None

    yield "chain of 40 operations, forward and backward", chain
    m = torch.randn(512, 512)
    yield "matrix product, 512 x 512", lambda: m @ m
    big = torch.randn(1000, 1000)
    yield "softmax, 1000 x 1000", lambda: big.softmax(1)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    yield "training step, MLP 784-128-10, batch of 64", step


def main(options: argparse.Namespace) -> None:
    import rushlight

    if options.what == "comm":
        from rushlight.cli import bench_comm

        if options.html:
            fail("bench: --html is for operators", MISUSED)
        bench_comm.main(options)
        return
    if options.rounds < 1:
        fail("bench: --rounds must be at least 1", MISUSED)
    libraries: list[Any] = [rushlight]
    if importlib.util.find_spec("torch") is not None:
        libraries.append(importlib.import_module("torch"))
        libraries[1].set_num_threads(rushlight.get_num_threads())
    both = zip(*(cases(library) for library in libraries), strict=True)
    chosen = [pairs for pairs in both if options.only in pairs[0][0]]
    if not chosen:
        fail(f"bench: no case has {options.only!r} in its name", MISUSED)
    if not options.json:
        print(f"{'':44}  {'rushlight':>10}" + ("     PyTorch  ratio" if libraries[1:] else ""))
    rows = []
    for pairs in chosen:
        row = _measured([call for _, call in pairs], options.rounds)
        rows.append({"name": pairs[0][0], **row})
        if not options.json:
            times = [row[side] for side in ("rushlight", "pytorch") if side in row]
            line = f"{pairs[0][0]:44}" + "".join(f"  {1e6 * t:7.1f} us" for t in times)
            print(line + (f"  {row['ratio']:5.2f}" if times[1:] else ""), flush=True)
    if options.html:
        from rushlight.cli import bench_page, info

        now = time.strftime("%Y-%m-%d %H:%M")
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(bench_page.page(rows, info.facts(), now))
    if options.json:
        show({"unit": "s", "threads": rushlight.get_num_threads(), "cases": rows})


def _measured(calls: list[Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """The median time of one call of each, measured turn by turn; with two, the ratio within the rounds and its quartiles."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, measured in zip(calls, times, strict=True):
            start, count = time.perf_counter(), 0
            while time.perf_counter() - start < 0.005:
                call()
                count += 1
            measured.append((time.perf_counter() - start) / count)
    row: dict[str, Any] = {"rushlight": statistics.median(times[0])}
    if times[1:]:
        ratios = sorted(a / b for a, b in zip(*times, strict=True))
        row["pytorch"] = statistics.median(times[1])
        row["ratio"] = statistics.median(ratios)
        row["quartiles"] = [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]]
    return row
