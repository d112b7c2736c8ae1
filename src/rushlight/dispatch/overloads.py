"""`torch.ops.aten`: operators under PyTorch's inner names, `torch.ops.aten.add.Tensor(x, y)`.

An operator here is one function for all its overloads, so `add`, `add.Tensor` and `add.Scalar` are
objects of their own (programs put them in tables) that call the same.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OpOverload", "OpOverloadPacket", "Operators"]

_PLACES = ("", "nn.functional", "linalg", "special", "fft")


def _function(name: str) -> Any:
    """The public function or method that PyTorch's operator `name` is behind."""
    import rushlight

    for place in _PLACES:
        owner: Any = rushlight
        for part in place.split(".") if place else ():
            owner = getattr(owner, part)
        short = name.removeprefix(place.rpartition(".")[2] + "_") if place else name
        if callable(found := getattr(owner, short, None)) and not isinstance(found, type):
            return found
    return getattr(rushlight.Tensor, name, None)


class OpOverload:
    """One overload: `aten.add.Tensor`, `aten.mm.default`. Calling it calls the operator."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket, self._overloadname = packet, overload
        self.__name__ = f"{packet.__name__}.{overload}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        """`aten::add.Tensor`; `aten::mm` for a default."""
        kept = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.overloadpacket._qualified}{kept}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.overloadpacket._qualified}', overload='{self._overloadname}')>"
        )

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"


class OpOverloadPacket:
    """An operator by its inner name; its attributes are its overloads.

    >>> import rushlight as torch
    >>> torch.ops.aten.add(torch.tensor(1), 2), torch.ops.aten.mm.default
    (tensor(3), <OpOverload(op='aten::mm', overload='default')>)
    """

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self.__name__, self._qualified = name, f"{namespace}::{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = _function(self.__name__)
        if function is None:
            raise NotImplementedError(
                f"torch.ops.{self}: Rushlight has no public operator of this name to call"
            )
        return function(*args, **kwargs)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        self.__dict__[overload] = made = OpOverload(self, overload)
        return made

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


class Operators:
    """A namespace of operators: `torch.ops.aten`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = made = OpOverloadPacket(self._namespace, name)
        return made
