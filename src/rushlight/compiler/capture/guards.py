"""What must hold again for a compiled program to be right, and the Python function that tests it.

Note [Guards]
    Objects that a function reaches from its arguments, globals, cells and attributes are `outside` objects. Each
    read of one is a guard: a number, string or other immutable value must be equal and of the same type, any other
    object must be the same object. Objects of constant identity become names (`c0`, `c1`...) of the generated
    function, so that a guard reads one attribute or item of a name; lists, tuples and dictionaries among the
    arguments are tested element by element. Tensors among the arguments must have the same class, dtype, shape,
    strides and the same need of a gradient; tensors that modules hold must be the same tensors.
"""

from __future__ import annotations

import collections
import enum
import operator
import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from rushlight._backends import llvm
from rushlight._codegen import python_source
from rushlight._codegen.kernels import unchanged
from rushlight.autograd.views import edge_of
from rushlight.compiler.capture.native_guards import Walk
from rushlight.core import dtypes
from rushlight.core.device import device
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor

ATOMS = frozenset(
    {bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range}
    | {dtypes.dtype, device, Size}
)
IMMUTABLE = 1 << 8  # among the flags of a class


def constant(v: Any) -> bool:
    """Whether a value is immutable through and through, and compared by `==`."""
    if v.__class__ in ATOMS:
        return True
    if v.__class__ is slice:
        return all(map(constant, (v.start, v.stop, v.step)))
    return v.__class__ in (tuple, frozenset) and all(map(constant, v)) or isinstance(v, enum.Enum)


def describes(v: Any) -> bool:
    """Whether a value is what operators tell kernels, such as the windows of a pooling: made of constants alone."""
    if isinstance(v, tuple):
        return all(constant(x) or describes(x) for x in v)
    kind = type(v)
    if not kind.__module__.startswith(("rushlight._backends", "rushlight.ops")):
        return False
    names = [n for c in kind.__mro__ for n in getattr(c, "__slots__", ())]
    parts = [getattr(v, n, None) for n in names] + [*getattr(v, "__dict__", {}).values()]
    return all(constant(x) or describes(x) for x in parts)


def holds_tensors(v: Any) -> bool:
    """Whether a value is a tensor, or a container that has one."""
    if isinstance(v, (list, tuple, collections.deque, dict, set, frozenset)):
        return any(map(holds_tensors, v.values() if isinstance(v, dict) else v))
    return isinstance(v, Tensor)


def is_key(v: Any) -> bool:
    """Whether a key is one of a dictionary of which guards can ask for one item: a constant, or classes."""
    return constant(v) or isinstance(v, type) or v.__class__ is tuple and all(map(is_key, v))


def changes(cls: type) -> bool:
    """Whether guards ask for what a class has: for those of users, who may give them other attributes."""
    return not (cls.__flags__ & IMMUTABLE or cls.__module__.startswith(("rushlight.", "torch.")))


def are_numbers(v: Any) -> bool:
    """Whether a list is made of integers or of truths, in lists or not."""
    return all(map(are_numbers, v)) if v.__class__ is list else v.__class__ in (int, bool)


def is_tuple(v: Any) -> bool:
    """Whether a value is a tuple, or a named one."""
    kind = type(v)
    return kind is tuple or issubclass(kind, tuple) and kind.__getitem__ is tuple.__getitem__ and hasattr(kind, "_fields")  # fmt: skip


def is_iterator(v: Any) -> bool:
    """Whether an object is an iterator of a built-in class, which no guard can look into."""
    kind = type(v)
    return kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")


def same(a: Any, b: Any) -> bool:
    """Whether two constants are equal, of the same types, and zeros of the same sign."""
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if a.__class__ in (float, complex, slice):
        return repr(a) == repr(b)
    return a == b


def derivable(t: Tensor) -> bool:
    """Whether a tensor can be asked for its history: one of several views cannot once their base was written to."""
    try:
        edge_of(t)
    except RuntimeError:
        return False
    return True


def is_leaf(t: Tensor) -> bool:
    """Whether a tensor is a leaf, and can be asked."""
    return derivable(t) and t.is_leaf


