"""Compiled functions: the programs of a function, which one is right for a call, and when to give up.

Note [Sizes of arguments]
    A program is right for one size of its arguments, so that programs are kept by these sizes. The first two sizes get a
    program at once, as most functions see no more. Each further one must have come twice as often as the one before: 2, 4, 8...
    times, so that what grows by a token in each call is captured a few times and no more. A size that came WORTH times is
    captured however many there are: it has lost by then what its capture takes, about WORTH times what a program saves.
    All other calls run as they are written. Integers that change, and the sizes of views that follow from them, are read
    anew in each run instead: Note [Sizes that change] in capture/sizes.py.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.amp import autocast_mode
from rushlight.autograd.state import active, thread
from rushlight.compiler.capture import (  # noqa: F401 - the interpreter finds them
    instructions,
    instructions_objects,
)
from rushlight.compiler.capture.bytecode import is_operator
from rushlight.compiler.capture.capture import Capture
from rushlight.compiler.capture.interpreter import Frame, frame_of, run
from rushlight.compiler.capture.reads import state
from rushlight.compiler.capture.steps import (
    Continuation,
    FailOnRecompileLimitHit,
    RecompileError,
    Split,
    Stop,
    Unsupported,
    plain,
)
from rushlight.compiler.program import Program
from rushlight.compiler.rollback import UNSEEN
from rushlight.compiler.switches import switches
from rushlight.core import modes
from rushlight.core.tensor import Tensor
from rushlight.dispatch.transforms import opened
from rushlight.nn.module import Module

MOST_KEPT = 64  # sizes of one function that have programs
WORTH = 128  # calls of a program, which save what its capture takes
MOST_SIZES = 4096  # that are remembered
MOST_SITES = 8  # of calls that are not interpreted, of one function
MOST_SPLITS = 128  # of one call
MOST_ATTEMPTS = 3  # that end without a program, one after the other
MOST_RAISED = 16  # captures that end with an exception
MOST_LOST = 128  # grows by 2 with each call that programs began in vain, falls by 1 with each that one was right for
made: weakref.WeakSet[Compiled] = weakref.WeakSet()


class Off(threading.local):
    """Whether compiled functions of this thread run as they are written."""

    value = False


off = Off()


class Printing:
    """Whether compiled functions print what became of their calls: RUSHLIGHT_LOG=compile, `torch._logging.set_logs`."""

    value = "compile" in os.environ.get("RUSHLIGHT_LOG", "").split(",")


printing = Printing()

STANCES = "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"


class Stance:
    """What calls of compiled functions do: one of STANCES, see `torch.compiler.set_stance`."""

    name = "default"


stance = Stance()


class Compiled:
    """A function, and the programs that it became. It is called like the function.

    `of_sizes`: by the sizes of arguments, (the modes that were on, `as_compared`, the program); `only`: the sizes and these where there are
    no others; `reasons`: why a call became none. `each_size`: each new size gets a program at once, see Note [Sizes of arguments].
    """

    def __init__(
        self, function: Callable, fullgraph: bool = False, backend: Callable | None = None,
        each_size: bool = False,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function, updated=())
        self.function, self.fullgraph, self.backend = function, fullgraph, backend
        self.each_size = each_size
        self.root = self  # of a rest: the function that was split
        self.depth = 0  # and how many calls split it before
        self.lock = threading.RLock()
        self.forget()
        made.add(self)

    def forget(self) -> None:
        """Forget all programs."""
        self.of_sizes: dict[Any, list[tuple[tuple, Program]]] = {}
        self.only: tuple[Any, list[tuple[tuple, Program]]] | None = (None, [])
        self.reasons: list[str] = []
        self.varying: set[str] = set()
        self.misses = self.lost = self.raised = self.rests = self.interpreted_rests = 0
        self.behind: tuple | None = None  # the program that was right where the first was not
        self.splits = True
        self.foreign: dict[Any, str] = {}  # see Note [Splits]
        self.rests_at: dict[types.CodeType, list] = {}  # the rests of all parts
        self.came: dict[Any, int] = {}  # how often sizes came that have no program

    @property
    def programs(self) -> list[tuple[tuple, Program]]:
        """All programs, with the modes that were on."""
        return [p for programs in [*self.of_sizes.values()] for p in programs]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if off.value or opened or stance.name == "force_eager":
            return self.function(*args, **kwargs)  # a transform watches
        if not active.modes:
            now = thread.grad, autocast_mode._state.dtype, modes._default_dtype, modes.thread.device
        elif active.modes != autocast_mode._state.enabled + thread.inference:
            return self.function(*args, **kwargs)  # a profile or another mode watches
        else:
            now = state()
        begun = raised = False
        if (only := self.only) is not None:
            sizes, programs = only
        else:
            sizes = sizes_of((args, kwargs))
            programs = self.of_sizes.get(sizes, [])
        for found in programs:
            if found[0] == now and found[1].holds(args, kwargs):
                try:
                    result = found[1].run(args, kwargs)
                except Exception as e:
                    if not found[1].can_repeat(e):
                        raise
                    raised = True
                    break
                if result is not UNSEEN:
                    if begun or self.behind is not None:
                        self.prefer(found if begun else None, programs, sizes)
                    if self.lost:
                        self.lost -= 1
                    return result if result.__class__ is not Continuation else self.led(result)
                begun = True
        if raised:  # the function may do something before it raises, or handle that
            return self.function(*args, **kwargs)
        if stance.name == "fail_on_recompile":
            code = getattr(self.function, "__code__", None)
            where = f", {code.co_filename}, line {code.co_firstlineno}" if code is not None else ""
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is 'fail_on_recompile': {self.function!r}{where} "
                f"has {len(self.programs)} programs, none is right for this call"
            )
        if (
            self.misses < MOST_ATTEMPTS
            and stance.name != "eager_on_recompile"
            and not switches.disable
        ):
            if only is not None:
                sizes = sizes_of((args, kwargs))
            if self.is_worth(sizes) and self.check_limits():
                result = self.captured(args, kwargs, sizes)
                return result if result.__class__ is not Continuation else self.led(result)
        if begun:
            self.lose()
        return self.function(*args, **kwargs)

    def led(self, o: Any) -> Any:
        """What a call comes to behind its first part: one part after the other, however many there are."""
        while o.__class__ is Continuation:
            o = o.rest.after(o)
        return o

    def is_worth(self, sizes: Any) -> bool:
        """Whether a call that no program is right for shall become one, see Note [Sizes of arguments]."""
        programs = self.of_sizes.get(sizes)
        if programs:
            return len(programs) < switches.recompile_limit
        came = self.came.get(sizes, 0) + 1
        if came > 1 or len(self.came) < MOST_SIZES:
            self.came[sizes] = came
        others = len(self.of_sizes)
        needed = 1 if self.each_size or not others else min(1 << others - 1, WORTH)
        if stance.name == "eager_then_compile":
            needed = max(needed, 2)
        return came >= needed and others < MOST_KEPT

    def check_limits(self) -> bool:
        """Whether there may be one program more; RecompileError or FailOnRecompileLimitHit where switches say so."""
        n = len(self.programs)
        if n and switches.error_on_recompile:
            raise RecompileError(f"Recompiling {self.function}: none of its {n} programs is right")
        if n >= switches.recompile_limit and switches.fail_on_recompile_limit_hit:
            raise FailOnRecompileLimitHit(
                f"recompile_limit reached with fail_on_recompile_limit_hit=True: {self.function} has {n} programs"
            )
        return n < switches.accumulated_recompile_limit

    def keep(self, programs: list[tuple[tuple, Program]], sizes: Any) -> None:
        """Keep the programs of one size of arguments."""
        self.of_sizes[sizes] = programs
        self.came.pop(sizes, None)
        self.only = (sizes, programs) if len(self.of_sizes) == 1 else None

    def prefer(self, found: tuple | None, programs: list, sizes: Any) -> None:
        """Try a program first that was right twice in a row where the first was not; None: the first was right."""
        if found is not None and found is self.behind:
            self.keep([found, *[p for p in programs if p is not found]], sizes)
            found = None
        self.behind = found

    def split_no_more(self, reason: str) -> None:
        """Run as written what programs with a rest were made for."""
        if self.splits:
            self.splits = False
            for sizes, programs in [*self.of_sizes.items()]:
                self.keep([p for p in programs if p[1].rest is None], sizes)
            log(f"{self.described} is split no more: {reason}")

    def lose(self) -> None:
        """Note that programs ran in vain; where that is often so, forget those that can."""
        self.lost += 2
        if self.lost > MOST_LOST:
            for sizes, programs in [*self.of_sizes.items()]:
                self.keep([p for p in programs if not p[1].decisions], sizes)
            self.misses, self.lost = MOST_ATTEMPTS, 0
            log(f"{self.described} takes too many ways: those that decide by data run as written")

    @property
    def described(self) -> str:
        """What it is, for a line of the log."""
        return f"{self.function}"

    def __get__(self, o: Any, cls: type | None = None) -> Any:
        return self if o is None else types.MethodType(self, o)

    def __deepcopy__(self, memo: dict) -> Compiled:
        import copy

        return Compiled(copy.deepcopy(self.function, memo), *self.asked)

    def __reduce__(self) -> tuple:
        return Compiled, (self.function, *self.asked)

    @property
    def asked(self) -> tuple:
        """What a compiled function is made with besides the function."""
        return self.fullgraph, self.backend, self.each_size

    def beginning(self, args: tuple, kwargs: dict) -> Callable[[Capture], Any] | None:
        """A function that carries a call out in a capture; None where its bytecode is not interpreted."""
        f, given = self.function, args
        if isinstance(f, Module):
            f = types.MethodType(type(f).__call__, f)
        if isinstance(f, types.MethodType):
            f, given = f.__func__, (f.__self__, *args)
        if isinstance(f, types.FunctionType) and is_operator(f):
            f, given = called, (f, *given)
        frame = frame_of(f, given, kwargs) if isinstance(f, types.FunctionType) else None
        if frame is None:
            return None

        def carry_out(c: Capture) -> Any:
            for v in given[: len(given) - len(args)]:
                c.found(v)
            return carried_out(c, f, frame, len(given) - len(args), args, kwargs)

        return carry_out

    def captured(self, args: tuple, kwargs: dict, sizes: Any) -> Any:
        """Carry out the call, and make a program of it."""
        from rushlight.compiler import splits  # a Rest is a Compiled

        carry_out = self.beginning(args, kwargs)
        if carry_out is None or not self.lock.acquire(blocking=False):
            self.gave_up("its bytecode is not interpreted, or another thread compiles it")
            return self.function(*args, **kwargs)
        alike = self.of_sizes.get(sizes, [])
        for _, program in (*alike, *self.programs[-1:]):
            self.varying |= program.guards.other(args, kwargs)
        c = Capture(self.fullgraph, self.varying)
        c.foreign = self.root.foreign
        c.splits = self.root.splits and self.depth < MOST_SPLITS and not self.fullgraph
        try:
            try:
                result = carry_out(c)
            except Split as s:
                go_on = splits.split(self, c, s, alike, sizes)
            except Exception:
                self.raised += 1
                if self.raised >= MOST_RAISED:
                    self.misses = MOST_ATTEMPTS
                c.let_go()
                raise
            else:
                self.keep_program(c, lambda: Program(c, result, self.backend), alike, sizes)
                if c.variables:
                    c.make_plain()
                return plain(result) if c.variables else result
        finally:
            if c.within is not None:
                self.root.split_no_more(c.within)
            if c.variables:
                c.make_plain()
            self.lock.release()
        return go_on()

    def keep_program(
        self, c: Capture, make: Callable[[], Program], alike: list, sizes: Any
    ) -> Program | None:
        """Make a program of a capture and keep it; None where there can be none, which is noted."""
        program = None
        if c.reason is None:
            try:
                program = make()
            except Stop as e:
                c.reason, c.sites = str(e), c.sites or e.sites
            except RecursionError:
                c.reason = "a list or an object that is a part of itself"
            except Exception as e:
                if self.backend is None or not switches.suppress_errors:
                    raise
                c.reason = f"its back end raised {e!r}"
        if program is None:
            self.gave_up(c.reason or "", c.sites)
        else:
            self.keep([*alike, (as_compared(c.state), program)], sizes)
            self.misses = 0
            log(f"{self.described} is compiled: {program.summary()}")
        return program

    def gave_up(self, reason: str, sites: Sequence = ()) -> None:
        """Note why a call became no program. `sites`: where the next one may be split before it comes so far."""
        site = next((s for s in sites if s not in self.root.foreign), None)
        cause = reason.partition(" (")[0]
        # What is met once may be so in a first call alone.
        again = any(r.startswith(cause) for r in self.reasons)
        if again and site is not None and self.root.splits and len(self.root.foreign) < MOST_SITES:
            self.root.foreign[site] = cause
        else:
            self.misses += 1
        self.reasons.append(reason)
        log(f"{self.described} is not compiled: {reason}")
        if self.fullgraph:
            raise Unsupported(f"torch.compile with fullgraph=True: {reason}")


def as_compared(now: tuple) -> tuple:
    """What calls compare of a state: where no mode is on, what is left of it."""
    grad, inference, casts, dtype, *stacks, default, device = now
    return now if inference or casts or any(stacks) else (grad, dtype, default, device)


def called(f: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """`f(*args, **kwargs)`, in bytecode that is interpreted."""
    return f(*args, **kwargs)


def sizes_of(v: Any) -> Any:
    """The shapes of the tensors among the arguments of a call; numbers that change are read anew in each run, and lists of
    numbers may grow."""
    kind = v.__class__
    if kind is Tensor:
        return v._array.shape
    if kind is tuple:
        return tuple([sizes_of(x) for x in v])
    if kind is list:
        found = [sizes_of(x) for x in v]
        return tuple(found) if any(s is not None for s in found) else None
    if kind is dict:
        return tuple([sizes_of(x) for x in v.values()])
    if isinstance(v, Tensor):
        return v.shape
    if isinstance(v, dict):
        return tuple([sizes_of(x) for x in dict.values(v)])
    return v if kind is bool else None


def carried_out(
    c: Capture, f: types.FunctionType, frame: Frame, bound: int, args: tuple, kwargs: dict
) -> Any:
    """The result of a call, whose arguments are guarded and whose operators are recorded."""
    c.guards.add(f"len(args) == {len(args)} and tuple(kwargs) == {tuple(kwargs)!r}")
    code = frame.plan.code
    n = code.co_argcount + code.co_kwonlyargcount
    positional = code.co_argcount - bound  # of the arguments
    slots = {name: k for k, name in enumerate(code.co_varnames[:n])}
    for k, v in enumerate(args):
        if v.__class__ not in (int, float):
            c.argument(f"args[{k}]", v)
        elif k < positional:
            frame.fast[k + bound] = c.held(f"args[{k}]", v)
        else:
            more = frame.fast[n]  # of `*args`
            at = k - positional
            frame.fast[n] = *more[:at], c.held(f"args[{k}]", v), *more[at + 1 :]
    for name, v in kwargs.items():
        expression = f"kwargs[{name!r}]"
        if v.__class__ not in (int, float):
            c.argument(expression, v)
        elif name in slots:
            frame.fast[slots[name]] = c.held(expression, v)
        else:
            more = frame.fast[n + bool(code.co_flags & 0x04)]  # of `**kwargs`
            more[name] = c.held(expression, v)
    c.take_function(f)
    return recorded(c, lambda: run(frame, c))


def recorded(c: Capture, carry_out: Callable[[], Any]) -> Any:
    """What `carry_out` gives, whose operators are recorded."""
    if c.reason is None:
        c.recorder.start()
    try:
        result = carry_out()
    finally:
        c.recorder.leave()
    if c.reason is None and state() != (c.grad_after, *c.modes_after, *c.state[4:]):
        c.stop("a mode that stays on")
    return result


def log(line: str) -> None:
    """Print a line of what RUSHLIGHT_LOG=compile or `set_logs` asks for."""
    if printing.value:
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
