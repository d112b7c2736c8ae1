"""The override protocol: `__torch_function__` of tensor subclasses and other objects, function modes.

Note [How a subclass is noticed without looking]
    The straight-line functions test one thing about an input: that its array is exactly a NumPy
    array. So a tensor whose class overrides `__torch_function__` holds its memory as a `Tagged`
    array, and lands on the general way, where this module is asked; all other calls pay nothing.

    Methods and properties behind which no operator stands (`x.shape`, `x.size()`, `x.tolist()`) look
    at nothing at all. They are asked for where the subclass is made: it gets descriptors of its own
    for them, and `Tensor` keeps its bare ones.

    So `Tensor.size(x)`, which finds the bare one on the class, does not ask, as PyTorch's does. Only a
    metaclass could tell it from `x.size()`, and with one, `isinstance(1, Tensor)` takes 1.6 times the
    instructions (CPython 3.11), wherever numbers and tensors are distinguished.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.sparse import Sparse
from rushlight._codegen import python_source
from rushlight.autograd.graph import AccumulateGrad, new
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes
from rushlight.core.device import device as Device
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor, _array_for
from rushlight.dispatch import handlers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rushlight.dispatch.registry import Op


class Watching:
    """A function mode of the transforms, which is notified of each call and of each tensor that is made: `captures.py`."""

    alone = False  # whether all function modes around this one are of this class
    watch: Callable[[Callable, tuple, dict], Any]  # carries out a call of plain arguments
    call: Callable[[Op, list], Any]  # as `watch`, of an operator; NOTHING if it may write
    remember: Callable[[Any], None]  # notes a result that was made


class Tagged(np.ndarray):
    """The memory of a tensor whose class overrides `__torch_function__`."""


NOTHING = object()


def overriding(x: Any) -> bool:
    """Whether `x` has a `__torch_function__` of its own that is not disabled."""
    cls = type(x)
    if cls is Tensor or thread.function_disabled:
        return False
    own = getattr(cls, "__torch_function__", None)
    return own is not None and own is not disabled and not _same(own, disabled)


def _same(a: Any, b: Any) -> bool:
    return getattr(a, "__func__", a) is getattr(b, "__func__", b)


def disabled(cls: type, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
    """Assign it to `__torch_function__` of a subclass whose results are to be plain tensors."""
    raise RuntimeError("disabled")


def dispatch(function: Callable, op: Op, values: list, out: Any) -> Any:
    """Ask modes and overriding arguments; NOTHING when the call is an ordinary one."""
    if not thread.function_modes:
        for v in values:
            cls = v.__class__
            if cls is Tensor or cls is int or cls is float or v is None:
                continue
            if cls is tuple or cls is list:
                if any(overriding(x) for x in v):
                    break
            elif overriding(v):
                break
        else:
            if out is None or out.__class__ is Tensor or not overriding(out):
                return NOTHING
    n = len(op.inputs) if op.name in FACTOR_BY_NAME else op.n_positional
    args = tuple(values[:n])
    while args and len(args) > 1 and op.defaults.get(op.params[len(args) - 1], NOTHING) is args[-1]:
        args = args[:-1]
    kwargs = {
        p: v for p, v in zip(op.params[n:], values[n:]) if v is not op.defaults.get(p, NOTHING)
    }
    if out is not None:
        kwargs["out"] = out
    return call_overrides(function, args, kwargs)


# The globals of torch.nn.functional, once it is imported.
FUNCTIONAL: dict[str, Any] = {}


def functional_asks(op: Op, values: list) -> bool:
    """Whether a function of torch.nn.functional that is written in others asks who overrides it.

    It asks the `has_torch_function_unary` or `_variadic` of that module. A program that puts a function there that
    answers False sees what these functions are written in: each call inside of them asks for itself.
    """
    tensors = [v for i, v in zip(op.params, values, strict=False) if i in op.inputs]
    name = "has_torch_function_unary" if len(op.inputs) == 1 else "has_torch_function_variadic"
    asks = FUNCTIONAL.get(name)
    return asks is None or asks(*tensors)


# Their last parameter stands by name alone in PyTorch; here it may stand by place, for older programs.
FACTOR_BY_NAME = frozenset(("add", "sub", "addcmul", "addcdiv"))


_PLAIN = frozenset(
    {Tensor, int, float, bool, complex, str, type(None), Device, dtypes.dtype, dtypes.memory_format}
)


# Plain functions of the top namespace that are asked about as a whole. The others (`reshape`, `split`,
# `where`...) ask on their general way, or in the operators they call, and pay nothing.
WHOLE = frozenset(
    "allclose atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod chain_matmul "
    "column_stack combinations dsplit dstack equal hsplit hstack istft lobpcg meshgrid pca_lowrank "
    "repeat_interleave row_stack stft svd_lowrank tensor_split unravel_index vsplit vstack".split()
)


# Annotations and classes of arguments that have no `__torch_function__`.
UNASKED = frozenset(
    {"int", "float", "bool", "str", "Dims", "DType", "Sizes", "MemoryFormat", "tuple", "Bool"}
)


# NumPy's names for parameters, which PyTorch takes too. Printed functions take the first two.
NUMPY_NAMES = {
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other",
}  # fmt: skip


def renamed(kwargs: dict, params: Sequence[str]) -> dict:
    """Keyword arguments of a function of these parameters, under PyTorch's names."""
    return {
        to
        if k not in params and (to := NUMPY_NAMES.get(k)) in params and to not in kwargs
        else k: v
        for k, v in kwargs.items()
    }


