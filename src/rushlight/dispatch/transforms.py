"""Arrays of function transforms: batches (`vmap`) and duals (forward mode), and the levels that open them.

Note [Levels]
    `vmap` and `jvp` open a level for the time in which they call a function. Inside, a tensor that they
    handed out holds no NumPy array but a `Lifted` one: a `Batch` around a tensor with one dimension more, or a
    `Dual` of an array and its tangent. The one test of printed functions (`array.__class__ is ndarray`) sends a
    call with such a tensor the general way, where `interpret` is asked (Note [Interpreters]); other calls pay
    nothing.

    What a lifted array holds may be lifted again, by a level that was opened before. A call is carried out at the
    highest level among its arguments. All other arguments are lifted to it (`Batch` without a batch), so
    that a call knows one level, and its forward (`Lifted.forward`) calls the operator again on what is inside.
    So levels nest in any order.

    Gradients need no levels. A graph that was recorded outside of a level belongs to the tensors inside of
    the lifted arrays, where the forward records it; a graph that is recorded inside of a level belongs to
    the lifted tensors, whose edges the general way records like those of all others.
"""

from __future__ import annotations

import itertools
import threading
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight._backends import cpu, devices
from rushlight._backends.meta import Meta
from rushlight.autograd.graph import new
from rushlight.autograd.state import count_mode, thread
from rushlight.autograd.views import View
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import Undispatched, checks_values
from rushlight.dispatch.interpreters import ARRAY_INTERPRETERS
from rushlight.dispatch.overrides import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op, Rule

opened: list[Any] = []  # not empty while a level is open in some thread


class Levels(threading.local):
    """The open levels of a thread, the last one innermost."""

    def __init__(self) -> None:
        self.open: list[Any] = []


levels = Levels()
_numbers = itertools.count(1)  # never the same again, so that an escaped tensor is known


class Level:
    """A block in which a transform hands out lifted tensors; `number` grows with the depth."""

    def __init__(self, kind: type[Lifted]) -> None:
        self.kind, self.number, self.alive = kind, next(_numbers), False
        self.depth = -1  # the number of transforms that run, with this one
        self.size, self.randomness = 0, "error"  # of a batch
        self.history = False  # whether an array of it holds a tensor with a history from outside
        self.functional = True  # of `torch.func`, not of `autograd.forward_ad`
        # tensors from outside that got a tangent by a write; None where no level does that
        self.received: list[Tensor] | None = None if kind.holds_graphs else []

    def __enter__(self) -> Level:
        self.alive = True
        levels.open.append(self)
        thread.transforms += self.functional
        self.depth = thread.transforms
        opened.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.alive = False
        for t in self.received or ():
            t._array = t._array.plain
        if self.received:
            count_mode(-1)
        levels.open.remove(self)
        thread.transforms -= self.functional
        opened.remove(self)


