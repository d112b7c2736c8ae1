"""Automatic differentiation: the graph, the backward pass, and the switches and hooks of both."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# public name -> the module here that has it; resolved on first use
_NAMES = {
    "backward": "engine",
    "grad": "engine",
    "Function": "function",
    "NestedIOFunction": "function",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "detect_anomaly": "anomaly_mode",
    "set_detect_anomaly": "anomaly_mode",
    "enable_grad": "grad_mode",
    "no_grad": "grad_mode",
    "set_grad_enabled": "grad_mode",
    "inference_mode": "grad_mode",
    "set_multithreading_enabled": "grad_mode",
    "Variable": "variable",
    "kineto_available": "profiler",
}
_MODULES = (
    "anomaly_mode",
    "engine",
    "forward_ad",
    "function",
    "functional",
    "grad_mode",
    "gradcheck",
    "graph",
    "profiler",
    "variable",
)


class _Package(ModuleType):
    """`gradcheck` is the function, also after an import of the submodule of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "gradcheck" and isinstance(value, ModuleType):
            value = value.gradcheck
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module = import_module(f"rushlight.autograd.{_NAMES[name]}")
        found = getattr(module, name)
        if _NAMES[name] == "engine":
            from rushlight.dispatch import overrides

            found = overrides.overridable(found)
        globals()[name] = found
        return found
    if name == "__all__":  # of `from torch.autograd import *`
        return [*(_NAMES.keys() - {"kineto_available"}), "grad_mode", "variable"]
    if name in _MODULES:
        return import_module(f"rushlight.autograd.{name}")
    raise AttributeError(
        f"module 'rushlight.autograd' has no attribute {name!r}: not implemented here; docs/coverage.md "
        "lists what is"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})
