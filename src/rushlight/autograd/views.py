"""Views and in-place writes: how the graph stays right when tensors share memory.

Note [Views and writes]
    A view keeps no history of its own. It knows its base (the tensor that is not a view) and how it
    was made from it: one `View` record for each step. Three rules follow:

    1. A write through a view becomes history of the *base*: a `CopySlices` node goes between the
       base and its former node, and sends the gradient of the written region through the written
       operation, and the rest of it on unchanged.
    2. Every view remembers which version of the memory its node belongs to. After a later write the
       node is stale, and the next use makes the view from the base again to get a new node.
    3. A tensor that was saved for backward remembers the version too. A backward that needs an
       overwritten tensor raises, so that a gradient is right or refused, never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.graph import (
    AccumulateGrad,
    Node,
    Output,
    hooks_of,
    node_and_output,
    version_of,
)
from rushlight.autograd.state import thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor

DEFAULT, NO_GRAD, MULTI, INFERENCE, CUSTOM = range(5)
NEVER: dict[int, int] = {}
FORBIDDEN = {  # kinds of views that lose their history with a write to their base, and why
    NO_GRAD: "Given that this use case is ambiguous and error-prone, it is forbidden. Move both the "
    "view and the write inside the no_grad block, or both out.",
    INFERENCE: "Given that this use case is ambiguous and error-prone, it is forbidden. Move both the "
    "view and the write inside the inference_mode block, or both out.",
    MULTI: "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. Replace the write by an out-of-place operation.",
}
MADE = {  # how such a view was made, and where it may not be written to
    NO_GRAD: ("was created in no_grad mode", "modified inplace with grad mode enabled. "),
    INFERENCE: ("was created in inference mode", "modified inplace in normal mode. "),
}


class View:
    """The edge of a view: `make(parent or base, *args)` makes the view again.

    `node` is valid while the version of the memory is `seen`. `kind` says how the view was made, because
    PyTorch forbids writes through some kinds of views.
    """

    __slots__ = ("base", "parent", "make", "args", "node", "version", "seen", "kind")

    def __init__(
        self,
        source: Tensor,
        make: Callable,
        args: tuple,
        node: Any = None,
        kind: int | None = None,
    ) -> None:
        e = source._edge
        if e.__class__ is View:
            self.base, self.parent = e.base, e
        else:
            self.base, self.parent = source, None
        self.make, self.args, self.node = make, args, node
        self.version = version_of(source)
        self.seen = self.version.n
        if kind is None:
            kind = DEFAULT if thread.grad else INFERENCE if thread.inference else NO_GRAD
            if e.__class__ is View and e.kind != DEFAULT:
                kind = e.kind
        self.kind = kind

    def resolve(self) -> Any:
        """The node of the view; a new one if the memory was written to since.

        A view without history of a tensor that requires grad (made under no_grad, or before) requires grad too.
        """
        if self.seen != self.version.n:
            base_edge = self.base._edge
            if base_edge is None:
                # A leaf keeps its AccumulateGrad and views of it their nodes: no write to them is recorded.
                if self.node.__class__ is not AccumulateGrad and not self.of_leaf():
                    self.node = None
            else:
                self.check_replay()
                before, recording = self.node, (thread.grad, thread.inference)
                thread.grad, thread.inference = True, False
                try:
                    self.node = self.replay(self.base)._edge.node
                finally:
                    thread.grad, thread.inference = recording
                keep_retaining(before, self.node)
            self.seen = self.version.n
        if self.node is None and self.base._edge is not None:
            return Dropped()
        return self.node

    def wants(self) -> bool:
        """Whether the view requires grad. True also where `resolve` would raise."""
        if self.kind in FORBIDDEN and self.seen != self.version.n and self.base._edge is not None:
            return True
        return self.resolve() is not None

    def check_replay(self) -> None:
        """RuntimeError if the view may not, or cannot, be made again from its base."""
        if self.kind in FORBIDDEN:
            made, where = MADE.get(self.kind, ("", "modified inplace with grad mode enabled. "))
            what = f"A view {made}"
            if self.kind == MULTI and self.node.__class__ is Output:
                what = f"Output {self.node.nr} of {operation(self.node.node)} is a view"
            raise RuntimeError(
                f"{what} and its base or another view of its base has been {where}"
                f"{FORBIDDEN[self.kind]}"
            )
        seen = self.seen if self.seen >= 0 else ~self.seen
        if seen < getattr(self.version, "reshaped", NEVER).get(id(self.base), 0):
            raise RuntimeError(
                "the base of this view got another shape by an in-place view operation (t_(), "
                "squeeze_(), ...) and was written to since: the history of the view is lost. Use the "
                "out-of-place operation."
            )

    def of_leaf(self) -> bool:
        """Whether this view was made from a view that is a leaf."""
        step = self.parent
        while step is not None:
            if step.node.__class__ is AccumulateGrad:
                return True
            step = step.parent
        return False

    def steps(self) -> tuple:
        """How the view is made from its base: (function, arguments) in order."""
        if self.parent is None:
            return ((self.make, self.args),)
        steps, step = [], self
        while step is not None:
            steps.append((step.make, step.args))
            step = step.parent
        return tuple(reversed(steps))

    def replay(self, base: Tensor) -> Tensor:
        """The same view of another tensor with the base's shape and strides."""
        for make, args in self.steps():
            base = make(base, *args)
        return base


