"""The public names of `autograd.graph` beside `Node`: hooks on saved tensors, gradient edges, and hooks on
several tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

from rushlight.autograd.grad_mode import Switch, enable_grad
from rushlight.autograd.graph import Node, RemovableHandle, node_and_output
from rushlight.autograd.state import count_mode, thread
from rushlight.autograd.views import edge_of
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor
from rushlight.dispatch import results


class saved_tensors_hooks(Switch):
    """A block in which every tensor saved for backward is replaced by `pack_hook(tensor)`.

    Backward gets it back by `unpack_hook(packed)`, which must return a tensor of the same value.

    >>> import rushlight as torch
    >>> seen = []
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
    ...     y = x * x
    >>> len(seen)
    2
    """

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def clone(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __enter__(self) -> None:
        if thread.saved_hooks_error is not None:
            raise RuntimeError(thread.saved_hooks_error)
        thread.saved_hooks = (*thread.saved_hooks, (self.pack_hook, self.unpack_hook))
        count_mode(+1)

    def __exit__(self, *exc: object) -> None:
        thread.saved_hooks = thread.saved_hooks[:-1]
        count_mode(-1)


declare("no-op", "There is one memory.", "torch.autograd.graph", "save_on_cpu(pin_memory=)")


class save_on_cpu(saved_tensors_hooks):
    """A block in which tensors saved for backward are copied to the CPU."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t: Tensor) -> Any:
            return t.device, t.detach().clone() if t.device.type == "cpu" else t.cpu()

        def unpack(packed: Any) -> Tensor:
            device, t = packed
            return t.to(device)

        super().__init__(pack, unpack)

    def clone(self) -> save_on_cpu:
        return save_on_cpu()


class disable_saved_tensors_hooks(Switch):
    """A block in which `saved_tensors_hooks` raises RuntimeError with `error_message`."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def clone(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self.message)

    def __enter__(self) -> None:
        if thread.saved_hooks:
            raise RuntimeError(self.message)
        self.before = thread.saved_hooks_error
        thread.saved_hooks_error = self.message

    def __exit__(self, *exc: object) -> None:
        thread.saved_hooks_error = self.before


class GradientEdge(NamedTuple):
    """Where a gradient goes: output number `output_nr` of `node`.

    `autograd.backward` and `autograd.grad` take it in place of a tensor, which it does not keep alive.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad."""
    e = edge_of(tensor)
    if e is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(*node_and_output(e))


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to a tensor's memory that autograd did not see."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if t.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        results.bump(t)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` when the gradients of several tensors are computed.

    `mode="all"`: once in each backward, when all tensors that take part in it have their gradient, with the list
    of the gradients (None for a tensor without one). `mode="any"`: once, with the first gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    waiting: dict[int, tuple[Any, list]] = {}  # by backward: its table, the gradients so far
    edges = [edge_of(t) for t in tensors]
    last: list = [None]

    def hook_of(i: int) -> Callable:
        def hook(g: Tensor) -> None:
            task = thread.task
            with lock:
                if mode == "any":
                    if last[0] is task:
                        return
                    last[0] = task
                    ready: Any = g
                else:
                    _, grads = waiting.setdefault(id(task), (task, []))
                    grads.append((i, g))
                    taking_part = sum(task is None or node_and_output(e)[0] in task for e in edges)
                    if len(grads) < taking_part:
                        return
                    del waiting[id(task)]
                    by_index = dict(grads)
                    ready = [by_index.get(k) for k in range(len(edges))]
            fn(ready)

        return hook

    return MultiHandle([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])


class MultiHandle(RemovableHandle):
    """Removes all hooks of one `register_multi_grad_hook`."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for h in self.handles:
            h.remove()


class Handle:
    """Stands in a node for a saved tensor; the context has the tensor, or its copy, under it."""

    __slots__ = ("version", "__weakref__")


class allow_mutation_on_saved_tensors(Switch):
    """A block in which saved tensors may be written to: a write copies what was saved of that memory before.

    The backward has to run in the block too.
    """

    def __init__(self) -> None:
        self.cloned: MutableMapping[Handle, Tensor] = WeakKeyDictionary()
        self.original: MutableMapping[Handle, Tensor] = WeakKeyDictionary()
        # (address and layout, version) of a saved tensor -> its handle; the same of memory -> those tensors
        self.tid_to_weakhandle: MutableMapping[tuple, Handle] = WeakValueDictionary()
        self.sid_to_tid: dict[tuple, set[tuple]] = {}

    def pack(self, t: Tensor) -> Handle:
        tid = (t.data_ptr(), t.shape, t.stride(), t.dtype, t._version)
        handle = self.tid_to_weakhandle.get(tid)
        if handle is None:
            handle = self.tid_to_weakhandle[tid] = Handle()
            handle.version = t._version
            self.original[handle] = t
            self.sid_to_tid.setdefault(memory_of(t), set()).add(tid)
        return handle

    def unpack(self, handle: Handle) -> Tensor:
        """The saved tensor as it was: the copy that a write made, or the tensor itself. RuntimeError where it was
        changed without one."""
        if thread.mutation is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        if handle in self.cloned:
            return self.cloned[handle]
        t = self.original[handle]
        if t._version != handle.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation "
                "that keeps no copy"
            )
        return t

    def before_write(self, t: Tensor) -> None:
        """Copy what was saved of the memory of `t`, which is about to change."""
        for tid in self.sid_to_tid.pop(memory_of(t), ()):
            handle = self.tid_to_weakhandle.get(tid)
            if handle is not None and handle in self.original:
                saved = self.original.pop(handle)
                with enable_grad():
                    self.cloned[handle] = saved.clone()

    def __enter__(self) -> Any:
        if thread.mutation is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self.inner = saved_tensors_hooks(self.pack, self.unpack)
        self.inner.__enter__()
        thread.mutation = self
        return self

    def __exit__(self, *exc: object) -> None:
        thread.mutation = None
        self.inner.__exit__()
        self.clear()

    def clear(self) -> None:
        """Forget all that is kept beside the graph."""
        for kept in (self.cloned, self.original, self.tid_to_weakhandle, self.sid_to_tid):
            kept.clear()


def memory_of(t: Tensor) -> tuple:
    return t.untyped_storage().data_ptr(), t._version
