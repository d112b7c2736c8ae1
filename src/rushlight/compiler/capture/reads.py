"""What a captured function reads: each read of an object from outside becomes a guard."""

from __future__ import annotations

import collections
import itertools
import linecache
import operator
import os
import types
from collections.abc import Callable, Iterable, Set
from typing import Any
from weakref import WeakSet

import rushlight
from rushlight.amp import autocast_mode
from rushlight.autograd.state import thread
from rushlight.compiler.capture import recording
from rushlight.compiler.capture.blocks import modes as modes_of_blocks
from rushlight.compiler.capture.consumed import keep_numbers
from rushlight.compiler.capture.guards import (
    Guards,
    are_numbers,
    changes,
    constant,
    derivable,
    holds_tensors,
    is_key,
    is_leaf,
    is_tuple,
)
from rushlight.compiler.capture.histories import asks_within
from rushlight.compiler.capture.interpreter import CALLS, Frame, Watch, sites
from rushlight.compiler.capture.steps import RUNTIME, Split, Stop, Unsupported, is_code
from rushlight.compiler.capture.templates import plain_instance
from rushlight.core import modes
from rushlight.core.tensor import Tensor

PACKAGE = os.path.dirname(rushlight.__file__)
DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)
SEQUENCES = (list, tuple, collections.deque)
MUTABLE = (list, set, collections.deque, *DICTIONARIES)
CONTAINERS = (*SEQUENCES, *DICTIONARIES, set, frozenset)
ASKED = ("__eq__", "__hash__", "__lt__", "__gt__", "__bool__", "__len__", "__add__", "__radd__")
VIEWS = tuple(
    [type(v) for d in ({}, collections.OrderedDict()) for v in (d.keys(), d.values(), d.items())]
)


