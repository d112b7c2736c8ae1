"""Run a program written for PyTorch: `import torch`, `torchvision`, `torch.utils.data`... are Rushlight in it.

examples:
  rushlight run train.py --epochs 3
  rushlight run -m package.train --epochs 3
  rushlight train.py --epochs 3         the same, shorter
  rushlight run --nproc 2 train.py      in two processes that are one job of torch.distributed

The exit status is that of the program."""

from __future__ import annotations

import argparse
import os

from rushlight.cli import MISUSED, fail


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", dest="module", action="store_true", help="PROGRAM is the name of a module"
    )
    parser.add_argument(
        "--nproc",
        metavar="N",
        help="run N processes, and take the options of torchrun before PROGRAM",
    )
    parser.add_argument("program", metavar="PROGRAM", help="a .py file, or a module after -m")
    parser.add_argument(
        "rest", metavar="...", nargs=argparse.REMAINDER, help="the program's own arguments"
    )


def main(options: argparse.Namespace) -> None:
    if not options.module and not os.path.isfile(options.program):
        fail(f"run: no file {options.program!r}", MISUSED)
    from rushlight.compat import import_hook

    import_hook.run([*(["-m"] if options.module else []), options.program, *options.rest])
