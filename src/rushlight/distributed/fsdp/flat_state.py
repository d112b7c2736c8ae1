"""State dicts of models and optimizers whose parameters are flat: whole and spread tensors under their own names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.fsdp.flat_parameter import NAME, FlatParameter, Original
from rushlight.distributed.fsdp.policies import StateDictType
from rushlight.nn.module import Module
from rushlight.optim.sgd import SGD

WRAPPED = "_fsdp_wrapped_module."


def broadcast(found: Sequence[tuple], module: Module, group: Any, replicas: Any) -> None:
    """Give all processes the parameters and buffers of the first."""
    for tensor in [*(p for p, _, _ in found), *module.buffers()]:
        for each in {id(g): g for g in (group, replicas) if g is not None}.values():
            collectives.broadcast(tensor.detach(), group=each, group_src=0)


def names_of(original: Original, module: Module) -> list[str]:
    """The names of a parameter in a module; several for one that is shared."""
    if len(original.places) == 1:
        return [original.name]
    where = {id(m): name for name, m in module.named_modules()}
    return [f"{where[id(m)]}.{n}".lstrip(".") for m, n in original.places]


def as_saved(tensor: Tensor, kind: StateDictType, group: Any) -> Tensor:
    """A whole tensor as a state dict has it: a copy, or this process's part of a spread one."""
    if kind is StateDictType.FULL_STATE_DICT or group is None:
        return tensor.detach().clone()
    from rushlight.distributed.tensor import DTensor, Shard
    from rushlight.distributed.tensor.spec import spec_of

    mesh = DeviceMesh.from_group(group, "cpu")
    rows = -(-len(tensor) // group.size())
    part = tensor.detach()[group.rank() * rows : (group.rank() + 1) * rows].clone()
    return DTensor(part, spec_of(tensor, mesh, (Shard(0),)))


def whole(value: Any) -> Any:
    """The whole of a spread tensor."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def load(
    flat: FlatParameter, module: Module, state: dict, inside: str, missing: list, errors: list
) -> None:  # fmt: skip
    """Exchange whole values in a state dict for this process's part of the row."""
    row, any_ = flat.whole(flat.sharded.detach()).clone(), False
    for original, piece in zip(flat.originals, flat.pieces(row)):
        keys = [inside + name for name in names_of(original, module)]
        given = [state.pop(key) for key in keys if key in state]
        if not given:
            missing.append(keys[0].replace(WRAPPED, ""))
        elif tuple(given[0].shape) != original.shape:
            errors.append(
                f"size mismatch for {keys[0].replace(WRAPPED, '')}: copying a param with shape {given[0].shape} from "
                f"checkpoint, the shape in current model is {piece.shape}."
            )
        else:
            any_ = True
            piece.copy_(whole(given[0].detach()))
    if any_:
        with rushlight.no_grad():
            flat.sharded.data.copy_(flat.mine(row))
    if flat.use_orig_params:
        for original, part in zip(flat.originals, flat.parameters()):
            for name in names_of(original, module):
                state[inside + name] = part.detach()
    else:
        state[inside + NAME] = flat.sharded.detach()


def _flat_parameters(model: Module) -> Iterator[tuple[str, FlatParameter]]:
    """(the name of the wrapped module, its row)."""
    for name, each in model.named_modules():
        if (flat := getattr(each, "__dict__", {}).get("_flat")) is not None:
            prefix = f"{name}.{WRAPPED}" if name else WRAPPED
            yield prefix.replace(WRAPPED, ""), flat


def collected(
    model: Module, optim: Any, kind: StateDictType, rank0_only: bool, given: dict | None = None
) -> dict:
    """The state of an optimizer under the names of the model without wrappers."""
    numbers = {id(p): k for k, p in enumerate(_all(optim))}
    made = optim.state_dict() if given is None else given
    states = made["state"]
    found: dict[str, dict] = {}
    names: dict[int, list[str]] = {}
    for prefix, flat in _flat_parameters(model):
        own = [numbers.get(id(p)) for p in flat.parameters()]
        for k, number in enumerate(own):
            if number is not None:
                few = flat.originals[k : k + 1] if flat.use_orig_params else flat.originals
                names[number] = [prefix + o.name for o in few]
        entries = [states.get(number, {}) if number is not None else {} for number in own]
        for key in dict.fromkeys(key for entry in entries for key in entry):
            pieces = _pieces(flat, entries, key)
            for original, piece in zip(flat.originals, pieces):
                if piece is None:
                    continue
                if isinstance(piece, Tensor):
                    spread = piece.dim() > 0 and tuple(piece.shape) == original.shape
                    piece = as_saved(piece, kind, flat.group) if spread else piece.clone()
                found.setdefault(prefix + original.name, {})[key] = piece
    for name, parameter in model.named_parameters():
        number = numbers.get(id(parameter))
        if number is not None and number not in names:
            names[number] = [name.replace(WRAPPED, "")]
            if number in states:
                found[names[number][0]] = dict(states[number])
    rows = [
        {**group, "params": [n for number in group["params"] for n in names[number]]}
        for group in made["param_groups"]
    ]
    if rank0_only and rushlight.distributed.get_rank() != 0:
        return {}
    return {"state": found, "param_groups": rows}


def _pieces(flat: FlatParameter, entries: Sequence[dict], key: str) -> list:
    """One value of an optimizer's state for each parameter of a row."""
    values = [entry.get(key) for entry in entries]
    sharded = flat.parameters()
    spread = [
        isinstance(v, Tensor) and v.dim() > 0 and v.shape == p.shape
        for v, p in zip(values, sharded)
    ]
    if not any(spread):
        return values if flat.use_orig_params else values * len(flat.originals)
    row = flat.joined(values) if flat.use_orig_params else values[0]
    pieces: list = flat.pieces(flat.whole(row))  # type: ignore[arg-type]
    if flat.use_orig_params:
        pieces = [piece if v is not None else None for piece, v in zip(pieces, values)]
    return pieces


def _all(optim: Any) -> list:
    return [p for group in optim.param_groups for p in group["params"]]


def optimizer_of(model: Module, optim_input: Any, optim: Any) -> Any:
    """The optimizer, or one of the parameters that it was made of: those of the model, if nothing is said."""
    if optim is not None:
        return optim
    return SGD(list(model.parameters()) if optim_input is None else optim_input, lr=0.0)


def scattered(full: dict | None, model: Module, optim: Any, group: Any) -> dict:
    """What an optimizer loads of the whole state that the first process has."""
    given = [full if groups.get_rank(group) == 0 else None]
    objects.broadcast_object_list(given, group=group, group_src=0)
    return optim_state_dict_to_load(model, optim, given[0])


def rekeyed(state: dict, by_name: bool, model: Module, optim: Any) -> dict:
    """The state of an optimizer by names of parameters, or by their numbers in the optimizer."""
    kinds = {type(key) for key in state["state"]}
    if len(kinds) > 1:
        raise ValueError(f"Invalid parameter keys: {state['state'].keys()}")
    if kinds <= {str if by_name else int}:
        return state
    numbers = {id(p): k for k, p in enumerate(_all(optim))}
    names = {numbers[id(p)]: n for n, p in model.named_parameters() if id(p) in numbers}
    keys: dict = names if by_name else {n: k for k, n in names.items()}
    found = {keys[key]: value for key, value in state["state"].items()}
    rows = [{**g, "params": [keys[key] for key in g["params"]]} for g in state["param_groups"]]
    return {"state": found, "param_groups": rows}


def _settings(model: Module) -> Any:
    for each in model.modules():
        if (found := getattr(each, "__dict__", {}).get("_settings")) is not None:
            return found
    return None


def optim_state_dict(
    model: Module, optim: Any, optim_state_dict: dict | None = None, group: Any = None
) -> dict:
    """The state of an optimizer of a model with wrappers, as `set_state_dict_type` says."""
    settings = _settings(model)
    kind = StateDictType.FULL_STATE_DICT if settings is None else settings.state_dict_type
    if kind is StateDictType.LOCAL_STATE_DICT:
        return optim.state_dict() if optim_state_dict is None else optim_state_dict
    only = getattr(getattr(settings, "optim_state_dict_config", None), "rank0_only", False)
    return collected(model, optim, kind, only, optim_state_dict)


def optim_state_dict_to_load(
    model: Module, optim: Any, optim_state_dict: dict, is_named_optimizer: bool = False, load_directly: bool = False,
    group: Any = None,
) -> dict:  # fmt: skip
    """What the optimizer's own `load_state_dict` takes of such a state."""
    optim = optimizer_of(model, None, optim)
    given = optim_state_dict["state"]
    names: dict[int, list[str]] = {}
    values: dict[int, dict] = {}
    for prefix, flat in _flat_parameters(model):
        full = [given.get(prefix + o.name, {}) for o in flat.originals]
        for k, parameter in enumerate(flat.parameters()):
            few = flat.originals[k : k + 1] if flat.use_orig_params else flat.originals
            names[id(parameter)] = [prefix + o.name for o in few]
            values[id(parameter)] = {}
        for key in dict.fromkeys(key for entry in full for key in entry):
            _take(flat, [entry.get(key) for entry in full], key, values)
    for name, parameter in model.named_parameters():
        if id(parameter) not in names:
            names[id(parameter)] = [name.replace(WRAPPED, "")]
            values[id(parameter)] = given.get(names[id(parameter)][0], {})
    options = {n: group for group in optim_state_dict["param_groups"] for n in group["params"]}
    state, rows = {}, []
    numbers = {id(p): k for k, p in enumerate(_all(optim))}
    for group_ in optim.param_groups:
        own = [id(p) for p in group_["params"]]
        known = [options[n] for p in own for n in names.get(p, ()) if n in options]
        rest = {k: v for k, v in (known[0] if known else group_).items() if k != "params"}
        rows.append({**rest, "params": [numbers[p] for p in own]})
        state |= {numbers[p]: values[p] for p in own if values.get(p)}
    made = {"state": state, "param_groups": rows}
    if load_directly:
        optim.load_state_dict(made)
    return made


def _take(flat: FlatParameter, full: list, key: str, values: dict[int, dict]) -> None:
    """Put this process's parts of one value of an optimizer's state where they belong."""
    full = [whole(v) for v in full]
    fits = [
        isinstance(v, Tensor) and v.dim() > 0 and tuple(v.shape) == o.shape
        for v, o in zip(full, flat.originals)
    ]
    parameters = flat.parameters()
    if not any(fits):
        for k, parameter in enumerate(parameters):
            value = full[k] if flat.use_orig_params else next(v for v in full if v is not None)
            if value is not None:
                values[id(parameter)][key] = value
        return
    like = next(v for v, fit in zip(full, fits) if fit)
    rows = [
        v.reshape(-1) if fit else like.new_zeros(o.stop - o.start)
        for v, fit, o in zip(full, fits, flat.originals)
    ]
    part = flat.mine(rushlight.cat(rows))
    for k, parameter in enumerate(parameters):
        if flat.use_orig_params and full[k] is None:
            continue
        own = flat.part(part, flat.originals[k]) if flat.use_orig_params else part
        values[id(parameter)][key] = own.clone()
