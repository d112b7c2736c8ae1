"""What wrappers of modules by other people import from `torch.distributed.utils`: shapes compared, states sent, arguments mapped."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.data_parallel import _check_shapes
from rushlight.distributed.reducer import _broadcast_coalesced
from rushlight.nn.module import Module
from rushlight.nn.utils.rnn import PackedSequence

__all__ = [
    "_apply_to_tensors", "_cast_forward_inputs", "_get_root_modules", "_p_assert", "_pack_kwargs", "_recursive_to",
    "_replace_by_prefix", "_sync_module_states", "_sync_params_and_buffers", "_to_kwargs", "_unpack_kwargs",
    "_verify_param_shape_across_processes",
]  # fmt: skip


def _verify_param_shape_across_processes(
    process_group: Any, tensors: Sequence[Tensor], logger: Any = None
) -> None:
    """RuntimeError if the processes have other parameters."""
    _check_shapes(tensors, process_group)


def _sync_module_states(
    module: Module, process_group: Any, broadcast_bucket_size: int, src: int,
    params_and_buffers_to_ignore: Container[str], broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Give all processes the parameters and buffers of one, whose number in the group is `src`."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [t.detach() for name, t in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(
    process_group: Any, module_states: Sequence[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Give all processes the tensors of one."""
    _broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _apply_to_tensors(fn: Callable[[Tensor], Any], container: Any) -> Any:
    """A container with its tensors exchanged: in dicts, lists, tuples, sets and fields of dataclasses."""

    def applied(value: Any) -> Any:
        if isinstance(value, Tensor):
            return fn(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return dataclasses.replace(
                value, **{f.name: applied(getattr(value, f.name)) for f in fields}
            )
        if isinstance(value, PackedSequence):
            applied(value.data)
            return value
        if isinstance(value, dict):
            return type(value)((key, applied(each)) for key, each in value.items())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(applied, value))
        if isinstance(value, list | tuple | set):
            return type(value)(map(applied, value))
        return value

    return applied(container)


def _cast_forward_inputs(dtype: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The arguments with their floating-point tensors in a dtype."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    if dtype is None:
        return args, kwargs
    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool) -> list:
    """A list of the inputs on the device, which is one."""
    return [_apply_to_tensors(lambda tensor: tensor.to(target_device), inputs)]


def _to_kwargs(
    inputs: tuple, kwargs: dict | None, target_device: Any, use_side_stream_for_tensor_copies: bool
) -> tuple[tuple, tuple]:
    """Tuples of the arguments by place and of those by name for each device, which is one."""
    moved = [
        _recursive_to(each, target_device, use_side_stream_for_tensor_copies)
        for each in (inputs, kwargs or {})
    ]
    return tuple(moved[0]), tuple(moved[1])


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple, tuple]:
    """(all arguments by place, the names of the last of them)."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: tuple, kwarg_keys: tuple) -> tuple[tuple, dict]:
    """What `_pack_kwargs` was given."""
    places = len(flat_args) - len(kwarg_keys)
    if places < 0:
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    return flat_args[:places], dict(zip(kwarg_keys, flat_args[places:]))


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """AssertionError, printed first, unless `cond`: within a backward pass it might not be seen otherwise."""
    if cond:
        return
    print(s)
    traceback.print_stack()
    if raise_assertion_error:
        raise AssertionError(s)


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Exchange the beginning of the names that have it."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _get_root_modules(modules: Iterable[Module]) -> list[Module]:
    """The modules that are in none of the others."""
    given = list(modules)
    inside = {id(part) for each in given for part in each.modules() if part is not each}
    return [each for each in given if id(each) not in inside]
