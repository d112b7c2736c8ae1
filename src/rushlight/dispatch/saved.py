"""What a node keeps of the tensors that its rules read, and how it becomes a tensor again."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.graph import Node, new, raise_stale, version_of
from rushlight.autograd.state import thread
from rushlight.autograd.views import edge_of
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch import handlers


def save(t: Tensor, is_result: bool) -> Saved | SavedResult | Packed:
    """What keeps a tensor for backward."""
    if thread.saved_hooks:
        return Packed(t, is_result)
    if is_result and t.__class__ is not Tensor and handlers.dispatches(t.__class__):
        return SavedSubclass(t)
    return SavedResult(t) if is_result else Saved(t)


class Saved:
    """An input kept for backward, with the version it had."""

    __slots__ = ("tensor", "seen")

    def __init__(self, t: Tensor) -> None:
        version = t._counter
        if version is None:
            self.tensor, self.seen = t, 0
            return
        refuse_inference(version)
        self.tensor, self.seen = t, version.n

    def unpack(self, node: Node, name: str, edge: Any) -> Tensor:
        """The tensor as it was; RuntimeError when it was written to since."""
        t = self.tensor
        version = t._counter
        if version is not None and version.n != self.seen:
            raise_stale(node, name, t.shape, t.dtype, version.n, self.seen)
        return t


class SavedResult:
    """The memory of a result, with its version: the tensor would hold the node that holds it."""

    __slots__ = ("array", "version", "seen")

    def __init__(self, t: Tensor) -> None:
        refuse_inference(t._counter)
        self.array, self.version = t._array, version_of(t)
        self.seen = self.version.n

    def unpack(self, node: Node, name: str, edge: Any) -> Tensor:
        """A tensor as the result was, with this edge; RuntimeError when it was written to since."""
        if self.version.n != self.seen:
            raise_stale(node, name, self.array.shape, self.array.dtype, self.version.n, self.seen)
        t = new(Tensor)
        t._array, t._counter, t._edge = self.array, self.version, edge
        return t


class SavedSubclass:
    """A result whose class has a `__torch_dispatch__`: it is detached, since the tensor would hold its node."""

    __slots__ = ("tensor", "version", "seen")

    def __init__(self, t: Tensor) -> None:
        refuse_inference(t._counter)
        self.tensor, self.version = t.detach(), version_of(t)
        self.seen = self.version.n

    def unpack(self, node: Node, name: str, edge: Any) -> Tensor:
        """The tensor, detached again and with this edge; RuntimeError when it was written to since."""
        t = self.tensor
        if self.version.n != self.seen:
            raise_stale(node, name, t.shape, t.dtype, self.version.n, self.seen)
        t = t.detach()
        t._edge, t._counter = edge, self.version
        return t


class Packed:
    """What a hook made of a tensor (`saved_tensors_hooks`), and the hook that undoes it."""

    __slots__ = ("packed", "unpack_hook", "edge")

    def __init__(self, t: Tensor, is_result: bool) -> None:
        refuse_inference(t._counter)
        pack, self.unpack_hook = thread.saved_hooks[-1]
        hooks, thread.saved_hooks = thread.saved_hooks, ()
        before = t._version
        try:
            self.packed = pack(t.detach() if is_result else t)
        finally:
            thread.saved_hooks = hooks
        if t._version != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "can not be modified by in-place operations as this can lead to unexpected side-effects. Please "
                "open an issue if you need to perform in-place operations on the input to a pack hook."
            )
        self.edge = None if is_result else edge_of(t)

    def unpack(self, node: Node, name: str, edge: Any) -> Tensor:
        """What the hook makes of it, with this edge or the one the tensor had."""
        got = self.unpack_hook(self.packed)
        if not isinstance(got, Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor")
        edge = edge if edge is not None else self.edge
        if edge is None or got._edge is edge:
            return got
        if got.__class__ is not Tensor and handlers.dispatches(got.__class__):
            t = got.detach()  # its class says what it holds
        else:
            t = new(Tensor)
            t._array = got._array
        t._counter, t._edge = got._counter, edge
        return t


def refuse_inference(version: Any) -> None:
    if version is INFERENCE:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
            "in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
            "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
        )


def arguments_of(node: Any) -> dict[str, Any]:
    """What a node knows of a call besides tensors: static arguments, shapes of inputs."""
    layout = getattr(node, "saved_layout", None)
    if layout is None:
        return node.statics[0]  # type: ignore[no-any-return]  # of a general node
    return dict(zip(layout[1], node.statics or (), strict=False))


def dims_of(node: Any, name: str) -> int | None:
    """How many dimensions an input had; None where the node knows no longer."""
    shape = arguments_of(node).get(f"{name}_shape")
    if shape is not None:
        return len(shape)
    if node.saved.__class__ is dict and hasattr(node.saved.get(name), "unpack_hook"):
        return None  # showing a node must not call a program's hooks
    try:
        return getattr(node, f"_saved_{'self' if name == 'input' else name}").ndim  # type: ignore[no-any-return]
    except (AttributeError, RuntimeError):
        return None
