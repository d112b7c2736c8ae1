"""In-place forms: the same forward, written into the memory of the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm, meta, sparse
from rushlight.autograd.graph import new
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import View, check_writable, edge_of, hides_history, rebase
from rushlight.core import dtypes
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import overrides
from rushlight.dispatch.general import (
    around,
    bind,
    forward,
    not_a_tensor,
    on_one_device,
    ordered,
    some_sparse,
)
from rushlight.dispatch.record import make_node
from rushlight.dispatch.results import bump, copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op


def inplace_function(op: Op) -> Callable:
    """The method `name_`."""

    direct = op.direct and len(op.inputs) == 1

    def function(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if direct and not kwargs and llvm.active and written_directly(op, self, args):
            return self
        values, _ = bind(op, (self, *args), kwargs)
        return inplace_composite(op, values) if op.composite else inplace(op, values)

    function.__name__ = function.__qualname__ = op.name + "_"
    function.__doc__ = f"In-place version of `{op.name}`."
    function.op = op
    return function


def inplace_composite(op: Op, values: list) -> Tensor:
    """Compute from the former values, then copy into the first input."""
    t = values[0]
    function = getattr(Tensor, op.name + "_", op.function)
    if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
        return handled
    if thread.grad and any(isinstance(v, Tensor) and v._edge is not None for v in values):
        check_inplace(t, op.name + "_", True)
        before = new(Tensor)  # what is saved for backward must not see the write
        before._array, before._edge, before._counter = t._array.copy(), edge_of(t), None
        values = [before, *values[1:]]
    n = op.n_positional
    r = op.declared(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    if not dtypes.can_cast(r.dtype, t.dtype):
        raise RuntimeError(
            f"result type {r.dtype.scalar_name} can't be cast to the desired output type "
            f"{t.dtype.scalar_name}"
        )
    if r._array.shape != t._array.shape:
        raise RuntimeError(
            f"[{op.name}_] output with shape {list(t.shape)} doesn't match the broadcast shape "
            f"{list(r.shape)}"
        )
    return t.copy_(r)


def inplace(op: Op, values: list) -> Tensor:
    """`t.name_(...)`: the forward, written into the memory of the first input."""
    t = values[0]
    label = op.name + "_"
    if not isinstance(t, Tensor):
        raise not_a_tensor(op, op.inputs[0], t)
    if op.name in UPDATES and llvm.active and updated(*UPDATES[op.name], values):
        return t
    function = getattr(Tensor, label, op.function)
    if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
        return handled
    if active.modes:
        for enter in around:
            if (run_it := enter(op, values, t)) is not None:
                return run_it()
    return execute_inplace(op, values)


def execute_inplace(op: Op, values: list) -> Tensor:
    values = ordered(op, values)
    t, label = values[0], op.name + "_"
    if sparse.made and some_sparse(values):
        from rushlight.ops.sparse import calls as sparse_calls

        return sparse_calls.inplace(op, values)
    named = dict(zip(op.params, values, strict=True))
    if op.variant is not None and (other := op.taken_over(named)) is not None:
        return execute_inplace(other, [named[p] for p in other.params])
    tensors = on_one_device(op, named)
    recording = thread.grad and any(x is not None and edge_of(x) is not None for x in tensors)
    check_inplace(t, label, recording)
    a = t._array
    if op.direct and goes_into(op, named, tensors, a, recording):
        r = forward(op, named, Into(a))
    else:
        r = forward(op, named)
    if op.elementwise:
        d, mine = dtypes.OF[r.dtype], dtypes.OF[a.dtype]
        if not dtypes.can_cast(d, mine):
            raise RuntimeError(
                f"result type {d.scalar_name} can't be cast to the desired output type "
                f"{mine.scalar_name}"
            )
    if (shape := getattr(r, "shape", ())) != a.shape:
        raise RuntimeError(
            f"[{label}] output with shape {list(a.shape)} doesn't match the broadcast shape "
            f"{list(shape)}"
        )
    old = None
    if recording and op.differentiable:
        first = op.inputs[0]
        others = [i for i in op.inputs if isinstance(named[i], Tensor)]
        if first in op.saved_names(tuple(i for i in others if op.rule_all or i in op.rules)):
            old = new(Tensor)
            old._array, old._edge, old._counter = a.copy(), edge_of(t), None
        elif edge_of(t) is not None:
            old = t
    write(t, r)
    if recording:
        if op.differentiable:
            before = new(Tensor) if old is None or old is t else old
            if before is not old:
                before._array, before._edge, before._counter = a, edge_before(t), None
            named[op.inputs[0]] = before
            node = make_node(op, named, [t], inplace=True)
        else:
            node = None
        rebase(t, node)
    return t


# What steps of optimizers and averages are made of: the kernel that takes `out`, and the sign of the
# number that comes last.
UPDATES = {
    "add": ("add_scaled", 1),
    "sub": ("add_scaled", -1),
    "lerp": ("lerp", 1),
    "addcmul": ("addcmul", 1),
    "addcdiv": ("addcdiv", 1),
}


def updated(kernel: str, sign: int, values: list) -> bool:
    """Whether `t.name_(*tensors, number)`, of float tensors of one shape where nothing is recorded and
    in no mode, was carried out by its kernel; if not, nothing was done."""
    *tensors, number = values
    if active.modes or (number.__class__ is not float and number.__class__ is not int):
        return False
    t = values[0]
    arrays = [getattr(x, "_array", None) for x in tensors]
    a: Any = arrays[0]
    if a.__class__ is not np.ndarray or a.dtype not in FULL:
        return False
    for b in arrays[1:]:
        if b.__class__ is not np.ndarray or b.dtype is not a.dtype or b.shape != a.shape:
            return False
    if t._counter is INFERENCE or 0 in a.strides:
        return False
    if thread.grad and any(x._edge is not None for x in tensors):
        return False
    try:
        getattr(xp, kernel)(*arrays, sign * number, out=a)
    except RuntimeWarning:  # an overflow of the reference's, which writes when all is computed
        return False
    bump(t)
    return True


def written_directly(op: Op, t: Tensor, args: tuple) -> bool:
    """Whether `t.name_(*numbers)`, of a tensor without history and in no mode, was carried out by the
    kernel of an operator of one input; if not, nothing was done."""
    if active.modes or t.__class__ is not Tensor or t._edge is not None:
        return False
    a = t._array
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or t._counter is INFERENCE:
        return False
    if 0 in a.strides or not all(v.__class__ is float or v.__class__ is int for v in args):
        return False
    if len(args) != op.n_positional - 1:
        return False
    if op.variant is not None and op.taken_over(dict(zip(op.params, (t, *args), strict=True))):
        return False
    space = Into(a)
    try:
        if op.has_body:
            op.declared(space, a, *args)
        else:
            getattr(space, op.kernel)(a)
    except RuntimeWarning:  # an overflow of the reference's, which writes when all is computed
        return False
    bump(t)
    return True


def plainly(t: Any, *others: Any) -> bool:
    """Whether to write to `t` what is read from `others` concerns nobody else: plain tensors without
    history and in no mode, whose memory is not that of `t`."""
    if t.__class__ is not Tensor or t._edge is not None or active.modes:
        return False
    a = t._array
    if a.__class__ is not np.ndarray or t._counter is INFERENCE or 0 in a.strides:
        return False
    for o in others:
        if o.__class__ is not Tensor or o is t:
            return False
        e = o._edge
        if e is not None and (e.__class__ is not View or edge_of(o) is not None):
            return False
        b = o._array
        if b.__class__ is not np.ndarray:
            return False
        if (a.base is not None or b.base is not None) and np.may_share_memory(a, b):
            return False
    return True


class Into:
    """The back end whose one kernel that is called writes over an array."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        kernel, array = getattr(xp, name), self.array
        return lambda *args: kernel(*args, out=array)


