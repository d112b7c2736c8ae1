"""`input_reshard`: what backward needs of a module with spread parameters is kept in parts."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.autograd.saved_hooks import saved_tensors_hooks
from rushlight.core.tensor import Tensor
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import DTensor, Replicate, Shard
from rushlight.nn.module import Module

__all__ = ["input_reshard"]


def input_reshard(
    module: Module, tp_device_mesh: DeviceMesh, input_reshard_dim: int | None = None
) -> Module:
    """Let each process of the mesh keep a part of the tensors that all have for backward, cut along a dimension.

    Backward joins the parts. None as dimension changes nothing. All processes go through the same backward passes.
    """
    if input_reshard_dim is None:
        return module
    cut, mesh = Shard(input_reshard_dim), tp_device_mesh
    open_hooks: list[saved_tensors_hooks] = []

    @no_grad()
    def part(x: Tensor) -> Any:
        if isinstance(x, DTensor):
            whole = all(place.is_replicate() for place in x.placements)
            return x.redistribute(mesh, [cut]) if whole else x
        if x.numel() < mesh.size() or not -x.dim() <= input_reshard_dim < x.dim():
            return x
        local = DTensor.from_local(x, mesh).redistribute(mesh, [cut]).to_local()
        return local, x.shape, x.stride()  # parts may have several sizes

    @no_grad()
    def joined(kept: Any) -> Tensor:
        if isinstance(kept, tuple):
            local, shape, stride = kept
            spread = DTensor.from_local(local, mesh, [cut], shape=shape, stride=stride)
            return spread.full_tensor()
        if isinstance(kept, DTensor) and kept.placements[0].is_shard():
            return kept.redistribute(mesh, [Replicate()])
        return kept

    def before(_: Module, inputs: Any) -> None:
        hooks = saved_tensors_hooks(part, joined)
        hooks.__enter__()
        open_hooks.append(hooks)

    def after(_: Module, inputs: Any, outputs: Any) -> None:
        open_hooks.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
    return module
