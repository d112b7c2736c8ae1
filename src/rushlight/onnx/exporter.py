"""`torch.onnx.export`: a module as a file of ONNX, through `torch.export`."""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.export import Dim, ExportedProgram
from rushlight.export import export as export_program
from rushlight.export.dynamic_shapes import fit
from rushlight.export.graph_signature import ConstantArgument, InputKind, OutputKind
from rushlight.export.tracing import Inputs
from rushlight.export.unify import resized, symbols_of
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.nn import Module
from rushlight.onnx.builder import Builder, OnnxExporterError, Operand
from rushlight.utils._pytree import tree_leaves, tree_map

__all__ = ["ONNXProgram", "export", "is_in_onnx_export"]

OPSET = 18  # that of the conversions
# Parameters of PyTorch's function that change nothing about the model.
_WITHOUT_EFFECT = frozenset(
    "report optimize verify profile dump_exported_program artifacts_dir fallback operator_export_type custom_opsets "
    "export_modules_as_functions autograd_inlining".split()
)
_exporting = False


def is_in_onnx_export() -> bool:
    """Whether `torch.onnx.export` is running."""
    return _exporting


def library(name: str) -> Any:
    """The package `onnx` or `onnxruntime`. ImportError that names the extra where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("torch.onnx needs the extra: pip install 'rushlight[onnx]'") from error


def export(
    model: Module | ExportedProgram, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
    export_params: bool = True, verbose: bool | None = None, input_names: Any = None, output_names: Any = None,
    opset_version: int | None = None, dynamic_axes: Any = None, dynamic_shapes: Any = None,
    keep_initializers_as_inputs: bool = False, dynamo: bool = True, external_data: bool = True,
    do_constant_folding: bool = True, training: Any = None, custom_translation_table: Any = None, **options: Any,
) -> ONNXProgram:  # fmt: skip
    """Convert a module, called with these arguments, to ONNX, and write it to `f` if that is given.

    A module is exported in evaluation mode, unless `training` asks for another. `dynamic_axes`:
    {name: {dimension: name of it}} or {name: [dimensions]}, by `input_names`; `dynamic_shapes`: as for
    `torch.export.export`, names in place of `Dim` too. `custom_translation_table`: {operator: function of a `Builder` and
    the arguments of the call}. The model is checked by `onnx.checker`.
    """
    global _exporting
    if unknown := options.keys() - _WITHOUT_EFFECT:
        raise TypeError(f"export() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    onnx = library("onnx")
    requested = OPSET if opset_version is None else opset_version
    opset = max(requested, OPSET)
    args = args if isinstance(args, tuple) else (args,)
    before, _exporting = _exporting, True
    try:
        program = (
            model
            if isinstance(model, ExportedProgram)
            else _exported(
                model, args, kwargs or {}, dynamic_shapes, dynamic_axes, input_names, training
            )
        )
        made = Conversion(onnx, program, opset, input_names, output_names, dynamic_axes or {})
        proto = made.model(
            export_params, keep_initializers_as_inputs, custom_translation_table or {}
        )
    finally:
        _exporting = before
    if requested < OPSET:
        proto = _older(onnx, proto, requested)
    found = ONNXProgram(proto, program)
    if f is not None:
        found.save(f)
    onnx.checker.check_model(
        proto if proto.ByteSize() < 1 << 30 or f is None else os.fspath(f), full_check=True
    )
    return found


def _older(onnx: Any, proto: Any, opset: int) -> Any:
    """The model in an older opset; as it is, with a warning, where that has no such operators."""
    try:
        found = onnx.version_converter.convert_version(proto, opset)
        onnx.checker.check_model(found, full_check=True)
    except Exception as error:
        warnings.warn(
            f"the model stays in opset {OPSET}: it cannot be written in opset {opset} ({error})".split(
                "\n"
            )[0],
            stacklevel=3,
        )
        return proto
    return found


def _exported(
    model: Module, args: tuple, kwargs: dict, shapes: Any, axes: Any, names: Any, training: Any
) -> ExportedProgram:
    if shapes is None and axes:
        shapes = _shapes_of_axes(Inputs(model, args, kwargs), axes, names)
    dims: dict[str, Dim] = {}
    shapes = tree_map(lambda d: dims.setdefault(d, Dim(d)) if isinstance(d, str) else d, shapes)
    modes = {m: m.training for m in model.modules()}
    try:
        if training is None or getattr(training, "name", training) == "EVAL":
            model.eval()
        return export_program(model, args, kwargs, dynamic_shapes=shapes)
    finally:
        for m, mode in modes.items():
            m.training = mode


def _shapes_of_axes(inputs: Inputs, axes: dict, names: Any) -> dict:
    """`dynamic_axes` as `dynamic_shapes`."""
    tensors = inputs.tensors()
    called = dict(zip(names or [], tensors, strict=False)) | {
        name: row for row in tensors for name in [row[0]] if not names
    }
    shapes: dict[Any, Any] = {}
    for name, requested in axes.items():
        if name not in called:
            continue  # an output
        _, path, _ = called[name]
        found = (
            requested if isinstance(requested, dict) else {d: f"{name}_dim_{d}" for d in requested}
        )
        at = shapes
        for key in path[:-1]:
            at = at.setdefault(key, {})
        at[path[-1]] = {d: str(text) for d, text in found.items()}
    for _, path, _ in tensors:
        shapes.setdefault(path[0], None)
    return shapes


class ONNXProgram:
    """A model of ONNX. `model_proto` is it, `exported_program` what it was made of; a call runs it by onnxruntime."""

    def __init__(self, model_proto: Any, exported_program: ExportedProgram) -> None:
        self.model_proto, self.exported_program = model_proto, exported_program
        self._session: Any = None

    def save(self, destination: Any) -> None:
        """Write the model; tensors of more than a gigabyte into a file beside it."""
        onnx = library("onnx")
        if hasattr(destination, "write"):
            destination.write(self.model_proto.SerializeToString())
            return
        large = self.model_proto.ByteSize() >= 1 << 30
        path = os.fspath(destination)
        options = (
            {"save_as_external_data": True, "location": os.path.basename(path) + ".data"}
            if large
            else {}
        )
        onnx.save_model(self.model_proto, path, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The outputs for these inputs, by onnxruntime."""
        runtime = library("onnxruntime")
        if self._session is None:
            self._session = runtime.InferenceSession(
                self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        names = [i.name for i in self.model_proto.graph.input]
        given = {n: t.detach().numpy() for n, t in zip(names, tensors, strict=True)}
        requested = {i.name for i in self._session.get_inputs()}
        found = self._session.run(None, {n: a for n, a in given.items() if n in requested})
        return tuple(rushlight.from_numpy(a.copy()) for a in found)


class _Shapes(Interpreter):
    """Runs a graph and keeps the shape and dtype of all values."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.found: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        self.found[n] = tree_map(
            lambda t: (tuple(t.shape), t.dtype) if isinstance(t, Tensor) else t, result
        )
        return result


class Conversion:
    """One conversion of a program."""

    def __init__(
        self, onnx: Any, program: ExportedProgram, opset: int, input_names: Any, output_names: Any, axes: dict
    ) -> None:  # fmt: skip
        self.onnx, self.program, self.opset, self.axes = onnx, program, opset, axes
        self.input_names, self.output_names = input_names, output_names
        self.symbols = symbols_of(program)
        leaves = tree_leaves(program.example_inputs)
        names = program.graph_signature.user_input_names
        runs = [0, 1, 2] if self.symbols.roots else [0]
        self.sizes = {n: [self.symbols.sizes(nr)[n] for nr in runs] for n in self.symbols.roots}
        self.seen: list[dict[Node, Any]] = []
        for nr in runs:
            given = resized(names, leaves, self.symbols, nr) if nr else leaves
            run = _Shapes(program.graph_module)
            with rushlight.no_grad():
                run.run(
                    *program._inputs(
                        [t.detach().clone() if isinstance(t, Tensor) else t for t in given]
                    )
                )
            self.seen.append(run.found)

    def known(self, node: Node) -> Any:
        """`Operand`s without names of what a node gives."""

        def one(values: list) -> Any:
            first = values[0]
            if (
                isinstance(first, tuple)
                and len(first) == 2
                and isinstance(first[1], rushlight.dtype)
            ):
                shapes = [v[0] for v in values]
                shape = tuple(s[0] if len(set(s)) == 1 else None for s in zip(*shapes, strict=True))
                if "sized_by_values" in node.meta:
                    shape = (*[None] * (len(shape) - 1), *shape[-1:])
                return Operand("", first[1], shape)
            if isinstance(first, (list, tuple)):
                return [one(list(each)) for each in zip(*values, strict=True)]
            return Operand("", rushlight.int64, ())

        return one([found[node] for found in self.seen])

    def dimension(self, values: list[int]) -> Any:
        """A size as ONNX notes it: a number, or the name of a dynamic dimension."""
        if len(set(values)) == 1:
            return values[0]
        e = fit(values, self.sizes)
        if e is None:
            return None
        text = "*".join([*[str(e.factor)][: e.factor != 1], *e.symbols])
        text += f" + {e.offset}" if e.offset else ""
        return text if e.divisor == 1 else f"({text})//{e.divisor}"

    def info(self, name: str, node: Node, builder: Builder, given: str) -> Any:
        """The type and shape of an input or output. `given`: the name that the user gave it."""
        shapes = [found[node][0] for found in self.seen]
        dims = [self.dimension(list(each)) for each in zip(*shapes, strict=True)]
        if "sized_by_values" in node.meta:
            dims[:-1] = [None] * (len(dims) - 1)
        requested = self.axes.get(given, {})
        for d in requested:
            if isinstance(dims[d], int):
                continue
            dims[d] = str(requested[d]) if isinstance(requested, dict) else f"{given}_dim_{d}"
        dtype = self.seen[0][node][1]
        return self.onnx.helper.make_tensor_value_info(name, builder.type_of(dtype), dims)

    def model(self, export_params: bool, keep: bool, custom: dict) -> Any:
        """The model as ONNX has it."""
        importlib.import_module("rushlight.onnx.conversions")  # fills the table

        builder = Builder(self.onnx, self.opset, custom)
        operands: dict[Any, Any] = {}
        inputs, weights = [], []
        nodes = list(self.program.graph.nodes)
        by_name = {n.name: n for n in nodes}
        kept = self.program.state_dict | self.program.constants
        names = list(self.input_names or [])
        for spec in self.program.graph_signature.input_specs:
            node = by_name[spec.arg.name]
            if isinstance(spec.arg, ConstantArgument):
                operands[node] = spec.arg.value
                continue
            known = self.known(node)
            if spec.kind is InputKind.USER_INPUT:
                name = builder.fresh(names.pop(0) if names else node.target)
                inputs.append(self.info(name, node, builder, name))
            elif node.users:
                name = builder.initializer(
                    spec.target, kept[spec.target].detach().contiguous()._array
                )
                weights.append(self.info(name, node, builder, name))
            else:
                continue
            operands[node] = Operand(name, known.dtype, known.shape)
        for node in nodes:
            if node.op == "get_attr":
                raise OnnxExporterError("there is no conversion of torch.cond to ONNX")
            if node.op != "call_function":
                continue
            operands[node, "known"] = known = self.known(node)
            operands[node] = _typed(builder.convert(node, operands), known)
        outputs = self._outputs(builder, nodes[-1], operands)
        _remove_unused(builder, outputs)
        tensors = list(builder.initializers.values())
        if not export_params:
            names_of_weights = {w.name for w in weights}
            tensors = [t for t in tensors if t.name not in names_of_weights]
        if keep or not export_params:
            inputs = [*inputs, *weights]
        graph = self.onnx.helper.make_graph(builder.nodes, "main_graph", inputs, outputs, tensors)
        return self.onnx.helper.make_model(
            graph, opset_imports=[self.onnx.helper.make_opsetid("", self.opset)], ir_version=10,
            producer_name="rushlight", producer_version=rushlight.version.release,
        )  # fmt: skip

    def _outputs(self, builder: Builder, last: Node, operands: dict) -> list[Any]:
        """Name the outputs, those of the user alone; returns what is known of them."""
        names = list(self.output_names or [])
        found, renamed = [], {}
        made = {name for node in builder.nodes for name in node.output}
        for spec, node in zip(self.program.graph_signature.output_specs, last.args[0], strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT or not isinstance(node, Node):
                continue
            given = names.pop(0) if names else node.name
            value = operands[node]
            if value.name in made and value.name not in renamed and given not in builder.names:
                renamed[value.name] = given
                builder.names.add(given)
            else:  # an input, or a value that is several outputs
                given = builder.fresh(given)
                source = self.onnx.helper.make_node("Identity", [value.name], [given], name=given)
                builder.nodes.append(source)
            found.append(self.info(given, node, builder, given))
        for node in builder.nodes:
            for values in (node.input, node.output):
                for k, name in enumerate(values):
                    if name in renamed:
                        values[k] = renamed[name]
        return found


def _typed(found: Any, known: Any) -> Any:
    """What a conversion returned, with what is known of it from the run."""
    if isinstance(found, Operand) and isinstance(known, Operand):
        return Operand(found.name, known.dtype, known.shape, found.lengths)
    if isinstance(found, (list, tuple)) and isinstance(known, list):
        return [_typed(f, k) for f, k in zip(found, known, strict=False)]
    return found


def _remove_unused(builder: Builder, outputs: list) -> None:
    """Remove nodes and initializers that no output needs."""
    requested = {o.name for o in outputs}
    kept = []
    for node in reversed(builder.nodes):
        if requested.intersection(node.output):
            requested.update(node.input)
            kept.append(node)
    builder.nodes = kept[::-1]
    builder.initializers = {n: t for n, t in builder.initializers.items() if n in requested}
