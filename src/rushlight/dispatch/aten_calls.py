"""How operators look below autograd: as which of PyTorch's inner operators, called with which arguments.

Operators of `aten_forms.FORMS`, which PyTorch writes in others, are carried out as these. Those of
`aten_arguments.ARGUMENTS` have an inner operator that takes other arguments. All others are called with their own
arguments, without those at their defaults. What PyTorch has no operator for is `torch.ops.rushlight.<path>`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.dispatch import aten_names, handlers, index
from rushlight.dispatch.aten_arguments import ARGUMENTS, BEHIND, CALLS, GRADIENTS, as_list
from rushlight.dispatch.aten_forms import OPS, loaded, torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.overloads import OpOverload
    from rushlight.dispatch.registry import Op

DIMS = frozenset("sum mean nansum amax amin logsumexp".split())  # their dimensions are a list


def overload_of(op: Op, named: dict, inplace: bool = False) -> tuple[OpOverload, tuple, dict]:
    """(what a call of `op` is below autograd, its arguments); `named`: the values of all parameters."""
    space = torch().ops
    ours = handlers.own_operators(op)
    if not ours and op.path in ARGUMENTS:
        name, arguments = ARGUMENTS[op.path][:2]
        given = {p: named[p] for p in op.params}
        name = name(**given) if callable(name) else name
    if not ours and op.path in ARGUMENTS and name is not None:
        args, kwargs = arguments(**given)
    else:
        values = [named[p] for p in op.params]
        n = op.n_positional
        args = tuple(values[:n])
        while len(args) > 1 and is_default(op, op.params[len(args) - 1], args[-1]):
            args = args[:-1]
        args = tuple(map(as_list, args))
        kwargs = {p: v for p, v in zip(op.params[n:], values[n:]) if not is_default(op, p, v)}
        if op.path in DIMS and len(args) > 1 and args[1].__class__ is int:
            args = (args[0], [args[1]], *args[2:])
        names = () if ours else aten_names.names(op, values)
        name = names[-1] if names else ""
        if not name or not same(op, name):
            packet = getattr(space.rushlight, op.path.replace(".", "_") + "_" * inplace)
            if packet._called is None:
                packet._called = own_call(op, inplace)
            return packet.default, args, kwargs
    if inplace and not name.endswith("_"):
        name += "_"
    packet = getattr(space.aten, name)
    if inplace and name[:-1] in BEHIND:
        packet._called = packet._called or own_call(op, inplace)
    return getattr(packet, aten_names.overload(name.rstrip("_"), named)), args, kwargs


def is_default(op: Op, p: str, value: Any) -> bool:
    """Whether a parameter has its default value."""
    if p not in op.defaults:
        return False
    default = op.defaults[p]
    return value is default or (
        value.__class__ is default.__class__ in (int, float, bool, str) and value == default
    )


@functools.cache
def same(op: Op, name: str) -> bool:
    """Whether PyTorch's operator `name` is called with the arguments of `op`."""
    if op.intermediates:
        return False
    function = getattr(torch().ops.aten, name).resolved()
    if function is None or name in CALLS:
        return False
    return getattr(function, "op", None) is op or function is op.public_function or op.path in SAME


# Operators whose name calls another one of ours, with the same arguments.
SAME = frozenset(
    "_dim.max _dim.min _dim.median _dim.nanmedian _all.max _all.min _all.median _all.nanmedian _add_scaled _sub_scaled "
    "_rsub_scaled aten.masked_fill_tensor aten.scatter_src aten.scatter_value aten.index_fill_value "
    "aten.index_fill_tensor _clamp_tensors _clamp_min_tensor _clamp_max_tensor "
    "internal.adaptive_avg_pool2d internal.adaptive_avg_pool3d".split()
)


def own_result(op: Op, found: Any) -> Any:
    """The result of `op` among those of its inner operator, where that was another one."""
    how = () if handlers.own_operators(op) else ARGUMENTS.get(op.path, ())
    return found[how[2]] if len(how) > 2 and not isinstance(found, Tensor) else found


