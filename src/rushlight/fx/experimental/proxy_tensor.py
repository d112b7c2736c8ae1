"""`make_fx`: the operators below autograd that a function calls, as a graph.

Note [How make_fx traces]
    The function runs on the tensors it is given while a `ProxyTorchDispatchMode` is on. The mode gets every
    operator (Note [Below autograd] in dispatch/torch_dispatch.py), calls it, and adds a node. It knows the node of a
    tensor by the tensor, and by its array, since graphs of autograd keep arrays and make tensors of them anew. A tensor
    that no node made is a constant of the graph.

    A number that depends on no input may be read while tracing: `torch.tensor(2.0).item()`. Its memory is `known`
    until something that is not known is written to it; a fake tensor knows its number itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import rushlight
from rushlight._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    is_random,
    maybe_get_fake_mode,
)
from rushlight.autograd.graph import AccumulateGrad
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import handlers
from rushlight.dispatch.captures import memory_of
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.experimental.functionalization import Functionalization
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
from rushlight.fx.proxy import users_line
from rushlight.nn import Module, Parameter
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "ProxyTorchDispatchMode", "PythonKeyTracer", "disable_proxy_modes_tracing", "get_proxy_mode",
    "make_fx",
]  # fmt: skip

_VALUE = (
    "It appears that you're trying to get value out of a tracing tensor with {} - erroring out! It's likely that this is "
    "caused by data-dependent control flow or similar. It may be possible to trace this with dynamic shapes; try setting "
    "tracing_mode='symbolic' in your make_fx call."
)


class PythonKeyTracer(Tracer):
    """Makes nodes of operators; it knows the node that each tensor comes from."""

    def __init__(self, fake_mode: FakeTensorMode | None = None) -> None:
        super().__init__(autowrap_modules=())
        self.fake_mode = fake_mode or FakeTensorMode()
        self.root = Module()
        self.graph = Graph(tracer_cls=PythonKeyTracer)
        self.tensor_attrs, self._kept_constants = {}, []
        self.nodes: dict[int, tuple[Any, Node]] = {}  # id of a tensor or an array -> (it, its node)
        self.known: dict[int, Any] = {}  # id of memory -> it, of numbers that depend on no input

    def track(self, t: Any, node: Node) -> None:
        """Remember the node that a tensor, and its array, come from."""
        self.nodes[id(t)] = (t, node)
        self.nodes.setdefault(id(t._array), (t._array, node))

    def written(self, t: Tensor, node: Node) -> None:
        """Remember the node that wrote to a tensor last."""
        self.nodes[id(t)] = (t, node)
        self.nodes[id(t._array)] = (t._array, node)

    def node_of(self, t: Tensor) -> Node | None:
        """The node that a tensor comes from, or None."""
        found = self.nodes.get(id(t)) or self.nodes.get(id(t._array))
        return None if found is None else found[1]

    def knows(self, t: Tensor) -> bool:
        """Whether the number in a tensor is known: it depends on no input."""
        if isinstance(t, FakeTensor):
            return t.constant is not None
        return id(memory_of(t)) in self.known

    def learn(self, name: str, given: list[Tensor], result: Any) -> None:
        """Note whether the numbers are known that an operator gave, or wrote to tensors that it was given."""
        tensors = [t for t in pytree.tree_leaves(result) if not isinstance(t, FakeTensor)]
        tensors = [t for t in tensors if isinstance(t, Tensor)]
        if name == "lift_fresh" or given and all(map(self.knows, given)) and not is_random(name):
            memories = [memory_of(t) for t in tensors if t.numel() == 1]
            self.known |= {id(memory): memory for memory in memories}
            return
        for t in tensors + given if name[-1] == "_" else tensors:
            self.known.pop(id(memory_of(t)), None)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument of a node; a tensor without a node becomes a constant of the module."""
        if isinstance(a, Tensor):
            node = self.node_of(a)
            if node is None:
                prefix = "_param_constant" if isinstance(a, Parameter) else "_tensor_constant"
                node = self.create_node("get_attr", self._constant(a, prefix), (), {})
                self.set_meta(node, a)
                self.track(a, node)
            return node
        return super().create_arg(a)

    def set_meta(self, node: Node, value: Any) -> None:
        """Note what a node gives, without its elements: `meta["val"]`, `meta["tensor_meta"]`."""
        with _disable_current_modes():
            node.meta["val"] = pytree.tree_map_only(Tensor, self.described, value)
        if isinstance(value, Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)

    def described(self, t: Tensor) -> Tensor:
        """A fake tensor of the shape, strides, dtype and device of `t` as it is now."""
        if t.layout is not rushlight.strided:
            return t
        meta = rushlight.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        made = FakeTensor(self.fake_mode, meta, t.device)
        if t.requires_grad:
            made._set_leaf_edge(AccumulateGrad(made))  # also inside of a transform
        return made


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Adds a node for each operator that is called."""

    def __init__(
        self, tracer: PythonKeyTracer, tracing_mode: str = "real",
        decomposition_table: dict | None = None, _error_on_data_dependent_ops: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.tracer, self.tracing_mode = tracer, tracing_mode
        self.decompositions = decomposition_table or {}
        self.refuse_values = _error_on_data_dependent_ops
        self.functional: Functionalization | None = None

    @contextlib.contextmanager
    def without_writes(self, remove: str) -> Iterator[None]:
        """A block whose writes become values: Note [Writes as values] in functionalization.py."""
        before = self.functional
        self.functional = Functionalization(self, remove == "mutations_and_views")
        try:
            yield
            self.functional.finish()
        finally:
            self.functional = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        decomposed = self.decompositions.get(func)
        if decomposed is not None:
            with self:
                result = decomposed(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func._opname
        if name == "_local_scalar_dense":
            t = args[0]
            if self.refuse_values and self.tracer.node_of(t) and not self.tracer.knows(t):
                if self.tracing_mode != "real":
                    raise DataDependentOutputException(func)
                raise RuntimeError(_VALUE.format(func) + users_line())
            return func(*args, **kwargs)
        if self.functional is not None:
            return self.functional.call(func, args, kwargs)
        return self.record(func, args, kwargs)

    def arguments(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments of a call as those of a node."""
        create = self.tracer.create_arg
        return tuple(map(create, args)), {k: create(v) for k, v in kwargs.items()}

    def record(self, func: Any, args: tuple, kwargs: dict, recorded: Any = None) -> Any:
        """Carry out an operator and add its node, as `recorded` if that is another."""
        name = func._opname
        given, options = self.arguments(args, kwargs)  # before `func` writes to a constant
        if name == "lift_fresh":
            below = handlers.asked(args)
            result = handlers.ask(func, args, kwargs) if below else args[0].clone()
            func = rushlight.ops.aten.lift_fresh_copy.default
        else:
            result = func(*args, **kwargs)
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        self.tracer.learn(name, tensors, result)
        func = recorded or func
        node = self.tracer.create_node("call_function", func, given, options, func._opname)
        self.tracer.set_meta(node, result)
        if name.endswith("_") and not name.endswith("__"):
            self.tracer.written(args[0], node)
        if isinstance(out := kwargs.get("out"), Tensor):
            self.tracer.written(out, node)
        self.track(result, node)
        return result

    def track(self, result: Any, node: Node) -> None:
        """Give the parts of a result their nodes."""
        if isinstance(result, Tensor):
            self.tracer.track(result, node)
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                if isinstance(part, (Tensor, tuple, list)):
                    item = self.tracer.create_node(
                        "call_function", rushlight.fx.node.operator.getitem, (node, i), {}
                    )
                    self.tracer.set_meta(item, part)
                    self.track(part, item)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: a tracer's."""
        return True


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The innermost tracing mode that is on, or None.

    >>> get_proxy_mode() is None
    True
    """
    return next(
        (m for m in reversed(thread.dispatch_modes) if isinstance(m, ProxyTorchDispatchMode)), None
    )


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """A block whose operators become no nodes."""
    before = thread.dispatch_modes
    thread.dispatch_modes = tuple(m for m in before if not isinstance(m, ProxyTorchDispatchMode))
    try:
        yield
    finally:
        thread.dispatch_modes = before


def names_of(function: Callable, n: int) -> list[str]:
    """The names of the `n` arguments of a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(function, Module):
        code = type(function).forward.__code__
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return [f"arg{i}" for i in range(n)]
    names = [*code.co_varnames[: code.co_argcount]]
    if inspect.ismethod(inspect.unwrap(function)) or isinstance(function, Module):
        names = names[1:]
    return names[:n] if len(names) >= n else [f"arg{i}" for i in range(n)]


