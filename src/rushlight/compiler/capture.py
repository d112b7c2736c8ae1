"""Capture: run a function once for real, and write down what it reads, computes and changes.

Note [Capture]
    The first call of a compiled function is carried out by the interpreter of its bytecode (interpreter.py). Every
    operator runs as always and gives its real result, so that nothing has to be done twice or taken back: where
    something turns up that a program cannot hold (`Capture.stop`), the call simply goes on to its end, and the
    function stays as it is written. Meanwhile

    - reads of outside objects become guards (guards.py);
    - operators below autograd, backward passes included, become the nodes of a graph (recording.py);
    - changes of outside objects, and calls that are done again in each run (an optimizer's step), become steps
      between graphs.
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.autograd.state import thread
from rushlight.compiler import recording
from rushlight.compiler.guards import Guards, constant
from rushlight.compiler.interpreter import Frame, Watch, enclosing, frame_of, run
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import tensors_in
from rushlight.nn import hooks

CONTAINERS = (list, tuple, dict, set, frozenset, collections.OrderedDict)
READS_NOTHING = frozenset(
    {
        abs, all, any, bin, bool, chr, complex, dict, divmod, enumerate, float, format, frozenset, hex, int,
        iter, len, list, max, min, next, oct, ord, pow, range, repr, reversed, round, set, slice, sorted,
        str, sum, tuple, zip, functools.partial, object, collections.OrderedDict,
    }
)  # fmt: skip
ABOUT_CLASSES = frozenset({isinstance, issubclass, callable, type, id})
PURE_MODULES = ("math", "_operator", "itertools", "operator", "cmath")
LEAVES = (
    "rushlight.ops", "rushlight.core", "rushlight.dispatch", "rushlight.functional", "rushlight.fft",
    "rushlight.linalg", "rushlight.special", "rushlight.nn.functional", "rushlight.autograd.grad_mode",
    "rushlight.autograd.engine", "rushlight.amp.autocast_mode",
)  # fmt: skip
DATA = frozenset(
    "item tolist numpy __array__ is_nonzero equal allclose __repr__ __str__ __format__ data_ptr __bool__ "
    "__int__ __float__ __index__ __complex__ storage untyped_storage register_hook retain_grad "
    "__deepcopy__ __reduce_ex__ __hash__ share_memory_ map_ apply_ requires_grad_ set_".split()
)
MAKERS = frozenset("tensor as_tensor asarray scalar_tensor".split())
PLAIN_ATTRIBUTES = frozenset(
    "shape dtype device ndim is_leaf requires_grad layout is_cuda is_sparse is_meta is_quantized is_mps itemsize "
    "nbytes T mT H mH real imag name names".split()
)
READS = frozenset(
    "get keys values items copy count index __len__ __contains__ __getitem__ union intersection difference "
    "issubset issuperset isdisjoint __iter__ most_common".split()
)
WRITES = frozenset(
    "append extend insert update add discard remove clear sort reverse pop popitem setdefault appendleft "
    "popleft __setitem__ __delitem__".split()
)


class Unsupported(RuntimeError):
    """What `fullgraph=True` raises where a function does not become one program."""


class Stop(Exception):
    """What a program cannot hold was met before anything was done."""


class Step:
    """Something that each run of a program does between graphs: `call(*resolved values)`.

    `values`: templates (`recording.Template`) of the arguments; `result`: the value that stands for what it gives.
    """

    def __init__(self, f: Callable, args: list, kwargs: dict) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs
        self.result: Any = None


class Capture(Watch):
    """One capture of a call: its guards, its steps, and why it was given up (`reason`), if it was."""

    def __init__(self, fullgraph: bool = False) -> None:
        self.fullgraph = fullgraph
        self.guards = Guards()
        self.recorder = recording.Recorder(self)
        self.outside: dict[int, tuple[Any, str]] = {}  # objects that were there before, and how they are reached
        self.inside: dict[int, Any] = {}  # objects that the function made
        self.read: set[int] = set()  # containers all of whose elements are guarded
        self.written: dict[tuple, Any] = {}  # what was changed since: no guard can ask for it
        self.reason: str | None = None
        self.frames: list[Frame] = []
        self.keep: list[Any] = []  # so that no id is used twice
        self.state = state()

    def stop(self, reason: str) -> None:
        """Give the capture up; the call goes on."""
        if self.reason is None:
            where = ""
            if self.frames:
                code = self.frames[-1].plan.code
                where = f" ({code.co_filename}:{self.frames[-1].line}, in {code.co_name})"
            self.reason = reason + where
            self.recorder.off()
            if self.fullgraph:
                raise Unsupported(f"torch.compile with fullgraph=True: {self.reason}")

    def entered(self, frame: Frame) -> None:
        self.frames.append(frame)
        code = frame.plan.code
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
        if constant(v) or id(v) in self.outside or id(v) in self.inside:
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
        elif v.__class__ is tuple:
            self.guards.add(f"{expression}.__class__ is tuple and len({expression}) == {len(v)}")
            for k, x in enumerate(v):
                self.hold(f"{expression}[{k}]", x)
        elif isinstance(v, types.MethodType):
            self.guards.identical(f"{expression}.__func__", v.__func__)
            self.hold(f"{expression}.__self__", v.__self__)
        elif isinstance(v, Tensor) and not isinstance(v, rushlight.nn.Parameter):
            self.argument(expression, v)
        elif id(v) not in self.inside:
            self.guards.identical(expression, v)
            self.found(v)
        return v

    def found(self, v: Any, expression: str | None = None) -> None:
        """An object from outside, which is reached by an expression, by default always the same object."""
        if id(v) in self.outside:
            return
        self.outside[id(v)] = v, expression or self.guards.name(v)
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
            else:
                self.guards.tensor(expression, v)
                self.found(v, expression)
        elif v.__class__ in (list, tuple):
            name = v.__class__.__name__
            self.guards.add(f"{expression}.__class__ is {name} and len({expression}) == {len(v)}")
            self.outside.setdefault(id(v), (v, expression))
            self.read.add(id(v))
            for k, x in enumerate(v):
                self.argument(f"{expression}[{k}]", x)
        elif v.__class__ is dict and all(map(constant, v)):
            self.guards.add(
                f"{expression}.__class__ is dict and same(tuple({expression}), {self.guards.name(tuple(v))})"
            )
            self.outside.setdefault(id(v), (v, expression))
            self.read.add(id(v))
            for k, x in v.items():
                self.argument(f"{expression}[{k!r}]", x)
        else:
            self.hold(expression, v)

    def contents(self, v: Any) -> Any:
        if self.reason is not None:
            return v
        if v.__class__ in CONTAINERS:
            self.guard_contents(v)
        elif isinstance(v, Tensor) or v.__class__ is range:
            pass
        elif hasattr(type(v), "__iter__") and isinstance(type(v).__iter__, types.FunctionType):
            return list(self.iterator(v))
        elif not self.iterates(v):
            self.stop(f"elements of {type(v).__name__}")
        return v

    def guard_contents(self, v: Any) -> None:
        """Guard all elements of a container from outside."""
        if id(v) in self.inside or id(v) in self.read or constant(v):
            return
        self.read.add(id(v))
        self.keep.append(v)
        if id(v) not in self.outside:
            if v.__class__ is tuple:
                return  # its elements are known, or are met when they are used
            return self.stop(f"a {type(v).__name__} of unknown origin")
        name = self.outside[id(v)][1]
        if v.__class__ in (list, tuple):
            self.guards.add(f"len({name}) == {len(v)}")
            for k, x in enumerate(v):
                self.hold(f"{name}[{k}]", x)
        elif v.__class__ in (set, frozenset):
            if not all(map(constant, v)):
                return self.stop("a set of objects")
            self.guards.add(f"{name} == {self.guards.name(v.copy())}")
        else:
            if not all(map(constant, v)):
                return self.stop("a dictionary whose keys are objects")
            self.guards.add(f"same(tuple({name}), {self.guards.name(tuple(v))})")
            for k, x in v.items():
                self.hold(f"{name}[{self.key(k)}]", x)

    def key(self, k: Any) -> str:
        return repr(k) if k.__class__ in (int, str, bool) else self.guards.name(k)

    def iterates(self, it: Any) -> bool:
        """Whether a built-in iterator gives elements whose origin is known."""
        kind = type(it)
        return kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__") or kind in VIEWS

    # -- reads ---------------------------------------------------------------------------------

    def variable(self, space: dict, name: str, otherwise: dict) -> Any:
        v = super().variable(space, name, otherwise)
        if self.reason is None and (id(space), name) not in self.written:
            if name in space:
                self.hold(f"{self.guards.name(space)}[{name!r}]", v)
            else:
                self.guards.add(f"{name!r} not in {self.guards.name(space)}")
                self.hold(f"{self.guards.name(otherwise)}[{name!r}]", v)
        return v

    def cell(self, cell: types.CellType, name: str) -> Any:
        v = super().cell(cell, name)
        if self.reason is None and id(cell) not in self.inside and (id(cell),) not in self.written:
            self.hold(f"{self.guards.name(cell)}.cell_contents", v)
        return v

    def attribute(self, o: Any, name: str) -> Any:
        if self.reason is not None:
            return getattr(o, name)
        if isinstance(o, Tensor):
            return self.attribute_of_tensor(o, name)
        kind = type(o)
        if constant(o) or kind in CONTAINERS or kind.__module__ == "builtins" and not isinstance(o, (type, types.ModuleType)):
            v = getattr(o, name)
            if isinstance(o, types.FunctionType) and not constant(v):
                self.stop(f"the attribute {name!r} of a function")
            return v
        if isinstance(o, tuple) and hasattr(kind, "_fields") and name in kind._fields:
            return getattr(o, name)
        if not self.known(o):
            self.stop(f"an attribute of an object of unknown origin, {kind.__name__}")
            return getattr(o, name)
        if isinstance(o, (types.ModuleType, type)):
            return self.hold(f"{self.guards.name(o)}.{name}", getattr(o, name))
        return self.attribute_of_instance(o, kind, name)

    def attribute_of_tensor(self, t: Tensor, name: str) -> Any:
        if not self.recorder.knows(t):
            self.stop("a tensor of unknown origin")
        if name == "grad":
            return self.recorder.gradient(t)
        v = getattr(t, name)
        if isinstance(v, (types.MethodType, types.BuiltinMethodType)) or name in PLAIN_ATTRIBUTES:
            return v
        if name == "data":
            return v
        self.stop(f"the attribute {name!r} of a tensor")
        return v

    def attribute_of_instance(self, o: Any, kind: type, name: str) -> Any:
        """The value of an attribute of an instance of a class in Python, as `object.__getattribute__` finds it."""
        if isinstance(kind.__getattribute__, types.FunctionType):
            self.stop(f"{kind.__name__} has a __getattribute__ of its own")
            return getattr(o, name)
        own = getattr(o, "__dict__", {})
        for cls in kind.__mro__:
            if name in cls.__dict__:
                d = cls.__dict__[name]
                self.of_class(kind, cls, name)
                break
        else:
            d = cls = None
        if isinstance(d, property):
            if not isinstance(d.fget, types.FunctionType):
                self.stop(f"the property {name!r} of {kind.__name__}")
                return getattr(o, name)
            return self.call(None, d.fget, (o,), {})
        outside = id(o) in self.outside
        place = self.outside[id(o)][1] if outside else ""
        if outside and (id(o), name) in self.written:
            outside = False
        if isinstance(d, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            v = getattr(o, name)
            if name == "__dict__":
                self.stop("the __dict__ of an object")
            return self.hold(f"{place}.{name}", v) if outside else v
        if cls is not None and hasattr(type(d), "__set__"):
            self.stop(f"the attribute {name!r} of {kind.__name__}")
            return getattr(o, name)
        if name in own:
            return self.hold(f"{place}.{name}", own[name]) if outside else own[name]
        if cls is not None:
            if outside:
                self.guards.add(f"{name!r} not in {place}.__dict__")
            if isinstance(d, types.FunctionType):
                return types.MethodType(d, o)
            v = getattr(o, name)
            if isinstance(d, (staticmethod, classmethod)) or not hasattr(type(d), "__get__"):
                if not isinstance(v, types.MethodType):
                    self.hold(f"{self.guards.name(kind)}.{name}", v)
                return v
            self.stop(f"the attribute {name!r} of {kind.__name__}")
            return v
        return self.missing_attribute(o, kind, name, outside, place)

    def missing_attribute(self, o: Any, kind: type, name: str, outside: bool, place: str) -> Any:
        """What `__getattr__` gives."""
        if isinstance(o, rushlight.nn.Module) and kind.__getattr__ is rushlight.nn.Module.__getattr__:
            for table in ("_parameters", "_buffers", "_modules"):
                if name in o.__dict__.get(table, ()):
                    v = o.__dict__[table][name]
                    if outside and (id(o.__dict__[table]), name) not in self.written:
                        self.guards.add(f"{name!r} not in {place}.__dict__")
                        self.hold(f"{place}.{table}[{name!r}]", v)
                    return v
        found = getattr(kind, "__getattr__", None)
        if isinstance(found, types.FunctionType) and found is not rushlight.nn.Module.__getattr__:
            return self.call(None, found, (o, name), {})
        if outside:
            self.guards.add(f"not hasattr({place}, {name!r})")
        return getattr(o, name)

    def of_class(self, kind: type, cls: type, name: str) -> None:
        """Guard that a class has this attribute, and that no class before it in the order of resolution does."""
        if cls.__module__.startswith("rushlight.") or cls.__flags__ & (1 << 8):  # ours, or immutable
            return
        self.guards.identical(f"{self.guards.name(cls)}.__dict__[{name!r}]", cls.__dict__[name])
        for before in kind.__mro__[: kind.__mro__.index(cls)]:
            self.guards.add(f"{name!r} not in {self.guards.name(before)}.__dict__")

    def item(self, o: Any, key: Any) -> Any:
        if self.reason is not None or isinstance(o, Tensor):
            return o[key]
        if o.__class__ in (list, tuple, dict, collections.OrderedDict):
            if isinstance(key, Tensor):
                self.stop("a tensor as an index of a Python sequence")
            self.guard_contents(o)
            v = o[key]
            return self.new(v) if v.__class__ is list and key.__class__ is slice else v
        if constant(o):
            return o[key]
        return self.special(o, "__getitem__", key)

    def contains(self, o: Any, key: Any) -> bool:
        if self.reason is None:
            if o.__class__ in CONTAINERS:
                self.guard_contents(o)
                if isinstance(key, Tensor):
                    self.stop("`in` of a tensor")
            elif not constant(o) and o.__class__ not in VIEWS:
                return bool(self.special(o, "__contains__", key))
        return key in o

    def truth(self, v: Any) -> bool:
        if self.reason is None and not constant(v):
            if isinstance(v, Tensor):
                self.stop("a branch on the values of a tensor")
            elif v.__class__ in CONTAINERS:
                self.guard_contents(v)
            else:
                for name in ("__bool__", "__len__"):
                    if isinstance(getattr(type(v), name, None), types.FunctionType):
                        return bool(self.special(v, name))
        return bool(v)

    def iterator(self, v: Any) -> Any:
        if self.reason is None and not isinstance(v, Tensor) and not constant(v):
            if v.__class__ in CONTAINERS:
                self.guard_contents(v)
            elif not self.iterates(v) and not (isinstance(v, tuple) and self.known(v)):
                return self.special(v, "__iter__")
        return iter(v)

    def following(self, it: Any) -> Any:
        if self.reason is None and not self.iterates(it):
            return self.special(it, "__next__")
        return next(it)

    def operation(self, f: Callable, *operands: Any) -> Any:
        if self.reason is None:
            if any(isinstance(v, Tensor) for v in operands):
                for v in operands:
                    self.contents_deep(v)
            elif not all(map(constant, operands)):
                for v in operands:
                    if v.__class__ in CONTAINERS:
                        self.contents_deep(v)
                    elif not constant(v) and not is_code(v) and v.__class__ not in VIEWS:
                        return self.special_operation(f, operands)
                r = f(*operands)
                return self.new(r) if r.__class__ in (list, dict, set) and r is not operands[0] else r
        return f(*operands)

    def special_operation(self, f: Callable, operands: tuple) -> Any:
        """An operation on objects of classes in Python."""
        if f in (operator.eq, operator.ne) and all(
            type(v).__eq__ is object.__eq__ for v in operands if not constant(v)
        ):
            return f(*operands)
        name = f"__{f.__name__.strip('_')}__"
        found = getattr(type(operands[0]), name, None)
        if isinstance(found, types.FunctionType):
            r = self.call(None, found, operands, {})
            if r is not NotImplemented:
                return r
        self.stop(f"{f.__name__} of {', '.join(type(v).__name__ for v in operands)}")
        return f(*operands)

    def special(self, o: Any, name: str, *args: Any) -> Any:
        """The result of a special method of a class in Python."""
        found = getattr(type(o), name, None)
        if isinstance(found, types.FunctionType) and self.known(o):
            return self.call(None, found, (o, *args), {})
        self.stop(f"{name} of {type(o).__name__}")
        plain = {"__iter__": iter, "__next__": next, "__bool__": bool, "__len__": len,
                 "__getitem__": operator.getitem, "__contains__": operator.contains}  # fmt: skip
        return plain[name](o, *args)

    def contents_deep(self, v: Any) -> None:
        """Guard all that built-in functions or operators can read of an argument."""
        if v.__class__ in CONTAINERS:
            self.guard_contents(v)
            for x in v.values() if isinstance(v, dict) else v:
                self.contents_deep(x)
        elif not self.known(v) and not self.iterates(v):
            self.stop(f"an object of unknown origin, {type(v).__name__}")

    # -- changes -------------------------------------------------------------------------------

    def change(self, o: Any, name: Any, f: Callable, *values: Any, whole: bool = False) -> Any:
        """Carry out a change of an object, and do it again in each run if the object was there before."""
        if self.reason is None and id(o) not in self.inside:
            if id(o) not in self.outside:
                self.stop(f"a change of an object of unknown origin, {type(o).__name__}")
            else:
                if whole:
                    self.guard_contents(o)
                self.written[id(o), name] = o
                self.step(f, (o, *values), {})
        return f(o, *values)

    def step(self, f: Callable, args: tuple, kwargs: dict) -> Step | None:
        """Write down a call that each run does again."""
        try:
            given = [self.recorder.template(v) for v in args]
            step = Step(f, given, {k: self.recorder.template(v) for k, v in kwargs.items()})
        except Stop as e:
            self.stop(str(e))
            return None
        self.recorder.cut(step)
        return step

    def set_attribute(self, o: Any, name: str, v: Any) -> None:
        if self.reason is None:
            if isinstance(o, Tensor):
                if name != "grad" or not self.recorder.set_gradient(o, v):
                    self.stop(f"the attribute {name!r} of a tensor is set")
                setattr(o, name, v)
                return
            elif id(o) not in self.inside and id(o) not in self.outside:
                self.stop(f"an attribute of an object of unknown origin is set, {type(o).__name__}")
            else:
                found = type(o).__setattr__
                if isinstance(o, rushlight.nn.Module) and found is rushlight.nn.Module.__setattr__:
                    if isinstance(v, (Tensor, rushlight.nn.Module)) or name in o._buffers or name in o._parameters:
                        self.stop(f"the tensor or module {name!r} of a module is set")
                elif found is not object.__setattr__:
                    if isinstance(found, types.FunctionType):
                        self.call(None, found, (o, name, v), {})
                        return
                    self.stop(f"__setattr__ of {type(o).__name__}")
                d = getattr(type(o), name, None)
                if isinstance(d, property) and isinstance(d.fset, types.FunctionType):
                    self.call(None, d.fset, (o, v), {})
                    return
                if hasattr(type(d), "__set__") and not isinstance(d, types.MemberDescriptorType):
                    self.stop(f"the attribute {name!r} of {type(o).__name__} is set")
        self.change(o, name, setattr_of(name), v)

    def delete_attribute(self, o: Any, name: str) -> None:
        self.stop(f"the attribute {name!r} is deleted") if id(o) not in self.inside else None
        delattr(o, name)

    def set_item(self, o: Any, key: Any, v: Any) -> None:
        if self.reason is not None or isinstance(o, Tensor):
            o[key] = v
        elif o.__class__ in CONTAINERS:
            self.change(o, None, operator.setitem, key, v, whole=True)
        else:
            self.special(o, "__setitem__", key, v) if isinstance(
                getattr(type(o), "__setitem__", None), types.FunctionType
            ) else self.foreign_item(o, key, v)

    def foreign_item(self, o: Any, key: Any, v: Any) -> None:
        self.stop(f"an item of {type(o).__name__} is set")
        o[key] = v

    def delete_item(self, o: Any, key: Any) -> None:
        if self.reason is None and o.__class__ in CONTAINERS:
            self.change(o, None, operator.delitem, key, whole=True)
        else:
            self.stop("an item is deleted")
            del o[key]

    def set_variable(self, space: dict, name: str, v: Any) -> None:
        if self.reason is None:
            self.outside.setdefault(id(space), (space, self.guards.name(space)))
            self.step(operator.setitem, (space, name, v), {})
            self.written[id(space), name] = space
        space[name] = v

    def set_cell(self, cell: types.CellType, v: Any) -> None:
        if self.reason is None and id(cell) not in self.inside:
            self.outside.setdefault(id(cell), (cell, self.guards.name(cell)))
            self.step(fill_cell, (cell, v), {})
            self.written[(id(cell),)] = cell
        cell.cell_contents = v

    # -- calls ---------------------------------------------------------------------------------

    def call(self, frame: Frame | None, f: Any, args: tuple, kwargs: dict) -> Any:
        if f is super and not args and frame is not None:
            args = enclosing(frame)
        if self.reason is not None:
            self.recorder.leave()
            return f(*args, **kwargs)
        if isinstance(f, types.MethodType):
            return self.call(frame, f.__func__, (f.__self__, *args), kwargs)
        handler = HANDLED.get(f) if f.__hash__ else None
        if handler is not None:
            return handler(self, frame, f, args, kwargs)
        if isinstance(f, types.FunctionType):
            return self.call_function(f, args, kwargs)
        if isinstance(f, type):
            return self.call_class(frame, f, args, kwargs)
        if isinstance(f, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType)):
            return self.call_builtin(f, args, kwargs)
        if isinstance(f, functools.partial):
            self.contents_deep(f.args)
            return self.call(frame, f.func, (*f.args, *args), {**f.keywords, **kwargs})
        if isinstance(f, rushlight.compiler.compiled.Compiled):
            return self.call(frame, f.function, args, kwargs)
        found = getattr(type(f), "__call__", None)
        if isinstance(found, types.FunctionType) and self.known(f):
            return self.call(frame, found, (f, *args), kwargs)
        self.stop(f"a call of {type(f).__name__}")
        return f(*args, **kwargs)

    def call_function(self, f: types.FunctionType, args: tuple, kwargs: dict) -> Any:
        module = f.__module__ or ""
        if hasattr(f, "_torchdynamo_disable"):
            self.stop(f"{f.__qualname__} is disabled for torch.compile")
            return f(*args, **kwargs)
        if hasattr(f, "op") or module.startswith(LEAVES) and not module.startswith("rushlight.nn.functional."):
            return self.operator(f, args, kwargs)
        if args and isinstance(args[0], rushlight.optim.Optimizer) and f.__name__ in ("step", "zero_grad"):
            return again(self, f, args, kwargs)
        if module.startswith("rushlight.") and not module.startswith(INLINED):
            self.stop(f"a call of {module}.{f.__qualname__}")
            return f(*args, **kwargs)
        frame = frame_of(f, args, kwargs)
        if frame is None:
            self.stop(f"a call of {f.__qualname__}, whose bytecode is not interpreted")
            return f(*args, **kwargs)
        if len(self.frames) > 200:
            self.stop("a deep recursion")
        self.take_defaults(f)
        return run(frame, self)

    def take_defaults(self, f: types.FunctionType) -> None:
        """The default values of parameters are objects from outside."""
        for v in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            if not constant(v) and id(v) not in self.inside:
                self.found(v)

    def operator(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function of tensors: the recorder sees what it does."""
        if f.__name__ in DATA or f.__name__ in MAKERS and any(tensors_in(args)):
            self.stop(f"{f.__name__}() of a tensor")
            return f(*args, **kwargs)
        for v in (*args, *kwargs.values()):
            if not isinstance(v, types.FunctionType):
                self.contents_deep(v)
            else:
                self.stop(f"a function as an argument of {f.__name__}")
        if self.reason is None and f.__name__ == "backward":
            given = kwargs.get("retain_graph", args[2] if len(args) > 2 else None)
            self.recorder.before_backward(args[0], bool(given))
        r = f(*args, **kwargs)
        if self.reason is None and f.__name__ == "backward":
            self.recorder.after_backward()
        return self.new(r) if r.__class__ in (list, dict) else r

    def call_class(self, frame: Frame | None, cls: type, args: tuple, kwargs: dict) -> Any:
        if cls in READS_NOTHING or cls.__module__ in PURE_MODULES:
            return self.call_pure(cls, args, kwargs)
        if cls in ABOUT_CLASSES and len(args) == 1 or cls is super:
            return cls(*args)
        if issubclass(cls, BaseException) and cls.__module__ == "builtins":
            return self.new(cls(*args, **kwargs))
        if issubclass(cls, Tensor):
            self.stop(f"a {cls.__name__} is made")
        elif cls.__module__.startswith(("rushlight.autograd.grad_mode", "rushlight.amp.autocast_mode")):
            return self.new(cls(*args, **kwargs))
        elif (
            type(cls) is type and cls.__new__ is object.__new__
            and isinstance(cls.__init__, (types.FunctionType, types.WrapperDescriptorType))
            and not issubclass(cls, (rushlight.nn.Module, rushlight.optim.Optimizer))
        ):  # fmt: skip
            o = self.new(cls.__new__(cls))
            if isinstance(cls.__init__, types.FunctionType):
                self.call(frame, cls.__init__, (o, *args), kwargs)
            elif args or kwargs:
                raise TypeError(f"{cls.__name__}() takes no arguments")
            return o
        elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return cls(*args, **kwargs)
        else:
            self.stop(f"a {cls.__name__} is made")
        return cls(*args, **kwargs)

    def call_builtin(self, f: Any, args: tuple, kwargs: dict) -> Any:
        o = getattr(f, "__self__", None)
        if isinstance(o, types.ModuleType) or o is None:
            if f in ABOUT_CLASSES:
                return f(*args, **kwargs)
            if f in READS_NOTHING or f.__module__ in PURE_MODULES:
                return self.call_pure(f, args, kwargs)
            self.stop(f"a call of {f.__module__}.{f.__qualname__}")
            return f(*args, **kwargs)
        if constant(o) or o.__class__ in (str, bytes):
            return self.call_pure(f, args, kwargs)
        if isinstance(o, CONTAINERS) or o.__class__ is collections.deque:
            name = f.__name__
            if name in READS:
                self.contents_deep(o)
                return self.call_pure(f, args, kwargs)
            if name in WRITES and id(o) in self.inside:
                return f(*args, **kwargs)
            if name in WRITES and name not in ("pop", "popitem", "setdefault", "popleft") and id(o) in self.outside:
                return self.change(o, None, method_of(name), *args, whole=o.__class__ is not collections.deque)
        elif isinstance(o, types.GeneratorType):
            return f(*args, **kwargs)
        self.stop(f"a call of {type(o).__name__}.{f.__name__}")
        return f(*args, **kwargs)

    def call_pure(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a built-in function that depends on nothing but its arguments."""
        special = {len: "__len__", iter: "__iter__", next: "__next__", bool: "__bool__"}.get(f)
        if special is not None and args and not isinstance(args[0], Tensor):
            if isinstance(getattr(type(args[0]), special, None), types.FunctionType):
                return self.special(args[0], special)
        if f in ITERATES:
            args = tuple([self.iterator(v) if self.iterable(v) else v for v in args])
        for v in (*args, *kwargs.values()):
            if isinstance(v, Tensor) and f not in (len, iter, list, tuple, zip, enumerate, max, min, sum, dict):
                self.stop(f"{getattr(f, '__name__', f)} of a tensor")
            elif isinstance(v, types.FunctionType) and f is not functools.partial:
                self.stop(f"a function as an argument of {getattr(f, '__name__', f)}")
            elif not isinstance(v, Tensor):
                self.contents_pure(v, f)
        r = f(*args, **kwargs)
        return self.new(r) if r.__class__ in (list, dict, set, collections.OrderedDict) else r

    def iterable(self, v: Any) -> bool:
        return self.known(v) and isinstance(getattr(type(v), "__iter__", None), types.FunctionType) and not isinstance(v, Tensor)

    def contents_pure(self, v: Any, f: Any) -> None:
        if v.__class__ in CONTAINERS:
            self.contents_deep(v)
            if f in (max, min, sorted) and any(isinstance(x, Tensor) for x in v):
                self.stop(f"{f.__name__} of tensors")
        elif constant(v) or self.iterates(v) or isinstance(v, (type, types.GeneratorType)):
            pass
        elif f in (zip, enumerate, list, tuple, dict, sum, max, min, sorted, any, all, reversed, set):
            if self.known(v) and isinstance(getattr(type(v), "__iter__", None), types.FunctionType):
                self.stop(f"{f.__name__} of {type(v).__name__}")
        elif f is functools.partial or is_code(v):
            pass
        elif f in (str, repr, format, hash):
            self.stop(f"{f.__name__} of {type(v).__name__}")


ITERATES = (zip, enumerate, list, tuple, sum, max, min, sorted, any, all, set, frozenset)
VIEWS = tuple(
    [type(v) for d in ({}, collections.OrderedDict()) for v in (d.keys(), d.values(), d.items())]
)
INLINED = ("rushlight.nn.", "rushlight.vision.")


def is_code(v: Any) -> bool:
    """Whether an object is a function, a class or a module: what it is does not change, its attributes are guarded."""
    return isinstance(v, (types.FunctionType, type, types.ModuleType, types.BuiltinFunctionType))


def state() -> tuple:
    """What all calls of operators depend on besides their arguments."""
    return (
        thread.grad, thread.inference, thread.autocast, thread.function_modes, thread.dispatch_modes,
        rushlight.get_default_dtype(), rushlight.is_grad_enabled(),
    )  # fmt: skip


@functools.cache
def setattr_of(name: str) -> Callable:
    def set_attribute(o: Any, v: Any) -> None:
        setattr(o, name, v)

    return set_attribute


@functools.cache
def method_of(name: str) -> Callable:
    def call_method(o: Any, *args: Any) -> Any:
        return getattr(o, name)(*args)

    return call_method


def fill_cell(cell: types.CellType, v: Any) -> None:
    cell.cell_contents = v


# -- functions with a handler ----------------------------------------------------------------------


def of_getattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 3:
        try:
            return c.attribute(args[0], args[1])
        except AttributeError:
            return args[2]
    return c.attribute(*args)


def of_hasattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    try:
        c.attribute(*args)
    except AttributeError:
        return False
    return True


def of_setattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    return c.set_attribute(*args)


def of_map(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    function, *lists = args
    iterators = [c.iterator(v) for v in lists]
    return c.new(list(c.call(frame, function, each, {}) for each in zip(*iterators, strict=False))).__iter__()


def of_print(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if not all(map(constant, args)) or not all(map(constant, kwargs.values())):
        c.stop("print")
    elif c.reason is None:
        c.step(print, args, kwargs)
    return print(*args, **kwargs)


def again(c: Capture, f: Any, args: tuple, kwargs: dict) -> Any:
    """A method of an optimizer that each run calls again: `step()` or `zero_grad()`."""
    o = args[0]
    c.contents_deep(o)
    if len(args) > 1 or not all(map(constant, kwargs.values())):
        c.stop(f"a call of {f.__qualname__} with arguments")
    if c.reason is None:
        c.step(f, args, kwargs)
    with c.recorder.paused():
        r = f(*args, **kwargs)
    if r is not None:
        c.stop(f"{f.__qualname__} with a result")
    if c.reason is None:
        c.recorder.after_optimizer(o)
    return r


HANDLED: dict[Any, Callable] = {
    rushlight.compiler.is_compiling: lambda *_: True,
    hooks.call_with_hooks: lambda c, frame, f, args, kwargs: c.call(frame, hooks.call_all, args, kwargs),
    getattr: of_getattr, hasattr: of_hasattr, setattr: of_setattr, map: of_map, print: of_print,
}  # fmt: skip
