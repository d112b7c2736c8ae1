"""What a `TorchFunctionMode` sees beside operators: the attributes and methods of plain tensors that a program uses.

Note [Reads in modes]
Operators ask modes themselves. That a program reads `x.shape`, sets `x.grad` or calls `x.numpy()` is seen by
other getters in the properties of `Tensor`, by its `__getattribute__` and by Python's own methods, which are there only while a mode
of a program is on: without one, nothing is asked. What this package itself reads is no business of the mode. Where
modes are nested, the inner one alone sees methods: a function of the class, which it calls, does not ask.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import methods, overrides
from rushlight.dispatch.overrides import NOTHING

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_lock = threading.Lock()
_modes = 0  # how many modes of programs are on, in all threads
_before: dict[str, Any] = {}  # what of `Tensor` the entries of HOOKS stand before
_accessors: dict[property, tuple] = {}  # their functions, and those that stand before them


def is_own(mode: Any) -> bool:
    """Whether a mode is one of this package, which asks about operators alone."""
    module = sys.modules.get(type(mode).__module__)
    return (getattr(module, "__file__", None) or "").startswith(PACKAGE)


def count(mode: Any, change: int) -> None:
    """Count a mode that goes on (+1) or off (-1)."""
    global _modes
    if is_own(mode):
        return
    with _lock:
        _modes += change
        if _modes == change == 1:
            _put_on()
        elif not _modes:
            _take_off()


def _put_on() -> None:
    for name, path in methods.PROPERTIES.items():  # which load themselves at their first use
        held = vars(Tensor)[name]
        property.__init__(held, methods.function(path), held.fset)
    for name, held in vars(Tensor).items():
        if isinstance(held, property) and name not in overrides.NOT_ASKED:
            before, asking = _accessors.get(held, ((), ()))
            if held.fget in asking:  # a property of two names
                continue
            functions = held.fget, held.fset, held.fdel
            if before != functions:  # the first time, or it became native since
                asking = tuple(
                    f and _asking(f, getattr(held, way))
                    for f, way in zip(functions, ("__get__", "__set__", "__delete__"), strict=True)
                )
                _accessors[held] = functions, asking
            property.__init__(held, *asking, held.__doc__)
    _before.update({name: vars(Tensor).get(name) for name in HOOKS})
    for name, hook in HOOKS.items():
        setattr(Tensor, name, hook)


def _take_off() -> None:
    for held, (functions, asking) in _accessors.items():
        if held.fget is asking[0]:  # it may have become native meanwhile
            property.__init__(held, *functions, held.__doc__)
    for name, value in _before.items():
        if value is None:
            delattr(Tensor, name)
        else:
            setattr(Tensor, name, value)


def _asks() -> bool:
    """Whether a mode is to be asked about what the caller's caller does."""
    if not thread.function_modes or thread.function_disabled or is_own(thread.function_modes[-1]):
        return False
    return not sys._getframe(2).f_code.co_filename.startswith((PACKAGE, "<rushlight"))


def _asking(function: Callable, public: Callable) -> Callable:
    """A function of a property that asks first; `public` is what the mode is told."""

    def ask(*args: Any) -> Any:
        got = overrides.call_overrides(public, args, {}) if _asks() else NOTHING
        return function(*args) if got is NOTHING else got

    return ask


def _read(self: Any, name: str) -> Any:
    if name not in overrides.NOT_ASKED and _asks():
        of = next(cls for cls in type(self).__mro__ if cls is Tensor or name in vars(cls))
        found = vars(Tensor).get(name) if of is Tensor else None  # other classes ask for themselves
        if isinstance(found, property):
            return overrides.asked(found.__get__, self)
        if name[0] != "_" and hasattr(found, "__get__"):
            return overrides.AskedMethod(name).__get__(self)
    return object.__getattribute__(self, name)


def _hook_of(name: str) -> Callable:
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = _before[name]
        got = overrides.call_overrides(method, (self, *args), kwargs) if _asks() else NOTHING
        return method(self, *args, **kwargs) if got is NOTHING else got

    return hook


HOOKS: dict[str, Callable] = {
    "__getattribute__": _read,
    **{name: _hook_of(name) for name in sorted(overrides.PYTHON_METHODS & vars(Tensor).keys())},
}
