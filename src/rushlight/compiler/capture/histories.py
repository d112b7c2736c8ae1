"""Calls that ask for more of the history of tensors than programs give their results."""

from __future__ import annotations

import types
from inspect import signature
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import tensors_in

BACKWARDS = {
    f: signature(f).parameters
    for f in (rushlight.autograd.grad, rushlight.autograd.backward, Tensor.backward)
}
HOOKS = (Tensor.retain_grad, Tensor.register_hook)


def asks_within(f: Any, args: tuple, kwargs: dict) -> str | None:
    """Why a call asks for what is within the history of a result: a program gives its results one derivative, and none of
    them stands between another one and where that came from. None: it does not."""
    if f.__class__ is types.MethodType:
        f, args = f.__func__, (f.__self__, *args)
    if f.__class__ is not types.FunctionType:
        return None
    if f in HOOKS:
        made = args and isinstance(args[0], Tensor) and not args[0].is_leaf
        return f"{f.__name__}() of a tensor with a history" if made else None
    if f not in BACKWARDS:
        return None
    given = dict(zip(BACKWARDS[f], args, strict=False)) | kwargs
    if given.get("create_graph"):
        return "a gradient that may be differentiated again"
    if not all(t.is_leaf for t in tensors_in([given.get("inputs")])):
        return "a gradient of a tensor with a history"
    return None
