"""Compile the kernels of the package, or those that a program uses, once for this machine.

examples:
  rushlight warm --quick                       what most programs need, in a few seconds
  rushlight warm
  rushlight warm --json
  rushlight warm --for train.py --epochs 1     runs the program and keeps what it compiled

Kernels stay in ~/.cache/rushlight, or in the folder that RUSHLIGHT_CACHE_DIR names."""

from __future__ import annotations

import argparse
import sys

from rushlight.cli import MISUSED, fail, run, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--quick", action="store_true", help="only what most programs need")
    parser.add_argument(
        "--for", dest="program", metavar="PROGRAM ...", nargs=argparse.REMAINDER,
        help="a script, or -m and a module, and its arguments",
    )  # fmt: skip


def main(options: argparse.Namespace) -> None:
    from rushlight._backends import llvm
    from rushlight.compiler import warming

    if options.program == []:
        fail("warm: expected a script after --for", MISUSED)
    if not llvm.activate("rushlight warm"):
        fail("warm: there is no machine code here: llvmlite is missing, or RUSHLIGHT_COMPILED=0")
    before = warming.entries_on_disk()
    try:
        if options.program:
            parser = argparse.ArgumentParser("rushlight warm --for", allow_abbrev=False)
            run.arguments(parser)
            run.main(parser.parse_args(options.program))
        else:
            _kernels(options.quick, quiet=options.json)
    finally:
        kept = warming.entries_on_disk()
        if options.json:
            show({"compiled": kept - before, "on_disk": kept})
        else:
            print(f"{kept - before} kernels compiled, {kept} on disk", file=sys.stderr)


def _kernels(quick: bool, quiet: bool) -> None:
    """Compile them, with a progress bar where the extra is installed and somebody looks."""
    from rushlight.compiler import warming

    try:
        from tqdm.auto import tqdm
    except ImportError:
        for name in warming.warm(quick=quick):
            if not quiet:
                print(name)
        return
    steps = warming.QUICK if quick else warming.STEPS
    for _ in tqdm(warming.warm(quick=quick), total=len(steps), unit="step", disable=quiet or None):
        pass
