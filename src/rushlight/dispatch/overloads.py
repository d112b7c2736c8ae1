"""`torch.ops.aten`: operators under PyTorch's inner names, `torch.ops.aten.add.Tensor(x, y)`.

An operator here is one function for all its overloads, so `add`, `add.Tensor` and `add.Scalar` are
objects of their own (programs put them in tables) that call the same. They are what a `__torch_dispatch__`
gets, see Note [Below autograd].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.dispatch import methods, overrides, schemas

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OpOverload", "OpOverloadPacket", "Operators"]

_NAMESPACES = ("", "nn.functional", "linalg", "special", "fft")


def _function(name: str) -> Any:
    """The public function or method that PyTorch's operator `name` is behind, as it is declared: programs put functions
    of their own under these names (`torch.select = ...`)."""
    import rushlight

    for namespace in _NAMESPACES:
        owner: Any = rushlight
        for part in namespace.split(".") if namespace else ():
            owner = getattr(owner, part)
        short = name.removeprefix(namespace.rpartition(".")[2] + "_") if namespace else name
        path = f"{namespace}.{short}" if namespace else short
        if path in methods.index.FUNCTIONS:
            return methods.function(path)
        if callable(found := getattr(owner, short, None)) and not isinstance(found, type):
            return found
    return getattr(rushlight.Tensor, name, None)


class OpOverload:
    """One overload: `aten.add.Tensor`, `aten.mm.default`. Calling it calls the operator."""

    called: Any = None  # what it calls in the place of the operator: a `CustomOpDef` of a program

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket, self._overloadname = packet, overload
        # class of modes or tensors -> what is called in the place of its `__torch_dispatch__`
        self.rules: dict[type, Callable] = {}
        self._opname, self.namespace = packet.__name__, packet._namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.__name__
        self.__module__ = f"torch._ops.{packet._namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if overrides.thread.function_modes or any(
            map(overrides.asks, (*args, *kwargs.values()) if kwargs else args)
        ):
            got = overrides.call_overrides(self, args, kwargs)
            if got is not overrides.NOTHING:
                return got
        if "out" in kwargs and self.namespace == "aten" and "out" not in self._overloadname.lower():
            raise RuntimeError(
                f"Unknown keyword argument 'out' for operator 'aten::{self._opname}', of which {self} is the overload: "
                f"those that write have names with 'out', {self.overloadpacket}.out"
            )
        if self.called is not None:
            return self.called(*args, **kwargs)
        return self.overloadpacket.call(args, kwargs)

    @property
    def op(self) -> OpOverload:
        """What is called."""
        return self

    def name(self) -> str:
        """`aten::add.Tensor`; `aten::mm` for a default."""
        kept = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.overloadpacket._qualified}{kept}"

    def __reduce__(self) -> Any:
        return overload_named, (self.namespace, self._opname, self._overloadname)

    def __deepcopy__(self, memo: dict) -> OpOverload:
        return self

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"


def overload_named(namespace: str, name: str, overload: str) -> Any:
    """The overload of these names."""
    import rushlight

    return getattr(getattr(getattr(rushlight.ops, namespace), name), overload)


class OpOverloadPacket:
    """An operator by its inner name; its attributes are its overloads.

    >>> import rushlight as torch
    >>> torch.ops.aten.add(torch.tensor(1), 2), torch.ops.aten.mm.default
    (tensor(3), <OpOverload(op='aten.mm', overload='default')>)
    """

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace = namespace
        self.__name__, self._qualified = name, f"{namespace}::{name}"
        self._called: Callable | None = None

    def resolved(self) -> Callable | None:
        """The function that the operator calls, or None."""
        if self._called is None:
            from rushlight.dispatch import aten_calls

            self._called = aten_calls.called(self._namespace, self.__name__)
        return self._called

    def call(self, args: tuple, kwargs: dict) -> Any:
        """What the operator gives."""
        called = self.resolved()
        if called is None:
            raise NotImplementedError(
                f"torch.ops.{self}: Rushlight has no public operator of this name to call"
            )
        return called(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(args, kwargs)

    def declare(self, overload: str, called: Any) -> OpOverload:
        """Give an operator of a program an overload."""
        self.__dict__[overload] = made = OpOverload(self, overload)
        made.called = called
        self._called = called if len(self._declared()) == 1 else self._call_fitting
        return made

    def _declared(self) -> list[OpOverload]:
        """The overloads that a program declared."""
        return [v for v in vars(self).values() if isinstance(v, OpOverload) and v.called]

    def _call_fitting(self, *args: Any, **kwargs: Any) -> Any:
        """Call the first of several overloads of a program that takes the arguments."""
        own = self._declared()
        for each in own:
            if schemas.takes(each.called._signature, args, kwargs):
                return each(*args, **kwargs)
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema: "
            + ", ".join(f"{self}.{each._overloadname}{each.called._signature}" for each in own)
        )

    def overloads(self) -> list[str]:
        """The names of the overloads that were asked for so far."""
        return [name for name, v in vars(self).items() if isinstance(v, OpOverload)]

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        if self._declared():  # an operator of a program, whose overloads are known
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        self.__dict__[overload] = made = OpOverload(self, overload)
        return made

    def __reduce__(self) -> Any:
        return packet_named, (self._namespace, self.__name__)

    def __deepcopy__(self, memo: dict) -> OpOverloadPacket:
        return self

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


def packet_named(namespace: str, name: str) -> Any:
    """The operator of these names."""
    import rushlight

    return getattr(getattr(rushlight.ops, namespace), name)


class Operators:
    """A namespace of operators: `torch.ops.aten`."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = made = OpOverloadPacket(self._namespace, name)
        return made
