"""The pieces of the backward graph: nodes, the edges between them, versions of memory.

Note [What an edge is]
    `tensor._edge` says where the gradient of a tensor goes, and thereby whether it needs one:

    ==================  ==========================================================================
    `None`              the tensor needs no gradient
    `AccumulateGrad`    a leaf that requires grad: the gradient ends in `tensor.grad`
    a `Node`            the operation that made the tensor
    `Output`            one of several outputs of a node
    `View`              the tensor is a view: its history is that of its base (see views.py)
    ==================  ==========================================================================

    A node keeps its edges in a tuple, one for each input, `None` where no gradient is wanted. Edges
    point from results to inputs only, and nodes keep arrays of their own results, never the tensors,
    so that a graph has no reference cycle and goes away with the last tensor that needs it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor

new = object.__new__


class Version:
    """Counts the writes to one piece of memory; a tensor shares it with its views and `detach`es.

    It is made when the first view or the first write needs it: a tensor whose `_counter` is still
    None was never written to, which reads as version 0. `reshaped` is set by in-place view
    operations (`t_`): id of the tensor -> version from which on it had another shape.
    """

    __slots__ = ("n", "reshaped")
    reshaped: dict[int, int]

    def __init__(self, n: int = 0) -> None:
        self.n = n


class InferenceVersion:
    """Stands for the version counter of tensors made in inference mode, which have none."""

    __slots__ = ()

    @property
    def n(self) -> int:
        raise RuntimeError(
            "Inference tensors do not track version counter, and cannot be saved for backward. To work "
            "around you can make a clone to get a normal tensor and use it in autograd."
        )


INFERENCE: Any = InferenceVersion()


class Hooks:
    """What users hung on one node; a node without any has None in its place."""

    __slots__ = (
        "tensor_pre",
        "retain",
        "pre",
        "post",
        "accumulated",
        "metadata",
        "trace",
        "parent",
    )

    def __init__(self) -> None:
        self.tensor_pre: dict[int, HookTable] = {}  # output number -> hooks on a tensor
        self.retain: dict[int, Any] = {}  # output number -> weak reference to the tensor
        self.pre: dict[int, Callable] = HookTable()
        self.post: dict[int, Callable] = HookTable()
        self.accumulated: dict[int, Callable] = HookTable()  # post-accumulate-grad hooks of a leaf
        self.metadata: dict[Any, Any] = {}
        self.trace: str | None = None  # anomaly mode: the forward line that made the node
        self.parent: Node | None = None  # anomaly mode: the node whose backward made this one

    def any_to_run(self) -> bool:
        return bool(self.tensor_pre or self.retain or self.pre or self.post)


class HookTable(dict):
    """Hooks by the id of their handle; unlike a plain dictionary it can be referred to weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """What every `register_*hook` returns: takes the hook out of its table again, by `remove()` or at
    the end of a `with`.

    `hooks` is the table the hook goes into, under `handle.id`; `extra_dict` one more table, or a
    list of them, that may hold something under the same id. The tables are held weakly, so that a
    forgotten handle keeps no module alive.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if extra_dict is None:
            extra_dict = []
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(table) for table in extra)

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        from collections import OrderedDict

        # A table that is gone is replaced by an empty one that nobody looks at.
        alive = [OrderedDict() if table is None else table for table in (state[0], *state[2])]
        self.hooks_dict_ref, *extra = (weakref.ref(table) for table in alive)
        self.extra_dict_ref = tuple(extra)
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Node:
    """One recorded operation: knows where gradients go and how to compute them.

    `edges`: one entry per input. `saved`: what the gradient rules read. `fix`: None, or for each
    input the (shape, dtype) its gradient must be brought to. `hooks`: None, or `Hooks`.
    `apply(g, edges, keep, record)` returns one gradient (or None) per edge: `keep` what was saved for
    another backward, `record` the backward itself.
    """

    __slots__ = (
        "edges",
        "saved",
        "fix",
        "hooks",
        "result_version",
        "statics",
        "outputs",
        "__weakref__",
    )
    saves_result = False
    n_outputs = 1

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        raise NotImplementedError(f"{self.name()} has no backward")

    def name(self) -> str:
        """The name of the operation, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's notes on this node."""
        return hooks_of(self).metadata

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input: the node its gradient goes to (None where none goes), and which output."""
        return tuple(
            (None, 0) if e is None else (e.node, e.nr) if e.__class__ is Output else (e, 0)
            for e in self.edges
        )

    @property
    def _input_metadata(self) -> tuple:
        return getattr(self, "outputs", ())

    def register_hook(self, fn: Callable) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after this node ran; a returned tuple replaces
        `grad_inputs`."""
        return _register(hooks_of(self).post, fn)

    def register_prehook(self, fn: Callable) -> RemovableHandle:
        """Call `fn(grad_outputs)` before this node runs; a returned tuple replaces them."""
        return _register(hooks_of(self).pre, fn)

    def _register_hook_dict(self, tensor: Tensor) -> None:
        """Present for PyTorch's sake: hooks of a tensor live on its node already."""

    def _sequence_nr(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def _register(hooks: HookTable, fn: Callable) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


def hooks_of(node: Node) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


class Output:
    """The edge of a tensor that is output number `nr` of a node with several."""

    __slots__ = ("node", "nr", "edges", "hooks")

    def __init__(self, node: Node, nr: int) -> None:
        self.node, self.nr, self.edges = node, nr, (node,)
        self.hooks = True  # never None: the engine takes its rare branch, where it delivers this


class AccumulateGrad(Node):
    """The end of a path: adds what arrives to the `.grad` of a leaf.

    The leaf holds its node, the node knows the leaf weakly (no cycle). A leaf that nobody else
    holds any more is made anew around the same array when someone asks the graph for it.
    """

    __slots__ = ("leaf", "array")

    def __init__(self, leaf: Tensor) -> None:
        self.leaf, self.array = weakref.ref(leaf), leaf._array
        self.edges, self.saved, self.fix, self.hooks = (), None, None, None

    @property
    def variable(self) -> Tensor:
        """The leaf."""
        leaf = self.leaf()
        if leaf is None:
            from rushlight.core.tensor import Tensor

            leaf = new(Tensor)
            leaf._array, leaf._counter, leaf._edge = self.array, None, self
            self.leaf = weakref.ref(leaf)
        return leaf


class GraphRoot(Node):
    """Stands for the caller of backward in anomaly messages."""

    __slots__ = ()


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


def freed(node: Node) -> None:
    """Raise: the saved values of `node` are gone."""
    raise RuntimeError(f"[{node.name()}] {FREED}")


def stale(node: Node, name: str, shape: tuple, dtype: object, now: int, seen: int) -> None:
    """Raise: a tensor that `node` saved as `name` was written to since."""
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{dtype} {list(shape)}], saved as {name!r} by {node.name()}, is at version {now}; "
        f"expected version {seen} instead. Hint: use an out-of-place operation, or clone() the tensor "
        "before the write; autograd.set_detect_anomaly(True) shows the forward line."
    )


class Since:
    """What a counter has counted since now: the version of a result that was written in place, which
    its node saved, and takes for unchanged at 0."""

    __slots__ = ("counter", "seen")

    def __init__(self, counter: Version) -> None:
        self.counter, self.seen = counter, counter.n

    @property
    def n(self) -> int:
        return self.counter.n - self.seen

    @n.setter
    def n(self, n: int) -> None:
        self.counter.n = n + self.seen


def version_of(t: Tensor) -> Version:
    """The version counter of a tensor's memory, made now if there is none yet."""
    v = t._counter
    if v is None:
        v = t._counter = Version()
        e = t._edge
        # A node that saved its own result must see later writes to it: it gets the counter now.
        if e is not None:
            if e.__class__ is Output:
                e.node.outputs[e.nr].version = v
            elif e.__class__.saves_result:
                e.result_version = v
    return v


_ELSEWHERE = (
    "GradientEdge",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
)


def __getattr__(name: str) -> Any:
    """The rest of the public `autograd.graph` stands in saved_hooks.py."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'rushlight.autograd.graph' has no attribute {name!r}")
    from rushlight.autograd import saved_hooks

    return getattr(saved_hooks, name)
