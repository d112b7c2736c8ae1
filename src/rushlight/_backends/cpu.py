"""The reference back end: every kernel on NumPy arrays, and correct for every dtype.

A kernel that NumPy has under the same meaning is NumPy's own; the others stand in `reference/<family>.py`
and are loaded when they are first used, and say there what they do. As `xp` this module is the
namespace of kernels that operators call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numpy import (  # noqa: F401 - these are the kernels themselves
    absolute,
    add,
    arange,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asanyarray,
    asarray,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    concatenate,
    conjugate,
    copyto,
    cos,
    cosh,
    divide,
    dtype,
    empty,
    equal,
    exp,
    exp2,
    expm1,
    fmax,
    fmin,
    gcd,
    greater,
    greater_equal,
    invert,
    lcm,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    not_equal,
    reciprocal,
    repeat,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    take,
    tan,
    tanh,
    ufunc,
    where,
    zeros,
    zeros_like,
)

from rushlight._backends import llvm
from rushlight._backends.index import REFERENCE
from rushlight.core.collector import paused

_files: dict[str, str] = {k: f"reference.{f}" for k, f in REFERENCE.items()}  # kernel -> file

# Globals of printed functions, which hold kernels under `k_<name>`.
tables: list[dict[str, Any]] = []
after_replace: list[Callable[[], None]] = []  # what decides by the kernels decides again


def kernel(name: str) -> Any:
    """The implementation of a kernel that calls take now. AttributeError where there is none."""
    found = globals().get(name)
    return __getattr__(name) if found is None else llvm.counted(name, found)


def link(table: dict[str, Any]) -> None:
    """Put kernels into the globals of a printed function, where it names `k_<name>`, and keep them up to date."""
    for name in table:
        if name.startswith("k_"):
            table[name] = kernel(name[2:])
    tables.append(table)


def is_ufunc(name: str) -> bool:
    """Whether a kernel is a ufunc, NumPy's or one that behaves as such."""
    return isinstance(inspect.unwrap(kernel(name)), ufunc)


def takes_out(name: str) -> bool:
    """Whether a kernel can write its result over an array, `out=`."""
    found = inspect.unwrap(kernel(name))
    if isinstance(found, ufunc):
        return True
    if llvm.active:
        from rushlight._codegen import dtype_entry

        found = dtype_entry.function_behind(found)
    code = getattr(found, "__code__", None)
    return (
        code is not None and "out" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    )


def replace(files: dict[str, str], kernels: dict[str, Any]) -> None:
    """Take kernels from other files, or these, from now on (`llvm.activate` does this)."""
    for name in files:
        globals().pop(name, None)
    _files.update(files)
    globals().update(kernels)
    for table in tables:
        for name in table:
            if name.startswith("k_"):
                table[name] = kernel(name[2:])
    for tell in after_replace:
        tell()


def __getattr__(name: str) -> Any:
    """The kernels of `reference/` (or `llvm/`), and `xp.linalg` and `xp.fft`."""
    from importlib import import_module

    if name in ("linalg", "fft"):
        module = globals()[name] = import_module(f"rushlight._backends.reference.{name}")
        return module
    file = _files.get(name)
    if file is None:
        raise AttributeError(f"the CPU has no kernel {name!r}")
    with paused():
        module = import_module(f"rushlight._backends.{file}")
    kernel = llvm.registration.kernel(name) if file.startswith("llvm.") else getattr(module, name)
    found = globals()[name] = llvm.counted(name, kernel)
    return found


where = llvm.counted("where", where)
