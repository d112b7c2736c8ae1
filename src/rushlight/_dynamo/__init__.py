"""`torch._dynamo`: what programs take of PyTorch's front end; ours is in compiler/."""

from __future__ import annotations

from typing import Any

from rushlight._dynamo import config, eval_frame, exc
from rushlight._dynamo.eval_frame import is_dynamo_supported
from rushlight.compiler import (
    allow_in_graph,
    compile,
    disable,
    is_compiling,
    list_backends,
    register_backend,
    reset,
)
from rushlight.compiler.compiled import Compiled
from rushlight.compiler.optimized_module import OptimizedModule
from rushlight.core.stub import Block, stub

__all__ = [
    "OptimizedModule", "TransformGetItemToIndex", "allow_in_graph", "config", "disable",
    "disallow_in_graph", "eval_frame", "exc", "explain", "graph_break", "is_compiling", "is_dynamo_supported", "list_backends",
    "mark_dynamic", "optimize", "register_backend", "reset",
]  # fmt: skip


def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Any:
    """A decorator that compiles: `torch.compile` under its older name."""
    return compile(backend=backend, fullgraph=nopython)


def explain(f: Any, *extra: Any) -> Any:
    """A function that calls `f` once, captures the call, and tells what became of it (`compiler/report.py`)."""

    def explained(*args: Any, **kwargs: Any) -> Any:
        from rushlight.compiler.report import Explanation

        compiled = Compiled(f)
        compiled(*args, **kwargs)
        return Explanation(compiled)

    return explained


@stub("no-op", "A call with other sizes is captured anew.")
def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Has no effect: a call with other sizes is captured anew."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


@stub("identity", "Functions of the user's are captured as any other.")
def assume_constant_result(fn: Any) -> Any:
    """`fn` itself."""
    return fn


@disable
def graph_break(msg: str = "") -> None:
    """Split the compiled function that calls this, here."""


def disallow_in_graph(fn: Any) -> Any:
    """`fn`, which compiled functions call as it is written: they are split there."""
    return disable(fn)


@stub("no-op", "Under `vmap` mapped numbers can be indices everywhere.")
class TransformGetItemToIndex(Block):
    """A block in which `mask[i]` takes a mapped index `i`; under `vmap` it always does."""
