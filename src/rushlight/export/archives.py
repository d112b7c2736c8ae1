"""Reads exported programs as `torch.export.save` writes them, here and in PyTorch: a graph as JSON, and tensors as bytes.

The names are those of the module `torch._export.serde.schema` of PyTorch 2.13. Nothing in a file is executed: targets of nodes
are found by `targets.operator_named`, symbolic sizes are names, and example inputs are read as
`torch.load(weights_only=True)` reads them.
"""

from __future__ import annotations

import ast
import copy
import io
import itertools
import json
import re
from operator import getitem
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from rushlight.export.targets import operator_named
from rushlight.export.tracing import note_shapes
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.nn import Module, Parameter
from rushlight.serialization.archive import ArchiveReader, native_byte_order
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["is_archive", "read"]

MAJOR = 8  # of the schema
BETWEEN_MODULES = ";"  # in the list of the modules that a call is in
KEYWORD = 2  # the kind of an argument that is given by its name
DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
    34: "uint32", 35: "uint64",
}  # fmt: skip
FORMATS = {
    1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"
}  # fmt: skip
STRIDED = 7
INPUTS = {
    "parameter": (InputKind.PARAMETER, "parameter_name"),
    "buffer": (InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
OUTPUTS = {
    "user_output": (OutputKind.USER_OUTPUT, None),
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}
_NODES = frozenset("tensor sym_int sym_bool sym_float".split())
_PLAIN = frozenset("bool bools int int_lists ints string strings".split())
_CONTAINERS = {"builtins.tuple": tuple, "builtins.list": list}


def is_archive(archive: ArchiveReader) -> bool:
    """Whether an archive holds one of PyTorch's exported programs."""
    return "archive_format" in archive and archive.read("archive_format") == b"pt2"


def read(archive: ArchiveReader, extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """The program of an archive. RuntimeError for what Rushlight has no operator or no value for.

    The texts that were saved under the names in `extra_files` are put there.
    """
    for key in extra_files or ():
        if f"extra/{key}" in archive:
            extra_files[key] = archive.read(f"extra/{key}").decode()  # type: ignore[index]  # it has a key
    if not native_byte_order(archive):
        raise RuntimeError("this exported program has the numbers of another byte order")
    names = [n for n in archive.names() if re.fullmatch(r"models/[^/]+\.json", n)]
    if len(names) != 1:
        raise RuntimeError(f"an archive with {len(names)} exported programs; one can be read")
    content = json.loads(archive.read(names[0]))
    if content["schema_version"]["major"] != MAJOR:
        raise RuntimeError(
            f"an exported program of version {content['schema_version']['major']} of PyTorch's schema; version {MAJOR} can be read"
        )
    name = names[0][len("models/") : -len(".json")]
    module, graph = content["graph_module"], content["graph_module"]["graph"]
    state = _tensors(archive, f"data/weights/{name}_weights_config.json", "data/weights/")
    constants = _tensors(archive, f"data/constants/{name}_constants_config.json", "data/constants/")
    signature = ExportGraphSignature(
        [_input(*_one(s)) for s in module["signature"]["input_specs"]],
        [_output(*_one(s)) for s in module["signature"]["output_specs"]],
    )
    whole = next(m for m in module["module_call_graph"] if m["fqn"] == "")["signature"]
    tree, out = _tree(whole["in_spec"]), _tree(whole["out_spec"])
    in_spec, order = tree_flatten(tree)[1], tuple(tree[1])
    ranges, dynamic = _sizes(graph, signature, content["range_constraints"])
    example = rushlight.load(
        io.BytesIO(archive.read(f"data/sample_inputs/{name}.pt")), weights_only=True
    )
    leaves = tree_leaves(example)
    found = ExportedProgram(
        _module(graph, [spec.arg.name for spec in signature.input_specs]), signature, state, constants, (in_spec, order),
        tree_flatten(out)[1], ranges, tree_unflatten(leaves, in_spec), dynamic,
    )  # fmt: skip
    tried = copy.copy(found)  # the graph may write to buffers
    tried.state_dict = {k: t.detach().clone() for k, t in state.items()}
    note_shapes(tried, leaves)
    return found


# -- tensors ---------------------------------------------------------------------------------------


def _tensors(archive: ArchiveReader, config: str, folder: str) -> dict[str, Tensor]:
    """The tensors that a record lists; those of one record share memory."""
    if config not in archive:
        return {}
    found, memory, parameters = {}, {}, {}
    for name, entry in json.loads(archive.read(config))["config"].items():
        path, meta = folder + entry["path_name"], entry["tensor_meta"]
        if entry["use_pickle"] or meta["layout"] != STRIDED:
            raise RuntimeError(f"{name}: a tensor of a layout that cannot be read")
        if path not in memory:
            memory[path] = rushlight.from_numpy(archive.array(path).copy())
        shape, strides = ([_number(n) for n in meta[key]] for key in ("sizes", "strides"))
        flat = memory[path].view(_dtype(meta["dtype"]))
        t = flat.as_strided(shape, strides, _number(meta["storage_offset"]))
        known = path, *shape, *strides, t.storage_offset(), t.dtype
        if not entry["is_param"]:
            found[name] = t
        else:  # one under two names is one object
            found[name] = parameters.setdefault(known, Parameter(t, meta["requires_grad"]))
    return found


def _dtype(number: int) -> Any:
    if number not in DTYPES:
        raise RuntimeError(f"an exported program with a dtype of number {number}")
    return getattr(rushlight, DTYPES[number])


def _number(value: dict) -> int:
    kind, inner = _one(value)
    return inner if kind == "int" else inner["hint"]["as_int"]


def _sizes(graph: dict, signature: ExportGraphSignature, given: dict) -> tuple[dict, dict]:
    """({symbol: (min, max)}, {input: {dimension: (symbol, factor, offset)}}) of the sizes that vary."""
    ranges = {k: (v["min_val"], v["max_val"]) for k, v in given.items()}
    dynamic: dict[str, dict[int, tuple]] = {}
    for name in signature.user_input_names:
        for d, size in enumerate(graph["tensor_values"].get(name, {"sizes": ()})["sizes"]):
            kind, inner = _one(size)
            if kind == "expr":
                form = _form(ast.parse(inner["expr_str"], mode="eval").body)
                if form is None:
                    raise RuntimeError(
                        f"size {d} of {name} is {inner['expr_str']}, which cannot be read"
                    )
                ranges.setdefault(form[0], (0, None))
                dynamic.setdefault(name, {})[d] = form
    return ranges, dynamic


def _form(e: ast.expr) -> tuple[str, int, int] | None:
    """(symbol, factor, offset) of an expression `factor * symbol + offset` as SymPy's `srepr` writes it; None for others."""
    match e:
        case ast.Call(ast.Name("Symbol"), [ast.Constant(str(name))]):
            return name, 1, 0
        case ast.Call(ast.Name("Mul" | "Add" as kind), [one, other]):
            number, rest = (one, other) if _integer(one) is not None else (other, one)
            n, form = _integer(number), _form(rest)
            if n is None or form is None:
                return None
            name, factor, offset = form
            return (name, factor, offset + n) if kind == "Add" else (name, factor * n, offset * n)
    return None


def _integer(e: ast.expr) -> int | None:
    match e:
        case ast.Call(ast.Name("Integer"), [ast.Constant(int(n))]):
            return n
        case ast.Call(ast.Name("Integer"), [ast.UnaryOp(ast.USub(), ast.Constant(int(n)))]):
            return -n
    return None


# -- signatures ------------------------------------------------------------------------------------


def _one(value: dict) -> tuple[str, Any]:
    """The kind of a union, without `as_`, and what it holds."""
    ((kind, inner),) = value.items()
    return kind.removeprefix("as_"), inner


def _argument(value: dict) -> Any:
    kind, inner = _one(value)
    if kind == "tensor":
        return TensorArgument(inner["name"])
    return ConstantArgument("", None if kind == "none" else inner)


def _input(kind: str, spec: dict) -> InputSpec:
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument(spec["arg"]), None)
    if kind == "constant_input":
        kind, inner = _one(spec["value"])
        value = ConstantArgument(spec["name"], None if kind == "none" else inner)
        return InputSpec(InputKind.USER_INPUT, value, None)
    if kind not in INPUTS:
        raise RuntimeError(f"an exported program with an input of kind {kind!r}")
    known, target = INPUTS[kind]
    return InputSpec(
        known, TensorArgument(spec["arg"]["name"]), spec[target], spec.get("persistent")
    )


def _output(kind: str, spec: dict) -> OutputSpec:
    if kind not in OUTPUTS:
        raise RuntimeError(f"an exported program with an output of kind {kind!r}")
    known, target = OUTPUTS[kind]
    if target is None:
        return OutputSpec(known, _argument(spec["arg"]), None)
    return OutputSpec(known, TensorArgument(spec["arg"]["name"]), spec[target])


def _tree(text: str) -> Any:
    """The structure of arguments or results, with a number for each leaf."""
    version, spec = json.loads(text)
    if version != 1:
        raise RuntimeError(f"a structure of arguments of version {version}")
    count = itertools.count()

    def made(spec: dict) -> Any:
        kind, parts = spec["type"], spec["children_spec"]
        if kind is None:
            return next(count)
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](map(made, parts))
        if kind == "builtins.dict":
            return dict(zip(json.loads(spec["context"]), map(made, parts), strict=True))
        raise RuntimeError(f"arguments or results in a {kind}, which cannot be read")

    return made(spec)


# -- the graph -------------------------------------------------------------------------------------


def _module(content: dict, names: list[str] | None = None) -> GraphModule:
    """A graph, and the graphs of branches that it calls; `names`: of its inputs."""
    return _Reading(content, names).module


class _Reading:
    """A graph while its nodes are read: `nodes` by name, `parts` the graphs of branches."""

    def __init__(self, content: dict, names: list[str] | None) -> None:
        self.graph, self.parts = Graph(), Module()
        self.nodes: dict[str, Node] = {}
        for nr, value in enumerate(content["inputs"]):
            kind, inner = _one(value)
            name = _name(inner) if kind in _NODES else names[nr] if names else f"constant_{nr}"
            self.nodes[name] = self.graph.placeholder(name)
        for entry in content["nodes"]:
            self.node(entry)
        results = [self.value(v) for v in content["outputs"]]
        single = content.get("is_single_tensor_return")
        self.graph.output(results[0] if single else tuple(results))
        self.module = GraphModule(self.parts, self.graph)

    def node(self, entry: dict) -> None:
        """Add a call, and the picks of its results where it has several."""
        arguments = [(a["name"], a.get("kind"), self.value(a["arg"])) for a in entry["inputs"]]
        args = tuple(v for _, kind, v in arguments if kind != KEYWORD)
        kwargs = {name: v for name, kind, v in arguments if kind == KEYWORD}
        names = [_names(v) for v in entry["outputs"]]
        several = len(names) != 1 or entry.get("is_hop_single_tensor_return") is False
        picked = names if several else names[0] if isinstance(names[0], list) else None
        own = entry.get("name") if picked is not None else names[0]
        node = self.graph.create_node(
            "call_function", operator_named(entry["target"]), args, kwargs, own
        )
        node.stack_trace = entry["metadata"].get("stack_trace")
        if modules := entry["metadata"].get("nn_module_stack"):
            stack = (each.split(",", 2) for each in modules.split(BETWEEN_MODULES))
            node.meta["nn_module_stack"] = {key: (path, kind) for key, path, kind in stack}
        if picked is None:
            self.nodes[names[0]] = node
        else:
            self.pick(node, picked)

    def pick(self, node: Node, names: list) -> None:
        """Name the results of a node that has several."""
        for nr, name in enumerate(names):
            if name:
                own = None if isinstance(name, list) else name
                one = self.graph.create_node("call_function", getitem, (node, nr), {}, own)
                if own is None:
                    self.pick(one, name)
                else:
                    self.nodes[own] = one

    def value(self, value: dict) -> Any:
        """An argument of a call, or a result of the graph."""
        kind, inner = _one(value)
        if kind in _PLAIN:
            return inner
        if kind in ("float", "floats"):  # "Infinity" is a text
            return float(inner) if kind == "float" else [*map(float, inner)]
        if kind == "none":
            return None
        if kind in _NODES:
            return self.nodes[_name(inner)] if _name(inner) else next(iter(inner.values()))
        if kind == "nested_tensors":
            return [self.value({"as_tensors": v}) for v in inner]
        if kind in ("tensors", "sym_ints", "sym_bools", "sym_floats"):
            return [self.value({"as_" + kind[:-1]: v}) for v in inner]
        if kind == "optional_tensors":
            return [self.value(v) for v in inner]
        if kind == "optional_tensor":
            return self.value(inner)
        if kind == "graph":
            self.parts.add_module(inner["name"], _module(inner["graph"]))
            return self.graph.create_node("get_attr", inner["name"], name=inner["name"])
        return _constant(kind, inner)


def _name(inner: dict) -> str | None:
    """The name of a node; None for a number in its place."""
    return inner.get("name", inner.get("as_name"))


def _names(value: dict) -> Any:
    """The name of a result, or a list of names; None for one that is not given."""
    kind, inner = _one(value)
    if kind == "none":
        return None
    if kind == "tensors":
        return [each["name"] for each in inner]
    if kind in _NODES:
        return _name(inner)
    raise RuntimeError(f"an exported program with a result of kind {kind!r}")


def _constant(kind: str, inner: Any) -> Any:
    """An argument that is no node, and no plain number or text."""
    if kind == "scalar_type":
        return _dtype(inner)
    if kind == "memory_format" and inner in FORMATS:
        return getattr(rushlight, FORMATS[inner])
    if kind == "layout" and inner == STRIDED:
        return rushlight.strided
    if kind == "device":
        return rushlight.device(inner["type"], *[inner["index"]] * (inner["index"] is not None))
    if kind == "complex":
        return complex(inner["real"], inner["imag"])
    raise RuntimeError(f"an exported program has an argument of kind {kind!r}")
