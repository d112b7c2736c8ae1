"""`ExportedProgram`: a graph, what its inputs and outputs are, and the tensors that it needs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    OutputKind,
)
from rushlight.fx.graph_module import GraphModule
from rushlight.nn import Module
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["ExportedProgram"]


class ExportedProgram:
    """What `torch.export.export` returns.

    `graph_module` takes parameters, buffers, constants and the inputs of users, as `graph_signature` lists them, and
    returns the new values of what is written to, and the outputs. `module()` is a module to call.
    """

    def __init__(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature, state_dict: dict,
        constants: dict, in_spec: Any, out_spec: Any, range_constraints: dict, example_inputs: Any,
        dynamic: dict[str, dict[int, Any]],
    ) -> None:  # fmt: skip
        self.graph_module, self.graph_signature = graph_module, graph_signature
        self.state_dict, self.constants = state_dict, constants
        self.in_spec, self.out_spec = in_spec, out_spec
        self.range_constraints, self.example_inputs = range_constraints, example_inputs
        self.dynamic = dynamic  # placeholder -> {dimension: (symbol, factor, offset)}

    @property
    def graph(self) -> Any:
        """The graph of `graph_module`."""
        return self.graph_module.graph

    @property
    def tensor_constants(self) -> dict:
        """The constants."""
        return self.constants

    def parameters(self) -> Any:
        """The parameters, in the order of the graph's inputs."""
        return (p for _, p in self.named_parameters())

    def named_parameters(self) -> Any:
        """(name, parameter)."""
        return ((n, self.state_dict[n]) for n in self.graph_signature.parameters)

    def buffers(self) -> Any:
        """The buffers."""
        return (b for _, b in self.named_buffers())

    def named_buffers(self) -> Any:
        """(name, buffer)."""
        kept = self.state_dict | self.constants
        return ((n, kept[n]) for n in self.graph_signature.buffers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> Module:
        """A module with the parameters and buffers under their names, which runs the graph.

        It checks that inputs have the structure, dtypes and sizes that the program was exported for.
        """
        return ExportedModule(self, check_guards)

    def run_decompositions(
        self, decomp_table: dict[Any, Callable] | None = None
    ) -> ExportedProgram:
        """The program in operators below autograd, those of `decomp_table` replaced by what the functions there call.

        An empty table leaves all operators as they are.
        """
        from rushlight.export.decompose import decomposed

        if decomp_table is not None and not decomp_table:
            return copy.copy(self)

        return decomposed(self, decomp_table or {})

    def _inputs(self, users: list) -> list:
        """All inputs of the graph for those of users."""
        kept = self.state_dict | self.constants
        given = iter(users)
        return [
            next(given) if spec.kind is InputKind.USER_INPUT else kept[spec.target]
            for spec in self.graph_signature.input_specs
        ]

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {code}\nGraph signature: {signature}\nRange constraints: "
            f"{self.range_constraints}\n"
        )

    __repr__ = __str__

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show; None, so that they show the text, where the extra `viz` is missing."""
        from rushlight import viz

        try:
            return viz.graph(self).svg
        except ImportError:
            return None


class ExportedModule(Module):
    """Runs an exported program; writes to its own buffers what the program writes."""

    part: type[Module] = Module  # the class of its submodules

    def __init__(self, program: ExportedProgram, check_guards: bool) -> None:
        super().__init__()
        self.__dict__["_program"], self._check = program, check_guards
        kept = program.state_dict | program.constants
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            *path, last = spec.target.split(".")
            owner: Module = self
            for name in path:
                if name not in owner._modules:
                    owner.add_module(name, self.part())
                owner = owner._modules[name]
            t = kept[spec.target]
            if spec.kind is InputKind.PARAMETER:
                owner.register_parameter(last, t)
            elif spec.kind is InputKind.BUFFER:
                owner.register_buffer(last, t.clone(), persistent=spec.persistent is not False)
            else:
                owner.register_buffer(last, t, persistent=False)

    def _tensor(self, path: str) -> Tensor:
        *names, last = path.split(".")
        owner: Any = self
        for name in names:
            owner = owner._modules[name]
        return owner._parameters[last] if last in owner._parameters else owner._buffers[last]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        program = self._program
        users = flat_inputs(program, args, kwargs)
        if self._check:
            check(program, users)
        specs = program.graph_signature
        names = specs.user_input_names
        results, outputs = self._results(users), []
        for spec, value in zip(specs.output_specs, results, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                outputs.append(value)
                continue
            with rushlight.no_grad():
                to = (
                    self._tensor(spec.target)
                    if spec.kind is OutputKind.BUFFER_MUTATION
                    else users[names.index(spec.target)]
                )
                to.copy_(value)
        return tree_unflatten(outputs, program.out_spec)

    def train(self, mode: bool = True) -> Any:
        """An exported graph does what the program did in the mode it was exported in."""
        raise NotImplementedError(f"Calling {'train' if mode else 'eval'}() is not supported yet.")

    def _results(self, users: list) -> Any:
        """What the graph gives for the inputs of users."""
        given = iter(users)
        inputs = [
            next(given) if s.kind is InputKind.USER_INPUT else self._tensor(s.target)
            for s in self._program.graph_signature.input_specs
        ]
        return self._program.graph_module(*inputs)


def flat_inputs(program: ExportedProgram, args: tuple, kwargs: dict) -> list:
    """The leaves of the arguments of a call, in the order of the graph's inputs. ValueError for another structure."""
    spec, names = program.in_spec
    if set(kwargs) != set(names):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {[*kwargs]} but expected {[*names]}"
        )
    leaves, found = tree_flatten((tuple(args), {k: kwargs[k] for k in names}))
    if found != spec:
        raise ValueError(
            f"Trying to flatten user inputs with exported input tree spec:\n{spec}\nbut actually got inputs with tree "
            f"spec of:\n{found}"
        )
    return leaves


