"""`torch.distributed.tensor.experimental`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.tensor import dispatch
from rushlight.distributed.tensor.api import DTensor
from rushlight.distributed.tensor.context_parallel import context_parallel
from rushlight.utils import _pytree as pytree

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors beside spread ones are taken for the same everywhere."""
    dispatch.implicit += 1
    try:
        yield
    finally:
        dispatch.implicit -= 1


def register_sharding(op: Any) -> Callable:
    """Decorate a function that says along one dimension of a mesh how an operator of `torch.ops`, or a list, may be spread.

    It takes what the operator takes, with what is known of tensors in their place (`shape`, `ndim`...), and returns pairs:
    placements of the results, and those of the arguments, None for what is no tensor.
    """

    def declare(function: Callable) -> Callable:
        def rule(call: dispatch.SpreadCall) -> list[dispatch.Strategy]:
            made = []
            for results, arguments in function(*call.args, **call.kwargs):
                outputs = results[0] if len(results) == 1 else tuple(results)
                made.append(dispatch.Strategy(outputs, [p for p in arguments if p is not None]))
            return made

        for overload in op if isinstance(op, list) else [op]:
            dispatch.register(overload, rule)
        return function

    return declare


def local_map(
    func: Callable | None = None, out_placements: Any = None, in_placements: Sequence | None = None,
    in_grad_placements: Sequence | None = None, device_mesh: Any = None, *, redistribute_inputs: bool = False,
) -> Any:  # fmt: skip
    """The function of plain tensors as one of spread tensors: it is called on the parts, and its results are parts.

    `out_placements` says how they lie: placements, or a tuple with those of each result. `in_placements` says how each argument
    has to lie, and with `redistribute_inputs` they are brought there; `in_grad_placements` how the gradients of the parts
    lie. Without `func` it is a decorator.
    """
    options = (out_placements, in_placements, in_grad_placements, device_mesh, redistribute_inputs)
    if func is None:
        return lambda function: functools.partial(_called_on_parts, function, *options)
    return functools.partial(_called_on_parts, func, *options)


def _called_on_parts(
    function: Callable, out_placements: Any, in_placements: Sequence | None, in_grad_placements: Sequence | None,
    mesh: Any, move: bool, /, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    flat, form = pytree.tree_flatten(args)
    if in_placements is not None and len(in_placements) != len(flat):
        raise AssertionError(
            f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!"
        )
    spread = [arg for arg in flat if isinstance(arg, DTensor)]
    parts = []
    for k, arg in enumerate(flat):
        wanted = None if in_placements is None else in_placements[k]
        if isinstance(arg, DTensor):
            gradient = None if in_grad_placements is None else in_grad_placements[k]
            if in_placements is not None:
                arg = _placed(arg, wanted, move)
            if in_grad_placements is not None and gradient is None:
                raise AssertionError(
                    f"DTensor input {arg} expects in grad placements but received None!"
                )
            arg = arg.to_local(grad_placements=gradient if gradient is None else tuple(gradient))
        elif wanted is not None and not isinstance(arg, Tensor):
            raise AssertionError(
                f"Non-Tensor input {arg} expects None placements but received {wanted}!"
            )
        parts.append(arg)
    found = function(*pytree.tree_unflatten(parts, form), **kwargs)
    if not spread:
        return found
    return _spread_results(found, out_placements, mesh or spread[0].device_mesh)


def _placed(arg: DTensor, wanted: Any, move: bool) -> DTensor:
    """An argument as it has to lie."""
    if wanted is None:
        raise AssertionError(f"DTensor input {arg} expects placements but received None!")
    if arg.placements == tuple(wanted):
        return arg
    if not move:
        raise ValueError(
            f"arg {arg} in local_map has a mismatched placements: arg placements is {arg.placements} but the input "
            f"placements is {tuple(wanted)}! If redistribute_inputs is wanted, set redistribute_inputs=True to local_map."
        )
    return arg.redistribute(placements=tuple(wanted))


def _spread_results(found: Any, out_placements: Any, mesh: Any) -> Any:
    """Results of a function of parts as spread tensors, the others as they are."""
    flat, form = pytree.tree_flatten(found)
    each = out_placements if isinstance(out_placements, tuple) else (out_placements,)
    if len(flat) != len(each):
        raise AssertionError(
            "local_map requires one PlacementType be provided for each output value, received "
            f"{len(each)} out_placements but {len(flat)} is expected!"
        )
    results = []
    for value, placements in zip(flat, each):
        if isinstance(value, DTensor):
            raise AssertionError(
                f"torch.Tensor output expected but received {type(value)}: {value}"
            )
        if isinstance(value, Tensor):
            value = DTensor.from_local(value, mesh, placements, run_check=False)
        elif placements is not None:
            raise AssertionError(
                f"Non-tensor output {value} expects None placements but received {placements}!"
            )
        results.append(value)
    return pytree.tree_unflatten(results, form)
