"""In-place forms: the same forward, written into the memory of the first input."""

from __future__ import annotations

from functools import lru_cache
from operator import is_not
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import complex32, devices, math_bits, meta, sparse
from rushlight._backends import cpu as xp
from rushlight._backends.shell import Shell
from rushlight.autograd.graph import Since, new, version_of
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import View, check_writable, edge_of, hides_history, rebase
from rushlight.core import dtypes, settings
from rushlight.core.dtype_sets import C32, FLOATING
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import handlers, overrides, results
from rushlight.dispatch.general import (
    bind,
    computed_bits,
    forward,
    named_values,
    not_a_tensor,
    on_one_device,
    read_numbers,
)
from rushlight.dispatch.interpreters import intercept
from rushlight.dispatch.record import OpNode, make_node
from rushlight.dispatch.results import bump, copy, have_common_memory, refuse_overlap
from rushlight.dispatch.saved import Saved
from rushlight.dispatch.transforms import Lifted, recorded_inside, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op


def bound(op: Op, t: Tensor, args: tuple, kwargs: dict) -> Tensor:
    """`t.name_(*args, **kwargs)` on the general way."""
    values, _ = bind(op, (t, *args), kwargs)
    return inplace_composite(op, values) if op.composite else inplace(op, values)


def inplace_composite(op: Op, values: list) -> Tensor:
    """Compute from the former values, then copy into the first input."""
    t = values[0]
    function = getattr(Tensor, op.name + "_", op.function)
    if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
        return handled
    if thread.grad and any(isinstance(v, Tensor) and v._edge is not None for v in values):
        check_inplace(t, op.name + "_", True)
    if thread.grad and any(
        isinstance(v, Tensor) and (v._edge is not None or recorded_inside(v)) for v in values
    ):
        values = [
            copy_for_rule(t),
            *values[1:],
        ]  # what is saved for backward must not see the write
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
    label = op.public_function.__name__ + "_"
    if records_plainly(op, values) and written_after(op, values, label):
        return t
    function = getattr(Tensor, label, op.function)
    if not isinstance(t, Tensor):
        if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
            return handled
        raise not_a_tensor(op, op.inputs[0], t)
    plain = math_bits.made and not active.modes and function is not op.function
    if plain and not isinstance(t._array, math_bits.Marked):
        meant = [t, *map(computed_bits, values[1:])]
        if any(map(is_not, meant, values)):
            n = op.n_positional
            return function(*meant[:n], **dict(zip(op.params[n:], meant[n:], strict=True)))
    return intercept(function, op, values, None, "inplace", execute_inplace)


@lru_cache(None)
def copies(op: Op) -> bool:
    """Whether a recorded write of an operator may be computed out of place and copied: it reads and gives elements."""
    if not op.elementwise or not op.differentiable or op.lists or op.outputs is not None:
        return False
    if op.write is not None or op.recorded_in_place is not None:
        return False
    return (*op.params[: len(op.inputs)],) == (*op.inputs,)


def records_plainly(op: Op, values: list) -> bool:
    """Whether a write of an elementwise operator is recorded, and nobody else asks for it: plain arrays of one dtype, and
    others that have no gradient."""
    if active.modes or not thread.grad or not copies(op):
        return False
    t = values[0]
    if t.__class__ is not Tensor or t._array.__class__ is not np.ndarray:
        return False
    a = t._array
    if a.dtype not in FLOATING:
        return False
    wanted = edge_of(t) is not None
    for i, other in zip(op.inputs[1:], values[1:], strict=False):
        if other.__class__ is float or other.__class__ is int or other is None:
            continue
        if not isinstance(other, Tensor) or other._array.__class__ is not np.ndarray:
            return False
        if other.__class__ is not Tensor and (
            overrides.overriding(other) or handlers.asked([other])
        ):
            return False
        if other._array.dtype is not a.dtype and (op.rule_all or i in op.rules):
            return False
        if is_written_with(other, t) or xp.shares_memory(a, other._array):
            return False
        wanted = wanted or edge_of(other) is not None
    return wanted


