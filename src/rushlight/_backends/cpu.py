"""The reference back end: every kernel on NumPy arrays, and correct for every dtype.

A kernel that NumPy has under the same meaning is NumPy's own; the others stand in `reference/<family>.py`
and are loaded when they are first used. `protocol.py` says what each does. As `xp` this module is the
namespace of kernels that operators call.
"""

from __future__ import annotations

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
    full,
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
    negative,
    not_equal,
    ones,
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
    where,
    zeros,
    zeros_like,
)

from rushlight._backends import llvm
from rushlight._backends.index import REFERENCE

_files: dict[str, str] = {k: f"reference.{f}" for k, f in REFERENCE.items()}  # kernel -> file

# Dictionaries that hold kernels under `k_<kernel>`, the globals of generated code: `llvm.activate` puts the
# compiled ones there.
tables: list[dict[str, Any]] = []


def kernel(name: str) -> Any:
    """The implementation of a kernel that calls take now. AttributeError where there is none."""
    found = globals().get(name)
    return __getattr__(name) if found is None else llvm.counted(name, found)


def replace(files: dict[str, str]) -> None:
    """Take kernels from other files from now on (`llvm.activate` does this)."""
    for name in files:
        globals().pop(name, None)
    _files.update(files)


def __getattr__(name: str) -> Any:
    """The kernels of `reference/` (or `llvm/`), and `xp.linalg` and `xp.fft`."""
    from importlib import import_module

    if name in ("linalg", "fft"):
        module = globals()[name] = import_module(f"rushlight._backends.reference.{name}")
        return module
    file = _files.get(name)
    if file is None:
        raise AttributeError(f"the CPU has no kernel {name!r}")
    module = import_module(f"rushlight._backends.{file}")
    kernel = llvm.registration.KERNELS[name] if file.startswith("llvm.") else getattr(module, name)
    found = globals()[name] = llvm.counted(name, kernel)
    return found


where = llvm.counted("where", where)
