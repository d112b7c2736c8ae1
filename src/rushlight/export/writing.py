"""Writes exported programs as PyTorch's `torch.export.save` writes them: a graph as JSON, and tensors as bytes.

The names are those of the module `torch._export.serde.schema` of PyTorch 2.13. `archives` reads these files, and so does
PyTorch, as far as each call in the graph is one of an operator of PyTorch's.
"""

from __future__ import annotations

import copy
import io
import json
import sys
from operator import getitem
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.export import archives
from rushlight.export.dynamic_shapes import Expression, fit
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)
from rushlight.export.schemas import argument_names
from rushlight.export.targets import target_name
from rushlight.export.tracing import note_shapes
from rushlight.export.unify import SMALLEST, Symbols, resized, symbols_of
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.nn import Parameter
from rushlight.serialization.archive import ArchiveWriter
from rushlight.utils._pytree import tree_leaves, tree_unflatten

__all__ = ["write"]

NAME = "model"
PYTORCH = "2.13.0"  # whose schema this is
_MINOR = 20  # of the schema
_POSITIONAL = 1  # the kind of an argument that is given by its place
_DTYPES = {name: number for number, name in archives.DTYPES.items()}
_FORMATS = {name: number for number, name in archives.FORMATS.items()}
_NUMBERS = {bool: "bool", int: "int", float: "float"}


def write(
    program: ExportedProgram, file: Any, folder: str, extra_files: dict[str, Any] | None = None
) -> None:
    """Write the records of an archive. RuntimeError for a program that has what no archive holds."""
    content = json.dumps(_content(program))
    samples = io.BytesIO()
    rushlight.save(program.example_inputs, samples)
    weights = _Tensors("data/weights/", "weight_", program.state_dict)
    constants = _Tensors("data/constants/", "tensor_", program.constants)
    with ArchiveWriter(file, folder) as archive:
        archive.write("archive_format", b"pt2")
        archive.write("archive_version", b"0")
        archive.write("byteorder", sys.byteorder.encode())
        archive.write(".data/version", b"3\n")
        archive.write(f"models/{NAME}.json", content.encode())
        weights.write(archive, f"{NAME}_weights_config.json")
        constants.write(archive, f"{NAME}_constants_config.json")
        archive.write(f"data/sample_inputs/{NAME}.pt", samples.getvalue())
        for name, text in (extra_files or {}).items():
            archive.write(f"extra/{name}", text if isinstance(text, bytes) else str(text).encode())


