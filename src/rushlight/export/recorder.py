"""Records what a program does with tensors as a graph of ATen's operators, without writes.

Note [How a program is exported]
    The program runs once with real values. Its inputs, parameters and buffers are `Traced` tensors: a subclass that
    shares the memory of a plain tensor. A `Recorder` is a function mode, so it gets each public function before
    anything else does, also those that make tensors. It runs the function on the plain tensors, adds a node, and
    returns `Traced` tensors around the results. What would read a value into Python raises, with the user's line;
    a plain tensor that turns up is a constant.

    The graph has no writes. A function that writes becomes the one that does not, and the written tensor stands
    for the new node from there on; so do its views, and the tensor that it is a view of (aliases.py).
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overloads import OpOverload
from rushlight.export import control_flow, indexing
from rushlight.export.aliases import Alias, overlap
from rushlight.export.calls import (
    RANDOM,
    call_of,
    name_of,
    running_statistics,
    without_write,
)
from rushlight.export.errors import refuse, user_line
from rushlight.export.functions import IN_PYTHON, body_of
from rushlight.fx.graph import Graph
from rushlight.fx.names import type_name
from rushlight.fx.node import Node
from rushlight.library import CustomOpDef
from rushlight.nn import Module
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._pytree import tree_leaves, tree_map

__all__ = ["Recorder", "Traced"]

READS = frozenset(
    "item tolist numpy __bool__ __int__ __float__ __index__ __complex__ "
    "__array__ __contains__ is_nonzero equal allclose storage untyped_storage data_ptr apply_ map_ __dlpack__ "
    "__reduce_ex__ __deepcopy__".split()
)
# Packed sequences: how many rows or steps there are depends on the lengths.
_PACKING = frozenset(("_pack_padded_sequence", "_pad_packed_sequence"))
_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_SIZED_BY_VALUES = frozenset("nonzero masked_select unique unique_consecutive argwhere".split())


class Traced(Tensor):
    """A tensor of the program while it is exported. `plain` shares its memory; `alias` knows its node."""

    plain: Tensor
    alias: Alias


class Recorder(TorchFunctionMode):
    """While it is on, functions add nodes to `graph`.

    `constants`: {name of a placeholder: tensor} of the plain tensors that turned up, and `targets` {name: path},
    where they are attributes of modules. `modules`: the calls of modules of `mod` that are open.
    """

    getitem = operator.getitem

    def __init__(self, mod: Module) -> None:
        super().__init__()
        # Where nodes go: in a branch of `cond` the graph is not that of the whole program.
        self.graph = self.whole = Graph()
        self.parts = Module()  # what nodes of this graph take as attributes: branches
        self.constants: dict[str, Tensor] = {}
        self.targets: dict[str, str] = {}
        self.modules: dict[str, tuple[str, str]] = {}
        self._paths = {m: path for path, m in mod.named_modules()}
        self._attributes = {
            id(t): f"{path}.{name}" if path else name
            for m, path in self._paths.items()
            for name, t in vars(m).items()
            if isinstance(t, Tensor)
        }
        self._constants: dict[int, Alias] = {}
        self._last_placeholder: Node | None = None

    # -- values

    def placeholder(self, name: str, value: Any) -> Any:
        """An input of the graph: a traced tensor, or the value itself if it is no tensor."""
        node = self._new_placeholder(name)
        return self.traced(value, Alias(node)) if isinstance(value, Tensor) else value

    def _new_placeholder(self, name: str) -> Node:
        last = self._last_placeholder
        with self.whole.inserting_after(last if last is not None else self.whole._root):
            self._last_placeholder = self.whole.placeholder(name)
        return self._last_placeholder

    def traced(self, plain: Tensor, alias: Alias) -> Traced:
        """A traced tensor around a plain one."""
        t = plain.as_subclass(Traced)
        t.plain, t.alias = plain, alias
        return t

    def alias_of(self, t: Tensor) -> Alias:
        """The alias of a tensor; a plain one is a constant."""
        if isinstance(t, Traced):
            return t.alias
        if id(t) not in self._constants:
            lifted = sum(path.startswith("lifted_tensor_") for path in self.targets.values())
            path = self._attributes.get(id(t), f"lifted_tensor_{lifted}")
            node = self._new_placeholder("c_" + path.replace(".", "_"))
            node.stack_trace = user_line()
            self.constants[node.name], self.targets[node.name] = t, path
            self._constants[id(t)] = Alias(node, constant=True)
        return self._constants[id(t)]

    def node_of(self, value: Any) -> Any:
        """The node of a tensor as it is now; any other value as it is."""
        if isinstance(value, Tensor):
            value = self.alias_of(value)
        return value.read(self) if isinstance(value, Alias) else value

    def nodes(self, tree: Any) -> Any:
        """`node_of` for all of a tree."""
        return tree_map(self.node_of, tree)

    def plain(self, tree: Any) -> Any:
        """A tree with plain tensors in place of traced ones."""
        return tree_map(lambda v: v.plain if isinstance(v, Traced) else v, tree)

    def is_constant(self, value: Any) -> bool:
        """Whether no input has a part in a value."""
        return not isinstance(value, Traced) or value.alias.is_constant()

    def emit(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add a node that calls `target`."""
        packet = getattr(target, "overloadpacket", None)
        node = self.graph.create_node(
            "call_function", target, args, kwargs, getattr(packet, "__name__", None)
        )
        node.stack_trace = user_line()
        node.meta["nn_module_stack"] = dict(self.modules)
        return node

    def noting(self, call: Callable) -> Callable:
        """`Module.__call__`, which enters in `modules` that a module is called."""
        counts: Counter[str] = Counter()

        @functools.wraps(call)
        def noting(module: Module, *args: Any, **kwargs: Any) -> Any:
            path = self._paths.get(module)
            if path is None:
                return call(module, *args, **kwargs)
            if counts[path]:
                path = f"{path}@{counts[path]}"
            counts[self._paths[module]] += 1
            key = "_".join(["L__self__", *path.split(".")] if path else ["L__self__"])
            self.modules[key] = (path, type_name(type(module)))
            try:
                return call(module, *args, **kwargs)
            finally:
                del self.modules[key]

        return noting

    # -- calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, overload = kwargs or {}, None
        if isinstance(func, OpOverload):
            overload = func
            called = func.overloadpacket.resolved()
            if isinstance(called, CustomOpDef):
                return self._custom(func, called, args, kwargs)
            func = called or func
        name = name_of(func)
        if func is rushlight.cond:
            return control_flow.cond(self, *args, **kwargs)
        if getattr(getattr(func, "op", None), "path", "") in ("aten.index", "aten.index_put"):
            # what indexing comes to, where the tensor is a plain one: the indices as operators take them
            if name == "index":
                at = [slice(None) if i is None else i for i in args[1].indices()]
                return indexing.get(self, args[0], tuple(at))
            func = rushlight.ops.aten.index_put.default
            args, kwargs = (args[0], args[2].indices(), args[1], *args[3:]), {}
            name = "index_put"
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Traced)]
        self._check(name, given, args[1:])
        if overload is None and (body := body_of(func, name)) is not None:
            if name not in IN_PYTHON and name not in RANDOM:
                plain_args, plain_kwargs = self.plain((args, kwargs))
                func(*plain_args, **plain_kwargs)  # it says what is wrong with its arguments
            with self:
                return body(*args, **kwargs)
        if name == "__getitem__":
            return indexing.get(self, *args)
        versions = [t.plain._version for t in given]
        shapes = [t.plain.shape for t in given]
        plain_args, plain_kwargs = self.plain((args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        if name == "tensor" and not given:  # it has its values from the program
            return self.traced(result, self.alias_of(result.clone()))
        if name == "__setitem__":
            return indexing.put(self, *args)
        written = [t for t, n in zip(given, versions, strict=True) if t.plain._version != n]
        if any(t.plain.shape != shape for t, shape in zip(given, shapes, strict=True)):
            refuse(f"{name}: it changes the shape of a tensor in place, which cannot be exported")
        results = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        constant = all(map(self.is_constant, given)) and name not in RANDOM
        if written and name == "batch_norm":
            return self._batch_norm(func, args, kwargs, result)
        if written:
            written[0].alias.write(self, without_write(self, func, name, args, kwargs), constant)
        elif not results:
            return result
        elif overload is not None or any(
            all(t is not each.plain for each in given) for t in results
        ):
            target = overload
            if overload is None:
                target, args, kwargs = call_of(func, name, args, kwargs, result)
            return self._record(target, name, args, kwargs, result, given, constant)
        if len(written) > 1 or len(results) > 1:
            refuse(f"{name}: a function that writes to several tensors cannot be exported")
        return next((each for each in given if result is each.plain), result)

    def _check(self, name: str, given: list[Traced], args: tuple) -> None:
        """Refuse what depends on the values of inputs."""
        if name in READS and any(not t.alias.is_constant() for t in given):
            name = name.replace("as_", "__") + "__" if name.startswith("as_") else name
            refuse(
                f"Tensor.{name}(): the program reads the value of a tensor that depends on its inputs. An exported "
                "graph is for all values of them: use torch.where in the place of `if`, or compute this outside."
            )
        if name in _SIZED_BY_VALUES and any(not t.alias.is_constant() for t in given):
            refuse(f"{name}: the size of its result depends on values, which cannot be exported")

        if name in ("shape", "size", "numel", "__len__") and given and given[0].alias.unsized:
            if name != "size" or not args or args[0] >= 0:
                refuse(
                    f"Tensor.{name}: the size of a packed or padded sequence depends on the lengths, so that it cannot be "
                    "exported; only that of the last dimension, size(-1), is known"
                )

    def _custom(self, func: OpOverload, called: CustomOpDef, args: tuple, kwargs: dict) -> Any:
        """A call of a custom operator: one node, or those of its kernel where it writes or is made of others."""
        args, kwargs = called.bound(args, kwargs)
        if called._mutates or called._composite:
            with self:
                return called.kernel()(*args, **kwargs)
        plain_args, plain_kwargs = self.plain((args, kwargs))
        result = func(*plain_args, **plain_kwargs)
        if not all(isinstance(t, Tensor) for t in tree_leaves(result)):
            refuse(f"{func}: a custom operator that returns other than tensors cannot be exported")
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Traced)]
        constant = all(map(self.is_constant, given))
        args, kwargs = called.without_defaults(args, kwargs)
        return self._record(func, func._opname, args, kwargs, result, given, constant)

    def _record(
        self,
        target: Any,
        name: str,
        args: tuple,
        kwargs: dict,
        result: Any,
        given: list,
        constant: bool,
    ) -> Any:
        """The results of a call of `target`, which becomes a node, as traced tensors."""
        called, options = self.nodes((args, kwargs))
        node = self.emit(target, *called, **options)
        kept = tree_map(lambda v: self.alias_of(v) if isinstance(v, Tensor) else v, (args, kwargs))

        unsized = any(t.alias.unsized for t in given)

        def wrap(t: Any, node: Node, nr: int | None) -> Any:
            source = next((each for each in given if overlap(t, each.plain)), None)
            alias = Alias(node, constant=constant)
            if source is not None:
                call = (target, *kept, nr)
                alias = Alias(node, source.alias, call, source.plain.shape, constant)
            if name == "_pad_packed_sequence" or name in _RECURRENT:
                alias.unsized = nr == 0 and unsized
            else:
                alias.unsized = unsized or name in _PACKING
            if alias.unsized:
                node.meta["sized_by_values"] = True
            return self.traced(t, alias)

        if isinstance(result, Tensor):
            return wrap(result, node, None)
        return self._several(node, result, wrap)

    def _several(self, node: Node, result: Any, wrap: Any) -> Any:
        found = []
        for nr, t in enumerate(result):
            picked = self.emit(operator.getitem, node, nr)
            if isinstance(t, Tensor):
                found.append(wrap(t, picked, nr))
            else:
                found.append(self._several(picked, t, wrap))
        make = getattr(
            type(result), "_make", type(result)
        )  # named tuples take fields, not a sequence
        return make(found)

    def _batch_norm(self, func: Any, args: tuple, kwargs: dict, result: Tensor) -> Tensor:
        """A batch norm in training mode: one without running statistics, and what is written to these."""
        target, called, _ = call_of(func, "batch_norm", args, kwargs)
        called = (*called[:3], None, None, *called[5:])
        node = self.emit(target, *self.nodes(called))
        for t, new in running_statistics(self, args, kwargs):
            t.alias.write(self, new, constant=False)
        return self.traced(result, Alias(node))
