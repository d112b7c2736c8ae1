"""Saving and loading checkpoints of 400 MB: Rushlight against PyTorch, in one process, in alternating rounds.

    python benchmarks/checkpoints.py [--rounds 5] [--only load] [--folder /dev/shm] [--wall]

What is timed is the work of the processor for this process, the system's part of it included, so that other work on
the machine disturbs little; `--wall`: the clock on the wall. The files are written to a folder below `--folder` (the
system's folder for temporary files if it is not given), and removed at the end. Needs PyTorch beside Rushlight.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import pathlib
import tempfile
import time

import alternation

TARGET = 1.1
CHANNELS = (3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)


def vgg(torch):
    """The state of a VGG-16 with 3,400 outputs in its first linear layer and no more layers: 100 M numbers."""
    convs = [torch.nn.Conv2d(few, many, 3) for few, many in itertools.pairwise(CHANNELS)]
    return torch.nn.Sequential(*convs, torch.nn.Linear(512 * 7 * 7, 3400)).state_dict()


def small(torch):
    """2,000 tensors of 64 x 64."""
    return {f"layers.{i}.weight": torch.rand(64, 64) for i in range(2000)}


def save(torch, state, path):
    return lambda: torch.save(state, path)


def load(**options):
    def case(torch, state, path):
        torch.save(state, path)
        return lambda: torch.load(path, **options)

    return case


def load_mapped_and_read(torch, state, path):
    """Every number of the mapped file is read once."""
    torch.save(state, path)

    def run():
        for t in torch.load(path, mmap=True).values():
            t.sum()

    return run


def load_into_module(torch, state, path):
    """As a program begins: `load`, then `load_state_dict`."""
    torch.save(state, path)
    module = torch.nn.ParameterDict()
    for name, t in state.items():
        module[name.replace(".", "_")] = torch.nn.Parameter(torch.empty_like(t))

    def run():
        read = torch.load(path).items()
        module.load_state_dict({name.replace(".", "_"): t for name, t in read})

    return run


def normal(torch, state, path):
    """All tensors are filled with random numbers."""

    def run():
        for t in state.values():
            t.normal_()

    return run


CASES = [  # name, what makes the callable from a library, a state and a path
    ("save", save),
    ("load", load()),
    ("load, weights_only=False", load(weights_only=False)),
    ("load, mmap=True", load(mmap=True)),
    ("load, mmap=True, and read", load_mapped_and_read),
    ("load, and load_state_dict", load_into_module),
    ("normal_", normal),
]
STATES = [("VGG-16", vgg), ("2,000 small", small)]


def alternate(calls, rounds, clock, stretch=0.2):
    """As `alternation.alternate`, by any clock. Of a short call so many in a row are timed that they fill a stretch."""

    def side(call):
        call()
        times = max(1, round(stretch / alternation.seconds(call, 1)))

        def timed():
            gc.collect()
            return alternation.seconds(call, times, clock)

        return timed

    return alternation.in_turn(*map(side, calls), rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--folder", help="where the files are written")
    parser.add_argument("--wall", action="store_true", help="the clock on the wall")
    args = parser.parse_args()
    alternation.limit_threads(1)

    import torch

    import rushlight

    torch.set_num_threads(1)
    print(alternation.machine())
    print(f"PyTorch  {torch.__version__}, {torch.get_num_threads()} threads")
    print("Time on the wall" if args.wall else "Processor time of this process")
    print(f"\n{alternation.HEADER}")
    clock = time.perf_counter if args.wall else time.process_time
    missed = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for kind, make in STATES:
            states = [(lib, make(lib)) for lib in (rushlight, torch)]
            for case, build in CASES:
                name = f"{kind}: {case}"
                if args.only in name:
                    calls = [
                        build(lib, state, pathlib.Path(folder, f"{lib.__name__}.pt"))
                        for lib, state in states
                    ]
                    measured = alternate(calls, args.rounds, clock)
                    print(alternation.row(name, measured, TARGET), flush=True)
                    if measured.ratio > TARGET:
                        missed.append(name)
    if missed:
        raise SystemExit(f"above the target: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
