"""The backward pass: every node of a graph runs once, after all nodes that use its outputs.

Note [The backward pass]
    First the engine counts, for each node, the edges that lead to it. Then nodes run from the roots on. A node gives one
    gradient (or None) to each of its edges and counts the edge down; a node whose count is zero is ready to run. A node that
    got None only gives None to its own edges, or the nodes behind it would wait for ever. Nothing recurses, so that a graph
    may be deep. The tables are local to the call, so that a backward may start another one, and threads meet only at the
    leaves, where a lock is held.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight._backends import devices, llvm, sparse
from rushlight._backends.math_bits import Marked, resolved
from rushlight._codegen.runtime import abi
from rushlight.autograd import graph
from rushlight.autograd.graph import AccumulateGrad, Hooks, Output, count, new, prune, version_of
from rushlight.autograd.hook_runs import in_turn, replaced, replaced_all
from rushlight.autograd.state import AT_END, active, is_unreached, thread
from rushlight.autograd.views import View, edge_of
from rushlight.core import geometry, settings
from rushlight.core.dtypes import contiguous_format
from rushlight.core.tensor import Tensor

grad_lock = threading.RLock()
WORK = 10_000  # elements that a backward counts as, see `llvm.work`


def run(
    roots: list, grads: list, keep: bool, create_graph: bool, captures: dict | None = None,
    accumulate_into: Collection = (),
) -> None:  # fmt: skip
    """Run a backward pass from the edges `roots`, whose gradients are `grads`, to the leaves.

    `captures`: {node: None}. Only nodes that lead to these run, the gradients that arrive there become the values (a list of
    them for a node with several outputs), and of those that lead to no other only the ones in `accumulate_into` run.
    """
    if not llvm.active:
        llvm.work(WORK)
    waits = count(roots)
    pruned = None
    for e in waits if captures is not None else ():
        if not e._edges and e not in captures:
            pruned = prune(roots, captures)
            waits = count(roots, pruned)
            break
    flowing: dict[Any, Any] = {}
    for e, g in zip(roots, grads, strict=True):
        flowing[e] = g if e not in flowing or g is None else plus(flowing[e], g)
    ready = [e for e in flowing if not waits[e] and (pruned is None or e in pruned)]
    grads.clear()
    g = gx = None

    anomaly = active.modes and thread.anomaly
    special = active.modes and (anomaly or thread.node_watch is not None)
    at_leaves = captures if captures is not None and not accumulate_into else ()
    add = plus if sparse.made else vars(Tensor)["__add__"]  # not printed before it is called
    leaves: list = []
    watched: list = []
    recording, thread.grad, outer, thread.task = thread.grad, create_graph, thread.task, waits
    try:
        while ready or watched:
            node = ready.pop() if ready else None
            if node is None or node.hooks is not None:
                if (node := in_turn(node, ready, watched)) is None:
                    continue
            g = flowing.pop(node, None)
            if node.__class__ is Output:  # its gradient goes into the list of its node
                target, nr = node.node, node.nr
                if g is not None:
                    if (into := flowing.get(target)) is None:
                        into = flowing[target] = [None] * target._n_outputs
                    into[nr] = g if into[nr] is None else plus(into[nr], g)
                else:
                    is_unreached(node, (target,))  # if it is, what is behind it is so, too
                left = waits[target] = waits[target] - 1
                if not left:
                    ready.append(target)
                continue
            edges = node._edges if pruned is None else pruned.get(node, ())
            hooks = node.hooks.__class__ is Hooks
            if g is None or special or hooks or captures and node in captures:
                gradients = run_special(
                    node, g, edges, keep, create_graph, anomaly, captures, accumulate_into
                )  # fmt: skip
            else:
                gradients = node.apply(g, edges, keep, create_graph)
            for e, gx in zip(edges, gradients):
                if e is None:
                    continue
                if gx is not None:
                    flowing[e] = add(flowing[e], gx) if e in flowing else gx
                left = waits[e] = waits[e] - 1
                if not left:
                    if e._edges:
                        ready.append(e)
                    elif e in at_leaves and e.hooks is None:
                        at_leaves[e] = flowing.pop(e, None)
                    else:
                        leaves.append(e)
            if leaves:  # they run next: reference counts tell them whether their gradient is shared
                gx = gradients = None
                ready += leaves
                leaves.clear()
        for function in waits.get(AT_END, ()):  # type: ignore[attr-defined]  # functions, not a count; they may add others
            function()
    finally:
        thread.grad, thread.task = recording, outer


def plus(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two gradients. If one is sparse, it is added to the dense one."""
    if isinstance(a._array, sparse.Sparse) and not isinstance(b._array, sparse.Sparse):
        return b + a
    return a + b


