"""Steps of optimizers in machine code: one call for all parameters that share a rule and its numbers.

An optimizer's step is limited by memory. NumPy goes over the parameters a dozen times for one step of
Adam, a loop that reads and writes each array once needs a fraction of that. Rules are traced and
compiled by `_codegen/kernels/update.py`, which gives the numbers that NumPy gives, bit for bit.

Nothing depends on it. Without machine code, for a rule that computes what cannot be traced, and for
arrays that the loop does not take, NumPy runs the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import is_
from typing import Any

import numpy as np

import rushlight
from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight._codegen.runtime import abi
from rushlight.autograd.graph import version_of
from rushlight.autograd.state import active
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.tensor import INFERENCE, Tensor, _bump
from rushlight.dispatch import handlers
from rushlight.optim import rules

_refused: set[tuple] = set()  # kinds of rules that could not be traced or compiled


def runner() -> Callable[..., None]:
    """The function that runs the rules of one step: `run(rule, tensors, *numbers)`; a `Batch` also needs `finish()`."""
    return Batch() if available() else counted


def available() -> bool:
    """True if rules run as machine code."""
    return llvm.active


def counted(rule: rules.Rule, tensors: tuple[Tensor | None, ...], *numbers: Any) -> None:
    """Run a rule by NumPy, and count it."""
    arrays = [None if t is None else t._array for t in tensors]
    llvm.work(arrays[0].size)
    rules.on_arrays(rule, arrays, numbers)


class Batch:
    """Parameters whose rule waits for `finish()`, or for a parameter with another rule or other numbers."""

    __slots__ = ("rule", "numbers", "waiting")

    def __init__(self) -> None:
        self.rule: Any = None
        self.numbers: tuple = ()
        self.waiting: list[Sequence[Tensor | None]] = []

    def __call__(self, rule: rules.Rule, tensors: Sequence[Tensor | None], *numbers: Any) -> None:
        """Take the tensors of one parameter, the second of which is the gradient."""
        if rule is not self.rule or numbers != self.numbers:
            self.finish()
            self.rule, self.numbers = rule, numbers
        self.waiting.append(tensors)

    def finish(self) -> None:
        """Run the rule for all waiting parameters: in one call for those that have the same arrays and dtype."""
        rows, self.waiting = self.waiting, []
        while rows:
            given = [t is not None for t in rows[0]]
            without = [k for k, there in enumerate(given) if not there]
            arrays = [t._array for row in rows for t in row if t is not None]
            later: list = []
            if len(arrays) != len(rows) * sum(given) or any(
                row[k] is not None for row in rows for k in without
            ):
                same_given = [[t is not None for t in row] == given for row in rows]
                later = [
                    row for row, is_alike in zip(rows, same_given, strict=True) if not is_alike
                ]
                rows = [row for row, is_alike in zip(rows, same_given, strict=True) if is_alike]
                arrays = [t._array for row in rows for t in row if t is not None]
            n, d = sum(given), arrays[0].dtype
            for k in self._native(arrays, tuple(given), d):
                if rows[k][0]._array.dtype is not d:  # type: ignore[union-attr]
                    later.append(rows[k])
                elif not self._turned(arrays[k * n : k * n + n], tuple(given), d):
                    full = [None if t is None else t._array for t in rows[k]]
                    rules.on_arrays(self.rule, full, self.numbers)
            rows = later

    def now(
        self, rule: rules.Rule, given: tuple[bool, ...], numbers: list, arrays: list
    ) -> Iterable[int]:
        """Run a rule at once on arrays of parameters side by side, without those that `given` says no of; gives the numbers
        of the parameters that are left."""
        if self.waiting:
            self.finish()
        self.rule, self.numbers = rule, tuple(numbers)
        return self._native(arrays, given, arrays[0].dtype)

    def _turned(self, arrays: list, given: tuple[bool, ...], d: np.dtype) -> bool:
        """Run the rule on one parameter with its axes in memory order (channels last, say), if that helps."""
        plain = all(a.__class__ is np.ndarray for a in arrays)
        if not plain or arrays[0].flags.c_contiguous or (self.rule, d, *given) in _refused:
            return False
        return not self._native(in_order(arrays), given, d)

    def _native(self, arrays: list, given: tuple[bool, ...], d: np.dtype) -> Iterable[int]:
        """Run the rule in machine code on the arrays of some parameters, side by side; gives the numbers of the
        parameters that are left: not C-contiguous, of another class or another dtype."""
        update = kernels()
        n = len(arrays) // sum(given)
        kind = (self.rule, d, *given)
        if d not in FLOATING or arrays[0].__class__ is not np.ndarray or kind in _refused:
            return range(n)
        try:
            rule, constants = update.prepared(self.rule, given, self.numbers, d)
            kernel = update.compiled(rule, d)
            refused = xp.empty(1 + n, np.int64)
            kernel(arrays, np.ndarray, d, constants, refused, n)
        except Exception:
            # A rule of someone else's that computes more than stand-ins can, or an LLVM that
            # does not take what we write: NumPy runs it.
            _refused.add(kind)
            return range(n)
        return refused[1:].nonzero()[0].tolist() if refused[0] else ()


class Parts:
    """Runs rules on tensors some of which hand their operators on: on the parts of those that are spread over processes,
    which a rule changes element by element; operator by operator on others."""

    def __init__(self) -> None:
        self.run = runner()

    def __call__(self, rule: rules.Rule, tensors: Sequence[Tensor | None], *numbers: Any) -> None:
        """Take the tensors of one parameter."""
        given = [t for t in tensors if t is not None]
        parts = None
        if not handlers.asked(given):
            parts = tensors
        elif not active.modes and (found := getattr(given[0], "_parts_alike", None)) is not None:
            parts = found(tensors)
        if parts is None:
            rules.on_tensors(rule, tuple(tensors), *numbers)
        else:
            self.run(rule, tuple(parts), *numbers)
            _bump(parts[0])

    def finish(self) -> None:
        """Run the rules that wait."""
        if isinstance(self.run, Batch):
            self.run.finish()


class Plan:
    """The parameters of a group whose last step was the same one: the next step computes its numbers once.

    It holds while the parameters, their states and the counts in them are as that step left them, which one native walk
    finds out (`_codegen/kernels/unchanged.py`).
    `rests`: the tensors that the rule gets for each parameter besides itself and its gradient; `counts`: the tensors of
    one element in the states, as many for each parameter; `without`: the parameters that had no gradient.
    """

    __slots__ = (
        "parameters", "states", "rests", "counts", "without", "given", "versions", "items", "places", "table", "held",
        "there", "holds", "spread",
    )  # fmt: skip

    def __init__(
        self, optimizer: Any, group: dict, parameters: list, rests: list, counts: list[list]
    ) -> None:
        self.parameters, self.rests, self.counts = parameters, rests, counts
        self.given = optimizer.state, group["params"]
        self.states = [*map(optimizer.state.get, parameters)]
        self.without = [p for p in group["params"] if all(p is not q for q in parameters)]
        self.versions = [version_of(p) for p in parameters if p._counter is not INFERENCE]
        # The arrays of the rule, side by side; those in `places` are other ones in each step.
        self.items: list[Any] = []
        for rest in rests:
            self.items += [None, None, *[t._array for t in rest if t is not None]]
        self.places = len(self.items) // len(rests)
        self.there = (True, True, *[t is not None for t in rests[0]])
        self._look(optimizer.state, group["params"])

    def _look(self, state: dict, params: list) -> None:
        """Write down where all stands that must stay as it is."""
        from rushlight._codegen.kernels import unchanged

        array, counter = slots()
        start = abi.field(params, abi.LIST_ITEMS)
        words = [
            (abi.field_address(params, abi.LIST_SIZE), len(params)),
            (abi.field_address(params, abi.LIST_ITEMS), start),
        ]
        words += [(start + 8 * k, id(p)) for k, p in enumerate(params)]
        words += [(abi.field_address(p, counter), id(p._counter)) for p in self.parameters]
        items, twins, first = [], [], self.counts[0]
        self.held: list[Any] = []
        for p, own, rest, counts in zip(
            self.parameters, self.states, self.rests, self.counts, strict=True
        ):
            items.append((id(state), id(p), 0 if own is None else id(own)))
            if own is not None:
                words.append((abi.field_address(own, abi.DICT_SIZE), len(own)))
                items += [(id(own), id(key), id(v)) for key, v in own.items()]
                self.held += [*own.items()]
            for t in (*rest, *counts):
                if t is not None:
                    words.append((abi.field_address(t, array), id(t._array)))
                    self.held.append(t._array)
            for c, other in zip(counts, first, strict=True):
                words.append((abi.field_address(c._array, abi.DATA), abi.field(c._array, abi.DATA)))
                if c is not other:
                    fields = [abi.field(x._array, abi.DATA) for x in (other, c)]
                    twins.append((*fields, c._array.itemsize // 4))
        self.table = unchanged.table(words, items, twins)
        self.holds, self.spread = unchanged.walks()

    def __reduce__(self) -> tuple:
        return type(None), ()  # a copy of an optimizer makes a plan of its own

    def step(self, optimizer: Any, group: dict[str, Any], run: Batch) -> bool:
        """Do a step of the group; False, and nothing done, where the plan does not hold."""
        parameters = self.parameters
        if optimizer.state is not self.given[0] or group["params"] is not self.given[1]:
            return False
        if (
            not self.holds(self.table)
            or self.without
            and any(p.grad is not None for p in self.without)
        ):
            return False
        gradients = [p._grad for p in parameters]
        try:
            found = [g._array for g in gradients]
        except AttributeError:  # there is none
            return False
        if {*map(type, found)} != {np.ndarray}:
            return False
        # The first parameter's numbers are those of all.
        calls: list[tuple] = []
        optimizer._update(
            parameters[0], gradients[0], self.states[0], group, lambda *call: calls.append(call)
        )
        if len(calls) == 1 and all(map(is_, calls[0][1][2:], self.rests[0])):
            rule, _, *numbers = calls[0]
            items = self.items.copy()
            items[:: self.places] = [p._array for p in parameters]
            items[1 :: self.places] = found
            for k in run.now(rule, self.there, numbers, items):
                run.waiting.append((parameters[k], gradients[k], *self.rests[k]))
            self.spread(self.table)
        else:  # a setting of the group has changed
            for rule, tensors, *numbers in calls:
                run(rule, tensors, *numbers)
            for p, g, state in zip(parameters[1:], gradients[1:], self.states[1:], strict=True):
                optimizer._update(p, g, state, group, run)
        for version in self.versions:
            version.n += 1
        return True


@cache
def kernels() -> Any:
    """The module of the rules' kernels."""
    from rushlight._codegen.kernels import update

    return update


