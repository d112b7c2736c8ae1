"""`torch.overrides`: the `__torch_function__` protocol, for tensor subclasses, other classes and modes.

A class with a class method `__torch_function__(cls, func, types, args, kwargs)` takes over every call
that one of its instances is an argument of.

>>> import rushlight as torch
>>> class Logged(torch.Tensor):
...     @classmethod
...     def __torch_function__(cls, func, types, args=(), kwargs=None):
...         print(func.__name__)
...         return super().__torch_function__(func, types, args, kwargs)
>>> type(torch.ones(2).as_subclass(Logged) + 1).__name__
add
'Logged'

A mode takes over every call inside a `with` statement, whatever its arguments are, and what the program reads of tensors:
`x.shape` is a call of `torch.Tensor.shape.__get__`.

>>> class CosineForSine(torch.overrides.TorchFunctionMode):
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         return torch.cos(*args) if func is torch.sin else func(*args, **(kwargs or {}))
>>> with CosineForSine():
...     torch.sin(torch.zeros(1))
tensor([1.])
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.autograd.state import count_mode, thread
from rushlight.core.stub import Block
from rushlight.core.tensor import Tensor
from rushlight.dispatch import methods, mode_reads, overrides

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass",
    "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode:
    """Takes over every call inside its `with` statement; inner modes are asked first.

    While `__torch_function__` runs, the mode itself is off.
    """

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to define __torch_function__")

    def __enter__(self) -> Any:
        if getattr(self.__torch_function__, "__self__", None) is type(self):
            raise RuntimeError(
                "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it "
                f"a plain method of {type(self).__name__}"
            )
        thread.function_modes = (*thread.function_modes, self)
        count_mode(+1)  # every call takes the general path, where modes are asked
        mode_reads.count(self, +1)
        return self

    def __exit__(self, *exception: Any) -> None:
        thread.function_modes = thread.function_modes[:-1]
        count_mode(-1)
        mode_reads.count(self, -1)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """Block in which `__torch_function__` of arguments is off; results are plain tensors. Modes stay on."""

    def __enter__(self) -> None:
        self._before, thread.function_disabled = thread.function_disabled, True

    def __exit__(self, *exception: Any) -> None:
        thread.function_disabled = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Block in which `__torch_function__` of arguments and of modes is off."""

    def __enter__(self) -> None:
        super().__enter__()
        self._modes, thread.function_modes = thread.function_modes, ()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__()
        thread.function_modes = self._modes


class enable_reentrant_dispatch(Block):
    """Block inside of a `__torch_dispatch__` in which calls are recorded for backward, as they were around it."""

    def __enter__(self) -> None:
        self._before, thread.grad = thread.grad, thread.grad_above

    def __exit__(self, *exception: Any) -> None:
        thread.grad = self._before


