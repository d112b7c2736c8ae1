"""`viz.autograd`: the graph of nodes behind tensors, with what each saved for its backward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.autograd.graph import AccumulateGrad, followers
from rushlight.autograd.saved_hooks import get_gradient_edge
from rushlight.core.tensor import Tensor
from rushlight.nn import Module, Parameter
from rushlight.viz.calls import shapes_text
from rushlight.viz.svg import Box, Picture, bytes_text, layered

__all__ = ["autograd"]


def autograd(
    results: Tensor | Iterable[Tensor],
    params: Module | Mapping[str, Tensor] | None = None,
    *,
    show_saved: bool = True,
) -> Picture:
    """Draw the graph from leaves, above, to the tensors `results`, below.

    `params`: a module, or names and tensors, by which leaves are called. A parameter that one node uses stands in the
    box of that node, in blue. Below are the tensors that the node saved and their bytes; the note above the graph is
    their sum, memory that two nodes saved counted once.
    """
    tensors = [results] if isinstance(results, Tensor) else list(results)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(f"viz.autograd expects tensors, got {type(t).__name__}")
        if not t.requires_grad:
            raise ValueError("viz.autograd: a tensor does not require grad, so it has no graph")
    if isinstance(params, Module):
        params = dict(params.named_parameters())
    names = {id(t): name for name, t in (params or {}).items()}
    boxes: dict[Any, Box] = {}
    edges: list[tuple[Any, Any]] = []
    memory: dict[int, int] = {}  # address of a storage -> its bytes
    waiting = []
    for n, t in enumerate(tensors):
        boxes[n] = Box(_numbered("result", n, len(tensors)), "result", [_shape(t)])
        node = get_gradient_edge(t).node
        edges.append((node, n))
        waiting.append(node)
    while waiting:
        node = waiting.pop()
        if node in boxes:
            continue
        boxes[node] = _box(node, names, memory, show_saved)
        for source in followers(node):
            edges.append((source, node))
            waiting.append(source)
    edges = _fold_parameters(boxes, edges)
    total = sum(memory.values())
    what = f"an autograd graph of {len(boxes) - len(tensors)} nodes"
    note = f"saved for backward: {bytes_text(total)}" if show_saved else ""
    return layered(what, boxes, edges, note)


def _fold_parameters(boxes: dict[Any, Box], edges: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Move each parameter with one user into the box of that user; returns the edges that stay."""
    users: dict[Any, list] = {}
    for source, node in edges:
        users.setdefault(source, []).append(node)
    folded = {
        node
        for node in boxes
        if isinstance(node, AccumulateGrad)
        and isinstance(node.variable, Parameter)
        and len(users[node]) == 1
        and not isinstance(users[node][0], int)
    }
    for leaf, node in reversed([edge for edge in edges if edge[0] in folded]):
        box = boxes.pop(leaf)
        boxes[node].lines.insert(0, (f"{box.title}: {box.lines[0][0]}", "p"))
    return [edge for edge in edges if edge[0] not in folded]


def _numbered(name: str, n: int, count: int) -> str:
    return name if count == 1 else f"{name} {n}"


def _shape(t: Tensor) -> tuple[str, str]:
    return f"{shapes_text([t])} {t.dtype}".replace("torch.", ""), "n"


def _box(node: Any, names: dict[int, str], memory: dict[int, int], show_saved: bool) -> Box:
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        return Box(names.get(id(leaf), "leaf"), "parameter", [_shape(leaf)])
    lines = []
    if show_saved:
        for name, t in _saved(node):
            size = t.untyped_storage().nbytes()
            memory[t.untyped_storage().data_ptr()] = size
            called = names.get(id(t))
            own = t.numel() * t.element_size()
            lines.append((f"saved {name}: {called or shapes_text([t])}, {bytes_text(own)}", "s"))
    return Box(node.name(), "plain", lines)


def _saved(node: Any) -> Iterable[tuple[str, Tensor]]:
    """(name, tensor) of what a node saved; one whose saved tensors were freed has none."""
    for attribute in sorted(dir(type(node))):
        name = attribute.removeprefix("_saved_")
        if name == attribute:
            continue
        try:
            value = getattr(node, attribute)
        except (AttributeError, RuntimeError):  # not saved in this call, or freed by a backward
            continue
        values = value if isinstance(value, tuple | list) else (value,)
        for k, t in enumerate(values):
            if isinstance(t, Tensor):
                yield (name if len(values) == 1 else f"{name}[{k}]"), t
    for k, t in enumerate(_saved_by_function(node)):
        yield f"saved_tensors[{k}]", t


def _saved_by_function(node: Any) -> tuple:
    """What an `autograd.Function` saved by `save_for_backward`."""
    try:
        return tuple(t for t in getattr(node, "saved_tensors", ()) if isinstance(t, Tensor))
    except RuntimeError:  # freed
        return ()
