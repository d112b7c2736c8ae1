"""Data loading, hooks, checkpointing and other utilities; each module is imported at its first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rushlight.dispatch import index, methods


def __getattr__(name: str) -> Any:
    path = f"{__name__}.{name}"
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = f"utils.{name}"
    if function in index.FUNCTIONS:  # swap_tensors
        return methods.function(function)
    if name in ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"):
        return getattr(import_module(f"{__name__}.backend_registration"), name)
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
