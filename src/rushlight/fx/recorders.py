"""What stands in the place of functions and methods while a tracer runs: calls with a proxy become nodes.

Proxies among tensors are noticed by the override protocol. These here are for calls in which a proxy stands
for a number, a size or an index, and for what looks at its argument before it asks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overloads import OpOverload, OpOverloadPacket
from rushlight.fx.node import map_aggregate
from rushlight.fx.patches import Patches
from rushlight.fx.proxy import Proxy

# Functions of sizes and numbers, which take no tensor that could be asked, and `_assert`, which takes a truth.
_FUNCTIONS = (
    "_assert arange broadcast_to empty eye full linspace logspace ones rand randint randn randperm tril_indices "
    "triu_indices zeros"
).split()
# Methods of tensors that read sizes and indices.
_METHODS = (
    "__getitem__ __setitem__ copy_ expand narrow new_empty new_full new_ones new_zeros repeat reshape roll select "
    "tile to view"
).split()


def first_proxy(values: Any) -> Proxy | None:
    """The first proxy in nested values; None if there is none."""
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[0] if found else None


def of_function(function: Callable, wrapped: bool = True) -> Callable:
    """`function`, which a call with a proxy among its arguments records instead of running it.

    `wrapped`: whether generated code wraps it, too, so that tracing the code records it again.
    """

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = first_proxy((args, kwargs))
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        if wrapped:
            made.node.meta["is_wrapped"] = True
        return made

    return record


def of_method(method: Callable, name: str) -> Callable:
    """A method, which a call with a proxy among its arguments records."""

    @functools.wraps(method)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = first_proxy((args, kwargs))
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


def of_operator(call: Callable) -> Callable:
    """`__call__` of `torch.ops.aten.add.Tensor`: the operator itself is recorded, not the function behind it."""

    def record(operator: Any, *args: Any, **kwargs: Any) -> Any:
        proxy = first_proxy((args, kwargs))
        if proxy is None:
            return call(operator, *args, **kwargs)
        return proxy.tracer.create_proxy("call_function", operator, args, kwargs)

    return record


def patch_torch(patches: Patches) -> None:
    """Put recorders in the places of the functions and methods that would not ask a proxy."""
    for name in _FUNCTIONS:
        patches.item(vars(rushlight), name, of_function(getattr(rushlight, name), wrapped=False))
    for name in _METHODS:
        patches.attribute(Tensor, name, of_method(getattr(Tensor, name), name))
    for cls in (OpOverload, OpOverloadPacket):
        patches.attribute(cls, "__call__", of_operator(cls.__call__))
