"""States of models and optimizers under the names of parameters, whatever they are wrapped in and however they are spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.distributed.tensor import DTensor, distribute_tensor
from rushlight.nn import Module
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.optim import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """How states are given and taken: `full_state_dict`: whole tensors in the place of spread ones; `cpu_offload` with it:
    on the first process only; `broadcast_from_rank0`: the state that is set is the first process's."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def renamed(model: Module) -> Callable[[str], str]:
    """What gives a name of the model's own `state_dict` without the parts that come from wrappers."""
    wrappers = [
        f"{path}.module." if path else "module."
        for path, each in model.named_modules()
        if isinstance(each, DistributedDataParallel)
    ]

    def name_of(name: str) -> str:
        for prefix in sorted(wrappers, key=len, reverse=True):
            if name.startswith(prefix):
                name = prefix.removesuffix("module.") + name[len(prefix) :]
        return name.replace("_orig_mod.", "").replace("_checkpoint_wrapped_module.", "")

    return name_of


def mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """A nested state with its tensors exchanged."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: mapped(v, function) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([mapped(v, function) for v in value])
    return value


def given(state: dict, options: StateDictOptions) -> dict:
    """A state as the options want it."""
    if options.full_state_dict:
        with rushlight.no_grad():
            state = mapped(
                state, lambda t: t.full_tensor() if isinstance(t, DTensor) else t.detach()
            )
        if options.cpu_offload and groups.is_initialized() and groups.get_rank():
            return {}
    return state


def from_first(state: dict) -> dict:
    """The state of the first process, everywhere."""
    if not groups.is_initialized():
        return state
    tensors: list[Tensor] = []

    def held(t: Tensor) -> Any:
        tensors.append(t)
        return _Place(len(tensors) - 1, tuple(t.shape), t.dtype)

    structure = [mapped(state, held) if groups.get_rank() == 0 else None]
    objects.broadcast_object_list(structure, src=0)

    return _received(structure[0], tensors)


def _received(value: Any, tensors: list[Tensor]) -> Any:
    """A state of the first process, whose `tensors` are its own there and none elsewhere."""
    if isinstance(value, _Place):
        t = (
            tensors[value.number].detach().contiguous()
            if tensors
            else rushlight.empty(value.shape, dtype=value.dtype)
        )
        collectives.broadcast(t, src=0)
        return t
    if isinstance(value, dict):
        return {k: _received(v, tensors) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_received(v, tensors) for v in value])
    return value


@dataclass
class _Place:
    number: int
    shape: tuple
    dtype: Any


def like(value: Any, t: Tensor | None) -> Any:
    """A whole tensor, spread as `t` is."""
    if (
        isinstance(t, DTensor)
        and isinstance(value, Tensor)
        and not isinstance(value, DTensor)
        and value.shape == t.shape
    ):
        return distribute_tensor(value.detach(), t.device_mesh, t.placements, src_data_rank=None)
    return value


# -- models ------------------------------------------------------------------------------------------


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model."""
    options, name_of = options or StateDictOptions(), renamed(model)
    frozen = (
        {n for n, p in model.named_parameters() if not p.requires_grad}
        if options.ignore_frozen_params
        else ()
    )
    state = {name_of(n): v for n, v in model.state_dict().items() if n not in frozen}
    if submodules is not None:
        inside = tuple(
            f"{name_of(path + '.')}" for path, m in model.named_modules() if m in submodules
        )
        state = {n: v for n, v in state.items() if n.startswith(inside)}
        if not options.keep_submodule_prefixes:
            state = {
                n[len(next(p for p in inside if n.startswith(p))) :]: v for n, v in state.items()
            }
    return given(state, options)


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give a model a state; returns the names that are missing and those that are not expected."""
    options, name_of = options or StateDictOptions(), renamed(model)
    state = from_first(model_state_dict) if options.broadcast_from_rank0 else model_state_dict
    own = model.state_dict()
    theirs = {name_of(n): n for n in own}
    taken = {theirs.get(n, n): like(v, own.get(theirs.get(n, n))) for n, v in state.items()}
    if options.ignore_frozen_params:
        taken = {n: p.detach() for n, p in model.named_parameters() if not p.requires_grad} | taken
    without_memory = any(v.is_meta for v in own.values() if isinstance(v, Tensor))
    return model.load_state_dict(taken, strict=options.strict, assign=without_memory)


# -- optimizers --------------------------------------------------------------------------------------


def _init_optim_state(optimizer: Optimizer) -> None:
    """Let an optimizer that has no state yet make it, without a change to the parameters."""
    if optimizer.state:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if any(p.grad is not None for p in parameters):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for p in parameters:
        p.grad = rushlight.zeros_like(p)
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = rushlight.tensor(0.0) if isinstance(group["lr"], Tensor) else 0.0
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates):
        if "lr" in group:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def several(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    """Optimizers as a list."""
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def named_parameters(model: Module) -> tuple[dict[Tensor, str], dict[str, Tensor]]:
    """(parameter -> its name, name -> parameter)."""
    name_of = renamed(model)
    names = {p: name_of(n) for n, p in model.named_parameters()}
    return names, {n: p for p, n in names.items()}


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The state of the optimizers of a model, under the names of its parameters."""
    options = options or StateDictOptions()
    names, _ = named_parameters(model)
    state: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in several(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            others = {k: v for k, v in group.items() if k != "params"}
            state["param_groups"].append(others | {"params": [names[p] for p in group["params"]]})
            for p in group["params"]:
                if p in optimizer.state:
                    state["state"][names[p]] = dict(optimizer.state[p])
    if options.flatten_optimizer_state_dict:
        state = flat(state)
    return given(state, options)


def flat(state: dict) -> dict[str, Any]:
    """`state.<parameter>.<entry>` and `param_groups.<parameter>.<entry>`."""
    found = {f"state.{n}.{k}": v for n, entry in state["state"].items() for k, v in entry.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            found |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
    return found


def nested(state: dict, names: Iterable[str]) -> dict[str, Any]:
    """The reverse of `flat`: a group for each parameter."""
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for name in names:
        start, group = f"state.{name}.", f"param_groups.{name}."
        entry = {
            k[len(start) :]: v
            for k, v in state.items()
            if k.startswith(start) and "." not in k[len(start) :]
        }
        if entry:
            found["state"][name] = entry
        others = {
            k[len(group) :]: v
            for k, v in state.items()
            if k.startswith(group) and "." not in k[len(group) :]
        }
        if others:
            found["param_groups"].append({"params": [name]} | others)
    return found


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Give the optimizers of a model a state that `get_optimizer_state_dict` gave."""
    options = options or StateDictOptions()
    names, _ = named_parameters(model)
    state = from_first(optim_state_dict) if options.broadcast_from_rank0 else optim_state_dict
    if "state" not in state or "param_groups" not in state:
        state = nested(state, names.values())
    saved = {n: group for group in state["param_groups"] for n in group["params"]}
    for optimizer in several(optimizers):
        _init_optim_state(optimizer)
        own = optimizer.state_dict()
        for group, mine in zip(optimizer.param_groups, own["param_groups"]):
            first = next((saved[names[p]] for p in group["params"] if names[p] in saved), None)
            if first is None:
                if options.strict and group["params"]:
                    raise RuntimeError(
                        f"the state has no parameter group of {names[group['params'][0]]}"
                    )
                continue
            mine.update({k: v for k, v in first.items() if k != "params"})
            for number, p in zip(mine["params"], group["params"]):
                if names[p] in state["state"]:
                    entry = state["state"][names[p]]
                    own["state"][number] = {k: like(v, p) for k, v in entry.items()}
                elif options.strict and number in own["state"]:
                    raise RuntimeError(f"the state has nothing of {names[p]}")
        optimizer.load_state_dict(own)


# -- both --------------------------------------------------------------------------------------------


def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The states of a model and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Give a model and its optimizers their states."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
