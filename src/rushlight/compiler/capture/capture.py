"""Capture: run a function once for real, and write down what it reads, computes and changes.

Note [Capture]
    The first call of a compiled function is carried out by the interpreter of its bytecode (interpreter.py). Every
    operator runs as always and gives its real result, so that a capture does nothing twice and takes nothing back:
    where something turns up that a program cannot hold (`Capture.stop`), the call simply goes on to its end as it is
    written; at a call that none can hold it is split instead, see Note [Splits] in splits.py. Meanwhile

    - reads of outside objects become guards (guards.py);
    - operators below autograd, backward passes included, become the nodes of a graph (recording.py);
    - values of tensors that Python sees become variables, and decisions where the function depends on them
      (decisions.py);
    - changes of outside objects, and calls that are done again in each run (an optimizer's step), become steps
      between graphs.
"""

from __future__ import annotations

import abc
import collections
import functools
import itertools
import math
import operator
import types
import warnings
import weakref
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd.engine import as_tuple
from rushlight.autograd.function import Function, FunctionCtx
from rushlight.autograd.grad_mode import Switch
from rushlight.autograd.state import thread
from rushlight.compiler.capture.bytecode import is_inlined, is_interpreted, is_operator, module_of
from rushlight.compiler.capture.changes import Changes, method_of, unchanged
from rushlight.compiler.capture.consumed import keep_numbers
from rushlight.compiler.capture.decisions import has_runtime, is_stream
from rushlight.compiler.capture.guards import constant, holds_tensors, is_key
from rushlight.compiler.capture.handlers import HANDLED, again, made_module
from rushlight.compiler.capture.histories import asks_within
from rushlight.compiler.capture.interpreter import CALLS, Frame, frame_of, in_frame, looks, run
from rushlight.compiler.capture.reads import CONTAINERS, MUTABLE, SEQUENCES
from rushlight.compiler.capture.sizes import NONE
from rushlight.compiler.capture.steps import RUNTIME, is_code, plain
from rushlight.compiler.capture.templates import PLAIN_CONSTRUCTORS
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import tensors_in

READS_NOTHING = frozenset(
    {
        abs, all, any, bin, bool, chr, complex, dict, divmod, enumerate, float, format, frozenset, hex, int,
        iter, len, list, max, min, next, oct, ord, pow, range, repr, reversed, round, set, slice, sorted,
        str, sum, tuple, zip, functools.partial, object, collections.OrderedDict, rushlight.Size, types.MethodType,
    }
)  # fmt: skip
NUMBER_CLASSES = frozenset({float, int, complex})
OF_NUMBERS = frozenset({abs, round, divmod, pow, bin, hex, oct, chr, ord})
ABOUT_CLASSES = frozenset({isinstance, issubclass, callable, type, id})
ABOUT_ATTRIBUTES = frozenset({getattr, hasattr, print, str, repr, format})
PURE_MODULES = ("math", "_operator", "itertools", "operator", "cmath")
# Methods of dictionaries that call no method of a subclass.
OF_DICTIONARIES = frozenset(
    "__contains__ __delitem__ __getitem__ __iter__ __len__ __setitem__ get items keys values".split()
)
# What `super()` gives of these is called as that of `object`.
OF_OBJECTS = ("__getattribute__", "__setattr__")
TEXTS = ("__str__", "__repr__", "__format__")
STRUCTURAL = (
    zip, enumerate, list, tuple, dict, reversed, iter, next, len, functools.partial, range, slice, object,
    collections.OrderedDict,
)  # fmt: skip
NUMBERS = frozenset("item __int__ __float__".split())
DECIDING = frozenset("is_nonzero equal allclose __bool__ __index__".split())
DATA = frozenset(
    "tolist numpy __array__ __repr__ __str__ __format__ data_ptr "
    "__complex__ storage untyped_storage retain_grad "
    "__deepcopy__ __reduce_ex__ __hash__ share_memory_ map_ apply_ set_".split()
)
PLACES = frozenset(
    ["storage_offset", "_is_view"]
)  # in memory from outside another one in each call
DRAWN = frozenset(["bernoulli", "fill", "normal"])
MAKERS = frozenset("tensor as_tensor asarray scalar_tensor".split())
# These ask for integers; other functions of `math` for floats.
INDICES = frozenset(
    {
        range, chr, bin, hex, oct, operator.index, math.factorial, math.gcd, math.lcm, math.comb, math.perm,
        math.isqrt,
    }
)  # fmt: skip
READS = frozenset(
    "get keys values items copy count index __len__ __contains__ __getitem__ union intersection difference "
    "issubset issuperset isdisjoint __iter__ most_common".split()
)
WRITES = frozenset(
    "append extend insert update add discard remove clear sort reverse pop popitem setdefault appendleft "
    "popleft __setitem__ __delitem__".split()
)
ITERATES = (zip, enumerate, list, tuple, sum, max, min, sorted, any, all, set, frozenset)


