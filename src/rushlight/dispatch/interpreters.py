"""Interpreters: whatever may take a call over before its arrays are looked at, at one place.

Note [Interpreters]
    The stage `intercept` of a call asks, in this order: function modes and the `__torch_function__` of its
    arguments (overrides.py); then, while a mode is on in some thread, the functions in `INTERPRETERS`
    (flop counters, autocast, profiles); then those in `ARRAY_INTERPRETERS`, once there are arrays of their
    class (sparse tensors). Each takes a `Call` and returns its result, or NOTHING where it has no part in it. It goes on with the call by `call.proceed()`, which asks those after it and then carries
    the call out. A plain call pays one test for all of them: `active.modes` and the class of its arrays send
    it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.state import active
from rushlight.dispatch import overrides
from rushlight.dispatch.overrides import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op

INTERPRETERS: list[Callable[[Call], Any]] = []
# (a list that is not empty once there is an array of a class, the interpreter of calls with such arrays)
ARRAY_INTERPRETERS: list[tuple[list, Callable[[Call], Any]]] = []


class Call:
    """A call on its way through the interpreters.

    `values`: those of the parameters of `op`, in order; `out`: what was given for `out=`; `kind`: "call",
    "composite" (of an operator that is written in others) or "inplace".
    """

    __slots__ = ("at", "kind", "op", "out", "run", "values")

    def __init__(self, op: Op, values: list, out: Any, kind: str, run: Callable) -> None:
        self.op, self.values, self.out, self.kind, self.run = op, values, out, kind, run
        self.at = 0  # the interpreter that is asked next

    def proceed(self, values: list | None = None) -> Any:
        """The result of the call, with other values for its parameters if any are given."""
        if values is not None:
            self.values = values
        while self.at < len(INTERPRETERS):
            self.at += 1
            result = INTERPRETERS[self.at - 1](self)
            if result is not NOTHING:
                return result
        for there_are, interpreter in ARRAY_INTERPRETERS:
            if there_are and (result := interpreter(self)) is not NOTHING:
                return result
        return self.run(self.op, self.values, self.out)


def intercept(function: Callable, op: Op, values: list, out: Any, kind: str, run: Callable) -> Any:
    """The result of a call, by whoever takes it over, or by `run(op, values, out)`.

    `function`: what overrides are given as the function that is called.
    """
    result = overrides.dispatch(function, op, values, out)
    if result is not NOTHING:
        return result
    return carried_out(op, values, out, kind, run)


def carried_out(op: Op, values: list, out: Any, kind: str, run: Callable) -> Any:
    """The result of a call that no override takes, by another interpreter or by `run`."""
    if not active.modes:
        for there_are, _ in ARRAY_INTERPRETERS:
            if there_are:
                break
        else:
            return run(op, values, out)
    return Call(op, values, out, kind, run).proceed()