def run_special(
    node: Any, g: Any, edges: tuple, keep: bool, record: bool, anomaly: bool, captures: dict | None,
    accumulate_into: Collection,
) -> Any:  # fmt: skip
    """Run one node that has hooks or no gradient, or while captures or modes are on."""
    if g is None and is_unreached(node, edges):
        return (None,) * len(edges)
    many = node._n_outputs > 1
    gs = g if g.__class__ is list else [g]
    if many and g is None:
        gs = [None] * node._n_outputs
    hooks = node.hooks
    if captures is not None and node in captures:  # without its hooks, where it runs for another
        captures[node] = gs[:] if many else gs[0]
    if hooks is not None:
        for nr, by_id in hooks.tensor_pre.items():
            if gs[nr] is None and node._joins:
                continue  # the node of this output would not run
            for hook in tuple(by_id.values()):
                gs[nr] = replaced(gs[nr], hook(gs[nr]), hook)
        for nr, kept in hooks.retain.items():
            if (t := kept()) is not None and gs[nr] is not None:
                if (old := getattr(t, "_grad", None)) is not None:
                    t._grad = old + gs[nr]
                elif isinstance(gs[nr]._array, sparse.Sparse):
                    t._grad = gs[nr].clone()
                else:
                    t._grad = gs[nr].clone(memory_format=contiguous_format)
    if captures is not None:
        last = all(e is None for e in edges)
        if node in captures and (last or node in accumulate_into):
            captures[node] = gs if many else gs[0]
        if last and node not in accumulate_into:
            return (None,) * len(edges)  # it is asked for its gradient only, and does not run
    if hooks is not None:
        for hook in tuple(hooks.pre.values()):
            gs = replaced_all(gs, hook(tuple(gs)), hook)
    arrived = gs[0] is not None
    if node.__class__ is AccumulateGrad:
        if arrived:
            g = None  # as in `run`, the call has the only reference
            accumulate(node, gs[0] if hooks is not None and hooks.post else gs.pop())
        gradients: tuple = ()
    elif all(x is None for x in gs) or all(e is None for e in edges):
        gradients = (None,) * len(edges)
    else:
        g = gs if many else gs[0]
        run = type(node).apply
        if anomaly:
            from rushlight.autograd import anomaly_mode

            run = anomaly_mode.apply
        if thread.node_watch is None:
            gradients = run(node, g, edges, keep, record)
        else:
            gradients = thread.node_watch(node, lambda: run(node, g, edges, keep, record))
    if hooks is not None:
        if node.__class__ is AccumulateGrad and arrived:
            for hook in tuple(hooks.accumulated.values()):
                hook(node.variable)
        for hook in tuple(hooks.post.values()):
            shown = graph.shown_gradients(node, gradients)
            replacing = replaced_all(shown, hook(tuple(shown), tuple(gs)), hook)
            if replacing is not shown:
                gradients = graph.all_gradients_of(node, replacing, gradients)
        if node.__class__ is AccumulateGrad and arrived:
            for reduce in node.reduced:
                reduce(node.variable)
    return gradients


# -- leaves ----------------------------------------------------------------------------------------


