"""Undocumented names of PyTorch's modules that programs import: `from torch.nn.modules.transformer import _get_clones`.

`private_names` says which module has which. Rushlight does not use them.
"""

from __future__ import annotations

import copy
import enum
import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight._C import _functorch as functorch
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.func import batching
from rushlight.nn import attention, hooks, lazy
from rushlight.nn.state import IncompatibleKeys
from rushlight.nn.tuples import ntuple
from rushlight.serialization import copying, rebuild
from rushlight.utils import _pytree

# -- nn.modules ------------------------------------------------------------------------------------

MultiheadAttention, PairwiseDistance = nn.MultiheadAttention, nn.PairwiseDistance
LinearCrossEntropyLoss = nn.LinearCrossEntropyLoss
LazyModuleMixin = lazy.LazyModuleMixin
NonDynamicallyQuantizableLinear = attention.NonDynamicallyQuantizableLinear
constant_, xavier_normal_ = nn.init.constant_, nn.init.xavier_normal_
xavier_uniform_ = nn.init.xavier_uniform_
_IncompatibleKeys = IncompatibleKeys
# The tables that calls look into: emptying one removes its hooks, another in its place has no effect.
_global_forward_pre_hooks, _global_forward_hooks = hooks.forward_pre_hooks, hooks.forward_hooks
_global_backward_pre_hooks, _global_backward_hooks = hooks.backward_pre_hooks, hooks.backward_hooks
_global_parameter_registration_hooks = hooks.parameter_registration_hooks
_global_buffer_registration_hooks = hooks.buffer_registration_hooks
_global_module_registration_hooks = hooks.module_registration_hooks


def _has_any_global_hook() -> bool:
    """Whether there are hooks that hold for every module."""
    return bool(
        hooks.forward_pre_hooks
        or hooks.forward_hooks
        or hooks.forward_hooks_always_called
        or hooks.forward_hooks_with_kwargs
        or hooks.backward_pre_hooks
        or hooks.backward_hooks
    )


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove `prefix` from the keys that begin with it ("module." of a DataParallel), in place.

    >>> state = {"module.weight": 1, "other": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'other': 2, 'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key and key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
        elif key == prefix.rstrip("."):
            metadata[""] = metadata.pop(key)


def _addindent(s_: str, numSpaces: int) -> str:
    """`s_` with all lines but the first indented."""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(numSpaces * " " + line for line in rest)])


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    def parse(x: Any) -> tuple:
        return ntuple(x, n)

    parse.__name__ = name
    return parse


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """`out_size` with None replaced by the last of `defaults`."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last, strict=True)]


def _get_clones(module: Any, N: int) -> nn.ModuleList:
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    sizes = src.size()
    return sizes[0] if len(sizes) == 2 else sizes[1 if batch_first else 0]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(sz, device=device, dtype=dtype)


def _detect_is_causal_mask(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    if is_causal is not None or mask is None:
        return bool(is_causal)
    n = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(n, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


class _UnionMeta(type):
    """Metaclass of PyTorch's common base classes: `members` count as their subclasses."""

    members: tuple[type, ...] = ()

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.members)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.members)


def _base_of(name: str, *more: str) -> type:
    made = _UnionMeta(f"_{name}Nd", (), {"__doc__": f"{name} of any number of dimensions."})
    made.members = tuple(getattr(nn, f"{each}{d}d") for each in (name, *more) for d in (1, 2, 3))
    return made


_MaxPoolNd, _MaxUnpoolNd = _base_of("MaxPool"), _base_of("MaxUnpool")
_AvgPoolNd, _LPPoolNd = _base_of("AvgPool"), _base_of("LPPool")
_AdaptiveMaxPoolNd = _base_of("AdaptiveMaxPool")
_AdaptiveAvgPoolNd = _base_of("AdaptiveAvgPool")
_CircularPadNd, _ConstantPadNd = _base_of("CircularPad"), _base_of("ConstantPad", "ZeroPad")
_ReflectionPadNd, _ReplicationPadNd = _base_of("ReflectionPad"), _base_of("ReplicationPad")


