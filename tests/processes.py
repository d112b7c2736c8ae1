"""Programs that tests run in other processes of this Python."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping


def finished(
    *arguments: object,
    status: int = 0,
    folder: pathlib.Path | None = None,
    timeout: float = 300,
    **environment: str | None,
) -> subprocess.CompletedProcess[str]:
    """A process at its end, which must have this status. Variables of the environment that are None are not set."""
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={name: value for name, value in own.items() if value is not None},
        timeout=timeout,
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done


def printed(code: str, **environment: str | None) -> str:
    """What a program prints."""
    return finished("-c", code, **environment).stdout


def printed_as_torch(folder: pathlib.Path, program: str, *arguments: str, **more: object) -> str:
    """What a script prints whose `import torch` gives Rushlight; what it says of its error with another `status`."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(program))
    done = finished("-m", "rushlight", script, *arguments, folder=folder, **more)
    return done.stderr if more.get("status") else done.stdout


def run_programs(functions: Mapping[str, Callable[[], object]]) -> None:
    """What each process of a job does: the functions that its first argument names, `a,b,c`, one after the other.

    To start a process takes longer than most of them.
    """
    warnings.simplefilter("error")
    for name in sys.argv[1].split(","):
        functions[name]()
    print("done", os.environ.get("RANK", ""), flush=True)
