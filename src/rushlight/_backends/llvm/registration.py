"""How compiled kernels are registered: `@implements("sum")` is the only way."""

from __future__ import annotations

from collections.abc import Callable, Container
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np

from rushlight._backends import reference
from rushlight._backends.index import LLVM, REFERENCE
from rushlight._backends.llvm import threshold
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.native_entry import ByDtype

KERNELS: dict[
    str, Any
] = {}  # by name, of the family files that were imported: kernels, or what makes them
# By name: what they compute for one element, or a Binding that says it; see `formula`.
FORMULAS: dict[str, Any] = {}


class Binding:
    """What makes a kernel when it is first wanted, given the reference's of the same name, which it falls back to.

    `entries`: native entries that are called first, if any. A call of it is a call of its kernel.
    """

    entries: ByDtype | None = None
    name = ""

    @property
    def formula(self) -> Any:
        """What the kernel computes for one element, see `formula`; None where it is not said."""
        return None

    def bind(self, reference: Callable) -> Callable:
        raise NotImplementedError

    def __call__(self, *args: Any, **options: Any) -> Any:
        return kernel(self.name)(*args, **options)


def formula(name: str) -> Any:
    """What the kernel `name` computes for one element: a `Pointwise`, or a function of a back end and the kernel's
    arguments that calls other kernels; None where it is not elementwise, or not said. Fused loops are made of these."""
    family = LLVM.get(name)
    if family is None:
        return None
    import_module(f"rushlight._backends.llvm.{family}")
    found = FORMULAS.get(name)
    return found.formula if isinstance(found, Binding) else found


def kernel(name: str) -> Callable:
    """The compiled kernel of a name, of a family file that was imported."""
    found = KERNELS[name]
    if isinstance(found, Binding):
        made = found.bind(reference_on_call(name))
        if isinstance(made, FunctionType):
            made.__name__ = made.__qualname__ = name
        if found.entries is not None:
            made = put_entries_before(found.entries)(made)
        found = KERNELS[name] = made
    return found


def implements(
    name: str,
    *,
    dtypes: Container | None = None,
    least: int | None = None,
    array: int = 0,
    formula: Any = None,
) -> Callable[[Any], Callable]:
    """Register the compiled kernel `name`: a function with the reference's arguments, or a `Binding`.

    With `dtypes` or `least` the function sees only calls whose argument number `array` is an array (no
    NumPy number) of one of these dtypes with at least so many elements; the reference does all others, and
    those that the function answers with NotImplemented. Without them it calls the reference itself.
    `formula`: what it computes for one element, see the function of this name. scripts/index.py reads `name`, so it
    is a string, or what a loop over the words of one names.
    """

    def register(body: Any) -> Callable:
        if isinstance(body, Binding):
            body.name = name
            made = FORMULAS[name] = body
        elif dtypes is None and least is None:
            made = body
        else:
            made = guarded(body, name, dtypes, least, array)
        KERNELS[name] = made
        if formula is not None:
            FORMULAS[name] = formula
        return made

    return register


def reference_of(name: str) -> Callable:
    """The reference's kernel; NumPy's own function where the reference has no other."""
    family = REFERENCE.get(name)
    if family is None:
        return getattr(np, name)
    return getattr(import_module(f"rushlight._backends.reference.{family}"), name)


def reference_on_call(name: str) -> Callable:
    """As `reference_of`, but its file is read when it is first called."""
    family = REFERENCE.get(name)
    return getattr(np, name) if family is None else getattr(getattr(reference, family), name)


def guarded(
    body: Callable, name: str, dtypes: Container | None, least: int | None, array: int
) -> Callable:
    """`body` behind a test of one argument, as straight-line code with the same parameters."""
    names = list(signature(body).parameters)
    a, arguments = names[array], ", ".join(names)
    tests = [f"{a}.__class__ is ndarray"]
    if least is not None:
        tests.append(f"{a}.size >= least")
    if dtypes is not None:
        tests.append(f"{a}.dtype in dtypes")
    text = f"""def kernel({arguments}):
    if {" and ".join(tests)}:
        result = body({arguments})
        if result is not NotImplemented:
            return result
    return reference({arguments})
"""
    space: dict[str, Any] = {
        "ndarray": np.ndarray,
        "dtypes": dtypes,
        "body": body,
        "reference": reference_on_call(name),
    }
    space["least"] = max(1, threshold(least or 0))
    exec(compile(text, f"<guard of {body.__qualname__}>", "exec"), space)
    made = space["kernel"]
    made.__name__ = made.__qualname__ = name
    made.__doc__, made.__defaults__, made.__module__ = (
        body.__doc__,
        body.__defaults__,
        body.__module__,
    )
    return made
