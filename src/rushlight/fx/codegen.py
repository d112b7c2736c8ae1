"""Python code of a graph: the text of `forward`, and the objects that it names."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import rushlight
from rushlight.fx.known_names import KNOWN
from rushlight.fx.names import qualified_name, spelled_from_torch, type_name
from rushlight.fx.node import Node, map_arg
from rushlight.utils import _pytree as pytree
from rushlight.utils._dtype_abbrs import dtype_abbrs

if TYPE_CHECKING:
    from rushlight.fx.namespace import Namespace

__all__ = ["CodeGen", "PythonCode"]

# Functions of `operator` that are written as operators.
OPERATORS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}",
    "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}  # fmt: skip
IN_PLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


@dataclass
class PythonCode:
    """The source of `forward`, the values of its global names, and the node of each line."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)


class _PyTreeInfo(NamedTuple):
    """How the arguments of a module are trees of the graph's inputs, and its result one of the outputs."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def _format_target(base: str, target: str) -> str:
    """`self.layer`, `getattr(self.layers, "0")`."""
    import json  # a path with other parts than names is rare

    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f"getattr({base}, {json.dumps(part)})"
    return base


def _named(name: str) -> str:
    """The name of a parameter. A graph may come from a file: what is no name would become code."""
    if not name.isidentifier():
        raise ValueError(f"a graph has a parameter or an argument {name!r}, which is no name")
    return name


def _last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """{node: the nodes that are used there for the last time}, itself if it is not used at all."""
    last: dict[Node, Node] = {}
    found: dict[Node, list[Node]] = {}

    def use(n: Node, user: Node) -> None:
        if n not in last:
            last[n] = user
            found.setdefault(user, []).append(n)

    for node in reversed(list(nodes)):
        map_arg(node.args, lambda n, user=node: use(n, user))
        map_arg(node.kwargs, lambda n, user=node: use(n, user))
    return found


class _Writer:
    """Writes the lines of one graph."""

    def __init__(self, namespace: Namespace, root_module: str, verbose: bool) -> None:
        self.namespace, self.root, self.verbose = namespace, root_module, verbose
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.parameters: list[str] = []
        self.returned = ""
        self.body: list[str] = []
        self.line_nodes: list[int | None] = []
        self.previous_trace: str | None = None
        for name, (_, meaning) in KNOWN.items():
            self.add_global(name, meaning)

    def add_global(self, hint: str, obj: Any) -> str:
        """A name for `obj` in the code: a path below `torch`, or a global of its own."""
        path = None if obj is rushlight.device else spelled_from_torch(obj)
        if path is not None:
            return path
        hint = hint.replace(".", "_")
        if self.globals.get(hint, self) is obj:
            return hint
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    def type(self, annotation: Any) -> str:
        """An annotation as the code spells it."""
        if annotation == ():
            return "()"
        text = type_name(annotation)
        if isinstance(annotation, types.UnionType):
            return " | ".join(self.type(t) for t in annotation.__args__)
        origin = getattr(annotation, "__origin__", None)
        if origin is not None:
            if isinstance(origin, type) and type_name(annotation).startswith("typing."):
                origin = getattr(__import__("typing"), text[7:].partition("[")[0], origin)
            base = self.add_global(text.partition("[")[0], origin)
            args = [self.type(a) for a in getattr(annotation, "__args__", ())]
            return f"{base}[{', '.join(args)}]" if args else base
        return self.add_global(text, annotation)

    def argument(self, a: Any) -> str:
        """An argument as the code spells it."""
        if isinstance(a, Node):
            return repr(a)
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                cls = self.add_global(type_name(type(a)), type(a))
                return f"{cls}({', '.join(self.argument(x) for x in a)})"
            if type(a) is not tuple:
                return repr(a)
            inner = ", ".join(self.argument(x) for x in a)
            return f"({inner},)" if len(a) == 1 else f"({inner})"
        if isinstance(a, list):
            return f"[{', '.join(self.argument(x) for x in a)}]"
        if isinstance(a, dict):
            inner = ", ".join(f"{self.argument(k)}: {self.argument(v)}" for k, v in a.items())
            return "{" + inner + "}"
        if isinstance(a, slice):
            return "slice({}, {}, {})".format(*map(self.argument, (a.start, a.stop, a.step)))
        if isinstance(a, enum.Enum):
            return f"{self.add_global(type_name(type(a)), type(a))}.{a.name}"
        if callable(a) and hasattr(a, "__name__") and not isinstance(a, rushlight.nn.Module):
            return self.add_global(qualified_name(a), a)
        return repr(a)

    def arguments(self, args: tuple, kwargs: dict) -> str:
        """`a, b, key = c`."""
        named = [f"{_named(k)} = {self.argument(v)}" for k, v in kwargs.items()]
        return ", ".join([*map(self.argument, args), *named])

    # -------------------------------------------------------------------------- one node

    def node(self, node: Node, codegen: CodeGen) -> str | None:
        """The statement of a node; a placeholder becomes a parameter."""
        kind = f" : {self.type(node.type)}" if node.type is not None else ""
        value = node.meta.get("val") if self.verbose and not node.graph.sizes_vary else None
        if isinstance(value, rushlight.Tensor) and value.dtype in dtype_abbrs:
            sizes = ", ".join(map(str, value.shape))
            kind = f': "{dtype_abbrs[value.dtype]}[{sizes}]"'
        if node.op == "placeholder":
            default = f" = {self.argument(node.args[0])}" if node.args else ""
            raw = _named(str(node.target).replace("*", ""))
            self.parameters.append(f"{node.target}{kind}{default}")
            return f"{node!r} = {raw}" if raw != repr(node) else None
        if node.op == "output":
            if node.type is not None:
                self.returned = f" -> {self.type(node.type)}"
            return codegen._output(node.args[0], self.argument)
        head = f"{node!r}{kind} = "
        if node.op == "get_attr":
            return head + _format_target(self.root, str(node.target))
        if node.op == "call_module":
            called = _format_target(self.root, str(node.target))
            return f"{head}{called}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            called = _format_target(self.argument(node.args[0]), str(node.target))
            return f"{head}{called}({self.arguments(node.args[1:], node.kwargs)})"
        return self.function(node, head)

    def function(self, node: Node, head: str) -> str:
        """The statement of a `call_function` node."""
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator" and not node.kwargs:
            args = [self.argument(a) for a in node.args]
            if name in OPERATORS:
                return head + OPERATORS[name].format(*args)
            if name in IN_PLACE:
                return f"{IN_PLACE[name].format(*args)};  {head}{args[0]}"
        called = self.add_global(qualified_name(node.target), node.target)
        attribute = node.args[1] if len(node.args) == 2 else None
        if called == "getattr" and isinstance(attribute, str) and attribute.isidentifier():
            return head + _format_target(self.argument(node.args[0]), attribute)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(called)
        return f"{head}{called}({self.arguments(node.args, node.kwargs)})"

    def comment(self, node: Node) -> None:
        """In verbose code, the line of the program that a node comes from."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return
        trace = node.stack_trace or ""
        if trace == self.previous_trace:
            return
        self.previous_trace = trace
        where = _last_frame(trace)
        text = f"# File: {where}" if where else "# No stacktrace found for following nodes"
        lines = ["", text] if self.body else [text]
        self.body += lines
        self.line_nodes += [None for _ in lines]

    def write(self, nodes: list[Node], codegen: CodeGen) -> None:
        """Write all nodes; a value that is not needed any more is deleted at once."""
        last = _last_uses(nodes)
        for index, node in enumerate(nodes):
            self.comment(node)
            statement = self.node(node, codegen)
            if node.op == "placeholder":
                if statement is not None:
                    self.body.append(statement)
                    self.line_nodes.append(index)
                continue
            if statement is None:
                continue
            if node.op != "output":
                done = [repr(n) for n in last.get(node, ())]
                if not node.users:
                    done.append(repr(node))
                if done:
                    statement += f";  {' = '.join(done)} = None"
            self.body.append(statement)
            self.line_nodes.append(index)


