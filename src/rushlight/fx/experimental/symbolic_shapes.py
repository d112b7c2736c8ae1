"""Graphs that compute with the sizes of their inputs: `make_fx(tracing_mode="symbolic")`.

Note [Symbolic sizes]
    Sizes are plain numbers while a function runs; there is no `SymInt`. A function is traced several times, with
    other sizes each time, as `torch.export` does (Note [Sizes by comparison] in export/dynamic_shapes.py), and the
    graphs become one: a number that differs is an expression of `aten.sym_size` of an input. Dimensions of the
    same size have the same symbol, those of size 0 and 1 are constants, as in PyTorch. Where larger sizes do not
    fit (`x.view(2, -1)`), multiples of the sizes may. A size on which the operators depend, by an `if` or because
    nothing else fits, is a constant of the graph, and a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.utils import _pytree as pytree

__all__ = [
    "GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols", "guard_bool", "guard_int", "guard_or_false",
    "guard_or_true", "has_free_symbols", "is_concrete_bool", "is_concrete_int", "statically_known_true",
    "sym_and", "sym_eq", "sym_or", "traced_at_sizes",
]  # fmt: skip


def traced_at_sizes(trace: Callable[..., GraphModule], *args: Any) -> GraphModule:
    """The module that `trace(*args)` gives, with expressions where its graph depends on the sizes of tensors."""
    from rushlight.export.unify import Symbols

    first = trace(*args)
    leaves, spec = pytree.tree_flatten(args)
    names = [str(n.target) for n in first.graph.nodes if n.op == "placeholder"]
    sizes = sorted({n for t in leaves if plain(t) for n in t.shape if n > 1})
    if not sizes or len(names) != len(leaves):
        return first

    def attempt(kept: list[int]) -> GraphModule | None:
        for multiples in (False, True):
            found = unified_trace(trace, names, leaves, spec, kept, Symbols(multiples))
            if found is not None:
                return found
        return None

    whole = attempt(sizes)
    if whole is not None:
        return whole
    kept = [n for n in sizes if len(sizes) > 1 and attempt([n]) is not None]
    found = attempt(kept) if kept else None
    fixed = [n for n in sizes if found is None or n not in kept]
    warnings.warn(
        f"make_fx(tracing_mode='symbolic'): the function depends on the sizes {fixed}, which are constants of its graph: "
        "call it with tensors of these sizes alone.",
        stacklevel=3,
    )
    return found or first


def plain(t: Any) -> bool:
    """Whether other sizes of a tensor can be tried."""
    return isinstance(t, Tensor) and t.layout is rushlight.strided and type(t) is Tensor


def unified_trace(
    trace: Callable[..., GraphModule], names: list[str], leaves: list, spec: Any, kept: list[int], symbols: Any,
) -> GraphModule | None:  # fmt: skip
    """The graphs of several sizes in place of those in `kept` as one; None where they differ otherwise."""
    from rushlight.export.errors import ExportError
    from rushlight.export.unify import resized, unified

    for name, t in zip(names, leaves, strict=True):
        for d, n in enumerate(t.shape if plain(t) else ()):
            if n in kept:
                symbols.know(name, d, (f"s{kept.index(n)}", 1, 0), n, 2, None)
    modules = [trace(*pytree.tree_unflatten(leaves, spec))]
    try:
        for nr in (1, 2, 3):
            given = resized(names, leaves, symbols, nr)
            for new, t in zip(given, leaves, strict=True):
                if new is not t and t.requires_grad:
                    new.requires_grad_()
            modules.append(trace(*pytree.tree_unflatten(given, spec)))
        unified([m.graph for m in modules], symbols)
    except (ExportError, RuntimeError, ValueError, TypeError, IndexError):
        return None
    modules[0].graph.sizes_vary = True
    modules[0].recompile()
    return modules[0]


# -- questions that programs ask of sizes, which are numbers here --------------------------------------


class GuardOnDataDependentSymNode(RuntimeError):
    """PyTorch's error for a branch on a size that depends on data; never raised here, where sizes are numbers."""


def guard_bool(a: bool) -> bool:
    """The condition."""
    return bool(a)


def guard_int(a: int) -> int:
    """The number."""
    return int(a)


def guard_or_false(a: bool) -> bool:
    """The condition, which is always known. AssertionError for what is no bool.

    >>> guard_or_false(3 > 2)
    True
    """
    if not isinstance(a, bool):
        raise AssertionError(f"Expected bool, got {type(a)}")
    return a


guard_or_true = guard_or_false


def statically_known_true(x: bool) -> bool:
    """Whether a condition holds."""
    return bool(x)


def free_symbols(val: Any) -> set:
    """The symbols in sizes: there are none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Whether there are symbols in a value: False."""
    return False


def is_concrete_int(a: int) -> bool:
    """Whether a number is known: True."""
    return True


def is_concrete_bool(a: bool) -> bool:
    """Whether a condition is known: True."""
    return True


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or sequences of them, are equal.

    >>> sym_eq((2, 3), (2, 3))
    True
    """
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    return bool(x == y)


def sym_and(x: bool, *others: bool) -> bool:
    """Whether all hold."""
    return all((x, *others))


def sym_or(x: bool, *others: bool) -> bool:
    """Whether one holds."""
    return any((x, *others))
