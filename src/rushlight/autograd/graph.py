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

Note [Names of nodes]
    `x @ w` is one operator and one node, whatever the dimensions; PyTorch records `DotBackward0`, `MvBackward0`, or an
    `UnsafeViewBackward0` before an `MmBackward0`. An operator that has `pytorch_nodes`, a function of a node, gives the name and
    the paths to the inputs that PyTorch's nodes would have. It is asked when a user sees the node (`grad_fn`,
    `next_functions`), so that recording costs nothing: the node gets a class of that name then. A path is the number of an
    edge, or (name, *paths) for a node in between, which can be looked at but is not run by itself.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from itertools import count as count_from
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """In place of a version counter, for tensors made in inference mode, which have none."""

    __slots__ = ()

    @property
    def n(self) -> int:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
            "in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
            "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`. "
            "(Inference tensors do not track version counter.)"
        )


INFERENCE: Any = InferenceVersion()


class Turn:
    """In the place of a node's `Hooks`, where it has none and its backward is a user's function: only its number counts."""

    __slots__ = ("number",)
    made = count_from(0)
    users = True
    none: MappingProxyType[Any, Any] = MappingProxyType({})
    tensor_pre = retain = pre = post = accumulated = none
    trace = parent = None

    def __init__(self) -> None:
        self.number = next(Turn.made)  # greater of later nodes, see Note [The order of hooks]


class Hooks:
    """The hooks that users registered on one node. A node without hooks has None instead, or its `Turn`."""

    __slots__ = (
        "tensor_pre",
        "retain",
        "pre",
        "post",
        "accumulated",
        "metadata",
        "trace",
        "parent",
        "number",
        "users",
    )

    def __init__(self, turn: Turn | None = None) -> None:
        self.users = turn is not None  # the node's backward is a user's function
        self.number = next(Turn.made) if turn is None else turn.number
        self.tensor_pre: dict[int, HookTable] = {}  # output number -> hooks on a tensor
        self.retain: dict[int, Any] = {}  # output number -> weak reference to the tensor
        self.pre: dict[int, Callable] = HookTable()
        self.post: dict[int, Callable] = HookTable()
        self.accumulated: dict[int, Callable] = HookTable()  # post-accumulate-grad hooks of a leaf
        self.metadata: dict[Any, Any] = {}
        self.trace: str | None = None  # anomaly mode: the forward line that made the node
        self.parent: Node | None = None  # anomaly mode: the node whose backward made this one


class HookTable(dict):
    """A dictionary of hooks by the id of their handle, which can be referenced weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """What every `register_*hook` returns. `remove()`, or the end of a `with` block, removes the hook.

    `hooks` is the table that has the hook under `handle.id`; `extra_dict` is one more table, or a
    list of tables, that may have an entry under the same id. The handle references the tables weakly, so
    that it keeps no module alive.
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
        """Remove the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = reference()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        from collections import OrderedDict

        # An empty table replaces one that is gone.
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
    """One recorded operation: where gradients go and how to compute them.

    `_edges`: one entry for each input. `saved`: what the gradient rules read. `unbroadcast_to`: None, or for each
    input the (shape, dtype) that its gradient must have. `hooks`: None, `Hooks` or a `Turn`.
    `apply(g, edges, keep, record)` returns one gradient (or None) for each edge. `keep`: what was saved stays
    for another backward; `record`: the backward itself is recorded.
    """

    __slots__ = (
        "_edges",
        "saved",
        "unbroadcast_to",
        "hooks",
        "result_version",
        "statics",
        "outputs",
        "__weakref__",
    )
    saves_result = False
    _n_outputs = 1
    _joins = False  # whether it stands for several nodes, one for each output
    _shown: Sequence[int] | None = None  # the edges that users see, in PyTorch's order; None: all
    _transposed: tuple[int, ...] = ()  # of these, those that are seen through a `TBackward0`
    _paths: tuple | None = None  # what `next_functions` has, see Note [Names of nodes]
    _pytorch_nodes: Callable | None = (
        None  # what gives a node its name and paths when a user sees it
    )

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        raise NotImplementedError(f"{self.name()} has no backward")

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs for these of the outputs; what was saved stays."""
        if len(grads) != self._n_outputs:
            raise TypeError(f"expected {self._n_outputs} arguments, got {len(grads)} instead")
        found = self.apply(list(grads) if len(grads) > 1 else grads[0], self._edges, True, True)
        found = shown_gradients(self, found)
        return found[0] if len(found) == 1 else found

    def _as_pytorch(self) -> Node:
        """The node, which looks as PyTorch's from now on."""
        if type(self)._pytorch_nodes is not None:
            set_pytorch_class(self)
        return self

    def name(self) -> str:
        """The name of the operation, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary in which users may keep anything about this node."""
        return hooks_of(self).metadata

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input that can have a gradient: the node it goes to (None where none goes), and which output."""
        paths = self._paths
        if paths is None:
            paths = range(len(self._edges)) if self._shown is None else self._shown
        if self._transposed and self._paths is None:
            paths = [("TBackward0", i) if i in self._transposed else i for i in paths]
        return tuple(next_function(self, path) for path in paths)

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
        """Does nothing: the hooks of a tensor are on its node already. PyTorch has this method."""

    def _sequence_nr(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def _register(hooks: HookTable, fn: Callable) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


def hooks_of(node: Node) -> Hooks:
    if node.hooks.__class__ is not Hooks:
        node.hooks = Hooks(node.hooks)
    return node.hooks


class Output:
    """The edge of a tensor that is output number `nr` of a node with several."""

    __slots__ = ("node", "nr")

    def __init__(self, node: Node, nr: int) -> None:
        self.node, self.nr = node, nr

    @property
    def hooks(self) -> Hooks | None:
        """The hooks of the node."""
        return self.node.hooks

    @property
    def _edges(self) -> tuple[Node]:
        """The node."""
        return (self.node,)


def node_and_output(e: Any) -> tuple[Any, int]:
    """The node of an edge, and the number of the output that the edge stands for."""
    return (e.node, e.nr) if e.__class__ is Output else (e, 0)


def followers(node: Node) -> list[Node]:
    """The nodes that gradients go to from a node, as the engine follows them."""
    return [node_and_output(e)[0] for e in node._edges if e is not None]


def shown_gradients(node: Node, gradients: Sequence) -> Sequence:
    """The gradients of a node's inputs as users see them: those of `next_functions`."""
    if node._shown is None:
        return gradients
    found = []
    for i in node._shown:
        g = gradients[i]
        found.append(g.t() if g is not None and i in node._transposed else g)
    return tuple(found)


