"""`torch._dynamo`: switches of a compiler that is not here, which programs set before `torch.compile`."""

from __future__ import annotations

from typing import Any

from rushlight.compiler import allow_in_graph, disable, is_compiling, reset

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


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that returns what it is given."""
    return lambda fn: fn


def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Accepted: every size may change."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


def assume_constant_result(fn: Any) -> Any:
    """`fn` itself."""
    return fn


class OptimizedModule:
    """What PyTorch's `torch.compile` makes of a module: here it is the module, and never one of these."""


class eval_frame:
    """The inner module where programs look for `OptimizedModule`."""

    OptimizedModule = OptimizedModule


class TransformGetItemToIndex:
    """A block in which `mask[i]` takes a mapped index `i`: under `vmap` it does so everywhere here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
