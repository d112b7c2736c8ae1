"""What stands in a program for a Python value that each run makes or finds anew."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.autograd.graph import version_of
from rushlight.autograd.views import View
from rushlight.compiler.capture.guards import constant, derivable
from rushlight.compiler.capture.steps import RUNTIME, Stop, is_code
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.compiler.capture.recording import Recorder, Value


class Outside:
    """An object that was there before, by its expression."""

    def __init__(self, expression: str) -> None:
        self.expression = expression


class Made:
    """A tensor that a program makes; the same object wherever it stands. `base`: what it is a view of, without a history."""

    def __init__(self, value: Value, t: Tensor, base: Made | None = None) -> None:
        self.value, self.tensor, self.base = value, t, base


class Viewed:
    """A view of a tensor that was there before, which is made anew."""

    def __init__(self, t: Tensor, base: Outside) -> None:
        self.tensor, self.base = t, base


class Constant:
    """A value that is the same in each run."""

    def __init__(self, v: Any) -> None:
        self.v = v


class Container:
    """A list, tuple or dictionary that is made anew."""

    def __init__(self, kind: type, parts: list, keys: list | None, origin: Any) -> None:
        self.kind, self.parts, self.keys, self.origin = kind, parts, keys, origin
        self.make = getattr(origin, "default_factory", None)  # of a `defaultdict`
        self.items = False  # whether the last part is the dictionary of an object's items


PLAIN_CONSTRUCTORS = (object.__new__, dict.__new__, collections.OrderedDict.__new__)


# Of the flags of a class: classes of a `class` statement stand on the heap and can be changed. From Python 3.12 on
# some classes of C stand there, too (`defaultdict`), which cannot be changed.
IN_PYTHON = 1 << 9
CLASS_FLAGS = IN_PYTHON | 1 << 8


def plain_instance(v: Any) -> bool:
    """Whether an object is nothing but the dictionary of its attributes, and its items if its class is one of dictionaries."""
    cls = type(v)
    own = [c for c in cls.__mro__ if c not in (object, dict, collections.OrderedDict)]
    return (
        cls.__new__ in PLAIN_CONSTRUCTORS
        and cls in own
        and all(
            c.__flags__ & CLASS_FLAGS == IN_PYTHON and not vars(c).get("__slots__") for c in own
        )
        and not isinstance(v, (rushlight.nn.Module, rushlight.optim.Optimizer))
        and not any(c.__module__.startswith(("rushlight.", "torch.")) for c in own)
    )


def instance(kind: type, attributes: dict, items: dict | None = None) -> Any:
    """An object of a class, with these attributes and items."""
    o = kind.__new__(kind)
    vars(o).update(attributes)
    fill(o, items or {})
    return o


def fill(o: Any, items: dict) -> None:
    """Give a dictionary items, not by its own methods."""
    base = collections.OrderedDict if isinstance(o, collections.OrderedDict) else dict
    for k, v in items.items():
        base.__setitem__(o, k, v)


def takes_tensors(v: Any) -> bool:
    """Whether tensors are among what a template stands for."""
    return isinstance(v, (Made, Viewed)) or (
        isinstance(v, Container) and any(map(takes_tensors, v.parts))
    )


def containers_in(t: Any) -> Iterator[Container]:
    """A template of a container, and those in it."""
    if isinstance(t, Container):
        yield t
        for part in t.parts:
            yield from containers_in(part)


def made_in(t: Any) -> Iterator[Made]:
    """The tensors that a template makes."""
    if isinstance(t, Made):
        yield t
    for container in containers_in(t):
        yield from [part for part in container.parts if isinstance(part, Made)]


def base_of(r: Recorder, t: Tensor) -> Made | None:
    """The base of a view that the function made, where both have no history: a write may give them one."""
    if t._edge.__class__ is not View or t.requires_grad:
        return None
    base = t._edge.base
    found = r.value_of(base)
    if found is None or found.graph is None or type(base) is not Tensor:
        return None
    made = template(r, base)
    return made if isinstance(made, Made) else None


def template(r: Recorder, v: Any) -> Any:
    """What stands for a value in each run. `Stop` where nothing can."""
    c = r.capture
    if v.__class__ in RUNTIME:
        return Outside(v.expression)
    if constant(v):
        return Constant(v)
    if id(v) in c.outside and c.outside[id(v)][0] is v:
        found = c.outside[id(v)][1]
        return Outside(found if found in c.guards.names else r.read_first(found))
    if isinstance(v, Tensor):
        if not derivable(v):
            raise Stop("a view that cannot be derived again from its base")
        if (stepped := r.stepped.get(id(v))) is not None and stepped[0] is v:
            if v.requires_grad:
                raise Stop("a tensor by an integer that changes, which got a history")
            return Outside(stepped[1])
        found = r.value_of(v)
        if found is None:
            raise Stop("a tensor of unknown origin")
        found.kept = True
        if found.tensor is v:
            return Outside(found.expression)
        if type(v) is not Tensor:
            raise Stop(f"a tensor of class {type(v).__name__}")
        if v._edge.__class__ is View and id(version_of(v)) in r.counters:
            base = r.value_of(v._edge.base)
            if (
                base is None
                or base.tensor is not v._edge.base
                or v.requires_grad != base.tensor.requires_grad
                or v.requires_grad
                and v.is_leaf  # made in inference mode
            ):
                raise Stop("a view of a view, or without its history, that is kept")
            return Viewed(v, Outside(base.expression))
        return Made(found, v, base_of(r, v))
    if v.__class__ is slice:
        parts = [template(r, x) for x in (v.start, v.stop, v.step)]
        return Container(slice, parts, None, v)
    if v.__class__ in (list, tuple, set):
        return Container(v.__class__, [template(r, x) for x in v], None, v)
    if id(v) in c.inside and plain_instance(v):
        made = Container(v.__class__, [template(r, x) for x in vars(v).values()], [*vars(v)], v)
        if isinstance(v, dict):
            made.parts.append(template(r, dict(dict.items(v))))
            made.items = True
        return made
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return Container(v.__class__, [template(r, x) for x in v], None, v)
    if (
        v.__class__ in (dict, collections.OrderedDict, collections.defaultdict)
        and id(getattr(v, "default_factory", None)) not in c.inside
    ):
        return Container(
            v.__class__, [template(r, x) for x in v.values()], [template(r, k) for k in v], v
        )
    if is_code(v) and id(v) not in c.inside:
        return Constant(v)
    raise Stop(f"a {type(v).__name__} that the function made and keeps")