@lru_cache(None)
def rule_reads(op: Op, given: tuple) -> tuple[bool, bool]:
    """Whether a rule reads the first input, and the result, where the inputs at the positions `given` are tensors."""
    inputs = tuple(i for k, i in enumerate(op.inputs) if k in given)
    read = op.saved_names(tuple(i for i in inputs if op.rule_all or i in op.rules))
    return op.inputs[0] in read, "result" in read


def written_after(op: Op, values: list, label: str) -> bool:
    """Compute a recorded write out of place, which records it, and copy the result; False where that is no such write."""
    t, n = values[0], op.n_positional
    check_inplace(t, label, True)
    inputs = values[: len(op.inputs)]
    first, result = rule_reads(
        op, tuple([k for k, v in enumerate(inputs) if isinstance(v, Tensor)])
    )
    if first:
        before = copy_for_rule(t)
    else:
        before = unwritten(t, edge_of(t))
    try:
        if n == len(values):
            r = op.function(before, *values[1:])
        else:
            r = op.function(before, *values[1:n], **dict(zip(op.params[n:], values[n:])))
    except (RuntimeError, RuntimeWarning, TypeError, ValueError, OverflowError):
        return False  # the general way says why
    node = r._edge
    if not isinstance(node, OpNode) or r._array.shape != t._array.shape:
        return False
    if r._array.dtype is not t._array.dtype or result and node.saved.__class__ is not tuple:
        return False
    xp.copyto(t._array, r._array)
    bump(t)
    if result:
        node.saved = tuple([t._array if s is r._array else s for s in node.saved])
        node.result_version = Since(version_of(t))
    rebase(t, node)
    return True


def copied_plainly(node_op: Callable, t: Tensor, source: Tensor, label: str) -> bool:
    """Write `source` into `t` and record it as `node_op`, whose forward gives the values to write; False, and nothing is
    done, where they are not plain arrays of one dtype in no mode."""
    a, b = t._array, source._array
    if (
        active.modes
        or not thread.grad
        or t.__class__ is not Tensor
        or source.__class__ is not Tensor
    ):
        return False
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray or a.dtype is not b.dtype:
        return False
    if (
        a.dtype not in FLOATING
        or (a.base is not None or b.base is not None)
        and have_common_memory(b, a)
    ):
        return False
    before = unwritten(t, edge_of(t))
    if before._edge is None and edge_of(source) is None:
        return False
    check_inplace(t, label, True)
    try:
        node = node_op(before, source)._edge
    except (RuntimeError, ValueError):
        return False  # the general way says why
    xp.copy_into(a, b)
    version_of(t).n += 1
    rebase(t, node)
    return True


def execute_inplace(op: Op, values: list, out: None = None) -> Tensor:
    """Carry out the in-place form of an operator by the general way."""
    named = named_values(op, values)
    t, label = named[op.params[0]], op.public_function.__name__ + "_"
    if op.variant is not None and (other := op.taken_over(named)) is not None:
        return execute_inplace(other, [named[p] for p in other.params])
    read_numbers(op, named)
    if op.write is not None:
        return execute_write(op, named)
    tensors = on_one_device(op, named)
    recording = thread.grad and any(x is not None and edge_of(x) is not None for x in tensors)
    check_inplace(t, label, recording)
    a = t._array
    if op.elementwise:
        for i in op.inputs[1:]:  # `value`: a 0-d tensor that is read as a number
            x = named[i]
            if isinstance(x, Tensor) and i != "value" and x._array.__class__ is a.__class__:
                refuse_overlap(label, x._array, a, whole=False)
    r = forward(op, before_write(op, named, t) if isinstance(a, Lifted) else named)
    if not devices.is_array(r):  # NumPy's number, for its 0-d arrays
        r = xp.asarray(r)
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
    if not recording:
        write(t, r)
        return t
    record = before_recorded_write(op, named, t)
    write(t, r)
    record()
    return t


def before_recorded_write(op: Op, named: dict, t: Tensor) -> Callable[[], None]:
    """Keep what rules read of an operator that is about to write to `t`; what is given records the write."""
    op, read = op.recorded_in_place or op, dict(named)
    old = former(op, named, t)
    written = changed(op, read, t)
    return lambda: record_write(op, read, t, old, written)


