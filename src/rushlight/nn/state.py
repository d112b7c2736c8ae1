"""`state_dict` and `load_state_dict`: a module's tensors out of the tree by name, and back in.

The names, their order, `_metadata` and the messages are PyTorch's, so that checkpoints go both ways.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from rushlight.nn.module import Module

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The keys that `load_state_dict` found missing or unexpected."""

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


IncompatibleKeys.__name__ = IncompatibleKeys.__qualname__ = "_IncompatibleKeys"


def own_tensors(module: Module) -> list[tuple[str, Tensor | None]]:
    """The module's own parameters and persistent buffers, in the order of a checkpoint."""
    buffers = module._buffers.items()
    hidden = module._non_persistent_buffers_set
    return [*module._parameters.items(), *((n, b) for n, b in buffers if n not in hidden)]


def has_extra_state(module: Module, method: str) -> bool:
    """True if the module's class overrides `get_extra_state` (`set_extra_state`)."""
    from rushlight.nn.module import Module as Base

    return getattr(type(module), method, None) is not getattr(Base, method)


def save(module: Module, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Store every tensor of the tree in `destination`; see `Module.state_dict`."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    local_metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = local_metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
            )
    for hook in module._state_dict_hooks.values():
        result = hook(module, destination, prefix, local_metadata)
        if getattr(hook, "_from_public_api", False):
            if result is not None:
                raise RuntimeError("state_dict post-hook must return None")
        elif result is not None:
            destination = result
    return destination


def save_own(module: Module, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Put the module's own tensors, not its children's, into `destination`."""
    for name, tensor in own_tensors(module):
        if tensor is not None:
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if has_extra_state(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE] = module.get_extra_state()


def load_tree(
    module: Module, state: Any, prefix: str, metadata: Any, assign: bool, problems: tuple
) -> None:
    """Copy a state into the module and its children; `problems`: lists for missing keys, unexpected ones, errors."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state, prefix, local_metadata, True, *problems)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            own = {k: v for k, v in state.items() if k.startswith(inner)}
            load_tree(child, own, inner, metadata, assign, problems)
    keys = IncompatibleKeys(*problems[:2])
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done inplace."
            )


def load(module: Module, state_dict: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy a state into the tree; see `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata

    load_tree(module, state_dict, "", metadata, assign, (missing, unexpected, errors))
    if strict:
        if unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    if errors:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors)
        )
    return IncompatibleKeys(missing, unexpected)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def load_own(
    module: Module,
    state_dict: Any,
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Copy the module's own tensors from `state_dict`; missing keys and errors are added to the lists."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, own in own_tensors(module):
        key = prefix + name
        if own is None:
            continue
        if key in state_dict:
            problem = _load_tensor(module, name, own, key, state_dict[key], assign)
            if problem:
                error_msgs.append(problem)
        elif strict:
            missing_keys.append(key)

    key = prefix + EXTRA_STATE
    if has_extra_state(module, "set_extra_state"):
        if key in state_dict:
            module.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)
    elif strict and key in state_dict:
        unexpected_keys.append(key)

    if strict:
        # A name registered as None (the bias of a layer without one) expects nothing.
        own_names = {name for name, own in own_tensors(module) if own is not None}
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                first, *deeper = key[len(prefix) :].split(".", 1)
                # A key of a child is the child's to judge; one that names neither is nobody's.
                if first not in own_names if not deeper else first not in module._modules:
                    unexpected_keys.append(key)


def _load_tensor(
    module: Module, name: str, current: Tensor, key: str, saved: Any, assign: bool
) -> str | None:
    """Copy (or assign) one tensor; the error message where it does not fit."""
    if not isinstance(saved, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(saved)}"
        )
    if not is_lazy(current):
        # Checkpoints from before 0-d tensors hold scalars as tensors of one element.
        if current.dim() == 0 and saved.dim() == 1:
            saved = saved[0]
        if saved.shape != current.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {saved.shape} from "
                f"checkpoint, the shape in current model is {current.shape}."
            )
    try:
        with rushlight.no_grad():
            if assign:
                if isinstance(current, Parameter):
                    if not isinstance(saved, Parameter):
                        saved = Parameter(saved, requires_grad=current.requires_grad)
                    else:
                        saved.requires_grad_(current.requires_grad)
                setattr(module, name, saved)
            else:
                current.copy_(saved)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{current.size()} and whose dimensions in the checkpoint are {saved.size()}, an exception "
            f"occurred : {error.args}."
        )
    return None
