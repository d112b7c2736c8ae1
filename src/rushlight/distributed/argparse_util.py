"""`torch.distributed.argparse_util`: options of a command line that the environment may set, --foo-bar by PET_FOO_BAR."""

from __future__ import annotations

import argparse
import os
from typing import Any

__all__ = ["check_env", "env"]


def _given(name: str, default: Any) -> Any:
    """What the environment has of an option, else its default."""
    return os.environ.get(f"PET_{name.upper()}", default)


class env(argparse.Action):
    """The action of an option with a value: its default is what the environment has.

    >>> import argparse, os
    >>> os.environ["PET_COUNT"] = "3"
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--count", action=env, type=int, default=1)
    >>> parser.parse_args([]).count, parser.parse_args(["--count", "2"]).count
    (3, 2)
    >>> del os.environ["PET_COUNT"]
    """

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:  # fmt: skip
        found = _given(dest, default)
        needed = required and not found
        super().__init__(dest=dest, default=found, required=needed, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # fmt: skip
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """The action of an option without a value: the environment sets its default by 0 or 1."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        found = bool(int(_given(dest, int(default))))
        super().__init__(dest=dest, const=True, default=found, nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # fmt: skip
        setattr(namespace, self.dest, self.const)
