"""Calls of modules with other parameters than their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module

__all__ = ["functional_call"]

ABSENT = object()


@contextlib.contextmanager
def _with_tensors(module: Module, tensors: dict[str, Tensor], tie_weights: bool) -> Iterator[None]:
    """Replace the named parameters, buffers and attributes of the module by the tensors, in the block.

    TypeError if a value or the attribute that it replaces is not a tensor; AttributeError for a missing module.
    """
    places: dict[str, tuple[dict[str, Any], str]] = {}
    owners = dict(module.named_modules(remove_duplicate=False))
    for path, owner in owners.items():
        for table in (owner._parameters, owner._buffers):
            for name in table:
                places[f"{path}.{name}" if path else name] = (table, name)
    chosen = {}
    for path, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
        if path not in places:
            at, _, name = path.rpartition(".")
            if at not in owners:
                raise AttributeError(f"{type(module).__name__} has no attribute `{at}`")
            table = vars(owners[at])
            if not isinstance(table.get(name, tensor), Tensor):
                raise TypeError(
                    f"attribute `{path}`: {table[name]} is not an instance of torch.Tensor"
                )
            places[path] = (table, name)
        chosen[path] = tensor
    if tie_weights:
        # A tensor that has two names is replaced under both.
        given = {
            id(table.get(name)): chosen[p] for p, (table, name) in places.items() if p in chosen
        }
        for path, (table, name) in places.items():
            if path not in chosen and table[name] is not None and id(table[name]) in given:
                chosen[path] = given[id(table[name])]
    before = [(*places[path], places[path][0].get(places[path][1], ABSENT)) for path in chosen]
    try:
        for path, tensor in chosen.items():
            table, name = places[path]
            table[name] = tensor
        yield
    finally:
        for table, name, tensor in before:
            if tensor is ABSENT:
                del table[name]
            else:
                table[name] = tensor


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

    Names not given keep the module's own; with `strict` all must be given, and no others.
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
    if strict:
        named = {n for n, _ in module.named_parameters(remove_duplicate=False)}
        named |= {n for n, _ in module.named_buffers(remove_duplicate=False)}
        missing, unexpected = (
            named - parameters_and_buffers.keys(),
            parameters_and_buffers.keys() - named,
        )
        if missing or unexpected:
            text = f"Error(s) in reparametrizing for {type(module).__name__}:"
            if unexpected:
                text += f"\n\tUnexpected key(s): {', '.join(map(repr, sorted(unexpected)))}."
            if missing:
                text += f"\n\tMissing key(s): {', '.join(map(repr, sorted(missing)))}."
            raise RuntimeError(text)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _with_tensors(module, parameters_and_buffers, tie_weights):
        return module(*args, **(kwargs or {}))