def accumulate(
    node: AccumulateGrad, g: Tensor, edges: tuple = (), keep: bool = False, record: bool = False
) -> tuple:
    """`AccumulateGrad.apply`: add `g` to the gradient of the leaf, with the strides of the leaf."""
    # `_calibrate` counted the references in a call like this one.
    mine = getrefcount(g) <= ALONE and (abi.only_tensor_holds(g, *HOLDERS) or holds_sparse(g))
    if (t := node.leaf()) is None:
        t = node.variable
    with grad_lock:
        if (old := getattr(t, "_grad", None)) is None:
            t._grad = first_gradient(t, g, mine)
        elif (active.modes or old.__class__ is not Tensor) and dispatched(old):
            old.add_(g) if not thread.grad else setattr(t, "_grad", plus(old, g))
        elif (
            thread.grad
            or old._array.__class__ is not g._array.__class__
            or isinstance(g._array, sparse.Sparse)
            or (old.__class__ is not Tensor and hasattr(old, "_as_gradient"))
        ):
            t._grad = accumulated(old, g)
        else:
            a = old._array
            try:
                devices.of(a).add(a, g._array, out=a, casting="unsafe")
            except RuntimeWarning:  # warnings are errors: the sum is written all the same
                pass
            version_of(old).n += 1
    if node.reduced and node.hooks is None:  # or `run_special` calls them after the hooks
        for reduce in node.reduced:
            reduce(t)
    return ()


AccumulateGrad.apply = accumulate  # type: ignore[assignment]


def dispatched(t: Tensor) -> bool:
    """Whether calls with `t` are handed to a `__torch_dispatch__`."""
    if t.__class__ is Tensor:
        return (
            active.modes > 0
            and thread.dispatch_modes != ()
            and not hasattr(t._array.__class__, "level")
        )
    return type(t).__torch_dispatch__.__func__ is not Tensor.__torch_dispatch__.__func__


def holds_sparse(g: Tensor) -> bool:
    """Whether `g` is sparse, nothing else has its array, and its parts have no gaps."""
    a = g._array
    if not isinstance(a, sparse.Sparse) or getrefcount(a) > HOLDERS[0]:
        return False
    return all(p.flags.c_contiguous for p in a.__reduce__()[1] if isinstance(p, np.ndarray))


def accumulated(old: Tensor, g: Tensor) -> Tensor:
    """The sum of the gradient of a leaf and one more; in place if it is dense and nothing is recorded."""
    mixed = isinstance(g._array, sparse.Sparse)
    if mixed and not (thread.grad or old._edge is not None or g._edge is not None):
        if old._array.__class__ is np.ndarray:
            return old.add_(g)
        old._array = plus(old, g)._array
        return old
    return plus(old, g)


def laid_out_like(g: Tensor, t: Tensor) -> Tensor:
    """A copy of `g` with the strides of the leaf `t`, or row-major where those leave gaps."""
    want: tuple = t.stride()
    if not geometry.is_non_overlapping_and_dense(t.shape, want):
        want = geometry.contiguous_strides(t.shape)
    return g.detach().new_empty_strided(t.shape, want).copy_(g.detach())


