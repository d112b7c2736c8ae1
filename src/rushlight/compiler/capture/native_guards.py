"""Guards that one native walk tests: of what modules, their tables, parameters and optimizers hold.

Note [Walked guards]
    Most guards say that an object is still where it was: a parameter in the table of its module, an array in its tensor. A walk
    over memory (`_codegen/kernels/unchanged.py`) compares these in a fraction of the time of their text. It asks for more than
    the text does, that tables on the way are the same objects, too; where it finds another one, all guards are tested as they
    are written. So a walk that succeeds means that the guards hold, and a walk that fails means nothing.
"""

from __future__ import annotations

import re
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen.kernels import unchanged
from rushlight._codegen.runtime import abi

MANAGED, MANAGED_AT = (
    1 << 4,
    -3,
)  # of a class's flags: where an object has its dictionary, in front of itself


class Other(Exception):
    """A guard that no walk can test."""


class Walk:
    """The words and items of guards, and the objects that these are fields of. `names`: the objects that guards name."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = {**names, "None": None}
        self.words: dict[tuple[int, int], None] = {}
        self.items: dict[tuple[int, int, int], None] = {}
        self.held: list[Any] = []

    def take(self, condition: str) -> bool:
        """Whether the walk tests a guard from here on."""
        before = dict(self.words), dict(self.items)
        for form, add in FORMS:
            if found := form.fullmatch(condition):
                try:
                    add(self, *found.groups())
                except (Other, AttributeError, KeyError, IndexError):
                    self.words, self.items = before
                    return False
                return True
        return False

    def table(self) -> np.ndarray:
        return unchanged.table([*self.words], [*self.items])

    def word(self, o: Any, offset: int, expected: int) -> None:
        """A field of an object has a value."""
        self.held.append(o)
        self.words[abi.field_address(o, offset), expected] = None

    def item(self, d: Any, key: str, expected: int) -> None:
        """A dictionary has an object under a name; 0: it has none."""
        if type(d) not in (dict, OrderedDict):
            raise Other
        key = sys.intern(key)
        self.held += [d, key]
        self.items[id(d), id(key), expected] = None

    def slot(self, o: Any, name: str, expected: int) -> None:
        """A slot of an object holds another one."""
        offset = slot_of(type(o), name)
        if not offset:
            raise Other
        self.word(o, offset, expected)

    def attributes(self, o: Any) -> dict:
        """The dictionary of an object, which stays the same one."""
        d, k = o.__dict__, type(o).__dictoffset__ // 8
        if k <= 0 and type(o).__flags__ & MANAGED:
            k = MANAGED_AT
        if k in (0, -1) or abi.field(o, k) != id(d):
            raise Other
        self.word(o, k, id(d))
        self.held.append(d)
        return d

    def attribute(self, o: Any, name: str) -> Any:
        """The attribute of an object that stands in its dictionary, and stays the same object."""
        if hasattr(type(o), name):
            raise Other
        d = self.attributes(o)
        self.item(d, name, id(d[name]))
        self.held.append(d[name])
        return d[name]

    def elements(self, items: list) -> int:
        """The address of the elements of a list, which stays where it is."""
        if type(items) is not list:
            raise Other
        start = abi.field(items, abi.LIST_ITEMS)
        self.word(items, abi.LIST_ITEMS, start)
        return start

    # -- forms of guards -------------------------------------------------------------------------------

    def tensor(self, t: str, array: str, edge: str) -> None:
        self.slot(self.names[t], "_array", id(self.names[array]))
        self.slot(self.names[t], "_edge", id(self.names[edge]))

    def in_table(self, o: str, table: str, key: str, v: str) -> None:
        self.item(self.attribute(self.names[o], table), key, id(self.names[v]))

    def not_in_table(self, key: str, o: str, table: str) -> None:
        self.item(self.attribute(self.names[o], table), key, 0)

    def without(self, o: str, absent: str) -> None:
        d = self.attributes(self.names[o])
        for key in self.names[absent]:
            self.item(d, key, 0)

    def without_one(self, key: str, o: str) -> None:
        self.item(self.attributes(self.names[o]), key, 0)

    def in_dictionary(self, d: str, key: str, v: str) -> None:
        self.item(self.names[d], key, id(self.names[v]))

    def no_hooks(self, t: str) -> None:
        edge = self.names[t]._edge
        offset = slot_of(type(edge), "hooks")
        if not offset or getattr(edge, "hooks", None) is not None:
            raise Other
        self.slot(self.names[t], "_edge", id(edge))
        self.word(edge, offset, abi.field(edge, offset))  # nothing there, or None

    def parameters(self, o: str, k: str, ids: str) -> None:
        groups = self.attribute(self.names[o], "param_groups")
        group = groups[int(k)]
        self.held.append(group)
        self.words[self.elements(groups) + 8 * int(k), id(group)] = None
        params = group["params"]
        self.item(group, "params", id(params))
        start = self.elements(params)
        self.word(params, abi.LIST_SIZE, len(self.names[ids]))
        for j, expected in enumerate(self.names[ids]):
            self.words[start + 8 * j, expected] = None


@cache
def slot_of(kind: type, name: str) -> int:
    """The offset of a slot of the objects of a class; 0 where it is none."""
    if not isinstance(getattr(kind, name, None), types.MemberDescriptorType):
        return 0
    made, mark = object.__new__(kind), object()
    setattr(made, name, mark)
    found = abi.slot(made, mark)
    setattr(made, name, None)
    return found


C, KEY, TABLE = r"(c\d+)", r"'([^'\\]*)'", "(_parameters|_modules|_buffers)"
FORMS: list[tuple[re.Pattern, Callable]] = [
    (re.compile(form), add)
    for form, add in (
        (rf"\({C}\._array is {C} or fits\(\1, \2\)\) and \1\._edge is (c\d+|None)", Walk.tensor),
        (rf"{C}\.{TABLE}\[{KEY}\] is {C}", Walk.in_table),
        (rf"{KEY} not in {C}\.{TABLE}", Walk.not_in_table),
        (rf"{C}\.__dict__\.keys\(\)\.isdisjoint\({C}\)", Walk.without),
        (rf"{KEY} not in {C}\.__dict__", Walk.without_one),
        (rf"{C}\[{KEY}\] is {C}", Walk.in_dictionary),
        (rf"getattr\({C}\._edge, 'hooks', None\) is None", Walk.no_hooks),
        (rf"\[\*map\(id, {C}\.param_groups\[(\d+)\]\['params'\]\)\] == {C}", Walk.parameters),
    )
]
