"""Signatures of functions of torch, and calls in their normal form."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight
from rushlight.fx.names import is_ours
from rushlight.nn import Module

__all__ = [
    "ArgsKwargsPair", "create_type_hint", "get_signature_for_torch_op", "normalize_function",
    "normalize_module", "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple
    kwargs: dict[str, Any]


# Keyword parameters that only NumPy has, and the parameters that they are other names for.
_ALIASES = {
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other",
}  # fmt: skip


def _signature(function: Any) -> inspect.Signature | None:
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    kept = [
        p for p in found.parameters.values()
        if not (p.kind is p.KEYWORD_ONLY and _ALIASES.get(p.name) in found.parameters)
    ]  # fmt: skip
    return found.replace(parameters=kept)


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False) -> Any:
    """The signatures of a function of torch, a list of one; None for what is no function of torch.

    >>> import rushlight as torch
    >>> [list(s.parameters) for s in get_signature_for_torch_op(torch.relu)]
    [['input', 'out']]
    """
    found = None
    if callable(op) and not isinstance(op, type):
        overload = getattr(op, "_function", None)
        if is_ours(op) or hasattr(op, "overloadpacket") or hasattr(op, "_qualified"):
            found = _signature(overload or op)
    signatures = None if found is None else [found]
    return (signatures, None) if return_schemas else signatures


def create_type_hint(x: Any) -> Any:
    """The type of a list or tuple of types: `[int, int]` is `list[int]`."""
    if not isinstance(x, (list, tuple)):
        return x
    if not x:
        return list[Any] if isinstance(x, list) else tuple[Any, ...]
    base = x[0]
    for t in x:
        if issubclass(t, base):
            continue
        if not issubclass(base, t):
            return list[Any] if isinstance(x, list) else tuple[Any, ...]
        base = t
    return list[base] if isinstance(x, list) else tuple[base, ...]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of one type may stand for a parameter of the other."""
    if signature_type is argument_type or signature_type is Any:
        return True
    origin = getattr(signature_type, "__origin__", None)
    args = getattr(signature_type, "__args__", ())
    if isinstance(signature_type, types.UnionType) or repr(origin) == "typing.Union":
        return any(type_matches(c, argument_type) for c in args)
    if origin is list:
        inner = getattr(argument_type, "__args__", ())
        whole = getattr(argument_type, "__origin__", None) in (list, tuple)
        return argument_type is args[0] or whole and all(type_matches(args[0], t) for t in inner)
    if not isinstance(signature_type, type) or not isinstance(argument_type, type):
        return False
    numbers = (int, float, complex)
    if signature_type in (float, complex) and argument_type in numbers:
        return True
    return issubclass(argument_type, signature_type)


def normalize_function(
    target: Callable, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None, kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The arguments of a call with all parameters of `target`, defaults too; None if they do not fit.

    >>> import rushlight as torch
    >>> normalize_function(torch.add, (1, 2), {"alpha": 3}, normalize_to_only_use_kwargs=True).kwargs["alpha"]
    3
    """
    kwargs = kwargs or {}
    found: Any = None
    if isinstance(target, types.FunctionType | types.BuiltinFunctionType) and is_ours(target):
        found = _signature(target)
    elif hasattr(target, "overloadpacket") or hasattr(target, "_qualified"):
        found = (get_signature_for_torch_op(target) or [None])[0]
    if found is None:
        return None
    return _bound(found, args, kwargs, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The arguments of a call of a submodule of torch.nn with all parameters of its `forward`."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(rushlight.nn, type(module).__name__, None) is not type(module):
        return None
    found = inspect.signature(module.forward)
    return _bound(found, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(
    signature: inspect.Signature, args: tuple, kwargs: dict, only_kwargs: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    new_args, new_kwargs = [], {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None
        if name == "out" and bound.arguments[name] is None:
            continue
        if not only_kwargs and i < len(args):
            new_args.append(bound.arguments[name])
        else:
            new_kwargs[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(new_args), new_kwargs)
