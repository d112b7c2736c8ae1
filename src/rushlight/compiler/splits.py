"""What is left of a call behind a call that no program holds.

Note [Splits]
    A capture that meets a call which no program can hold (`Capture.as_written`) ends there: what came before becomes a
    program, which ends with that call, as it is written, and hands its result and all that the function needs from
    there on to a `Rest`. A rest is called with these values as a compiled function is with arguments, and becomes a
    program, or several, in the same way.

    A loop over an iterator from outside, such as a loader of data, is split where it takes an element. The rest of a pass
    is that of the pass before, so that a loop has a few programs, however often it runs; and one part goes on after the
    other (`Compiled.led`), not within it.

    A call is split only where nothing but the frames of its functions is in the middle of something, and each of them
    waits for the result of a call: not in a function that a built-in function called, nor in a generator or the handler of
    an exception, nor while a generator waits in a `try`. In a block of `no_grad` the program of the rest begins with calls not recorded, and ends as the block
    does; blocks of autocast and inference mode are left behind a part and entered again before the next (`blocks.py`). All
    that the rest needs must be values that a program can give (numbers, tensors, lists of them, objects from outside) or
    can be made anew: functions, iterators, and objects of the function that nothing else holds.

    Where a call cannot be split, or a capture is given up for the same reason twice, the next capture does not interpret
    the innermost call around it at which it can be (`foreign`), and is split there. A function without such a place runs
    as it is written; so it does from then on where a rest becomes no program, since interpreted bytecode is slow.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.amp import autocast_mode
from rushlight.autograd.state import active, thread
from rushlight.compiler.capture.blocks import modes, set_modes
from rushlight.compiler.capture.frame_layouts import Layout, alike, is_bound, reached
from rushlight.compiler.capture.guards import constant
from rushlight.compiler.capture.histories import asks_within
from rushlight.compiler.capture.instructions import end_loop
from rushlight.compiler.capture.interpreter import NULL, Frame, Watch, resume, sites
from rushlight.compiler.capture.reads import CONTAINERS
from rushlight.compiler.capture.steps import END, Continuation, Split, Stop, is_code, plain
from rushlight.compiler.capture.templates import plain_instance
from rushlight.compiler.compiled import Compiled, recorded
from rushlight.compiler.program import Program
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.compiler.capture.capture import Capture

MOST_ALIKE = 8  # programs of a rest for one size of its values
MOST_INTERPRETED = 16  # calls of rests without a program, of one function; and one of 64 of all


def is_foreign(v: Any, c: Capture) -> bool:
    """Whether a value is an object of a class that captures know nothing of."""
    if constant(v) or isinstance(v, (Tensor, tuple, types.MethodType)) or is_code(v):
        return False
    if v.__class__ is list and all(map(constant, v)):  # one that grows, such as losses
        return id(v) not in c.outside
    return v.__class__ not in CONTAINERS and id(v) not in c.outside


def go_on(frames: list[Frame], watch: Watch, r: Any, error: BaseException | None = None) -> Any:
    """The result of a call whose frames wait for results, the innermost for `r`, or for an exception."""
    for frame in frames:
        watch.entered(frame)
    while frames:
        frame = frames.pop()
        if r is END and frame.instruction == "FOR_ITER":
            end_loop(frame, frame.plan.instructions[frame.at - 1])
            r = NULL
        try:
            if error is not None:
                frame.at -= 1  # the call raises
            _, r = resume(frame, watch, r, None if error is None else [error])
            error = None
        except Split:
            raise
        except BaseException as e:
            error = e
        watch.left(frame)
    if error is not None:
        try:
            raise error
        finally:
            del error  # whose traceback holds this frame: waiting generators end where it is let go
    return r


class Whole(Watch):
    """Looks for calls in a rest that ask for what is within the history of an earlier part."""

    def __init__(self, root: Compiled) -> None:
        self.root = root

    def call(self, frame: Frame, f: Any, args: tuple, kwargs: dict) -> Any:
        if (reason := asks_within(f, args, kwargs)) is not None:
            self.root.split_no_more(reason)
        return super().call(frame, f, args, kwargs)


class Rest(Compiled):
    """What a function does behind a call that no program holds: called with the result of that call, and with values."""

    def __init__(self, before: Compiled, layout: Layout) -> None:
        super().__init__(self.interpreted, before.fullgraph, before.backend, True)
        self.layout, self.depth, self.root = layout, before.depth + 1, before.root

    def interpreted(self, r: Any, *values: Any) -> Any:
        """The rest as it is written, by the interpreter of its bytecode."""
        self.root.interpreted_rests += 1
        if self.root.interpreted_rests > MOST_INTERPRETED + self.root.rests // 64:
            self.root.split_no_more(
                "what follows a call that no program holds is another one each time"
            )
        return go_on(self.layout.frames_of(values), Whole(self.root), r)

    def after(self, o: Continuation) -> Any:
        """The rest, behind a call that was split."""
        self.root.rests += 1
        grad = thread.grad = self.layout.grad
        if self.layout.modes.some:
            self.layout.modes.enter()
        try:
            r = o.f(*o.args, **o.kwargs)
        except BaseException as e:
            return go_on(self.layout.frames_of(o.values), Watch(), None, e)
        nesting = autocast_mode._state.nesting, active.modes
        try:
            return self(r, *o.values)
        except BaseException:  # did a program raise, or the frames, which end their blocks?
            if thread.grad == grad:
                thread.grad = self.layout.grad_after
            now = autocast_mode._state.nesting, active.modes  # a block may change no mode
            if (modes(), now) == (self.layout.modes.inside, nesting) and self.layout.modes.some:
                self.layout.modes.leave()
            raise

    def led(self, o: Continuation) -> Continuation:
        return o  # the function that was split goes on

    def beginning(self, args: tuple, kwargs: dict) -> Callable[[Capture], Any]:
        def carry_out(c: Capture) -> Any:
            c.guards.add(f"len(args) == {len(args)}")
            for v in self.layout.fixed():
                c.found(v)
            given = [taken(c, f"args[{k}]", v) for k, v in enumerate(args)]
            c.grad_after = self.layout.grad_after
            c.outside_modes = self.layout.modes.outside
            c.modes_after = c.outside_modes[:3]
            c.leaves = self.layout.modes if self.layout.modes.some else None
            frames = self.layout.frames_of(given[1:], c.new)
            for o in self.layout.iterated(given[1:]):
                c.guard_contents(o)
            return recorded(c, lambda: go_on(frames, c, given[0]))

        return carry_out

    @property
    def described(self) -> str:
        frame = self.layout.frames[-1]
        code, line = frame.plan.code, frame.plan.instructions[frame.at - 1].line
        return f"the rest of {self.root.function} behind {code.co_filename}:{line}"

    def is_worth(self, sizes: Any) -> bool:
        return len(self.of_sizes.get(sizes, ())) < MOST_ALIKE and super().is_worth(sizes)

    def gave_up(self, reason: str, sites: Sequence = ()) -> None:
        super().gave_up(reason, sites)
        if self.misses > 1:
            self.root.split_no_more(reason)


def taken(c: Capture, expression: str, v: Any) -> Any:
    """A value that a rest is called with: guarded, and as the capture goes on with it."""
    if v.__class__ in (int, float):
        return c.held(expression, v)
    if v.__class__ is tuple and any(x.__class__ in (int, float) for x in v):
        c.guards.add(f"{expression}.__class__ is tuple and len({expression}) == {len(v)}")
        return tuple([taken(c, f"{expression}[{k}]", x) for k, x in enumerate(v)])
    if is_foreign(v, c):  # another object each time
        c.guards.add(f"{expression}.__class__ is {c.guards.name(v.__class__)}")
        c.found(v, expression)
        if plain_instance(v) and not isinstance(v, dict):
            c.argument(f"{expression}.__dict__", vars(v))
    else:
        c.argument(expression, v)
    return v


def split(before: Compiled, c: Capture, s: Split, alike: list, sizes: Any) -> Callable[[], Any]:
    """Keep a program of what came before the call at which a capture ended. Returns what goes on with that call."""
    made: list[Any] = []
    s.__traceback__ = None  # it holds the frames of the capture, which hold what goes on with `s`
    thread.grad, here = c.state[0], modes()

    def make() -> Program:
        try:
            call = *unbound(s.f, s.args), s.kwargs
            steps = [(x.args, x.kwargs) for x in c.recorder.waiting_steps()]
            away = reached([call, steps], c.inside)
            layout = Layout(s.frames, c, away, s.grad)
            set_modes(layout.modes.outside)
            values = tuple(layout.values)
            layout.forget()
            rest = rest_of(before, layout)
            made[:] = rest, (*call, values), layout.modes
            return Program(c, made[1], before.backend, rest)
        except Stop as e:
            c.sites = sites(s.frames)[1:]
            raise Stop(f"{s.reason}, and is not split: {e}") from e

    if before.keep_program(c, make, alike, sizes) is not None:
        before.root.reasons.append(s.reason)
        rest, (f, args, kwargs, values), left = made
        left.leave()
        if not c.variables:
            return lambda: Continuation(rest, f, args, kwargs, values)
        return lambda: Continuation(rest, f, plain(args), plain(kwargs), plain(values))

    set_modes(here)

    def as_written() -> Any:
        thread.grad = s.grad
        args, kwargs = s.args, s.kwargs
        if c.variables:
            args, kwargs = plain(args), plain(kwargs)
            for frame in s.frames:
                frame.make_plain()
        try:
            r = s.f(*args, **kwargs)
        except BaseException as e:
            return go_on(s.frames, Watch(), None, e)
        return go_on(s.frames, Watch(), r)

    return as_written


def rest_of(before: Compiled, layout: Layout) -> Rest:
    """The rest for a layout: in the next pass of a loop the one of the pass before."""
    found = before.root.rests_at.setdefault(layout.frames[-1].plan.code, [])
    for rest in found:
        if alike(rest.layout, layout):
            return rest
    found.append(Rest(before, layout))
    return found[-1]


def unbound(f: Any, args: tuple) -> tuple[Any, tuple]:
    """A call of a function for one of a method, which is another object each time."""
    if isinstance(f, types.MethodType):
        return f.__func__, (f.__self__, *args)
    if is_bound(f):
        return call_method, (f.__self__, f.__name__, *args)
    return f, args


def call_method(o: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    return getattr(o, name)(*args, **kwargs)
