"""Modules called with parameters that are not their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module

__all__ = ["functional_call"]

ABSENT = object()


def _owner(module: Module, path: str) -> tuple[Module, str]:
    """The module that `path` leads to, and the name of the tensor in it."""
    *names, last = path.split(".")
    for name in names:
        inner = module._modules.get(name) or getattr(module, name, None)
        if not isinstance(inner, Module):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        module = inner
    return module, last


def _exchange(owner: Module, name: str, tensor: Any) -> Any:
    """Put a tensor (or ABSENT) in the place of a parameter, a buffer or another attribute; what was there."""
    table: dict[str, Any] = owner._parameters
    if name not in table:
        table = owner._buffers
    if name in table:
        before = table[name]
        if tensor is ABSENT:
            del table[name]
        else:
            table[name] = tensor
        return before
    before = getattr(owner, name, ABSENT)
    if before is not ABSENT and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, tensor)
    return before


class Exchanged:
    """A block in which the named parameters, buffers and other attributes of a module are the given tensors.

    What the module put in their places meanwhile is put into `given`. TypeError if a value or the attribute
    that it replaces is not a tensor; AttributeError for a missing module.
    """

    __slots__ = ("before", "given", "module", "tensors")

    def __init__(self, module: Module, tensors: dict[str, Tensor], given: dict) -> None:
        self.module, self.tensors, self.given = module, tensors, given
        self.before: list[
            tuple
        ] = []  # (path, the module it leads to, the name in it, what was there)

    def __enter__(self) -> None:
        module, before = self.module, self.before
        try:
            for path, tensor in self.tensors.items():
                if tensor is not None and not isinstance(tensor, Tensor):
                    raise TypeError(f"{tensor} is not an instance of torch.Tensor")
                owner, name = _owner(module, path) if "." in path else (module, path)
                before.append((path, owner, name, _exchange(owner, name, tensor)))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        given = self.given
        while self.before:
            path, owner, name, tensor = self.before.pop()
            now = _exchange(owner, name, tensor)
            if path in given:
                given[path] = now


def _named(module: Module) -> dict[str, Any]:
    """All parameters and buffers by name, those with several names under each."""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, inner in module.named_modules(remove_duplicate=False)
        for table in (inner._parameters, inner._buffers)
        for name, tensor in table.items()
        if tensor is not None
    }


def _tensors(module: Module) -> list[Tensor]:
    """All parameters and buffers, those with several names as often."""
    found, modules = [], [module]
    for inner in modules:  # which grows meanwhile
        for table in (inner._parameters, inner._buffers):
            if table:
                found += [t for t in table.values() if t is not None]
        if inner._modules:
            modules += [m for m in inner._modules.values() if m is not None]
    return found


def _tied(module: Module, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """`given`, with a tensor that has several names under all of them. ValueError where it has several values."""
    tensors = _tensors(module)
    if len(set(map(id, tensors))) == len(tensors):
        return given
    named = _named(module)
    names_of: dict[int, list[str]] = {}
    for name, tensor in named.items():
        names_of.setdefault(id(tensor), []).append(name)
    tied = dict(given)
    for names in names_of.values():
        chosen = [n for n in names if n in given]
        if len({id(given[n]) for n in chosen}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider "
                "using tie_weights=False"
            )
        if chosen:
            tied |= dict.fromkeys(names, given[chosen[0]])
    return tied


def _check_names(module: Module, given: Any) -> None:
    """RuntimeError unless `given` has all names of the module's parameters and buffers, and no others."""
    named = _named(module).keys()
    missing, unexpected = named - given.keys(), given.keys() - named
    if missing or unexpected:
        text = f"Error(s) in reparametrizing for {type(module).__name__}:"
        if unexpected:
            text += f"\n\tUnexpected key(s): {', '.join(map(repr, sorted(unexpected)))}."
        if missing:
            text += f"\n\tMissing key(s): {', '.join(map(repr, sorted(missing)))}."
        raise RuntimeError(text)


@contextlib.contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Inside, the module has the given tensors, as for a `functional_call`. Libraries use it for several calls.

    What was there comes back in the opposite order, with `stack_weights` or without.
    """
    with _exchanged(module, parameters_and_buffers, tie_weights, strict):
        yield


def _exchanged(
    module: Module, tensors: dict[str, Tensor], tie_weights: bool, strict: bool
) -> Exchanged:
    """The block of a `functional_call`."""
    tied = _tied(module, tensors) if tie_weights else tensors
    if strict:
        _check_names(module, tied)
    return Exchanged(module, tied, tensors)


def functional_call(
    module: Module,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its parameters and buffers of the same names.

    Names not given keep the module's own; with `strict` all must be given, and no others. A tensor with
    several names is replaced under all, unless `tie_weights` is False. What the module assigns to these
    names during the call is put into `parameters_and_buffers`, the module keeps its own.
    """
    if isinstance(parameters_and_buffers, (tuple, list)):
        merged: dict[str, Tensor] = {}
        for part in parameters_and_buffers:
            repeated = merged.keys() & part.keys()
            if repeated:
                raise ValueError(
                    f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional "
                    "call is ambiguous"
                )
            merged.update(part)
        parameters_and_buffers = merged
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _exchanged(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


_functional_call = functional_call
