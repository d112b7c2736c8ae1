"""The command `rushlight`: run programs written for PyTorch, look at checkpoints, convert them.

Each command is a module of this package, which is imported when the command is called. It has `arguments(parser)`, which
declares what the command takes, and `main(options)`, which carries it out and returns the exit status or None. Its
docstring is the command's help: the first paragraph says what it does, the rest are examples.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import Any, NoReturn

__all__ = ["COMMANDS", "DIFFERENT", "FAILED", "MISUSED", "fail", "main", "parser_of", "show"]

# name: (module of this package, what the list of commands says)
COMMANDS = {
    "run": ("run", "run a script or module: `import torch` is Rushlight there"),
    "info": ("info", "processor, BLAS, threads, caches, extras"),
    "inspect": ("inspect", "tensors, statistics and differences of checkpoints"),
    "convert": ("convert", "from one file format to the other"),
    "build": ("build", "an exported program as an object file and a header in C"),
    "viz": ("viz", "a picture of a model or an exported program, the table of its layers"),
    "bench": ("bench", "time a few operations, beside PyTorch where it is installed"),
    "completion": ("completion", "what lets bash, zsh or fish complete these commands"),
    "warm": ("warm", "compile the kernels of the package, once for this machine"),
}

FAILED, MISUSED, DIFFERENT = 1, 2, 3  # exit statuses

_EPILOG = """\
examples:
  rushlight script.py --epochs 3        the same as `rushlight run script.py --epochs 3`
  rushlight inspect model.pt --stats
  rushlight COMMAND --help              what a command takes, with examples

exit status: 0 done, 1 it could not be done, 2 wrong use, 3 two checkpoints differ; `run` has that of the script"""


def main(argv: list[str] | None = None) -> int | None:
    """Run one command; the result is the exit status, None for 0."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and (argv[0] == "-m" or argv[0].endswith(".py")):
        argv.insert(0, "run")
    name = argv[0] if argv else "--help"
    if name == "--version":
        from rushlight import version

        print(version.release)
        return None
    if name in ("-h", "--help"):
        print(_overview())
        return None
    if name not in COMMANDS:
        fail(
            f"{name!r} is no command and no .py file; `rushlight --help` lists the commands",
            MISUSED,
        )
    if name == "run" and argv[1:] and argv[1][0] == "-" and argv[1] not in ("-m", "-h", "--help"):
        from rushlight.distributed import run

        return run.status(run.main, argv[1:])
    command = import_module(f"rushlight.cli.{COMMANDS[name][0]}")
    options = parser_of(name, command).parse_args(argv[1:])
    try:
        status: int | None = command.main(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `rushlight inspect x.pt | head`
        if name == "run":
            raise
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush
        return None
    return status


def _overview() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: rushlight COMMAND ...",
            "       rushlight --version",
            "",
            "commands:",
            *rows,
            "",
            _EPILOG,
        ]
    )


def parser_of(name: str, command: Any) -> argparse.ArgumentParser:
    """What reads the arguments of a command, which is a module of this package."""
    what, _, examples = command.__doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        f"rushlight {name}",
        description=what,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.arguments(parser)
    return parser


def fail(text: str, status: int = FAILED) -> NoReturn:
    """Print what is wrong to the standard error output and end the process."""
    print(f"rushlight: {text}", file=sys.stderr)
    raise SystemExit(status)


def show(document: Any) -> None:
    """Print what `--json` asks for; infinities and NaN as texts, which JSON has no numbers for."""
    print(json.dumps(_finite(document), indent=2, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return str(value)
    return value