def is_lifted(a: Any) -> bool:
    """Whether `a` is a tensor that transforms take apart before a `__torch_dispatch__` is asked."""
    return isinstance(a, Tensor) and hasattr(a._array.__class__, "level")


def overridable(
    function: Callable, tensors: bool = True, face: Callable | None = None, primitive: bool = False
) -> Callable:
    """A plain function (no operator) that asks modes and overriding arguments first.

    `tensors`: whether arguments may be overriding. `face`: the public function, where that is another one,
    which calls this one. `primitive`: it is one call to a `__torch_dispatch__`.
    """

    code = function.__code__
    params = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not NUMPY_NAMES.keys().isdisjoint(kwargs):
            kwargs = renamed(kwargs, params)
        if not active.modes and all_plain(args) and (not kwargs or all_plain(kwargs.values())):
            return function(*args, **kwargs)
        if thread.function_modes:
            got = call_overrides(shown, args, kwargs)
            if got is not NOTHING:
                return got
        for a in ((*args, *kwargs.values()) if kwargs else args) if tensors else ():
            if a.__class__ not in _PLAIN and asks(a):
                return call_overrides(shown, args, kwargs)
        if primitive and handlers.asked(args):
            if (outer := next(filter(is_lifted, args), None)) is not None:
                return outer._array.make(call, args, kwargs)
            return handlers.carried["make"](function, args, kwargs)
        return function(*args, **kwargs)

    if face is not None or primitive or not tensors or code.co_flags & 0x0C:  # *args, **kwargs
        shown = face or call
        return named(call, function)
    shown = named(printed_at_first_call(function, call), function)
    return shown


def printed_at_first_call(function: Callable, slow: Callable) -> Any:
    """`function` behind straight-line tests; any call that needs more goes to `slow`."""

    def first(args: tuple, kwargs: dict) -> Any:
        file = f"<rushlight {function.__name__}>"
        exec(python_source.code(asking_source(function, notes), file), scope)
        printed = scope.pop(function.__name__)
        public.__code__ = printed.__code__
        public.__defaults__, public.__kwdefaults__ = printed.__defaults__, printed.__kwdefaults__
        return public(*args, **kwargs)

    def again(rest: tuple, more: dict, values: dict) -> Any:
        args = []
        names = list(defaults)
        while len(args) < n and values[names[len(args)]] is not NOTHING:
            args.append(values[names[len(args)]])
        while args and not rest and args[-1] is defaults[names[len(args) - 1]]:
            args.pop()
        kwargs = {p: values[p] for p in names[len(args) :] if values[p] is not defaults[p]}
        return slow(*args, *rest, **kwargs, **more)

    code, notes = function.__code__, function.__annotations__
    n = code.co_argcount
    defaults = defaults_of(function)
    scope = {"first": first, "plain": _PLAIN, "asks": asks, "active": active, "again": again}
    scope |= {"defaults": defaults, "body": function}
    public = FunctionType(_first_call.__code__, scope, function.__name__)
    return public


def _first_call(*args: Any, **kwargs: Any) -> Any:
    return first(args, kwargs)  # noqa: F821 - it becomes a function with globals of its own


def defaults_of(function: Callable) -> dict[str, Any]:
    """The default of each parameter; NOTHING where it must be given."""
    code, late = function.__code__, function.__defaults__ or ()
    n = code.co_argcount
    names = code.co_varnames[: n + code.co_kwonlyargcount]
    found = dict.fromkeys(names, NOTHING)
    found.update(zip(names[n - len(late) : n], late, strict=True))
    return found | (function.__kwdefaults__ or {})


