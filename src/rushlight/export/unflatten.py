"""`unflatten`: an exported program as a tree of modules like the one that was exported.

The nodes of one call of a module become the graph of a submodule, which takes the values that come from outside.
The meta `nn_module_stack` of a node says which calls it is in.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, groupby
from operator import getitem
from typing import Any

from rushlight.export.exported_program import ExportedModule, ExportedProgram
from rushlight.export.graph_signature import InputKind
from rushlight.fx.graph import Graph
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_arg
from rushlight.nn import Module

__all__ = ["InterpreterModule", "UnflattenedModule", "unflatten"]


class InterpreterModule(Module):
    """A module that runs `graph` node by node."""

    def __init__(self, graph: Graph | None = None) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *args: Any) -> Any:
        """Run the graph."""
        if self.graph is None:
            raise NotImplementedError("the exported program does not call this module")
        return Interpreter(self, graph=self.graph).run(*args)


class UnflattenedModule(ExportedModule):
    """What `unflatten` returns: the names of its submodules, parameters and buffers are those of the program's module.

    A module that is called several times, and does something else then, has a submodule for each: `layer`, `layer@1`.
    """

    part = InterpreterModule
    train = Module.train

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program, check_guards=True)
        tensors = {
            s.arg.name: s.target
            for s in program.graph_signature.input_specs
            if s.kind is not InputKind.USER_INPUT
        }
        nodes = list(program.graph.nodes)
        calls, outer = {}, ("",)
        for node in reversed(nodes):  # a node of a size is in the calls of what it is for
            paths = tuple(path for path, _ in node.meta.get("nn_module_stack", {}).values())
            calls[node] = outer = paths or outer
        users = [n for n in nodes if n.op == "placeholder" and n.name not in tensors]
        inner = [n for n in nodes if n.op not in ("placeholder", "output")]
        results = program.graph.output_node().args[0]
        self.graph = _Call(self, "", 1, calls, tensors).graph(inner, users, results)

    def _results(self, users: list) -> Any:
        return Interpreter(self, graph=self.graph).run(*users)


class _Call:
    """Makes the graph of a call of the module at `path`, and of the calls in it.

    `depth`: how many calls it is in, with itself; `calls`: the paths of the calls that each node is in, outermost
    first; `tensors`: {name of a placeholder: path}.
    """

    def __init__(self, root: Module, path: str, depth: int, calls: dict, tensors: dict) -> None:
        self.root, self.depth, self.calls, self.tensors = root, depth, calls, tensors
        self.below = f"{path}." if path else ""
        self.made = Graph()
        self.here: dict[Node, Node] = {}  # values of the program -> nodes of this graph

    def graph(self, nodes: list[Node], inputs: Iterable[Node], results: Any) -> Graph:
        """The graph of `nodes`, which takes `inputs` and gives `results`."""
        for node in inputs:
            self.here[node] = self.made.placeholder(f"arg_{len(self.here)}")
        for path, group in groupby(nodes, self._called):
            if path is not None:
                self._add_call(path, list(group))
                continue
            for node in group:
                args, kwargs = map_arg((node.args, node.kwargs), self._value)
                self.here[node] = self._add(node.op, node.target, args, kwargs)
        self.made.output(map_arg(results, self._value))
        return self.made

    def _called(self, node: Node) -> str | None:
        """The call of a module below this one that a node is in."""
        path = next(iter(self.calls[node][self.depth :]), None)
        return path if path is not None and path.startswith(self.below) else None

    def _add(self, op: str, target: Any, args: tuple, kwargs: dict | None = None) -> Node:
        name = getattr(getattr(target, "overloadpacket", None), "__name__", None)
        return self.made.create_node(op, target, args, kwargs, name)

    def _value(self, node: Node) -> Node:
        """The node here of a value of the program; an attribute is read where it is used first."""
        if node not in self.here:
            self.here[node] = self.made.get_attr(self.tensors[node.name].removeprefix(self.below))
        return self.here[node]

    def _add_call(self, path: str, nodes: list[Node]) -> None:
        """Call the submodule in whose call at `path` all `nodes` are."""
        plain, inside = path.partition("@")[0], set(nodes)
        call = _Call(self.root, plain, self.depth + 1, self.calls, self.tensors)
        inputs = {
            given: None
            for node in nodes
            for given in node.all_input_nodes
            if given not in inside and not self._reads(given).startswith(call.below)
        }
        outputs = [n for n in nodes if not inside.issuperset(n.users)]
        graph = call.graph(nodes, inputs, outputs[0] if len(outputs) == 1 else tuple(outputs))
        name = self._placed(plain, graph).removeprefix(self.below)
        made = self._add("call_module", name, tuple(map(self._value, inputs)))
        for nr, node in enumerate(outputs):
            one = len(outputs) == 1
            self.here[node] = made if one else self._add("call_function", getitem, (made, nr))

    def _reads(self, node: Node) -> str:
        return self.tensors.get(node.name, "")

    def _placed(self, path: str, graph: Graph) -> str:
        """The path of the module that runs `graph`: that of an earlier call, if it does the same."""
        above, _, name = path.rpartition(".")
        owner: Any = _made(self.root, above)
        first = _made(self.root, path)
        for nr in count():
            at = f"{name}@{nr}" if nr else name
            module = owner._modules.get(at)
            if module is None:
                module = InterpreterModule()
                for kept in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                    setattr(module, kept, getattr(first, kept))
                owner.add_module(at, module)
            if module.graph is None or str(module.graph) == str(graph):
                module.graph = graph
                return f"{above}.{at}" if above else at
        raise AssertionError


def _made(root: Module, path: str) -> Any:
    """The module at a path, made where there is none."""
    for name in filter(None, path.split(".")):
        if name not in root._modules:
            root.add_module(name, InterpreterModule())
        root = root._modules[name]  # type: ignore[assignment]
    return root


def unflatten(module: ExportedProgram, flat_args_adapter: None = None) -> UnflattenedModule:
    """A module with submodules as the exported one had; each runs its part of the graph.

    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), (torch.ones(1, 3),))
    >>> [name for name, _ in torch.export.unflatten(program).named_modules()]
    ['', '0', '1']
    """
    if flat_args_adapter is not None:
        raise NotImplementedError("unflatten: flat_args_adapter")
    if any(True for _ in module.graph_module.children()):
        raise NotImplementedError("unflatten: a program that calls cond")
    return UnflattenedModule(module)
