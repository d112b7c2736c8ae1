"""Losses of `torch.nn.functional` as calls of ATen's operators, which take a number for the reduction."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.dispatch.aten_losses import LOSSES
from rushlight.dispatch.aten_names import overload
from rushlight.export.calls import without_defaults
from rushlight.nn._reduction import get_enum, legacy_get_enum

_OPERATORS = {loss.function: operator for operator, loss in LOSSES.items()}  # the last of several
_FLOATS = frozenset(("margin", "eps"))


def body_of_loss(func: Any, name: str) -> Callable | None:
    """What is recorded in place of a loss: the call of the operator and what goes before and after; None for others."""
    op = getattr(func, "op", None)
    if op is None or op.where != "nn.functional" or name not in _OPERATORS:
        return None
    signature = inspect.signature(func)

    def body(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        named = given.arguments
        by_element = LOSSES[_OPERATORS[name]].same_shape and named.get("weight") is not None
        if by_element or named.get("beta", 1) == 0:  # not the operator
            return op.declared(*args, **kwargs)
        per_row = name == "kl_div" and named["reduction"] == "batchmean"
        found = _call(_OPERATORS[name], signature, named, 2 if per_row else _number(named))
        return found / named["input"].shape[0] if per_row and named["input"].dim() else found

    return body


def _number(named: dict[str, Any]) -> int:
    """The reduction of a call."""
    older = named.get("size_average"), named.get("reduce")
    return get_enum(named["reduction"]) if older == (None, None) else legacy_get_enum(*older)


def _call(operator: str, signature: inspect.Signature, named: dict[str, Any], number: int) -> Any:
    """A call of an operator, without the last arguments that have their defaults."""
    aten, loss = rushlight.ops.aten, LOSSES[operator]
    tensors = [named[p] for p in loss.tensors.split()]
    if loss.same_shape:
        tensors = [*aten.broadcast_tensors.default(tensors)]
    if operator == "binary_cross_entropy" and named["weight"] is not None:
        named["weight"] = named["weight"].expand([*named["target"].shape])
    names = loss.parameters.split()
    values = [number if p == "reduction" else named[p] for p in names]
    defaults = [1 if p == "reduction" else signature.parameters[p].default for p in names]
    if not loss.complete:
        values = without_defaults(values, defaults)
    values = [float(v) if p in _FLOATS else v for p, v in zip(names, values, strict=False)]
    options = {"log_target": True} if named.get("log_target") else {}
    chosen = overload(operator, dict(enumerate((*tensors, *values))))
    return getattr(getattr(aten, operator), chosen)(*tensors, *values, **options)