class Capture(Changes):
    """One capture of a call: what the function calls."""

    def call(self, frame: Frame | None, f: Any, args: tuple, kwargs: dict) -> Any:
        if looks(f) and (frame is not None or self.frames):
            if f is not super and (not args or f in (eval, exec)):
                self.stop(f"a call of {f.__name__}")
            f, args = in_frame(frame or self.frames[-1], f, args)
        if self.reason is not None:
            self.within = asks_within(f, args, kwargs) or self.within
            self.recorder.leave()
            if self.variables:
                args = self.given_away(args, set())
                kwargs = {k: self.given_away(v, set()) for k, v in kwargs.items()}
            return f(*args, **kwargs)
        if frame is not None and self.foreign and (why := self.foreign.get(frame.site)) is not None:
            return self.as_written(frame, why, f, args, kwargs)
        if any(map(self.is_foreign_iterator, (getattr(f, "__self__", None), *args))) and not is_interpreted(f):  # fmt: skip
            reason = "a call that takes elements of an iterator from outside"
            return self.as_written(frame, reason, f, args, kwargs)
        if is_stream(getattr(f, "__self__", None)) and self.reached(f):
            return self.drawn(f, args, kwargs)
        if isinstance(f, types.MethodType):
            return self.call(frame, f.__func__, (f.__self__, *args), kwargs)
        if isinstance(f, types.MethodWrapperType) and f.__name__ in OF_OBJECTS:
            return self.call(frame, getattr(object, f.__name__), (f.__self__, *args), kwargs)
        handler = HANDLED.get(f) if f.__hash__ else None
        if handler is not None:
            self.fix_all(*args) if f not in ABOUT_ATTRIBUTES else None
            return handler(self, frame, f, args, kwargs)
        if isinstance(f, types.FunctionType):
            return self.call_function(frame, f, args, kwargs)
        if isinstance(f, type):
            return self.call_class(frame, f, args, kwargs)
        if isinstance(
            f, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType)
        ):
            return self.call_builtin(frame, f, args, kwargs)
        if isinstance(f, weakref.ref) and self.known(f) and not args:
            return self.hold(f"{self.guards.name(f)}()", f())
        if isinstance(f, functools._lru_cache_wrapper):
            return self.remembered(frame, f, args, kwargs)
        if isinstance(f, functools.partial):
            if id(f) in self.outside:
                for name in ("func", "args", "keywords"):
                    self.hold(f"{self.outside[id(f)][1]}.{name}", getattr(f, name))
                self.guard_contents(f.keywords)
            self.contents_deep(f.args)
            return self.call(frame, f.func, (*f.args, *args), {**f.keywords, **kwargs})
        if isinstance(f, rushlight.compiler.compiled.Compiled):
            return self.call(frame, f.function, args, kwargs)
        found = self.in_class(type(f), "__call__")
        if isinstance(found, types.FunctionType) and self.known(f):
            return self.call(frame, found, (f, *args), kwargs)
        return self.as_written(frame, f"a call of {type(f).__name__}", f, args, kwargs)

    def call_function(
        self, frame: Frame | None, f: types.FunctionType, args: tuple, kwargs: dict
    ) -> Any:
        module = module_of(f)
        if f is Function.apply.__func__:
            return self.apply_function(args, kwargs)
        if hasattr(f, "_torchdynamo_disable"):
            reason = f"{f.__qualname__} is disabled for torch.compile"
            return self.as_written(frame, reason, f, args, kwargs)
        if is_operator(f):
            return self.operator(f, args, kwargs, frame)
        if (
            args
            and isinstance(args[0], rushlight.optim.Optimizer)
            and f.__name__ in ("step", "zero_grad")
        ):
            return again(self, f, args, kwargs)
        if module.startswith("rushlight.") and not is_inlined(f, module):
            return self.as_written(frame, f"a call of {module}.{f.__qualname__}", f, args, kwargs)
        called = frame_of(f, args, kwargs)
        if called is None:
            reason = f"a call of {f.__qualname__}, whose bytecode is not interpreted"
            return self.as_written(frame, reason, f, args, kwargs)
        if len(self.frames) > 200:
            self.stop("a deep recursion")
        self.take_function(f)
        if frame is not None and frame.instruction in CALLS and not called.plan.generator:
            called.caller = frame
        return run(called, self)

    def apply_function(self, args: tuple, kwargs: dict) -> Any:
        """A call of a custom autograd function: its methods are interpreted, its backward where a gradient runs."""
        cls = args[0]
        self.fix_all(args, kwargs)
        if self.reason is not None:
            return cls.apply(*args[1:], **kwargs)

        def interpreted(name: str) -> Any:
            method = self.attribute(cls, name)

            def call(*given: Any) -> Any:
                for v in given[:1]:
                    if isinstance(v, FunctionCtx):
                        self.new(v)
                if self.differentiates and name in ("backward", "vjp"):
                    with unchanged(given[0]):
                        return self.call(None, method, given, {})
                return self.call(None, method, given, {})

            call.__wrapped__ = method  # type: ignore[attr-defined]  # functions take attributes; `apply` asks for the signature
            call.__defaults__ = getattr(method, "__defaults__", None)
            return staticmethod(call)

        named = [
            n for n in ("forward", "backward", "vjp", "setup_context")
            if self.attribute(cls, n) is not getattr(Function, n)
        ]  # fmt: skip
        for v in (*args[1:], *kwargs.values()):
            self.contents_deep(v)
        found = type(cls.__name__, (cls,), {n: interpreted(n) for n in named})
        return found.apply(*args[1:], **kwargs)

    def remembered(self, frame: Frame | None, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function that remembers its results: guards ask it for the same object, unless it forgot all, as what
        asks would do early what the function does later."""
        if not all(map(self.is_kept, (*args, *kwargs.values()))):
            if not any(isinstance(v, Tensor) for v in (*args, *kwargs.values())):
                reason = f"a call of {f.__qualname__}, which remembers its results, with other arguments than constants and kept objects"
                return self.as_written(frame, reason, f, args, kwargs)
            at = self.frames[-1]
            warnings.warn_explicit(
                f"torch.compile ignores that {f.__qualname__} remembers its results: of tensors it computes them in each "
                "call, which gives others where one was written to in between",
                UserWarning,
                at.plan.code.co_filename,
                at.line,
            )
            return self.call(None, f.__wrapped__, args, kwargs)
        with self.recorder.paused():
            v = f(*args, **kwargs)
        name, info = self.guards.name, f.cache_info()
        self.guards.add(
            f"(i := {name(f)}.cache_info()).misses >= {info.misses} and i.currsize >= {info.currsize}"
        )
        given = [name(v) for v in args] + [f"{k}={name(v)}" for k, v in kwargs.items()]
        expression = f"{name(f)}({', '.join(given)})"
        self.hold(expression, v)
        for place in [p for p in self.guards.places if p.startswith(expression)]:
            del self.guards.places[place]
        return v

    def is_kept(self, v: Any) -> bool:
        """Whether a guard can give a value to a function again: a constant, or an object that is the same in each call.

        Objects that compare by what is in them may have changed since the call began.
        """
        if v.__class__ is tuple:
            return all(map(self.is_kept, v))
        by_identity = type(v).__hash__ is object.__hash__ and type(v).__eq__ is object.__eq__
        return constant(v) or by_identity and id(v) in self.outside

    def operator(self, f: Any, args: tuple, kwargs: dict, frame: Frame | None = None) -> Any:
        """A call of a function of tensors: the recorder sees what it does."""
        if f.__name__ in NUMBERS and self.recorder.knows(args[0]):
            return self.computed(f, args)
        if f.__name__ in DECIDING and all(map(self.recorder.knows, tensors_in(args))):
            return self.decided(f, args, kwargs, f"{f.__name__}() of a tensor")
        placed = f.__name__ in PLACES and not self.is_made(args[0])
        if placed or f.__name__ in DATA or f.__name__ in MAKERS and not tensors_alone(f, args):
            return self.as_written(frame, f"{f.__name__}() of a tensor", f, args, kwargs)
        if f.__name__ == "requires_grad_" and not self.recorder.new_leaf(args[0]):
            self.stop("requires_grad_() of a tensor from outside")
        if (
            f.__name__ in DRAWN
            and thread.grad
            and any(t.requires_grad for t in tensors_in((*args, *kwargs.values())))
        ):
            self.stop(f"a gradient through {f.__name__}()")
        if (r := self.operator_repeated(f, args, kwargs)) is not NONE:
            return r
        if f.__name__ == "__getitem__":
            args = (args[0], self.index(args[1]))
        given, args = args, self.operands(f.__name__, args)
        kwargs = dict(zip(kwargs, self.decided_integers(f.__name__, kwargs.values()), strict=True))
        if self.variables and f.__name__ not in TEXTS:
            if any(map(has_runtime, (*args, *kwargs.values()))):
                reason = f"{f.__name__} of values that were read from tensors"
                return self.as_written(frame, reason, f, args, kwargs)
        if f.__name__ == "backward" or f is rushlight.autograd.grad:
            ends = as_tuple((*args, kwargs.get("inputs"))[1]) if f.__name__ == "grad" else ()
            if (reason := self.recorder.runs_on(*ends)) is not None:
                return self.as_written(frame, reason, f, args, kwargs)
        for v in (*args, *kwargs.values()):
            if not isinstance(v, types.FunctionType):
                self.contents_deep(v)
            else:
                self.stop(f"a function as an argument of {f.__name__}")
        if self.reason is None and f is rushlight.autograd.grad:
            self.recorder.refuse_hooks()
        if self.reason is None and f.__name__ == "backward":
            self.recorder.before_backward()
        r = keep_numbers(f(*args, **kwargs), given, args)
        if self.reason is None and f.__name__ == "backward":
            self.recorder.after_backward()
        return self.new(r) if r.__class__ in (list, dict) or isinstance(r, Switch) else r

    def call_class(self, frame: Frame | None, cls: type, args: tuple, kwargs: dict) -> Any:
        if cls in (float, int) and len(args) == 1:
            args = (self.number_of(float, args[0]),)
        if cls in READS_NOTHING or cls.__module__ in PURE_MODULES:
            if cls in NUMBER_CLASSES and not all(map(self.is_number, args)):
                reason = f"{cls.__name__} of {type(args[0]).__name__}"
                return self.as_written(frame, reason, cls, args, kwargs)
            return self.call_pure(cls, args, kwargs)
        if cls in ABOUT_CLASSES and len(args) == 1 or cls is super:
            return cls(*map(plain, args)) if cls is type else cls(*args)
        if issubclass(cls, BaseException):
            if isinstance(cls.__init__, types.FunctionType):
                e = self.new(cls.__new__(cls, *args, **kwargs))
                self.call(None, self.in_class(cls, "__init__"), (e, *args), kwargs)
                return e
            return self.new(cls(*args, **kwargs))
        if issubclass(cls, Tensor):
            return self.as_written(frame, f"a {cls.__name__} is made", cls, args, kwargs)
        elif issubclass(cls, rushlight.nn.Module) and cls.__module__.startswith(
            ("rushlight.nn.", "torch.nn.")
        ):
            made = made_module(self, cls, args, kwargs)
            if any(True for _ in (*made.parameters(), *made.buffers())):
                self.stop(f"a {cls.__name__} is made")
            return made
        elif cls.__module__.startswith(
            (
                "rushlight.autograd.grad_mode",
                "rushlight.amp.autocast_mode",
                "torch.autograd.grad_mode",
                "torch.amp.autocast_mode",
            )
        ):
            return self.new(cls(*args, **kwargs))
        elif (
            type(cls).__call__ is type.__call__ and cls.__new__ in PLAIN_CONSTRUCTORS and cls not in CONTAINERS
            and isinstance(cls.__init__, (types.FunctionType, types.WrapperDescriptorType))
            and not issubclass(cls, rushlight.optim.Optimizer)
        ):  # fmt: skip
            o = self.new(cls.__new__(cls))
            if isinstance(cls.__init__, types.FunctionType):
                self.call(None, self.in_class(cls, "__init__"), (o, *args), kwargs)
            elif args or kwargs:
                if cls.__init__ is object.__init__:
                    raise TypeError(f"{cls.__name__}() takes no arguments")
                self.stop(f"a {cls.__name__} is made of arguments")
                cls.__init__(o, *args, **kwargs)
            return o
        elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return cls(*args, **kwargs)
        elif cls is collections.defaultdict or cls is collections.deque:
            return self.call_pure(cls, args, kwargs)
        return self.as_written(frame, f"a {cls.__name__} is made", cls, args, kwargs)

    def call_builtin(self, frame: Frame | None, f: Any, args: tuple, kwargs: dict) -> Any:
        if f == tuple.__new__:
            return f(*args)
        if f == dict.fromkeys:
            return self.call_pure(f, args, kwargs)
        o = getattr(f, "__self__", None)
        if o is None and isinstance(f, types.MethodDescriptorType) and args and not kwargs:
            if self.is_dictionary(args[0]) and f.__name__ in OF_DICTIONARIES:
                return self.of_dictionary(args[0], f.__get__(args[0]), args[1:])
        if isinstance(o, types.ModuleType) or o is None:
            if f in ABOUT_CLASSES:
                return f(*args, **kwargs)
            module = getattr(f, "__module__", None)
            if f in READS_NOTHING or module in PURE_MODULES:
                if (f in OF_NUMBERS or module == "math") and not all(map(self.is_number, args)):
                    reason = f"{f.__name__} of {type(args[0]).__name__}"
                    return self.as_written(frame, reason, f, args, kwargs)
                return self.call_pure(f, args, kwargs)
            return self.as_written(frame, f"a call of {module}.{f.__qualname__}", f, args, kwargs)
        if o.__class__ in RUNTIME and self.reason is None:
            method = getattr(o.__class__.__base__, f.__name__)
            return self.computed(method, (o, *args), kwargs)
        if constant(o) or o.__class__ in (str, bytes):
            for v in args:
                self.text_of(v) if f.__name__ == "format" else None
            return self.call_pure(f, args, kwargs)
        if self.is_dictionary(o):
            if f.__name__ in OF_DICTIONARIES and not kwargs:
                return self.of_dictionary(o, f, args)
            if f.__name__ == "__init__" and not args and not kwargs:
                return f()
        if isinstance(o, CONTAINERS):
            return self.call_of_container(o, f, args, kwargs)
        if (
            isinstance(o, types.GeneratorType)
            or isinstance(o, BaseException)
            and id(o) in self.inside
            and f.__name__ == "__init__"
        ):
            return f(*args, **kwargs)
        if f.__name__ == "__subclasses__" and type(o) in (type, abc.ABCMeta) and not args:
            classes = self.new(f())
            self.guards.add(f"{self.guards.name(f)}() == {self.guards.name([*classes])}")
            for cls in classes:
                self.found(cls)
            return classes
        reason = f"a call of {type(o).__name__}.{f.__name__}"
        return self.as_written(frame, reason, f, args, kwargs)

    def call_of_container(self, o: Any, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a method `f` of a list, dictionary, set or deque."""
        name = f.__name__
        if name == "get" and self.by_keys(o) and args and is_key(args[0]):
            found = self.contains(o, args[0])
            return self.item(o, args[0]) if found else (*args, None)[1]
        if name in ("index", "count", "__contains__"):
            self.refuse_runtime(f, (o,))
        if name not in (
            "keys",
            "values",
            "items",
            "copy",
            "__iter__",
            "__len__",
            "append",
            "extend",
            "insert",
            "clear",
        ):
            self.refuse_methods([*o, *args])
        if name in READS:
            self.contents_deep(o)
            return self.call_pure(f, args, kwargs)
        if name == "setdefault" and self.by_keys(o) and args and is_key(args[0]):
            if not self.contains(o, args[0]):
                self.set_item(o, args[0], (*args, None)[1])
            return self.item(o, args[0])
        if (
            name in ("pop", "popleft")
            and id(o) in self.outside
            and (args or o.__class__ in SEQUENCES)
        ):
            return self.taken_out(o, *((0,) if name == "popleft" else args or (-1,)))
        if name == "sort" and kwargs.get("key") is not None:
            self.set_item(o, slice(None), HANDLED[sorted](self, None, sorted, (o,), kwargs))
            return None
        if o.__class__ is set and self.variables:
            args = self.concrete(args, "a value that was read from a tensor in a set")
        if name in WRITES and id(o) in self.inside:
            self.refuse_escaped(o)
            return f(*args, **kwargs)
        if (
            name in WRITES
            and name not in ("pop", "popitem", "setdefault", "popleft")
            and id(o) in self.outside
        ):
            whole = o.__class__ is not collections.deque
            if name in ("append", "extend") and id(o) not in self.read:
                whole = False
                self.partly[id(o)] = None
            args = tuple(map(self.snapshot, args)) if name in ("extend", "update") else args
            method = method_of(name, *kwargs)
            return self.change(o, None, method, *args, *kwargs.values(), whole=whole)
        self.stop(f"a call of {type(o).__name__}.{f.__name__}")
        return f(*self.given_away(args, set()), **kwargs)

    def taken_out(self, o: Any, key: Any, *otherwise: Any) -> Any:
        """An item of a container from outside, which is deleted."""
        self.guard_contents(o)
        if otherwise and not self.contains(o, key):
            return otherwise[0]
        if not o and not isinstance(o, dict):
            return o.pop()  # which says so
        v = self.item(o, key)
        self.delete_item(o, key)
        return v

    def call_pure(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a built-in function that depends on nothing but its arguments."""
        self.fix_all(*args)
        special = {len: "__len__", iter: "__iter__", next: "__next__", bool: "__bool__"}.get(f)
        if special is not None and args and not isinstance(args[0], Tensor):
            if isinstance(getattr(type(args[0]), special, None), types.FunctionType):
                return self.special(args[0], special)
        if self.reason is None and any(isinstance(v, Tensor) for v in args):
            if f is abs:
                return self.operator(Tensor.__abs__, args, {})
            if f in INDICES or getattr(f, "__module__", None) == "math" and f is not math.trunc:
                kind = operator.index if f in INDICES else float
                args = tuple([self.number_of(kind, v) for v in args])
        lazy = (
            f in STRUCTURAL
            or getattr(f, "__module__", "") == "itertools"
            and f is not itertools.accumulate
        )
        if f in (any, all) and len(args) == 1 and hasattr(args[0], "__next__"):
            for v in args[0]:  # no further than to the first that decides
                if self.truth(v) == (f is any):
                    return f is any
            return f is all
        if not lazy:  # what iterators give is looked at
            args = tuple([self.new([*v]) if hasattr(v, "__next__") else v for v in args])
        if f is range:
            args = tuple(self.concrete([*args], "the passes of a loop"))
        values = (*args, *kwargs.values())
        if self.reason is None and any(isinstance(v, np.generic) for v in values):
            return self.computed(f, args, kwargs)
        if self.variables and (
            any(v.__class__ in RUNTIME for v in values)
            or f not in STRUCTURAL
            and any(map(has_runtime, values))
        ):
            return self.computed(f, args, kwargs)
        if f is bool and args:
            return self.truth(args[0])
        if f in ITERATES and not (f in (max, min) and len(args) > 1):
            args = tuple([self.iterator(v) if self.iterable(v) else v for v in args])
        for v in (*args, *kwargs.values()):
            if isinstance(v, Tensor) and f not in (
                len,
                iter,
                list,
                tuple,
                zip,
                enumerate,
                max,
                min,
                sum,
                dict,
                dict.fromkeys,
                functools.partial,
            ):
                self.stop(f"{getattr(f, '__name__', f)} of a tensor")
            elif isinstance(v, types.FunctionType) and f not in (
                functools.partial,
                types.MethodType,
            ):
                self.stop(f"a function as an argument of {getattr(f, '__name__', f)}")
            elif not isinstance(v, Tensor):
                self.contents_pure(v, f)
        r = f(*args, **kwargs)
        return self.new(r) if r.__class__ in MUTABLE else r

    def number_of(self, kind: Any, v: Any) -> Any:
        """A real tensor of one element as an integer or a float; anything else as it is."""
        if not isinstance(v, Tensor) or v.numel() != 1 or v.is_complex():
            return v
        if kind is float:
            return self.operator(Tensor.item, (v,), {})
        return self.operator(Tensor.__index__, (v,), {})

    def is_number(self, v: Any) -> bool:
        """Whether a function of numbers calls no method of `v` that is written in Python."""
        if constant(v) or v.__class__ in RUNTIME or isinstance(v, (Tensor, np.generic, tuple)):
            return True
        return v.__class__ in CONTAINERS or self.iterates(v) or isinstance(v, types.GeneratorType)

    def iterable(self, v: Any) -> bool:
        return (
            self.known(v)
            and isinstance(getattr(type(v), "__iter__", None), types.FunctionType)
            and not isinstance(v, Tensor)
        )

    def contents_pure(self, v: Any, f: Any) -> None:
        if v.__class__ in CONTAINERS:
            if f in (str, repr, format) and holds_tensors(v):
                self.stop(f"the text of a {type(v).__name__} of tensors")
            self.contents_deep(v)
            if f not in STRUCTURAL or f is dict:
                self.refuse_methods(v)
            if f in (max, min, sorted) and any(isinstance(x, Tensor) for x in v):
                self.stop(f"{f.__name__} of tensors")
        elif constant(v) or self.iterates(v) or isinstance(v, (type, types.GeneratorType)):
            pass
        elif f in ITERATES or f in (dict, reversed):
            if not isinstance(v, tuple):
                self.stop(f"{f.__name__} of {type(v).__name__}")
        elif f is functools.partial or is_code(v):
            pass
        elif f is len and not (isinstance(v, tuple) or self.is_dictionary(v)):
            self.stop(f"the length of a {type(v).__name__}")
        elif f in (str, repr, format, hash):
            self.stop(f"{f.__name__} of {type(v).__name__}")


def tensors_alone(f: Any, args: tuple) -> bool:
    """Whether a tensor is made of no other tensors, or is one that is given."""
    if f.__name__ == "as_tensor" and isinstance(args[0], Tensor):
        return True
    return next(tensors_in(args), None) is None
