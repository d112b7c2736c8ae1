"""Files of exported programs: the graph as JSON among the tensors of an ordinary checkpoint. Nothing in one is executed.

Targets of nodes are names. Only operators, functions of `torch.nn.functional` and arithmetic are found by them
(`_operator`), arguments are plain data, and the tensors are read as `torch.load(weights_only=True)` reads them.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import zipfile
from typing import Any

import rushlight
from rushlight.dispatch.aten_arguments import CALLS
from rushlight.dispatch.index import FUNCTIONS
from rushlight.dispatch.overloads import OpOverload
from rushlight.export.calls import target_named
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
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.library import OPERATORS
from rushlight.nn import Module
from rushlight.serialization.archive import ArchiveReader
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["load", "save"]

VERSION = 1
_ARITHMETIC = {
    name: getattr(operator, name)
    for name in "add sub mul floordiv truediv mod pow neg getitem".split()
}
_NAMED = ("dtype", "device", "layout", "memory_format")
_INNER = frozenset(("_pack_padded_sequence", "_pad_packed_sequence"))
_REFUSED = frozenset(
    "from_file apply_ map_ map2_ tofile numpy set_ share_memory_ pin_memory".split()
)


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program to a file (a path or a file object), by custom with the ending `.pt2`.

    `opset_version` and `pickle_protocol` are accepted and have no effect.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    signature = ep.graph_signature
    example = tree_leaves(ep.example_inputs)
    content = {
        "version": VERSION,
        **_written(ep.graph_module),
        "inputs": [
            [s.kind.name, _argument(s.arg), s.target, s.persistent] for s in signature.input_specs
        ],
        "outputs": [[s.kind.name, _argument(s.arg), s.target] for s in signature.output_specs],
        "in_spec": [
            _tree(tree_unflatten([*range(len(example))], ep.in_spec[0])),
            list(ep.in_spec[1]),
        ],
        "out_spec": _tree(tree_unflatten([*range(_count(ep.out_spec))], ep.out_spec)),
        "ranges": {k: list(v) for k, v in ep.range_constraints.items()},
        "dynamic": {
            k: {str(d): list(v) for d, v in dims.items()} for k, dims in ep.dynamic.items()
        },
        "examples": [None if isinstance(v, rushlight.Tensor) else _data(v) for v in example],
    }
    rushlight.save(
        {
            "program": json.dumps(content),
            "state_dict": dict(ep.state_dict),
            "constants": dict(ep.constants),
            "examples": [v if isinstance(v, rushlight.Tensor) else None for v in example],
            "extra_files": dict(extra_files or {}),
        },
        f,
    )


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program that `save` wrote, here or in PyTorch 2.13. RuntimeError for a file that is none.

    `expected_opset_version` is accepted and has no effect.
    """
    if (program := _of_pytorch(f, extra_files)) is not None:
        return program
    content = rushlight.load(f, weights_only=True)
    if not isinstance(content, dict) or not isinstance(content.get("program"), str):
        raise RuntimeError("this file holds no exported program")
    program = json.loads(content["program"])
    if program["version"] != VERSION:
        raise RuntimeError(
            f"an exported program of version {program['version']}; this is version {VERSION}"
        )
    if extra_files is not None:
        extra_files.update({k: v for k, v in content["extra_files"].items() if k in extra_files})
    module, nodes = _module(program)
    signature = ExportGraphSignature(
        [InputSpec(InputKind[k], _read_argument(a), t, p) for k, a, t, p in program["inputs"]],
        [OutputSpec(OutputKind[k], _read_argument(a), t) for k, a, t in program["outputs"]],
    )
    in_tree, order = _read_tree(program["in_spec"][0]), tuple(program["in_spec"][1])
    examples = [
        t if t is not None else _read(v, nodes)
        for t, v in zip(content["examples"], program["examples"], strict=True)
    ]
    in_spec, out_spec = tree_flatten(in_tree)[1], tree_flatten(_read_tree(program["out_spec"]))[1]
    dynamic = {
        k: {int(d): tuple(v) for d, v in dims.items()} for k, dims in program["dynamic"].items()
    }
    ranges = {k: tuple(v) for k, v in program["ranges"].items()}
    found = ExportedProgram(
        module, signature, content["state_dict"], content["constants"], (in_spec, order),
        out_spec, ranges, tree_unflatten(examples, in_spec), dynamic,
    )  # fmt: skip
    from rushlight.export.tracing import note_shapes

    note_shapes(found, examples)
    return found


def _of_pytorch(f: Any, extra_files: dict[str, Any] | None) -> ExportedProgram | None:
    """The program of an archive of PyTorch's; None for other files."""
    from rushlight.export import archives

    with contextlib.ExitStack() as stack:
        if isinstance(f, (str, os.PathLike)):
            file = stack.enter_context(open(f, "rb"))
        else:
            file, start = f, f.tell()
            stack.callback(f.seek, start)
        if not zipfile.is_zipfile(file):
            return None
        archive = ArchiveReader(file)
        return archives.read(archive, extra_files) if archives.is_archive(archive) else None


def _written(module: GraphModule) -> dict[str, Any]:
    """A graph, and the graphs of the branches that it takes as attributes."""
    return {
        "nodes": [
            [n.op, n.name, _target(n), _data(n.args), _data(n.kwargs), n.stack_trace]
            for n in module.graph.nodes
        ],
        "branches": {name: _written(part) for name, part in module.named_children()},
    }


