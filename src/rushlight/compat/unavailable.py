"""Functions and classes of devices that are not here: they exist, and say so when used."""

from __future__ import annotations

from typing import Any, NoReturn

_PAGE = "docs/coverage.md says what runs where"


def refuse(device: str, name: str) -> NoReturn:
    """Raise AssertionError in PyTorch's words for a build without the device."""
    raise AssertionError(
        f"Torch not compiled with {device.upper()} enabled: torch.{device}.{name} needs a device of that "
        f"kind, and Rushlight computes on the CPU. Ask torch.{device}.is_available() first; {_PAGE}"
    )


def function(device: str, name: str) -> Any:
    """A function that needs the device, whatever it is called with."""

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(device, name)

    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = f"rushlight.{device}"
    absent.__doc__ = f"AssertionError: needs a {device.upper()} device."
    return absent


def class_(device: str, name: str) -> type:
    """A class without instances: `isinstance` answers no, a call raises."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(device, name)

    doc = f"Has no instances: needs a {device.upper()} device."
    return type(name, (), {"__new__": __new__, "__doc__": doc, "__module__": f"rushlight.{device}"})


def lookup(device: str, functions: frozenset, classes: frozenset, name: str) -> Any:
    """What `torch.<device>.<name>` is; AttributeError for a name that PyTorch lacks too."""
    if name in functions:
        return function(device, name)
    if name in classes:
        return class_(device, name)
    raise AttributeError(f"module 'rushlight.{device}' has no attribute {name!r}")
