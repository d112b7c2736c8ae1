"""`DTensor`: a tensor of which every process of a mesh holds a part."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.autograd import Function
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed._mesh_layout import _FlatLayout, _MeshLayout
from rushlight.distributed.checkpoint.metadata import ChunkStorageMetadata
from rushlight.distributed.device_mesh import DeviceMesh, current_mesh
from rushlight.distributed.tensor import _dtensor_spec
from rushlight.distributed.tensor.dispatch import dispatch
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from rushlight.distributed.tensor.redistribute import redistribute
from rushlight.distributed.tensor.spec import (
    DTensorSpec,
    compute_local_shape_and_global_offset,
    normalized,
    size_of_parts,
    spec_of,
)
from rushlight.serialization import add_safe_globals, rebuild

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class DTensor(Tensor):
    """A tensor that is spread over a mesh: it has the shape of the whole, and each process has `to_local()` of it.

    Operators run on the parts, and move them where that is needed; gradients are spread tensors, too.
    """

    _local_tensor: Tensor
    _spec: DTensorSpec
    _copied = False  # whether it is a view whose parts had to be copied

    __torch_function__ = rushlight._C._disabled_torch_function_impl

    def __new__(cls, local: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> DTensor:
        t = Tensor._make_wrapper_subclass(
            cls, spec.shape, strides=spec.stride, dtype=spec.dtype, device=local.device,
            requires_grad=requires_grad,
        )  # fmt: skip
        t._local_tensor, t._spec = local, spec
        return t

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return dispatch(DTensor, func, args, dict(kwargs or {}))

    def _spread_zeros(self, shape: tuple, dtype: Any) -> Tensor:
        """Zeros on the same mesh: the gradient of an output that nobody used, beside that of one that was."""
        return self.new_zeros(shape, dtype=dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A pickle has this process's part, and how the tensor lies."""
        shell = (DTensor, self.dtype, tuple(self.shape), self.stride(), 0, self.layout, self.device)
        state = {**self.__dict__, "_spec": _dtensor_spec.DTensorSpec.of(self._spec)}
        made = rebuild.wrapper_subclass, DTensor, (*shell, self.requires_grad), state
        return rebuild.from_type, made

    def __setstate__(self, state: Any) -> None:
        plain, slots = state if isinstance(state, tuple) else (state, None)
        self.__dict__.update(plain or {}, **(slots or {}))
        saved: Any = self._spec  # as files have it
        self._spec = saved.spec()

    def __tensor_flatten__(self) -> tuple[list[str], tuple]:
        """(the attributes that are tensors, what else it takes to make it again)."""
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(
        inner_tensors: dict[str, Tensor], flatten_spec: tuple, outer_size: Any, outer_stride: Any
    ) -> DTensor:
        """The tensor of a part, and of the context that `__tensor_flatten__` gave."""
        spec, requires_grad = flatten_spec
        local = inner_tensors["_local_tensor"]
        spec = spec._replace(shape=tuple(outer_size), stride=tuple(outer_stride), dtype=local.dtype)
        return DTensor(local, spec, requires_grad=requires_grad)

    def __deepcopy__(self, memo: dict) -> Any:
        copied = DTensor(
            self._local_tensor.detach().clone(), self._spec, requires_grad=self.requires_grad
        )
        if isinstance(self, rushlight.nn.Parameter):
            copied = rushlight.nn.Parameter(copied, self.requires_grad)
        if self.grad is not None:
            copied.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copied
        return copied

    def resize_(self, *size: Any, memory_format: Any = None) -> Any:
        """Refused, as `resize_as_` and `set_`: a part cannot get another size or memory by itself."""
        raise NotImplementedError(
            "resize_, resize_as_, set_: a DTensor does not have a sharding strategy registered for them, "
            f"its size stays {tuple(self.shape)}. Make a new DTensor"
        )

    resize_as_ = set_ = resize_

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None, grad_placements: Any = None,
    ) -> DTensor:  # fmt: skip
        """The tensor of which `local_tensor` is this process's part; gradients flow back to the part.

        All parts have one size, unless `shape` (and `stride`) tell that of the whole. `run_check`: replicated parts are
        made those of the first process.
        """
        mesh = device_mesh or current_mesh()
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)}"
            )
        placed = normalized(placements, mesh, local_tensor.ndim)
        return _FromLocal.apply(
            local_tensor, mesh, placed, run_check, shape, stride, grad_placements
        )

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part. `grad_placements`: how the gradient of it lies, where it is not as the tensor does."""
        if not rushlight.is_grad_enabled():
            return self._local_tensor
        return _ToLocal.apply(self, grad_placements)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:  # fmt: skip
        """The same tensor at other places."""
        mesh = device_mesh or self._spec.mesh
        if mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placed = normalized(placements, mesh, self.ndim)
        for now, new in zip(self._spec.placements, placed):
            if isinstance(new, Partial) and now != new:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {new}, redistributing to Partial is for internal use only!"
                )
        return _Redistribute.apply(self, placed)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, everywhere."""
        whole = self.redistribute(placements=(Replicate(),) * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def _parts_alike(self, tensors: Sequence[Tensor | None]) -> list[Tensor | None] | None:
        """This process's parts of tensors that all lie as this one does; None if one does not."""
        spec = self._spec
        for t in tensors:
            if t is not None and (
                not isinstance(t, DTensor)
                or (t._spec.mesh, t._spec.placements, t._spec.shape)
                != (spec.mesh, spec.placements, spec.shape)
            ):
                return None
        if any(isinstance(p, Partial) for p in spec.placements):
            return None
        return [None if t is None else t._local_tensor for t in tensors]  # type: ignore[attr-defined]

    # -- what torch.distributed.checkpoint asks ------------------------------------------------

    def __create_chunk_list__(self) -> list:
        shape, offset = compute_local_shape_and_global_offset(
            self.shape, self._spec.mesh, self._spec.placements
        )
        return [ChunkStorageMetadata(Size(offset), Size(shape))]

    def __create_write_items__(self, fqn: str, object: Any) -> list:
        """This process's part, if it is the first of those that have it."""
        from rushlight.distributed.checkpoint.planner_helpers import _create_write_item_for_part

        coordinate = self._spec.mesh.get_coordinate()
        if coordinate is None:
            return []
        (chunk,) = self.__create_chunk_list__()
        replicas = (k for p, k in zip(self._spec.placements, coordinate) if p.is_replicate())
        if 0 in chunk.sizes or any(replicas):
            return []
        return [_create_write_item_for_part(fqn, self, chunk)]

    def __get_tensor_shard__(self, index: Any) -> Tensor:
        if any(p.is_partial() for p in self._spec.placements):
            raise ValueError(
                "a DTensor with Partial placements cannot be saved or loaded: redistribute it"
            )
        return self._local_tensor

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that it is spread over."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._spec.placements


def _without_partial(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Placements of a gradient: one that is replicated need not be made a sum again."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


class _FromLocal(Function):
    @staticmethod
    def forward(
        ctx: Any, local: Tensor, mesh: DeviceMesh, placements: tuple, check: bool, shape: Any, stride: Any, grads: Any
    ) -> DTensor:  # fmt: skip
        ctx.mesh, ctx.placements = mesh, _without_partial(grads or placements)
        if shape is None:
            shape, stride = size_of_parts(local, mesh, placements)
        elif stride is None:
            raise RuntimeError("Please pass both shape and stride at the same time.")
        local = local.detach()
        if mesh.get_coordinate() is None:
            local = local.new_empty(0)
        elif check:
            for i, p in enumerate(placements):
                if isinstance(p, Replicate):
                    local = local.contiguous()
                    collectives.broadcast(local, group=mesh.get_group(i), group_src=0)
        return DTensor(
            local.view_as(local),
            DTensorSpec(mesh, placements, tuple(shape), tuple(stride), local.dtype),
        )

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> tuple:  # type: ignore[override]
        if grad._spec.placements != ctx.placements:
            grad = _Redistribute.apply(grad, ctx.placements)
        return _ToLocal.apply(grad, None), None, None, None, None, None, None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, t: DTensor, grads: Any) -> Tensor:
        ctx.spec = t._spec
        ctx.placements = tuple(grads or _without_partial(t._spec.placements))
        return t._local_tensor.view_as(t._local_tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        spec = ctx.spec.placed(ctx.placements)._replace(dtype=grad.dtype)
        found = _FromLocal.apply(
            grad, spec.mesh, spec.placements, False, spec.shape, spec.stride, None
        )
        return found, None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, t: DTensor, placements: tuple) -> DTensor:
        ctx.placements = _without_partial(t._spec.placements)
        local = redistribute(t._local_tensor, t._spec, placements)
        return DTensor(local.view_as(local), t._spec.placed(placements))

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> tuple:  # type: ignore[override]
        return _Redistribute.apply(grad, ctx.placements), None


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A tensor that all processes know, spread over a mesh. Its values are those of the process `src_data_rank` of each
    dimension of the mesh; None: each process takes its part of what it has itself."""
    mesh = device_mesh or current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"
        )
    placed = normalized(placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor._spec.mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor._spec.mesh} to a different device mesh {mesh}."
            )
        if tensor._spec.placements != placed:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor._spec.placements} to a different placements "
                f"{placed}. do you want to call `redistribute` instead?"
            )
        return tensor
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        local = local.new_empty(0)
    else:
        if src_data_rank is not None and not local.is_meta:
            local = local.contiguous().clone()
            for i in range(mesh.ndim):
                if mesh.size(i) > 1:
                    collectives.broadcast(local, group=mesh.get_group(i), group_src=src_data_rank)
        whole = spec_of(local, mesh, (Replicate(),) * mesh.ndim)
        local = redistribute(local, whole, placed)
    return DTensor(local, spec_of(tensor, mesh, placed), requires_grad=tensor.requires_grad)


def distribute_module(
    module: Any, device_mesh: DeviceMesh | None = None, partition_fn: Callable | None = None,
    input_fn: Callable | None = None, output_fn: Callable | None = None,
) -> Any:  # fmt: skip
    """Spread the parameters and buffers of a module: `partition_fn(name, module, mesh)` says how, others are replicated.

    `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` change what comes in and goes out.
    """
    mesh = device_mesh or current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, each in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, each, mesh)
        replicate(each, mesh)
    if input_fn is not None:
        change = _with_module(input_fn, "input_fn")
        module.register_forward_pre_hook(lambda m, inputs: change(m, inputs, mesh))
    if output_fn is not None:
        adapt = _with_module(output_fn, "output_fn")
        module.register_forward_hook(lambda m, inputs, outputs: adapt(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _with_module(function: Callable, name: str) -> Callable:
    """A function of module, inputs and mesh; the older kind has no module."""
    count = len(inspect.signature(function).parameters)
    if count == 2:
        warnings.warn(
            f"Deprecating {name} that takes two arguments (inputs, device_mesh), please use {name} that takes in "
            "(module, inputs, device_mesh) instead!",
            FutureWarning,
            stacklevel=3,
        )
        return lambda module, values, mesh: function(values, mesh)
    if count != 3:
        raise ValueError(f"{name} should take in 3 arguments, but got {count} arguments!")
    return function


def replicate(module: Any, mesh: DeviceMesh) -> None:
    """Make the parameters and buffers of one module spread tensors that are whole everywhere, if they are none yet."""
    for name, p in module._parameters.items():
        if p is not None and not isinstance(p, DTensor):
            module.register_parameter(name, spread_parameter(p, mesh, None))
    for name, b in module._buffers.items():
        if b is not None and not isinstance(b, DTensor):
            module._buffers[name] = distribute_tensor(b, mesh)


def spread_parameter(
    p: Any, mesh: DeviceMesh, placements: Any, src_data_rank: int | None = 0
) -> Any:
    """A parameter, spread over a mesh."""
    spread = distribute_tensor(p.detach(), mesh, placements, src_data_rank=src_data_rank)
    return rushlight.nn.Parameter(spread, p.requires_grad)


add_safe_globals(  # `torch.load(weights_only=True)` reads spread tensors
    [
        DTensor, DeviceMesh, Partial, Replicate, Shard, _StridedShard, _dtensor_spec.DTensorSpec,
        _dtensor_spec.ShardOrderEntry, _dtensor_spec.TensorMeta, _FlatLayout, _MeshLayout,
    ]
)  # fmt: skip