def goes_into(op: Op, named: dict, tensors: list, a: Any, recording: bool) -> bool:
    """Whether the kernel may write over the first input: all inputs have its dtype and its shape (or
    are numbers), so that nothing can go wrong half-way, and no rule reads what it was."""
    if not llvm.active or a.__class__ is not np.ndarray or a.dtype not in FLOATING:
        return False
    for t in tensors:
        if t is None:
            continue
        b = t._array
        if b.__class__ is not np.ndarray or b.dtype is not a.dtype:
            return False
        if b.shape != a.shape and b.ndim:
            return False
    if any(v.__class__ is complex for v in named.values()):
        return False
    return not (recording and op.differentiable and op.inputs[0] in op.saved_names())


def edge_before(t: Tensor) -> Any:
    """The edge of `t` as it was before the write that was just counted."""
    e = t._edge
    return e.node if e.__class__ is View else e


# Writes that PyTorch allows where elements share memory: all write the same, or the last one wins.
IDEMPOTENT = {"fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "masked_scatter_"}


def refused(a: object, label: str) -> bool:
    """False; a sparse array is refused (its strides are all 0)."""
    if isinstance(a, sparse.Sparse):
        sparse.refuse(label, a.backend)
    return False


def check_inplace(t: Tensor, label: str, recording: bool) -> None:
    """Raise when writing to `t` is forbidden; nothing has been changed yet."""
    a = t._array
    if t._counter is INFERENCE:
        if not thread.inference and recording:
            raise RuntimeError(
                f"[{label}] Inplace update to inference tensor outside InferenceMode is not allowed. "
                "You can make a clone to get a normal tensor before doing inplace update."
            )
    elif recording or hides_history(t):
        check_writable(t, label)
    if (
        0 in a.strides
        and (a.__class__ is np.ndarray or not refused(a, label))
        and a.size > 1
        and label not in IDEMPOTENT
        and any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))
    ):
        raise RuntimeError(
            f"[{label}] unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )


def write(t: Tensor, r: Any) -> None:
    """Put an array into the memory of `t` and count the write."""
    if t._array.__class__ is not meta.Meta and r is not t._array:
        copy(t._array, r)
    bump(t)
