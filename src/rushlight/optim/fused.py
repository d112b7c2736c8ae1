"""Steps of optimizers in machine code: one call for all parameters that share a rule and its numbers.

An optimizer's step is limited by memory. NumPy goes over the parameters a dozen times for one step of
Adam, a loop that reads and writes each array once needs a fraction of that. Rules are traced and
compiled by `_codegen/kernels/update.py`, which gives the numbers that NumPy gives, bit for bit.

Nothing depends on it. Without machine code, for a rule that computes what cannot be traced, and for
arrays that the loop does not take, NumPy runs the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
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
                alike = [[t is not None for t in row] == given for row in rows]
                later = [row for row, is_alike in zip(rows, alike, strict=True) if not is_alike]
                rows = [row for row, is_alike in zip(rows, alike, strict=True) if is_alike]
                arrays = [t._array for row in rows for t in row if t is not None]
            n, d = sum(given), arrays[0].dtype
            for k in self._native(arrays, tuple(given), d):
                if rows[k][0]._array.dtype is not d:  # type: ignore[union-attr]
                    later.append(rows[k])
                elif not self._turned(arrays[k * n : k * n + n], tuple(given), d):
                    full = [None if t is None else t._array for t in rows[k]]
                    rules.on_arrays(self.rule, full, self.numbers)
            rows = later

    def _turned(self, arrays: list, given: tuple[bool, ...], d: np.dtype) -> bool:
        """Run the rule on one parameter with its axes in memory order (channels last, say), if that helps."""
        plain = all(a.__class__ is np.ndarray for a in arrays)
        if not plain or arrays[0].flags.c_contiguous or (self.rule, d, *given) in _refused:
            return False
        return not self._native(in_order(arrays), given, d)

    def _native(self, arrays: list, given: tuple[bool, ...], d: np.dtype) -> Iterable[int]:
        """Run the rule in machine code on the arrays of some parameters, side by side; gives the numbers of the
        parameters that are left: not C-contiguous, of another class or another dtype."""
        from rushlight._codegen.kernels import update

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

    It holds while the parameters, their states and the counts in them are as that step left them.
    `rests`: the tensors that the rule gets for each parameter besides itself and its gradient; `counts`: the tensors of
    one element in the states, as many for each parameter.
    """

    __slots__ = ("parameters", "states", "values", "rests", "counts")

    def __init__(self, parameters: list, states: list, rests: list, counts: list[list]) -> None:
        self.parameters, self.states, self.rests = parameters, states, rests
        self.values = ids_in(states)
        self.counts = [c for cs in counts for c in cs]

    def step(self, optimizer: Any, group: dict[str, Any], run: Batch) -> bool:
        """Do a step of the group; False, and nothing done, where the plan does not hold."""
        gradients = []
        parameters = []
        for p in group["params"]:
            g = p.grad
            if g is not None:
                if g._array.__class__ is not np.ndarray:
                    return False
                gradients.append(g)
                parameters.append(p)
        states = [*map(optimizer.state.get, parameters)]
        if (
            [*map(id, parameters)] != [*map(id, self.parameters)]
            or [*map(id, states)] != [*map(id, self.states)]
            or ids_in(states) != self.values
        ):
            return False
        each = len(self.counts) // len(parameters)
        now = [c._array.item() for c in self.counts]
        if now != now[:each] * len(parameters):
            return False
        # The first parameter's numbers are those of all.
        calls: list[tuple] = []
        optimizer._update(
            parameters[0], gradients[0], states[0], group, lambda *call: calls.append(call)
        )
        for rule, tensors, *numbers in calls:
            run(rule, tensors, *numbers)
        if len(calls) == 1 and all(map(is_, calls[0][1][2:], self.rests[0])):
            run.waiting += zip(parameters[1:], gradients[1:], *zip(*self.rests[1:], strict=True))
            now = [c._array.item() for c in self.counts[:each]]
            for k, c in enumerate(self.counts[each:]):
                c._array.fill(now[k % each])
        else:  # a setting of the group has changed
            for p, g, state in zip(parameters[1:], gradients[1:], states[1:], strict=True):
                optimizer._update(p, g, state, group, run)
        for p in parameters:
            _bump(p)
        return True


def ids_in(states: list[dict | None]) -> list[int]:
    """The identities of all values of the states."""
    return [id(v) for state in states if state for v in state.values()]


def plan(states: Any, calls: list[tuple]) -> Plan | None:
    """The plan of a group, from the calls that its step made for its parameters; None where these were not the same."""
    found: list[tuple] = []
    for rule, tensors, *numbers in calls:
        p, gradient, *rest = tensors
        state = states.get(p)
        values = [*state.values()] if state else []
        if p.grad is not gradient or (rule, *numbers) != (calls[0][0], *calls[0][2:]):
            return None
        if not all(t is None or any(t is v for v in values) for t in rest):
            return None
        counts = [v for v in values if isinstance(v, Tensor) and all(v is not t for t in rest)]
        if any(c._array.__class__ is not np.ndarray or c._array.size != 1 for c in counts):
            return None
        found.append((p, state, rest, counts))
    if not found or len({id(p) for p, *_ in found}) < len(found):
        return None
    parameters, every, rests, counts = map(list, zip(*found, strict=True))
    now = [[(c._array.dtype, c._array.item()) for c in cs] for cs in counts]
    return Plan(parameters, every, rests, counts) if all(c == now[0] for c in now) else None


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