def own_call(op: Op, inplace: bool) -> Callable:
    """What calls an operator that PyTorch does not have, with its intermediates behind its results."""
    if inplace:
        from rushlight.dispatch import inplace as inplaces

        def write(t: Tensor, *args: Any, **kwargs: Any) -> Any:
            return inplaces.bound(op, t, args, kwargs)

        write.op = op  # type: ignore[attr-defined]
        return write
    if op.intermediates:

        def call_kept(*args: Any, **kwargs: Any) -> Any:
            return handlers.carried["call_kept"](op, args, kwargs)

        call_kept.op, call_kept.kept = op, True  # type: ignore[attr-defined]
        return call_kept
    return with_tuples(op.function)


def with_tuples(function: Callable) -> Callable:
    """A function that takes lists of numbers where `function` takes tuples."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple([tuple(v) if v.__class__ is list else v for v in args])
        return function(*args, **kwargs)

    call.op = function.op  # type: ignore[attr-defined]
    return call


def with_defaults(op: Op, defaults: tuple) -> Callable:
    """A function of an operator whose last parameters have defaults."""
    named = dict(zip(op.params[len(op.params) - len(defaults) :], defaults, strict=True))

    def call(*args: Any, **kwargs: Any) -> Any:
        left = {p: v for p, v in named.items() if p in op.params[len(args) :]}
        return op.function(*args, **(left | kwargs))

    call.op = op  # type: ignore[attr-defined]
    return call


def called(namespace: str, name: str) -> Callable | None:
    """What the operator `name` calls, where that is no public function."""
    if namespace == "rushlight":
        for op in OPS().values():
            if op.path.replace(".", "_") == name:
                return own_call(op, False)
        return None
    if name in CALLS:
        found = CALLS[name]
        return with_tuples(loaded(found).function) if isinstance(found, str) else found
    if name in BEHIND:
        path, defaults = BEHIND[name]
        return with_defaults(loaded(path), defaults)
    if name in GRADIENT_NAMES:
        path, back = GRADIENT_NAMES[name]
        op = loaded(path)
        (rule,) = op.rules.values()
        return gradient_call(op, rule, back)
    from rushlight.dispatch.overloads import _function

    if (op := OPS().get(f"aten.{name}")) is not None:
        return with_tuples(op.function)
    if (found := _function(name)) is not None:
        return found
    own_path = f"internal.{name}"
    if own_path in index.FUNCTIONS:
        loaded(own_path)
    for path in (own_path, name):
        if (op := OPS().get(path)) is not None and not op.intermediates:
            return with_tuples(op.function)
    if not name.startswith("_") and callable(getattr(Tensor, f"{name}_", None)):  # `aten.uniform`

        def value(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return getattr(input.clone(), f"{name}_")(*args, **kwargs)

        return value
    return None


# -- kernels of gradient rules -----------------------------------------------------------------------


def gradient_overload(op: Op, rule: Any, env: dict) -> tuple[OpOverload, tuple]:
    """(the operator that stands for the kernel of a gradient rule of `op`, its arguments)."""
    if op.path in GRADIENTS and not handlers.own_operators(op):
        name, arguments, _ = GRADIENTS[op.path]
        return getattr(torch().ops.aten, name).default, arguments(*[env[n] for n in rule.names])
    of = "" if rule is op.rule_all else "_" + next(i for i, r in op.rules.items() if r is rule)
    wrt = of if len(op.rules) > 1 else ""
    packet = getattr(torch().ops.rushlight, f"{op.path.replace('.', '_')}_backward{wrt}")
    if packet._called is None:
        packet._called = gradient_call(op, rule, lambda *values: values)
    return packet.default, tuple(env[n] for n in rule.reads)


# PyTorch's names of kernels of rules -> (path of the operator, the values that the rule reads, of the arguments)
GRADIENT_NAMES = {name: (path, back) for path, (name, _, back) in GRADIENTS.items()}


def gradient_call(op: Op, rule: Any, back: Callable) -> Callable:
    """What calls a gradient rule, or its kernel; `back` makes what the rule reads of the arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from rushlight.dispatch import record

        env = dict(zip(rule.reads, back(*args, **kwargs), strict=True))
        return record.gradient(op, rule, env, record.thread.grad)

    call.gradient_of = op, rule, back  # type: ignore[attr-defined]
    return call