def all_gradients_of(node: Node, shown: Sequence, gradients: Sequence) -> Sequence:
    """All gradients of a node's inputs, where `shown` takes the place of those that users see."""
    if node._shown is None:
        return shown
    found = list(gradients)
    for i, g in zip(node._shown, shown, strict=True):
        found[i] = g.t() if g is not None and i in node._transposed else g
    return found


# -- what users see of nodes --------------------------------------------------------------------------


class DisplayNode(Node):
    """A node that PyTorch has between others, and whose part another one does here: it takes no hooks."""

    __slots__ = ()
    __module__ = "torch.autograd"

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        raise RuntimeError(
            f"{self.name()} is a part of the node before it here, and not run by itself"
        )

    def register_hook(self, fn: Any) -> Any:
        """RuntimeError: the node does not run."""
        raise RuntimeError(
            f"{self.name()} is not run here: register the hook on the node before it, of which it is a part"
        )

    register_prehook = register_hook


class TBackward0(DisplayNode):
    """The node before the weight of a `linear`, whose gradient rule transposes by itself."""

    __slots__ = ()

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        return (g.t(),)


@lru_cache(None)
def display_class(name: str) -> type:
    if name == "TBackward0":
        return TBackward0
    return type(name, (DisplayNode,), {"__slots__": (), "__module__": "torch.autograd"})


_display_nodes: weakref.WeakKeyDictionary[Node, dict[Any, DisplayNode]] = (
    weakref.WeakKeyDictionary()
)


def start_of(node: Node, path: Any) -> Any:
    """The edge that a path of a node begins with: to a node in between, the same one each time, or one of its own."""
    if path.__class__ is int:
        return node._edges[path]
    known = _display_nodes.setdefault(node, {})
    made = known.get(path)
    if made is None:
        made = known[path] = new(display_class(path[0]))
        made._edges = tuple(start_of(node, w) for w in path[1:])
        made.saved = made.unbroadcast_to = made.hooks = None
    return made


def has_gradient(node: Node, path: Any) -> bool:
    """Whether a path leads to where a gradient goes."""
    if path.__class__ is int:
        return node._edges[path] is not None
    return any(has_gradient(node, w) for w in path[1:])


def next_function(node: Node, path: Any) -> tuple[Any, int]:
    """What `next_functions` has for a path."""
    if not has_gradient(node, path):
        return None, 0
    found, nr = node_and_output(start_of(node, path))
    return found._as_pytorch(), nr


