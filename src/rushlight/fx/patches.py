"""Attributes and global names that have another value while a program is traced."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Sets attributes and items, and sets them back, the last first, at the end of a `with` block."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, bool]] = []
        self._visited: set[int] = set()

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class."""
        self._undo.append((owner, name, vars(owner).get(name, _ABSENT), True))
        setattr(owner, name, value)

    def item(self, namespace: dict, name: str, value: Any) -> None:
        """Set a name in the dict of a module."""
        self._undo.append((namespace, name, namespace.get(name, _ABSENT), False))
        namespace[name] = value

    def first_visit(self, thing: Any) -> bool:
        """Whether it is asked about `thing` for the first time."""
        fresh = id(thing) not in self._visited
        self._visited.add(id(thing))
        return fresh

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            owner, name, before, is_attribute = self._undo.pop()
            if is_attribute:
                if before is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)
            elif before is _ABSENT:
                del owner[name]
            else:
                owner[name] = before
