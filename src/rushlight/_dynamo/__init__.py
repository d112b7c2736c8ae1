"""`torch._dynamo`: settings of PyTorch's graph compiler, which Rushlight does not have."""

from __future__ import annotations

from typing import Any

from rushlight.compiler import allow_in_graph, disable, is_compiling, reset, warn_of_no_graphs
from rushlight.core.stub import Block, declare, stub

__all__ = [
    "OptimizedModule", "TransformGetItemToIndex", "allow_in_graph", "config", "disable",
    "is_compiling", "mark_dynamic", "optimize", "reset",
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
    "There is no graph compiler: any switch can be set; what was not set is False.",
    __name__,
    "config",
)


@stub("identity", "There is no graph compiler: it runs as it is written. Warns once.")
def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that returns its argument. The first call warns."""
    warn_of_no_graphs(3)
    return lambda fn: fn


@stub("no-op", "There is no graph compiler: every size may change.")
def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Has no effect: every size may change."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


@stub("identity", "There is no graph compiler: code runs as it is written.")
def assume_constant_result(fn: Any) -> Any:
    """`fn` itself."""
    return fn


@stub("absent", "`torch.compile` gives back the module itself, so nothing is an instance.")
class OptimizedModule:
    """The result of PyTorch's `torch.compile` for a module; it has no instances."""


class eval_frame:
    """The inner module where programs find `OptimizedModule`."""

    OptimizedModule = OptimizedModule


@stub("no-op", "Under `vmap` mapped numbers can be indices everywhere.")
class TransformGetItemToIndex(Block):
    """A block in which `mask[i]` takes a mapped index `i`; under `vmap` it always does."""
