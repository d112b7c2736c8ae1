"""`torch.__future__`: how `Module.to` converts parameters; asked and set, by default as in PyTorch."""

from __future__ import annotations

from rushlight.core.stub import stub

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_switches = {"overwrite": False, "swap": False}


@stub("no-op", "`Module.to` keeps the parameter objects.")
def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Accepted: `Module.to` keeps the parameter objects, whatever is set."""
    _switches["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set."""
    return _switches["overwrite"]


@stub("no-op", "`Module.to` keeps the parameter objects.")
def set_swap_module_params_on_conversion(value: bool) -> None:
    """Accepted: `Module.to` keeps the parameter objects, whatever is set."""
    _switches["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What was set."""
    return _switches["swap"]