class Dropped(Node):
    """The edge of a view that requires grad only because its base does: a gradient that arrives is dropped."""

    __slots__ = ()

    def __init__(self) -> None:
        self._edges, self.saved, self.unbroadcast_to, self.hooks = (), None, None, None

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        return ()


def edge_of(t: Tensor) -> Any:
    """Where the gradient of `t` goes: a node, an Output, an AccumulateGrad or None."""
    e = t._edge
    return e.resolve() if e.__class__ is View else e


def operation(node: Node) -> str:
    """The operation in the name of a node: Unbind for UnbindBackward0."""
    return node.name().split("Backward")[0]


class CopySlices(Node):
    """The node of a base after a write through one of its views.

    `steps` make the view from a tensor with the `strides` of the base. The node does not hold the base, whose
    edge is this node: a graph has no cycles. `inner` is the node of the operation that was written, and
    the view its input number `self_at`.
    """

    __slots__ = ("steps", "strides", "inner", "self_at")

    def __init__(self, base_edge: Any, view: View, inner: Node, self_at: int) -> None:
        self.steps, self.strides = view.steps(), view.base._array.strides
        self.inner, self.self_at = inner, self_at
        self._edges = (base_edge, *(e for i, e in enumerate(inner._edges) if i != self_at))
        self.saved = self.unbroadcast_to = self.hooks = None

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        flow = g.clone()
        if flow._array.strides != self.strides:  # the steps may need the base's strides
            from rushlight.dispatch import methods

            flow = methods.function("aten.laid_out")(flow, self.strides)
        region = flow
        for make, args in self.steps:
            region = make(region, *args)
        at = self.self_at
        inner_edges = (*edges[1 : at + 1], edges[0], *edges[at + 1 :])
        grads = self.inner.apply(region.clone(), inner_edges, keep, record)
        if edges[0] is not None:
            if grads[at] is None:
                region.zero_()
            else:
                region.copy_(grads[at])
        return (None if edges[0] is None else flow, *grads[:at], *grads[at + 1 :])


def hides_history(t: Tensor) -> bool:
    """Whether `t` is a view without history of a tensor with history, which a write to `t` would miss.

    That is true for a view made under no_grad, for views made from it, and for a view of a leaf that
    was told to require grad later.
    """
    e = t._edge
    return (
        e.__class__ is View
        and thread.grad
        and (above := e.base._edge) is not None
        and (e.kind in FORBIDDEN or above.__class__ is AccumulateGrad)
    )


def check_writable(t: Tensor, name: str) -> None:
    """RuntimeError, as PyTorch raises it, if a recorded in-place write to `t` is not allowed."""
    e = t._edge
    if e.__class__ is View:
        if e.kind != DEFAULT:
            node = None if e.kind in MADE else e.resolve()
            what = "A view"
            if e.kind in MADE and e.node is not None:
                what = "Output 0 of View is a view of a view which"
            elif node is not None:
                own = node.node if node.__class__ is Output else node
                what = f"Output {getattr(node, 'nr', 0)} of {operation(own)} is a view"
            if e.kind in MADE:
                made, where = MADE[e.kind]
                raise RuntimeError(
                    f"[{name}] {what} {made} and is being {where}{FORBIDDEN[e.kind]}"
                )
            if e.kind == MULTI:
                raise RuntimeError(
                    f"[{name}] {what} and is being modified inplace. This view is the output of a "
                    "function that returns multiple views. Such functions do not allow the output "
                    "views to be modified inplace. Replace the write by an out-of-place operation."
                )
            raise RuntimeError(
                f"[{name}] {what} and is being modified inplace. This view was created inside a "
                "custom Function (or because an input was returned as-is) and the autograd logic "
                "to handle view+inplace would override the custom backward associated with the "
                "custom Function, leading to incorrect gradients. Clone the output of the "
                "custom Function."
            )
        if (
            e.base._edge.__class__ is AccumulateGrad
            or e.resolve().__class__ is AccumulateGrad
            or e.of_leaf()
        ):
            what = (
                "a view of a leaf Variable"
                if e.node.__class__ is not AccumulateGrad
                else ("a leaf Variable")
            )
            raise RuntimeError(
                f"[{name}] {what} that requires grad is being used in an in-place operation. "
                "Write under no_grad(), or to a clone()."
            )
    elif e.__class__ is AccumulateGrad:
        raise RuntimeError(
            f"[{name}] a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under no_grad(), or to a clone()."
        )


def rebase(t: Tensor, node: Node | None, self_at: int = 0) -> None:
    """Make `node` the history of `t` after a write by it. The version of `t` is already the new one.

    None: of such a write (`logical_not_`) PyTorch's graph does not know either.
    """
    e = t._edge
    if node is None:
        return
    if e.__class__ is View:
        base = e.base
        before = base._edge
        base._edge = CopySlices(before, e, node, self_at)
        keep_retaining(before, base._edge)
        e.seen = ~e.version.n  # negative: known to be stale
    else:
        t._edge = node
        keep_retaining(e, node)


def keep_retaining(before: Any, after: Any) -> None:
    """Move the `retain_grad` of a tensor from its edge before a write to the one after it: `.grad` becomes the
    gradient of what the tensor holds last."""
    if before is None or after is None:
        return
    (node, nr), (new_node, new_nr) = node_and_output(before), node_and_output(after)
    if node.hooks is not None and nr in node.hooks.retain:
        hooks_of(new_node).retain[new_nr] = node.hooks.retain.pop(nr)
