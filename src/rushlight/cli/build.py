"""Write an exported program (torch.export.save) as an object file with one function in C's calling convention.

examples:
  rushlight build model.pt2 -o model.o                          model.o and model.h
  rushlight build model.pt2 -o model.o --weights model.weights  the weights in a file of their own
  cc main.c model.o -lm                                         a program in C that calls it

The code is for this machine's processor. It needs nothing but the C library."""

from __future__ import annotations

import argparse
import os

from rushlight.cli import fail, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM", help="a file of torch.export.save")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", required=True,
        help="the object file; a header stands beside it",
    )  # fmt: skip
    parser.add_argument("--name", help="the function's; by default that of the file")
    parser.add_argument("--weights", metavar="FILE", help="write the weights to this file")
    parser.add_argument("--picture", metavar="FILE", help="draw the memory that it uses (SVG)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(options: argparse.Namespace) -> None:
    import rushlight
    from rushlight.compiler.lowering.object_file import NotBuilt

    try:
        program = rushlight.export.load(options.program)
    except (OSError, RuntimeError, ValueError) as e:
        fail(f"build: {options.program}: {e}")
    try:
        rushlight.compiler.build(
            program,
            options.output,
            name=options.name,
            weights=options.weights,
            picture=options.picture,
        )
    except (OSError, NotBuilt, ValueError) as e:
        fail(f"build: {e}")
    if options.json:
        header = os.path.splitext(options.output)[0] + ".h"
        files = [options.output, header, *filter(None, [options.weights, options.picture])]
        show({name: os.path.getsize(name) for name in files})
