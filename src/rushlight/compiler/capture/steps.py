"""What a program does between graphs: steps, decisions, and the values that each run computes anew."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

TAKEN_BACK = ("reads", "clock", "draws", "writes")  # kinds of steps that a run can take back


class Unsupported(RuntimeError):
    """What `fullgraph=True` raises where a function does not become one program."""


class RecompileError(RuntimeError):
    """What a second program of a function raises with `torch._dynamo.config.error_on_recompile`."""


class FailOnRecompileLimitHit(Exception):
    """What one program more than `recompile_limit` raises with `torch._dynamo.config.fail_on_recompile_limit_hit`."""


class Stop(Exception):
    """What a program cannot hold was met before anything was done. `sites`: where a split would help, the innermost first."""

    def __init__(self, reason: str, sites: Sequence = ()) -> None:
        super().__init__(reason)
        self.sites = sites


class Split(BaseException):
    """What ends a capture at a call that no program holds, see Note [Splits]: `f(*args, **kwargs)`, in the innermost of
    the frames. `grad`: whether calls are recorded there."""

    def __init__(
        self, reason: str, f: Any, args: tuple, kwargs: dict, frames: list, grad: bool
    ) -> None:
        self.reason, self.f, self.args, self.kwargs, self.frames = reason, f, args, kwargs, frames
        self.grad = grad


class END:
    """What stands for the element behind the last one that an iterator gives."""


class Continuation:
    """The result of a program that ends with a call of `f`, which no program holds: after it, `rest` goes on with `values`."""

    __slots__ = ("args", "f", "kwargs", "rest", "values")

    def __init__(self, rest: Any, f: Callable, args: tuple, kwargs: dict, values: tuple) -> None:
        self.rest, self.f, self.args, self.kwargs, self.values = rest, f, args, kwargs, values


class Step:
    """Something that each run of a program does between graphs: `f(*args, **kwargs)`.

    `args`, `kwargs`: values, and from `describe` on templates (those of `recording`); `result`: the variable that its result is assigned to. `kind`:
    "reads" gives a value and does nothing else, "draws" takes from `source`, a stream of random numbers; "writes" writes to the memory of `source`, a value from outside; "changes" changes
    Python's objects or prints, which nothing in the program but "calls" can see; "clears" is such a change that lets go
    of gradients; "calls" is anything else.
    """

    def __init__(
        self, f: Callable, args: list, kwargs: dict, kind: str, source: Any = None
    ) -> None:
        self.f, self.args, self.kwargs, self.kind, self.source = f, args, kwargs, kind, source
        self.result: str | None = None
        self.handled = False  # whether a run that raises here is taken back
        self.sites: Sequence = ()  # the calls that it is done in, see Note [Splits]

    def describe(self, template: Callable[[Any], Any]) -> None:
        """Put templates in the places of values, which stand for what these are by now."""
        self.args = [*map(template, self.args)]
        self.kwargs = {k: template(v) for k, v in self.kwargs.items()}


class Decision:
    """A place from which a program goes on only if a variable of it has the `value` that it had in the capture."""

    def __init__(self, variable: str, value: Any, reason: str) -> None:
        self.variable, self.value, self.reason = variable, value, reason


class RuntimeFloat(float):
    """A number that each run computes anew, such as `t.item()`, by the name of its variable there."""

    expression: str


class RuntimeInt(int):
    """As `RuntimeFloat`, for integers."""

    expression: str


class RuntimeStr(str):
    """As `RuntimeFloat`, for strings."""

    __slots__ = ("expression",)


RUNTIME = {RuntimeFloat: float, RuntimeInt: int, RuntimeStr: str}
for _kind, _plain in RUNTIME.items():  # errors of Python's operators name the class of a value
    _kind.__name__ = _kind.__qualname__ = _plain.__name__
RUNTIME_CLASSES: dict[type, type] = {plain: kind for kind, plain in RUNTIME.items()}


def plain(v: Any) -> Any:
    """A value with plain ones for those that each run computes anew; the very value where there are none."""
    if v.__class__ in RUNTIME:
        return RUNTIME[v.__class__](v)
    if v.__class__ is tuple:
        made = tuple(map(plain, v))
        return made if any(map(operator.is_not, made, v)) else v
    if isinstance(v, tuple) and hasattr(v, "_make"):
        named = v._make(map(plain, v))
        return named if any(map(operator.is_not, named, v)) else v
    if v.__class__ is list:
        made = [*map(plain, v)]
        return made if any(map(operator.is_not, made, v)) else v
    if v.__class__ is dict:
        kept = {k: plain(x) for k, x in v.items()}
        return kept if any(x is not v[k] for k, x in kept.items()) else v
    return v


def is_code(v: Any) -> bool:
    """Whether an object is a function, a class or a module: what it is does not change, its attributes are guarded."""
    return isinstance(v, (types.FunctionType, type, types.ModuleType, types.BuiltinFunctionType))