class Reads(Watch):
    """One capture of a call: its guards, its records, and why it was given up (`reason`), if it was."""

    def __init__(self, fullgraph: bool = False, varying: Set[str] = frozenset()) -> None:
        self.fullgraph = fullgraph
        self.varying = varying  # places of numbers and tensors that were others in other calls
        self.guards = Guards()
        self.recorder = recording.Recorder(self)
        self.outside: dict[int, tuple[Any, str]] = {}  # what was there before, and where
        self.inside: dict[int, Any] = {}  # objects that the function made
        self.read: set[int] = set()  # containers all of whose elements are guarded
        self.arguments: dict[str, Any] = {}  # the containers among the arguments
        # Containers that changed and are not guarded as a whole: dictionaries as they were, None for others.
        self.partly: dict[int, Any] = {}
        self.written: dict[tuple, Any] = {}  # what was changed since: no guard can ask for it
        self.spaces: dict[int, dict] = {}  # those of objects whose `__dict__` was read
        self.reason: str | None = None
        self.within: str | None = None  # why it must not be split
        self.differentiates = False  # whether the backward pass of the results is captured
        self.splits = False  # whether the call may be split, see Note [Splits]
        self.foreign: dict[Any, str] = {}  # the sites of calls that are not interpreted, and why
        self.sites: list[Any] = []  # where a split would have helped, the innermost first
        self.frames: list[Frame] = []
        self.generators: WeakSet[Frame] = WeakSet()  # the frames of generators, which may wait
        self.keep: list[Any] = []  # so that no id is used twice
        self.early: set[str] = set()  # those of these that depend on nothing that a run does
        self.changed: list[Any] = []  # objects that may hold such values
        self.from_python: set[str] = set()  # those of these that depend on no tensor
        self.loose: dict[int, tuple] = {}  # see Note [Sizes that change]
        self.anew: dict[str, float] = {}  # numbers that each run reads anew, by their expressions
        self.others: dict[str, int] = {}  # what integers that each run reads anew may be instead
        self.variables = 0  # how many values each run computes anew in Python
        self.state = state()
        self.grad_after = thread.grad  # whether calls are recorded when it ends
        self.modes_after = self.state[1:4]
        self.outside_modes = modes_of_blocks()
        self.leaves: Any = None  # the blocks that it begins in, which its programs leave

    def stop(self, reason: str) -> None:
        """Give the capture up; the call goes on."""
        if self.reason is None:
            self.reason = self.at_line(reason)
            if not self.differentiates:
                self.sites = sites(self.frames)
            self.recorder.off()
            if self.recorder in thread.dispatch_modes:  # not in the middle of a call
                self.recorder.leave()
            if self.fullgraph:
                raise Unsupported(f"torch.compile with fullgraph=True: {self.reason}")

    def as_written(
        self, frame: Frame | None, reason: str, f: Any, args: tuple, kwargs: dict,
        instructions: tuple[str, ...] = (*CALLS, "GET_ITER"),
    ) -> Any:  # fmt: skip
        """A call that no program holds, of which nothing is done yet. The program ends before it where that can be, see
        Note [Splits]; else the capture is given up. `frame`: the one whose instruction, one of these, calls, if one does."""
        with self.recorder.paused():
            now = state()
        self.within = asks_within(f, args, kwargs) or self.within
        if (
            self.splits
            and self.within is self.reason is None
            and not self.differentiates
            and frame is not None
            and frame is self.frames[-1]
            and frame.instruction in instructions
            and now[4:] == self.state[4:]
            and all(x.handled is None for x in self.frames)
            and all(b.caller is a for a, b in itertools.pairwise(self.frames))
            and not any(g.waits_in_try() for g in self.generators)
        ):
            raise Split(self.at_line(reason), f, args, kwargs, [*self.frames], now[0])
        self.stop(self.within or reason)
        if self.differentiates:
            raise Stop(self.reason)  # before it is done: nobody asked for the gradient yet
        if self.variables:
            args = self.given_away(args, set())
            kwargs = {k: self.given_away(v, set()) for k, v in kwargs.items()}
        return f(*args, **kwargs)

    def at_line(self, reason: str) -> str:
        """A reason, with the line of the source that is carried out."""
        if not self.frames:
            return reason
        code = self.frames[-1].plan.code
        return f"{reason} ({code.co_filename}:{self.frames[-1].line}, in {code.co_name})"

    def stack_trace(self) -> str:
        """The lines of the user's that are carried out, the innermost last."""
        found = []
        for frame in self.frames:
            file, line = frame.plan.code.co_filename, frame.line
            if not file.startswith(PACKAGE):
                code = linecache.getline(file, line).strip()
                found.append(
                    f'File "{file}", line {line}, in {frame.plan.code.co_name}\n    {code}'
                )
        return "\n".join(found)

    def entered(self, frame: Frame) -> None:
        self.frames.append(frame)
        code = frame.plan.code
        if frame.plan.generator:
            self.generators.add(frame)
        if not frame.at and code.co_flags & 0x08:  # **kwargs is a dictionary of this call
            at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04)
            self.new(frame.fast[at])

    def left(self, frame: Frame) -> None:
        self.frames.pop()

    # -- objects -------------------------------------------------------------------------------

    def new(self, v: Any) -> Any:
        self.inside[id(v)] = v
        return v

    def known(self, v: Any) -> bool:
        """Whether it is clear where a value comes from: from guarded reads, or from the function itself."""
        if constant(v) or id(v) in self.outside or id(v) in self.inside or v.__class__ in RUNTIME:
            return True
        if isinstance(v, Tensor):
            return self.recorder.knows(v)
        if isinstance(v, (tuple, slice)):
            parts = v if isinstance(v, tuple) else (v.start, v.stop, v.step)
            return all(map(self.known, parts))
        if isinstance(v, types.MethodType):
            return self.known(v.__self__)
        return isinstance(v, (types.BuiltinFunctionType, types.GeneratorType)) or is_code(v)

    def hold(self, expression: str, v: Any) -> Any:
        """Guard a value that is reached from outside by an expression."""
        if constant(v):
            self.guards.equal(expression, v)
        elif is_tuple(v):
            kind = self.guards.name(v.__class__)
            self.guards.add(f"{expression}.__class__ is {kind} and len({expression}) == {len(v)}")
            for k, x in enumerate(v):
                self.hold(f"{expression}[{k}]", x)
        elif isinstance(v, types.MethodType):
            self.guards.identical(f"{expression}.__func__", v.__func__)
            self.hold(f"{expression}.__self__", v.__self__)
        elif self.is_argument(v):
            self.guards.add(f"{expression} is {self.outside[id(v)][1]}")
        elif isinstance(v, Tensor) and not (is_leaf(v) and self.stays(expression)):
            self.argument(expression, v)
        elif isinstance(v, types.BuiltinMethodType) and isinstance(v.__self__, type):
            self.guards.add(f"{expression} == {self.guards.name(v)}")  # each read makes another one
        elif id(v) not in self.inside:
            self.guards.identical(expression, v)
            self.found(v)
            if isinstance(v, Tensor):
                self.guards.places[expression] = v
        return v

    def stays(self, expression: str) -> bool:
        return not self.varying or self.guards.place(expression) not in self.varying

    def is_argument(self, v: Any) -> bool:
        """Whether an object from outside is another one in each call."""
        found = self.outside.get(id(v))
        return found is not None and found[0] is v and found[1] not in self.guards.names

    def identical(self, a: Any, b: Any) -> bool:
        """Whether two objects are one; a guard asks it where both are from outside, and one is another in each call."""
        outside = self.reason is None and id(a) in self.outside and id(b) in self.outside
        if outside and (self.is_argument(a) or self.is_argument(b)):
            one, two = self.outside[id(a)][1], self.outside[id(b)][1]
            if one != two:  # one object has one place
                self.guards.add(f"{one} is not {two}")
        return a is b

    def held(self, expression: str, v: Any) -> Any:
        """As `hold`; a number that was another one in other calls is one that each run reads anew."""
        if v.__class__ not in (int, float):
            return self.hold(expression, v)
        self.guards.places[expression] = v
        if self.stays(expression):
            return self.hold(expression, v)
        self.guards.add(f"{expression}.__class__ is {v.__class__.__name__}")
        return self.read_anew(expression, v)

    def found(self, v: Any, expression: str | None = None) -> None:
        """An object from outside, which is reached by an expression, by default always the same object."""
        if id(v) in self.outside:
            return
        self.outside[id(v)] = v, expression or self.guards.name(v)
        if expression is None and changes(type(v)) and not is_code(v):
            self.guards.identical(f"{self.guards.name(v)}.__class__", type(v))
        if isinstance(v, Tensor):
            self.recorder.add_outside(v, self.outside[id(v)][1], expression is None)

    def argument(self, expression: str, v: Any) -> None:
        """Guard an argument of the compiled function, and its elements."""
        if constant(v):
            self.guards.equal(expression, v)
        elif isinstance(v, Tensor):
            if id(v) in self.outside:
                self.guards.add(f"{expression} is {self.outside[id(v)][1]}")
            elif self.recorder.knows(v):
                self.stop("two tensors on one array")
            elif v.__class__ not in (Tensor, rushlight.nn.Parameter):
                self.stop(f"an argument of class {type(v).__name__}")
            elif not derivable(v):
                self.stop("a view that cannot be derived again from its base")
            else:
                self.guards.tensor(expression, v)
                self.found(v, expression)
        elif v.__class__ is not tuple and v.__class__ in CONTAINERS and id(v) in self.outside:
            self.guards.add(f"{expression} is {self.outside[id(v)][1]}")
        elif v.__class__ is list or is_tuple(v):
            kind = self.guards.name(v.__class__)
            self.guards.add(f"{expression}.__class__ is {kind} and len({expression}) == {len(v)}")
            self.given(expression, v)
            for k, x in enumerate(v):
                self.argument(f"{expression}[{k}]", x)
        elif (
            isinstance(v, dict)
            and v.__class__ not in CONTAINERS
            and all(map(constant, dict.keys(v)))
        ):
            self.dictionary(expression, v)
        elif v.__class__ is dict and all(map(constant, v)):
            self.guards.add(
                f"{expression}.__class__ is dict and same(tuple({expression}), {self.guards.name(tuple(v))})"
            )
            self.given(expression, v)
            for k, x in v.items():
                self.argument(f"{expression}[{self.key(k)}]", x)
        elif self.is_replaced(expression, v):
            self.instance(expression, v)
        else:
            self.hold(expression, v)

    def dictionary(self, expression: str, v: dict) -> None:
        """Guard an argument of a class that derives from `dict`: its items and its attributes."""
        name, keys, item = map(self.guards.name, (v.__class__, dict.keys, dict.__getitem__))
        self.guards.add(
            f"{expression}.__class__ is {name} and same(tuple({keys}({expression})), {self.guards.name(tuple(dict.keys(v)))})"
        )
        self.given(expression, v)
        for k, x in dict.items(v):
            self.argument(f"{item}({expression}, {self.key(k)})", x)

    def is_replaced(self, expression: str, v: Any) -> bool:
        """Whether an argument is a plain object, and was another one in other calls."""
        if isinstance(v, dict) or id(v) in self.outside or not plain_instance(v):
            return False
        self.guards.places[expression] = v
        return not self.stays(expression)

    def instance(self, expression: str, v: Any) -> None:
        """Guard an argument that is another object of its class in each call: its class, the names of its attributes, and what
        they are where they are no constants, which are guarded when they are read."""
        kind, names = map(self.guards.name, (v.__class__, tuple(vars(v))))
        space = f"{expression}.__dict__"
        self.guards.add(f"{expression}.__class__ is {kind} and same(tuple({space}), {names})")
        self.found(v, expression)
        self.arguments[expression] = v
        for name, x in vars(v).items():
            if not constant(x):
                self.argument(f"{space}[{name!r}]", x)

    def is_dictionary(self, o: Any) -> bool:
        """Whether it is clear what an object of a class that derives from `dict` holds: the function made it, or it is an
        argument."""
        known = id(o) in self.inside or id(o) in self.read
        return isinstance(o, dict) and o.__class__ not in CONTAINERS and known

    def given(self, expression: str, v: Any) -> None:
        """A container among the arguments, all of whose elements are guarded."""
        self.outside.setdefault(id(v), (v, expression))
        self.read.add(id(v))
        self.arguments[expression] = v

    def guard_contents(self, v: Any) -> None:
        """Guard all elements of a container from outside."""
        if id(v) in self.inside or id(v) in self.read or constant(v):
            return
        before = self.partly.get(id(v), v)
        if before is None:
            self.stop(f"the elements of a {type(v).__name__} that was changed")
        if v.__class__ is tuple and id(v) not in self.outside:
            return  # its elements are known, or are met when they are used; who calls may let go of it
        self.read.add(id(v))
        self.keep.append(v)
        if id(v) not in self.outside:
            self.stop(f"a {type(v).__name__} of unknown origin")
            return
        name = self.outside[id(v)][1]
        if v.__class__ in SEQUENCES:
            self.guards.add(f"len({name}) == {len(v)}")
            for k, x in enumerate(v):
                self.hold(f"{name}[{k}]", x)
        elif v.__class__ in (set, frozenset):
            if not all(map(constant, v)):
                self.stop("a set of objects")
                return
            self.guards.add(f"{name} == {self.guards.name(v.copy())}")
        else:
            if not all(map(is_key, v)):
                self.stop("a dictionary whose keys are objects")
                return
            keys = self.guards.name(tuple(before))
            plain = all(k.__class__ is str for k in before)
            self.guards.add(f"(*{name},) == {keys}" if plain else f"same(tuple({name}), {keys})")
            for k, x in before.items():
                if (id(v), ("item", k)) not in self.written:
                    self.hold(self.item_expression(v, k), x)

    def key(self, k: Any) -> str:
        return repr(k) if k.__class__ in (int, str, bool) else self.guards.name(k)

    # -- reads ---------------------------------------------------------------------------------

    def variable(self, space: dict, name: str, otherwise: dict) -> Any:
        if name not in space and name not in otherwise:
            for place in (space, otherwise):
                self.guards.add(f"{name!r} not in {self.guards.name(place)}")
        v = super().variable(space, name, otherwise)
        if self.reason is None and (id(space), name) not in self.written:
            if name in space:
                return self.held(f"{self.guards.name(space)}[{name!r}]", v)
            else:
                self.guards.add(f"{name!r} not in {self.guards.name(space)}")
                return self.held(f"{self.guards.name(otherwise)}[{name!r}]", v)
        return v

    def cell(self, cell: types.CellType, name: str) -> Any:
        v = super().cell(cell, name)
        if self.reason is None and id(cell) not in self.inside and (id(cell),) not in self.written:
            return self.held(f"{self.guards.name(cell)}.cell_contents", v)
        return v

    def item(self, o: Any, key: Any) -> Any:
        key = self.concrete(key, "a value that was read from a tensor as an index")
        if self.reason is not None or isinstance(o, Tensor):
            return o[self.index(key)]
        if o.__class__ in (*SEQUENCES, *DICTIONARIES):
            if isinstance(key, Tensor) and o.__class__ in SEQUENCES:
                key = self.decided(operator.index, (key,), {}, "a tensor as an index")
            if o.__class__ is collections.defaultdict and is_key(key) and key not in o:
                return self.missing_item(o, key)
            if self.by_keys(o) and is_key(key):
                return self.item_of_key(o, key)
            self.guard_contents(o)
            v = o[key]
            return self.new(v) if v.__class__ is list and key.__class__ is slice else v
        if constant(o) or is_tuple(o) and self.known(o):
            return o[key]
        return self.special(o, "__getitem__", key)

    def index(self, key: Any) -> Any:
        """An index of a tensor, with tensors for lists of numbers: each run takes the same ones."""
        if self.reason is not None:
            return key
        if key.__class__ is tuple:
            return tuple(map(self.index, key))
        if key.__class__ is not list or not key or not are_numbers(key):
            return key
        with self.recorder.paused():
            t = rushlight.tensor(key)
        self.recorder.new_value(t._array).expression = self.guards.name(t)
        return t

    def by_keys(self, o: Any) -> bool:
        """Whether the elements of a dictionary from outside are guarded one by one."""
        outside = id(o) in self.outside and id(o) not in self.read
        return outside and o.__class__ in DICTIONARIES

    def item_of_key(self, o: dict, key: Any) -> Any:
        """The item of a dictionary from outside, which alone is guarded."""
        if (id(o), ("item", key)) in self.written:
            return o[key]
        if key not in o or o.__class__ is collections.defaultdict:
            how = "in" if key in o else "not in"
            self.guards.add(f"{self.key(key)} {how} {self.outside[id(o)][1]}")
        return self.held(self.item_expression(o, key), o[key])

    def item_expression(self, o: dict, key: Any) -> str:
        """What gives an item of a dictionary from outside, and makes none that is not there any more."""
        name, k = self.outside[id(o)][1], self.key(key)
        return f"{name}.get({k})" if o.__class__ is collections.defaultdict else f"{name}[{k}]"

    def missing_item(self, o: collections.defaultdict, key: Any) -> Any:
        """The item that a dictionary makes where there is none."""
        make = o.default_factory
        if id(o) in self.outside:
            name = self.outside[id(o)][1]
            self.guards.identical(f"{name}.default_factory", make)
            if (id(o), ("item", key)) not in self.written:
                self.guards.add(f"{self.key(key)} not in {name}")
        if make is None:
            raise KeyError(key)
        v = self.call(None, make, (), {})
        self.set_item(o, key, v)
        return v

    def contains(self, o: Any, key: Any) -> bool:
        if self.reason is None:
            key = self.concrete(key, "`in` of a value that was read from a tensor")
            if self.by_keys(o) and is_key(key):
                if (id(o), ("item", key)) not in self.written:
                    how = "in" if key in o else "not in"
                    self.guards.add(f"{self.key(key)} {how} {self.outside[id(o)][1]}")
            elif o.__class__ in CONTAINERS:
                self.guard_contents(o)
                self.refuse_methods([key, *o])
                if isinstance(key, Tensor) or any(x.__class__ in RUNTIME for x in o):
                    self.stop("`in` of a tensor, or among values that were read from tensors")
            elif not constant(o) and o.__class__ not in VIEWS:
                return bool(self.special(o, "__contains__", key))
        return key in o

    def truth(self, v: Any) -> bool:
        if self.reason is None and not constant(v):
            if isinstance(v, Tensor):
                return self.decided(bool, (v,), {}, "a branch on the values of a tensor")
            if v.__class__ in RUNTIME:
                return self.computed(bool, (v,))
            if v.__class__ in CONTAINERS:
                self.guard_contents(v)
            else:
                for name in ("__bool__", "__len__"):
                    if (found := self.in_class(type(v), name)) is not None:
                        if isinstance(found, types.FunctionType) or self.is_dictionary(v):
                            return bool(self.special(v, name))
                        self.stop(f"the truth of a {type(v).__name__}")
        return bool(v)

    def operation(self, f: Callable, *operands: Any) -> Any:
        if self.reason is None:
            if isinstance(operands[0], str) and holds_tensors(operands[1]):
                return self.formatted(f, *operands)
            if any(isinstance(v, Tensor) for v in operands):
                if not all(isinstance(v, Tensor) or is_value(v) for v in operands):
                    return self.special_operation(f, operands)
                given, operands = operands, self.operands(f.__name__, operands)
                self.refuse_runtime(f, operands)
                for v in operands:
                    self.contents_deep(v)
                return keep_numbers(f(*operands), given, operands)
            elif not all(map(constant, operands)):
                if any(map(self.is_runtime, operands)):
                    return self.runtime(f, operands)
                if f not in (operator.add, operator.mul, operator.iadd):
                    self.refuse_runtime(f, operands)
                for v in operands:
                    if v.__class__ in CONTAINERS:
                        self.contents_deep(v)
                        if f not in (operator.add, operator.mul, operator.iadd):
                            self.refuse_methods(v)
                    elif not constant(v) and not is_code(v) and v.__class__ not in VIEWS:
                        return self.special_operation(f, operands)
                r = f(*operands)
                return self.new(r) if r.__class__ in MUTABLE and r is not operands[0] else r
        return f(*(self.given_away(operands, set()) if self.variables else operands))

    def special_operation(self, f: Callable, operands: tuple) -> Any:
        """An operation on objects of classes in Python."""
        if f in (operator.eq, operator.ne) and all(
            type(v).__eq__ is object.__eq__ for v in operands if not constant(v)
        ):
            self.identical(*operands)
            return f(*operands)
        name = f"__{f.__name__.strip('_')}__"
        found = self.in_class(type(operands[0]), name)
        if isinstance(found, types.FunctionType):
            r = self.call(None, found, operands, {})
            if r is not NotImplemented:
                return r
        reason = f"{f.__name__} of {', '.join(type(v).__name__ for v in operands)}"
        if isinstance(found, types.FunctionType):
            self.stop(reason)
        at = self.frames[-1] if self.frames else None
        return self.as_written(at, reason, f, operands, {}, ("BINARY_OP", "COMPARE_OP"))

    def special(self, o: Any, name: str, *args: Any) -> Any:
        """The result of a special method of a class in Python."""
        found = self.in_class(type(o), name)
        if isinstance(found, types.FunctionType) and self.known(o):
            return self.call(None, found, (o, *args), {})
        if self.is_dictionary(o) and found is not None:
            return self.of_dictionary(o, found.__get__(o), args)
        if name == "__getitem__" and self.frames:
            reason, f = f"an item of {type(o).__name__}", operator.getitem
            return self.as_written(self.frames[-1], reason, f, (o, *args), {}, ("BINARY_SUBSCR",))
        self.stop(f"{name} of {type(o).__name__}")
        plain = {"__iter__": iter, "__next__": next, "__bool__": bool, "__len__": len,
                 "__getitem__": operator.getitem, "__contains__": operator.contains}  # fmt: skip
        return plain[name](o, *args)

    def of_dictionary(self, o: dict, method: Any, args: tuple) -> Any:
        """A call of a method of `dict` or `OrderedDict`, bound to an object that the function made, of a class in Python."""
        if args:
            args = self.concrete(args[0], "a value that was read from a tensor as a key"), *args[1:]
        if method.__name__ == "__getitem__" and not dict.__contains__(o, args[0]):
            found = self.in_class(type(o), "__missing__")
            if isinstance(found, types.FunctionType):
                return self.call(None, found, (o, *args), {})
            if found is not None:
                self.stop(f"__missing__ of {type(o).__name__}")
        if method.__name__ in ("__setitem__", "__delitem__"):
            return self.change(o, None, lambda _, *given: method(*given), *args)
        return method(*args)

    def refuse_methods(self, values: Iterable) -> None:
        """Give up where a built-in function calls methods of values that are written in Python."""
        if any(map(has_methods, values)):
            self.stop("a built-in function that calls methods of a class")

    def contents_deep(self, v: Any, around: tuple = ()) -> None:
        """Guard all that built-in functions or operators can read of an argument; `around`: the containers that it is in."""
        if v.__class__ in CONTAINERS:
            if any(v is o for o in around):
                return
            self.guard_contents(v)
            for x in v.values() if isinstance(v, dict) else v:
                self.contents_deep(x, (*around, v))
        elif self.is_foreign_iterator(v):
            self.stop(f"a {type(v).__name__} from outside, which each call takes elements from")
        elif not self.known(v) and not self.iterates(v):
            self.stop(f"an object of unknown origin, {type(v).__name__}")


def has_methods(v: Any) -> bool:
    """Whether a built-in function that compares, hashes or tests a value calls methods written in Python."""
    if v.__class__ in (list, tuple) or is_tuple(v):
        return any(map(has_methods, v))
    if constant(v) or isinstance(v, (Tensor, type, types.FunctionType)) or not changes(type(v)):
        return False
    kind = type(v)
    return any(isinstance(getattr(kind, n, None), types.FunctionType) for n in ASKED)


def is_value(v: Any) -> bool:
    """Whether a value is made of constants, tensors and values that each run computes anew."""
    if v.__class__ in (list, tuple):
        return all(map(is_value, v))
    if v.__class__ is dict:
        return all(map(constant, v)) and all(map(is_value, v.values()))
    return constant(v) or v.__class__ in RUNTIME or isinstance(v, Tensor)


def state() -> tuple:
    """What all calls of operators depend on besides their arguments."""
    casts = autocast_mode._state
    return (
        thread.grad, thread.inference, casts.enabled, casts.dtype, thread.function_modes, thread.dispatch_modes,
        modes.get_default_dtype(), modes.thread.device,
    )  # fmt: skip
