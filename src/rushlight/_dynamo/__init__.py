"""`torch._dynamo`: what programs take of PyTorch's front end; ours is in compiler/."""

from __future__ import annotations

from typing import Any

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
from rushlight.compiler.steps import Unsupported
from rushlight.core.stub import Block, declare, stub

__all__ = [
    "OptimizedModule", "TransformGetItemToIndex", "allow_in_graph", "config", "disable",
    "exc", "explain", "is_compiling", "list_backends", "mark_dynamic", "optimize",
    "register_backend", "reset",
]  # fmt: skip


class _Config:
    """Settings without effect; a setting that was not set is False."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


config = _Config()
declare(
    "no-op",
    "Any switch can be set and changes nothing; what was not set is False.",
    __name__,
    "config",
)


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


class exc:
    """`torch._dynamo.exc`: what compiling raises."""

    Unsupported = Unsupported
    TorchDynamoException = RuntimeError


@stub("no-op", "A call with other sizes is captured anew.")
def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Has no effect: a call with other sizes is captured anew."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


@stub("identity", "Functions of the user's are captured as any other.")
def assume_constant_result(fn: Any) -> Any:
    """`fn` itself."""
    return fn


class eval_frame:
    """The inner module where programs find `OptimizedModule`."""

    OptimizedModule = OptimizedModule


@stub("no-op", "Under `vmap` mapped numbers can be indices everywhere.")
class TransformGetItemToIndex(Block):
    """A block in which `mask[i]` takes a mapped index `i`; under `vmap` it always does."""
