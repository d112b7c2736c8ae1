"""What the inputs and the outputs of an exported graph are: parameters, buffers, what users give and get."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
    "TensorArgument",
]  # fmt: skip


@dataclass
class TensorArgument:
    """A tensor: the name of its node."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is no tensor, fixed when the program was exported."""

    name: str
    value: Any


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    """What an output of the graph is. The last two are what writes leave: the values afterwards."""

    USER_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()


@dataclass
class InputSpec:
    """`target`: the name in the module; `persistent`: whether a buffer is in its state_dict."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        kept = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{_line(self)}{kept}"


@dataclass
class OutputSpec:
    """`target`: the buffer or the input that the value is for."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None

    def __str__(self) -> str:
        return _line(self)


def _line(spec: InputSpec | OutputSpec) -> str:
    target = "" if spec.target is None else f" target={spec.target!r}"
    return f"{spec.arg.name}: {spec.kind.name}{target}"


def _named(kind: Any) -> property:
    """The targets of all specs of one kind."""

    def get(self: ExportGraphSignature) -> tuple[str, ...]:
        specs = self.input_specs if isinstance(kind, InputKind) else self.output_specs
        return tuple(s.target for s in specs if s.kind is kind)

    return property(get)


def _mapped(kind: Any) -> property:
    """{name of the node: target} of all specs of one kind."""

    def get(self: ExportGraphSignature) -> dict[str, str]:
        specs = self.input_specs if isinstance(kind, InputKind) else self.output_specs
        return {s.arg.name: s.target for s in specs if s.kind is kind}

    return property(get)


def _of_users(kind: Any) -> property:
    """The names of the nodes, or the values of constants, that users give or get."""

    def get(self: ExportGraphSignature) -> tuple:
        specs = self.input_specs if isinstance(kind, InputKind) else self.output_specs
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in specs
            if s.kind is kind
        )

    return property(get)


@dataclass
class ExportGraphSignature:
    """The specs of all inputs and outputs of a graph, in their order."""

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def __str__(self) -> str:
        inputs, outputs = ("\n".join(map(str, s)) for s in (self.input_specs, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"

    parameters = _named(InputKind.PARAMETER)
    buffers = _named(InputKind.BUFFER)
    lifted_tensor_constants = _named(InputKind.CONSTANT_TENSOR)
    inputs_to_parameters = _mapped(InputKind.PARAMETER)
    inputs_to_buffers = _mapped(InputKind.BUFFER)
    inputs_to_lifted_tensor_constants = _mapped(InputKind.CONSTANT_TENSOR)
    user_inputs = _of_users(InputKind.USER_INPUT)
    user_outputs = _of_users(OutputKind.USER_OUTPUT)
    buffers_to_mutate = _mapped(OutputKind.BUFFER_MUTATION)
    user_inputs_to_mutate = _mapped(OutputKind.USER_INPUT_MUTATION)

    @property
    def user_input_names(self) -> list[str]:
        """The names of all placeholders that users give values for."""
        return [s.arg.name for s in self.input_specs if s.kind is InputKind.USER_INPUT]

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The buffers that are not in the state_dict."""
        return tuple(
            s.target
            for s in self.input_specs
            if s.kind is InputKind.BUFFER and s.persistent is False
        )
