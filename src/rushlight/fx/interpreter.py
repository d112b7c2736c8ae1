"""`torch.fx.Interpreter` runs a graph node by node; `Transformer` makes a new graph in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from rushlight.fx import traceback as fx_traceback
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.fx.node import Argument, Node, Target, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph one node after the other; subclasses change what a node does.

    `run(*inputs)` calls `run_node(node)` for each, which calls `placeholder`, `get_attr`, `call_function`,
    `call_method`, `call_module` or `output` with the target and the values of the arguments.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = graph if graph is not None else module.graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: dict[Node, Node] = {}
            for node in reversed(self.graph.nodes):
                for n in node.all_input_nodes:
                    if n not in last:
                        last[n] = node
                        self.user_to_last_uses.setdefault(node, []).append(n)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """Run the graph; nodes in `initial_env` have their values already."""
        self.env = dict(initial_env) if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_which_node(error, node)
                raise
            if self.garbage_collect_values:
                for done in self.user_to_last_uses.get(node, ()):
                    self.env.pop(done, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list: list) -> Any:
        """Run the graph on the inputs of a list, which is emptied so that they can be freed."""
        inputs = list(args_list)
        args_list.clear()
        return self.run(*inputs, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        with fx_traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The next input; `*args` takes all that are left."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(
            f"Expected positional argument for parameter {target}, but one was not passed in!"
        )

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The attribute of the module at the path `target`."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`target(*args, **kwargs)`."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The method `target` of the first argument, called with the others."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The submodule at the path `target`, called."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What is returned."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The attribute of the module at a path."""
        found: Any = self.module
        path = target.split(".")
        for i, part in enumerate(path):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(path[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """`args` with the values of nodes in their places."""

        def load(arg: Node) -> Any:
            if arg not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {arg}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[arg]

        return _plain(map_arg(args, load))


def _plain(args: Any) -> Any:
    """Arguments for a call: lists and dicts as programs write them."""
    if isinstance(args, immutable_list):
        return [_plain(a) for a in args]
    if isinstance(args, immutable_dict):
        return {k: _plain(v) for k, v in args.items()}
    return tuple(_plain(a) for a in args) if type(args) is tuple else args


def _say_which_node(error: Exception, node: Node) -> None:
    message = f"While executing {node.format_node()}"
    if node.stack_trace:
        message += f"\nOriginal traceback:\n{node.stack_trace}"
    if error.args and isinstance(error.args[0], str):
        if "While executing" not in error.args[0]:
            error.args = (f"{error.args[0]}\n\n{message}", *error.args[1:])
    elif not error.args:
        error.args = (message,)


class Transformer(Interpreter):
    """Makes a new GraphModule by running a graph with proxies; subclasses change what is made of each node."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            """Records into the new graph; takes every module for a leaf."""

            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.tensor_attrs = {}
                self._kept_constants = []

            def is_leaf_module(self, _: Module, __: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """A placeholder of the new graph."""
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Proxy:
        """A `get_attr` node of the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a submodule in the new graph."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(
                map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            )
            old, new = self.graph.output_node(), self.new_graph.output_node()
            new.meta = dict(old.meta)
        return _new_module(self.module, self.new_graph)


def _new_module(module: Module, graph: Graph) -> GraphModule:
    made = GraphModule(module, graph)
    made.meta = dict(getattr(module, "meta", {}))
    return made