@cache
def slots() -> tuple[int, int]:
    """Where a tensor has its array and its counter."""
    t = rushlight.zeros(1)
    version = version_of(t)
    return abi.slot(t, t._array), abi.slot(t, version)


def plan(optimizer: Any, group: dict[str, Any], calls: list[tuple]) -> Plan | None:
    """The plan of a group, from the calls that its step made for its parameters; None where these were not the same."""
    found: list[tuple] = []
    for rule, tensors, *numbers in calls:
        p, gradient, *rest = tensors
        state = optimizer.state.get(p)
        values = [*state.values()] if state else []
        if p.grad is not gradient or (rule, *numbers) != (calls[0][0], *calls[0][2:]):
            return None
        if not all(t is None or any(t is v for v in values) for t in rest):
            return None
        if [t is None for t in rest] != [t is None for t in calls[0][1][2:]]:
            return None
        counts = [v for v in values if isinstance(v, Tensor) and all(v is not t for t in rest)]
        if any(c._array.__class__ is not np.ndarray or c._array.size != 1 for c in counts):
            return None
        found.append((p, rest, counts))
    if not found or len({id(p) for p, *_ in found}) < len(found):
        return None
    parameters, rests, counts = map(list, zip(*found, strict=True))
    now = [[(c._array.dtype, c._array.item()) for c in cs] for cs in counts]
    if any(c != now[0] for c in now) or any(d.itemsize % 4 for d, _ in now[0]):
        return None
    return Plan(optimizer, group, parameters, rests, counts)


