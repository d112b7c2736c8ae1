"""`torch._ops`: the classes of what `torch.ops` has, for `isinstance(node.target, torch._ops.OpOverload)`, and of
operators that take functions."""

from __future__ import annotations

import abc
import contextlib
import enum
import threading
import types
from collections.abc import Callable
from typing import Any

from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import overrides
from rushlight.dispatch.handlers import tensors_in
from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket
from rushlight.dispatch.transforms import Level, top
from rushlight.utils._pytree import tree_leaves

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket"]

DispatchKey = enum.Enum(
    "DispatchKey",
    "Undefined CPU CUDA Meta SparseCPU BackendSelect Python Functionalize ADInplaceOrView AutogradOther AutogradCPU "
    "AutogradCUDA AutogradMeta AutocastCPU AutocastCUDA FuncTorchBatched PreDispatch PythonDispatcher Autograd "
    "CompositeImplicitAutograd CompositeExplicitAutograd",
)
DispatchKey.__doc__ = (
    "For what a part of an operator is written: a device, autograd, or all of them."
)
DispatchKey.__str__ = lambda key: f"DispatchKey.{key.name}"  # type: ignore[method-assign, assignment]

TransformType = enum.Enum("TransformType", "Torch Vmap Grad Jvp Functionalize", start=0)
TransformType.__doc__ = "The kinds of function transforms."

TRANSFORMS = {"vmap": TransformType.Vmap, "forward mode": TransformType.Jvp}


# "namespace::name" -> operator of the program: `CustomOpDef` of `torch.library`
OPERATORS: dict[str, Any] = {}


class Namespace(types.ModuleType):
    """The operators declared under `mylib::`, by now or later: `torch.ops.mylib`."""

    __file__ = "torch.ops"

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        for each in OPERATORS.values():
            if str(each) == f"{self.name}.{name}":
                self.__dict__[name] = packet = each.default.overloadpacket
                return packet
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        own = [str(each).partition(".") for each in OPERATORS.values()]
        return [name for space, _, name in dict.fromkeys(own) if space == self.name]


class _Below(threading.local):
    autograd = False


below = _Below()


class _AutoDispatchBelowAutograd:
    """A block in which operators that take functions go on below their part for autograd."""

    def __enter__(self) -> None:
        self.before, below.autograd = below.autograd, True

    def __exit__(self, *exc: object) -> None:
        below.autograd = self.before


class Interpreter:
    """What the part of an operator for a transform is told of the one that runs."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def level(self) -> Level:
        """The level, as `torch._C._functorch._add_batch_dim` takes it."""
        return self._level

    def lower(self) -> contextlib.AbstractContextManager:
        """A block in which operators are called for tensors from below the level, as they are anyway."""
        return contextlib.nullcontext()


class HigherOrderOperator(abc.ABC):
    """An operator that may take functions: it does what `py_impl` says for the transform, the mode or the device.

    A transform's part is asked first, then that for autograd (`DispatchKey.Autograd`), those for modes and tensor
    subclasses, and the device's last. Gradients have no level: where some are recorded, the part for autograd runs.

    >>> import rushlight as torch
    >>> class Cond(HigherOrderOperator):
    ...     def __call__(self, x, f, g):
    ...         return super().__call__(x, f, g)
    >>> cond = Cond("cond")
    >>> part = cond.py_impl(DispatchKey.CompositeImplicitAutograd)(lambda x, f, g: f(x) if x.sum() > 0 else g(x))
    >>> cond(torch.ones(2), torch.neg, torch.sin)
    tensor([-1., -1.])
    """

    namespace = "higher_order"

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        self.__name__, self.__module__ = name, "torch.ops.higher_order"
        self.rules: dict[Any, Callable] = {}  # key, transform, or class of modes or tensors -> part
        self.skipped: set[Any] = set()

    def py_impl(self, k: Any) -> Callable:
        """A decorator: the part of the operator for a key, a transform, or a class of modes or of tensors."""

        def inner(function: Callable) -> Callable:
            if k in self.rules:
                raise RuntimeError(f"Trying to override a python impl for {k} on operator {self}")
            self.rules[k] = function
            return function

        return inner

    def py_autograd_impl(self, fn: Callable) -> Callable:
        """Make `fn` the part for autograd."""
        return self.py_impl(DispatchKey.Autograd)(fn)

    def fallthrough(self, dispatch_key: Any) -> None:
        """Let calls go on as if there were nothing to do for a key."""
        self.skipped.add(dispatch_key)

    def name(self) -> str:
        """The name."""
        return self.__name__

    def __str__(self) -> str:
        return self.__name__

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = overrides.call_overrides(self, args, kwargs)
        if found is not overrides.NOTHING:
            return found
        tensors = list(tensors_in(tree_leaves((args, kwargs))))
        lifted = top(tensors)
        if lifted is not None and lifted.level.alive:
            part = self.rules.get(TRANSFORMS[lifted.transform])
            # (a part for a transform takes tensors out of their level, and what was recorded there with it)
            if part is not None and not (thread.grad and any(t.requires_grad for t in tensors)):
                return part(Interpreter(lifted.level), *args, **kwargs)
        device = tensors[0].device.type.upper() if tensors else "Undefined"
        device = "Meta" if device == "META" else device
        if tensors and not below.autograd:
            part = self._part(f"Autograd{device}", "Autograd", "CompositeImplicitAutograd")
            if part is not None:
                return part(*args, **kwargs)
        modes = thread.dispatch_modes
        if modes:
            thread.dispatch_modes = modes[:-1]
            try:
                return self._by_mode(modes[-1], args, kwargs)
            finally:
                thread.dispatch_modes = modes
        for cls in dict.fromkeys(map(type, tensors)):
            if cls is not Tensor and cls in self.rules:
                return self.rules[cls](*args, **kwargs)
        part = self._part(device, "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        return part(*args, **kwargs)

    def _part(self, *names: str) -> Callable | None:
        """What is written for the first of some keys; None where the first is skipped."""
        for name in names:
            if (key := DispatchKey[name]) in self.rules:
                return self.rules[key]
        if (first := DispatchKey[names[0]]) in self.skipped:
            return None
        raise NotImplementedError(
            f"could not find kernel for HigherOrderOperator {self} at dispatch key {first} (resolved from {first})"
        )

    def _by_mode(self, mode: Any, args: tuple, kwargs: dict) -> Any:
        """The result by a mode: by the part for its class, or by its `__torch_dispatch__` where it takes such operators."""
        if type(mode) in self.rules:
            return self.rules[type(mode)](mode, *args, **kwargs)
        if getattr(mode, "supports_higher_order_operators", False):
            return mode.__torch_dispatch__(self, (), args, kwargs)
        raise NotImplementedError(
            f"There was no rule registered for HigherOrderOperator {self} and mode {mode}. "
            f"Hint: set {mode}'s supports_higher_order_operators to True, then its __torch_dispatch__ is asked."
        )
