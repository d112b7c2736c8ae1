"""`FullyShardedDataParallel`: a wrapper whose module's parameters are one row, of which each process keeps a part."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups
from rushlight.distributed.fsdp import flat_state
from rushlight.distributed.fsdp.flat_parameter import FlatParameter
from rushlight.distributed.fsdp.parameter_group import ParameterGroup, Step, computes_in_float32
from rushlight.distributed.fsdp.policies import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.sharded_parameter import own_parameters
from rushlight.distributed.fsdp.wrap import as_policy, wrap_inside
from rushlight.distributed.reductions import ReduceOp
from rushlight.nn.module import Module

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullyShardedDataParallel", "MixedPrecision", "OptimStateKeyType",
    "ShardingStrategy", "StateDictType",
]  # fmt: skip

WRAPPED = "_fsdp_wrapped_module"
_CONFIGS: dict[StateDictType, tuple[type, type]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_FREED = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)  # after forward


def clean(name: str) -> str:
    """A name without those of wrappers."""
    return name.replace(f"{WRAPPED}.", "")


def _groups(strategy: ShardingStrategy, given: Any, mesh: Any) -> tuple[Any, Any]:
    """(the processes that share parts, those that have the same part)."""
    if mesh is not None:
        if given is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time.")
        given = mesh.get_group() if mesh.ndim == 1 else (mesh.get_group(1), mesh.get_group(0))
    if strategy in _HYBRID:
        if given is None:
            size = int(os.environ.get("LOCAL_WORLD_SIZE", groups.get_world_size()))
            mine, _ = groups.new_subgroups(size)
            rank, world = groups.get_rank(), groups.get_world_size()
            rows = [list(range(k, world, size)) for k in range(size)]
            across, _ = groups.new_subgroups_by_enumeration(rows)
            assert rank in across.ranks
            return mine, across
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ValueError(
                f"Expected process_group to be passed in with a tuple of two groups for {strategy}, got {given}"
            )
        return tuple(given)
    if given is None:
        given = groups._get_default_group()
    return (None, given) if strategy is ShardingStrategy.NO_SHARD else (given, None)


def _materialize(module: Module, param_init_fn: Callable | None) -> None:
    """Give modules on the meta device memory and values."""
    for each in list(module.modules()):
        own = [*each.parameters(recurse=False), *each.buffers(recurse=False)]
        if any(t.device.type == "meta" for t in own):
            if param_init_fn is not None:
                param_init_fn(each)
            else:
                each.to_empty(device="cpu", recurse=False)
                each.reset_parameters()  # type: ignore[operator]


def _in_full_precision(module: Module, mixed: MixedPrecision | None, ignored: set[int]) -> dict:
    """The classes of modules inside of a module that are wrapped without mixed precision, and by which options."""
    apart = {}
    for kind in () if mixed is None else mixed._module_classes_to_ignore:
        those = [m for m in module.modules() if isinstance(m, kind) and id(m) not in ignored]
        for each in those:
            computes_in_float32(each)
        if those:
            apart[kind] = {"mixed_precision": None}
    if apart:
        names = ", ".join(sorted(kind.__name__ for kind in apart))
        warnings.warn(
            f"FSDP with mixed precision and an auto_wrap_policy: modules of type {names} are wrapped as separate "
            "FSDP instances with mixed precision disabled.",
            stacklevel=3,
        )
    return apart


class FullyShardedDataParallel(Module):
    """Wraps a module: its parameters are gathered before forward and backward, and freed after them."""

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None, ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable | None = None, device_id: Any = None, sync_module_states: bool = False,
        forward_prefetch: bool = False, limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Any = None, device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        shard_group, replicate_group = _groups(strategy, process_group, device_mesh)
        if strategy is ShardingStrategy.FULL_SHARD and shard_group.size() == 1:
            warnings.warn(
                "FSDP is switching to use `NO_SHARD` instead of ShardingStrategy.FULL_SHARD since the world size is 1.",
                stacklevel=2,
            )
            strategy = ShardingStrategy.NO_SHARD
            shard_group, replicate_group = None, shard_group
        ignored = {id(m) for each in ignored_modules or () for m in each.modules()}
        for each in [*(ignored_modules or ()), *(ignored_states or ())]:
            ignored |= {id(p) for p in (each.parameters() if isinstance(each, Module) else [each])}
            ignored |= {id(m) for m in (each.modules() if isinstance(each, Module) else [])}
        if (policy := as_policy(auto_wrap_policy)) is not None:
            options = {
                "process_group": process_group if device_mesh is None else None,
                "sharding_strategy": sharding_strategy, "mixed_precision": mixed_precision,
                "backward_prefetch": backward_prefetch, "param_init_fn": param_init_fn,
                "sync_module_states": sync_module_states, "use_orig_params": use_orig_params,
                "device_mesh": device_mesh,
                "ignored_states": [p for p in module.parameters() if id(p) in ignored] or None,
            }  # fmt: skip
            if strategy in _HYBRID and process_group is None and device_mesh is None:
                options["process_group"] = (shard_group, replicate_group)

            def make(inside: Module, **more: Any) -> Module:
                return FullyShardedDataParallel(inside, **{**options, **more})

            apart = _in_full_precision(module, mixed_precision, ignored)
            module, _ = wrap_inside(module, policy, make, ignored, apart=apart)
        _materialize(module, param_init_fn)
        self.sharding_strategy, self.process_group = strategy, shard_group or replicate_group
        self.mixed_precision = mixed = mixed_precision or MixedPrecision()
        found = own_parameters([module], FullyShardedDataParallel, ignored)
        if sync_module_states:
            flat_state.broadcast(found, module, self.process_group, replicate_group)
        setattr(self, WRAPPED, module)
        self._flat: FlatParameter | None = None
        if found:
            self._flat = FlatParameter(
                module, found, shard_group, mixed.param_dtype, use_orig_params
            )
        self._buffer_dtypes: dict[str, Any] = {}  # of the state dict, where modules have another
        if mixed.buffer_dtype is not None:
            self._narrow_buffers(module, mixed.buffer_dtype)
        self._group = ParameterGroup(
            [self._flat] if self._flat is not None else [], replicate_group,
            reshard_after_forward=None if strategy in _FREED else False,
            param_dtype=mixed.param_dtype, reduce_dtype=mixed.reduce_dtype or mixed.param_dtype,
            cast_inputs=mixed.cast_forward_inputs and mixed.param_dtype is not None,
        )  # fmt: skip
        if backward_prefetch is None:
            self._group.backward_prefetch = []
        self._settings = StateDictSettings()
        self._summoning = False
        self._register_load_state_dict_pre_hook(self._before_load)

    def _narrow_buffers(self, module: Module, dtype: Any) -> None:
        """Cast the buffers of a module, but for those of wrappers inside of it."""
        inner = {id(m) for wrapper in self.fsdp_modules_of(module) for m in wrapper.modules()}
        for inside, each in module.named_modules():
            for name, b in each._buffers.items():
                if b is not None and b.is_floating_point() and id(each) not in inner:
                    self._buffer_dtypes[f"{inside}.{name}".lstrip(".")] = b.dtype
                    each._buffers[name] = b.to(dtype)

    @property
    def module(self) -> Module:
        """The module inside of the wrapper."""
        return getattr(self, WRAPPED)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(WRAPPED), name)

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]  # type: ignore[index]

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a module."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return [m for m in found if m.check_is_root()] if root_only else found

    def check_is_root(self) -> bool:
        """Whether this wrapper is in no other one."""
        step = self._begin()
        return step.groups[0] is self._group

    def _begin(self) -> Step:
        """What the wrappers of a model share. The first that runs is the root of those inside of it."""
        if self._group.step is None:
            step = Step()
            inside = FullyShardedDataParallel.fsdp_modules_of(self)
            step.groups = [m._group for m in inside]
            mixed = self.mixed_precision
            self._group.cast_inputs = mixed.param_dtype is not None and (
                mixed.cast_root_forward_inputs or mixed.cast_forward_inputs
            )
            for each in step.groups:
                each.step = step
                if each.reshard_after_forward is None:
                    each.reshard_after_forward = each is not self._group
        return self._group.step  # type: ignore[return-value]

    @staticmethod
    def fsdp_modules_of(module: Module) -> list[FullyShardedDataParallel]:
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own forward, with whole parameters."""
        step = self._begin()
        del step.order[: -8 * len(step.groups)]  # of forwards that no backward followed
        args, kwargs = self._group.before_forward(args, kwargs)
        return self._group.after_forward(self.module(*args, **kwargs))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block gradients are added up on each process, whole."""
        inside = self.fsdp_modules_of(self)
        before = [m._group.synchronizes for m in inside]
        for m in inside:
            m._group.synchronizes = False
        try:
            yield
        finally:
            for m, value in zip(inside, before):
                m._group.synchronizes = value

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Not there: gradients are reduced in the dtype that `mixed_precision` names."""
        raise NotImplementedError(
            "communication hooks of FullyShardedDataParallel: mixed_precision.reduce_dtype sends narrow gradients"
        )

    def apply(self, fn: Callable[[Module], Any]) -> FullyShardedDataParallel:
        """Call `fn` on all modules, with whole parameters."""
        with self.summon_full_params(self):
            return super().apply(fn)  # type: ignore[return-value]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._group.reshard()
        with contextlib.nullcontext() if self._flat is None else self._flat.converted(fn):
            return super()._apply(fn, recurse)

    # -- whole parameters --------------------------------------------------------------------------

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Within the block modules have whole parameters under their own names."""
        if rank0_only and writeback:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported")
        inside = FullyShardedDataParallel.fsdp_modules_of(module)
        if not recurse:
            inside = [m for m in inside if m is module]
        with contextlib.ExitStack() as stack:
            for m in inside:
                stack.enter_context(m._summoned(writeback, with_grads, rank0_only))
            yield

    @contextlib.contextmanager
    def _summoned(
        self, writeback: bool, with_grads: bool = False, rank0_only: bool = False
    ) -> Iterator[None]:
        flat, group = self._flat, self._group
        self._begin()
        if group.step.in_backward:  # type: ignore[union-attr]
            raise AssertionError("summon_full_params inside of a backward")
        if flat is None or self._summoning:
            yield
            return
        group.reshard()  # what was gathered may have another dtype, and is old if it is written to
        outer = flat.row
        flat.row = flat.gathered() if outer is None else outer
        gradient = flat.gradient() if with_grads else None
        gradient = None if gradient is None else flat.whole(gradient)
        shown = not rank0_only or self.process_group.rank() == 0
        if shown:
            made = flat.summon()
            if gradient is not None:
                for parameter, piece in zip(made, flat.pieces(gradient)):
                    parameter.grad = piece
        self._summoning = shown
        try:
            yield
        finally:
            self._summoning = False
            if shown:
                flat.dismiss(writeback)
            flat.row = outer

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The parameters; their own names within `summon_full_params`."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield clean(name) if self._summoning else name, parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The buffers; their own names within `summon_full_params`."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield clean(name) if self._summoning else name, buffer

    @rushlight.no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that the norm of those of the whole model is at most `max_norm`."""
        self._begin()
        sharded: list[Tensor] = []
        rest = {id(p): p for p in self.parameters()}
        group = None
        for m in self.fsdp_modules_of(self):
            if m._flat is None:
                continue
            own = m._flat.parameters()
            if m._flat.group is not None:
                group = m._flat.group
                sharded += [p.grad for p in own if p.grad is not None]
                for p in own:
                    rest.pop(id(p), None)
        whole = [p.grad for p in rest.values() if p.grad is not None]
        norm = lambda grads: rushlight.nn.utils.get_total_norm(grads, norm_type).float()
        total = norm(sharded) if sharded else rushlight.zeros(())
        powers = norm_type not in (float("inf"), 0)
        if group is not None:
            total = total**norm_type if powers else total
            collectives.all_reduce(total, ReduceOp.SUM if powers else ReduceOp.MAX, group)
        elif powers:
            total = total**norm_type
        if whole:
            other = norm(whole)
            total = total + other**norm_type if powers else rushlight.maximum(total, other)
        total = total ** (1 / norm_type) if powers else total
        rushlight.nn.utils.clip_grads_with_norm_(self.parameters(), max_norm, total)
        return total

    # -- state -------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None, optim_state_dict_config: Any = None
    ) -> StateDictSettings:  # fmt: skip
        """Choose what `state_dict` of the wrappers in a module has. Returns what was chosen before."""
        of_model, of_optimizer = _CONFIGS[state_dict_type]
        made = StateDictSettings(
            state_dict_type,
            state_dict_config or of_model(),
            optim_state_dict_config or of_optimizer(),
        )
        for given, kind in (
            (made.state_dict_config, of_model),
            (made.optim_state_dict_config, of_optimizer),
        ):
            if not isinstance(given, kind):
                raise RuntimeError(f"Expected {kind.__name__} but got {type(given).__name__}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel.fsdp_modules_of(module):
            m._settings = made
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What `state_dict` of the wrappers in a module has."""
        inside = FullyShardedDataParallel.fsdp_modules_of(module)
        return inside[0]._settings if inside else StateDictSettings()

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: Any = None, optim_state_dict_config: Any = None
    ) -> Iterator[None]:  # fmt: skip
        """Within the block `state_dict` has what is asked for."""
        chosen = FullyShardedDataParallel.set_state_dict_type
        before = chosen(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            chosen(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:  # type: ignore[override]
        """The state, as `set_state_dict_type` says; names are those of the module without wrappers."""
        kind = self._settings.state_dict_type
        only = getattr(self._settings.state_dict_config, "rank0_only", False)
        if kind is StateDictType.LOCAL_STATE_DICT:
            self._group.reshard()
            found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        else:
            with self._summoned(writeback=False):
                found = super().state_dict(
                    destination=destination, prefix=prefix, keep_vars=keep_vars
                )
                inside = f"{prefix}{WRAPPED}."
                for original in self._flat.originals if self._flat is not None else ():
                    for name in flat_state.names_of(original, self.module):
                        if (key := inside + name) in found:
                            found[key] = flat_state.as_saved(found[key], kind, self._flat.group)
                for name, dtype in self._buffer_dtypes.items():
                    if (key := inside + name) in found:
                        found[key] = found[key].to(dtype)
        for key in [k for k in found if k.startswith(f"{prefix}{WRAPPED}.")]:
            found[prefix + key[len(prefix) + len(WRAPPED) + 1 :]] = found.pop(key)
        if only and self.process_group.rank():
            for key in [k for k in found if k.startswith(prefix)]:
                del found[key]
        return found

    def _before_load(
        self, state: dict, prefix: str, metadata: Any, strict: bool, missing: list, unexpected: list, errors: list
    ) -> None:  # fmt: skip
        """Names and values as the wrapped module has them now."""
        self._group.reshard()
        inside = f"{prefix}{WRAPPED}."
        for key in [k for k in state if k.startswith(prefix) and not k.startswith(inside)]:
            state[inside + key[len(prefix) :]] = state.pop(key)
        if (
            self._flat is not None
            and self._settings.state_dict_type is not StateDictType.LOCAL_STATE_DICT
        ):
            flat_state.load(self._flat, self.module, state, inside, missing, errors)

    optim_state_dict = staticmethod(flat_state.optim_state_dict)
    optim_state_dict_to_load = staticmethod(flat_state.optim_state_dict_to_load)

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict:  # fmt: skip
        """The whole state of an optimizer; only on the first process with `rank0_only`."""
        return flat_state.collected(model, optim, StateDictType.FULL_STATE_DICT, rank0_only)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict:
        """The state of an optimizer as spread tensors."""
        return flat_state.collected(model, optim, StateDictType.SHARDED_STATE_DICT, False)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict, model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict:
        """What an optimizer loads of a whole state."""
        optim = flat_state.optimizer_of(model, optim_input, optim)
        return flat_state.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict | None, model: Module, optim_input: Any = None, optim: Any = None, group: Any = None
    ) -> dict:  # fmt: skip
        """As `shard_full_optim_state_dict`, of the whole state that the first process has."""
        optim = flat_state.optimizer_of(model, optim_input, optim)
        return flat_state.scattered(full_optim_state_dict, model, optim, group)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict, optim_state_key_type: OptimStateKeyType, model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict:  # fmt: skip
        """The state of an optimizer of a model without wrappers by names of parameters, or by their numbers."""
        by_name = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        optim = flat_state.optimizer_of(model, optim_input, optim)
        return flat_state.rekeyed(optim_state_dict, by_name, model, optim)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict, model: Module, optim: Any
    ) -> dict:
        """What an optimizer loads of a spread state."""
        return flat_state.optim_state_dict_to_load(model, optim, sharded_optim_state_dict)