def in_order(arrays: list) -> list:
    """Views of a parameter's arrays with the axes in memory order."""
    strides = arrays[0].strides
    axes = sorted(range(len(strides)), key=lambda k: -strides[k])
    return [a.transpose(axes) if a.ndim == len(axes) else a for a in arrays]


def lengths(tensors: list[Tensor]) -> np.ndarray | None:
    """The norms of contiguous tensors of one dtype in one call; None where they are not that."""
    if len(tensors) < 2 or not available():
        return None
    arrays = [t._array for t in tensors]
    d = arrays[0].dtype
    if d not in FULL or any(a.__class__ is not np.ndarray for a in arrays):
        return None
    from rushlight._codegen.kernels import update
    from rushlight._codegen.types import of

    arrays = [a if a.flags.c_contiguous else in_order([a])[0] for a in arrays]
    out = xp.empty(len(arrays), d)
    parts = xp.empty(max(a.size for a in arrays) // update.GRAIN + 1, d)
    update.lengths.compiled(T=of(d), R=of(d))(arrays, np.ndarray, d, parts, out, len(arrays))
    return None if (out < 0).any() else out


def changed(rule: rules.Rule, tensors: list[Tensor], *numbers: float) -> bool:
    """Run a rule of one array on tensors in place, in one call; False, and nothing done, where that is not
    for machine code."""
    if len(tensors) < 2 or not available():
        return False
    for t in tensors:
        plain = t._array.__class__ is np.ndarray and t._edge is None and t._counter is not INFERENCE
        if not plain or t._array.dtype not in FULL or active.modes:
            return False
    batch = Batch()
    for t in tensors:
        batch(rule, (t,), *numbers)
        _bump(t)
    batch.finish()
    return True