def _module(content: dict[str, Any]) -> tuple[GraphModule, dict[str, Node]]:
    """What `_written` wrote, and its nodes by name."""
    parts = Module()
    for name, part in content.get("branches", {}).items():
        parts.add_module(name, _module(part)[0])
    graph, nodes = Graph(), {}
    for op, name, target, args, kwargs, trace in content["nodes"]:
        known = op in ("placeholder", "call_function", "output")
        if not known and (op != "get_attr" or target not in parts._modules):
            raise RuntimeError(f"an exported program has no node {op!r}")
        called = _operator(target) if op == "call_function" else target
        node = graph.create_node(op, called, _read(args, nodes), _read(kwargs, nodes), name)
        node.stack_trace = trace
        nodes[name] = node
    return GraphModule(parts, graph), nodes


def _count(spec: Any) -> int:
    return spec.num_leaves


# -- targets ---------------------------------------------------------------------------------------


def _target(node: Node) -> str:
    if node.op != "call_function":
        return str(node.target)
    target: Any = node.target
    if target is rushlight.ops.higher_order.cond:
        return "higher_order.cond"
    if isinstance(target, OpOverload):
        return str(target)
    name = target.__name__
    if _ARITHMETIC.get(name) is target:
        return f"operator.{name}"
    if getattr(rushlight.nn.functional, name, None) is target:
        return f"nn.functional.{name}"
    if getattr(rushlight, name, None) is target:
        return f"torch.{name}"
    if getattr(rushlight.Tensor, name, None) is target:
        return f"Tensor.{name}"
    raise RuntimeError(f"{node.format_node()}: {target} cannot be saved")


def _operator(text: str) -> Any:
    """The operator of a name; RuntimeError for any other function."""
    where, _, name = text.partition(".")
    if text == "higher_order.cond":
        return rushlight.ops.higher_order.cond
    if where == "operator" and name in _ARITHMETIC:
        return _ARITHMETIC[name]
    if where == "aten":
        name, _, overload = name.partition(".")
        plain = name.rstrip("_") or name  # PyTorch's graphs of trainings hold writes
        if (
            _allowed(plain)
            and name not in _REFUSED
            and (found := target_named(name, overload)) is not None
        ):
            return found
    if (declared := OPERATORS.get("::".join(text.removesuffix(".default").split(".")))) is not None:
        return declared.default
    if where == "nn" and text in FUNCTIONS:
        return getattr(rushlight.nn.functional, text.rpartition(".")[2])
    if where == "torch" and name in FUNCTIONS and _allowed(name):
        return getattr(rushlight, name)
    if where == "Tensor" and name not in _REFUSED and (name in FUNCTIONS or text in FUNCTIONS):
        return getattr(rushlight.Tensor, name)
    raise RuntimeError(f"{text!r} is no operator that an exported program may call")


def _allowed(name: str) -> bool:
    where = ("", "nn.functional.", "special.", "Tensor.")
    apart = (
        name.replace("linalg_", "linalg.", 1)
        .replace("fft_", "fft.", 1)
        .replace("special_", "special.", 1)
    )
    known = (
        name in CALLS
        or name in _INNER
        or apart in FUNCTIONS
        or any(w + name in FUNCTIONS for w in where)
    )
    return known and name not in _REFUSED


# -- data ------------------------------------------------------------------------------------------


def _data(value: Any) -> Any:
    """Arguments of a node as JSON has them; what it has not as `{"kind": value}`."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_data(v) for v in value]}
    if isinstance(value, list):
        return [_data(v) for v in value]
    if isinstance(value, dict):
        return {"dict": [[k, _data(v)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [_data(value.start), _data(value.stop), _data(value.step)]}
    for kind in _NAMED:
        if isinstance(value, getattr(rushlight, kind)):
            return {kind: str(value).removeprefix("torch.")}
    raise RuntimeError(f"{value!r} cannot be saved in an exported program")


def _read(value: Any, nodes: dict[str, Node]) -> Any:
    if isinstance(value, list):
        return [_read(v, nodes) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "node":
        return nodes[inner]
    if kind == "tuple":
        return tuple(_read(v, nodes) for v in inner)
    if kind == "dict":
        return {k: _read(v, nodes) for k, v in inner}
    if kind == "slice":
        return slice(*(_read(v, nodes) for v in inner))
    if kind == "float":
        return float(inner)
    if kind == "complex":
        return complex(*inner)
    if kind == "device":
        return rushlight.device(inner)
    found = getattr(rushlight, inner, None) if kind in _NAMED else None
    if not isinstance(found, getattr(rushlight, kind, ())):
        raise RuntimeError(f"an exported program has no value {kind!r}: {inner!r}")
    return found


def _argument(arg: Any) -> Any:
    return [arg.name] if isinstance(arg, TensorArgument) else [arg.name, _data(arg.value)]


def _read_argument(data: list) -> Any:
    return (
        TensorArgument(data[0]) if len(data) == 1 else ConstantArgument(data[0], _read(data[1], {}))
    )


def _tree(tree: Any) -> Any:
    """The structure of arguments: lists, tuples and dicts. RuntimeError for other containers."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        raise RuntimeError(
            f"a program whose arguments or results have a {type(tree).__name__} cannot be saved"
        )
    if type(tree) not in (list, tuple, dict, int, type(None)):
        raise RuntimeError(
            f"a program whose arguments or results have a {type(tree).__name__} cannot be saved"
        )
    if isinstance(tree, dict):
        return {"dict": [[k, _tree(v)] for k, v in tree.items()]}
    if isinstance(tree, (list, tuple)):
        return {type(tree).__name__: [_tree(v) for v in tree]}
    return tree


def _read_tree(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    ((kind, inner),) = data.items()
    if kind == "dict":
        return {k: _read_tree(v) for k, v in inner}
    found = [_read_tree(v) for v in inner]
    return tuple(found) if kind == "tuple" else found