def make_fx(
    f: Callable, decomposition_table: dict | None = None, tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False,
    record_module_stack: bool = False, _error_on_data_dependent_ops: bool = True, **_: Any,
) -> Callable[..., GraphModule]:  # fmt: skip
    """A function that traces `f` on its arguments, and gives a module of the operators that `f` calls below autograd.

    `decomposition_table`: {operator: function}, in place of nodes of these operators. Gradients that `f` takes are traced
    too. `tracing_mode`: "real" runs `f` on the tensors given, "fake" on fake ones, "symbolic" on fake ones of several
    sizes, so that the graph computes with the sizes of its inputs (Note [Symbolic sizes] in symbolic_shapes.py).

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> traced = make_fx(lambda x: x.sin().sum())(torch.ones(3))
    >>> [str(node.target) for node in traced.graph.nodes]
    ['x_1', 'aten.sin.default', 'aten.sum.default', 'output']
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(
            f'tracing_mode must be one of "real", "fake", "symbolic", got {tracing_mode}'
        )

    def once(*args: Any) -> GraphModule:
        fake = maybe_get_fake_mode(args)
        if tracing_mode != "real":
            fake = fake or FakeTensorMode(allow_non_fake_inputs=_allow_non_fake_inputs)
            args = pytree.tree_map_only(Tensor, fake.from_tensor, args)
        tracer = PythonKeyTracer(fake)
        mode = ProxyTorchDispatchMode(
            tracer, tracing_mode, decomposition_table, _error_on_data_dependent_ops
        )
        names = names_of(f, len(args))
        in_spec = pytree.tree_structure(args)
        inputs = []
        for name, arg in zip(names, args, strict=True):
            for k, leaf in enumerate(pytree.tree_leaves(arg)):
                node = tracer.create_node("placeholder", f"{name}_{k + 1}", (), {})
                inputs.append(node)
                if isinstance(leaf, Tensor):
                    tracer.track(leaf, node)
                tracer.set_meta(node, leaf)
        with contextlib.nullcontext() if fake is None else fake, mode:
            result = f(*args)
        found, out_spec = pytree.tree_flatten(result)
        nodes = [tracer.create_arg(leaf) for leaf in found]
        whole = pytree.tree_unflatten(nodes, out_spec)
        returns = getattr(f, "__annotations__", {}).get("return")
        if any(not child.is_leaf() for child in in_spec.children_specs):
            tracer.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec))
            whole, returns = nodes, None
        tracer.create_node("output", "output", (whole,), {}, type_expr=returns)
        return GraphModule(tracer.root, tracer.graph, name_of(f))

    if tracing_mode != "symbolic":
        return once
    from rushlight.fx.experimental.symbolic_shapes import traced_at_sizes

    return functools.partial(traced_at_sizes, once)


def name_of(f: Any) -> str:
    """The class name of a module that was traced from a function."""
    return f.__class__.__name__ if isinstance(f, Module) else getattr(f, "__name__", "make_fx")
