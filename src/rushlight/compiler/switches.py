"""The switches of `torch._dynamo.config` that have an effect here, and blocks with other values of switches."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any


class Switches:
    """How compiled functions are made and called."""

    def __init__(self) -> None:
        self.disable = False  # no call becomes a program; programs that there are run
        self.error_on_recompile = False  # a second program raises RecompileError
        self.suppress_errors = False  # where the back end raises, the call runs as it is written
        self.recompile_limit = 8  # programs of one function for one size of its arguments
        self.accumulated_recompile_limit = 256  # programs of one function
        self.fail_on_recompile_limit_hit = False  # more of them than `recompile_limit` raise


switches = Switches()


class Patch(ContextDecorator):
    """A block or a decorator in which attributes of `config` have other values; blocks of one object nest."""

    def __init__(self, config: Any, name: Any, value: Any, values: dict[str, Any]) -> None:
        if name is not None:
            values = dict(name) if isinstance(name, dict) else {name: value}
        self.config, self.values = config, values
        self.before: list[dict[str, Any]] = []  # of each block that is open

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.config, name, None) for name in self.values})
        for name, value in self.values.items():
            setattr(self.config, name, value)

    def __exit__(self, *exception: object) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)
