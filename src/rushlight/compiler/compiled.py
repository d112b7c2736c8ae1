"""Compiled functions: the programs of a function, which one is right for a call, and when to give up."""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from rushlight.amp import autocast_mode
from rushlight.autograd.state import active, thread
from rushlight.compiler import (  # noqa: F401 - the interpreter finds them
    instructions,
    instructions_objects,
)
from rushlight.compiler.capture import Capture, is_operator
from rushlight.compiler.interpreter import Frame, frame_of, run
from rushlight.compiler.program import Program
from rushlight.compiler.reads import state
from rushlight.compiler.steps import Stop, Unsupported, plain
from rushlight.compiler.taking_back import UNSEEN
from rushlight.core.tensor import Tensor
from rushlight.dispatch.transforms import opened
from rushlight.nn.module import Module

MOST_PROGRAMS = 8  # of one function
AT_ONCE = (
    2  # programs; after these, sizes that come once run as written: those of a text that grows, say
)
MOST_SIZES = 4096  # that are remembered
MOST_ATTEMPTS = 3  # that end without a program, one after the other
MOST_RAISED = 16  # captures that end with an exception
MOST_LOST = 128  # grows by 2 with each call that programs began in vain, falls by 1 with each that one was right for
LOGGED = "compile" in os.environ.get("RUSHLIGHT_LOG", "").split(",")
made: weakref.WeakSet[Compiled] = weakref.WeakSet()


class Off(threading.local):
    """Whether compiled functions of this thread run as they are written."""

    value = False


off = Off()

STANCES = "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"


class Stance:
    """What calls of compiled functions do: one of STANCES, see `torch.compiler.set_stance`."""

    name = "default"


stance = Stance()


class Compiled:
    """A function, and the programs that it became. It is called like the function.

    `programs`: (the modes that were on, the program); `reasons`: why a call became none. A program is right for one
    size of its arguments: the first sizes get theirs at once, others when they come for the second time.
    """

    def __init__(
        self, function: Callable, fullgraph: bool = False, backend: Callable | None = None
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function, self.fullgraph, self.backend = function, fullgraph, backend
        self.lock = threading.RLock()
        self.forget()
        made.add(self)

    def forget(self) -> None:
        """Forget all programs."""
        self.programs: list[tuple[tuple, Program]] = []
        self.reasons: list[str] = []
        self.varying: set[str] = set()
        self.misses = self.lost = self.raised = 0
        self.sizes: set[Any] = set()  # of the arguments of calls that no program was right for

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if off.value or opened or active.modes != autocast_mode._state.enabled + thread.inference:
            return self.function(*args, **kwargs)  # a transform, a profile or another mode watches
        if stance.name == "force_eager":
            return self.function(*args, **kwargs)
        now = state()
        begun = False
        for found in self.programs:
            if found[0] == now and found[1].right(args, kwargs):
                result = found[1].run(args, kwargs)
                if result is not UNSEEN:
                    if begun:
                        self.programs = [found, *[p for p in self.programs if p is not found]]
                    if self.lost:
                        self.lost -= 1
                    return result
                begun = True
        if stance.name == "fail_on_recompile":
            code = getattr(self.function, "__code__", None)
            where = f", {code.co_filename}, line {code.co_firstlineno}" if code is not None else ""
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is 'fail_on_recompile': {self.function!r}{where} "
                f"has {len(self.programs)} programs, none is right for this call"
            )
        if (
            self.misses < MOST_ATTEMPTS
            and len(self.programs) < MOST_PROGRAMS
            and stance.name != "eager_on_recompile"
        ):
            sizes = sizes_of((args, kwargs))
            at_once = AT_ONCE if stance.name == "default" else 0
            if sizes in self.sizes or len(self.programs) < at_once:
                self.sizes.add(sizes)
                return self.captured(args, kwargs)
            if len(self.sizes) < MOST_SIZES:
                self.sizes.add(sizes)
        if begun:
            self.lose()
        return self.function(*args, **kwargs)

    def lose(self) -> None:
        """Note that programs ran in vain; where that is often so, forget those that can."""
        self.lost += 2
        if self.lost > MOST_LOST:
            self.programs = [p for p in self.programs if not p[1].decisions]
            self.misses, self.lost = MOST_ATTEMPTS, 0
            log(f"{self.function} takes too many ways: those that decide by data run as written")

    def __get__(self, o: Any, cls: type | None = None) -> Any:
        return self if o is None else types.MethodType(self, o)

    def __deepcopy__(self, memo: dict) -> Compiled:
        import copy

        return Compiled(copy.deepcopy(self.function, memo), self.fullgraph, self.backend)

    def __reduce__(self) -> tuple:
        return Compiled, (self.function, self.fullgraph, self.backend)

    def captured(self, args: tuple, kwargs: dict) -> Any:
        """Carry out the call, and make a program of it."""
        f, given = self.function, args
        if isinstance(f, Module):
            f = types.MethodType(type(f).__call__, f)
        if isinstance(f, types.MethodType):
            f, given = f.__func__, (f.__self__, *args)
        if isinstance(f, types.FunctionType) and is_operator(f):
            f, given = called, (f, *given)
        frame = frame_of(f, given, kwargs) if isinstance(f, types.FunctionType) else None
        if frame is None or not self.lock.acquire(blocking=False):
            self.gave_up("its bytecode is not interpreted, or another thread compiles it")
            return self.function(*args, **kwargs)
        for _, program in self.programs:
            self.varying |= program.guards.other(args, kwargs)
        c = Capture(self.fullgraph, self.varying)
        try:
            for v in given[: len(given) - len(args)]:
                c.found(v)
            try:
                result = carried_out(c, f, frame, len(given) - len(args), args, kwargs)
            except Exception:
                self.raised += 1
                if self.raised >= MOST_RAISED:
                    self.misses = MOST_ATTEMPTS
                raise
            program = None
            if c.reason is None:
                try:
                    program = Program(c, result, self.backend)
                except Stop as e:
                    c.reason = str(e)
            if program is None:
                self.gave_up(c.reason or "")
            else:
                self.programs.append((c.state, program))
                self.misses = 0
                log(f"{self.function} is compiled: {program.summary()}")
            if c.variables:
                c.make_plain()
            return plain(result) if c.variables else result
        finally:
            if c.variables:
                c.make_plain()
            self.lock.release()

    def gave_up(self, reason: str) -> None:
        """Note why a call became no program."""
        self.misses += 1
        self.reasons.append(reason)
        log(f"{self.function} is not compiled: {reason}")
        if self.fullgraph:
            raise Unsupported(f"torch.compile with fullgraph=True: {reason}")


