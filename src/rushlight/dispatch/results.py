"""What a call returns: arrays as tensors, several outputs as a named tuple, and writes into `out=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, meta
from rushlight.autograd.graph import new, version_of
from rushlight.autograd.state import thread
from rushlight.autograd.views import MULTI, View
from rushlight.core import dtypes, geometry, storage
from rushlight.core.tensor import INFERENCE, Tensor, _array_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.dispatch.registry import Op


def kind(v: Any) -> str:
    return "Tensor" if isinstance(v, Tensor) else type(v).__name__


def wrap(op: Op, named: dict, results: Any) -> list[Tensor]:
    """The forward's arrays as plain tensors (views linked to their source), not yet recorded."""
    several = op.outputs is not None
    arrays = results if several else (results,)
    source = named[op.inputs[0]] if op.view else None
    wrapped = []
    inference = INFERENCE if thread.inference else None
    for nr, a in enumerate(arrays):
        if a is None:
            wrapped.append(None)
            continue
        t = new(Tensor)
        t._array = a if devices.is_array(a) else xp.asarray(a)
        t._edge, t._counter = None, inference
        if source is not None and source._counter is INFERENCE:
            t._counter = INFERENCE
        elif source is not None:
            args = tuple(named[s] for s in op.statics)
            make = nth(op, nr) if several else op
            t._edge = View(source, make, args, None, MULTI if several and thread.grad else None)
            t._counter = source._counter
        wrapped.append(t)
    return wrapped


def nth(op: Op, nr: int) -> Callable:
    def make(base: Tensor, *args: Any) -> Tensor:
        return op(base, *args)[nr]

    return make


def packaged(op: Op, wrapped: list) -> Any:
    if op.outputs is None:
        return wrapped[0]
    if op.outputs == "list":
        return tuple(wrapped)
    return named_tuple(op)(wrapped)


_tuples: dict[str, Any] = {}


def named_tuple(op: Op) -> Any:
    """`torch.return_types.max` and its like: a tuple whose fields have names."""
    if op.path not in _tuples:
        from rushlight.core import return_types

        # a path such as `_dim.max` stands for one form of a public function
        name = op.name if op.where[:1] == "_" else op.path.replace(".", "_")
        _tuples[op.path] = return_types.make(name, op.outputs)
    return _tuples[op.path]


def write_out(op: Op, out: Any, result: Any, inputs: Sequence) -> Any:
    """Put a result into `out=`: resized when the shape differs, cast when PyTorch would."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(outs) != len(results):
        raise TypeError(f"{op.name}(): out= has {len(outs)} tensors, the result has {len(results)}")
    for o, r in zip(outs, results, strict=True):
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {kind(o)}")
        if thread.grad and (o.requires_grad or r.requires_grad):
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        if op.name in SAME_DTYPE and r.dtype is not o.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {r.dtype.name}, but got {o.dtype.name} instead"
            )
        if not dtypes.can_cast(r.dtype, o.dtype):
            raise RuntimeError(
                f"result type {r.dtype.scalar_name} can't be cast to the desired output type "
                f"{o.dtype.scalar_name}"
            )
    if op.elementwise or op.name in APART:
        for o in outs:
            check_apart(op, o._array, inputs)
    for o, r in zip(outs, results, strict=True):
        if o._array.shape != r._array.shape:
            if o._array.size:
                import warnings

                warnings.warn(
                    f"An output with one or more elements was resized since it had shape "
                    f"{list(o._array.shape)}, which does not match the required output shape "
                    f"{list(r._array.shape)}. This behavior is deprecated; resize the output to zero "
                    "elements first.",
                    UserWarning,
                    stacklevel=4,
                )
            give_shape(o, r._array.shape)
        copy(o._array, r._array)
        bump(o)
    return (
        out
        if isinstance(out, Tensor) or not hasattr(type(result), "_fields")
        else type(result)(outs)
    )


def copy(a: Any, b: Any) -> None:
    """`a[...] = b`, converted; `b` is a number or an array of the same device."""
    space = devices.common((a, b)) if devices.is_array(b) else devices.of(a)
    with np.errstate(all="ignore"):
        space.copyto(a, b, casting="unsafe")


def give_shape(t: Tensor, shape: tuple, strides: tuple | None = None) -> None:
    """Give `t` another shape on its memory; new memory, beginning with the old, when that is too small."""
    a = t._array
    if a.shape == shape and strides is None:
        return
    strides = geometry.contiguous_strides(shape) if strides is None else strides
    if a.__class__ is meta.Meta:
        t._array = meta.empty_strided(shape, a.dtype, strides)
        return
    at = storage.offset(t)
    n = 0 if 0 in shape else 1 + sum((k - 1) * s for k, s in zip(shape, strides, strict=True))
    memory = storage.memory(a)
    if (at + n) * a.itemsize > memory.size:
        memory = grown(memory, (at + n) * a.itemsize)
    t._array = _array_for(t.__class__, storage.strided(memory, a.dtype, at, shape, strides))


def grown(memory: Any, n: int) -> Any:
    """`n` bytes that begin with `memory`."""
    grown = devices.of(memory).empty(n, np.uint8)
    grown[: memory.size] = memory
    return grown


# Operators that read at places other than those they write: `out=` may not be an input of theirs.
APART = {"cat", "stack", "gather", "take", "index_select", "masked_select", "scatter", "kthvalue"}
SAME_DTYPE = {"gather", "aminmax", "complex", "polar"}  # operators that do not convert into `out=`


def check_apart(op: Op, out: Any, inputs: Sequence) -> None:
    """RuntimeError when elements of `out=` share memory with each other, or with an input."""
    if 0 in out.strides and geometry.has_internal_overlap(out.shape, out.strides):
        raise RuntimeError(
            f"{op.name}(): unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )
    for t in inputs:
        for x in t if t.__class__ in (list, tuple) else (t,):
            if not isinstance(x, Tensor):
                continue
            a = x._array
            same = a.shape == out.shape and a.strides == out.strides
            space = devices.of(out)
            if devices.of(a) is not space:
                continue
            if same and op.elementwise and space.address(a) == space.address(out):
                continue
            if a is out or a.flags.forc and out.flags.forc and space.shares_memory(a, out):
                raise RuntimeError(
                    f"{op.name}(): unsupported operation: some elements of the input tensor and the "
                    "written-to tensor refer to a single memory location. Please clone() the tensor "
                    "before performing the operation."
                )


def bump(t: Tensor) -> None:
    """Count one write to the memory of `t`."""
    if t._counter is not INFERENCE:
        version_of(t).n += 1
