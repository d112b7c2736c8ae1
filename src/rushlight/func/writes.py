"""`functionalize`: functions whose traced graphs have no writes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.state import thread

__all__ = ["functionalize"]


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """`func` without writes in graphs that `make_fx` makes of it; outside of a trace it runs as it is.

    `remove`: "mutations", or "mutations_and_views" where views become copies, too. What `func` writes into its
    arguments is written at the end, once.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     y = x.clone()
    ...     y[0].add_(1)
    ...     return y
    >>> graph = make_fx(torch.func.functionalize(f))(torch.zeros(2, 2)).graph
    >>> [n.target._opname for n in graph.nodes if n.op == "call_function"]
    ['clone', 'select', 'add', 'select_scatter']
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations', which removes writes, and remove='mutations_and_views', which removes views as well."
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        tracing = (m for m in reversed(thread.dispatch_modes) if hasattr(m, "without_writes"))
        mode = next(tracing, None)
        thread.transforms += 1
        try:
            with contextlib.nullcontext() if mode is None else mode.without_writes(remove):
                return func(*args, **kwargs)
        finally:
            thread.transforms -= 1

    return functional