def _last_frame(trace: str) -> str | None:
    found = re.findall(r'File "(.+?)", line (\d+), in (\S+)\n\s*([^\n]*)', trace)
    if not found:
        return None
    file, line, function, code = found[-1]
    return f"{file}:{line} in {function}, code: {code.strip()}"


class CodeGen:
    """Writes the code of graphs whose inputs are the parameters of `forward`."""

    def __init__(self, body_transformer: Callable | None = None) -> None:
        self._body_transformer = body_transformer
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The head of `forward`, and the lines that take its arguments apart."""
        parameters = list(free_vars)
        if not parameters or parameters[0].split(" ")[0] != "self":
            parameters.insert(0, "self")
        return f"def {self._func_name}({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """The statement that returns."""
        return f"return {output_args!r}"

    def _output(self, value: Any, spell: Callable[[Any], str]) -> str:
        if type(self).generate_output is not CodeGen.generate_output:
            return self.generate_output(map_arg(value, lambda n: n))
        return f"return {spell(value)}"

    def process_inputs(self, *args: Any) -> Any:
        """What the placeholders get for the arguments of `forward`."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What `forward` returns for the value of the output."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the code uses besides those of its nodes."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *,
        verbose: bool = False,
    ) -> PythonCode:  # fmt: skip
        writer = _Writer(namespace, root_module, verbose)
        for name, obj in self.additional_globals():
            writer.add_global(name, obj)
        writer.write(list(nodes), self)
        body = [line + "\n" for line in writer.body] or ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(writer.parameters, writer.returned)
        source = f"\n{wraps}\n\n{head}\n" + "".join(
            f"    {line}" if line.strip() else line for line in "".join(body).splitlines(True)
        )
        first = source.count("\n", 0, source.index(head) + len(head)) + 1
        lines = {first + i + 1: index for i, index in enumerate(writer.line_nodes)}
        return PythonCode(source + "    ", writer.globals, lines)


class _PyTreeCodeGen(CodeGen):
    """Writes code whose arguments are trees of the graph's inputs."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_flatten(inputs)[0]

    def process_outputs(self, out: Any) -> Any:
        """The tree of the outputs."""
        if not isinstance(out, (list, tuple)):
            out = [out]
        if self.pytree_info.out_spec is None:
            raise AssertionError("the form of the outputs is not known")
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The head of `forward`, and the line that flattens its arguments."""
        names = list(self.pytree_info.orig_args)
        bound = bool(names) and names[0] == "self"
        head = super().gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return head
        bare = [re.split(r"\s*[:=]", v)[0].strip() for v in free_vars]
        given = ", ".join(names[1:] if bound else names)
        line = f"{', '.join(bare)}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"
        return f"{head}\n    {line}"

    def _output(self, value: Any, spell: Callable[[Any], str]) -> str:
        if self.pytree_info.out_spec is None:
            return super()._output(value, spell)
        return f"return pytree.tree_unflatten({spell(value)}, self._out_spec)"

    def __deepcopy__(self, memo: dict) -> _PyTreeCodeGen:
        made = type(self)(self.pytree_info)
        made._body_transformer = self._body_transformer
        return made
