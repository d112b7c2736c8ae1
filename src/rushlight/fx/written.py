"""How a program wrote a call: which arguments stand by position, and which by name.

Functions of torch have named parameters, so that a call they pass on has lost how it was written. Passes
over graphs read `node.args` and `node.kwargs`: the program's bytecode still knows.
"""

from __future__ import annotations

import dis
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from rushlight.dispatch.overrides import renamed
from rushlight.fx.names import is_ours, qualified_name

_EMPTY = inspect.Parameter.empty
_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, "<rushlight ")
_FUNCTIONAL = "torch.nn.functional."
# Functions there that PyTorch writes in C++: they pass on what they are given. The others pass on what has a
# default by name, all of it; so do these that have one object here with a function of the top namespace.
_AS_GIVEN = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention "
    "softplus softshrink".split()
)
_ALSO = frozenset(
    f"torch.{name}"
    for name in "adaptive_max_pool1d max_pool1d max_pool2d max_pool3d threshold".split()
)
# What functions of torch have for NumPy and for older programs alone.
_OWN = frozenset(("axis", "keepdims", "out"))


def as_written(function: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The same arguments, as the program that is being traced passed them to `function`."""
    if not is_ours(function) or not inspect.isfunction(function):
        return args, kwargs
    parameters = _signature(function).parameters
    try:
        given = _signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return args, kwargs
    if any(parameters[name].kind is inspect.Parameter.VAR_POSITIONAL for name in given):
        return args, kwargs
    values = {n: p.default for n, p in parameters.items() if p.default is not _EMPTY} | given
    name = qualified_name(function)
    if name in _ALSO or (
        name.startswith(_FUNCTIONAL) and name.removeprefix(_FUNCTIONAL) not in _AS_GIVEN
    ):
        first = [n for n, p in parameters.items() if p.default is _EMPTY]
        names = (*[n for n in values if n not in first and n not in _OWN],)
        return _split(values, first, names)
    count, names = _call_of(function) or (len(args) + len(kwargs), (*kwargs,))
    names = (*renamed(dict.fromkeys(names), [*parameters]),)
    first = [*parameters][: count - len(names)]
    needed = {n for n, v in given.items() if v is not parameters[n].default}
    if not needed <= {*first, *names} <= values.keys():
        return args, kwargs  # it is called from C, or by what it calls itself
    return _split(values, first, names)


def _split(
    values: dict[str, Any], first: Iterable[str], names: Iterable[str]
) -> tuple[tuple, dict]:
    return tuple(values[n] for n in first), {n: values[n] for n in names}


@functools.lru_cache(1024)
def _signature(function: Callable) -> inspect.Signature:
    return inspect.signature(function)


def _call_of(function: Callable) -> tuple[int, tuple[str, ...]] | None:
    """How many arguments the last call of `function` was given, and the names of those that have one."""
    frame: FrameType | None = sys._getframe(2)
    called = None
    while frame is not None and (code := frame.f_code).co_filename.startswith(_OURS):
        if code is function.__code__ or code.co_name in (function.__name__, "_first_call"):  # type: ignore[attr-defined]
            called = frame.f_back
        frame = frame.f_back
    return None if called is None else _calls(called.f_code).get(called.f_lasti)


@functools.lru_cache(256)
def _calls(code: CodeType) -> dict[int, tuple[int, tuple[str, ...]]]:
    """The calls of a program by their places, of which each has several; those of `f(*args)` are left out."""
    found: dict[int, tuple[int, tuple[str, ...]]] = {}
    names: tuple[str, ...] = ()
    instructions = list(dis.get_instructions(code))
    for before, each, after in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if each.opname == "KW_NAMES":
            names = code.co_consts[each.arg or 0]
        elif each.opname in ("CALL", "CALL_KW"):
            if each.opname == "CALL_KW":
                names = before.argval
            found |= dict.fromkeys(range(each.offset, after.offset, 2), (each.arg or 0, names))
            names = ()
    return found
