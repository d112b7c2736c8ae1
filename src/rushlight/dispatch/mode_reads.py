"""What a `TorchFunctionMode` sees beside operators: the attributes and methods of plain tensors that a program uses.

Note [Reads in modes]
Operators ask modes themselves. That a program reads `x.shape`, sets `x.grad` or calls `x.numpy()` is seen by other getters in
the properties of `Tensor`, by other code in those of its methods that are no operators, and by its `__getattribute__`. They are there
only while a mode of a program is on: without one, nothing is asked. The functions stay the same objects, so that a mode finds
`torch.Tensor.size` in its tables, and an outer mode is asked when the inner one calls it. What this package itself reads is no
business of the mode.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import methods, overrides
from rushlight.dispatch.overrides import NOTHING

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
MODES = PACKAGE + "overrides.py"  # a mode there calls functions as one of a program does
_lock = threading.Lock()
_modes = 0  # how many modes of programs are on, in all threads
_bare: dict[
    FunctionType, FunctionType
] = {}  # methods of `Tensor` that ask -> the same, with their own code
_accessors: dict[property, tuple] = {}  # their functions, and those that stand before them


# The methods that are no operators: these ask themselves.
OWN = [
    name
    for name, held in vars(Tensor).items()
    if isinstance(held, FunctionType)
    and held.__module__.startswith(("rushlight.core.", "rushlight.autograd."))
    and (name[0] != "_" or name in overrides.PYTHON_METHODS)
    and name not in overrides.NOT_ASKED
]


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
    """Let all properties of Tensor, and reads of its attributes, ask the modes that are on."""
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
    for name in OWN:
        _let_ask(vars(Tensor)[name])
    Tensor.__getattribute__ = _read  # type: ignore[method-assign, assignment]  # until it is taken off


def _take_off() -> None:
    for held, (functions, asking) in _accessors.items():
        if held.fget is asking[0]:  # it may have become native meanwhile
            property.__init__(held, *functions, held.__doc__)
    for function, bare in _bare.items():
        _copy_code(bare, function)
    _bare.clear()
    del Tensor.__getattribute__


def _copy_code(source: FunctionType, target: FunctionType) -> None:
    target.__code__, target.__defaults__ = source.__code__, source.__defaults__
    target.__kwdefaults__ = source.__kwdefaults__


def _let_ask(method: FunctionType) -> None:
    """Give a method code that asks first."""
    bare = _bare[method] = FunctionType(method.__code__, method.__globals__, method.__name__)
    _copy_code(method, bare)

    def asking(args: tuple, kwargs: dict) -> Any:
        got = overrides.call_overrides(method, args, kwargs) if _asks(3) else NOTHING
        return bare(*args, **kwargs) if got is NOTHING else got

    def called(*args: Any, _asking: Callable, **kwargs: Any) -> Any:
        return _asking(args, kwargs)

    called.__kwdefaults__ = {"_asking": asking}
    _copy_code(called, method)  # type: ignore[arg-type]  # a function with a keyword more


def _asks(depth: int = 2) -> bool:
    """Whether a mode is to be asked about what a caller does, the caller's caller or one further up."""
    if not thread.function_modes or thread.function_disabled or is_own(thread.function_modes[-1]):
        return False
    file = sys._getframe(depth).f_code.co_filename
    return file == MODES or not file.startswith((PACKAGE, "<rushlight"))


def _asking(function: Callable, public: Callable) -> Callable:
    """A function of a property that asks first; `public` is the function that the mode is given."""

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
