"""Calls below autograd as `__torch_dispatch__` sees them: operators under PyTorch's inner names.

Note [Below autograd]
    While a `TorchDispatchMode` is on, or where an argument is a tensor whose class has a `__torch_dispatch__`, a call
    is carried out by `run` or `run_inplace` in place of the general way's functions. An operator that PyTorch
    writes in others (`aten_forms.FORMS`) is called as these. Any other is recorded for backward as always, but what
    computes it is the handler: it gets the operator as an `OpOverload`, and calls that, which is an ordinary call
    with one mode less and without gradients.

    Vmap and forward mode stand above: a call with their arrays goes on as usual, and the calls inside come here.

    Plain functions that make tensors (`zeros`) or write (`zero_`, `copy_`) are no operators and stand in primitives.py;
    the kernel of a gradient rule is one call, too (`gradient`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._backends import devices
from rushlight.autograd.graph import new, version_of
from rushlight.autograd.state import count_mode, thread
from rushlight.autograd.views import MULTI, View, edge_of
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import aten_calls, aten_forms, general, inplace, primitives, results
from rushlight.dispatch.handlers import ask, asked, carried, made, own_operators, tensors_in
from rushlight.dispatch.interpreters import ARRAY_INTERPRETERS, INTERPRETERS
from rushlight.dispatch.older_orders import ordered
from rushlight.dispatch.overrides import NOTHING
from rushlight.dispatch.transforms import Lifted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight.dispatch.interpreters import Call
    from rushlight.dispatch.registry import Op


def lifted(values: Iterable) -> bool:
    """Whether a call belongs to a transform first."""
    return any(isinstance(t._array, Lifted) for t in tensors_in(values))


def interpret(call: Call) -> Any:
    """Let a call that concerns a `__torch_dispatch__` be carried out below."""
    if call.kind != "composite" and asked((*call.values, call.out)):
        call.run = run_inplace if call.kind == "inplace" else run
    return NOTHING


ARRAY_INTERPRETERS.append((made, interpret))


def count_dispatch_mode(change: int) -> None:
    """Count a mode of any thread that goes on or off."""
    INTERPRETERS.append(interpret) if change > 0 else INTERPRETERS.remove(interpret)
    count_mode(change)


# -- calls of operators ----------------------------------------------------------------------------


def run(op: Op, values: list, out: Any) -> Any:
    """`general.execute`, with a handler for a kernel."""
    if lifted((*values, out)):
        return general.execute(op, values, out)
    form = None if own_operators(op) else aten_forms.FORMS.get(op.path)
    if form is not None:
        result = form(*values)
        if result is not NotImplemented:
            if out is None:
                return result
            return results.write_out(op, out, result, [*tensors_in(values)])
    if out is not None:
        return run_out(op, values, out)
    return general.execute(op, values, None, compute)


def compute(op: Op, named: dict, keep: bool) -> tuple[list, dict]:
    """The results of a call, by a handler, and `named` with the intermediates."""
    func, args, kwargs = aten_calls.overload_of(op, named)
    found = aten_calls.own_result(op, ask(func, args, kwargs))
    several = op.outputs is not None or bool(op.intermediates)
    tensors = list(found) if several and isinstance(found, (tuple, list)) else [found]
    for k, t in enumerate(tensors):
        tensors[k] = as_result(t, named)
    if op.intermediates:
        n = len(tensors) - len(op.intermediates)
        named = named | dict(zip(op.intermediates, tensors[n:], strict=True))
        tensors = tensors[:n]
    if op.view:
        for nr, t in enumerate(tensors):
            link(op, named, nr, t)
    return tensors, named


def as_result(t: Any, named: dict) -> Any:
    """What a handler gave, if it is a tensor; one that was an argument as another object."""
    if t is None:
        return None
    if not isinstance(t, Tensor):
        raise RuntimeError(f"Unable to cast ({type(t)!r}) to Tensor")
    if any(t is given for given in tensors_in(named.values())):
        same = new(t.__class__)
        same._array, same._edge, same._counter = t._array, None, t._counter or version_of(t)
        same.__dict__.update(t.__dict__)
        return same
    return t


def link(op: Op, named: dict, nr: int, t: Any) -> None:
    """Make a view that a handler returned a view of the argument."""
    source = named[op.inputs[0]]
    several = op.outputs is not None
    if t is None:
        return
    if source._counter is INFERENCE:
        t._counter = INFERENCE
        return
    args = tuple(named[s] for s in op.statics)
    make, args = (results.nth, (op, nr, *args)) if several else (op, args)
    t._edge = View(source, make, args, None, MULTI if several and thread.grad else None)
    t._counter = source._counter


def run_out(op: Op, values: list, out: Any) -> Any:
    """A call that writes its result into `out=`."""
    named = general.named_values(op, values)
    outs = out if isinstance(out, (tuple, list)) else (out,)
    if thread.grad and any(t.requires_grad for t in tensors_in((*values, out))):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    func, args, kwargs = aten_calls.overload_of(op, named)
    counts = [t._version for t in outs]
    ask(func.overloadpacket.out, args, kwargs | {"out": out})
    for t, count in zip(outs, counts, strict=True):
        if t._version == count:
            results.bump(t)
    return out


def call_kept(op: Op, args: tuple, kwargs: dict) -> tuple:
    """The results of an operator, and after them its intermediates as tensors."""
    values, _ = general.bind(op, args, kwargs)
    kept: dict = {}

    def keeping(op: Op, named: dict, keep: bool) -> tuple[list, dict]:
        kernel = compute if asked(values) and not lifted(values) else general.computed
        wrapped, named = kernel(op, named, True)
        for n in op.intermediates:
            a = named[n]
            kept[n] = general._wrap(a) if devices.is_array(a) else a
        return wrapped, named | kept

    result = general.execute(op, values, None, keeping)
    several = result if isinstance(result, tuple) else (result,)
    return (*several, *[kept[n] for n in op.intermediates])


# -- writes ----------------------------------------------------------------------------------------


def run_inplace(op: Op, values: list, out: None = None) -> Tensor:
    """`inplace.execute_inplace`, with a handler for what writes."""
    values = ordered(op, values)
    if lifted(values):
        return inplace.execute_inplace(op, values)
    named = dict(zip(op.params, values, strict=True))
    if op.variant is not None and (other := op.taken_over(named)) is not None:
        return run_inplace(other, [named[p] for p in other.params])
    if op.write is not None:
        return inplace.execute_write(op, named)
    t = values[0]
    recording = thread.grad and any(edge_of(x) is not None for x in tensors_in(values))
    inplace.check_inplace(t, op.public_function.__name__ + "_", recording)
    record = inplace.before_recorded_write(op, named, t) if recording else None
    write(op, named)
    if record is not None:
        record()
    return t


def write(op: Op, named: dict) -> None:
    """Let a handler write what an operator computes into its first argument."""
    func, args, kwargs = aten_calls.overload_of(op, named, inplace=True)
    primitives.count_write(args[0], func, args, kwargs)


# -- kernels of gradient rules ---------------------------------------------------------------------


def gradient(op: Op, rule: Any, env: dict) -> Any:
    """What the kernel of a rule gives, by a handler; NotImplemented where the rule runs instead."""
    func, args = aten_calls.gradient_overload(op, rule, env)
    return ask(func, args, {})


carried.update(
    write=write, gradient=gradient, make=primitives.call, overwrite=primitives.write, call_kept=call_kept
)  # fmt: skip