class Flags:
    """What NumPy knows about the memory of an array."""

    f_contiguous = owndata = writeable = False

    def __init__(self, a: Lifted) -> None:
        strides = tuple([s // a.itemsize for s in a.strides])
        self.c_contiguous = self.forc = geometry.is_contiguous(a.shape, strides)


class Lifted:
    """What the arrays of transforms share: the level, and nothing that NumPy could compute on."""

    __slots__ = ("dtype", "level", "__weakref__")
    dtype: np.dtype  # of the array inside, which keeps its own
    level: Level
    transform = ""  # its public name
    passive = "transformed"  # what is done to a function
    function: Callable  # (ctx, result) of an `autograd.Function` at a level of this kind
    holds_graphs = False  # whether graphs inside of the level are apart from those outside of it
    base = ()  # never None: the engine does not look whether it owns this memory
    layout = dtypes.strided

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def strides(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def below(self) -> Any:
        """The array inside."""
        raise NotImplementedError

    def forward(self, op: Op, named: dict[str, Any], keep: bool) -> Any:
        """The results of `op`, lifted arrays, for arguments that are all lifted to this level."""
        raise NotImplementedError

    @classmethod
    def lift(cls, t: Tensor, level: Level) -> Tensor:
        """A tensor of another level at this one."""
        raise NotImplementedError

    def by_rule(self, op: Op, rule: Rule, env: dict[str, Any]) -> Any:
        """What a gradient rule gives for values of this level, not recorded, or NotImplemented."""
        return NotImplemented

    def __bool__(self) -> bool:
        return True

    @property
    def flags(self) -> Flags:
        return Flags(self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def has_conj(self) -> bool:
        """Whether the memory inside is read conjugated."""
        return tensor_inside(self).is_conj()

    @property
    def has_neg(self) -> bool:
        """Whether the memory inside is read with the other sign."""
        return tensor_inside(self).is_neg()

    def to_numpy(self) -> np.ndarray:
        """The values, where they are no batch."""
        raise NotImplementedError

    def make(self, function: Callable, args: tuple, kwargs: dict) -> Tensor:
        """What `function`, which makes a tensor, makes of its arguments, where a handler is asked below this level."""
        raise NotImplementedError

    def at_level(self, a: Any) -> Any:
        """A new array as one of its level: what this tensor can be written to can be written to that."""
        raise NotImplementedError

    def detached(self) -> Any:
        """The array of a tensor without history, and without tangents."""
        raise NotImplementedError

    def refuse_update(self) -> None:
        """RuntimeError where running statistics from outside cannot hold those of this array."""

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        self.refuse("numpy()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> NoReturn:
        self.refuse(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        self.refuse(function.__name__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(name)

    def refuse_numpy(self) -> NoReturn:
        self.refuse("numpy()")

    def refuse(self, what: str) -> NoReturn:
        """Raise: `what` does not know about this array."""
        raise RuntimeError(
            f"{self.level.kind.transform}: {what} is not implemented inside of a transform"
        )


class Kernels:
    """What the general way asks of the back end of lifted arrays; operators call none of these."""

    def device_of(self, a: Lifted) -> Any:
        return tensor_inside(a).device

    def copyto(self, a: Lifted, b: Any, casting: str = "unsafe") -> None:
        a.copy_from(b)

    def shares_memory(self, a: Lifted, b: Any) -> bool:
        mine, other = innermost(a), innermost(b)
        return devices.of(mine).shares_memory(mine, other)

    def to_numpy(self, a: Lifted) -> Any:
        return a.to_numpy()

    def root(self, a: Lifted) -> Any:
        return devices.of(a.below).root(a.below)

    def address(self, a: Lifted) -> int:
        return devices.of(a.below).address(a.below)

    def __getattr__(self, name: str) -> Any:
        if name in MAKING:  # plain arrays go with all others
            return getattr(cpu, name)
        raise AttributeError(f"no kernel {name!r} computes on the arrays of transforms")


def tensor_inside(a: Lifted) -> Tensor:
    """The tensor in a lifted array."""
    return a.value


def innermost(a: Any) -> Any:
    """The array in all the lifted ones."""
    while isinstance(a, Lifted):
        a = a.below
    return a


MAKING = frozenset("zeros ones empty full asarray from_numpy number empty_strided arange".split())
KERNELS = Kernels()
devices.add_class(Lifted, KERNELS)


def tensors_in(values: Iterable) -> Iterable[Tensor]:
    """The tensors among the arguments of a call, those of lists too."""
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif v.__class__ in (list, tuple):
            yield from tensors_in(v)


def recorded_inside(t: Tensor) -> bool:
    """Whether what is inside of a lifted tensor may have a history from outside of its level."""
    a = t._array
    while isinstance(a, Lifted):
        if a.level.history:
            return True
        a = a.below
    return False


def highest(arrays: Iterable) -> Lifted | None:
    """The lifted array of the highest level among arrays."""
    found = None
    for a in arrays:
        if isinstance(a, Lifted) and (found is None or a.level.number > found.level.number):
            found = a
    return found


def top(values: Iterable) -> Lifted | None:
    """The lifted array of the highest level among the arguments of a call."""
    found = None
    for v in values:
        if isinstance(v, Tensor):
            a = v._array
        elif v.__class__ in (list, tuple):
            a = top(v)
        else:
            continue
        if isinstance(a, Lifted) and (found is None or a.level.number > found.level.number):
            found = a
    return found


def top_of(arrays: Iterable) -> Lifted:
    """As `highest`, of arrays among which there is a lifted one. RuntimeError where it escaped from its level."""
    found = highest(arrays)
    if not found.level.alive and found.holds_graphs:
        escaped(found)
    return found


def mapped(values: Any, function: Callable) -> Any:
    """Arguments with `function` in the place of each tensor."""
    if isinstance(values, Tensor):
        return function(values)
    if values.__class__ in (list, tuple):
        return values.__class__([mapped(v, function) for v in values])
    return values


def lifted(t: Tensor, level: Level) -> Tensor:
    """`t` at this level."""
    a = t._array
    if isinstance(a, Lifted) and a.level is level:
        return t
    return level.kind.lift(t, level)


def at_innermost(t: Tensor) -> Tensor:
    """`t` at the innermost level that is open in this thread: what is recorded from it on belongs there."""
    a = t._array
    for level in reversed(levels.open):
        if isinstance(a, Lifted) and a.level.number >= level.number:
            return t
        if level.kind.holds_graphs:
            return lifted(t, level)
    return t


def at_one_level(written: Tensor, src: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """A tensor that is written to and what is written, both at the level of the first.

    RuntimeError where what is written is of a higher one: a tensor from outside cannot hold it.
    """
    found = top((written, src))
    if not found.level.alive:
        escaped(found)
    a, level = written._array, found.level
    if isinstance(a, Lifted) and a.level is level:
        return written, lifted(src, level)
    level.kind.refuse_write(name, src)
    if level.received is None:
        return written, tensor_inside(src._array)
    from rushlight.dispatch.dual import receive, tangent_of

    receive(written, level, tangent_of(src, level))
    return written, lifted(src, level)


def follow(values: Iterable) -> None:
    """Give views the tangents that their bases received after the views were made."""
    for level in levels.open:
        for t in tensors_in(values) if level.received else ():
            e = t._edge
            if e.__class__ is View and getattr(t._array, "level", None) is not level:
                a = e.base._array
                if isinstance(a, Lifted) and a.level is level:
                    from rushlight.dispatch.dual import receive

                    receive(t, level, None)


def interpret(call: Call) -> Any:
    """A call with lifted tensors among its arguments."""
    values = call.values if call.out is None else (*call.values, call.out)
    for level in levels.open:
        if level.received:
            follow(values)
            break
    found = top(values)
    if found is None:
        return NOTHING
    level = found.level
    if not level.alive:
        return NOTHING
    return level.kind.interpret(call, level)


def escaped(a: Lifted) -> NoReturn:
    raise RuntimeError(
        f"your tensor may have escaped from inside a function being {a.level.kind.passive}: the function must return "
        "it, not keep it"
    )


def somewhere(t: Tensor) -> bool:
    """Whether a truth value holds: in a transform, for any element of the batches. False on the meta device."""
    a = innermost(t._array)
    if isinstance(a, Meta):
        return False
    if thread.dispatch_modes:
        checks_values(t)
    with Undispatched():
        return bool(tensor(a).any())


def tensor(a: Any) -> Tensor:
    """A tensor without history around an array."""
    t = new(Tensor)
    t._array, t._edge, t._counter = a, None, None
    return t


ARRAY_INTERPRETERS.append((opened, interpret))
