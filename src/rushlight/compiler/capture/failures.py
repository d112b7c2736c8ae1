"""Operators that raise for some elements, in a run that did something before.

Note [Failures]
    A run that raises before it did anything is made again by the function as it is written. Graphs do what they do in
    another order than the function, and changes of Python's objects wait until something can see them. So an operator that
    raises for some elements (an index that is out of range) begins another graph behind the writes to tensors from outside:
    they are done when it raises. Where changes wait, or numbers were drawn, the graph is one whose run is taken back
    (rollback.py), and the function runs as it is written: no write to a tensor from outside joins such a graph, which would
    have to be copied for it. Where too much was written, or something was called, the changes do not wait any longer.
"""

from __future__ import annotations

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
    "index index_put gather scatter scatter_add scatter_reduce index_select index_add index_copy index_fill index_reduce "
    "take put embedding embedding_bag nll_loss_forward nll_loss2d_forward nn_functional__nll_loss "
    "nn_functional__cross_entropy_loss nn_functional__multi_margin_loss nn_functional__multilabel_margin_loss multinomial "
    "poisson binomial normal ctc_loss binary_cross_entropy masked_scatter bincount histc segment_reduce "
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


def before_operator(r: Recorder, func: Any, args: tuple) -> None:
    """As `before_failure`, where an operator is recorded next that may raise."""
    if may_fail(func, args):
        before_failure(r)


def before_failure(r: Recorder, step: Step | None = None) -> None:
    """See that what was done so far is done, or can be taken back, where what is recorded next raises: an operator, or a step
    of its own."""
    if r.capture.differentiates:
        return
    written, drawn = bool(r.segment.written), bool(r.segment.drawn)
    if r.changes or drawn and step is None and not written:
        if r.changes:
            r.wait_for_cleared()
        if is_taken_back(r):
            if step is None:
                r.segment.handled = r.segment.fails = True
            else:
                step.handled = True
            return
    if r.changes:
        r.close()
    elif step is None and (written or drawn):
        r.end_graph()


def is_taken_back(r: Recorder) -> bool:
    """Whether a run can take back all that was done so far, and that is not too much to copy."""
    done = all(s.kind in TAKEN_BACK for s in r.steps if isinstance(s, Step))
    return done and bytes_written(r, [*r.steps, r.segment]) <= MOST_BYTES


def bytes_written(r: Recorder, steps: list) -> int:
    """How many bytes the tensors from outside have that graphs write to, with those that may share their memory."""
    written = {w for s in steps for w in getattr(s, "written", ())}
    return sum(v.array.nbytes for v in {v for w in written for v in sharing(r, w)})


def sharing(r: Recorder, written: Value) -> list[Value]:
    """All tensors from outside that may share the memory of one."""
    counter = version_of(written.tensor)
    return [v for v in r.values if v.tensor is not None and version_of(v.tensor) is counter]
