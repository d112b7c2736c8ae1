"""Marks for public names that do less than PyTorch's; docs/stubs.md is generated from them.

>>> from rushlight.compiler import allow_in_graph
>>> allow_in_graph.__stub__.kind
'identity'
"""

from __future__ import annotations

from typing import Any, NamedTuple

KINDS = {
    "no-op": "Accepted, and without effect. What was set can be read back.",
    "identity": "Returns the function, the module or the value that it is given.",
    "emulated": "Gives PyTorch's results by another way, which is slower or does less than PyTorch's.",
    "absent": "Is there to be imported and compared with. A call raises, or there are no instances.",
}


class Stub(NamedTuple):
    """The kind of a stub, a key of KINDS, and a sentence that says what it does instead."""

    kind: str
    reason: str


class Block:
    """A `with` block without effect."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


DECLARED: dict[str, Stub] = {}  # public name -> stub, for names that `stub` cannot mark


def stub(kind: str, reason: str) -> Any:
    """Decorator that marks a function or a class as a stub by its attribute `__stub__`."""
    made = Stub(kind, reason)

    def mark(obj: Any) -> Any:
        obj.__stub__ = made
        return obj

    return mark


def declare(kind: str, reason: str, where: str, names: str) -> None:
    """Mark names of a module that hold values, or parameters of its functions: "name" or "name(parameter=)".

    `names` are separated by spaces; `where` is PyTorch's name of the module, or `__name__`.
    """
    where = where.replace("rushlight", "torch", 1)
    made = Stub(kind, reason)
    DECLARED.update({f"{where}.{name}": made for name in names.split()})
