"""Public names of a package whose files are loaded at the first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def names(
    space: dict[str, Any], files: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    `space`: its globals. `files`: {public name: the file of the package that defines it}. `modules`: submodules that are
    attributes of the package without an import of their own.

    >>> space = {"__name__": "rushlight.optim"}
    >>> __getattr__, __dir__ = names(space, {"Adam": "adam"})
    >>> __getattr__("Adam").__name__
    'Adam'
    >>> "Adam" in space, __getattr__("Madam")
    Traceback (most recent call last):
    AttributeError: module 'rushlight.optim' has no attribute 'Madam': not implemented here; docs/coverage.md lists what is
    """
    package = space["__name__"]

    def attribute(name: str) -> Any:
        if name in files:
            found = space[name] = getattr(import_module(f"{package}.{files[name]}"), name)
            return found
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}: not implemented here; docs/coverage.md lists what is"
        )

    def listed() -> list[str]:
        return sorted({*space, *files, *modules})

    return attribute, listed


def by_name(homes: Mapping[str, str]) -> dict[str, str]:
    """{name: file} of {file: its public names, between spaces}."""
    return {name: file for file, found in homes.items() for name in found.split()}
