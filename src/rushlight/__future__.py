"""`torch.__future__`: how `Module.to` converts parameters."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_switches = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether converted parameters are new objects; False: the same ones, with new memory."""
    _switches["overwrite"] = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set."""
    return _switches["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether converted parameters are exchanged by `torch.utils.swap_tensors`."""
    _switches["swap"] = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """What was set."""
    return _switches["swap"]