def called(f: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`, in bytecode that is interpreted."""
    return f(*args, **kwargs)


def sizes_of(v: Any) -> Any:
    """The shapes of the tensors among the arguments of a call; numbers that change are read anew in each run."""
    if isinstance(v, Tensor):
        return v.shape
    if v.__class__ in (list, tuple):
        return tuple(map(sizes_of, v))
    if v.__class__ is dict:
        return tuple([sizes_of(x) for x in v.values()])
    return v if v.__class__ is bool else None


def carried_out(
    c: Capture, f: types.FunctionType, frame: Frame, bound: int, args: tuple, kwargs: dict
) -> Any:
    """The result of a call, whose arguments are guarded and whose operators are recorded."""
    c.guards.add(f"len(args) == {len(args)} and tuple(kwargs) == {tuple(kwargs)!r}")
    parameters = frame.plan.code.co_varnames[
        : f.__code__.co_argcount + f.__code__.co_kwonlyargcount
    ]
    names = parameters[: f.__code__.co_argcount][bound:]
    given = [(f"args[{k}]", v, names[k : k + 1]) for k, v in enumerate(args)]
    given += [(f"kwargs[{k!r}]", v, (k,)) for k, v in kwargs.items()]
    for expression, v, name in given:
        if v.__class__ in (int, float) and name and name[0] in parameters:
            frame.fast[parameters.index(name[0])] = c.held(expression, v)
        else:
            c.argument(expression, v)
    c.take_function(f)
    if c.reason is None:
        c.recorder.start()
    try:
        result = run(frame, c)
    finally:
        c.recorder.leave()
    if c.reason is None and state() != c.state:
        c.stop("a mode that stays on")
    return result


def log(line: str) -> None:
    """Print a line of what RUSHLIGHT_LOG=compile asks for."""
    if LOGGED:
        print(f"rushlight compile: {line}", file=sys.stderr)


def disabled(fn: Callable) -> Callable:
    """`fn` as it is written, with all that it calls."""

    @functools.wraps(fn)
    def as_written(*args: Any, **kwargs: Any) -> Any:
        before, off.value = off.value, True
        try:
            return fn(*args, **kwargs)
        finally:
            off.value = before

    as_written._torchdynamo_disable = True  # type: ignore[attr-defined]
    return as_written


def reset() -> None:
    """Forget all programs of all compiled functions."""
    for c in [*made]:
        c.forget()
