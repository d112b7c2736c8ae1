"""The kernels, and the functions of numbers that they are made of.

Their files are read when one of their functions is compiled: who runs machine code that stands on disk needs only
its name, and the types of its parameters. So `from rushlight._codegen.kernels import math` gives a `File`, and
`math.exp` a function of which no more is known; whole numbers are known, too. `kernel_index.py` lists the names that
files elsewhere use; to ask a file for another one imports it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight.core.unread import Unread


class File(Unread):
    """A file of kernels in the place of its module."""

    def told(self, name: str) -> Any:
        known = _functions_in(self.__name__.rpartition(".")[2])
        return _unread(self.__name__, name, *known[name]) if name in known else None


@cache
def _functions_in(file: str) -> dict[str, tuple[str, str]]:
    """name in a file -> `constant` and its value, or a function's kind and the parameters that have a type."""
    from rushlight._codegen.kernel_index import FUNCTIONS

    words = (word.split(":") for word in FUNCTIONS[file].split())
    return {name: (kind, parameters) for name, kind, parameters in words}


def _unread(module: str, name: str, kind: str, parameters: str) -> Any:
    """A function by its name and the types of its parameters alone; a constant by its value."""
    if kind == "constant":
        numbers = (*map(int, parameters.split(",")),)
        return numbers if "," in parameters else numbers[0]
    from rushlight._codegen import kernel, language

    classes = {"kernel": kernel.Kernel, "entry": kernel.Entry}
    made = classes.get(kind, language.Source)
    pairs = (each.partition("=") for each in parameters.split(",") if each)
    notes = {parameter: note for parameter, _, note in pairs}
    return made.unread(module, name, language.KINDS[kind], notes)


def __getattr__(name: str) -> Any:
    from rushlight._codegen.kernel_index import FUNCTIONS

    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = File(f"{__name__}.{name}")
    return found
