"""Who is asked below autograd: modes and tensor subclasses with a `__torch_dispatch__`.

`asked` says whether a call concerns any, `ask` gives the result of the call by the first that does not decline.
"""

from __future__ import annotations

from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

from rushlight._backends.shell import shell
from rushlight.autograd.graph import AccumulateGrad, new, version_of
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes, geometry, modes
from rushlight.core.device import device as Device
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rushlight.dispatch.registry import Op

CLASSES: dict[type, bool] = {Tensor: False}  # whether a class of tensors has a `__torch_dispatch__`
HOLDERS: dict[type, Callable] = {}  # what holds tensors in calls of operators -> its tensors
made: list[type] = []  # the classes of tensors that have one
# How calls are carried out by handlers: what torch_dispatch.py and primitives.py put here.
carried: dict[str, Callable] = {}


def tensors_in(values: Iterable) -> Iterator[Tensor]:
    """The tensors among the arguments of a call, those of lists too."""
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif v.__class__ in (list, tuple):
            yield from tensors_in(v)
        elif v.__class__ in HOLDERS:
            yield from tensors_in(HOLDERS[v.__class__](v))


def dispatches(cls: type) -> bool:
    """Whether a class of tensors has a `__torch_dispatch__` of its own."""
    found = CLASSES.get(cls)
    if found is None:
        own = getattr(cls.__torch_dispatch__, "__func__", cls.__torch_dispatch__)  # type: ignore[attr-defined]
        found = CLASSES[cls] = own is not Tensor.__torch_dispatch__.__func__  # type: ignore[attr-defined]
        if found:
            import rushlight

            rushlight.utils._python_dispatch  # noqa: B018  (loads what carries calls out)
            made.append(cls)
    return found


# Operators with an argument that holds tensors without being one.
HOLDS_INDICES = frozenset(["aten.index", "aten.index_gradient", "aten.index_put"])


def own_operators(op: Op | None = None) -> bool:
    """Whether the mode that is asked takes operators as they are declared here, not as PyTorch's inner ones: its class
    says `own_operators = True`."""
    modes = thread.dispatch_modes
    own = bool(modes) and getattr(modes[-1], "own_operators", False)
    return own and (op is None or op.path not in HOLDS_INDICES)


def only_recorded() -> bool:
    """Whether no mode is on, but `inference_mode` and one that takes operators as they are declared here: what it
    records must be the operators that run without it."""
    return active.modes == active.inference + own_operators()


def asked(values: Iterable) -> bool:
    """Whether a call with these arguments is handed to a `__torch_dispatch__`."""
    if thread.dispatch_disabled:
        return False
    if thread.dispatch_modes:
        return True
    try:
        return bool(made) and any(dispatches(t.__class__) for t in tensors_in(values))
    except RecursionError:  # a list that holds itself: the function says so
        return False


def owners(values: Iterable) -> list[type]:
    """The classes that are asked, subclasses before their bases, else from the left."""
    found: list[type] = []
    for t in tensors_in(values):
        cls = t.__class__
        if dispatches(cls) and cls not in found:
            at = next((i for i, other in enumerate(found) if issubclass(cls, other)), len(found))
            found.insert(at, cls)
    return found


def ask(func: Any, args: tuple, kwargs: dict) -> Any:
    """The result of a call below autograd: the innermost mode is asked first, then the classes of the arguments."""
    types = owners((*args, *kwargs.values()))
    recording, thread.grad = thread.grad, False
    above, thread.grad_above = thread.grad_above, recording
    modes = thread.dispatch_modes
    try:
        if modes:
            thread.dispatch_modes = modes[:-1]
            try:
                rule = func.rules.get(type(modes[-1]))
                handler = modes[-1]._handler() if rule is None else partial(rule, modes[-1])
                result = handler(func, tuple(types), args, kwargs)
            finally:
                thread.dispatch_modes = modes
            if result is not NotImplemented:
                return result
        for cls in types:
            handler = func.rules.get(cls) or cls.__torch_dispatch__  # type: ignore[attr-defined]
            result = handler(func, tuple(types), args, kwargs)
            if result is not NotImplemented:
                return result
    finally:
        thread.grad, thread.grad_above = recording, above
    asked = [f"mode object {modes[-1]!r}"] if modes else []
    asked += [f"tensor subclass {cls!r}" for cls in types]
    raise TypeError(
        f"Multiple dispatch failed for 'torch.ops.{func}'; all __torch_dispatch__ handlers returned NotImplemented:"
        "\n\n" + "\n".join(f"  - {each}" for each in asked)
    )


class Undispatched:
    """A block whose calls are carried out without asking any `__torch_dispatch__`."""

    def __enter__(self) -> None:
        self.before, thread.dispatch_disabled = thread.dispatch_disabled, True

    def __exit__(self, *error: object) -> None:
        thread.dispatch_disabled = self.before


def checks_values(v: Any) -> None:
    """Tell the modes that are on that it is looked at whether a tensor or array has an element that is not 0, without
    an operator that says so."""
    for mode in thread.dispatch_modes:
        mode._checks_values(v)


def made_of_number(t: Tensor) -> None:
    """Tell the modes that are on that a tensor was made of a number among the arguments, without an operator."""
    for mode in thread.dispatch_modes:
        mode._made_of_number(t)


def undispatched(func: Any, args: tuple, kwargs: dict | None) -> Any:
    """The result of a call without asking any handler: what `super().__torch_dispatch__` does."""
    with Undispatched():
        return func(*args, **(kwargs or {}))


def detached(t: Tensor, apart: bool = False) -> Tensor:
    """`t.detach()`, by a handler; `apart`: writes to one are not counted for the other."""
    import rushlight

    found = ask(rushlight.ops.aten.detach.default, (t,), {})
    if not isinstance(found, Tensor):
        raise RuntimeError(f"Unable to cast ({type(found)!r}) to Tensor")
    if found is t:
        raise RuntimeError("aten.detach.default: a handler may not return its argument")
    found._edge = None
    found._counter = None if apart else t._counter or version_of(t)
    return found


def value_of(t: Tensor) -> Any:
    """`t.item()`, by a handler."""
    import rushlight

    return ask(rushlight.ops.aten._local_scalar_dense.default, (t,), {})


# -- tensors that wrap others ----------------------------------------------------------------------


def make_wrapper(
    cls: type, size: Any, strides: Any = None, storage_offset: int | None = None,
    memory_format: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False, dispatch_layout: bool = False, _extra_dispatch_keys: Any = None,
    storage_size: Any = None,
) -> Any:  # fmt: skip
    """A tensor of class `cls`, which has a `__torch_dispatch__`, without memory of its own."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError("cls must be a class of tensors")
    if not dispatches(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    shape = tuple(map(index, size))
    if strides is None and memory_format is not None and len(shape) in (4, 5):
        if memory_format in (dtypes.channels_last, dtypes.channels_last_3d):
            strides = geometry.channels_last_strides(shape)
    t = new(cls)
    d = (modes.get_default_dtype() if dtype is None else dtype).np
    strides = None if strides is None else tuple(map(index, strides))
    on = Device("cpu" if device is None else device)
    t._array = shell(shape, d, strides, storage_offset or 0, on, layout or dtypes.strided)
    t._edge = t._counter = None
    if requires_grad:
        t._edge = AccumulateGrad(t)
    return t


Tensor._make_wrapper_subclass = staticmethod(make_wrapper)  # type: ignore[attr-defined]
