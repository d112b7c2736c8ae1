"""Draw a model or an exported program as SVG, or print the table of a model's layers.

examples:
  rushlight viz program.pt2 -o graph.svg                         a file of torch.export.save
  rushlight viz package.models:Net --input 1,3,32,32 -o net.svg  what Net() gives, called with an array of this shape
  rushlight viz models.py:build --input 8,16 --summary           a function in a file; its layers as a table
  rushlight viz models.py:build --input 8,16 --summary --json    the table as one JSON object

The graph of a program needs the extra `viz`, whose library places the boxes."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any

from rushlight.cli import MISUSED, fail, show


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="WHAT",
        help="a file of torch.export.save, or MODULE:NAME or FILE.py:NAME, a model or what makes one",
    )  # fmt: skip
    parser.add_argument(
        "--input", metavar="SHAPE", action="append", default=[], type=shape,
        help="the shape of an argument of the model: 1,3,32,32; once for each argument",
    )  # fmt: skip
    parser.add_argument("-o", dest="output", metavar="FILE", help="the picture")
    parser.add_argument("--summary", action="store_true", help="print the table of its layers")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def shape(text: str) -> tuple[int, ...]:
    """The numbers of "1,3,32"."""
    return tuple(int(part) for part in text.split(",") if part)


def main(options: argparse.Namespace) -> None:
    import rushlight
    from rushlight import viz

    if not options.output and not options.summary:
        fail("viz: expected -o FILE or --summary", MISUSED)
    if ":" not in options.what:
        if options.summary:
            fail("viz: --summary is for models", MISUSED)
        try:
            program = rushlight.export.load(options.what)
            viz.graph(program).save(options.output)
        except (ImportError, OSError, RuntimeError) as e:
            fail(f"viz: {options.what}: {e}")
        if options.json:
            show({"output": options.output})
        return
    if not options.input:
        fail("viz: a model is called: expected --input SHAPE", MISUSED)
    model = model_of(options.what)
    table = viz.summary(model, *options.input) if options.summary else None
    if options.output:
        viz.module(model, *options.input).save(options.output)
    if options.json:
        show({"output": options.output} | (table.facts() if table else {}))
    elif table:
        print(table)


def model_of(text: str) -> Any:
    """The model that "module:name" or "file.py:name" stands for, made where it is a class or a function."""
    from rushlight.compat import import_hook
    from rushlight.nn import Module

    import_hook.install_as_torch()
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location("_viewed", where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(where)
        found = getattr(module, name)
    except (AttributeError, ImportError, OSError) as e:
        fail(f"viz: {text}: {e}")
    if not isinstance(found, Module):
        found = found()
    if not isinstance(found, Module):
        fail(f"viz: {text} gives a {type(found).__name__}, no torch.nn.Module")
    return found
