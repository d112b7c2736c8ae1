"""Functions that a capture takes over: what it does instead of interpreting them."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import operator
import sys
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import library
from rushlight._higher_order_ops.control_flow import asked_of_modes
from rushlight.autograd.saved_hooks import saved_tensors_hooks
from rushlight.autograd.state import thread
from rushlight.compiler.capture.changes import own_setattr_of
from rushlight.compiler.capture.guards import changes, constant
from rushlight.compiler.capture.interpreter import frame_of, run
from rushlight.compiler.capture.reads import CONTAINERS, has_methods, is_value
from rushlight.compiler.capture.recording import Segment
from rushlight.compiler.capture.steps import RUNTIME, is_code, plain
from rushlight.compiler.capture.templates import plain_instance
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import NOTHING
from rushlight.nn import hooks
from rushlight.optim import fused, optimizer
from rushlight.utils import checkpoint

if TYPE_CHECKING:
    from rushlight.compiler.capture.capture import Capture


def named(c: Capture, args: tuple) -> tuple:
    """An object, the name of an attribute, and what else is given."""
    o, name, *rest = args
    return o, c.concrete(name, "a value that was read from a tensor as a name"), *rest


def of_getattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    args = named(c, args)
    if len(args) == 3:
        try:
            return c.attribute(args[0], args[1])
        except AttributeError:
            return args[2]
    return c.attribute(*args)


def of_vars(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1 and written_in_python(args[0]) and hasattr(args[0], "__dict__"):
        return c.attribute(args[0], "__dict__")
    return c.call_builtin(frame, f, args, kwargs)


def of_hasattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    try:
        c.attribute(*named(c, args))
    except AttributeError:
        return False
    return True


def of_setattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    return c.set_attribute(*named(c, args))


def of_delattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    return c.delete_attribute(*named(c, args))


def of_map(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) < 2 or kwargs:
        return c.call_class(frame, f, args, kwargs)
    function, *lists = args
    return generated(c, mapped, function, *map(c.iterator, lists))


def mapped(function: Callable, *iterators: Iterator) -> Iterator:
    for each in zip(*iterators, strict=False):
        yield function(*each)


def generated(c: Capture, f: types.FunctionType, *args: Any) -> Iterator:
    """The generator of a function of this file, which is interpreted as those of users are: each element when it is asked for."""
    called = frame_of(f, args, {})
    assert called is not None
    return run(called, c)


def of_print(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`print`: a change of the world outside, with texts that each run makes."""
    given = []
    for v in args:  # None: the frame does not wait for a text alone
        text = of_text(c, None, str, (v,), {}) if written_in_python(v) else c.text_of(v)
        given.append(
            text if c.reason is None else str(plain(text))
        )  # asked once, as objects may count
    if c.reason is None and all(map(constant, kwargs.values())):
        c.step(print, tuple(given), kwargs, "changes")
    else:
        c.stop("print")
    return print(*map(plain, given), **kwargs)


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
    if args and c.reason is None and written_in_python(args[0]) and c.known(args[0]):
        name = "__format__" if f is format else "__repr__" if f is repr else "__str__"
        found = c.in_class(type(args[0]), name)
        if isinstance(found, types.FunctionType):
            return c.call(frame, found, args, {})
        if f is format and found is object.__format__ and not args[1:] or args[1:] == ("",):
            return of_text(c, frame, str, args[:1], {})
        if f is str and found is object.__str__:
            return of_text(c, frame, repr, args, {})
    return (
        c.call_class(frame, f, args, kwargs) if f is str else c.call_builtin(frame, f, args, kwargs)
    )


def written_in_python(v: Any) -> bool:
    """Whether an object has a class of its user's."""
    return changes(type(v)) and not constant(v) and not isinstance(v, (Tensor, type))


