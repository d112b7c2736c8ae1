"""`torch.fx.GraphModule`: a module whose `forward` is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.codegen import PythonCode, _PyTreeCodeGen
from rushlight.fx.graph import Graph
from rushlight.fx.known_names import KNOWN
from rushlight.nn import Module, Parameter
from rushlight.nn.hooks import call_with_hooks

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


# -- code ------------------------------------------------------------------------------------------


def _exec(source: str, globals: dict[str, Any], co_fields: dict | None = None) -> None:
    """Run generated source, whose lines tracebacks show."""
    file = f"<eval_with_key>.{next(_numbers)}"
    if co_fields and co_fields.get("co_filename"):
        file += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec", dont_inherit=True), globals)


def _forward_from(
    source: str, globals: dict[str, Any], co_fields: dict | None = None
) -> FunctionType:
    scope = dict(globals)
    _exec(source, scope, co_fields)
    made = scope["forward"]
    del scope["forward"]
    return made


def _import_statement(name: str, obj: Any) -> str:
    if name in KNOWN and KNOWN[name][1] is obj:
        return KNOWN[name][0]
    module, attribute = getattr(obj, "__module__", None), getattr(obj, "__name__", None)
    if isinstance(obj, type(sys)):
        return f"import {obj.__name__} as {name}"
    if getattr(obj, "__module__", None) == "typing" or (module or "").startswith("typing"):
        module, attribute = "typing", getattr(obj, "_name", None) or attribute or repr(obj)[7:]
    found: Any = sys.modules.get(module or "")
    path = getattr(obj, "__qualname__", attribute) or ""
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is obj and "." not in path:
        attribute = path
    if module is None or attribute is None or "<" in path:
        raise RuntimeError(
            f"generated code cannot import {obj!r}: it is not at the top of a module"
        )
    return f"from {module} import {attribute} as {name}"


def _import_block(globals: dict[str, Any]) -> str:
    return "\n".join(sorted({_import_statement(name, obj) for name, obj in globals.items()}))


# -- attributes by path ----------------------------------------------------------------------------


def _copy_attr(source: Module, target: Module, path: str) -> None:
    """Put the attribute at a path of `source` at the same path of `target`."""
    *prefix, field = path.split(".")
    for part in prefix:
        inner = getattr(source, part)
        own = getattr(target, part, None)
        if own is inner:  # the whole submodule is there already
            return
        if own is None:
            own = Module()
            setattr(target, part, own)
        source, target = inner, own
    value = getattr(source, field)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


def _assign_attr(value: Any, target: Module, path: str) -> None:
    """Set the attribute at a path of `target`."""
    *prefix, field = path.split(".")
    for part in prefix:
        inner = getattr(target, part, None)
        if inner is None:
            inner = Module()
            setattr(target, part, inner)
        target = inner
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(field, value)
    else:
        setattr(target, field, value)


# -- pickles and copies ----------------------------------------------------------------------------


class _CodeOnlyModule(Module):
    """A module with the attributes of another and code from a pickle; tracing it gives the graph again."""

    def __init__(self, body: dict) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Module:
    """Make a GraphModule from what its pickle holds: attributes and code."""
    forward = _forward_from(import_block + body["_code"], {})
    return _deserialize(forward, body)


def _deserialize(forward: Callable, body: dict, graph_module_cls: type | None = None) -> Module:
    from rushlight.fx._symbolic_trace import Tracer

    body = dict(body)
    tracer_cls = body.pop("_tracer_cls", None) or Tracer
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    code_only = _CodeOnlyModule(body)
    type_ = type(name, (_CodeOnlyModule,), {"forward": forward})
    code_only.__class__ = type_

    class KeepModules(tracer_cls):  # type: ignore[misc, valid-type]
        """Takes every submodule for a leaf."""

        def is_leaf_module(self, _: Module, __: str) -> bool:
            return True

    graph = KeepModules(*(body.pop("_tracer_extras", None) or {})).trace(code_only)
    graph._tracer_cls = tracer_cls
    made = (graph_module_cls or GraphModule)(code_only, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    made.meta = body.get("meta", {})
    return made


class _WrappedCall:
    """Calls the generated `forward`; an error in it shows the generated code around its line."""

    def __init__(self, cls: type, cls_call: Callable | None) -> None:
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _code_around(frame: traceback.FrameSummary) -> str:
        number = frame.lineno or 0
        lines = linecache.getlines(frame.filename)
        before = "".join(lines[max(0, number - 3) : number])
        marker = "~" * len(lines[number - 1].rstrip()) if 0 < number <= len(lines) else ""
        after = "\n".join(line.rstrip("\n") for line in lines[number : number + 2])
        head = traceback.format_exc().strip()
        return "\n".join([
            head,
            f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:",
            before + marker + "~~~ <--- HERE",
            after,
        ])  # fmt: skip

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            generated = [f for f in frames if "eval_with_key" in f.filename]
            if generated and _raised_by(list(frames), generated[-1]):
                print(self._code_around(generated[-1]), file=sys.stderr)
            raise


def _raised_by(frames: list, generated: Any) -> bool:
    """Whether a function that the generated line calls has raised, and no module that it calls."""
    after = frames[frames.index(generated) + 1 :]
    return not any(f.filename in _CALLS_OF_MODULES for f in after)


_CALLS_OF_MODULES = frozenset(inspect.getfile(f) for f in (Module.__call__, call_with_hooks))


class GraphModule(Module):
    """A module made of a graph: its `forward` is Python code generated from it.

    `graph` may be edited; then `recompile()` makes the code anew. `code` shows it. Modules and tensors that the
    graph names are taken from `root`, a module or a dict.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # A class for each module: the code is a function of the class.
        own = next(c for c in cls.__mro__ if "GraphModuleImpl" not in c.__qualname__)
        made = type(
            "GraphModuleImpl", (own,), {"__qualname__": f"{own.__qualname__}.GraphModuleImpl"}
        )
        made.__module__ = own.__module__
        return super().__new__(made)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                _copy_attr(root, self, str(target))
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda t: str(t).count(".")):
                _assign_attr(root[target], self, str(target))
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Callable] = []
        self._create_node_hooks: list[Callable] = []
        self._erase_node_hooks: list[Callable] = []

    __jit_unused_properties__ = ["graph"]

    # ----------------------------------------------------------------------------- the graph

    @property
    def graph(self) -> Graph:
        """The graph; assigning one makes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated code."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug.")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate the code of `forward` from the graph as it is now."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        cls = type(self)
        cls.forward = _forward_from(self._code, python_code.globals, self._graph._co_fields)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))

            def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
                return cls._wrapped_call(self, *args, **kwargs)

            # for torch.compile: without the report of where an error is from
            call_wrapped._without_report = cls._wrapped_call.cls_call or Module.__call__  # type: ignore[attr-defined]
            cls.__call__ = call_wrapped
        return python_code

    # ---------------------------------------------------------------------------- submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, making the modules on the way; False if something else stands there."""
        *prefix, field = target.split(".")
        at: Any = self
        for part in prefix:
            inner = getattr(at, part, None)
            if inner is None:
                inner = Module()
                setattr(at, part, inner)
            if not isinstance(inner, Module):
                return False
            at = inner
        at.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; False if there is none."""
        *prefix, field = target.split(".")
        at: Any = self
        for part in prefix:
            at = getattr(at, part, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, field, None), Module):
            return False
        delattr(at, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that no node of the graph names, and no named one needs."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            path = str(node.target).split(".")
            used.update(".".join(path[:i]) for i in range(1, len(path) + 1))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    inner = self.get_submodule(str(node.target))
                    used.update(f"{node.target}.{n}" for n, _ in inner.named_modules() if n)
        unused = [name for name, _ in self.named_modules() if name and name not in used]
        for name in unused:
            self.delete_submodule(name)

    # --------------------------------------------------------------------------------- text

    def __str__(self) -> str:
        shown = super().__str__()
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([shown, self._code, hint])

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, **options: Any,
    ) -> str:  # fmt: skip
        """Print the code of this module and of graph modules in it, with the lines of the program beside it."""
        text = self._readable(self._get_name()).rstrip("\n") + "\n"
        if print_output:
            print(text)
        return text

    def _readable(self, name: str) -> str:
        code = self._graph.python_code(root_module="self", verbose=True).src
        lines = [
            f"class {name}(torch.nn.Module):",
            *("    " + x for x in code.strip("\n").splitlines()),
        ]
        text = "\n".join(line.rstrip() for line in lines) + "\n"
        for inner_name, inner in self.named_children():
            if isinstance(inner, GraphModule):
                block = inner._readable(inner_name).splitlines()
                text += "\n" + "\n".join(("    " + b).rstrip() for b in block) + "\n"
        return text

    # --------------------------------------------------------------------- copies and pickles

    def __reduce__(self) -> tuple:
        body = self.__dict__.copy()
        graph = body.pop("_graph")
        for name in ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks"):
            body.pop(name, None)
        body["_graphmodule_cls_name"] = self.__class__.__name__
        block = _import_block(graph.python_code(root_module="self").globals)
        return reduce_graph_module, (body, block)

    def __deepcopy__(self, memo: dict) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        body = copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_graph"}, memo)
        graph = copy.deepcopy(self._graph, {})
        GraphModule.__init__(made, _CodeOnlyModule(body), graph, type(self).__name__)
        for key, value in body.items():
            if key.endswith("hooks") or key not in made.__dict__:
                made.__dict__[key] = value
        made.meta = dict(body.get("meta", {}))
        made._tracer_cls = self._tracer_cls
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = self.__copy__()
        made.training = self.training
        return made

    def to_folder(self, folder: str | os.PathLike, module_name: str = "FxModule") -> None:
        """Write the module as a Python package: `from folder import FxModule`; tensors go into files beside it."""
        from pathlib import Path

        folder = Path(folder)
        folder.mkdir(exist_ok=True, parents=True)
        rushlight.save(self.state_dict(), folder / "state_dict.pt")
        code = self._code.strip("\n").replace("\n", "\n    ")
        globals = self._graph.python_code(root_module="self").globals
        body = f"\n{_import_block(globals)}\n\nfrom rushlight.nn import *\n\nclass {module_name}(torch.nn.Module):\n"
        body += "    def __init__(self):\n        super().__init__()\n"
        blobs = []
        for name, module in self.named_children():
            file = folder / f"{name}.pt"
            rushlight.save(module, file)
            blobs.append(name)
            body += f"        self.{name} = torch.load(r'{file}', weights_only=False) # {module._get_name()}\n"
        for name, buffer in self._buffers.items():
            if buffer is not None:
                body += (
                    f"        self.register_buffer('{name}', "
                    f"torch.empty({list(buffer.shape)}, dtype={buffer.dtype}))\n"
                )
        for name, parameter in self._parameters.items():
            if parameter is not None:
                body += (
                    f"        self.{name} = torch.nn.Parameter("
                    f"torch.empty({list(parameter.shape)}, dtype={parameter.dtype}))\n"
                )
        body += (
            f"        self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))\n\n    {code}\n"
        )
        (folder / "module.py").write_text(body)
        (folder / "__init__.py").write_text("from .module import *\n")
        if blobs:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled files instead: "
                f"{blobs}",
                stacklevel=2,
            )

    # -------------------------------------------------------------------------------- hooks

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable) -> Iterator[None]:
        self._replace_hooks.append(f)
        try:
            yield
        finally:
            self._replace_hooks.remove(f)
