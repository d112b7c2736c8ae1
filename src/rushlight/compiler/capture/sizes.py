"""What a captured function does with tensors whose places or sizes follow from integers that each run reads anew.

Note [Sizes that change]
    A position that grows (`cache[:, pos : pos + 1] = k; seen = cache[:, : pos + 1]`) makes views at another place, or of another
    size, in each call. Graphs know sizes as numbers, so that such a call is a step of the program: each run makes it as it is
    written. Whether its result has one size is tried: with the integers that come next. If so, a decision says that it has, and
    graphs take the result as any other tensor. If not, the result is loose: calls that take it are steps, too, up to one
    whose result has one size again. Where anything else asks for a loose tensor (a graph, its `shape`, a loop over it), a
    decision fixes the size that it has.

    Views by such integers may share memory in one run and not in another. Lowering knows what shares memory in the capture,
    so that writes through such integers are steps, and another write to the memory of such a view decides the integers.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.autograd.graph import version_of
from rushlight.autograd.state import thread
from rushlight.compiler.capture.decisions import ARITHMETIC, Decisions, shape_of
from rushlight.compiler.capture.failures import before_failure
from rushlight.compiler.capture.guards import constant
from rushlight.compiler.capture.reads import state
from rushlight.compiler.capture.steps import RuntimeInt, Step, Stop, plain
from rushlight.core.tensor import INFERENCE, Tensor, _wrap
from rushlight.dispatch.handlers import tensors_in
from rushlight.rng.generator import before_draw

NONE: Any = object()
ALIKE = frozenset("dim ndimension is_floating_point is_complex element_size".split())
TRANSPOSED = ("T", "mT", "H", "mH", "real", "imag")
REASON = "a size or a place that follows from an integer that changes"


class Sizes(Decisions):
    """The part of a capture that knows loose tensors, and makes steps of calls with integers that change."""

    def is_loose(self, v: Any) -> bool:
        found = self.loose.get(id(v._array)) if self.loose and isinstance(v, Tensor) else None
        return found is not None and found[0]._array is v._array

    def varies(self, *values: Any) -> bool:
        """Whether a loose tensor, or an integer that each run reads before anything else, is among values."""
        if self.reason is not None or not self.variables:
            return False
        return any(self.is_loose(v) or self.is_changing(v) for v in leaves_of(values))

    def is_changing(self, v: Any) -> bool:
        return v.__class__ is RuntimeInt and v.expression in self.early

    def repeats(self, *values: Any) -> bool:
        """Whether each run can make a call with these values as it is written."""
        with self.recorder.paused():
            now = state()
        if now != self.state or self.differentiates or self.is_handled():
            return False
        for v in leaves_of(values):
            if isinstance(v, Tensor):
                if not self.recorder.knows(v) or thread.grad and v.requires_grad:
                    return False
            elif not constant(v) and not self.is_changing(v):
                return False
        return True

    def repeated(self, f: Callable, args: tuple, kwargs: dict | None = None) -> Any:
        """The result of a call, a tensor or several with names, that each run makes again. `NONE` where each value of
        the integers needs a program of its own."""
        kwargs = kwargs or {}
        drawn: list = []
        given = [*tensors_in((args, kwargs))]
        counters = [version_of(t) for t in given if t._counter is not INFERENCE]
        counts = [c.n for c in counters]
        with self.recorder.paused(), before_each_draw(drawn.append):
            r = f(*mapped(plain, args), **mapped(plain, kwargs))
        parts = r if isinstance(r, (tuple, list)) else (r,)
        empty = any(isinstance(t, Tensor) and not t.numel() for t in parts)
        if is_own(f) and not drawn and (empty or r.__class__ in (tuple, list)):
            # for another integer there may be more tensors, or numbers drawn for what is empty now
            self.fix_all(args, kwargs)
            self.settle_all(args, kwargs)
            return NONE
        made = all(isinstance(t, Tensor) and not t.requires_grad for t in parts)
        if not made or len({*map(id, drawn)}) > 1 or [c.n for c in counters] != counts:
            self.stop(f"{getattr(f, '__name__', f)}, by an integer that changes")
            return r
        kept = {id(t._array) for t in given if not self.is_loose(t)}
        if any(id(t._array) in kept for t in parts):  # what was given is the result
            self.fix_all(args, kwargs)
            self.settle_all(args, kwargs)
            return r
        with self.recorder.paused(), before_each_draw(no_draw):
            other = self.with_others(f, args, kwargs)
        variable = self.step_of(f, args, kwargs, *(("draws", drawn[0]) if drawn else ()))
        if variable is None:
            return r
        others = other if other.__class__ is r.__class__ and r is not parts[0] else (other,)
        for k, t in enumerate(parts):
            name = variable if t is r else f"{variable}[{k}]"
            if variable in self.early:
                self.early.add(name)
            like = others[k] if k < len(others) else None
            self.take(t, name, like, given, leaves_of((args, kwargs)))
        return r

    def with_others(self, f: Callable, args: tuple, kwargs: dict) -> Any:
        """The result for other integers; None where it raises."""
        try:
            return f(*mapped(self.other, args), **mapped(self.other, kwargs))
        except Exception:
            return None

    def other(self, v: Any) -> Any:
        """What stands in the place of a value for other integers."""
        if self.is_loose(v):
            return self.loose[id(v._array)][2]
        return self.others[v.expression] if v.__class__ is RuntimeInt else plain(v)

    def step_of(
        self, f: Callable, args: tuple, kwargs: dict, kind: str = "reads", source: Any = None
    ) -> str | None:
        """The variable of the result of a call that each run makes again."""
        values = leaves_of((args, kwargs))
        early = kind == "reads" and not any(
            isinstance(v, Tensor) and (f is not operator.getitem or not self.is_outside(v))
            for v in values
        )
        early = early and not any(s.kind == "calls" for s in self.recorder.waiting_steps())
        given = mapped(self.without_history, args), mapped(self.without_history, kwargs)
        self.keep.append(given)
        step = Step(f, [*given[0]], given[1], kind, source)
        try:
            step.describe(self.recorder.template)
        except Stop as e:
            self.stop(str(e))
            return None
        if not early or self.recorder.segment.written:
            self.recorder.end_graph()
        if not early:
            before_failure(self.recorder, step)
        self.recorder.cut(step, early)
        step.result = f"n{self.variables}"
        self.variables += 1
        if early:
            self.early.add(step.result)
        return step.result

    def is_outside(self, t: Tensor) -> bool:
        """Whether a tensor was there before the call."""
        v = self.recorder.value_of(t)
        return v is not None and v.tensor is t

    def is_made(self, t: Tensor) -> bool:
        """Whether a tensor is, or is a view of, one that the call has made."""
        of = [v for v in (t, t._base) if v is not None]
        return all(self.recorder.knows(v) and not self.is_outside(v) for v in of)

    def without_history(self, v: Any) -> Any:
        if not isinstance(v, Tensor) or self.is_outside(v) or id(v) in self.recorder.stepped:
            return v
        return _wrap(v._array)

    def take(self, t: Tensor, variable: str, other: Any, given: list, values: list) -> None:
        """Know a tensor that each run makes anew; `other`: the one for other integers."""
        self.recorder.new_value(t._array).expression = variable
        self.recorder.stepped[id(t)] = t, variable
        self.loose[id(t._array)] = t, variable, other
        changing = [v for v in values if v.__class__ is RuntimeInt]
        if t._counter is INFERENCE:  # nobody counts the writes to it
            if any(np.may_share_memory(t._array, x._array) for x in given):
                self.settle_all(changing)
        elif any(x._counter is not INFERENCE and version_of(x) is version_of(t) for x in given):
            self.recorder.placed.setdefault(id(version_of(t)), []).extend(changing)
            self.keep.append(version_of(t))
        if not isinstance(other, Tensor) or other.shape == t.shape:
            self.fix(t)

    def fix(self, t: Tensor) -> None:
        """Go on only where a loose tensor has the size and the strides that it has."""
        found = self.variable_of_loose(layout_of, t)
        del self.loose[id(t._array)]
        self.note(found, layout_of(t), REASON)

    def variable_of_loose(self, f: Callable, t: Tensor, *more: int) -> str:
        """The variable of what a loose tensor tells of itself."""
        early = self.loose[id(t._array)][1] in self.early
        step = Step(f, [t, *more], {}, "reads")
        step.describe(self.recorder.template)
        step.result = f"n{self.variables}"
        self.variables += 1
        if not early:
            self.recorder.end_graph()
        self.recorder.cut(step, early)
        self.from_python.add(step.result)
        if early:
            self.early.add(step.result)
        return step.result

    def size(self, t: Tensor, k: int) -> int:
        """The size of a loose tensor in one dimension, which each run reads anew if it is another one for other integers."""
        now, other = size_of(t, k), size_of(self.loose[id(t._array)][2], k)
        v = self.named(now, self.variable_of_loose(size_of, t, k))
        self.others[v.expression] = other
        return v if other != now else self.concrete(v, REASON)

    def sizes(self, t: Tensor) -> tuple | None:
        """The shape of a loose tensor, where the function takes it apart at once; None elsewhere."""
        frame = self.frames[-1]
        following = frame.plan.instructions[frame.at : frame.at + 2]
        names = [i.name for i in following]
        if names[:1] == ["UNPACK_SEQUENCE"]:
            return tuple([self.size(t, k) for k in range(t._array.ndim)])
        k = getattr(following[0], "value", None)
        if (
            names[1:] == ["BINARY_SUBSCR"]
            and k.__class__ is int
            and -t._array.ndim <= k < t._array.ndim
        ):
            made = [*t._array.shape]
            made[k] = self.size(t, k)
            return tuple(made)
        return None

    def fix_all(self, *values: Any) -> None:
        if self.loose and self.reason is None:
            for v in leaves_of(values):
                if self.is_loose(v):
                    self.fix(v)

    def settle_all(self, *values: Any) -> None:
        for v in leaves_of(values):
            if v.__class__ is RuntimeInt:
                self.concrete(v, REASON)

    def place_fixed(self, counter: int) -> None:
        """Decide the integers of the views on memory that a graph writes to."""
        self.settle_all(self.recorder.placed.pop(counter, []))

    def named(self, v: Any, expression: str) -> Any:
        made = super().named(v, expression)
        if made.__class__ is RuntimeInt:
            self.others[expression] = v
        return made

    def computed(self, f: Callable, args: tuple, *more: Any, **named: Any) -> Any:
        v = super().computed(f, args, *more, **named)
        if v.__class__ is RuntimeInt and not (more or named) and all(map(is_integer, args)):
            other = self.with_others(f, args, {})
            self.others[v.expression] = other if other.__class__ is int else int(v)
        return v

    def read_anew(self, expression: str, v: float) -> Any:
        made = super().read_anew(expression, v)
        if made.__class__ is RuntimeInt:
            self.others[made.expression] = v + 1
        return made

    def item(self, o: Any, key: Any) -> Any:
        if isinstance(o, Tensor) and self.varies(o, key):
            if self.repeats(o, key) and (self.is_loose(o) or self.is_outside(o)):
                return self.repeated(operator.getitem, (o, key))
            self.fix_all(o, key)
        return super().item(o, key)

    def is_written(self, o: Any, key: Any, v: Any) -> bool:
        """Write to the elements of a tensor from outside, by integers that change. False where no run can do so again."""
        places = leaves_of(key)
        if self.reason is not None or not any(map(self.is_changing, places)):
            return False
        views = all(p is None or p is Ellipsis or p.__class__ in (int, RuntimeInt) for p in places)
        if not views or not self.is_outside(o) or o._counter is INFERENCE:
            return False
        if thread.grad and o.requires_grad or not self.repeats(o, key, v):
            return False
        with self.recorder.paused():
            o[mapped(plain, key)] = plain(v)
        source = self.recorder.value_of(o)
        self.step_of(operator.setitem, (o, key, v), {}, "writes", source)
        return True

    def operator_repeated(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """The result of a function of tensors that each run calls again, by loose tensors or integers that change; `NONE` where
        graphs can have it."""
        if not self.varies(*args, *kwargs.values()):
            return NONE
        name, loose = f.__name__, any(map(self.is_loose, leaves_of((args, kwargs))))
        if name == "size" and loose and len(args) == 2 and args[1].__class__ is int:
            k = args[1]
            return (
                self.size(args[0], k) if -args[0]._array.ndim <= k < args[0]._array.ndim else NONE
            )
        if name in ALIKE or not loose and name.strip("_") in ARITHMETIC:
            return NONE
        in_place = (
            name.endswith("_") and not name.endswith("__") or name in ("setitem", "__setitem__")
        )
        if is_own(f) and not in_place and kwargs.get("out") is None and self.repeats(args, kwargs):
            return self.repeated(f, args, kwargs)
        self.fix_all(args, kwargs)
        return NONE

    def operation(self, f: Callable, *operands: Any) -> Any:
        if self.loose and self.varies(*operands) and any(map(self.is_loose, operands)):
            in_place = f.__name__.startswith("i") and f is not operator.invert
            if not in_place and self.repeats(*operands):
                return self.repeated(f, operands)
            self.fix_all(*operands)
        return super().operation(f, *operands)

    def attribute_of_tensor(self, t: Tensor, name: str) -> Any:
        if self.is_loose(t):
            if name in TRANSPOSED and self.repeats(t):
                return self.repeated(operator.attrgetter(name), (t,))
            if name == "shape" and (sizes := self.sizes(t)) is not None:
                return sizes
            if name in ("shape", "nbytes"):
                self.fix(t)
        return super().attribute_of_tensor(t, name)

    def contents(self, v: Any) -> Any:
        self.fix_all(v) if isinstance(v, Tensor) else None
        return super().contents(v)

    def iterator(self, v: Any) -> Any:
        self.fix_all(v) if isinstance(v, Tensor) else None
        return super().iterator(v)


@contextlib.contextmanager
def before_each_draw(f: Callable) -> Iterator[None]:
    """A block in which `f` is called with each generator that is drawn from."""
    before_draw.append(f)
    try:
        yield
    finally:
        before_draw.remove(f)


def is_own(f: Any) -> bool:
    """Whether a function is an operator, not one of `operator` or Python."""
    return hasattr(f, "op") or getattr(f, "__module__", "").startswith("rushlight.ops.")


def no_draw(generator: Any) -> None:
    raise RuntimeError("a random number, by integers that the call does not have")


def is_integer(v: Any) -> bool:
    return v.__class__ in (int, RuntimeInt)


def layout_of(t: Tensor) -> tuple:
    return shape_of(t), t._array.strides


def size_of(t: Tensor, k: int) -> int:
    return t._array.shape[k]


def mapped(f: Callable, v: Any) -> Any:
    """A value with `f(x)` for each `x` in its tuples, lists, dictionaries and slices."""
    if v.__class__ is slice:
        return slice(f(v.start), f(v.stop), f(v.step))
    if v.__class__ in (tuple, list):
        return v.__class__([mapped(f, x) for x in v])
    if v.__class__ is dict:
        return {k: mapped(f, x) for k, x in v.items()}
    return f(v)


def leaves_of(v: Any) -> list:
    """What is in the tuples, lists, dictionaries and slices of a value."""
    found: list = []
    mapped(found.append, v)
    return found
