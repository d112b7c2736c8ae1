"""Views and writes in place: how history stays right when memory is shared.

Note [Views and writes]
    A view keeps no history of its own. It knows its base (the tensor that is not a view) and how it
    was made from it, one `View` record per step. Three rules follow:

    1. A write through a view becomes history of the *base*: a `CopySlices` node goes between the
       base and its former node, and sends the gradient of the written region through the written
       operation, and the rest of it on unchanged.
    2. Every view remembers the version its node belongs to. When the memory was written to since,
       the node is stale, and the next use derives it anew by making the view from the base again.
    3. A tensor that was saved for backward remembers the version too, and a backward that needs an
       overwritten one raises, so that a gradient is right or refused, never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.graph import AccumulateGrad, Node, Output, hooks_of, new, version_of
from rushlight.autograd.state import thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor

DEFAULT, NO_GRAD, MULTI, INFERENCE, CUSTOM = range(5)
NEVER: dict[int, int] = {}
FORBIDDEN = {  # kinds of views that lose their history with a write to their base, and why
    NO_GRAD: "Given that this use case is ambiguous and error-prone, it is forbidden. Move both the "
    "view and the write into the no_grad block, or both out.",
    MULTI: "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. Replace the write by an out-of-place operation.",
}


class View:
    """The history of a view: `make(parent or base, *args)` makes it again.

    `node` is valid while the memory's version is `seen`; `kind` says under which circumstances the
    view was made, because PyTorch forbids writes through some of them.
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
            kind = NO_GRAD if not thread.grad else DEFAULT
            if e.__class__ is View and e.kind != DEFAULT:
                kind = e.kind
        self.kind = kind

    def resolve(self) -> Any:
        """The edge of the view, derived anew when the memory was written to."""
        if self.seen != self.version.n:
            base_edge = self.base._edge
            if base_edge is None:  # a leaf view keeps its AccumulateGrad; others have no history
                if self.node.__class__ is not AccumulateGrad:
                    self.node = None
            else:
                self.check_replay()
                recording, thread.grad = thread.grad, True
                try:
                    self.node = self.replay(self.base)._edge.node
                finally:
                    thread.grad = recording
            self.seen = self.version.n
        return self.node

    def wants(self) -> bool:
        """Whether the view requires grad; also where its history cannot be had."""
        if self.kind in FORBIDDEN and self.seen != self.version.n and self.base._edge is not None:
            return True
        return self.resolve() is not None

    def check_replay(self) -> None:
        """Raise when the view may not, or cannot, be made again from its base."""
        if self.kind in FORBIDDEN:
            what = "A view was created in no_grad mode"
            if self.kind == MULTI and self.node.__class__ is Output:
                what = f"Output {self.node.nr} of {operation(self.node.node)} is a view"
            raise RuntimeError(
                f"{what} and its base or another view of its base has been modified "
                f"inplace with grad mode enabled. {FORBIDDEN[self.kind]}"
            )
        seen = self.seen if self.seen >= 0 else ~self.seen
        if seen < getattr(self.version, "reshaped", NEVER).get(id(self.base), 0):
            raise RuntimeError(
                "the base of this view got another shape by an in-place view operation (t_(), "
                "squeeze_(), ...) and was written to since: the history of the view is lost. Use the "
                "out-of-place operation."
            )

    def of_leaf(self) -> bool:
        """Whether it was made from a view that is a leaf itself."""
        step = self.parent
        while step is not None:
            if step.node.__class__ is AccumulateGrad:
                return True
            step = step.parent
        return False

    def steps(self) -> tuple:
        """How the view is made from its base: (function, arguments) in order."""
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


def edge_of(t: Tensor) -> Any:
    """Where the gradient of `t` goes: a node, an Output, an AccumulateGrad or None."""
    e = t._edge
    return e.resolve() if e.__class__ is View else e


def operation(node: Node) -> str:
    """What a node's name says was done: Unbind of UnbindBackward0."""
    return node.name().split("Backward")[0]


