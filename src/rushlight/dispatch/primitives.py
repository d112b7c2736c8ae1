"""Plain functions that are one call to a `__torch_dispatch__`: those that make tensors, draw numbers, or write.

See Note [Below autograd] in torch_dispatch.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import INFERENCE, Tensor, _bump
from rushlight.dispatch.handlers import Undispatched, ask
from rushlight.rng.generator import Generator

if TYPE_CHECKING:
    from collections.abc import Callable

# Functions whose arguments are a shape, given one by one or as a sequence; the method's first argument is a tensor.
SHAPED = frozenset("zeros ones empty rand randn".split())
NEW = frozenset("new_zeros new_ones new_empty".split())
FROM_DATA = frozenset("tensor as_tensor asarray".split())
ORDER = {
    "arange": ("start", "end", "step"),
    "range": ("start", "end", "step"),
    "randint": ("low", "high", "size"),
    "full": ("size", "fill_value"),
    "new_full": ("size", "fill_value"),
    "linspace": ("start", "end", "steps"),
    "logspace": ("start", "end", "steps", "base"),
    "eye": ("n", "m"),
    "normal": ("mean", "std", "size"),
}


FILLED = frozenset(("full", "full_like", "new_full"))  # their last argument is a number


def aten(name: str, overload: str) -> Any:
    """An overload of one of PyTorch's inner operators."""
    import rushlight

    return getattr(getattr(rushlight.ops.aten, name), overload)


def call(function: Callable, args: tuple, kwargs: dict) -> Any:
    """The result of a function that makes a tensor, by a handler."""
    name = function.__name__
    if name in FROM_DATA:
        return lifted(function, args, kwargs)
    if kwargs.get("out") is not None:
        return function(*args, **kwargs)
    kwargs = dict(kwargs)
    requires_grad = kwargs.pop("requires_grad", False)
    with_options = "pin_memory" in function.__code__.co_varnames
    if name in SHAPED or name in NEW:
        first = args[:1] if name in NEW else ()
        size = args[len(first) :] or (kwargs.pop("size"),)
        one = len(size) == 1 and isinstance(size[0], (tuple, list))
        args = (*first, [*size[0]] if one else [*size])
    else:
        args = tuple([*v] if v.__class__ is tuple else v for v in args)
        for p in ORDER.get(name, ()):
            if p in kwargs:
                args = (*args, kwargs.pop(p))
        if name in FILLED and isinstance(args[-1], Tensor):
            args = (*args[:-1], args[-1].item())
    kwargs = {k: v for k, v in kwargs.items() if v is not None}
    if with_options:
        takes_device = name in SHAPED or not (args and isinstance(args[0], Tensor))
        kwargs = options(kwargs, takes_device)
    found = ask(aten(name, overload(name, dict(enumerate(args)))), args, kwargs)
    if not isinstance(found, Tensor):
        raise RuntimeError(f"Unable to cast ({type(found)!r}) to Tensor")
    return found._set_requires_grad(True) if requires_grad else found


def options(kwargs: dict, takes_device: bool) -> dict:
    """The options of a function that makes a tensor, in PyTorch's order, with the device."""
    import rushlight

    found = {k: kwargs.pop(k) for k in ("dtype", "layout") if k in kwargs}
    if takes_device or "device" in kwargs:
        device = kwargs.pop("device", None)
        found["device"] = rushlight.device(
            rushlight.get_default_device() if device is None else device
        )
    kwargs.pop("pin_memory", None)
    return found | {"pin_memory": False} | kwargs


def overload(name: str, args: tuple) -> str:
    """The overload of a call of a function that makes tensors."""
    if name == "empty":
        return "memory_format"
    if name == "arange":
        return ("default", "start", "start_step")[len(args) - 1]
    if name == "randint":
        return "low" if len(args) > 2 else "default"
    if name == "eye":
        return "m" if len(args) > 1 else "default"
    if name == "bernoulli":
        return "p" if len(args) > 1 else "default"
    if name == "normal":
        kinds = ["Tensor" if isinstance(a, Tensor) else "float" for a in (*args, 1.0, 1.0)[:2]]
        return "_".join(kinds)
    return "default"


def lifted(function: Callable, args: tuple, kwargs: dict) -> Any:
    """A tensor of data that is given: made as always, then handed to the handlers."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if isinstance(data, Tensor):
        return function(*args, **kwargs)
    with Undispatched():
        made = function(*args, **kwargs)
    grad = made.requires_grad
    found = ask(aten("lift_fresh", "default"), (made.detach() if grad else made,), {})
    if not isinstance(found, Tensor):
        raise RuntimeError(f"Unable to cast ({type(found)!r}) to Tensor")
    return found._set_requires_grad(True) if grad else found


def write(t: Tensor, label: str, given: tuple) -> None:
    """Let a handler write to `t` what the method `label` does with the arguments `given`; count one write."""
    name = "int" if label == "transpose_" else "default"
    label += "_" * (label[-1] != "_")  # what `fill` does with a copy
    given = tuple([*v] if v.__class__ is tuple else v for v in given)
    kwargs = {}
    if given and isinstance(given[-1], Generator):
        *given, kwargs["generator"] = given
    if label == "fill_":
        name = "Tensor" if isinstance(given[0], Tensor) else "Scalar"
    elif label == "set_":
        name = "source_Tensor" if isinstance(given[0], Tensor) else "source_Storage"
    elif label == "bernoulli_":
        name = "Tensor" if isinstance(given[0], Tensor) else "float"
    elif label == "random_":
        low, to = given[:2]
        name = "default" if to is None else "from" if low else "to"
        given = () if to is None else (low, to) if low else (to,)
    count_write(t, aten(label, name), (t, *given), kwargs)


def count_write(t: Tensor, func: Any, args: tuple, kwargs: dict) -> None:
    """Let a handler write to `t`; count one write, if what it called did not."""
    if t._counter is INFERENCE:
        ask(func, args, kwargs)
        return
    count = t._version
    ask(func, args, kwargs)
    if t._version == count:
        _bump(t)