def former(op: Op, named: dict, t: Tensor) -> Tensor | None:
    """What stands for `t` as it was before a write: a copy where a rule reads it."""
    if not op.differentiable:
        return None
    first = op.inputs[0]
    others = [i for i in op.inputs if isinstance(named[i], Tensor)]
    if first in op.saved_names(tuple(i for i in others if op.rule_all or i in op.rules)):
        return copy_for_rule(t)
    return t if edge_of(t) is not None else None


def is_written_with(x: Tensor, t: Tensor) -> bool:
    """Whether a write to `t` is one to `x`: `x.mul_(x)`, `x.mul_(x.view(-1))`."""
    return x is t or (x._counter is not None and x._counter is t._counter)


def before_write(op: Op, named: dict, t: Tensor) -> dict:
    """The arguments of a call that will be written to `t`, a lifted tensor: with copies where what is inside is
    recorded, so that a rule reads them as they are."""
    read = not op.elementwise or op.inputs[0] in op.saved_names()
    if not (thread.grad and op.differentiable and recorded_inside(t)):
        return named
    return {
        n: copy_for_rule(v)
        if isinstance(v, Tensor) and is_written_with(v, t) and (read or v is not t)
        else v
        for n, v in named.items()
    }


def copy_for_rule(t: Tensor) -> Tensor:
    """A copy, which a rule reads after a write to the tensor; of its class where that has a handler."""
    if handlers.asked((t,)):
        old = t.detach().clone()
    elif isinstance(t._array, Lifted):  # what is inside has a history of its own
        old = tensor(t._array).clone()
    else:
        old = tensor(t._array.copy())
    old._edge, old._counter = edge_of(t), None
    return old


def changed(op: Op, named: dict, t: Tensor) -> list[str]:
    """The inputs beside the first that a write to `t` changes; each is replaced in `named` by what has its history."""
    written: list[str] = []
    for i in op.inputs[1:] if op.differentiable else ():
        if isinstance(x := named[i], Tensor) and is_written_with(x, t):
            named[i] = copy_for_rule(x) if hidden(x) else with_edge(x)
            written.append(i)
    return written


def hidden(t: Tensor) -> bool:
    """Whether what a node saves of `t` has no version: hooks pack it, it is inside of another array, or a subclass
    says what it is."""
    if thread.saved_hooks or isinstance(t._array, Lifted):
        return True
    return t.__class__ is not Tensor and handlers.asked((t,))


def unwritten(t: Tensor, edge: Any) -> Tensor:
    """A tensor on the memory of `t` with this edge, which knows of no writes: what `t` was before one."""
    before = new(Tensor)
    before._array, before._edge, before._counter = t._array, edge, None
    return before


def with_edge(t: Tensor) -> Tensor:
    """The memory of `t` with the history that it has now, before a write."""
    old = new(Tensor)
    old._array, old._edge, old._counter = t._array, edge_of(t), version_of(t)
    return old


def record_write(op: Op, named: dict, t: Tensor, old: Tensor | None, written: list) -> None:
    """Record the write that was just counted; `old`: what `former` gave; `written`: the inputs that it changed, so
    that a backward which reads them is refused."""
    node = None
    if op.differentiable:
        before = unwritten(t, edge_before(t)) if old is None or old is t else old
        named[op.inputs[0]] = before
        node = make_node(op, named, [t])
        for i in written:
            if node is not None and node.saved and isinstance(saved := node.saved.get(i), Saved):
                saved.seen -= 1
    rebase(t, node)


def plainly(t: Any, *others: Any) -> bool:
    """Whether to write to `t` what is read from `others` concerns nobody else: plain tensors without
    history and in no mode, whose memory is not that of `t`."""
    if t.__class__ is not Tensor or active.modes:
        return False
    e = t._edge
    if e is not None and (
        e.__class__ is not View or e.base._edge is not None or e.node is not None
    ):
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
        if (a.base is not None or b.base is not None) and xp.shares_memory(a, b):
            return False
    return True


