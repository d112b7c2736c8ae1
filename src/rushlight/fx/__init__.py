"""`torch.fx`, as far as programs name it without tracing anything.

There is no tracer here: `wrap` marks what a tracer would not look into, `Proxy` and
`GraphModule` are the classes no value has. `fx.symbolic_trace`, `fx.Graph`... are absent and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.stub import stub
from rushlight.nn import Module

__all__ = ["GraphModule", "Proxy", "wrap"]


@stub("absent", "There is no tracer: nothing is an instance.")
class Proxy:
    """The stand-in for a value while a tracer runs: `isinstance(x, fx.Proxy)` is always False here."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Proxy:
        raise NotImplementedError(
            "torch.fx.Proxy: Rushlight has no symbolic tracer; programs run as they are"
        )


@stub("absent", "There is no tracer: nothing is an instance.")
class GraphModule(Module):
    """The module that a tracer makes: `isinstance(m, fx.GraphModule)` is always False here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.fx.GraphModule: Rushlight has no symbolic tracer; programs run as they are"
        )


@stub("identity", "There is no tracer.")
def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Mark a function of this module as a leaf for a tracer; returns it as it is.

    >>> wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name, "
            f"got {type(fn_or_name).__name__}"
        )
    return fn_or_name
