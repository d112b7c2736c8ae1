"""`torch._dynamo`: switches of a compiler that is not here, which programs set before `torch.compile`."""

from __future__ import annotations

from typing import Any

from rushlight.compiler import allow_in_graph, disable, is_compiling, reset, warn_of_no_graphs
from rushlight.core.stub import declare, stub

__all__ = [
    "OptimizedModule",
    "TransformGetItemToIndex",
    "allow_in_graph",
    "config",
    "disable",
    "is_compiling",
    "mark_dynamic",
    "optimize",
    "reset",
]


class _Config:
    """Switches: they can be set and read, and change nothing. False where nothing was set."""

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
    """A decorator that returns what it is given. The first call warns of it."""
    warn_of_no_graphs(3)
    return lambda fn: fn


@stub("no-op", "There is no graph compiler: every size may change.")
def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Accepted: every size may change."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


@stub("identity", "There is no graph compiler: code runs as it is written.")
def assume_constant_result(fn: Any) -> Any:
    """`fn` itself."""
    return fn


@stub("absent", "`torch.compile` gives back the module itself, so nothing is an instance.")
class OptimizedModule:
    """What PyTorch's `torch.compile` makes of a module: here it is the module, and never one of these."""


class eval_frame:
    """The inner module where programs look for `OptimizedModule`."""

    OptimizedModule = OptimizedModule


@stub("no-op", "Under `vmap` mapped numbers can be indices everywhere.")
class TransformGetItemToIndex:
    """A block in which `mask[i]` takes a mapped index `i`: under `vmap` it does so everywhere here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