def of_warn(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`warnings.warn`: a change of the world outside, by the line of the function that is carried out."""
    given = dict(zip(("message", "category", "stacklevel"), args, strict=False)) | kwargs
    level = given.get("stacklevel", 1)
    kind = given.get("category") or UserWarning
    if (
        given["message"].__class__ is not str
        or not 0 < level <= len(c.frames)
        or len(given) > 3
        or not is_code(kind)
    ):
        c.stop("a call of warnings.warn")
        return f(*args, **kwargs)
    at = c.frames[-level]
    registry = at.globals.setdefault("__warningregistry__", {})
    c.found(registry)
    line = (
        given["message"],
        kind,
        at.plan.code.co_filename,
        at.line,
        at.globals.get("__name__"),
        registry,
    )
    c.step(warnings.warn_explicit, line, {}, "changes")
    return warnings.warn_explicit(*line)


def of_exc_info(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    e = next((x.handled for x in c.frames[::-1] if x.handled is not None), None)
    return type(e) if e else None, e, e and e.__traceback__


def of_own_setattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    o, name, v = args
    return c.change(o, name, own_setattr_of(name), v)


def of_own_getattr(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`object.__getattribute__(o, name)`."""
    o, name = named(c, args)
    return c.own_attribute(o, name) if written_in_python(o) and c.known(o) else c.attribute(o, name)


def of_signature(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`inspect.signature(function)`: it is told by the functions that stand behind one another."""
    g = getattr(args[0], "__func__", args[0]) if args else None
    if not isinstance(g, types.FunctionType) or kwargs:
        c.stop("the signature of an object that is no function")
        return f(*args, **kwargs)
    while isinstance(g, types.FunctionType):
        c.take_function(g)
        if of_getattr(c, frame, getattr, (g, "__signature__", None), {}) is not None:
            c.stop("a signature that a program set")
        g = of_getattr(c, frame, getattr, (g, "__wrapped__", None), {})
    found = c.new(f(*args))
    for parameter in found.parameters.values():
        c.new(parameter)
    return found


def made_module(c: Capture, make: Callable, args: tuple, kwargs: dict) -> Any:
    """The module that a function of ours makes. Who calls this sees to it that it has no new parameters and buffers."""
    c.refuse_runtime(make, (*args, *kwargs.values()))
    for v in (*args, *kwargs.values()):
        c.contents_deep(v)
    with c.recorder.paused():
        made = c.new(make(*args, **kwargs))
    for v in vars(made).values():
        if v.__class__ in CONTAINERS:
            c.new(v)
    return made


def of_deepcopy(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`copy.deepcopy` of an object with plain settings: they are guarded, and the copy is made in the capture."""
    (v,) = args if len(args) == 1 and not kwargs else (None,)
    known = id(v) in c.outside or id(v) in c.inside
    if not known or not plain_instance(v) or not copied_plainly(type(v)):
        return c.call_function(frame, f, args, kwargs)
    settings = vars(v)
    if not all(map(is_setting, settings.values())):
        return c.as_written(frame, "a copy of an object with other objects in it", f, args, kwargs)
    space = c.attribute(v, "__dict__")
    c.contents_deep(space)
    with c.recorder.paused():
        made = f(v)
    every_new(c, made)
    every_new(c, vars(made))
    return made


def copied_plainly(cls: type) -> bool:
    """Whether a copy of an object of a class is the copy of its attributes."""
    names = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
    return all(getattr(cls, n, None) is getattr(object, n, None) for n in names)


def is_setting(v: Any) -> bool:
    """Whether a value is a constant, or a list or dictionary of them."""
    if v.__class__ in (list, tuple):
        return all(map(is_setting, v))
    if v.__class__ is dict:
        return all(map(constant, v)) and all(map(is_setting, v.values()))
    return constant(v)


def every_new(c: Capture, v: Any) -> None:
    """Note that the function made an object, and the containers in it."""
    c.new(v)
    for x in v.values() if isinstance(v, dict) else v if v.__class__ in (list, tuple) else ():
        if x.__class__ in CONTAINERS:
            every_new(c, x)


def of_module_list(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A part of a ModuleList: another list of the same modules."""
    if type(args[0]) is not rushlight.nn.ModuleList:
        c.stop(f"a {type(args[0]).__name__} is made")
    return made_module(c, f, args, kwargs)


def of_clock(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A clock is read behind what was done before."""
    c.recorder.end_graph()
    return c.computed(f, args, kind="clock")


def of_reduce(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    function, items, *first = args
    it = c.iterator(items)
    r = first[0] if first else next(it)
    for v in it:
        r = c.call(None, function, (r, v), {})
    return r


def of_any(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`any` and `all`: they ask no more than they must."""
    if args[0].__class__ in CONTAINERS and not any(map(has_methods, args[0])):
        return c.call_pure(f, args, kwargs)
    it = c.iterator(args[0])
    while (v := following(c, it)) is not END:
        if c.truth(v) is (f is any):
            return f is any
    return f is all


def of_sum(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    values = [*c.contents(args[0])]
    if not any(map(has_methods, values)):
        return c.call_pure(f, (c.new(values), *args[1:]), kwargs)
    r = (*args, kwargs.get("start", 0))[1]
    for v in values:
        r = c.operation(operator.add, r, v)
    return r


END = object()


def following(c: Capture, it: Any) -> Any:
    try:
        return c.following(it)
    except StopIteration:
        return END


def of_filter(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) != 2 or kwargs:
        return c.call_class(frame, f, args, kwargs)
    return generated(c, filtered, args[0], c.iterator(args[1]))


def filtered(function: Callable | None, iterator: Iterator) -> Iterator:
    for v in iterator:
        if v if function is None else function(v):
            yield v


def of_order(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`sorted`, `min` and `max`; of these with `key=` its calls are interpreted."""
    key = kwargs.get("key")
    several = len(args) > 1
    if key is None or not args or several and (f is sorted or len(kwargs) > 1):  # or that raises
        return c.call_pure(
            f, args, kwargs if several else {k: v for k, v in kwargs.items() if k != "key"}
        )
    values = [*args] if several else list(c.iterator(args[0]))
    keys = [c.call(None, key, (v,), {}) for v in values]
    if f is not sorted and not values:
        return f(values, **{k: v for k, v in kwargs.items() if k != "key"})
    given = {k: v for k, v in kwargs.items() if k == "reverse"}
    if not constant(tuple(keys)) and is_value(keys):
        found = c.decided(order_of, (f, *keys), given, f"{f.__name__} by values of tensors")
    else:
        if not constant(tuple(keys)):
            c.stop(f"{f.__name__} by keys that are no constants")
        found = order_of(f, *keys, **given)
    return c.new([values[k] for k in found]) if f is sorted else values[found]


def order_of(f: Callable, *keys: Any, **given: Any) -> Any:
    """The places of sorted keys, or the place of the least or the greatest one."""
    found = f(range(len(keys)), key=keys.__getitem__, **given)
    return tuple(found) if f is sorted else found


def of_tolist(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """The numbers of a small tensor."""
    (t,) = args
    with c.recorder.paused():
        v = f(t)
    if t.numel() > 64 or not c.recorder.knows(t) or t.dtype is rushlight.bool or t.is_complex():
        c.stop("tolist() of a tensor")
    variable = c.variable_of(f, args, {}) if c.reason is None else None
    return v if variable is None else named_numbers(c, v, variable)


def named_numbers(c: Capture, v: Any, expression: str) -> Any:
    """The numbers of nested lists, each found by its expression."""
    if v.__class__ is list:
        return c.new([named_numbers(c, x, f"{expression}[{k}]") for k, x in enumerate(v)])
    return c.named(v, expression)


def of_seed(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    if not all(map(constant, args)):
        c.stop("a seed that is no constant")
    if c.reason is None:
        c.step(f, args, kwargs, "calls")
    r = f(*args, **kwargs)
    c.found(r)
    return r


def of_import(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`import` in a function: of what is imported, the attributes are guarded. A module is loaded once, now or before."""
    try:
        with c.recorder.paused():
            v = f(*args)
    except ImportError:
        c.stop(f"the import of {args[0]}")
        raise
    c.guards.identical(f"modules.get({v.__name__!r})", v)
    c.guards.names["modules"] = sys.modules
    c.found(v)
    return v


def of_checkpoint(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A checkpoint saves memory and changes no value, unless its function changes what is outside: backward calls it
    again."""
    if kwargs != {"use_reentrant": False} or not args:
        return c.as_written(frame, "a checkpoint that is reentrant or has options", f, args, kwargs)
    given = c.given_away(args[1:], set())
    kept: list[Tensor] = []
    before, splits, c.splits = changed_outside(c), c.splits, False
    try:
        with checkpoint.recomputed(args[0], given, {}), kept_meanwhile(c, kept):
            r = c.call(frame, args[0], args[1:], {})
    finally:
        c.splits = splits
    if kept and changed_outside(c) != before:
        c.stop("a checkpoint of a function that changes what is outside")
    return r


@contextlib.contextmanager
def kept_meanwhile(c: Capture, kept: list[Tensor]) -> Iterator[None]:
    """A block of a checkpoint, in which what is saved is at hand while the capture lasts, and computed again behind it."""
    if not thread.grad:
        yield
        return
    pack, unpack = thread.saved_hooks[-1]
    whose = weakref.ref(c)
    c.keep.append(kept)
    found = weakref.WeakValueDictionary[int, Tensor]()
    versions: dict[int, int] = {}

    def keep(t: Tensor) -> int:
        k = pack(t)
        kept.append(t)
        found[k], versions[k] = t, t._version
        return k

    def get(k: int) -> Tensor:
        capture = whose()
        if capture is not None and capture.recorder.on and k in found:
            if found[k]._version == versions[k]:
                return found[k]
            capture.stop("a write to what a checkpoint saved, which backward computes again")
        return unpack(k)

    with saved_tensors_hooks(keep, get):
        yield


def changed_outside(c: Capture) -> tuple[int, int]:
    """How many changes of Python's objects, and writes to tensors from outside, a capture has seen."""
    r = c.recorder
    segments = [s for s in (*r.steps, r.segment) if isinstance(s, Segment)]
    return (
        sum(s.kind != "reads" for s in r.waiting_steps()),
        sum(sum(s.written.values()) for s in segments),
    )


def of_hook(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A hook on a tensor that the function made is interpreted when a gradient runs."""
    t, hook = args
    if not c.recorder.made_inside(t) or kwargs or t.is_leaf:
        return c.as_written(frame, "a hook on a tensor from outside", f, args, kwargs)
    return c.new(f(t, lambda g: c.call(None, hook, (g,), {})))


def again(c: Capture, f: Any, args: tuple, kwargs: dict) -> Any:
    """A method of an optimizer that each run calls again: `step()` or `zero_grad()`."""
    o = args[0]
    c.contents_deep(o)
    if len(args) > 1 or not all(map(constant, kwargs.values())):
        c.stop(f"a call of {f.__qualname__} with arguments")
    if f is not rushlight.optim.Optimizer.zero_grad:
        tables = (
            o._optimizer_step_pre_hooks, o._optimizer_step_post_hooks, optimizer._step_pre_hooks, optimizer._step_post_hooks,
        )  # fmt: skip
        if any(tables):
            c.stop("hooks of an optimizer")
        c.guards.add(f"not ({' or '.join(map(c.guards.name, tables))})")
    clears = f is rushlight.optim.Optimizer.zero_grad and kwargs in ({}, {"set_to_none": True})
    if c.reason is None:
        c.step(f, args, kwargs, "clears" if clears else "calls")
    with c.recorder.paused():
        r = f(*args, **kwargs)
    if r is not None:
        c.stop(f"{f.__qualname__} with a result")
    if c.reason is None:
        c.recorder.after_optimizer(o, clears)
    return r


def of_namespace(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """`torch.ops.mylib.name`: the operator of the user's that has the name."""
    o, name = args
    return c.held(f"{c.guards.name(o)}.{name}", getattr(o, name))


def of_setting(c: Capture, frame: Any, f: Any, args: tuple, kwargs: dict) -> Any:
    """A call that changes or reads a setting, as it is written: a program is lowered later, and would see the setting of then."""
    return c.as_written(frame, f"a call of {f.__name__}", f, args, kwargs)


HANDLED: dict[Any, Callable] = {
    rushlight.compiler.is_compiling: lambda *_: True,
    rushlight.jit.is_scripting: lambda *_: False,
    hooks.call_with_hooks: lambda c, frame, f, args, kwargs: c.call(frame, hooks.call_all, args, kwargs),
    getattr: of_getattr, hasattr: of_hasattr, vars: of_vars, setattr: of_setattr, delattr: of_delattr, map: of_map, functools.reduce: of_reduce, filter: of_filter,
    any: of_any, all: of_any, sum: of_sum, sorted: of_order, min: of_order, max: of_order, Tensor.tolist: of_tolist, rushlight.manual_seed: of_seed,
    time.time: of_clock, time.perf_counter: of_clock, time.monotonic: of_clock, time.process_time: of_clock,
    sys.exc_info: of_exc_info, warnings.warn: of_warn, object.__setattr__: of_own_setattr, object.__getattribute__: of_own_getattr, print: of_print, str: of_text, repr: of_text, format: of_text,
    library.Namespace.__getattr__: of_namespace,
    rushlight.nn.Module.__getattr__: lambda c, frame, f, args, kwargs: c.attribute_of_module(*args),
    copy.deepcopy: of_deepcopy, rushlight.nn.ModuleList._of: of_module_list, inspect.signature: of_signature,
    __import__: of_import, checkpoint.checkpoint: of_checkpoint, Tensor.register_hook: of_hook,
    # What handles many arrays in one call: operators do the same.
    fused.lengths: lambda *_: None, fused.changed: lambda *_: False,
    asked_of_modes: lambda *_: NOTHING,
    rushlight.set_default_dtype: of_setting, rushlight.set_default_tensor_type: of_setting,
    rushlight.set_autocast_cache_enabled: of_setting, rushlight.is_autocast_cache_enabled: of_setting,
}  # fmt: skip
