"""`torch.distributed.tensor.debug`: which collectives a program starts, and in which modules; where the parts of a tensor are.

Note [Counted collectives]
Every collective is started by a `ProcessGroup`, which tells those who listen. The functions that it was started through say
what PyTorch calls it: what spread tensors and functional collectives need counts under `torch.ops.c10d_functional`, all else
under `torch.ops.c10d`.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import process_group
from rushlight.distributed.tensor.spec import part_at
from rushlight.library import Library, Namespace
from rushlight.nn import hooks
from rushlight.utils._pytree import tree_leaves

__all__ = ["CommDebugMode", "visualize_sharding"]

_FUNCTIONAL = {
    "all_reduce": "all_reduce", "all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single", "all_to_all_single": "all_to_all_single", "broadcast": "broadcast",
}  # fmt: skip
_PLAIN = {
    "all_reduce": "allreduce_", "all_reduce_coalesced": "allreduce_coalesced_", "all_gather": "allgather_",
    "all_gather_coalesced": "allgather_coalesced_", "all_gather_into_tensor": "_allgather_base_",
    "reduce_scatter": "reduce_scatter_", "reduce_scatter_tensor": "_reduce_scatter_base_", "broadcast": "broadcast_",
    "reduce": "reduce_", "gather": "gather_", "scatter": "scatter_", "all_to_all": "alltoall_",
    "all_to_all_single": "alltoall_base_",
}  # fmt: skip
_CALLERS = frozenset(
    f"rushlight.distributed.{name}"
    for name in ("tensor.redistribute", "_functional_collectives", "nn.functional")
)
_SPACES = {"c10d_functional": set(_FUNCTIONAL.values()), "c10d": set(_PLAIN.values())}

for _space, _names in _SPACES.items():  # what the counts are of: names without a kernel
    for _name in sorted(_names):
        Library(_space, "FRAGMENT").define(f"{_name}(Tensor[] tensors) -> Tensor[]")


def _operator(name: str) -> tuple[Any, bool]:
    """(what PyTorch calls a collective that is being started, None if it does not count it; whether backward starts it)."""
    through = space = None
    in_backward, frame = False, sys._getframe(1)
    while frame is not None and not in_backward:
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if module in _CALLERS:
            space = "c10d_functional"
        if through is None and module == "rushlight.distributed.collectives" and function in _PLAIN:
            through = function
        in_backward = module == "rushlight.autograd.engine"
        frame = frame.f_back  # type: ignore[assignment]
    if space is not None and name in _FUNCTIONAL:
        return getattr(Namespace(space), _FUNCTIONAL[name]), in_backward
    found = _PLAIN.get(through or name)
    return found and getattr(Namespace("c10d"), found), in_backward


class CommDebugMode:
    """Counts the collectives that this process starts inside of the block; see Note [Counted collectives].

    >>> from rushlight.distributed.tensor.debug import CommDebugMode
    >>> with CommDebugMode() as mode:
    ...     pass
    >>> mode.get_total_counts(), mode.get_comm_counts()
    (0, {})
    """

    def __init__(self) -> None:
        self.comm_counts: dict[Any, int] = {}
        self.comm_module_counts: dict[str, dict[str, dict[Any, int]]] = {}
        self._kinds: dict[str, type] = {}
        self._parameters: dict[str, dict[str, Any]] = {}
        self._places: dict[str, dict[str, Any]] = {}
        self._handles: list[Any] = []
        self._stack: list[str] = []
        self._names: dict[int, str] = {}
        self._backward = ""  # the module whose gradients are being computed

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        for table in (self.comm_module_counts, self._kinds, self._parameters, self._places):
            table.clear()
        self._of("Global")
        self._handles = [hooks.register_module_forward_pre_hook(self._enter_module)]
        process_group.listeners.append(self._count)
        return self

    def __exit__(self, *error: Any) -> None:
        process_group.listeners.remove(self._count)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()
        self._names.clear()

    # -- what is recorded --------------------------------------------------------------------------

    def _of(self, module: str) -> dict[str, dict[Any, int]]:
        made: dict[str, dict[Any, int]] = {
            "forward": defaultdict(int),
            "backward": defaultdict(int),
        }
        return self.comm_module_counts.setdefault(module, made)

    def _count(self, name: str) -> None:
        operator, in_backward = _operator(name)
        if operator is None:
            return
        self.comm_counts[operator] = self.comm_counts.get(operator, 0) + 1
        path = (self._backward if in_backward else self._stack[-1] if self._stack else "").split(
            "."
        )
        modules = {".".join(path[: k + 1]) for k in range(len(path))} - {""}
        for module in ("Global", *modules):
            self._of(module)["backward" if in_backward else "forward"][operator] += 1

    def _enter_module(self, module: Any, args: Any) -> None:
        if id(module) not in self._names:
            root = type(module).__name__
            for name, each in module.named_modules():
                self._names[id(each)] = f"{root}.{name}" if name else root
                # behind the module's own hooks, which may start collectives
                self._handles.append(
                    each.register_forward_hook(self._leave_module, always_call=True)
                )
        name = self._names[id(module)]
        self._stack.append(name)
        self._of(name)
        self._kinds[name] = type(module)
        for key, parameter in module.named_parameters(recurse=False):
            self._parameters.setdefault(name, {})[key] = parameter.data
            if hasattr(parameter, "placements"):
                self._places[f"{name}.{key}"] = parameter.placements

    def _leave_module(self, module: Any, args: Any, outputs: Any) -> None:
        name = self._stack.pop()

        def backward(_: Any) -> None:
            self._backward = name

        for each in tree_leaves(outputs):
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(backward)

    # -- what is told ------------------------------------------------------------------------------

    def get_total_counts(self) -> int:
        """How many collectives were started."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """How often each was started, by its name under `torch.ops`."""
        return self.comm_counts

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """The parameters of each module that ran."""
        return self._parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """The placements of the parameters that are spread."""
        return self._places

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """The collectives of each module, in forward and in backward; from level 1 its class and parameters, too."""
        lines = []
        for module, counts in self.comm_module_counts.items():
            indent = "  " * (0 if module == "Global" else module.count(".") + 1)
            lines.append(indent + module)
            if noise_level > 0 and module in self._kinds:
                kind = self._kinds[module]
                lines.append(f"{indent}  *module type: {kind.__module__}.{kind.__qualname__}")
                for key in self._parameters.get(module, {}):
                    places = self._places.get(f"{module}.{key}", "not spread")
                    lines.append(f"{indent}  *{key}: {places}")
            for way in ("forward", "backward"):
                if counts[way]:
                    lines.append(f"{indent}  {way.upper()} PASS")
                    lines += [f"{indent}    *{op}: {n}" for op, n in counts[way].items()]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(
        self, file_name: str = "comm_mode_log.txt", noise_level: int = 3
    ) -> None:
        """Write the table to a file."""
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"


def visualize_sharding(dtensor: Any, header: str = "", use_rich: bool = False) -> None:
    """Print which process has which rows and columns of a spread tensor, on the first process of its mesh.

    The table is plain text, also where PyTorch would colour it (`use_rich`).
    """
    if dtensor.numel() == 0:
        return
    if dtensor.dim() > 2:
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    mesh = dtensor.device_mesh
    if mesh.get_coordinate() is None or any(mesh.get_coordinate()):
        return
    cells: dict[tuple, list[str]] = {}
    for place in itertools.product(*map(range, mesh.shape)):
        shape, first = part_at(place, dtensor.shape, mesh, dtensor.placements)
        spans = [(begin, begin + size - 1) for begin, size in zip(first, shape)]
        spans += [(0, 0)] * (2 - len(spans))
        cells.setdefault(tuple(spans), []).append(str(mesh.mesh[place].item()))
    rows, columns = (sorted({spans[k] for spans in cells}) for k in range(2))
    table = [["", *(f"Col {a}-{b}" for a, b in columns)]]
    for row in rows:
        found = (cells.get((row, column)) for column in columns)
        table.append(
            [f"Row {row[0]}-{row[1]}", *(f"{mesh.device_type}:{','.join(each)}" if each else "" for each in found)]
        )  # fmt: skip
    widths = [max(len(table[0][k]) + 2, *(len(row[k]) for row in table[1:])) for k in range(len(table[0]))]  # fmt: skip
    table.insert(1, ["-" * width for width in widths])
    for cell_row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(cell_row, widths)).rstrip())
