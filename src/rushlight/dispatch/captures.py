"""Writes inside of a function whose derivatives are taken: into what it made or was given, not into what it captured.

Note [Captured tensors]
    A write to a tensor from outside would happen once for each pass over the function, and no gradient would know of
    it. A tensor does not know when it was made. So while the function runs, a function mode remembers, weakly, the
    memory of what its calls return, where that is no memory of their arguments; what the function is given is known by
    its version counter. A write to anything else raises. As in PyTorch, `out=`, `_foreach_*` and the running statistics
    of `batch_norm` are not looked at.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight._backends import devices
from rushlight.autograd.graph import INFERENCE, Version, version_of
from rushlight.autograd.state import _lock as modes_lock
from rushlight.autograd.state import active, count_mode, thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overrides import NOTHING, Watching
from rushlight.dispatch.transforms import Lifted, innermost, tensors_in

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op

PYTHON_WRITES = frozenset(
    f"__i{name}__"
    for name in "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split()
)
UNCHECKED = frozenset(("requires_grad_", "share_memory_", "rename_"))  # write no memory


class Captures(Watching):
    """A function mode: a block in which a function runs that may write to what it made and to `given`."""

    def __init__(self, given: Iterable[Tensor]) -> None:
        self.given: set[Version] = {version_of(t) for t in given if t._counter is not INFERENCE}
        self.made: dict[int, weakref.ref] = {}  # the identity of memory -> the memory

    def __enter__(self) -> Captures:
        outer = thread.function_modes
        self.alone = all(m.__class__ is Captures for m in outer)
        thread.function_modes = (*outer, self)
        count_mode(+1)
        return self

    def __exit__(self, *exc: object) -> None:
        thread.function_modes = thread.function_modes[:-1]
        count_mode(-1)

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        written = written_by(func, name, args, kwargs)
        before = modes = thread.function_modes
        watching = [self]  # with those of the transforms that this one is in
        while modes and modes[-1].__class__ is Captures:
            watching.append(modes[-1])
            modes = modes[:-1]
        if written is not None and not all(w.may_write(written) for w in watching):
            refuse(name)
        thread.function_modes = modes
        count_mode(-len(watching))
        try:
            result = func(*args, **kwargs)
        finally:
            count_mode(len(watching))
            thread.function_modes = before
        note(result, args, kwargs, watching)
        return result

    def call(self, op: Op, values: list) -> Any:
        """A call of an operator while there are only modes of this class; NOTHING if it may write."""
        params = op.params
        if len(values) > len(params):
            if values[-1] is not None:  # out=
                return NOTHING
            del values[-1]
        if writing(op):
            return NOTHING
        n = op.n_positional
        if n == len(values):
            return straight(op.function, values, {})
        return straight(op.function, values[:n], dict(zip(params[n:], values[n:], strict=True)))

    def watch(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """A call of plain arguments, which only function modes take over: the mode is off while it is carried out."""
        modes = thread.function_modes
        if self.alone and active.modes == len(modes):
            if written_by(func, getattr(func, "__name__", ""), args, kwargs) is None:
                return straight(func, args, kwargs)
        thread.function_modes = modes[:-1]
        try:
            return self.__torch_function__(func, (), args, kwargs)
        finally:
            thread.function_modes = modes

    def may_write(self, t: Tensor) -> bool:
        """Whether the memory of `t` was made in this block, or given to it."""
        counter = t._counter
        if counter is INFERENCE or counter in self.given:
            return True
        memory = memory_of(t)
        found = self.made.get(id(memory))
        return found is not None and found() is memory

    def remember(self, result: Any, args: tuple = ()) -> None:
        """Note the memory of the tensors in a result."""
        note(result, args, {}, (self,))


def straight(function: Callable, args: Sequence, kwargs: dict) -> Any:
    """A call that writes to no argument, while there are only modes that note its results: it runs as without them."""
    modes = thread.function_modes
    around = len(modes)
    thread.function_modes = ()
    with modes_lock:
        active.modes -= around
    try:
        result = function(*args, **kwargs)
    finally:
        with modes_lock:
            active.modes += around
        thread.function_modes = modes
    note(result, args, kwargs, modes)
    return result


def note(result: Any, args: Sequence, kwargs: dict, watching: Sequence[Captures]) -> None:
    """Let functions write to the memory of the tensors in the result of a call, where that is no memory of its arguments."""
    for t in (result,) if isinstance(result, Tensor) else leaves_of(result):
        memory = new_memory(t, args, kwargs)
        if memory is not None:
            reference = weakref.ref(memory)
            for w in watching:
                w.made[id(memory)] = reference


def new_memory(t: Tensor, args: Sequence, kwargs: dict) -> Any:
    """The memory of a result, unless it is that of an argument."""
    a = t._array
    whole = a.__class__ is np.ndarray and a.base is None
    memory = a if whole else memory_of_array(a)
    for v in (*args, *kwargs.values()) if kwargs else args:
        cls = v.__class__
        if cls is Tensor or isinstance(v, Tensor):
            a = v._array
            if a is memory or not whole and memory_of_array(a) is memory:
                return None
        elif cls is list or cls is tuple:
            if any(memory_of(x) is memory for x in tensors_in(v)):
                return None
    return memory


class Unwatched:
    """A block in which functions run that the transforms call: rules of derivatives, which may write to what they get."""

    def __enter__(self) -> None:
        self.before = thread.function_modes
        thread.function_modes = tuple([m for m in self.before if m.__class__ is not Captures])
        self.hidden = len(self.before) - len(thread.function_modes)
        if self.hidden:
            count_mode(-self.hidden)

    def __exit__(self, *exc: object) -> None:
        thread.function_modes = self.before
        if self.hidden:
            count_mode(self.hidden)


def leaves_of(result: Any) -> Iterable[Tensor]:
    """The tensors in what a function returns."""
    if isinstance(result, dict):
        result = result.values()
    elif not isinstance(result, (tuple, list)):
        return ()
    return tensors_in(result)


def remember(made: list, given: Iterable = ()) -> None:
    """Let the functions that are running write to tensors that a transform made, but to none of the `given` ones."""
    for mode in thread.function_modes:
        if isinstance(mode, Captures):
            mode.remember(made, (*given,))


def allow(given: Iterable[Tensor]) -> None:
    """Let the function that is running, the innermost one, write to tensors that it is given."""
    for mode in reversed(thread.function_modes):
        if isinstance(mode, Captures):
            mode.given.update(version_of(t) for t in given if t._counter is not INFERENCE)
            return


def alias(t: Tensor, made: Tensor) -> None:
    """Let the functions that may write to `t` write to `made`, which is on the same memory."""
    for mode in thread.function_modes:
        if isinstance(mode, Captures) and mode.may_write(t):
            mode.given.add(version_of(made))


def memory_of(t: Tensor) -> Any:
    """The array over the whole memory of a tensor, in all levels."""
    return memory_of_array(t._array)


def memory_of_array(a: Any) -> Any:
    """The array over the whole memory of an array."""
    if isinstance(a, Lifted):
        a = innermost(a)
    if a.__class__ is np.ndarray and a.base is None:
        return a
    find = getattr(devices.of(a), "root", None)
    return a if find is None else find(a)


def written_by(func: Callable, name: str, args: tuple, kwargs: dict) -> Tensor | None:
    """The tensor that a call writes to in place."""
    if not args:
        return None
    first = args[0]
    if name[-1:] == "_" and (name[:2] != "__" or name in PYTHON_WRITES or name == "__setitem__"):
        return first if isinstance(first, Tensor) and name not in UNCHECKED else None
    option = option_of(func)
    if option is None:
        return None
    at, key = option
    chosen = args[at] if at < len(args) else kwargs.get(key)
    if key == "max_norm":
        return (args[1] if len(args) > 1 else kwargs["weight"]) if chosen is not None else None
    return first if chosen and isinstance(first, Tensor) else None


@functools.cache
def writing(op: Op) -> bool:
    """Whether calls of an operator may write to an argument."""
    return op.name[-1] == "_" or option_of(op.public_function) is not None


@functools.cache
def option_of(func: Callable) -> tuple[int, str] | None:
    """(place, name) of the parameter of a function that makes it write to an argument."""
    try:
        names = list(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        return None
    for key in ("inplace", "max_norm"):
        if key in names and (key == "inplace" or "embedding" in func.__name__):
            return names.index(key), key
    return None


def refuse(name: str) -> NoReturn:
    """Raise: the function writes to what it captured."""
    if name == "__setitem__":
        name = "copy_"
    elif name in PYTHON_WRITES:
        name = f"{name[3:-2]}_"
    raise RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        f"(aten::{name}) that would mutate a captured Tensor. This is not supported; please rewrite the function "
        "being transformed to explicitly accept the mutated Tensor(s) as inputs."
    )