# -- nn.functional, nn.init ------------------------------------------------------------------------


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """The three projections of attention, whose weights are stacked in `w`."""
    weights = w.chunk(3)
    biases = b.chunk(3) if b is not None else (None, None, None)
    linear = nn.functional.linear
    return [linear(x, wx, bx) for x, wx, bx in zip((q, k, v), weights, biases, strict=True)]


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    linear = nn.functional.linear
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _none_or_dtype(input: Tensor | None) -> Any:
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any,
    check_other: bool = True,
) -> Tensor | None:  # fmt: skip
    """A mask of floats to add: -inf where a boolean mask is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not torch.bool:
        raise AssertionError(
            f"only bool and floating types of {mask_name} are supported, got {mask.dtype}"
        )
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The default dimension of a softmax."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _without_grad(function: Callable) -> Callable:
    def run(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        with torch.no_grad():
            return function(tensor, *args, **kwargs)

    return run


_no_grad_uniform_ = _without_grad(nn.init.uniform_)
_no_grad_normal_ = _without_grad(nn.init.normal_)
_no_grad_trunc_normal_ = _without_grad(nn.init.trunc_normal_)
_no_grad_fill_ = _without_grad(nn.init.constant_)
_no_grad_zero_ = _without_grad(nn.init.zeros_)


# -- optim.optimizer -------------------------------------------------------------------------------


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """Decorator: a step is recorded for autograd only if the optimizer is differentiable."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return func(self, *args, **kwargs)

    return step


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, torch.Tensor) and x.dim() else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    return torch.float64 if torch.get_default_dtype() is torch.float64 else torch.float32


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(False, False): optimizers choose by themselves."""
    return False, False


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable:
    return lambda func: func


def _view_as_real(params: list, *state_and_grads: list) -> None:
    """Replace complex parameters and their states by real views, in place."""
    for i, p in enumerate(params):
        if torch.is_complex(p):
            params[i] = torch.view_as_real(p)
            for each in state_and_grads:
                each[i] = torch.view_as_real(each[i])


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Device types on which `capturable=True` has a meaning: none."""
    return []


ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


# -- amp, data, profiler ---------------------------------------------------------------------------


class OptState(enum.Enum):
    """What a GradScaler has done with an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _default_schedule_fn(_: int) -> torch.profiler.ProfilerAction:
    """The schedule of a profiler that was given none: it records every step."""
    return torch.profiler.ProfilerAction.RECORD


# -- _functorch.vmap ---------------------------------------------------------------------------------

_add_batch_dim, _broadcast_to_and_flatten = (
    functorch._add_batch_dim,
    _pytree._broadcast_to_and_flatten,
)


_get_name = batching._name


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: Any, batch_size: int, out_dim: int | None
) -> Any:
    """A result of the function `name` without its level of `vmap`."""
    if not isinstance(batched_output, Tensor):
        if out_dim is None:
            return batched_output
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    if out_dim is not None:
        return functorch._remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
    if functorch.is_batchedtensor(batched_output):
        raise ValueError(
            f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
        )
    return batched_output


# -- what pickles name -----------------------------------------------------------------------------

_load_from_bytes = copying.storage_from_bytes
_rebuild_from_type_v2, _get_layout = rebuild.from_type, rebuild.layout
ProfilerActivity = torch.profiler.ProfilerActivity
_VariableFunctionsClass = torch  # pickles say `torch._C._VariableFunctionsClass.relu`
Generator = torch.Generator


# -- _C --------------------------------------------------------------------------------------------


def _is_alias_of(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have one memory."""
    return a.untyped_storage() is b.untyped_storage()


def _is_torch_function_mode_enabled() -> bool:
    """Whether a block of a `TorchFunctionMode` is open."""
    return bool(thread.function_modes)


def _is_tracing() -> bool:
    """False: `torch.jit.trace` does not trace."""
    return False


def _copy_to_script_wrapper(fn: Callable) -> Callable:
    """`fn`: there is no TorchScript that it would be copied to."""
    return fn


def _get_privateuse1_backend_name() -> str:
    """The name of the device type for back ends of others."""
    return "privateuseone"


# -- _utils ----------------------------------------------------------------------------------------


def _flatten_dense_tensors(tensors: list[Tensor]) -> Tensor:
    """The elements of all tensors, concatenated."""
    return torch.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    """Views of parts of `flat` in the shapes of `tensors`."""
    sizes = [t.numel() for t in tensors]
    return tuple(part.view(t.shape) for part, t in zip(flat.split(sizes), tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, each of about `size_limit` bytes."""
    waiting: dict[Any, tuple[list, int]] = {}
    for t in tensors:
        kept, size = waiting.get(t.dtype, ([], 0))
        if kept and size + t.nbytes > size_limit:
            yield kept
            kept, size = [], 0
        waiting[t.dtype] = [*kept, t], size + t.nbytes
    for kept, _ in waiting.values():
        yield kept


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    if isinstance(device, int):
        return device
    where = torch.device(device) if device is not None else torch.device("cpu")
    if where.type == "cpu" and (allow_cpu or optional):
        return -1
    raise ValueError(f"Expected a device with an index, but got: {device}")


def _get_all_device_indices() -> list[int]:
    return []


class ExceptionWrapper:
    """An exception that was caught in another thread or process, to be raised again by `reraise`."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import traceback

        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))

    def reraise(self) -> None:
        """Raise it, with the place where it was caught."""
        from rushlight.utils.data.worker import raised_elsewhere

        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        raise raised_elsewhere(self.exc_type, text)


def _element_size(dtype: Any) -> int:
    return dtype.itemsize


class classproperty:
    """A property of a class: `classproperty(function)`."""

    def __init__(self, func: Callable) -> None:
        self.fget = func.__func__ if isinstance(func, (classmethod, staticmethod)) else func

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.fget(type(instance) if owner is None else owner)


def _get_available_device_type() -> None:
    """The type of the accelerator of this machine: None."""


def _get_device_module(device_type: str) -> Any:
    """The module of a device type: `torch.cpu`."""
    module = getattr(torch, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


def is_compiling() -> bool:
    return torch.compiler.is_compiling()
