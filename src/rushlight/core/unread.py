"""Modules in the place of files that are read later.

>>> class Later(Unread):
...     def told(self, name):
...         return "told" if name == "known" else None
>>> colors = Later("colorsys")
>>> colors.known
'told'
>>> colors.rgb_to_hsv(1, 1, 1)  # reads the file
(0.0, 0.0, 1)
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class Unread(ModuleType):
    """A module whose file is read when something is asked of it that is not told without."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The module's, not its class's: with a method `__getattr__` each name would take three times as long.
        self.__dict__["__getattr__"] = self.asked

    def told(self, name: str) -> Any:
        """What stands under a name, as far as it is known without the file; None where it is not."""
        raise NotImplementedError  # each class of such modules says it

    def asked(self, name: str) -> Any:
        """What stands under a name that is asked for the first time."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.told(name) if self.__name__ not in sys.modules else None
        if found is None:
            # Another thread may be importing it: this waits until it is whole.
            found = getattr(import_module(self.__name__), name)
        self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(import_module(self.__name__), name, value)
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)
        self.__dict__.pop(name, None)