def asking_source(function: Callable, notes: dict[str, Any]) -> str:
    """The source of a function that tests the arguments of `function` one by one and calls it. Others take
    more positional arguments, NumPy's names, and calls without what must be given. `notes`: its annotations as written."""
    n, name = function.__code__.co_argcount, function.__name__
    head, tests, passed = [], [], []
    for k, (p, default) in enumerate(defaults_of(function).items()):
        if k == n:
            head.append("*rest_")
        head.append(f"{p}=defaults[{p!r}]")
        passed.append(p if k < n else f"{p}={p}")
        if default is NOTHING or str(notes.get(p)).removesuffix(" | None") not in UNASKED:
            tests.append(f"{p}.__class__ not in plain and asks({p})")
    if "*rest_" not in head:
        head.append("*rest_")
    tests = " or ".join(["rest_", "more_", "active.modes", *tests])
    values = ", ".join(f"{p}={p}" for p in defaults_of(function))
    return (
        f"def {name}({', '.join(head)}, **more_):\n"
        f"    if {tests}:\n"
        f"        return again(rest_, more_, dict({values}))\n"
        f"    return body({', '.join(passed)})\n"
    )


def named(call: Any, function: Callable) -> Any:
    """`call` with the name, the documentation and the signature of `function`."""
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__, call.__module__ = function.__doc__, function.__module__
    call.__wrapped__ = function
    return call


def asks(a: Any) -> bool:
    """Whether an argument, or an element of it, is overriding, or is missing."""
    cls = a.__class__
    if issubclass(cls, (tuple, list)):
        for v in a:
            if v.__class__ not in _PLAIN and overriding(v):
                return True
        if cls is tuple or cls is list or cls is Size:
            return False
    return a is NOTHING or overriding(a)


def all_plain(values: Iterable) -> bool:
    """Whether no argument, and no element of one, can ask to be notified of the call."""
    for a in values:
        cls = a.__class__
        if cls not in _PLAIN:
            listed = cls is tuple or cls is list or cls is Size
            if not (listed and _PLAIN.issuperset(map(type, a))):
                return False
    return True


def arguments(args: tuple, kwargs: dict) -> list:
    """All arguments, lists and tuples opened."""
    flat: list = []
    for v in (*args, *kwargs.values()):
        if isinstance(v, (tuple, list)):
            flat += v
        else:
            flat.append(v)
    return flat