def first_gradient(t: Tensor, g: Tensor, mine: bool) -> Tensor:
    """The first `.grad` of the leaf `t`: the array of `g` if `mine` and its strides are right, else a copy.

    `mine`: nothing else references the array.
    """
    a, like = g._array, t._array
    if isinstance(a, Marked) and not (thread.grad and g._edge is not None):
        a = resolved(a)
    if (active.modes or g.__class__ is not Tensor) and dispatched(g):
        if thread.grad and g._edge is not None:
            return g.clone()
        kept = isinstance(a, sparse.Sparse) or a.strides == like.strides
        return g.detach() if kept else laid_out_like(g, t)
    recorded = thread.grad and g._edge is not None
    if g.__class__ is not Tensor and hasattr(g, "_as_gradient"):  # a masked one
        return g.clone() if recorded else g._as_gradient()
    mine = mine and not recorded
    if isinstance(a, sparse.Sparse):
        return g.detach() if mine else g.clone()
    if a.dtype is like.dtype and a.strides == like.strides and mine:
        fits = True
    else:
        strides = [s // like.itemsize for s in like.strides]
        if geometry.is_non_overlapping_and_dense(like.shape, strides):
            want = like.strides
        else:
            want = tuple(s * a.itemsize for s in geometry.contiguous_strides(like.shape))
        fits = mine and all(
            s == w or n == 1 for s, w, n in zip(a.strides, want, a.shape, strict=True)
        )
    result = new(Tensor)
    result._edge = result._counter = None
    if fits:
        result._array = a
    else:
        xp = devices.of(a)
        steps = tuple([s // a.itemsize for s in want])
        result._array = xp.empty_strided(a.shape, a.dtype, steps)
        if recorded:
            return result.copy_(g)
        xp.copyto(result._array, a)
    return result


class _Probe:
    """A node that reads how many references there are to a gradient, as `accumulate` does."""

    _edges, hooks, _n_outputs, count = (), None, 1, 0

    def apply(self, g: Any, edges: tuple = (), keep: bool = False, record: bool = False) -> tuple:
        self.count = getrefcount(g)
        return ()


def _calibrate() -> int:
    """How many references `accumulate` reads of a gradient that only `run` references."""

    def count(others: list) -> int:
        probe = _Probe()
        run([probe], [object()] if not others else others[:], False, False)
        return probe.count

    alone, shared = count([]), count([object()])
    return abi.calibrated(lambda most: alone <= most, lambda most: shared <= most)


ALONE, HOLDERS = _calibrate(), abi.holders()


# -- entry points ----------------------------------------------------------------------------------


def starts(outputs: Sequence, grads: Sequence) -> tuple[list, list]:
    """The edges from which the gradients of `outputs` go, and these gradients: given, or 1 for a scalar."""
    edges, found = [], []
    for i, (out, g) in enumerate(zip(outputs, grads, strict=True)):
        edges.append(edge_from(out, i))
        if g.__class__ is Tensor is out.__class__:
            a, b = g._array, out._array
            if a.__class__ is b.__class__ and a.dtype is b.dtype and a.shape == b.shape:
                found.append(g)
                continue
        found.append(first_of(out) if g is None else checked_gradient(g, out, i))
    return edges, found


def first_of(out: Any) -> Tensor:
    """The gradient of an output that is given none: 1 for a scalar."""
    if not isinstance(out, Tensor):
        raise RuntimeError("a GradientEdge needs an explicit gradient")
    if out.numel() != 1:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs; this one has shape "
            f"{tuple(out.shape)}: reduce it (out.sum()) or pass gradient="
        )
    if not out.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
        )
    if dispatched(out):
        import rushlight

        return rushlight.ones_like(out.detach(), memory_format=rushlight.preserve_format)
    return one_like(out._array)


def one_like(a: Any) -> Tensor:
    """A tensor of ones, of the shape, dtype and device of an array."""
    one = new(Tensor)
    one._edge = one._counter = None
    one._array = devices.of(a).ones(a.shape, a.dtype)
    return one


def checked_gradient(g: Any, out: Any, i: int) -> Tensor:
    """The gradient `g` that a user gives for output number `i`, in its dtype."""
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if not isinstance(out, Tensor):
        return g
    if g.shape != out.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and "
            f"output[{i}] has a shape of {out.shape}."
        )
    if out.dtype.is_complex != g.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {g.dtype} and "
            f"output[{i}] has a dtype of {out.dtype}."
        )
    return g if g.dtype is out.dtype else g.to(out.dtype)


