"""Graphs without writes: what `torch.func.functionalize` does to the nodes that `make_fx` adds.

Note [Writes as values]
    The function runs as it is written, so that memory, aliases and gradients are those of the program; only the
    nodes are others. A write becomes the node of the operator that gives the value (`add` for `add_`). Where the
    written tensor is a view, the value goes back into its base step by step: `slice_scatter` for `slice`. A tensor
    whose base was written to since gets its node anew when it is read, by the steps from the base. At the end,
    memory from outside that was written to gets one `copy_` each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.node import Node
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from rushlight.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

RESHAPES = frozenset("view _unsafe_view _reshape_alias reshape unsqueeze squeeze".split())
PIECES = frozenset("split split_with_sizes unbind".split())
VIEWS = (
    RESHAPES | PIECES | frozenset(
        "_conj alias as_strided detach diagonal expand permute select slice t transpose unfold view_as_complex "
        "view_as_real".split()
    )
)  # fmt: skip
SCATTERS = frozenset("as_strided diagonal select slice".split())


class Storage:
    """Memory: the node of its whole value now, and how often it was written to."""

    def __init__(self, tensor: Tensor, node: Node, outside: bool) -> None:
        self.tensor, self.node, self.outside = tensor, node, outside
        self.origin, self.version = node, 0


class Step:
    """One view: `func(source, *rest)` is `result`; of several results, the one at `index`."""

    def __init__(
        self, func: Any, source: Tensor, rest: tuple, result: Tensor, index: int | None, start: int
    ) -> None:
        self.func, self.source, self.rest, self.result = func, source, rest, result
        self.index, self.start = index, start


class Alias:
    """A tensor: the memory it belongs to, the steps from there, and its node as of a version of the memory."""

    def __init__(self, storage: Storage, steps: tuple[Step, ...], node: Node, array: Any) -> None:
        self.storage, self.steps, self.node = storage, steps, node
        self.version, self.array = storage.version, array


class Functionalization:
    """The nodes of a block whose writes become values; `remove_views`: views become copies, too."""

    def __init__(self, mode: ProxyTorchDispatchMode, remove_views: bool) -> None:
        self.mode, self.tracer, self.remove_views = mode, mode.tracer, remove_views
        self.aliases: dict[int, Alias] = {}  # by the id of the array

    def call(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Carry out an operator and add its nodes."""
        pytree.tree_map_only(Tensor, self.refresh, (args, kwargs))
        name = func._opname
        if name.endswith("_") and not name.endswith("__"):
            return self.write(func, args, kwargs)
        if kwargs.get("out") is not None:
            return self.write_out(func, args, kwargs)
        if name in VIEWS:
            return self.view(func, args, kwargs)
        result = self.mode.record(func, args, kwargs)
        for t in pytree.tree_leaves(result):
            if isinstance(t, Tensor) and id(t._array) not in self.aliases:
                self.alias(t, outside=False)
        return result

    # -- tensors and their nodes -----------------------------------------------------------------------

    def alias(self, t: Tensor, outside: bool = True) -> Alias:
        """What is known of a tensor; one that comes up for the first time is memory of its own."""
        found = self.aliases.get(id(t._array))
        if found is None:
            node = self.tracer.create_arg(t)
            found = Alias(Storage(t, node, outside), (), node, t._array)
            self.aliases[id(t._array)] = found
        return found

    def refresh(self, t: Tensor) -> None:
        """Give a tensor a node of its value now."""
        alias = self.alias(t)
        if alias.version != alias.storage.version:
            alias.node = self.replayed(alias.storage.node, alias.steps)
            alias.version = alias.storage.version
        self.tracer.written(t, alias.node)

    def node(self, func: Any, args: tuple, like: Any, kwargs: dict | None = None) -> Node:
        """A new node whose result is like `like`."""
        made = self.tracer.create_node("call_function", func, args, kwargs or {}, func._opname)
        self.tracer.set_meta(made, like)
        return made

    def replayed(self, node: Node, steps: tuple[Step, ...]) -> Node:
        """The views of a base, one after the other."""
        for step in steps:
            node = self.node(step.func, (node, *step.rest), step.result)
            if step.index is not None:
                node = self.tracer.create_node(
                    "call_function", rushlight.fx.node.operator.getitem, (node, step.index), {}
                )
                self.tracer.set_meta(node, step.result)
        return node

    # -- calls -----------------------------------------------------------------------------------------

    def view(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A view: its node, and how it follows from its base."""
        source = args[0]
        alias = self.alias(source)
        recorded = func
        if self.remove_views:
            packet = getattr(rushlight.ops.aten, f"{func._opname}_copy")
            if packet.resolved() is not None:
                recorded = getattr(packet, func._overloadname)
        result = self.mode.record(func, args, kwargs, recorded)
        several = isinstance(result, (tuple, list))
        start = 0
        for i, t in enumerate(result if several else [result]):
            step = Step(recorded, source, args[1:], t, i if several else None, start)
            if func._opname in ("split", "split_with_sizes"):
                start += t.shape[args[2] if len(args) > 2 else 0]
            made = Alias(alias.storage, (*alias.steps, step), self.tracer.create_arg(t), t._array)
            if t._array is not source._array:
                self.aliases[id(t._array)] = made
        return result

    def write(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A write in place: the node of the value that is written."""
        target, name = args[0], func._opname[:-1]
        given, options = self.mode.arguments(args, kwargs)
        if name in VIEWS:  # `t_`: the tensor becomes a view of what it was
            view = getattr(getattr(rushlight.ops.aten, name), func._overloadname)
            alias, before = self.alias(target), target.detach()
            result = func(*args, **kwargs)
            node = self.node(view, given, target, options)
            step = Step(view, before, args[1:], target.detach(), None, 0)
            self.aliases[id(target._array)] = Alias(
                alias.storage, (*alias.steps, step), node, target._array
            )
            self.tracer.written(target, node)
            return result
        value = getattr(getattr(rushlight.ops.aten, name), func._overloadname)
        like = self.gives(value, args, kwargs)
        result = func(*args, **kwargs)
        self.assign(target, self.node(value, given, target if like is None else like, options))
        return result

    def write_out(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A call with `out=`: the node of the call without it."""
        rest = {k: v for k, v in kwargs.items() if k != "out"}
        given, options = self.mode.arguments(args, rest)
        value = func.overloadpacket.default
        result = func(*args, **kwargs)
        node = self.node(value, given, result, options)
        out = kwargs["out"]
        if isinstance(out, Tensor):
            self.assign(out, node)
        else:
            for i, t in enumerate(out):
                item = self.tracer.create_node(
                    "call_function", rushlight.fx.node.operator.getitem, (node, i), {}
                )
                self.tracer.set_meta(item, t)
                self.assign(t, item)
        return result

    def gives(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A tensor without memory like the result of a call, or None where that is not known."""
        with _disable_current_modes():
            try:
                fake = pytree.tree_map_only(Tensor, self.tracer.described, (args, kwargs))
                found = func(*fake[0], **fake[1])
            except (RuntimeError, NotImplementedError, TypeError):
                return None
        return found if isinstance(found, Tensor) else None

    # -- values of memory --------------------------------------------------------------------------------

    def assign(self, target: Tensor, node: Node) -> None:
        """`node` is the value of `target` from here on."""
        value = node.meta["val"]
        aten = rushlight.ops.aten
        if isinstance(value, Tensor) and value.dtype != target.dtype:
            node = self.node(aten._to_copy.default, (node,), target, {"dtype": target.dtype})
        if isinstance(value, Tensor) and value.shape != target.shape:
            node = self.node(aten.expand.default, (node, [*target.shape]), target)
        alias = self.alias(target)
        storage, whole = alias.storage, node
        for k in range(len(alias.steps), 0, -1):
            base = self.replayed(storage.node, alias.steps[: k - 1])
            whole = self.put_back(alias.steps[k - 1], base, whole)
        storage.node = whole
        storage.version += 1
        alias.node, alias.version = node, storage.version
        self.tracer.written(target, node)

    def put_back(self, step: Step, base: Node, value: Node) -> Node:
        """The base of a view whose value is another now."""
        aten, source = rushlight.ops.aten, step.source
        name = step.func._opname.removesuffix("_copy")
        rest = step.rest
        if name in RESHAPES:
            return self.node(aten.reshape.default, (value, [*source.shape]), source)
        if name in ("alias", "detach"):
            return value
        if name in ("t", "transpose"):
            return self.node(step.func, (value, *rest), source)
        if name == "permute":
            back = [0] * source.dim()
            for i, d in enumerate(rest[0]):
                back[d] = i
            return self.node(step.func, (value, back), source)
        if name in SCATTERS:
            scatter = getattr(aten, f"{name}_scatter").default
            return self.node(scatter, (base, value, *rest), source)
        if name == "unbind":
            at = (rest[0] if rest else 0, step.index)
            return self.node(aten.select_scatter.default, (base, value, *at), source)
        if name in PIECES:
            dim = rest[1] if len(rest) > 1 else 0
            end = step.start + step.result.shape[dim]
            return self.node(
                aten.slice_scatter.default, (base, value, dim, step.start, end), source
            )
        if name in ("view_as_real", "view_as_complex"):
            other = aten.view_as_complex if name == "view_as_real" else aten.view_as_real
            return self.node(other.default, (value,), source)
        raise RuntimeError(
            f"functionalize: a write through the view aten.{name} cannot be made a value"
        )

    def finish(self) -> None:
        """Write the values of memory from outside into it."""
        copy_ = rushlight.ops.aten.copy_.default
        for storage in dict.fromkeys(alias.storage for alias in self.aliases.values()):
            if storage.version and storage.outside:
                self.node(copy_, (storage.origin, storage.node), storage.tensor)
        for alias in [*self.aliases.values()]:
            if alias.version != alias.storage.version:
                alias.node = self.replayed(alias.storage.node, alias.steps)
        nodes = self.tracer.nodes
        for key, (of, _) in [*nodes.items()]:
            alias = self.aliases.get(id(of._array) if isinstance(of, Tensor) else key)
            if alias is not None:
                nodes[key] = (of, alias.node)
