"""Indices as calls of ATen's operators: `x[0, :, 1:]` is select and slice, `x[i]` is index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch.aten_forms import MOST as END
from rushlight.export.aliases import Alias
from rushlight.export.calls import copied
from rushlight.export.errors import refuse

if TYPE_CHECKING:
    from rushlight.export.recorder import Recorder


def basic(recorder: Recorder, t: Any, index: Any) -> tuple[Tensor, Alias, list | None]:
    """(plain tensor, alias) of the view that the basic part of an index makes, and the index tensors for
    its dimensions, None where there are none."""
    aten = rushlight.ops.aten
    plain, alias = (t.plain, t.alias) if hasattr(t, "alias") else (t, recorder.alias_of(t))
    items = index if isinstance(index, tuple) else (index,)
    taken = sum(
        _mask(i).dim() if _mask(i) is not None else 1
        for i in items
        if i is not None and i is not Ellipsis
    )
    tensors: dict[int, Any] = {}
    dim = 0

    def step(target: Any, *rest: Any) -> None:
        nonlocal plain, alias
        before = plain
        plain = target(plain, *rest)
        node = recorder.emit(target, alias.read(recorder), *rest)
        alias = Alias(node, alias, (target, (alias, *rest), {}, None), before.shape, alias.constant)

    for item in items:
        if item is None:
            step(aten.unsqueeze.default, dim)
            dim += 1
        elif item is Ellipsis:
            dim += t.dim() - taken
        elif isinstance(item, slice):
            start, stop, by = item.start, item.stop, item.step
            if (start, stop, by) != (None, None, None):
                start = 0 if start is None else int(start)
                step(aten.slice.Tensor, dim, start, END if stop is None else int(stop), by or 1)
            dim += 1
        elif isinstance(item, int) and not isinstance(item, bool):
            step(aten.select.int, dim, item)
        else:
            if not isinstance(item, Tensor):
                item = rushlight.tensor(item)
            tensors[dim] = item
            dim += item.dim() if item.dtype == rushlight.bool else 1
    if not tensors:
        return plain, alias, None
    return plain, alias, [tensors.get(d) for d in range(max(tensors) + 1)]


def _mask(item: Any) -> Any:
    return item if isinstance(item, Tensor) and item.dtype == rushlight.bool else None


def get(recorder: Recorder, t: Any, index: Any) -> Tensor:
    """`t[index]`."""
    plain, alias, tensors = basic(recorder, t, index)
    if tensors is None:
        if hasattr(t, "alias") and alias is t.alias:  # `x[:]`
            node = recorder.emit(rushlight.ops.aten.detach.default, alias.read(recorder))
            call = (rushlight.ops.aten.detach.default, (alias,), {}, None)
            alias = Alias(node, alias, call, plain.shape, alias.constant)
        return recorder.traced(
            plain if plain is not getattr(t, "plain", t) else plain.detach(), alias
        )
    constant = all(recorder.is_constant(i) for i in tensors if i is not None)
    if any(_mask(i) is not None for i in tensors) and not constant:
        refuse("x[mask]: the size of the result depends on the values of the mask; use torch.where")
    target = rushlight.ops.aten.index.Tensor
    node = recorder.emit(target, alias.read(recorder), recorder.nodes(tensors))
    found = target(plain, recorder.plain(tensors))
    return recorder.traced(found, Alias(node, constant=constant and alias.is_constant()))


def put(recorder: Recorder, t: Any, index: Any, value: Any) -> None:
    """`t[index] = value`; the plain tensor was written to already."""
    aten = rushlight.ops.aten
    if not hasattr(t, "alias"):
        if recorder.is_constant(value):
            return
        refuse(
            "a value that depends on the inputs is written into a tensor that is a constant; clone() it first"
        )
    plain, alias, tensors = basic(recorder, t, index)
    constant = recorder.is_constant(value)
    if tensors is None:
        node = copied(recorder, plain, value)
    else:
        constant = constant and all(recorder.is_constant(i) for i in tensors if i is not None)
        old = alias.read(recorder)
        masks = [i for i in tensors if i is not None]
        alone = len(masks) == 1 and _mask(masks[0]) is not None and tensors[0] is not None
        if isinstance(value, Tensor):
            given = recorder.node_of(value)
            if value.dtype != plain.dtype:
                given = recorder.emit(aten.to.dtype, given, plain.dtype)
        else:
            given = recorder.emit(aten.full.default, [], value, dtype=plain.dtype)
        if alone and (not isinstance(value, Tensor) or value.dim() == 0):
            mask = recorder.node_of(masks[0])
            for _ in range(plain.dim() - masks[0].dim()):
                mask = recorder.emit(aten.unsqueeze.default, mask, -1)
            node = recorder.emit(aten.where.self, mask, given, old)
        else:
            node = recorder.emit(aten.index_put.default, old, recorder.nodes(tensors), given)
    alias.write(recorder, node, constant)