def as_tuple(x: Any) -> tuple:
    c = x.__class__
    if c is tuple or c is list:
        return tuple(x)
    return (x,) if isinstance(x, Tensor) or hasattr(x, "output_nr") else tuple(x)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` with respect to the leaves of their graph to `leaf.grad`.

    `grad_tensors`: for each tensor the gradient to start with, of its shape; may be left out for
    scalars. `retain_graph`: keep what the graph saved for another backward (default: as
    `create_graph`). `create_graph`: record the backward itself, for higher derivatives. `inputs`:
    accumulate into these tensors only.

    >>> import rushlight as torch
    >>> w = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> torch.autograd.backward((w * w).sum())
    >>> w.grad
    tensor([4., 6.])
    """
    if thread.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) are both given")
        grad_tensors = grad_variables
    tensors = as_tuple(tensors)
    given = (None,) * len(tensors) if grad_tensors is None else as_tuple(grad_tensors)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    if inputs is not None:
        inputs = as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    edges, grads = starts(tensors, given)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_of_graph()
    if inputs is None:
        return run(edges, grads, keep, create_graph)
    ends = [edge_from(t, None) for t in inputs]
    captures = {e.node if e.__class__ is Output else e: None for e in ends}
    run(edges, grads, keep, create_graph, captures, captures)
    for t, e in zip(inputs, ends):
        if e.__class__ is not AccumulateGrad and (g := captured(captures, e)) is not None:
            t._grad = g if (old := getattr(t, "_grad", None)) is None else old + g
    return None


def warn_of_graph() -> None:
    """Warn, once, that gradients that were recorded hold the graph they belong to."""
    settings.warn_once(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
        "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid "
        "this. If you have to use this function, make sure to reset the .grad fields of your parameters to None "
        "after use to break the cycle and avoid the leak."
    )


def backward_of_tensor(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`Tensor.backward`: a number on the CPU with no further options has a short way."""
    a = self._array
    if gradient is None and inputs is None and a.size == 1 and a.dtype.kind == "f":
        if self.__class__ is Tensor and not (active.modes or create_graph or thread.transforms):
            return run([edge_from(self, 0)], [one_like(a)], bool(retain_graph), False)
    return backward(
        self, None if gradient is None else (gradient,), retain_graph, create_graph, inputs=inputs
    )


backward_of_tensor.__name__ = "backward"
backward_of_tensor.__doc__ = Tensor.backward.__doc__
if (
    Tensor.backward.__module__ == Tensor.__module__
):  # a program may have put its own in its place before
    Tensor.backward = backward_of_tensor  # type: ignore[method-assign]


def edge_from(t: Any, i: int | None) -> Any:
    """The edge of a tensor or of a GradientEdge."""
    if not isinstance(t, Tensor):
        node, nr = t.node, t.output_nr
        return Output(node, nr) if node._n_outputs > 1 else node
    if (e := edge_of(t)) is None:
        if i is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        raise RuntimeError(
            f"element {i} of tensors does not require grad and does not have a grad_fn"
        )
    return e


def captured(captures: dict, e: Any) -> Any:
    """The gradient that arrived at the edge `e`."""
    if e.__class__ is not Output:
        return captures[e]
    return None if captures[e.node] is None else captures[e.node][e.nr]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` is left alone.

    `grad_outputs`: as `grad_tensors` of `backward`. `allow_unused`: give None for an input that the
    outputs do not depend on, instead of an error; `materialize_grads`: give zeros instead of None.
    `is_grads_batched`: the first dimension of every grad_output runs over several of them.

    >>> import rushlight as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> torch.autograd.grad(x**2, x)
    (tensor([6.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True"
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if not only_inputs:
        warnings.warn("only_inputs argument is deprecated and is ignored now", FutureWarning)
    outputs, inputs = as_tuple(outputs), as_tuple(inputs)
    given = (None,) * len(outputs) if grad_outputs is None else as_tuple(grad_outputs)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} outputs and {len(given)} gradients")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        import rushlight

        return rushlight.autograd.functional.grad_batched(
            outputs, inputs, given, keep, create_graph, allow_unused, materialize_grads
        )
    edges, grads = starts(outputs, given)
    ends = [edge_from(t, None) for t in inputs]
    captures = {e.node if e.__class__ is Output else e: None for e in ends}
    run(edges, grads, keep, create_graph, captures)
    result = [captures[e] if e.__class__ is not Output else captured(captures, e) for e in ends]
    for i, g in enumerate(result):
        if g is None:
            if not allow_unused:
                why = f"The differentiated Tensor at index {i} appears to not have been used in the graph"
                raise RuntimeError(f"{why}. Set allow_unused=True if this is the desired behavior.")
            if materialize_grads:
                result[i] = inputs[i].detach().clone().zero_().requires_grad_(create_graph)
        elif not create_graph and g._edge is not None:  # a view
            result[i] = g.detach()
            if g.__class__ is Tensor:
                result[i]._array = g._array  # with its tangents
    return tuple(result)


__all__ = ["View", "backward", "grad"]
