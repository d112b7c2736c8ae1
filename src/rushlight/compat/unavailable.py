"""Functions and classes of devices that Rushlight lacks: they exist, and raise when they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

_PAGE = "docs/coverage.md says what runs where"


def refuse(device: str, name: str) -> NoReturn:
    """Raise AssertionError in PyTorch's words for a build without the device."""
    raise AssertionError(
        f"Torch not compiled with {device.upper()} enabled: torch.{device}.{name} needs a device of that "
        f"kind, and Rushlight computes on the CPU. Ask torch.{device}.is_available() first; {_PAGE}"
    )


def function(module: str, name: str, refuse: Callable, doc: str) -> Any:
    """The function `module.name`, which calls `refuse(name)` whatever it is called with."""

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    absent.__name__ = absent.__qualname__ = name
    absent.__module__, absent.__doc__ = module, doc
    return absent


def functions(
    members: dict[str, Any], names: Iterable[str], refuse: Callable, doc: str, hint: str = ""
) -> Callable[[str], Any]:
    """`__getattr__` of a module whose functions `names` raise: `refuse(name)` does. `members` is its `globals()`."""

    def find(name: str) -> Any:
        module = members["__name__"]
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
        members[name] = found = function(module, name, refuse, doc)
        return found

    return find


def class_(device: str, name: str) -> type:
    """A class without instances: `isinstance` answers no, a call raises."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        if name.endswith("Tensor"):
            raise TypeError(
                f"type torch.{device}.{name} not available. Torch not compiled with {device.upper()} enabled. "
                f"Ask torch.{device}.is_available() first; {_PAGE}"
            )
        refuse(device, name)

    doc = f"Has no instances: needs a {device.upper()} device."
    return type(name, (), {"__new__": __new__, "__doc__": doc, "__module__": f"rushlight.{device}"})


def lookup(device: str, functions: frozenset, classes: frozenset, name: str) -> Any:
    """What `torch.<device>.<name>` is; AttributeError for a name that PyTorch lacks too."""
    if name in functions:
        doc = f"AssertionError: needs a {device.upper()} device."
        return function(f"rushlight.{device}", name, partial(refuse, device), doc)
    if name in classes:
        return class_(device, name)
    raise AttributeError(f"module 'rushlight.{device}' has no attribute {name!r}")