# -- for user-defined functions ----------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments overrides functions, or a mode is on."""
    if not isinstance(relevant_args, Iterable):
        raise TypeError(f"expected a sequence, got {type(relevant_args).__name__}")
    return bool(thread.function_modes) or any(map(overrides.overriding, relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """`has_torch_function((arg,))`."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the modes and the relevant arguments that override functions make the call `public_api(*args)`.

    >>> import rushlight as torch
    >>> from rushlight.overrides import handle_torch_function, has_torch_function_unary
    >>> def double(x):
    ...     if has_torch_function_unary(x):
    ...         return handle_torch_function(double, (x,), x)
    ...     return x + x
    """
    relevant = tuple(relevant_args)
    result = overrides.ask(public_api, relevant, args, kwargs)
    if result is overrides.NOTHING:
        types = list(dict.fromkeys(type(a) for a in relevant if overrides.overriding(a)))
        name = f"{public_api.__module__}.{public_api.__name__}"
        raise TypeError(
            f"no implementation found for {name!r} on types that implement __torch_function__: {types}"
        )
    return result


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorator: `dispatcher(*args)` names the arguments that are asked before the function runs."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def redispatch_function(
    func: Callable, types: tuple, args: tuple, kwargs: dict | None = None
) -> Any:
    """Make the call without asking subclasses of tensors: for use inside `__torch_function__`."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or an object whose class has `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


# -- what can be overridden ------------------------------------------------------------------------

_NAMESPACES = ("", "nn.functional", "linalg", "fft", "special")


def _namespace(path: str) -> Any:
    import importlib

    return importlib.import_module(f"rushlight.{path}" if path else "rushlight")


def get_ignored_functions() -> set[Callable]:
    """Public functions that cannot be overridden: they take no tensor, or make one."""
    import rushlight as torch

    names = (
        "typename is_tensor is_storage set_default_dtype get_default_dtype manual_seed initial_seed seed "
        "save load set_printoptions set_num_threads get_num_threads is_grad_enabled set_grad_enabled no_grad "
        "enable_grad inference_mode tensor as_tensor from_numpy from_dlpack asarray arange empty eye full "
        "linspace logspace ones rand randint randn randperm zeros empty_strided tril_indices triu_indices "
        "bartlett_window blackman_window hamming_window hann_window kaiser_window finfo iinfo "
        "promote_types result_type can_cast broadcast_shapes"
    ).split()
    return {getattr(torch, name) for name in names if hasattr(torch, name)}


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """{namespace: its functions that `__torch_function__` can override}; loads them all."""
    ignored = {id(f) for f in get_ignored_functions()}
    found: dict[Any, list[Callable]] = {}
    for path in _NAMESPACES:
        namespace = _namespace(path)
        functions = [getattr(namespace, n) for n in dir(namespace) if n[0] != "_"]
        found[namespace] = [f for f in functions if _is_function(f) and id(f) not in ignored]
    members: list[Callable] = []
    operators = {*methods.OPERATORS, *methods.UNARY, *methods.INDEXING, *overrides.PYTHON_METHODS}
    operators |= {f"__{form}{name[2:]}" for name in methods.OPERATORS for form in "ri"}
    for name, value in vars(Tensor).copy().items():
        if isinstance(value, property):
            members.append(value.__get__)
        elif (name[0] != "_" or name in operators) and callable(getattr(Tensor, name, None)):
            members.append(getattr(Tensor, name))
    found[Tensor] = members
    return found


def _is_function(f: Any) -> bool:
    return callable(f) and not isinstance(f, type) and hasattr(f, "__name__")


def get_testing_overrides() -> dict[Callable, Callable]:
    """{function: a function of the same parameters that returns -1}."""
    return {
        f: _minus_one(f) for functions in get_overridable_functions().values() for f in functions
    }


def _minus_one(f: Callable) -> Callable:
    """A function that says it has the parameters of `f`, takes anything and returns -1."""
    override = functools.wraps(f)(lambda *args, **kwargs: -1)
    with contextlib.suppress(ValueError):  # built-in methods say none
        vars(override)["__signature__"] = inspect.signature(f)
    return override


def get_default_nowrap_functions() -> set[Callable]:
    """Getters whose tensors the default `__torch_function__` leaves plain: `Tensor.grad`, `Tensor._base`."""
    return overrides.nowrap()


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether `func` is a method of `Tensor` only, or the getter of one of its properties."""
    return (resolve_name(func) or "").startswith("torch.Tensor.")


def resolve_name(f: Callable) -> str | None:
    """The public name of a function or method, `torch.add` or `torch.Tensor.shape.__get__`; None if unknown."""
    name = getattr(f, "__name__", None)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, property):
        for attribute, value in vars(Tensor).items():
            if value is owner:
                return f"torch.Tensor.{attribute}.{name}"
        return None
    if name is None:
        return None
    for path in _NAMESPACES:
        if getattr(_namespace(path), name, None) is f:
            return ".".join(filter(None, ("torch", path, name)))
    return f"torch.Tensor.{name}" if getattr(Tensor, name, None) is f else None
