"""`torch.distributed.launch`: `torch.distributed.run`, whose programs get the argument --local-rank without --use-env."""

from __future__ import annotations

import argparse
from typing import Any

from rushlight.distributed import run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: list[str] | None) -> argparse.Namespace:
    """The options of a command line, that of this process for None."""
    return run.parse_args(args)


def launch(args: Any) -> None:
    """Run the job of some options."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")  # fmt: skip
    args.says_local_rank = not args.use_env
    run.run(args)


def main(args: list[str] | None = None) -> None:
    """Run a program in several processes. `ChildFailedError` if one fails."""
    launch(parse_args(args))


if __name__ == "__main__":
    raise SystemExit(run.status(main, None))