def check(program: ExportedProgram, users: list) -> None:
    """AssertionError for inputs that the program was not exported for."""
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    symbols: dict[str, tuple[int, str]] = {}
    for spec, given in zip(specs, users, strict=True):
        name = spec.arg.name
        if isinstance(spec.arg, ConstantArgument):
            same = type(given) is type(spec.arg.value) and given == spec.arg.value
            _guard(same, f"{name} == {spec.arg.value!r}", given)
            continue
        _guard(isinstance(given, Tensor), f"isinstance({name}, torch.Tensor)", type(given).__name__)
        known, dynamic = nodes[name].meta["val"], program.dynamic.get(name, {})
        _guard(given.dtype == known.dtype, f"{name}.dtype == {known.dtype}", given.dtype)
        _guard(given.dim() == known.dim(), f"{name}.dim() == {known.dim()}", given.dim())
        for d, (size, fixed) in enumerate(zip(given.shape, known.shape, strict=True)):
            expression = f"{name}.size()[{d}]"
            if d not in dynamic:
                _guard(size == fixed, f"{expression} == {fixed}", size)
                continue
            symbol, factor, offset = dynamic[d]
            low, high = program.range_constraints[symbol]
            root, rest = divmod(size - offset, factor)
            _guard(rest == 0, f"({expression} - {offset}) % {factor} == 0", size)
            _guard(root >= low, f"{expression} >= {factor * low + offset}", size)
            _guard(
                high is None or root <= high,
                f"{expression} <= {factor * (high or 0) + offset}",
                size,
            )
            before, first = symbols.setdefault(symbol, (root, expression))
            _guard(
                before == root,
                f"{expression} == {factor * before + offset}, as {first} has it",
                size,
            )


def _guard(holds: bool, what: str, got: Any) -> None:
    if not holds:
        raise AssertionError(f"Guard failed: {what} (got {got})")
