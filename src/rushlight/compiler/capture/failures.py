"""Operators that raise for some elements, in a run that did something before.

Note [Failures]
    A run that raises before it did anything is made again by the function as it is written. Graphs do what they do in
    another order than the function, and changes of Python's objects wait until something can see them. An operator that
    raises for some elements (an index that is out of range) stays behind the random numbers and the writes to tensors from
    outside that came before it in its graph, and before those that come behind it (`Groups` in lowering/fusion.py). A graph
    has such operators behind its writes, or before them, so that the writes can be counted before it runs, or behind it.
    Where changes wait, or the function may handle what is raised, the graph is one whose run is taken back
    (rollback.py), and the function runs as it is written: no write to a tensor from outside joins such a graph, which would
    have to be copied for it. Where too much was written, or something was called, the changes do not wait any longer.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from rushlight.autograd.graph import version_of
from rushlight.compiler.capture.steps import TAKEN_BACK, Step
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import tensors_in
from rushlight.library import CustomOpDef

if TYPE_CHECKING:
    from rushlight.compiler.capture.recording import Recorder, Value

MOST_BYTES = 4 << 20  # of tensors that are copied before they are written
# Operators that look at elements before they compute: indices, probabilities, targets.
CHECKS = frozenset(
    "index index_put aten_index aten_index_put aten_index_fill_value aten_index_fill_tensor aten_scatter_value "
    "aten_scatter_src aten_scatter_combine gather scatter scatter_add scatter_reduce index_select index_add index_copy index_fill index_reduce "
    "take put embedding embedding_bag nll_loss_forward nll_loss2d_forward nn_functional__nll_loss "
    "nn_functional__cross_entropy_loss nn_functional__multi_margin_loss nn_functional__multilabel_margin_loss multinomial "
    "poisson binomial normal ctc_loss binary_cross_entropy nn_functional__binary_cross_entropy "
    "nn_functional__reduced_binary_cross_entropy masked_scatter bincount histc segment_reduce "
    "internal_max_unpool1d internal_max_unpool2d internal_max_unpool3d".split()
)
# Operators of integers that raise for some.
DIVIDES = frozenset("div div_rounded floor_divide remainder fmod pow".split())
FACTORS = ("linalg_eig", "linalg_svd", "linalg_qr", "linalg_lstsq", "internal_eig", "internal_svd")


def may_fail(func: Any, args: tuple) -> bool:
    """Whether an operator raises for some elements of its arguments."""
    name = func._opname.strip("_")
    if name in CHECKS or name.startswith(FACTORS):
        return True
    if name in DIVIDES and len(args) > 1:
        tensors = [*tensors_in(args)]
        return isinstance(args[1], Tensor) and not any(
            t.is_floating_point() or t.is_complex() for t in tensors
        )
    if name == "bernoulli":  # by probabilities, which are numbers in a dropout
        return any(isinstance(v, Tensor) for v in args[1:]) or not func._opname.endswith("_")
    return isinstance(func.overloadpacket._called, CustomOpDef)


def result_of(r: Recorder, func: Any, args: tuple, kwargs: dict) -> Any:
    """The result of an operator, before which all is as `before_failure` says."""
    if not r.on or not may_fail(func, args):
        return func(*args, **kwargs)
    target = args[0] if func._opname.endswith("_") and isinstance(args[0], Tensor) else None
    if r.segment.written and getattr(func.overloadpacket._called, "_mutates", ()):
        r.end_graph()
    before_failure(r, None, None if target is None else r.counters.get(id(version_of(target))))
    try:
        return func(*args, **kwargs)
    except Exception:
        if r.capture.is_handled():
            r.capture.stop("an exception that depends on the elements of tensors")
        raise


def before_failure(r: Recorder, step: Step | None = None, target: Value | None = None) -> None:
    """See that what was done so far is done, or can be taken back, where what is recorded next raises: an operator, which
    writes to a `target` from outside or not, or a step of its own."""
    if r.capture.differentiates:
        return
    handled = r.capture.is_handled()
    if r.changes or handled:
        r.wait_for_cleared()
        if is_taken_back(r, target):
            if step is None:
                r.segment.handled = r.segment.fails = True
            else:
                step.handled = True
            return
        if handled:
            r.capture.stop("an operator whose exception the function may handle, behind a call")
            return
        r.close()
    if step is None:
        if r.segment.written and (target is not None or r.segment.raises and not r.segment.fails):
            r.end_graph()
        r.segment.fails = r.segment.fails or bool(r.segment.written)
        r.segment.raises = True


def before_write(r: Recorder, written: list) -> None:
    """Begin another graph where one has no place for a write to a tensor from outside behind what may raise."""
    counters = [id(version_of(t)) for t, _ in written]
    if r.segment.fails and any(k in r.counters or k in r.apart for k in counters):
        r.end_graph()


def is_taken_back(r: Recorder, target: Value | None) -> bool:
    """Whether a run can take back all that was done so far and a write to a target, and that is not too much to copy."""
    done = all(s.kind in TAKEN_BACK for s in r.steps if isinstance(s, Step))
    more = {target} if target is not None else set()
    return done and bytes_written(r, [*r.steps, r.segment], more) <= MOST_BYTES


def bytes_written(r: Recorder, steps: list, more: Set[Value] = frozenset()) -> int:
    """How many bytes the tensors from outside have that graphs write to, and `more`, with those that may share their memory."""
    written = {*more, *[w for s in steps for w in getattr(s, "written", ())]}
    return sum(v.array.nbytes for v in {v for w in written for v in sharing(r, w)})


def sharing(r: Recorder, written: Value) -> list[Value]:
    """All tensors from outside that may share the memory of one."""
    counter = version_of(written.tensor)
    return [v for v in r.values if v.tensor is not None and version_of(v.tensor) is counter]
