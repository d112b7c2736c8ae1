"""`parallelize_module`: apply styles to the modules that a plan names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from rushlight.distributed.device_mesh import DeviceMesh, current_mesh
from rushlight.distributed.tensor.parallel.style import ParallelStyle
from rushlight.nn import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None, *, src_data_rank: int | None = 0,
) -> Module:  # fmt: skip
    """Apply a style to a module, or each style of a plan to the modules of its name: "layers.0.w1", "layers.*.w1"."""
    mesh = device_mesh or current_mesh()
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported", stacklevel=2
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        found = list(named(module, path.split(".")))
        if not found:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching the name",
                stacklevel=2,
            )
        for owner, name, each in found:
            made = parallelize_module(each, mesh, style, src_data_rank=src_data_rank)
            if made is not each and owner is not None:
                setattr(owner, name, made)
    return module


def named(module: Module, path: list[str], owner: Any = None, name: str = "") -> Any:
    """(its owner, its name there, the module) of each module that a path with wildcards names."""
    if path in ([], [""]):
        yield owner, name, module
        return
    for child, each in list(module.named_children()):
        if fnmatch(child, path[0]):
            yield from named(each, path[1:], module, child)
