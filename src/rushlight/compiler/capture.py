"""Capture: run a function once for real, and write down what it reads, computes and changes.

Note [Capture]
    The first call of a compiled function is carried out by the interpreter of its bytecode (interpreter.py). Every
    operator runs as always and gives its real result, so that a capture does nothing twice and takes nothing back:
    where something turns up that a program cannot hold (`Capture.stop`), the call simply goes on to its end, and
    the function stays as it is written. Meanwhile

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
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.autograd.function import Function
from rushlight.compiler.changes import Changes, method_of
from rushlight.compiler.decisions import STREAMS, has_runtime
from rushlight.compiler.guards import constant
from rushlight.compiler.interpreter import Frame, enclosing, frame_of, run
from rushlight.compiler.reads import CONTAINERS, MUTABLE, is_value
from rushlight.compiler.steps import RUNTIME, is_code, plain
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import tensors_in
from rushlight.nn import hooks
from rushlight.optim import fused
from rushlight.utils import checkpoint

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
    "rushlight.autograd.engine", "rushlight.autograd.function", "rushlight.amp.autocast_mode",
)  # fmt: skip
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
DRAWN = frozenset(["bernoulli", "fill", "normal"])
MAKERS = frozenset("tensor as_tensor asarray scalar_tensor".split())
READS = frozenset(
    "get keys values items copy count index __len__ __contains__ __getitem__ union intersection difference "
    "issubset issuperset isdisjoint __iter__ most_common".split()
)
WRITES = frozenset(
    "append extend insert update add discard remove clear sort reverse pop popitem setdefault appendleft "
    "popleft __setitem__ __delitem__".split()
)
ITERATES = (zip, enumerate, list, tuple, sum, max, min, sorted, any, all, set, frozenset)
INLINED = (
    "rushlight.nn.", "rushlight.vision.", "rushlight.optim.lr_", "rushlight.distributions.", "rushlight.masked",
    "rushlight.autograd.functional", "rushlight.overrides",
)  # fmt: skip


class Capture(Changes):
    """One capture of a call: what the function calls."""

    def call(self, frame: Frame | None, f: Any, args: tuple, kwargs: dict) -> Any:
        if f is super and not args and frame is not None:
            args = enclosing(frame)
        if self.reason is not None:
            self.recorder.leave()
            if self.variables:
                args, kwargs = plain(args), plain(kwargs)
            return f(*args, **kwargs)
        if isinstance(getattr(f, "__self__", None), STREAMS) and self.reached(f):
            return self.drawn(f, args, kwargs)
        if isinstance(f, types.MethodType):
            return self.call(frame, f.__func__, (f.__self__, *args), kwargs)
        handler = HANDLED.get(f) if f.__hash__ else None
        if handler is not None:
            return handler(self, frame, f, args, kwargs)
        if isinstance(f, types.FunctionType):
            return self.call_function(f, args, kwargs)
        if isinstance(f, type):
            return self.call_class(frame, f, args, kwargs)
        if isinstance(
            f, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType)
        ):
            return self.call_builtin(f, args, kwargs)
        if isinstance(f, functools._lru_cache_wrapper):
            return self.remembered(f, args, kwargs)
        if isinstance(f, functools.partial):
            self.contents_deep(f.args)
            return self.call(frame, f.func, (*f.args, *args), {**f.keywords, **kwargs})
        if isinstance(f, rushlight.compiler.compiled.Compiled):
            return self.call(frame, f.function, args, kwargs)
        found = self.in_class(type(f), "__call__")
        if isinstance(found, types.FunctionType) and self.known(f):
            return self.call(frame, found, (f, *args), kwargs)
        self.stop(f"a call of {type(f).__name__}")
        return f(*args, **kwargs)

    def call_function(self, f: types.FunctionType, args: tuple, kwargs: dict) -> Any:
        module = f.__module__ or ""
        if f is Function.apply.__func__:
            return self.apply_function(args, kwargs)
        if hasattr(f, "_torchdynamo_disable"):
            self.stop(f"{f.__qualname__} is disabled for torch.compile")
            return f(*args, **kwargs)
        if (
            hasattr(f, "op")
            or module.startswith(LEAVES)
            and not module.startswith("rushlight.nn.functional.")
        ):
            return self.operator(f, args, kwargs)
        if (
            args
            and isinstance(args[0], rushlight.optim.Optimizer)
            and f.__name__ in ("step", "zero_grad")
        ):
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
        self.take_function(f)
        return run(frame, self)

    def apply_function(self, args: tuple, kwargs: dict) -> Any:
        """A call of a custom autograd function: its methods are interpreted, its backward where a gradient runs."""
        cls = args[0]

        def interpreted(name: str) -> Any:
            method = self.attribute(cls, name)

            def call(ctx: Any, *given: Any) -> Any:
                return self.call(None, method, (self.new(ctx), *given), {})

            return staticmethod(call)

        named = [n for n in ("forward", "backward", "vjp", "setup_context") if n in vars(cls)]
        if "setup_context" in named or self.reason is not None:
            self.stop(f"a call of {cls.__name__}.apply")
            return cls.apply(*args[1:], **kwargs)
        for v in (*args[1:], *kwargs.values()):
            self.contents_deep(v)
        found = type(cls.__name__, (cls,), {n: interpreted(n) for n in named})
        return found.apply(*args[1:], **kwargs)

    def remembered(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function that remembers its results: guards ask it for the same object."""
        if not all(map(constant, (*args, *kwargs.values()))):
            self.stop(
                f"a call of {f.__qualname__}, which remembers its results, with other arguments than constants"
            )
            return f(*args, **kwargs)
        with self.recorder.paused():
            v = f(*args, **kwargs)
        name = self.guards.name
        given = [name(v) for v in args] + [f"{k}={name(v)}" for k, v in kwargs.items()]
        return self.hold(f"{name(f)}({', '.join(given)})", v)

    def take_function(self, f: types.FunctionType) -> None:
        """A function that is interpreted must keep its code and defaults; the defaults are objects from outside."""
        if id(f) not in self.inside and not (f.__module__ or "").startswith("rushlight."):
            name = self.guards.name(f)
            self.guards.identical(f"{name}.__code__", f.__code__)
            for part in ("__defaults__", "__kwdefaults__"):
                if getattr(f, part) is not None:
                    self.guards.identical(f"{name}.{part}", getattr(f, part))
        for v in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            if not constant(v) and id(v) not in self.inside:
                self.found(v)

    def operator(self, f: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function of tensors: the recorder sees what it does."""
        if f.__name__ in NUMBERS and self.recorder.knows(args[0]):
            return self.computed(f, args)
        if f.__name__ in DECIDING and all(map(self.recorder.knows, tensors_in(args))):
            return self.decided(f, args, kwargs, f"{f.__name__}() of a tensor")
        if f.__name__ in DATA or f.__name__ in MAKERS and not tensors_alone(f, args):
            self.stop(f"{f.__name__}() of a tensor")
            return f(*args, **kwargs)
        if f.__name__ == "requires_grad_" and not self.recorder.made_inside(args[0]):
            self.stop("requires_grad_() of a tensor from outside")
        if f.__name__ in DRAWN and any(
            t.requires_grad for t in tensors_in((*args, *kwargs.values()))
        ):
            self.stop(f"a gradient through {f.__name__}()")
        args = self.operands(f.__name__, args)
        if self.variables and f.__name__ not in TEXTS:
            self.refuse_runtime(f, (*args, *kwargs.values()))
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
        if cls in (float, int) and len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].numel() == 1:
                args = (self.operator(Tensor.item, args, {}),)
        if cls in READS_NOTHING or cls.__module__ in PURE_MODULES:
            return self.call_pure(cls, args, kwargs)
        if cls in ABOUT_CLASSES and len(args) == 1 or cls is super:
            return cls(*map(plain, args)) if cls is type else cls(*args)
        if issubclass(cls, BaseException) and cls.__module__ == "builtins":
            return self.new(cls(*args, **kwargs))
        if issubclass(cls, Tensor):
            self.stop(f"a {cls.__name__} is made")
        elif cls.__module__.startswith(
            ("rushlight.autograd.grad_mode", "rushlight.amp.autocast_mode")
        ):
            return self.new(cls(*args, **kwargs))
        elif (
            type(cls) in (type, abc.ABCMeta) and cls.__new__ is object.__new__
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
        elif cls is collections.defaultdict or cls is collections.deque:
            return self.call_pure(cls, args, kwargs)
        else:
            self.stop(f"a {cls.__name__} is made")
        return cls(*args, **kwargs)

    def call_builtin(self, f: Any, args: tuple, kwargs: dict) -> Any:
        if f == tuple.__new__:
            return f(*args)
        o = getattr(f, "__self__", None)
        if isinstance(o, types.ModuleType) or o is None:
            if f in ABOUT_CLASSES:
                return f(*args, **kwargs)
            if f in READS_NOTHING or f.__module__ in PURE_MODULES:
                return self.call_pure(f, args, kwargs)
            self.stop(f"a call of {f.__module__}.{f.__qualname__}")
            return f(*args, **kwargs)
        if constant(o) or o.__class__ in (str, bytes):
            for v in args:
                self.text_of(v) if f.__name__ == "format" else None
            return self.call_pure(f, args, kwargs)
        if isinstance(o, CONTAINERS):
            name = f.__name__
            if name == "get" and self.by_keys(o) and args and constant(args[0]):
                found = self.contains(o, args[0])
                return self.item(o, args[0]) if found else (*args, None)[1]
            if name in ("index", "count", "__contains__"):
                self.refuse_runtime(f, (o,))
            if name in READS:
                self.contents_deep(o)
                return self.call_pure(f, args, kwargs)
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
                    self.partly.add(id(o))
                args = tuple(map(self.snapshot, args)) if name in ("extend", "update") else args
                return self.change(o, None, method_of(name), *args, whole=whole)
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
        lazy = f in STRUCTURAL or f.__module__ == "itertools" and f is not itertools.accumulate
        if self.variables and not lazy:  # what iterators give is looked at
            args = tuple([self.new([*v]) if hasattr(v, "__next__") else v for v in args])
        values = (*args, *kwargs.values())
        if self.variables and (
            any(v.__class__ in RUNTIME for v in values)
            or f not in STRUCTURAL
            and any(map(has_runtime, values))
        ):
            return self.computed(f, args, kwargs)
        if f is bool and args:
            return self.truth(args[0])
        if f in ITERATES:
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
                functools.partial,
            ):
                self.stop(f"{getattr(f, '__name__', f)} of a tensor")
            elif isinstance(v, types.FunctionType) and f is not functools.partial:
                self.stop(f"a function as an argument of {getattr(f, '__name__', f)}")
            elif not isinstance(v, Tensor):
                self.contents_pure(v, f)
        r = f(*args, **kwargs)
        return self.new(r) if r.__class__ in MUTABLE else r

    def iterable(self, v: Any) -> bool:
        return (
            self.known(v)
            and isinstance(getattr(type(v), "__iter__", None), types.FunctionType)
            and not isinstance(v, Tensor)
        )

    def contents_pure(self, v: Any, f: Any) -> None:
        if v.__class__ in CONTAINERS:
            self.contents_deep(v)
            if f in (max, min, sorted) and any(isinstance(x, Tensor) for x in v):
                self.stop(f"{f.__name__} of tensors")
        elif constant(v) or self.iterates(v) or isinstance(v, (type, types.GeneratorType)):
            pass
        elif f in ITERATES or f in (dict, reversed):
            if not isinstance(v, tuple):
                self.stop(f"{f.__name__} of {type(v).__name__}")
        elif f is functools.partial or is_code(v):
            pass
        elif f is len and not isinstance(v, tuple):
            self.stop(f"the length of a {type(v).__name__}")
        elif f in (str, repr, format, hash):
            self.stop(f"{f.__name__} of {type(v).__name__}")


def tensors_alone(f: Any, args: tuple) -> bool:
    """Whether a tensor is made of no other tensors, or is one that is given."""
    if f.__name__ == "as_tensor" and isinstance(args[0], Tensor):
        return True
    return next(tensors_in(args), None) is None


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
    return iter([c.call(frame, function, each, {}) for each in zip(*iterators, strict=False)])


def of_print(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`print`: a change of the world outside, with texts that each run makes."""
    given = tuple([c.text_of(v) for v in args])
    if c.reason is None and all(map(constant, kwargs.values())):
        c.step(print, given, kwargs, "changes")
    else:
        c.stop("print")
    return print(*map(plain, args), **kwargs)


def of_text(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`str`, `repr` and `format` of a tensor, or of lists of them."""
    if len(args) == 1 and isinstance(args[0], BaseException) and constant(args[0].args):
        return f(*args)
    if (
        len(args)
        and is_value(args[0])
        and not constant(args[0])
        and args[0].__class__ not in RUNTIME
    ):
        return c.text_of(*args, f=f)
    return c.call_class(frame, f, args, kwargs) if f is str else c.call_builtin(f, args, kwargs)


def of_clock(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A clock is read behind what was done before."""
    c.recorder.end_graph()
    return c.computed(f, args, kind="clock")


def of_reduce(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    function, items, *first = args
    it = c.iterator(items)
    r = first[0] if first else next(it)
    for v in it:
        r = c.call(frame, function, (r, v), {})
    return r


def of_filter(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    function, items = args
    values = list(c.iterator(items))
    return iter(
        [v for v in values if c.truth(v if function is None else c.call(frame, function, (v,), {}))]
    )


def of_order(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`sorted`, `min` and `max`; of these with `key=` its calls are interpreted."""
    key = kwargs.get("key")
    if key is None or len(args) != 1:
        return c.call_pure(f, args, {k: v for k, v in kwargs.items() if k != "key"})
    values = list(c.iterator(args[0]))
    keys = [c.call(frame, key, (v,), {}) for v in values]
    if not constant(tuple(keys)):
        c.stop(f"{f.__name__} by keys that are no constants")
    if f is not sorted and not values:
        return f(values, **{k: v for k, v in kwargs.items() if k != "key"})
    given = {k: v for k, v in kwargs.items() if k == "reverse"}
    found = f(range(len(values)), key=keys.__getitem__, **given)
    return c.new([values[k] for k in found]) if f is sorted else values[found]


def of_tolist(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """The numbers of a small tensor."""
    (t,) = args
    with c.recorder.paused():
        v = f(t)
    if t.numel() > 64 or not c.recorder.knows(t) or t.dtype is rushlight.bool or t.is_complex():
        c.stop("tolist() of a tensor")
    variable = c.variable_of(f, args, {}) if c.reason is None else None

    def named(v: Any, expression: str) -> Any:
        if v.__class__ is list:
            return c.new([named(x, f"{expression}[{k}]") for k, x in enumerate(v)])
        return c.named(v, expression)

    return v if variable is None else named(v, variable)


def of_seed(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if not all(map(constant, args)):
        c.stop("a seed that is no constant")
    if c.reason is None:
        c.step(f, args, kwargs, "calls")
    r = f(*args, **kwargs)
    c.found(r)
    return r


def of_import(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`import` in a function: of what is imported, the attributes are guarded."""
    name, _, _, _, level = args
    if level or name not in sys.modules:
        c.stop(f"the import of {name}")
    v = f(*args)
    c.guards.identical(f"modules.get({v.__name__!r})", v)
    c.guards.names["modules"] = sys.modules
    c.found(v)
    return v


def of_checkpoint(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A checkpoint saves memory and changes no value."""
    if kwargs != {"use_reentrant": False} or not args:
        c.stop("a checkpoint that is reentrant or has options")
        return f(*args, **kwargs)
    return c.call(frame, args[0], args[1:], {})


def of_hook(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A hook on a tensor that the function made is interpreted when a gradient runs."""
    t, hook = args
    if not c.recorder.made_inside(t) or kwargs or t.is_leaf:
        c.stop("a hook on a tensor from outside")
        return f(*args, **kwargs)
    return c.new(f(t, lambda g: c.call(None, hook, (g,), {})))


def again(c: Capture, f: Any, args: tuple, kwargs: dict) -> Any:
    """A method of an optimizer that each run calls again: `step()` or `zero_grad()`."""
    o = args[0]
    c.contents_deep(o)
    if len(args) > 1 or not all(map(constant, kwargs.values())):
        c.stop(f"a call of {f.__qualname__} with arguments")
    if c.reason is None:
        clears = f is rushlight.optim.Optimizer.zero_grad and kwargs in ({}, {"set_to_none": True})
        c.step(f, args, kwargs, "changes" if clears else "calls")
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
    getattr: of_getattr, hasattr: of_hasattr, setattr: of_setattr, map: of_map, functools.reduce: of_reduce, filter: of_filter,
    sorted: of_order, min: of_order, max: of_order, Tensor.tolist: of_tolist, rushlight.manual_seed: of_seed,
    time.time: of_clock, time.perf_counter: of_clock, time.monotonic: of_clock, time.process_time: of_clock,
    print: of_print, str: of_text, repr: of_text, format: of_text,
    rushlight.nn.Module.__getattr__: lambda c, frame, f, args, kwargs: c.attribute_of_module(*args),
    __import__: of_import, checkpoint.checkpoint: of_checkpoint, Tensor.register_hook: of_hook,
    # What handles many arrays in one call: operators do the same.
    fused.lengths: lambda *_: None, fused.changed: lambda *_: False,
}  # fmt: skip