def execute_write(op: Op, named: dict) -> Tensor:
    """`t.name_(...)` of an operator that overwrites a part of its first input; `named`: the values of all
    parameters."""
    t = named[op.inputs[0]]
    a, label = t._array, op.public_function.__name__ + "_"
    arrays, asked = dict(named), handlers.asked(named.values())
    for i in op.inputs[1:]:
        if not isinstance(named[i], Tensor):
            raise not_a_tensor(op, i, named[i])
        if isinstance(a, Lifted) or asked and isinstance(named[i]._array, Shell):
            continue  # without memory: who is asked knows what it holds
        v = math_bits.resolved(on_device_of(a, named[i]._array))
        if v.size and devices.of(a).shares_memory(v, a):
            if i != "value":  # it is read as a number
                refuse_overlap(label, v, a)
            v = v.copy()
        arrays[i] = v
    recording = thread.grad and any(
        isinstance(v, Tensor) and edge_of(v) is not None for v in named.values()
    )
    check_inplace(t, label, recording)
    before = new(Tensor)  # what the rule of the first input reads is as it was
    before._array, before._counter = a, None
    if recording:
        before._edge = edge_of(t)
        if op.inputs[0] in op.saved_names():
            before = copy_for_rule(t)
    if asked and not isinstance(a, Lifted):
        handlers.carried["write"](op, named)
    elif isinstance(a, Lifted):
        copy(a, forward(op, named))
        bump(t)
    elif a.__class__ is not meta.Meta:
        given = [arrays[p] for p in op.params[1:]]
        n = op.n_positional - 1
        options = dict(zip(op.params[n + 1 :], given[n:]))
        write = lambda a: op.write(devices.of(a), a, *given[:n], **options)
        with np.errstate(all="ignore"):
            if a.dtype is C32:
                given = complex32.converted(given, complex32.plain)
                complex32.write(op, a, write)
            elif isinstance(a, math_bits.Marked):
                math_bits.write(a, write)
            else:
                write(a)
        bump(t)
    else:
        bump(t)
    if recording:
        rebase(t, make_node(op, named | {op.inputs[0]: before}, [t]))
    return t


def on_device_of(a: Any, v: Any) -> Any:
    """`v` on the device of `a`: values without dimensions may come from the CPU."""
    space = devices.of(a)
    if devices.of(v) is space or space is meta:
        return v
    if v.ndim:
        devices.common((a, v))  # raises
    return space.from_numpy(devices.of(v).to_numpy(v))


def edge_before(t: Tensor) -> Any:
    """The edge of `t` as it was before the write that was just counted."""
    e = t._edge
    return e.node if e.__class__ is View else e


# Writes that PyTorch allows where elements share memory: all write the same. Of the others it warns, with
# what the user may have written.
IDEMPOTENT = {"fill_", "zero_", "_threshold_"}
DEPRECATED = {
    "masked_fill_": "tensor[mask] = scalar",
    "index_fill_": "tensor[indices] = scalar",
    "index_put_": "tensor[indices] = tensor",
}


def refused(a: object, label: str) -> bool:
    """False; a sparse array is refused (its strides are all 0)."""
    if isinstance(a, sparse.Sparse):
        sparse.refuse(label, a.backend)
    return False


def check_inplace(t: Tensor, label: str, recording: bool) -> None:
    """Raise when writing to `t` is forbidden; nothing has been changed yet."""
    a = t._array
    if active.modes and thread.mutation is not None:
        thread.mutation.before_write(t)
    if t._counter is INFERENCE:
        results.refuse_inference_write()
    elif recording or hides_history(t):
        check_writable(t, label)
    if (
        0 in a.strides
        and (a.__class__ is np.ndarray or not refused(a, label))
        and a.size > 1
        and label not in IDEMPOTENT
        and any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))
    ):
        label = label.replace("_tensor", "")
        if label in DEPRECATED:
            settings.warn(
                f"Use of {label} on expanded tensors is deprecated. Please clone() the tensor before performing "
                f"this operation. This also applies to advanced indexing e.g. {DEPRECATED[label]}"
            )
            return
        raise RuntimeError(
            f"[{label}] unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )


def write(t: Tensor, r: Any) -> None:
    """Put an array into the memory of `t` and count the write."""
    if t._array.__class__ is not meta.Meta and r is not t._array:
        copy(t._array, r)
    bump(t)
