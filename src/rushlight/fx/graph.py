"""`torch.fx.Graph`: a program as a list of nodes."""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.fx.codegen import CodeGen, PythonCode
from rushlight.fx.codegen import _PyTreeCodeGen as _PyTreeCodeGen  # where programs import it from
from rushlight.fx.codegen import _PyTreeInfo as _PyTreeInfo
from rushlight.fx.namespace import Namespace
from rushlight.fx.node import Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from rushlight.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode", "map_arg"]

_Namespace = Namespace
_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def _name_of_target(target: Target) -> str:
    """The name that a node gets from its target: in snake case, without underscores around it."""
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    if isinstance(target, str) and name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return _in_snake_case(name)


@lru_cache(1024)
def _in_snake_case(name: str) -> str:
    return _CAPITAL.sub(r"_\1", name).lower()


class _InsertPoint:
    """The block of `with graph.inserting_before(node)`."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


class _node_list:
    """The nodes of a graph in order, while they may be erased and inserted; `reversed` works too."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """A list of nodes: inputs, calls in the order in which they run, one output.

    >>> import rushlight as torch
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> graph.output(graph.call_function(torch.relu, (x,)))
    output
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self, owning_module: GraphModule | None = None, tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen: CodeGen = CodeGen()
        self.sizes_vary = False  # then those of `meta["val"]` are of one example
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose graph it is; None if there are several."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """All nodes, in order."""
        return _node_list(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one operation and, where it is given, of one target."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node of what is returned."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def _renamed_in_owner(self, old: Node, new: Node, user: Node) -> None:
        hooks = getattr(self.owning_module, "_replace_hooks", None)
        for hook in hooks or ():
            hook(old=old, new=new.name, user=user)

    # ------------------------------------------------------------------------- insertion

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node at the insert point; the node is called `name` if that is free."""
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else _name_of_target(target)
        node = Node(
            self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs,
            type_expr,
        )  # fmt: skip
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        return node

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Add an input."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a node for an attribute of the module, by its path."""
        self._warn_of_missing("get_attr", "parameter or buffer", qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def _warn_of_missing(self, op: str, kind: str, path: str) -> None:
        if self.owning_module is not None and _found(self.owning_module, path) is None:
            warnings.warn(
                f"Attempted to insert a {op} Node with no underlying reference in the owning GraphModule! Call "
                f"GraphModule.add_submodule to add the necessary submodule, or register the {kind} first",
                stacklevel=3,
            )

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a call of a submodule, by its path."""
        self._warn_of_missing("call_module", "submodule", module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a call of a method of `args[0]`."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the node of what is returned."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """`with graph.inserting_before(node):` new nodes go before `node`; None: to the start."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """`with graph.inserting_after(node):` new nodes go after `node`, in order; None: to the end."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        after = n

        def insert(new: Node) -> None:
            nonlocal after
            after.append(new)
            after = new

        return _InsertPoint(self, insert)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    # ----------------------------------------------------------------------------- copies

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Copy a node of another graph to here; `arg_transform` says what its arguments are here."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copy all nodes of `g` to here, but its output, whose value is returned.

        `val_map`, {node there: node here}, is filled; a node that is in it is not copied.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        val_map: dict[Node, Node] = {}
        result = made.graph_copy(self, val_map, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        made.sizes_vary = self.sizes_vary
        if result is not None:
            value, old = result
            made.output(value, type_expr=getattr(old, "type", None)).meta = copy.copy(old.meta)
        memo.update(val_map)
        return made

    # ----------------------------------------------------------------------------- checks

    def lint(self) -> None:
        """RuntimeError or ValueError if the graph is not well formed: order, names, uses, targets."""
        seen_names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for n in node.all_input_nodes:
                if n.graph is not self:
                    raise RuntimeError(
                        f"Argument '{n}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` "
                        "on node_copy() to remap values\n" + str(self)
                    )
                if n not in seen:
                    raise RuntimeError(
                        f"Argument '{n}' of Node '{node}' was used before it has been defined! Please check that "
                        "Nodes in the graph are topologically ordered\n" + str(self)
                    )
            if node.name in seen_names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            seen_names.add(node.name)
            for user in node.users:
                if node not in user._input_nodes:
                    raise RuntimeError(f"Node {node} is not an input of its user {user}")
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_target(self.owning_module, node)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the nodes that nobody uses and that have no effect; says whether there were any."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not impure(node) and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    # ------------------------------------------------------------------------------- text

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as a Python function `forward`; `root_module` is the name of its `self`."""
        namespace = Namespace()

        def in_code(node: Node) -> str:
            return namespace.create_name(node.name, node)

        before = {node: node._repr_fn for node in self.nodes}
        try:
            for node in before:
                node._repr_fn = in_code
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose
            )
        finally:
            for node, repr_fn in before.items():
                node._repr_fn = repr_fn

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show; None, so that they show the text, where the extra `viz` is missing."""
        from rushlight import viz

        try:
            return viz.graph(self).svg
        except ImportError:
            return None

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    def print_tabular(self) -> None:
        """Print the nodes as a table; needs the package `tabulate`."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. "
                "Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    # ------------------------------------------------------------------- inputs and outputs

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set what writes the code and handles inputs and outputs."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable) -> Any:
        """Register a change of the generated code: `make_transformer(current)` returns a function of lines."""
        before = getattr(self._codegen, "_body_transformer", None)
        self._codegen._body_transformer = make_transformer(before)
        graph = self

        class Undo:
            """Undoes the registration at the end of a `with` block."""

            def __enter__(self) -> Undo:
                return self

            def __exit__(self, *exception: object) -> None:
                graph._codegen._body_transformer = before

        return Undo()

    def process_inputs(self, *args: Any) -> Any:
        """What the placeholders get for the arguments of the module."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the module returns for the value of the output."""
        return self._codegen.process_outputs(out)


def _found(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _check_target(module: Any, node: Node) -> None:
    at = module
    path = str(node.target).split(".")
    for i, part in enumerate(path):
        inner = getattr(at, part, None) if hasattr(at, part) else None
        if inner is None and not hasattr(at, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of "
                f"{'.'.join(path[:i])}"
            )
        if node.op == "call_module" and not isinstance(inner, rushlight.nn.Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {'.'.join(path[: i + 1])} does not reference an nn.Module"
            )
        at = inner
