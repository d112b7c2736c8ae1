"""Names in a graph and its generated code: unique, legal in Python, none that means something else."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Any

from rushlight.fx.known_names import KNOWN

_BUILTIN = vars(builtins)
_ILLEGAL = re.compile("[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


class Namespace:
    """The names that are taken."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A new name like `candidate` for `obj`; None is no object."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        if not (candidate.isascii() and candidate.isidentifier()):
            candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = "_" + candidate
        numbered = _NUMBERED.match(candidate) if candidate[-1].isdigit() else None
        base, number = (numbered[1], int(numbered[2])) if numbered else (candidate, None)
        while candidate in self._used_names or self._is_illegal_name(candidate, obj):
            number = (self._base_count.get(base, 0) if number is None else number) + 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = max(number or 0, self._base_count.get(base, 0))
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Give `obj` a name that is taken already."""
        if self._obj_to_name.setdefault(obj, name) != name:
            raise AssertionError("obj is already associated with another name")

    def _is_illegal_name(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in _BUILTIN:
            return obj is not _BUILTIN[name]
        return name in KNOWN and obj is not KNOWN[name][1]

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)
