"""The names of PyTorch's `torch._C._profiler` that programs import."""

from __future__ import annotations

from typing import Any

__all__ = ["_ExperimentalConfig", "gather_traceback", "symbolize_tracebacks"]


class _ExperimentalConfig:
    """Settings for `profile(experimental_config=)`, without effect: `with_stack=True` alone records stacks."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


def gather_traceback(python: bool = True, script: bool = False, cpp: bool = False) -> Any:
    """The functions of Python that are running; `symbolize_tracebacks` reads it."""
    import traceback

    return traceback.StackSummary.extract(traceback.walk_stack(None))


def symbolize_tracebacks(tracebacks: list) -> list[list[dict[str, Any]]]:
    """What `gather_traceback` gave: for each, the file, line and name of its functions, the innermost first."""
    return [
        [{"filename": f.filename, "line": f.lineno, "name": f.name} for f in each]
        for each in tracebacks
    ]
