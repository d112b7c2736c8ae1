"""Graphs that compute with the sizes of their inputs: `make_fx(tracing_mode="symbolic")`.

Note [Symbolic sizes]
    Sizes are plain numbers while a function runs; there is no `SymInt`. A function is traced several times, with
    other sizes each time, as `torch.export` does (Note [Sizes by comparison] in export/dynamic_shapes.py), and the
    graphs become one: a number that differs is an expression of `aten.sym_size` of an input. Dimensions of the
    same size have the same symbol, those of size 0 and 1 are constants, as in PyTorch. A size on which the
    operators depend, by an `if` or because nothing else fits, is a constant of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.utils import _pytree as pytree

__all__ = ["traced_at_sizes"]


def traced_at_sizes(trace: Callable[..., GraphModule], *args: Any) -> GraphModule:
    """The module that `trace(*args)` gives, with expressions where its graph depends on the sizes of tensors."""
    first = trace(*args)
    leaves, spec = pytree.tree_flatten(args)
    names = [str(n.target) for n in first.graph.nodes if n.op == "placeholder"]
    sizes = sorted({n for t in leaves if plain(t) for n in t.shape if n > 1})
    if not sizes or len(names) != len(leaves):
        return first

    def attempt(kept: list[int]) -> GraphModule | None:
        return unified_trace(trace, names, leaves, spec, kept)

    whole = attempt(sizes)
    if whole is not None:
        return whole
    kept = [n for n in sizes if len(sizes) > 1 and attempt([n]) is not None]
    return (attempt(kept) if kept else None) or first


def plain(t: Any) -> bool:
    """Whether other sizes of a tensor can be tried."""
    return isinstance(t, Tensor) and t.layout is rushlight.strided and type(t) is Tensor


def unified_trace(
    trace: Callable[..., GraphModule], names: list[str], leaves: list, spec: Any, kept: list[int]
) -> GraphModule | None:
    """The graphs of several sizes in place of those in `kept` as one; None where they differ otherwise."""
    from rushlight.export.errors import ExportError
    from rushlight.export.unify import Symbols, resized, unified

    symbols = Symbols()
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
    modules[0].recompile()
    return modules[0]