def _content(program: ExportedProgram) -> dict[str, Any]:
    signature = program.graph_signature
    whole = {
        "in_spec": _spec(program.in_spec[0]), "out_spec": _spec(program.out_spec), "forward_arg_names": None,
    }  # fmt: skip
    return {
        "graph_module": {
            "graph": _Writing(program).graph(program.graph_module, signature.input_specs),
            "signature": {
                "input_specs": [*map(_input, signature.input_specs)],
                "output_specs": [*map(_output, signature.output_specs)],
            },
            "module_call_graph": [{"fqn": "", "signature": {"inputs": [], "outputs": [], **whole}}],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {
            name: {"min_val": low, "max_val": high}
            for name, (low, high) in program.range_constraints.items()
        },
        "schema_version": {"major": archives.MAJOR, "minor": _MINOR},
        "verifiers": ["TRAINING"],
        "torch_version": PYTORCH,
        "guards_code": [],
    }


# -- tensors ---------------------------------------------------------------------------------------


class _Tensors:
    """The tensors of one folder of an archive; those that share memory share a record."""

    def __init__(self, folder: str, prefix: str, tensors: dict[str, Tensor]) -> None:
        self.folder, self.records, self.config = folder, {}, {}
        paths: dict[int, str] = {}
        for name, given in tensors.items():
            if given.layout is not rushlight.strided:
                raise RuntimeError(f"{name}: a tensor of layout {given.layout} cannot be saved")
            t = given.detach().resolve_conj().resolve_neg().cpu()
            memory = t.untyped_storage()._memory
            path = paths.setdefault(memory.ctypes.data if memory.size else -len(paths) - 1, f"{prefix}{len(paths)}")  # fmt: skip
            self.records[path] = memory
            meta = _meta([t], given.requires_grad)
            meta["storage_offset"] = {"as_int": t.storage_offset()}
            self.config[name] = {
                "path_name": path, "is_param": isinstance(given, Parameter), "use_pickle": False, "tensor_meta": meta,
            }  # fmt: skip

    def write(self, archive: ArchiveWriter, config: str) -> None:
        for path, memory in self.records.items():
            archive.write(
                self.folder + path, np.ascontiguousarray(memory).reshape(-1).view(np.uint8)
            )
        archive.write(self.folder + config, json.dumps({"config": self.config}).encode())


def _meta(
    values: list[Tensor], requires_grad: bool = False, sizes: dict | None = None
) -> dict[str, Any]:
    """What an archive says of a tensor whose value in each trace is one of `values`."""
    t = values[0]
    name = str(t.dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise RuntimeError(f"a tensor of {t.dtype} cannot be saved in an exported program")
    return {
        "dtype": _DTYPES[name],
        "sizes": [_size([*each], sizes) for each in zip(*(v.shape for v in values), strict=True)],
        "requires_grad": requires_grad,
        "device": {"type": "cpu", "index": None},
        "strides": [
            _size([*each], sizes) for each in zip(*(v.stride() for v in values), strict=True)
        ],
        "storage_offset": {"as_int": 0},
        "layout": archives.STRIDED,
    }


def _size(values: list[int], sizes: dict[str, list[int]] | None) -> dict[str, Any]:
    """A size: a number, or an expression of the sizes that vary; the example's number where no expression fits, which describes a
    value inside of the graph and is not what the graph computes with."""
    found = fit(values, sizes) if sizes and len({*values}) > 1 else None
    if found is None:
        return {"as_int": int(values[0])}
    return _expression(found, values[0])


def _expression(e: Expression, value: int) -> dict[str, Any]:
    """An expression as SymPy's `srepr` writes it."""
    text, *more = (f"Symbol('{name}', positive=True, integer=True)" for name in e.symbols)
    for other in more:
        text = f"Mul({text}, {other})"
    if e.factor != 1:
        text = f"Mul(Integer({e.factor}), {text})"
    if e.offset:
        text = f"Add({text}, Integer({e.offset}))"
    if e.divisor != 1:
        text = f"FloorDiv({text}, Integer({e.divisor}))"
    return {"as_expr": {"expr_str": text, "hint": {"as_int": int(value)}}}


# -- signatures ------------------------------------------------------------------------------------


def _input(spec: InputSpec) -> dict[str, Any]:
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return {"constant_input": {"name": spec.arg.name, "value": _constant(spec.arg.value)}}
        return {"user_input": {"arg": {"as_tensor": {"name": spec.arg.name}}}}
    kind, (_, target) = next(item for item in archives.INPUTS.items() if item[1][0] is spec.kind)
    found = {"arg": {"name": spec.arg.name}, target: spec.target}
    if spec.kind is InputKind.BUFFER:
        found["persistent"] = spec.persistent is not False
    return {kind: found}


def _output(spec: OutputSpec) -> dict[str, Any]:
    if isinstance(spec.arg, ConstantArgument):
        return {"user_output": {"arg": _constant(spec.arg.value)}}
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": {"as_tensor": {"name": spec.arg.name}}}}
    kind, (_, target) = next(item for item in archives.OUTPUTS.items() if item[1][0] is spec.kind)
    return {kind: {"arg": {"name": spec.arg.name}, target: spec.target}}


def _spec(spec: Any) -> str:
    """The structure of arguments or results."""

    def made(tree: Any) -> dict[str, Any]:
        kind = type(tree)
        if kind is int:  # a leaf
            return {"type": None, "context": None, "children_spec": []}
        if kind is dict:
            context, parts = json.dumps([*tree]), [*tree.values()]
        elif kind in (tuple, list):
            context, parts = "null", [*tree]
        else:
            raise RuntimeError(
                f"a program whose arguments or results have a {kind.__name__} cannot be saved"
            )
        name = f"builtins.{kind.__name__}"
        return {"type": name, "context": context, "children_spec": [*map(made, parts)]}

    return json.dumps([1, made(tree_unflatten([*range(spec.num_leaves)], spec))])


# -- the graph -------------------------------------------------------------------------------------


def _values(program: ExportedProgram, symbols: Symbols) -> list[dict[Node, Any]]:
    """The value of each node, without elements, for several sizes of the inputs: first for those of the example."""
    nodes = [n for n in program.graph.nodes if n.op not in ("output", "get_attr")]
    leaves, tried = tree_leaves(program.example_inputs), copy.copy(program)
    tried.state_dict = {k: t.detach().clone() for k, t in program.state_dict.items()}
    if any("val" not in n.meta for n in nodes):
        note_shapes(tried, leaves)
    found = [{n: n.meta["val"] for n in nodes}]
    names = program.graph_signature.user_input_names
    try:
        for nr in range(1, SMALLEST if program.dynamic else 1):
            note_shapes(tried, resized(names, leaves, symbols, nr))
            found.append({n: n.meta["val"] for n in nodes})
    finally:
        for n in nodes:
            n.meta["val"] = found[0][n]
    return found


class _Writing:
    """Writes the graph of a program and those of its branches."""

    def __init__(self, program: ExportedProgram) -> None:
        symbols = symbols_of(program)
        self.dynamic = program.dynamic
        self.values = _values(program, symbols)
        self.sizes = {
            root: [symbols.sizes(nr)[root] for nr in range(len(self.values))]
            for root in symbols.roots
        }
        self.names: dict[Node, str] = {}  # of picks that are written as another of the same result
        self.found: dict[str, Any] = {}  # what is being written

    def graph(self, module: GraphModule, specs: list[InputSpec] | None = None) -> dict[str, Any]:
        """A graph; `specs` says what its inputs are, where it is not that of a branch."""
        outer, self.found = self.found, {
            "inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
            "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
        }  # fmt: skip
        inputs = iter(specs or ())
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.placeholder(node, next(inputs, None))
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                results = node.args[0]
                single = isinstance(results, Node)
                self.found["is_single_tensor_return"] = single
                self.found["outputs"] = [*map(self.argument, [results] if single else results)]
            elif node.op != "get_attr":
                raise RuntimeError(f"{node.format_node()} cannot be saved in an exported program")
        found, self.found = self.found, outer
        return found

    def placeholder(self, node: Node, spec: InputSpec | None) -> None:
        if spec is not None and isinstance(spec.arg, ConstantArgument):
            self.found["inputs"].append(_constant(spec.arg.value))
            return
        parameter = spec is not None and spec.kind is InputKind.PARAMETER
        self.found["inputs"].append(self.named(node.name, self.of(node), parameter))
        meta = self.found["tensor_values"][node.name]
        for d, (root, factor, offset) in self.dynamic.get(node.name, {}).items():
            if spec is not None:
                form = Expression((root,), factor, offset)
                meta["sizes"][d] = _expression(form, self.of(node)[0].shape[d])

    def of(self, node: Node) -> list:
        """The values of a node: one for each of several sizes of the inputs, or one."""
        if node in self.values[0]:
            return [each[node] for each in self.values]
        return [node.meta["val"]]

    def call(self, node: Node) -> None:
        """Write a call, and the names of its results."""
        values = self.of(node)
        if node.target is getitem and isinstance(self.of(node.args[0])[0], (tuple, list)):
            return  # written with the call whose result it picks
        target, several = target_name(node), isinstance(values[0], (tuple, list))
        branches = target.startswith("torch.ops.higher_order.")
        outputs = self.picks(node, values) if several else [self.named(node.name, values)]
        if several and not branches and isinstance(values[0], list) | (len(outputs) == 1):
            outputs = [{"as_tensors": [each["as_tensor"] for each in outputs]}]
        names = iter(argument_names(node.target))
        inputs = [
            {"name": next(names, ""), "arg": self.argument(v), "kind": _POSITIONAL}
            for v in node.args
        ]
        inputs += [
            {"name": name, "arg": self.argument(v), "kind": archives.KEYWORD}
            for name, v in node.kwargs.items()
        ]
        self.found["nodes"].append({
            "target": target, "inputs": inputs, "outputs": outputs, "metadata": _metadata(node),
            "is_hop_single_tensor_return": not several if branches else None, "name": node.name,
        })  # fmt: skip

    def picks(self, node: Node, values: list) -> list[dict[str, Any]]:
        """The results of a call that has several, under the names of the nodes that pick them."""
        count = len(values[0])
        picked: dict[int, Node] = {}
        for user in node.users:
            if user.target is not getitem:
                raise RuntimeError(f"{user.format_node()}: {node.name} has several results")
            first = picked.setdefault(user.args[1] % count, user)
            self.names[user] = first.name
        found = []
        for k in range(count):
            each = [v[k] for v in values]
            name = picked[k].name if k in picked else f"{node.name}_unused_{k}"
            found.append(self.named(name, each) if each[0] is not None else {"as_none": True})
        return found

    def named(self, name: str, values: list, requires_grad: bool = False) -> dict[str, Any]:
        """A result of a call, or an input: its name, and what is known of its value."""
        value = values[0]
        if isinstance(value, Tensor):
            self.found["tensor_values"][name] = _meta(values, requires_grad, self.sizes)
            return {"as_tensor": {"name": name}}
        if type(value) not in _NUMBERS:
            raise RuntimeError(
                f"{name}: a {type(value).__name__} cannot be saved in an exported program"
            )
        kind = f"sym_{_NUMBERS[type(value)]}"
        known = _size(values, self.sizes) if kind == "sym_int" else {"as_" + kind[4:]: value}
        self.found[f"{kind}_values"][name] = known
        return {f"as_{kind}": {"as_name": name}}

    # -- arguments

    def argument(self, value: Any) -> dict[str, Any]:
        """An argument of a call, or a result of the graph."""
        if isinstance(value, Node):
            if value.op == "get_attr":
                part = getattr(value.graph.owning_module, value.target)
                return {"as_graph": {"name": value.target, "graph": self.graph(part)}}
            return self.reference(value)
        return self.several(value) if isinstance(value, (list, tuple)) else _constant(value)

    def reference(self, node: Node) -> dict[str, Any]:
        value, name = self.of(node)[0], self.names.get(node, node.name)
        if isinstance(value, Tensor):
            return {"as_tensor": {"name": name}}
        return {f"as_sym_{_NUMBERS[type(value)]}": {"as_name": name}}

    def several(self, values: Any) -> dict[str, Any]:
        """An argument that is a list."""
        kinds = {type(v) for v in values}
        if Node in kinds:
            given = [self.reference(v) if isinstance(v, Node) else v for v in values]
            held = {next(iter(v)) for v in given if isinstance(v, dict)}
            if held == {"as_tensor"} and kinds == {Node}:
                return {"as_tensors": [v["as_tensor"] for v in given]}
            if held == {"as_tensor"} and kinds == {Node, type(None)}:
                return {"as_optional_tensors": [v or {"as_none": True} for v in given]}
            if len(held) == 1 and len(kinds) <= 2:
                (kind,) = held
                plain = "as_" + kind.removeprefix("as_sym_")
                return {kind + "s": [v[kind] if isinstance(v, dict) else {plain: v} for v in given]}
        elif kinds <= {int} or kinds == {bool} or kinds == {str}:
            kind = {bool: "bools", str: "strings"}.get(next(iter(kinds), int), "ints")
            return {f"as_{kind}": [*values]}
        elif kinds <= {int, float}:
            return {"as_floats": [_float(float(v)) for v in values]}
        elif kinds == {type(None)}:
            return {"as_optional_tensors": [{"as_none": True} for _ in values]}
        elif kinds <= {list, tuple} and all(type(v) is int for each in values for v in each):
            return {"as_int_lists": [[*each] for each in values]}
        elif kinds <= {list, tuple} and all(isinstance(v, Node) for each in values for v in each):
            return {"as_nested_tensors": [[self.reference(v)["as_tensor"] for v in each] for each in values]}  # fmt: skip
        raise RuntimeError(f"{values!r} cannot be saved in an exported program")


def _constant(value: Any) -> dict[str, Any]:
    """An argument that is no node."""
    kind = type(value)
    if value is None:
        return {"as_none": True}
    if kind in (bool, int):
        return {f"as_{kind.__name__}": value}
    if kind is float:
        return {"as_float": _float(value)}
    if kind is str:
        return {"as_string": value}
    if kind is complex:
        return {"as_complex": {"real": value.real, "imag": value.imag}}
    name = str(value).removeprefix("torch.")
    if isinstance(value, rushlight.dtype) and name in _DTYPES:
        return {"as_scalar_type": _DTYPES[name]}
    if isinstance(value, rushlight.memory_format):
        return {"as_memory_format": _FORMATS[name]}
    if value is rushlight.strided:
        return {"as_layout": archives.STRIDED}
    if isinstance(value, rushlight.device):
        return {"as_device": {"type": value.type, "index": value.index}}
    raise RuntimeError(f"{value!r} cannot be saved in an exported program")


def _float(value: float) -> float | str:
    """A number that JSON has, or its name."""
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    return "NaN" if value != value else names.get(value, value)


def _metadata(node: Node) -> dict[str, str]:
    """The line of the program that a call is from, and the modules that it is in."""
    found = {}
    if node.stack_trace:
        found["stack_trace"] = node.stack_trace
    if stack := node.meta.get("nn_module_stack"):
        found["nn_module_stack"] = archives.BETWEEN_MODULES.join(
            f"{key},{path},{kind}" for key, (path, kind) in stack.items()
        )
    return found