def edges_of(path: Any) -> list[int]:
    """The numbers of the edges that a path leads to."""
    return [path] if path.__class__ is int else [i for w in path[1:] for i in edges_of(w)]


@lru_cache(None)
def pytorch_class(cls: type, name: str, paths: tuple | None) -> type:
    """A node class of another name, and with other paths to its inputs."""
    found: dict[str, Any] = {
        "__slots__": (),
        "__module__": "torch.autograd",
        "_pytorch_nodes": None,
    }
    if paths is not None:
        found["_paths"] = paths
        found["_shown"] = tuple(dict.fromkeys(i for path in paths for i in edges_of(path)))
        turned = [w[1] for w in paths if w.__class__ is tuple and w[0] == "TBackward0"]
        found["_transposed"] = tuple(turned)
    return type(name, (cls,), found)


def set_pytorch_class(node: Node) -> None:
    """Give a node the class that shows PyTorch's name and paths."""
    found = type(node)._pytorch_nodes(node)  # type: ignore[misc]  # it has one
    if found is not None:
        node.__class__ = pytorch_class(type(node), *found)  # type: ignore[assignment]  # of the same slots


def count(roots: list, behind: dict[Any, tuple] | None = None) -> dict[Any, int]:
    """Every node that the edges `roots` lead to, with the number of edges in between that lead to it.

    `behind`: the edges of each node, where they are not its own.
    """
    found = dict.fromkeys(roots, 0)
    nodes = [*found]
    for node in nodes:
        for e in node._edges if behind is None else behind.get(node, ()):
            if e is not None:
                if e in found:
                    found[e] += 1
                else:
                    found[e] = 1
                    nodes.append(e)
    return found


def prune(roots: Sequence, captures: dict) -> dict[Any, tuple]:
    """The edges of every node that leads to a captured node; None for edges that do not."""
    leads: dict[Any, bool] = {}
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in leads:
            stack.pop()
            continue
        todo = [e for e in node._edges if e is not None and e not in leads]
        if todo:
            stack += todo
        else:
            leads[node] = node in captures or any(e is not None and leads[e] for e in node._edges)
            stack.pop()
    return {
        node: tuple(e if e is not None and leads[e] else None for e in node._edges)
        for node, lead in leads.items()
        if lead
    }


class AccumulateGrad(Node):
    """The node of a leaf: adds the gradients that arrive to the leaf's `.grad`.

    The leaf references this node, and this node the leaf weakly, so that there is no cycle. When the leaf is
    gone and the graph is asked for it, a new tensor is made with the same array.
    """

    __slots__ = ("leaf", "array", "reduced")

    def __init__(self, leaf: Tensor) -> None:
        self.leaf, self.array = weakref.ref(leaf), leaf._array
        # What is called in the end, after all hooks: it gives the gradient to other processes.
        self.reduced: tuple[Callable, ...] = ()
        self._edges, self.saved, self.unbroadcast_to, self.hooks = (), None, None, None

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

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


class SwappedLeaf(AccumulateGrad):
    """The node that a leaf had before `swap_tensors`: which tensor a gradient belongs to is not known any more."""

    __slots__ = ()

    def apply(self, g: Any, edges: tuple = (), keep: bool = False, record: bool = False) -> tuple:
        raise RuntimeError(
            "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: backward leads to a leaf that was "
            "swapped after the forward. Swap before the forward, or run backward first."
        )


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


def raise_freed(node: Node) -> None:
    """RuntimeError: the saved values of `node` were freed."""
    raise RuntimeError(f"[{node.name()}] {FREED}")


def raise_stale(node: Node, name: str, shape: tuple, dtype: object, now: int, seen: int) -> None:
    """RuntimeError: a tensor that `node` saved as `name` was written to since."""
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{dtype} {list(shape)}], saved as {name!r} by {node.name()}, is at version {now}; "
        f"expected version {seen} instead. Hint: use an out-of-place operation, or clone() the tensor "
        "before the write; autograd.set_detect_anomaly(True) shows the forward line."
    )


class Since:
    """A version counter that starts at 0 now, for a result that was written in place.

    The node that saved the result takes it for unchanged while the version is 0.
    """

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
        # A node that saved its own result needs the counter to see later writes.
        if e is not None and e.__class__ is not Output and e.__class__.saves_result:
            seen = getattr(e, "result_version", None)
            if seen is not None:  # somebody read the saved result: see saved_attribute
                v = t._counter = seen
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
    """The public names of `autograd.graph` that saved_hooks.py has."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'rushlight.autograd.graph' has no attribute {name!r}")
    from rushlight.autograd import saved_hooks

    return getattr(saved_hooks, name)
