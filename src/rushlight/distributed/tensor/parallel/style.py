"""Styles: how a layer's parameters are cut, and how its inputs and outputs lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.api import DTensor, distribute_module, spread_parameter
from rushlight.distributed.tensor.placement_types import Placement, Replicate, Shard
from rushlight.nn import Embedding, Linear, Module

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip


class ParallelStyle:
    """What `parallelize_module` does with a module; classes of one's own define `_apply(module, mesh)`."""

    src_data_rank: int | None = 0
    _shown: tuple[str, ...] = ()  # attributes in its text

    def __repr__(self) -> str:
        if not self._shown:
            return super().__repr__()
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
        return f"{type(self).__name__}({values})"

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError


def placed(x: Any, mesh: DeviceMesh, given: Placement | None, wanted: Placement | None) -> Any:
    """A tensor that lies as `given` says if it is a plain one, as `wanted` says."""
    if given is not None and isinstance(x, Tensor) and not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, (given,))
    if wanted is not None and isinstance(x, DTensor) and x.placements != (wanted,):
        x = x.redistribute(placements=(wanted,))
    return x


class LayerStyle(ParallelStyle):
    """A style of one layer with one input and one output."""

    input_layout: Placement
    desired_layout: Placement
    output_layout: Placement
    use_local_output = True
    _shown = ("input_layouts", "output_layouts", "use_local_output")

    @property
    def input_layouts(self) -> tuple[Placement, ...]:
        """How the input comes."""
        return (self.input_layout,)

    @property
    def output_layouts(self) -> tuple[Placement, ...]:
        """How the output lies."""
        return (self.output_layout,)

    def cut(self, module: Module, name: str) -> Placement:
        """How a parameter lies."""
        raise NotImplementedError

    def _partition(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for key, p in module._parameters.items():
            if p is not None:
                where = (self.cut(module, key),)
                module.register_parameter(key, spread_parameter(p, mesh, where, self.src_data_rank))

    def _prepare(self, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        first = placed(inputs[0], mesh, self.input_layout, self.desired_layout)
        return (first, *inputs[1:])

    def _finish(self, module: Module, output: Any, mesh: DeviceMesh) -> Any:
        output = placed(output, mesh, None, self.output_layout)
        return output.to_local() if self.use_local_output else output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._partition, self._prepare, self._finish)


class ColwiseParallel(LayerStyle):
    """A `Linear` or `Embedding` of which each process has some columns: the input is whole, the output cut in its last
    dimension."""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input_layout = input_layouts or Replicate()
        self.desired_layout: Placement = Replicate()
        self.output_layout = output_layouts or Shard(-1)
        self.use_local_output = use_local_output

    def cut(self, module: Module, name: str) -> Placement:
        return Shard(1) if isinstance(module, Embedding) else Shard(0)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return super()._apply(checked(self, module), device_mesh)


class RowwiseParallel(LayerStyle):
    """A `Linear` or `Embedding` of which each process has some rows: the input of `Linear` is cut in its last dimension,
    the outputs of the processes are added."""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.input_layout = input_layouts or Shard(-1)
        self.output_layout = output_layouts or Replicate()
        self.use_local_output = use_local_output

    def cut(self, module: Module, name: str) -> Placement:
        if isinstance(module, Embedding):
            return Shard(0)
        return Shard(1) if name == "weight" else Replicate()

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.desired_layout = Replicate() if isinstance(module, Embedding) else Shard(-1)
        return super()._apply(checked(self, module), device_mesh)


def checked(style: ParallelStyle, module: Module) -> Module:
    """The module. NotImplementedError if the style has no rule for it."""
    if not isinstance(module, (Linear, Embedding)):
        raise NotImplementedError(
            f"{type(style).__name__} currently only support nn.Linear and nn.Embedding!"
        )
    return module


class SequenceParallel(LayerStyle):
    """A norm or a dropout that works on a part of the sequence: the parameters are whole, inputs and outputs cut in
    `sequence_dim`."""

    _shown = ("sequence_dim", "use_local_output")

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim = sequence_dim
        self.input_layout = self.desired_layout = self.output_layout = Shard(sequence_dim)
        self.use_local_output = use_local_output

    def cut(self, module: Module, name: str) -> Placement:
        return Replicate()


Layouts = Placement | Sequence[Placement | None] | None


def several(value: Layouts) -> tuple | None:
    """Layouts as a tuple."""
    return (value,) if isinstance(value, Placement) else None if value is None else tuple(value)


def all_placed(
    values: Any, mesh: DeviceMesh, given: tuple, wanted: tuple, local: bool, what: str
) -> list:
    """Arguments or results as `wanted`; plain tensors if `local`."""
    if len(values) != len(given):
        raise ValueError(f"module {what} and {what[:-1]}_layouts should have same length!")
    found = [placed(*row) for row in zip(values, [mesh] * len(given), given, wanted)]
    return [x.to_local() if local and isinstance(x, DTensor) else x for x in found]


class PrepareModuleInput(ParallelStyle):
    """Inputs of a module come as `input_layouts` and are made `desired_input_layouts` before its forward; None leaves
    one as it is."""

    _shown = (
        "input_layouts", "desired_input_layouts", "input_kwarg_layouts", "desired_input_kwarg_layouts",
        "use_local_output",
    )  # fmt: skip

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None, use_local_output: bool = False,
    ) -> None:  # fmt: skip
        self.input_layouts = several(input_layouts)
        self.desired_input_layouts = several(desired_input_layouts)
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError(
                    "input_layouts and desired_input_layouts should have same length!"
                )

    def _prepare(self, inputs: tuple, kwargs: dict, mesh: DeviceMesh) -> tuple[tuple, dict]:
        if self.input_layouts is not None:
            found = all_placed(
                inputs,
                mesh,
                self.input_layouts,
                self.desired_input_layouts or (),
                self.use_local_output,
                "inputs",
            )
            inputs = tuple(found)
        for name in kwargs.keys() & self.input_kwarg_layouts.keys():
            pair = (self.input_kwarg_layouts[name],), (self.desired_input_kwarg_layouts.get(name),)
            found = all_placed([kwargs[name]], mesh, *pair, self.use_local_output, "inputs")
            kwargs = kwargs | {name: found[0]}
        return inputs, kwargs

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_pre_hook(
            lambda _, inputs, kwargs: self._prepare(inputs, kwargs, device_mesh), with_kwargs=True
        )
        return module


class PrepareModuleOutput(ParallelStyle):
    """Outputs of a module come as `output_layouts` and are made `desired_output_layouts`; None leaves one as it is."""

    _shown = ("output_layouts", "desired_output_layouts", "use_local_output")

    def __init__(
        self,
        *,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = several(output_layouts) or ()
        self.desired_output_layouts = several(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _finish(self, outputs: Any, mesh: DeviceMesh) -> Any:
        rows = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        found = all_placed(
            rows,
            mesh,
            self.output_layouts,
            self.desired_output_layouts,
            self.use_local_output,
            "outputs",
        )
        return tuple(found) if isinstance(outputs, (tuple, list)) else found[0]

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda _, inputs, outputs: self._finish(outputs, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` in one."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None, use_local_input: bool = False,
        output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def __repr__(self) -> str:
        inputs, outputs = repr(self.prepare_module_input), repr(self.prepare_module_output)
        inputs = inputs.replace("use_local_output", "use_local_input").removesuffix(")")
        return inputs.replace("Input(", "InputOutput(", 1) + outputs.replace(
            "PrepareModuleOutput(", ", "
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