def span(a: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the one behind its last."""
    if a.flags.c_contiguous:
        start = a.__array_interface__["data"][0]
        return start, start + a.nbytes
    return byte_bounds(a)


def sharing(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share memory; True where that takes long to find out."""
    try:
        return np.shares_memory(a, b, max_work=100)
    except np.exceptions.TooHardError:
        return True


class Apart:
    """Whether arrays share no memory with those that were there before, most of which are the same in each call."""

    def __init__(self) -> None:
        self.arrays: tuple = ()
        self.spans: list[tuple[int, int]] = []

    def __call__(self, before: tuple, given: tuple) -> bool:
        if len(before) != len(self.arrays) or any(map(operator.is_not, before, self.arrays)):
            self.arrays, self.spans = before, []
            for start, end in sorted(map(span, before)):
                if self.spans and start <= self.spans[-1][1]:
                    start, last = self.spans.pop()
                    end = max(end, last)
                self.spans.append((start, end))
        for a in given:
            start, end = span(a)
            k = bisect_right(self.spans, (end,)) - 1
            if k >= 0 and self.spans[k][1] > start and any(sharing(a, b) for b in before):
                return False
        return True


class Guards:
    """The guards of one program: conditions as text, and the objects that the text names."""

    def __init__(self) -> None:
        self.conditions: dict[str, None] = {}
        self.names: dict[str, Any] = {"Tensor": Tensor, "ndarray": np.ndarray, "same": same}
        self.name_of: dict[int, str] = {}
        self.places: dict[str, Any] = {}  # expressions of numbers and tensors that must be these
        self.absent: dict[
            str, set[str]
        ] = {}  # of the dictionaries of objects: names that are not there

    def name(self, v: Any) -> str:
        """The name of an object in the generated function."""
        found = self.name_of.get(id(v))
        if found is None:
            found = self.name_of[id(v)] = f"c{len(self.name_of)}"
            self.names[found] = v
        return found

    def add(self, condition: str) -> None:
        self.conditions[condition] = None

    def without(self, place: str, name: str) -> None:
        """The dictionary of an object must not have a name."""
        self.absent.setdefault(f"{place}.__dict__", set()).add(name)

    def place(self, expression: str) -> str:
        """What an expression means in other captures too: with objects by their addresses."""
        return re.sub(r"\bc\d+\b", lambda m: hex(id(self.names[m[0]])), expression)

    def other(self, args: tuple, kwargs: dict) -> set[str]:
        """The places of numbers and tensors where a call has other ones."""
        space = {**self.names, "args": args, "kwargs": kwargs}
        found = set()
        for expression, v in self.places.items():
            try:
                now = eval(expression, space)
            except Exception:  # a guard reads what is not there any more
                continue
            if now.__class__ is v.__class__ and now is not v and not (constant(v) and same(now, v)):
                found.add(self.place(expression))
        return found

    def identical(self, expression: str, v: Any) -> None:
        """The expression must give this very object."""
        self.add(f"{expression} is {self.name(v)}")

    def equal(self, expression: str, v: Any) -> None:
        """The expression must give an equal value of the same type."""
        if v is None or v is True or v is False or v is Ellipsis:
            self.add(f"{expression} is {v!r}")
        elif v.__class__ in (int, str):
            self.add(f"(v := {expression}).__class__ is {v.__class__.__name__} and v == {v!r}")
        else:
            self.add(f"((v := {expression}) is {self.name(v)} or same(v, {self.name(v)}))")

    def tensor(self, expression: str, t: Tensor) -> None:
        """The expression must give a tensor like this one: an argument."""
        a, edge = t._array, "t._edge is None"
        if t._edge is not None:
            edge = f"t.requires_grad is {t.requires_grad} and t.is_leaf is {t.is_leaf}"
        self.add(
            f"(t := {expression}).__class__ is {self.name(t.__class__)} and (a := t._array).__class__ is ndarray "
            f"and a.dtype is {self.name(a.dtype)} and a.shape == {a.shape!r} and a.strides == {a.strides!r} "
            f"and {edge}"
        )

    def source(self) -> str:
        """The generated function `holds(args, kwargs)`: True if the program is right for a call. What a walk tests is in
        `every` alone."""
        for place, names in self.absent.items():
            if len(names) == 1:
                self.add(f"{min(names)!r} not in {place}")
            else:
                self.add(f"{place}.keys().isdisjoint({self.name(names)})")
        walk, rest = Walk(self.names), [*self.conditions]
        if llvm.active:
            rest = [c for c in rest if not walk.take(c)]
        if len(rest) == len(self.conditions):
            return function_of("holds", rest)
        self.names |= {"walk": unchanged.walks()[0], "walked": walk.table(), "_held": walk.held}
        self.names["every"] = Every(self)
        walks = "        if not walk(walked):\n            return every(args, kwargs)\n"
        return function_of("holds", rest, walks)


class Every:
    """All guards of a program, as a function that is made when it is first called: for a large model Python needs several
    MiB to compile it, and most walks succeed."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards

    @cached_property
    def function(self) -> Callable[[tuple, dict], bool]:
        return evaluate(function_of("every", [*self.guards.conditions]), "every", self.guards.names)

    def __call__(self, args: tuple, kwargs: dict) -> bool:
        return self.function(args, kwargs)


def function_of(name: str, conditions: list[str], first: str = "") -> str:
    """The text of a function of a call that tests conditions. One that raises reads what is not there any more."""
    tests = [f"        if not ({c}):\n            return False" for c in conditions]
    head = f"def {name}(args, kwargs):\n    try:\n{first}"
    tail = "        return True\n    except Exception:\n        return False\n"
    return "\n".join([head, *tests, tail])


_numbers = iter(range(1 << 62))


def evaluate(source: str, name: str, names: dict[str, Any]) -> Any:
    """The function `name` of generated source, whose lines tracebacks and debuggers show."""
    file = f"<rushlight compiled {name} {next(_numbers)}>"
    space = dict(names, __name__="rushlight.compiler.generated")
    python_source.run(source, file, space)
    return space[name]