def call_overrides(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Ask the modes and all arguments; NOTHING when there is none to ask."""
    mode = thread.function_modes[-1] if thread.function_modes else None
    if isinstance(mode, Watching) and all_plain(args) and all_plain(kwargs.values()):
        return mode.watch(function, args, kwargs)
    relevant = arguments(args, kwargs)
    if not thread.function_modes:
        if _PLAIN.issuperset(map(type, relevant)) or not any(map(overriding, relevant)):
            return NOTHING
    result = ask(function, relevant, args, kwargs)
    if result is not NOTHING:
        return result
    asked = [f"mode object {mode!r}" for mode in thread.function_modes[-1:]]
    asked += dict.fromkeys(f"tensor subclass {type(v)!r}" for v in relevant if overriding(v))
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{getattr(function, '__name__', function)}'; all "
        "__torch_function__ handlers returned NotImplemented:\n\n"
        + "\n".join(f"  - {a}" for a in asked)
    )


def ask(function: Callable, relevant: list, args: tuple, kwargs: dict) -> Any:
    """The innermost mode first, then the arguments from the left, subclasses before their bases.

    NOTHING when all of them decline by NotImplemented.
    """
    owners: list = []
    for v in () if _PLAIN.issuperset(map(type, relevant)) else relevant:
        if overriding(v) and type(v) not in [type(o) for o in owners]:
            at = next(
                (i for i, o in enumerate(owners) if issubclass(type(v), type(o))), len(owners)
            )
            owners.insert(at, v)
    types = tuple(type(o) for o in owners)
    if thread.function_modes:
        modes = thread.function_modes
        mode, thread.function_modes = modes[-1], modes[:-1]
        try:
            result = mode.__torch_function__(function, types, args, kwargs)
        finally:
            thread.function_modes = modes
        if result is not NotImplemented:
            return result
    for owner in owners:
        # looked up on the object: a function that is no class method gets it as `self`
        result = owner.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NOTHING


def default(cls: type, function: Callable, types: tuple, args: tuple, kwargs: dict | None) -> Any:
    """`Tensor.__torch_function__`: run the call itself, give the results the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    was, thread.function_disabled = thread.function_disabled, True
    try:
        result = function(*args, **(kwargs or {}))
    finally:
        thread.function_disabled = was
    return result if function in nowrap() else converted(result, cls)


def as_subclass(t: Tensor, cls: type) -> Any:
    """`t.as_subclass(cls)`: `aten.alias`, below which a `__torch_dispatch__` is asked, in a tensor of class `cls`."""
    from rushlight.dispatch.aten_forms import loaded

    if isinstance(t._array, Sparse):  # has no views
        return recast(t, cls)
    was, thread.function_disabled = thread.function_disabled, True
    try:
        shown = loaded("aten.alias").function(t)
    finally:
        thread.function_disabled = was
    if shown.__class__ is Tensor and (cls is Tensor or not handlers.dispatches(t.__class__)):
        return recast(shown, cls)
    if isinstance(shown, cls):
        return shown
    raise RuntimeError(
        f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already associated to a "
        f"python object of type {shown.__class__.__name__} which is not a subclass of the requested type"
    )


def recast(t: Tensor, cls: type) -> Any:
    """The memory and the history of `t` in a tensor of class `cls`, which is no view of it."""
    found: Any = new(cls)
    found._array, found._edge, found._counter = _array_for(cls, t._array), t._edge, t._counter
    if found._edge.__class__ is AccumulateGrad:
        found._edge = AccumulateGrad(found)
    return found


def nowrap() -> set:
    """Getters that return a tensor as it is: a gradient, a base."""
    return {vars(Tensor)[name].__get__ for name in ("_base", "grad")}


def converted(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor):
        return result if cls is Tensor or isinstance(result, cls) else result.as_subclass(cls)
    if result.__class__ is tuple or result.__class__ is list or hasattr(result, "_fields"):
        return type(result)([converted(r, cls) for r in result])
    return result


# -- methods and properties of subclasses ----------------------------------------------------------


class AskedMethod:
    """A method of `Tensor` in a subclass that overrides functions: the override is asked first."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        method = getattr(Tensor, self.name)
        if instance is None or thread.function_disabled:
            return method if instance is None else method.__get__(instance, owner)

        def ask(*args: Any, **kwargs: Any) -> Any:
            got = call_overrides(method, (instance, *args), kwargs)
            return method(instance, *args, **kwargs) if got is NOTHING else got

        return ask


class AskedProperty:
    """A property of `Tensor` in a subclass that overrides functions."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bare = vars(Tensor)[self.name]
        return bare if instance is None else asked(bare.__get__, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        asked(vars(Tensor)[self.name].__set__, instance, value)

    def __delete__(self, instance: Any) -> None:
        asked(vars(Tensor)[self.name].__delete__, instance)


def asked(function: Callable, *args: Any) -> Any:
    got = NOTHING if thread.function_disabled else call_overrides(function, args, {})
    return function(*args) if got is NOTHING else got


# Python's own methods that are asked about; operators ask for themselves.
PYTHON_METHODS = frozenset(
    "__len__ __repr__ __bool__ __int__ __float__ __complex__ __index__ __contains__ __format__ "
    "__reversed__ __array__ __deepcopy__ __reduce_ex__ __dlpack__ __dlpack_device__".split()
)
NOT_ASKED = frozenset(("as_subclass", "_strides", "_address", "_row_major"))


def intercept(cls: Any) -> None:
    """Give a new subclass of `Tensor` descriptors that ask its `__torch_function__`.

    A class that has a `__torch_dispatch__` and no `__torch_function__` gets one that is disabled.
    """
    if _same(cls.__torch_function__, Tensor.__torch_function__) and handlers.dispatches(cls):
        cls.__torch_function__ = disabled
    own = cls.__torch_function__
    if _same(own, disabled) or any("_asked" in vars(c) for c in cls.__mro__[1:]):
        return
    before = set()
    for c in cls.__mro__[: cls.__mro__.index(Tensor)]:
        before |= vars(c).keys()
    cls._asked = True
    for name, value in vars(Tensor).items():
        if name in before or name in NOT_ASKED:
            continue
        if isinstance(value, property):
            setattr(cls, name, AskedProperty(name))
        elif name in PYTHON_METHODS or (name[0] != "_" and hasattr(value, "__get__")):
            setattr(cls, name, AskedMethod(name))
