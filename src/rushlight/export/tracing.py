"""`export`: runs a module under a recorder and makes an `ExportedProgram` of what it recorded."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.export.attributes import kept_attributes
from rushlight.export.calls import RANDOM
from rushlight.export.dynamic_shapes import Dim, assigned
from rushlight.export.errors import ExportError, refuse
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
from rushlight.export.recorder import Recorder, Traced
from rushlight.export.shapes_collection import ShapesCollection
from rushlight.export.unify import SMALLEST, Symbols, resized, unified
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node
from rushlight.fx.patches import Patches
from rushlight.nn import Module
from rushlight.nn.utils.stateless import Exchanged
from rushlight.utils._pytree import (
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

__all__ = ["export"]


def export(
    mod: Module, args: tuple, kwargs: dict[str, Any] | None = None, *, dynamic_shapes: Any = None,
    strict: bool = False, preserve_module_call_signature: tuple = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """The graph of what a module does for inputs like these, with all that it needs.

    `dynamic_shapes`: {argument: {dimension: Dim}}, or the same in the structure of the arguments. What depends on
    values of the inputs cannot be exported: ExportError names the line.

    >>> import rushlight as torch
    >>> program = export(torch.nn.Linear(3, 2), (torch.zeros(4, 3),), dynamic_shapes=({0: Dim("batch")},))
    >>> program.graph_signature.parameters
    ('weight', 'bias')
    >>> program.module()(torch.zeros(7, 3)).shape
    torch.Size([7, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        from rushlight._dynamo.exc import UserError, UserErrorType

        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    kwargs = kwargs or {}
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    inputs = Inputs(mod, args, kwargs)
    symbols = Symbols()
    if isinstance(dynamic_shapes, (tuple, list)):  # by position
        dynamic_shapes = dict(
            zip(dict.fromkeys(p[0] for p in inputs.paths), dynamic_shapes, strict=False)
        )
    for name, path, t in inputs.tensors():
        for d, dim in assigned(dynamic_shapes, path, t.dim(), name).items():
            symbols.add(name, d, dim, t.shape[d])
    first = _traced(mod, inputs, inputs.leaves, warn=True)
    if not symbols.roots:
        return _program(mod, inputs, first, symbols)
    try:
        if first.parts._modules:
            refuse("cond with dynamic_shapes cannot be exported: leave the sizes static", "")
        others = [_at_sizes(mod, inputs, symbols, n) for n in (1, 2)]
        graph = unified([first.graph, *[each.graph for each in others]], symbols)
        found = _program(mod, inputs, first, symbols, graph)
        _verify_smallest(found, inputs, symbols, mod)
    except ExportError:
        if not all(hint is Dim.AUTO for hint in symbols.given.values()):
            raise
        return _program(mod, inputs, first, Symbols())
    _verify(found, resized(inputs.names, inputs.leaves, symbols, 3), mod)
    return found


class Inputs:
    """The arguments of a call as leaves with names, those of the parameters of `forward`."""

    def __init__(self, mod: Module, args: tuple, kwargs: dict) -> None:
        self.order = tuple(kwargs)
        self.leaves, self.spec = tree_flatten((args, kwargs))
        self.names: list[str] = []
        self.paths: list[tuple] = []
        try:
            parameters = list(inspect.signature(mod.forward).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        given: list[Any] = [
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        several = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        for path, _ in tree_flatten_with_path((args, kwargs))[0]:
            keys = [getattr(k, "idx", getattr(k, "key", getattr(k, "name", None))) for k in path]
            if keys[0] == 0 and keys[1] < len(given):
                keys = [given[keys[1]], *keys[2:]]
            elif keys[0] == 0:
                keys = [several, keys[1] - len(given), *keys[2:]]
            else:
                keys = keys[1:]
            text = "_".join(str(k) for k in keys)
            name = "".join(c if c.isalnum() or c == "_" else "_" for c in text)
            while name in self.names:
                name += "_1"
            self.names.append(name)
            self.paths.append(tuple(keys))

    def tensors(self) -> list[tuple[str, tuple, Tensor]]:
        """(name, path, tensor)."""
        rows = zip(self.names, self.paths, self.leaves, strict=True)
        return [row for row in rows if isinstance(row[2], Tensor)]


@dataclass
class Trace:
    """What one run of a program recorded."""

    graph: Graph
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    out_spec: Any
    constants: dict[str, Tensor]
    results: list
    parts: Module


def _placeholders_of_state(
    mod: Module, recorder: Recorder, specs: list[InputSpec]
) -> dict[str, Any]:
    """What stands for each parameter and buffer, by its path; tensors under two paths have one placeholder."""
    state: dict[str, Any] = {}
    known: dict[int, Any] = {}
    parameters = dict(mod.named_parameters(remove_duplicate=False))
    buffers = dict(mod.named_buffers(remove_duplicate=False))
    missing = {n for n, _ in mod.named_buffers()} - mod.state_dict().keys()
    for kind, prefix, table in (
        (InputKind.PARAMETER, "p", parameters),
        (InputKind.BUFFER, "b", buffers),
    ):
        for path, t in table.items():
            if id(t) not in known:
                name = f"{prefix}_{path.replace('.', '_')}"
                plain = t if kind is InputKind.PARAMETER else t.detach().clone()
                known[id(t)] = traced = recorder.placeholder(name, plain)
                stays = None if kind is InputKind.PARAMETER else path not in missing
                specs.append(InputSpec(kind, TensorArgument(traced.alias.node.name), path, stays))
            state[path] = known[id(t)]
    return state


def _placeholders_of_inputs(
    inputs: Inputs, leaves: list, recorder: Recorder, specs: list[InputSpec]
) -> list:
    """What stands for each input of the user."""
    given = []
    for name, leaf in zip(inputs.names, leaves, strict=True):
        plain = (
            leaf.detach().clone().requires_grad_(leaf.requires_grad)
            if isinstance(leaf, Tensor)
            else leaf
        )
        given.append(recorder.placeholder(name, plain))
        node = recorder._last_placeholder
        arg = (
            TensorArgument(node.name)
            if isinstance(leaf, Tensor)
            else ConstantArgument(node.name, leaf)
        )
        specs.append(InputSpec(InputKind.USER_INPUT, arg, None))
    return given


def _written_inputs(
    specs: list[InputSpec], aliases: dict[str, Any], recorder: Recorder
) -> tuple[list[OutputSpec], list]:
    """The outputs that a program has for the buffers and inputs that it writes to, and their nodes."""
    output_specs, nodes = [], []
    for spec in specs:
        alias = aliases.get(spec.arg.name)
        if alias is None or not alias.writes:
            continue
        if spec.kind is InputKind.PARAMETER:
            refuse(
                f"the program writes to the parameter {spec.target}, which cannot be exported", ""
            )
        kind = (
            OutputKind.BUFFER_MUTATION
            if spec.kind is InputKind.BUFFER
            else OutputKind.USER_INPUT_MUTATION
        )
        node = alias.read(recorder)
        nodes.append(node)
        output_specs.append(
            OutputSpec(kind, TensorArgument(node.name), spec.target or spec.arg.name)
        )
    return output_specs, nodes


def _traced(mod: Module, inputs: Inputs, leaves: list, warn: bool = False) -> Trace:
    """Run the module on these inputs, recorded. `warn` of tensors that it keeps in attributes."""
    recorder = Recorder(mod)
    specs: list[InputSpec] = []
    state = _placeholders_of_state(mod, recorder, specs)
    first_user = len(specs)
    given = _placeholders_of_inputs(inputs, leaves, recorder, specs)
    aliases = {
        s.arg.name: t.alias
        for s, t in zip(specs, [*_unique(state), *given], strict=True)
        if isinstance(t, Traced)
    }
    args, kwargs = tree_unflatten(given, inputs.spec)
    with (
        kept_attributes(mod, warn), Exchanged(mod, state, {}), Patches() as patches, recorder,
    ):  # fmt: skip
        patches.attribute(Module, "__call__", recorder.noting(Module.__call__))
        result = mod(*args, **kwargs)
    outputs, out_spec = tree_flatten(result)
    output_specs, nodes = _written_inputs(specs, aliases, recorder)
    for value in outputs:
        node = recorder.node_of(value)
        arg = TensorArgument(node.name) if isinstance(node, Node) else ConstantArgument("", value)
        nodes.append(node)
        output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
    recorder.graph.output(tuple(nodes))
    constants = _drop_unused(recorder)
    lifted = [
        InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(n), recorder.targets[n])
        for n in constants
    ]
    _placeholders_in_order(
        recorder.graph, [s.arg.name for s in (*specs[:first_user], *lifted, *specs[first_user:])]
    )
    specs[first_user:first_user] = lifted
    constants = {recorder.targets[n]: t for n, t in constants.items()}
    return Trace(
        recorder.graph,
        specs,
        output_specs,
        out_spec,
        constants,
        recorder.plain(outputs),
        recorder.parts,
    )


def _unique(state: dict) -> list:
    return list({id(t): t for t in state.values()}.values())


def _drop_unused(recorder: Recorder) -> dict[str, Tensor]:
    """Remove what has no part in the outputs; returns the constants that stay."""
    recorder.graph.eliminate_dead_code()
    kept = {}
    for node in recorder.graph.nodes:
        if node.op == "placeholder" and node.name in recorder.constants:
            if node.users:
                kept[node.name] = recorder.constants[node.name].detach()
            else:
                recorder.graph.erase_node(node)
    return kept


def _placeholders_in_order(graph: Graph, names: list[str]) -> None:
    """Put the placeholders into the order of the signature."""
    nodes = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    last = graph._root
    for name in names:
        if last._next is not nodes[name]:
            last.append(nodes[name])
        last = nodes[name]


def _at_sizes(mod: Module, inputs: Inputs, symbols: Symbols, nr: int) -> Trace:
    sizes = symbols.sizes(nr)
    try:
        return _traced(mod, inputs, resized(inputs.names, inputs.leaves, symbols, nr))
    except ExportError:
        raise
    except Exception as error:
        text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ExportError(
            f"Constraints violated ({', '.join(sizes)})! The program does not run with other sizes of what is marked as "
            f"dynamic: with {text} it raises {type(error).__name__}: {error}"
        ) from error


def _program(
    mod: Module, inputs: Inputs, trace: Trace, symbols: Symbols, graph: Graph | None = None
) -> ExportedProgram:
    module = GraphModule(trace.parts, graph or trace.graph)
    tensors = {
        n: t.detach() if n not in dict(mod.named_parameters(remove_duplicate=False)) else t
        for n, t in _state(mod).items()
    }
    wanted = {s.target for s in trace.input_specs}
    signature = ExportGraphSignature(trace.input_specs, trace.output_specs)
    left = {n: tensors[n] for n in signature.non_persistent_buffers}
    state = {n: t for n, t in tensors.items() if n in wanted and n not in left}
    called = {n.target: n.name for n in module.graph.nodes if n.op == "placeholder"}
    dynamic = {called[name]: dims for name, dims in symbols.dims.items()}
    found = ExportedProgram(
        module, signature, state, left | trace.constants, (inputs.spec, inputs.order), trace.out_spec, symbols.ranges(),
        tree_unflatten(inputs.leaves, inputs.spec), dynamic,
    )  # fmt: skip
    note_shapes(found, inputs.leaves)
    _compare(found, inputs.leaves, trace.results)
    return found


def _state(mod: Module) -> dict[str, Tensor]:
    return {
        **dict(mod.named_parameters(remove_duplicate=False)),
        **dict(mod.named_buffers(remove_duplicate=False)),
    }


class _Noting(Interpreter):
    """Runs a graph and notes of each node what its value is, on the device meta."""

    def run_node(self, n: Node) -> Any:
        if n.target is rushlight.ops.higher_order.cond:
            _, *branches, operands = self.fetch_args_kwargs_from_env(n)[0]
            for branch in branches:
                _Noting(branch).run(*operands)
        result = super().run_node(n)

        def meta(t: Any) -> Any:
            if not isinstance(t, Tensor):
                return t
            return rushlight.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

        if n.op != "output":
            n.meta["val"] = tree_map(meta, result)
        return result


def note_shapes(program: ExportedProgram, leaves: list) -> None:
    """Run the graph once; each node gets `meta["val"]`, its value without elements."""
    program.graph_module.graph.sizes_vary = bool(program.dynamic)
    with rushlight.no_grad():
        _Noting(program.graph_module).run(*program._inputs(copies(leaves)))


def copies(leaves: list) -> list:
    return [t.detach().clone() if isinstance(t, Tensor) else t for t in leaves]


def _compare(program: ExportedProgram, leaves: list, expected: list) -> None:
    """Run the graph once: it must give what the program gave."""
    names = {
        getattr(getattr(n.target, "overloadpacket", n.target), "__name__", "")
        for n in program.graph.nodes
    }
    if names & RANDOM:
        return
    with rushlight.no_grad():
        found = program.graph_module(*program._inputs(copies(leaves)))
    found = found[len(found) - len(expected) :]
    for nr, (a, b) in enumerate(zip(found, expected, strict=True)):
        if isinstance(b, Tensor) and not (
            a.dtype == b.dtype
            and a.shape == b.shape
            and rushlight.allclose(a, b.detach(), rtol=1e-3, atol=1e-4, equal_nan=True)
        ):
            refuse(
                f"output {nr} of the exported graph differs from that of the program: it does something with tensors that "
                "is not recorded, such as a computation by NumPy",
                "",
            )


def _results(program: ExportedProgram, leaves: list, mod: Module) -> list:
    """The results of the program itself, whose buffers stay as they are."""
    before = {n: b.detach().clone() for n, b in mod.named_buffers()}
    args, kwargs = tree_unflatten(copies(leaves), program.in_spec[0])
    try:
        with rushlight.no_grad(), kept_attributes(mod):
            return tree_leaves(mod(*args, **kwargs))
    finally:
        with rushlight.no_grad():
            for n, b in mod.named_buffers():
                b.copy_(before[n])


def _verify(program: ExportedProgram, leaves: list, mod: Module) -> None:
    """Run graph and program with sizes that no trace had."""
    _compare(program, leaves, _results(program, leaves, mod))


def _verify_smallest(
    program: ExportedProgram, inputs: Inputs, symbols: Symbols, mod: Module
) -> None:
    """Run graph and program with the smallest sizes; where the program itself does not run with these, the graph need not."""
    leaves = resized(inputs.names, inputs.leaves, symbols, SMALLEST)
    try:
        expected = _results(program, leaves, mod)
    except Exception:
        return
    try:
        _compare(program, leaves, expected)
    except Exception as error:
        sizes = symbols.sizes(SMALLEST)
        text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ExportError(
            f"Constraints violated ({', '.join(sizes)})! What the program does depends on the sizes of dimensions that are "
            f"marked as dynamic: with {text} it does something else. Give `Dim` a larger min, or mark them as static."
        ) from error
