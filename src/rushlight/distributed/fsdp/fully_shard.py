"""`fully_shard`: the parameters of a module become spread tensors, which are whole only while the module computes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rushlight
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.fsdp.parameter_group import ParameterGroup, Step
from rushlight.distributed.fsdp.policies import MixedPrecisionPolicy, OffloadPolicy
from rushlight.distributed.fsdp.sharded_parameter import ShardedParameter, own_parameters
from rushlight.distributed.groups import _get_default_group, get_world_size
from rushlight.distributed.tensor import DTensor, Replicate, Shard
from rushlight.distributed.tensor.placement_types import _StridedShard
from rushlight.distributed.tensor.spec import DTensorSpec, spec_of
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

__all__ = [
    "FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
]  # fmt: skip

MIXED, OFFLOAD = MixedPrecisionPolicy(), OffloadPolicy()


class UnshardHandle:
    """What `unshard(async_op=True)` returns: `wait` until the parameters are whole."""

    def __init__(self, group: ParameterGroup) -> None:
        self._group = group

    def wait(self) -> None:
        """Let the module have the whole parameters."""
        self._group.unshard()


class FSDPModule:
    """What `fully_shard` adds to the class of a module."""

    _fsdp_group: ParameterGroup

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # an instance that is made of the class is one of the module's own class
        own = cls.__mro__[2]
        made = own.__new__(own, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self, memo: dict) -> Any:
        raise AssertionError(
            "FSDP does not support deepcopy. Please use state dict for serialization."
        )

    def _groups(self, recurse: bool = True) -> list[ParameterGroup]:
        modules: Iterable = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        found = [m._fsdp_group for m in modules if isinstance(m, FSDPModule)]
        return list(dict.fromkeys(found))

    def _set(self, name: str, value: Any, recurse: bool = True) -> None:
        for group in self._groups(recurse):
            setattr(group, name, value)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's own parameters."""
        group = self._fsdp_group
        group.start()
        if async_op:
            return UnshardHandle(group)
        group.unshard()
        return None

    def reshard(self) -> None:
        """Free the module's own gathered parameters."""
        self._fsdp_group.reshard()

    def reset_iter_state(self) -> None:
        """Forget a step that was broken off."""
        for group in self._groups():
            group._missing.clear()
            group._open.clear()
            group.reshard()
            if group.step is not None:
                group.step.in_backward = False
                group.step.order.clear()
                group.step.sums.clear()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward is the last one of the present forwards."""
        _step(self).is_last_backward = is_last_backward

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward reduces gradients, or adds them up whole on each process."""
        self._set("synchronizes", requires_gradient_sync, recurse)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients over replicas."""
        self._set("reduces_replicas", requires_all_reduce, recurse)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are freed after forward."""
        self._set("reshard_after_forward", reshard_after_forward, recurse)

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters are freed after backward."""
        self._set("reshard_after_backward", reshard_after_backward, recurse)

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Start to gather these before the forward of this module."""
        self._fsdp_group.forward_prefetch = [m._fsdp_group for m in modules]

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Start to gather these before the backward of this module."""
        self._fsdp_group.backward_prefetch = [m._fsdp_group for m in modules]

    def set_all_reduce_hook(self, hook: Callable, *, stream: Any = None) -> None:
        """Call `hook(rows)` on each reduced gradient."""
        self._fsdp_group.after_all_reduce = hook

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by this, and not by the number of processes."""
        self._fsdp_group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward gathers the parameters; not if it does not read them."""
        self._fsdp_group.unshards_in_backward = unshard_in_backward

    def set_post_optim_event(self, event: Any) -> None:
        """Nothing to wait for on the CPU."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Sums are what is reduced anyway."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of sharded and of gathered parameters."""
        super().zero_grad(set_to_none)  # type: ignore[misc]
        for parameter in (p for group in self._groups() for p in group.parameters):
            for each in (parameter.sharded, parameter.unsharded):
                if each is not None and each.grad is not None:
                    each.grad = None if set_to_none else each.grad.zero_()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        for group in self._groups():
            group.reshard()
        return super()._apply(*args, **kwargs)  # type: ignore[misc]


def _step(module: Any) -> Step:
    """What the groups of a model share. The first module that runs is the root of those inside of it."""
    group = module._fsdp_group
    if group.step is None:
        step = Step()
        step.groups = module._groups()
        for each in step.groups:
            if each.step is not None:
                raise RuntimeError(
                    f"FSDP state has already been lazily initialized for a module inside of {type(module).__name__}: "
                    "fully_shard() modules need to run through their root first"
                )
            each.step = step
            if each.reshard_after_forward is None:
                each.reshard_after_forward = each is not group
    return group.step


def _groups_of(mesh: DeviceMesh) -> tuple[Any, Any]:
    """(the processes that share parts, those that have the same part)."""
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 1:
        return mesh.get_group(), None
    return mesh.get_group(1), mesh.get_group(0)


_TWICE = (
    "Each distinct composable distributed API can only be applied to a module once. "
    "fully_shard has already been applied to the following module:\n{}"
)


_classes: dict[type, type] = {}


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable | None = None, mp_policy: MixedPrecisionPolicy = MIXED,
    offload_policy: OffloadPolicy = OFFLOAD, ignored_params: set | None = None, dp_mesh_dims: Any = None,
) -> Any:  # fmt: skip
    """Spread the parameters of a module, and gather them around its forward and backward.

    What a module inside of it has spread already stays with that module: so a call for each layer, then one for the whole
    model, makes every layer gather its own. `mesh` of two dimensions: replicas of spread parameters.
    """
    modules = [module] if isinstance(module, Module) else list(module)
    for each in modules:
        if isinstance(each, rushlight.nn.ModuleList | rushlight.nn.ModuleDict):
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {each}"
            )
        if isinstance(each, FSDPModule):
            raise AssertionError(_TWICE.format(each))
    if mesh is None:
        _get_default_group()
        mesh = init_device_mesh("cpu", (get_world_size(),))
    shard_group, replicate_group = _groups_of(mesh)
    reshard_after_forward = _reshards(reshard_after_forward, shard_group.size())

    def make(part: Tensor, parameter: Tensor, dim: int) -> Parameter:
        inner = getattr(parameter, "_spec", None)
        placements = (Replicate(), Shard(dim)) if mesh.ndim == 2 else (Shard(dim),)
        spec = (
            spec_of(parameter, mesh, placements)
            if inner is None
            else spec_within(inner, mesh, placements, dim)
        )
        return Parameter(DTensor(part, spec), parameter.requires_grad)

    parameters = []
    ignored = {id(p) for p in ignored_params or ()}
    for parameter, name, places in own_parameters(modules, FSDPModule, ignored):
        dim = _dimension(parameter, name, shard_placement_fn)
        sharded = ShardedParameter(
            parameter,
            places,
            shard_group,
            mp_policy.param_dtype,
            functools.partial(make, dim=dim),
            dim,
        )
        sharded.place(sharded.sharded)
        parameters.append(sharded)
    group = ParameterGroup(
        parameters, replicate_group, reshard_after_forward=reshard_after_forward,
        param_dtype=mp_policy.param_dtype, reduce_dtype=mp_policy.reduce_dtype, output_dtype=mp_policy.output_dtype,
        cast_inputs=mp_policy.cast_forward_inputs and mp_policy.param_dtype is not None,
    )  # fmt: skip
    running: set[int] = set()  # of several modules: those whose forward is still to come

    def before(each: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        step = _step(each)
        del step.order[: -8 * len(step.groups)]  # of forwards that no backward followed
        if not running:
            running.update(map(id, modules))
        return group.before_forward(args, kwargs)

    def after(each: Any, args: tuple, outputs: Any) -> Any:
        running.discard(id(each))
        return group.after_forward(outputs, last=not running)

    for each in modules:
        kind = type(each)
        if kind not in _classes:
            _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
        each.__class__ = _classes[kind]
        each._fsdp_group = group
        each._fsdp_around = (before, after)
        each.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        each.register_forward_hook(after)
        each.register_state_dict_pre_hook(lambda m, *_: m.reshard())
        each.register_load_state_dict_pre_hook(lambda m, *_: m.reshard())
    return module


def spec_within(
    inner: DTensorSpec, mesh: DeviceMesh, placements: tuple, dim: int = 0
) -> DTensorSpec:
    """The spec of a tensor whose parts along `inner` are cut along another mesh of the same root."""
    root = mesh._get_root_mesh()
    if root != inner.mesh._get_root_mesh() or not mesh.mesh_dim_names:
        raise ValueError(
            "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but got: "
            f"DP's mesh: {mesh} and TP/EP's mesh: {inner.mesh}"
        )
    if inner.parts(dim) > 1:
        strided = _StridedShard(dim, inner.parts(dim))
        placements = tuple(strided if p == Shard(dim) else p for p in placements)
    both = root[(*mesh.mesh_dim_names, *inner.mesh.mesh_dim_names)]  # type: ignore[misc]
    return inner._replace(mesh=both, placements=(*placements, *inner.placements))


def _dimension(parameter: Tensor, name: str, shard_placement_fn: Callable | None) -> int:
    """Along which dimension a parameter is cut."""
    if parameter.dim() == 0:
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    placed = shard_placement_fn(parameter) if shard_placement_fn is not None else None
    if placed is None:
        return 0
    if not isinstance(placed, Shard):
        raise AssertionError(f"Expected Shard, got {type(placed)}")
    dim = placed.dim + parameter.dim() if placed.dim < 0 else placed.dim
    if dim >= parameter.dim():
        raise AssertionError(
            f"Shard dim {dim} is invalid for {parameter.dim()}D tensor: {parameter.shape}"
        )
    return dim


def _reshards(value: Any, size: int) -> bool | None:
    """`reshard_after_forward` may be a size of smaller groups: that of all is True, 1 is False.

    Parts for groups of a size between them do not exist: parameters are freed, as with True, and a warning says so.
    """
    if value is None or isinstance(value, bool):
        return value
    if value < 1 or value > size or size % value:
        raise ValueError(
            f"If specifying reshard_after_forward as an int, it should be a factor of {size}, not {value}"
        )
    if value == 1:
        warnings.warn(
            "reshard_after_forward=1 (int) means resharding parameters to world size 1, instead of "
            "reshard_after_forward=True (bool)",
            stacklevel=3,
        )
    elif value != size:
        warnings.warn(
            f"reshard_after_forward={value}: parameters are freed after forward and gathered from all {size} processes "
            f"in backward, not kept in groups of {value}",
            stacklevel=3,
        )
    return value != 1


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Gather and free parameters around another method, as around forward."""
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)
    before, after = module._fsdp_around

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = before(module, args, kwargs)
        return after(module, args, method(*args, **kwargs))

    setattr(module, method_name, wrapped)


@stub("no-op", "There are no streams of a device to share.")
def share_comm_ctx(modules: Sequence[FSDPModule]) -> None:
    """ValueError for modules that are not of `fully_shard`."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")
