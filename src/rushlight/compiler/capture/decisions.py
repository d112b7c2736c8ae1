"""What a captured function computes of the values of tensors in Python, and what it decides by them.

Note [Decisions]
    A number that is read from a tensor is another one in each run: a variable of the program, and so is what Python
    computes of it. Where the function needs to know it (a branch, the number of passes of a loop, a size), the
    capture goes on with the value at hand, and the program notes a decision: a run whose value is another one takes
    back what it did and says so, and another program is tried, or captured. What a run did until then are writes to
    tensors, which are copied before, and draws of random numbers, whose stream is put back; changes of Python's objects
    come after all decisions, since no graph reads them.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import rushlight
from rushlight._higher_order_ops.control_flow import truth_of
from rushlight.compiler.capture.consumed import consumed, kind_of
from rushlight.compiler.capture.failures import MOST_BYTES, bytes_written
from rushlight.compiler.capture.guards import constant
from rushlight.compiler.capture.interpreter import Frame, sites
from rushlight.compiler.capture.iteration import Iteration
from rushlight.compiler.capture.reads import CONTAINERS, DICTIONARIES, is_value
from rushlight.compiler.capture.steps import (
    RUNTIME,
    RUNTIME_CLASSES,
    Decision,
    RuntimeFloat,
    RuntimeInt,
    Step,
    Stop,
    plain,
)
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.handlers import tensors_in
from rushlight.utils._pytree import tree_leaves

HALVES = (rushlight.float16, rushlight.bfloat16)
SMALL_INTEGERS = (rushlight.uint8, rushlight.int8, rushlight.int16, rushlight.int32)
ARITHMETIC = frozenset(
    "add sub mul div truediv iadd isub imul itruediv radd rsub rmul rtruediv lt le gt ge eq ne subtract multiply divide "
    "true_divide setitem".split()
)


# Functions of numbers that raise for some, beside those of `math`.
DIVIDING = frozenset(
    {
        operator.truediv, operator.floordiv, operator.mod, operator.itruediv, operator.ifloordiv, operator.imod, divmod,
    }
)  # fmt: skip
RAISING = DIVIDING | {
    operator.pow,
    operator.ipow,
    operator.lshift,
    operator.rshift,
    pow,
    int,
    round,
    chr,
}


def is_stream(o: Any) -> bool:
    """Whether an object is a stream of random numbers of Python or NumPy, whose own are imported when they are used."""
    pythons = sys.modules.get("random")
    if pythons is not None and isinstance(o, pythons.Random):
        return True
    numpys = sys.modules.get("numpy.random")
    return numpys is not None and isinstance(o, (numpys.RandomState, numpys.Generator))


def may_raise(f: Callable, args: tuple) -> bool:
    """Whether a function raises for some numbers in the places of those that each run computes anew."""
    if f not in RAISING and getattr(f, "__module__", "") not in ("math", "cmath"):
        return False
    if f in DIVIDING and args[1].__class__ in (int, float) and args[1]:
        return False
    return not isinstance(args[0], int if f in (int, round) else str)  # a text is formatted


def handles(frame: Frame) -> bool:
    """Whether the function of a frame may handle what the instruction that is carried out raises."""
    plan = frame.plan
    if plan.handler(plan.instructions[max(frame.at - 1, 0)].offset) is None:
        return False
    if plan.code is rushlight.nn.Module.__call__.__code__:  # it adds a note, and raises again
        return False
    names = {i.name for i in plan.instructions}
    ends = [v for v in frame.stack if isinstance(v, types.MethodType) and v.__name__ == "__exit__"]
    own = all(type(v.__self__).__module__.startswith("rushlight.") for v in ends)
    return "CHECK_EXC_MATCH" in names or "WITH_EXCEPT_START" not in names or not own


def told_of(e: Exception) -> str:
    return f"{type(e).__qualname__}: {e}"


def raised_by(f: Callable, *args: Any, **kwargs: Any) -> str:
    """What a call raises."""
    try:
        f(*args, **kwargs)
    except Exception as e:
        return told_of(e)
    return ""


class Decisions(Iteration):
    """The part of a capture that knows values which each run computes anew."""

    def stop(self, reason: str) -> None:
        if self.reason is None and self.variables:
            self.make_plain()  # from here on code may see these objects that is not interpreted
        super().stop(reason)

    def step(
        self, f: Callable, args: tuple, kwargs: dict, kind: str, source: Any = None
    ) -> Step | None:
        """Write down a call that each run does again."""
        if self.differentiates and kind in ("changes", "clears", "calls"):
            self.stop("a change of Python's objects in a backward pass")
            raise Stop(self.reason)  # before it is done: nobody asked for the gradient yet
        step = Step(f, [*args], kwargs, kind, source)
        if kind == "calls":
            step.sites = sites(self.frames)
        try:
            if kind not in ("changes", "clears"):
                step.describe(self.recorder.template)
            self.recorder.cut(step, kind == "reads" and not kwargs and self.is_early(args))
        except Stop as e:
            self.stop(str(e))
            return None
        return step

    def variable_of(
        self, f: Callable, args: tuple, kwargs: dict, kind: str = "reads", source: Any = None
    ) -> str | None:
        """The variable of a program that is `f(*args)` in each run; tensors are read without their history."""
        if any(map(self.is_changed, (getattr(f, "__self__", None), *args))):
            self.stop(f"{getattr(f, '__name__', f)} of what was changed before")  # changes wait
            return None
        args = tuple([_wrap(v._array) if isinstance(v, Tensor) else v for v in args])
        self.keep.append(args)
        step = self.step(f, args, kwargs, kind, source)
        if step is None:
            return None
        step.result = f"n{self.variables}"
        self.variables += 1
        if kind == "reads" and not kwargs and self.is_early(args):
            self.early.add(step.result)
        return step.result

    def is_changed(self, v: Any, *around: Any) -> bool:
        """Whether a value is a container from outside that was changed, or holds one; `around`: what it is in."""
        if v.__class__ not in CONTAINERS or any(v is o for o in around):
            return False
        if id(v) in self.outside and any(k[0] == id(v) for k in self.written):
            return True
        return any(
            self.is_changed(x, v, *around) for x in (v.values() if isinstance(v, dict) else v)
        )

    def is_handled(self) -> bool:
        """Whether the function may handle what is raised where it is."""
        return any(map(handles, self.frames))

    def is_early(self, args: tuple) -> bool:
        """Whether arguments depend on nothing that a run does."""
        return all(constant(v) or getattr(v, "expression", None) in self.early for v in args)

    def computed(
        self, f: Callable, args: tuple, kwargs: dict | None = None, kind: str = "reads",
        source: Any = None,
    ) -> Any:  # fmt: skip
        """The result of `f(*args)`, a number or string that each run computes anew."""
        kwargs = kwargs or {}
        try:
            with self.recorder.paused():
                v = f(*map(plain, args), **plain(dict(kwargs)))
        except Exception as e:
            self.decide_raised(told_of(e), f, args, kwargs, kind)
            raise
        if may_raise(f, args) and not self.is_early(args):
            handled = self.is_handled()
            called = any(s.kind == "calls" for s in self.recorder.waiting_steps())
            steps = [*self.recorder.steps, self.recorder.segment]
            if not called and (handled or bytes_written(self.recorder, steps) <= MOST_BYTES):
                self.decide_raised("", f, args, kwargs, kind)
            elif not called or not handled:
                if self.recorder.changes:
                    self.recorder.close()
            else:
                reason = f"{getattr(f, '__name__', f)}, which may raise, of a value that was read from a tensor"
                return self.as_written(self.frames[-1], reason, f, args, kwargs)
        if self.reason is not None:
            return v
        name = getattr(f, "__name__", str(f))
        if not all(map(self.is_computed, (*args, *kwargs.values()))) or v.__class__ not in (
            bool,
            int,
            float,
            str,
        ):
            self.stop(f"{name} of a value that was read from a tensor")
            return v
        variable = self.variable_of(f, args, kwargs, kind, source)
        if variable is None:
            return v
        if not kwargs and all(
            constant(x) or getattr(x, "expression", "") in self.from_python for x in args
        ):
            self.from_python.add(variable)
        if v.__class__ is bool:
            self.decide(variable, v, f"{name} of a value that was read from a tensor")
            return v
        return self.named(v, variable)

    def decide_raised(self, told: str, f: Callable, args: tuple, kwargs: dict, kind: str) -> None:
        """Go on only where `f(*args)` raises this; nothing if it is empty."""
        reason = "an exception that depends on a value that was read from a tensor"
        if kind != "reads":
            self.stop(reason)
        elif (found := self.variable_of(functools.partial(raised_by, f), args, kwargs)) is not None:
            self.note(found, told, reason)

    def is_computed(self, v: Any) -> bool:
        """Whether each run can compute something of a value."""
        return is_value(v) or isinstance(v, np.generic) and id(v) in self.outside

    def named(self, v: Any, expression: str) -> Any:
        """A value that each run computes anew, by an expression of the program."""
        made = RUNTIME_CLASSES[v.__class__](v)
        made.expression = expression
        self.keep.append(made)
        return made

    def read_anew(self, expression: str, v: float) -> Any:
        """A number from outside as one that each run reads anew, before anything else."""
        if (found := self.anew.get(expression)) is None:
            variable = f"n{self.variables}"
            self.variables += 1
            self.from_python.add(variable)
            self.early.add(variable)
            self.recorder.reads.append(f"{variable} = {expression}")
            found = self.anew[expression] = self.named(v, variable)
        return found

    def decide(self, variable: str, v: Any, reason: str) -> None:
        """Go on only where a variable has this value."""
        if self.fullgraph and variable not in self.from_python and not self.in_control_flow():
            self.stop(reason)
        self.note(variable, v, reason)

    def in_control_flow(self) -> bool:
        """Whether `cond`, `while_loop` or an `assert` reads a value: they may, other branches end a capture of a full
        graph."""
        if not self.frames:
            return False
        frame = self.frames[-1]
        # the jump over what an `assert` raises; newer Pythons make a bool before it
        behind = frame.plan.instructions[frame.at + (frame.instruction == "TO_BOOL")]
        return frame.plan.code is truth_of.__code__ or behind.name == "LOAD_ASSERTION_ERROR"

    def note(self, variable: str, v: Any, reason: str) -> None:
        """Write down a decision."""
        if self.reason is None:
            self.recorder.cut(Decision(variable, v, self.at_line(reason)), variable in self.early)

    def decided(self, f: Callable, args: tuple, kwargs: dict, reason: str) -> Any:
        """The result of `f(*args)` on tensors, with which the capture goes on."""
        with self.recorder.paused():
            v = f(*args, **kwargs)
        if self.reason is None:
            variable = self.variable_of(f, args, kwargs)
            if variable is not None:
                self.decide(variable, v, reason)
        return v

    def decide_shape(self, t: Tensor, reason: str) -> None:
        """Go on only where a tensor that was just made has this shape."""
        variable = self.variable_of(shape_of, (t,), {})
        if variable is not None:
            self.decide(variable, shape_of(t), reason)

    def text_of(self, v: Any, *spec: Any, f: Callable = str) -> Any:
        """A text for a tensor, or for lists of them; anything else as it is."""
        if isinstance(v, Tensor) and self.recorder.knows(v):
            return self.computed(text_function(f, v), (v, *spec))
        if v.__class__ in (list, tuple, dict) and not constant(v) and is_value(v):
            if any(t.requires_grad for t in tensors_in(tree_leaves(v))):
                self.stop("the text of tensors with a history")
            return self.computed(f, (v, *spec))
        if not constant(v) and v.__class__ not in RUNTIME:
            self.stop(f"the text of a {type(v).__name__}")
        return v

    def formatted(self, f: Callable, text: str, given: Any) -> Any:
        """`text % given`, where tensors are given."""
        if isinstance(given, Tensor) and f is operator.mod and self.recorder.knows(given):
            return self.computed(text_function(format_tensor, given), (given, text))
        if any(t.requires_grad for t in tensors_in(tree_leaves(given))):
            self.stop("the text of tensors with a history")
        self.contents_deep(given)
        return self.computed(f, (text, given))

    def decide_number(self, t: Tensor, v: int, reason: str) -> None:
        """Go on only where a tensor of one element has this value."""
        if (variable := self.variable_of(element_of, (t,), {})) is not None:
            self.decide(variable, v, reason)

    def decide_check(self, t: Tensor) -> None:
        """Go on only where the same is found when a tensor is checked for elements that are not 0."""
        reason = "a check of the values of a tensor"
        if not self.recorder.knows(t):
            self.stop(reason)
        elif (variable := self.variable_of(has_nonzero, (t,), {})) is not None:
            self.note(variable, has_nonzero(t), reason)

    def concrete(self, v: Any, reason: str) -> Any:
        """A value that each run computes anew as a plain one, with which the capture goes on."""
        if v.__class__ is slice:
            return slice(*[self.concrete(x, reason) for x in (v.start, v.stop, v.step)])
        if v.__class__ in (tuple, list):
            return v.__class__([self.concrete(x, reason) for x in v])
        if self.reason is None and v.__class__ in RUNTIME:
            self.decide(v.expression, plain(v), reason)
        return plain(v) if v.__class__ in RUNTIME else v

    def is_runtime(self, v: Any) -> bool:
        """Whether each run computes a value anew, or one of those in a tuple."""
        return v.__class__ in RUNTIME or v.__class__ is tuple and any(map(self.is_runtime, v))

    def refuse_runtime(self, f: Any, args: Any) -> None:
        """Give up where a function looks at values that each run computes anew."""
        if any(map(has_runtime, args)):
            self.stop(f"{getattr(f, '__name__', f)} of values that were read from tensors")

    def hashed(self, v: Any) -> Any:
        if self.reason is None:
            self.refuse_methods([v])
        return self.concrete(v, "a value that was read from a tensor as a key")

    def runtime(self, f: Callable, args: tuple) -> Any:
        """The result of a function of values, some of which each run computes anew."""
        if f in (operator.mul, operator.imul) and any(
            v.__class__ in (list, tuple, str) for v in args
        ):
            reason = "the length of a list"
            return self.operation(
                f, *[self.concrete(v, reason) if v.__class__ in RUNTIME else v for v in args]
            )
        return self.computed(f, args)

    def operands(self, name: str, args: tuple) -> tuple:
        """Arguments of a function of tensors, with tensors for numbers that each run computes anew.

        Integers in other places than those of numbers, such as sizes, are decided.
        """
        if self.reason is not None or not any(map(has_runtime, args)):
            return args
        like = next((v for v in args if isinstance(v, Tensor)), None)
        number = like is not None and name.strip("_") in ARITHMETIC and like.dtype not in HALVES
        if not number:
            return self.decided_integers(name, args)
        return tuple(
            self.operand(v, like) if v.__class__ in (RuntimeInt, RuntimeFloat) else v for v in args
        )

    def decided_integers(self, name: str, args: Iterable) -> tuple:
        """Arguments of a function of tensors, whose integers that each run computes anew are decided."""
        reason = f"a number that was read from a tensor as an argument of {name}"
        return tuple(
            self.concrete(v, reason)
            if v.__class__ is RuntimeInt or v.__class__ is tuple and has_runtime(v)
            else v
            for v in args
        )

    def operand(self, v: Any, like: Any) -> Any:
        """A tensor for a number that each run computes anew, in an operation with another tensor, whose dtype it does
        not change. A number that may not fit into it is decided."""
        dtype = rushlight.int64
        if v.__class__ is RuntimeFloat:
            real = like.is_floating_point() or like.is_complex()
            dtype = rushlight.float64 if real else rushlight.get_default_dtype()
            if real and not like.dim():
                dtype = like.dtype.to_real()
        elif like.dtype in SMALL_INTEGERS:
            return self.concrete(v, f"a number that was read from a tensor, and {like.dtype}")
        variable = self.variable_of(number_tensor, (v, dtype), {})
        with self.recorder.paused():
            t = number_tensor(plain(v), dtype)
        self.keep.append(t)
        if variable is not None:
            self.recorder.new_value(t._array).expression = variable
        return t

    def given_away(self, v: Any, seen: set[int]) -> Any:
        """`v` for code that is not interpreted: with plain values for those that each run computes anew, which are put
        into the very containers that the function made."""
        if isinstance(v, tuple):
            made = [self.given_away(x, seen) for x in v]
            if all(map(operator.is_, made, v)):
                return v
            return v._make(made) if hasattr(v, "_make") else tuple(made)
        if v.__class__ in (list, dict, collections.deque) and id(v) in self.inside:
            if id(v) not in seen:
                seen.add(id(v))
                for k, x in [*(v.items() if isinstance(v, dict) else enumerate(v))]:
                    if (now := self.given_away(x, seen)) is not x:
                        v[k] = now
            return v
        return plain(v) if v.__class__ in RUNTIME else v

    def make_plain(self) -> None:
        """Give the objects that the function made or changed, and its frames, plain values for those that each run computes
        anew."""
        for frame in (*self.frames, *self.generators):
            frame.make_plain()
        for kinds in (tuple(RUNTIME), (tuple,)):
            for o in (*self.inside.values(), *self.changed):
                make_plain(o, kinds)

    def let_go(self) -> None:
        """Hold no object of a call that raised: what it raised is among them, whose traceback holds the capture."""
        self.reason = self.reason or "the call raised"
        if self.variables:
            self.make_plain()
        for held in (self.inside, self.outside, self.keep, self.changed):
            held.clear()

    def reached(self, f: Any) -> bool:
        """Whether it is clear where a method, or the object that it belongs to, comes from."""
        return id(f) in self.outside or self.known(f.__self__)

    def same_stream(self, o: Any) -> Any:
        """A stream of random numbers, which a program names: a rest may get another one in each call."""
        if (found := self.outside.get(id(o))) is not None:
            self.guards.identical(found[1], o)
        return o

    def drawn(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """The result of a method of a stream of random numbers of Python or NumPy."""
        o = f.__self__
        if not all(map(constant, kwargs.values())) or f.__name__ == "shuffle":
            self.stop(f"a call of {type(o).__name__}.{f.__name__}")
            return f(*self.given_away(args, set()), **kwargs)
        for v in args:
            self.contents_deep(v)
        method = types.MethodType(f.__func__, o) if isinstance(f, types.MethodType) else f
        self.same_stream(o)
        return self.computed(method, args, kwargs, "draws", o)


def text_function(f: Callable, like: Tensor) -> Callable:
    """`f`, which makes a text of a tensor, for tensors without history that shall look as if they had that of another."""
    if not like.requires_grad:
        return f
    kind = None if like.grad_fn is None else kind_of(like)

    def text(t: Tensor, *spec: Any) -> str:
        if not t.requires_grad:
            t = consumed(t._array, kind) if kind else _wrap(t._array).requires_grad_()
        return f(t, *spec)

    return text


def format_tensor(t: Tensor, text: str) -> str:
    return text % t


def has_runtime(v: Any) -> bool:
    """Whether each run computes a value anew, or one of those in a container."""
    if v.__class__ in (list, tuple, set, frozenset):
        return any(map(has_runtime, v))
    if isinstance(v, dict):
        return any(map(has_runtime, v.values()))
    if v.__class__ is slice:
        return any(map(has_runtime, (v.start, v.stop, v.step)))
    return v.__class__ in RUNTIME


def number_tensor(v: float, dtype: Any) -> Tensor:
    """A number as a tensor without dimensions."""
    return rushlight.tensor(v, dtype=dtype)


def has_nonzero(t: Tensor) -> bool:
    return bool(t._array.any())


def element_of(t: Tensor) -> Any:
    return t._array.item()


def shape_of(t: Tensor) -> tuple:
    return tuple(t._array.shape)


def make_plain(o: Any, kinds: tuple) -> None:
    """Give an object plain values for its parts of some classes."""
    if o is None:
        return
    if o.__class__ is types.CellType:
        with contextlib.suppress(ValueError):  # it is empty
            if isinstance(o.cell_contents, kinds):
                o.cell_contents = plain(o.cell_contents)
    elif isinstance(o, dict):
        found = {k: plain(v) for k, v in dict.items(o) if isinstance(v, kinds)}
        dict.update(o, found)  # a subclass may have another
        if o.__class__ not in DICTIONARIES:
            make_plain(getattr(o, "__dict__", None), kinds)
    elif isinstance(o, (list, collections.deque)):
        for k, v in enumerate(o):
            if isinstance(v, kinds):
                o[k] = plain(v)
    elif not isinstance(o, (set, frozenset)):
        if isinstance(o, BaseException):
            o.args = plain(o.args)
        make_plain(getattr(o, "__dict__", None), kinds)
        for name in getattr(type(o), "__slots__", ()):
            if isinstance(v := getattr(o, name, None), kinds):
                object.__setattr__(o, name, plain(v))