class CopySlices(Node):
    """History of a base after a write through one of its views.

    It keeps how the view is made and the strides it is made from, not the base: the base's edge is
    this node, and a graph has no cycles.
    """

    __slots__ = ("steps", "strides", "inner", "self_at")

    def __init__(self, base_edge: Any, view: View, inner: Node, self_at: int) -> None:
        self.steps, self.strides = view.steps(), view.base._array.strides
        self.inner, self.self_at = inner, self_at
        self.edges = (base_edge, *(e for i, e in enumerate(inner.edges) if i != self_at))
        self.saved = self.fix = self.hooks = None

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        flow = g.clone()
        if flow._array.strides != self.strides:  # a view may exist under the base's strides only
            from rushlight.ops.layout.views import laid_out

            flow = laid_out(flow, self.strides)
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
    """A view without history of a tensor that has one: a write to it would be missing there.

    So is a view made under no_grad, what is made of it, and a view of a leaf that was told to
    require grad later. Views as integers have no part in gradients.
    """
    e = t._edge
    return (
        e.__class__ is View
        and thread.grad
        and (above := e.base._edge) is not None
        and (e.kind in FORBIDDEN or above.__class__ is AccumulateGrad)
        and t._array.dtype.kind in "fcV"
    )


def check_writable(t: Tensor, name: str) -> None:
    """Raise PyTorch's error when recording a write in place to `t` would make history wrong."""
    e = t._edge
    if e.__class__ is View:
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
        if e.kind != DEFAULT:
            node = e.resolve()
            what = "a view"
            if node is not None:
                own = node.node if node.__class__ is Output else node
                what = f"Output {getattr(node, 'nr', 0)} of {operation(own)} is a view"
            if e.kind == NO_GRAD:
                raise RuntimeError(
                    f"[{name}] A view was created in no_grad mode and is being modified inplace with "
                    "grad mode enabled. Given that this use case is ambiguous and error-prone, it is "
                    "forbidden. Move both the view and the write into the no_grad block, or both out."
                )
            if e.kind == MULTI:
                raise RuntimeError(
                    f"[{name}] {what} and is being modified inplace. This view is the output of a "
                    "function that returns multiple views. Such functions do not allow the output "
                    "views to be modified inplace. Replace the write by an out-of-place operation."
                )
            if e.kind == CUSTOM:
                raise RuntimeError(
                    f"[{name}] {what} and is being modified inplace. This view was created inside a "
                    "custom Function (or because an input was returned as-is) and the autograd logic "
                    "to handle view+inplace would override the custom backward associated with the "
                    "custom Function, leading to incorrect gradients. Clone the output of the "
                    "custom Function."
                )
    elif e.__class__ is AccumulateGrad:
        raise RuntimeError(
            f"[{name}] a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under no_grad(), or to a clone()."
        )


def rebase(t: Tensor, node: Node | None, self_at: int = 0) -> None:
    """`t` was written to (its version is already the new one) by `node`: take over its history."""
    e = t._edge
    if e.__class__ is View:
        if node is not None:
            base = e.base
            before = base._edge
            base._edge = CopySlices(before, e, node, self_at)
            keep_retaining(before, base._edge)
            e.seen = ~e.version.n  # derive anew from the base (negative: known to be stale)
    else:
        t._edge = node
        keep_retaining(e, node)


def keep_retaining(before: Any, after: Any) -> None:
    """What the tensor whose edge was `before` and is `after` retains in `.grad` is its last gradient."""
    if before is None or before.hooks is None or after is None:
        return
    (node, nr), (new_node, new_nr) = place(before), place(after)
    if node.hooks is not None and nr in node.hooks.retain:
        hooks_of(new_node).retain[new_nr] = node.hooks.retain.pop(nr)


def place(e: Any) -> tuple[Any, int]:
    """The node of an edge, and which of its outputs the edge is."""
    return (e.node, e.nr) if e.__class__ is Output else (e, 0)


def view_of(source: Tensor, array: Any, node: Any, make: Callable, args: tuple) -> Tensor:
    """Wrap `array`, which shares the memory of `source`, as its view with history `node`."""
    result = new(source.__class__ if source.__class__ is _plain else _plain)
    result._array = array
    result._edge = View(source, make, args, node)
    result._counter = source._counter
    return result


_plain: Any = None  # the Tensor class, set by tensor.py
