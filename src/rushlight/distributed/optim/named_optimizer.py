"""`_NamedOptimizer`: an optimizer whose state is saved under the names of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim import Optimizer

__all__ = ["_NamedOptimizer"]


class _NamedOptimizer(Optimizer):
    """Steps as an optimizer of the given class does. In its state dict names stand where that one has numbers.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = _NamedOptimizer(model.named_parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    >>> optimizer.init_state()
    >>> list(optimizer.state_dict()["state"])
    ['weight', 'bias']
    """

    def __init__(
        self, named_parameters: Mapping[str, Any] | Iterable[tuple[str, Any]], optimizer_class: type[Optimizer],
        param_groups: Iterable[Mapping[str, Any]] | None = None, module: Any = None, *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        from rushlight.distributed.fsdp import FullyShardedDataParallel

        if isinstance(module, FullyShardedDataParallel):
            raise NotImplementedError(
                "_NamedOptimizer(module=...): FullyShardedDataParallel.optim_state_dict has names already"
            )
        self.module = module
        self.named_parameters = dict(named_parameters)
        self._names = {id(p): name for name, p in self.named_parameters.items()}
        given = self.named_parameters.values() if param_groups is None else param_groups
        self._optimizer = optimizer_class(given, *args, **kwargs)  # type: ignore[arg-type]  # either of two kinds
        self.param_groups = self._optimizer.param_groups
        self.defaults = self._optimizer.defaults
        for group in self.param_groups:
            for p in group["params"]:
                if id(p) not in self._names:
                    raise ValueError(f"Expect param name {p} found in param group but is missing.")

    @property
    def state(self) -> Any:  # type: ignore[override]  # an attribute of other optimizers
        """The state of the optimizer within."""
        return self._optimizer.state

    @property
    def ordered_param_keys(self) -> list[str]:
        """The names of the parameters of all groups."""
        return [self._names[id(p)] for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """The state and the groups, by the names of parameters."""
        found, names = self._optimizer.state_dict(), self.ordered_param_keys
        groups = [
            {**deepcopy(group), "params": sorted(names[k] for k in group["params"])}
            for group in found["param_groups"]
        ]
        return {"state": {names[k]: v for k, v in found["state"].items()}, "param_groups": groups}

    def step(self, closure: Callable[[], float] | None = None) -> Any:  # type: ignore[override]  # the closure by name, too
        """A step of the optimizer within."""
        return self._optimizer.step(closure=closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """That of the optimizer within."""
        self._optimizer.zero_grad(set_to_none=set_to_none)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave. There has to be a state already: see `init_state`."""
        if not self.state:
            raise ValueError(
                "Expects the optim to be initialized before load but found not initialized."
            )
        for group in self.param_groups:
            for p in group["params"]:
                if (given := state_dict["state"].get(self._names[id(p)])) is not None:
                    self._load(self._names[id(p)], self.state.get(p, {}), given)
        saved = {tuple(sorted(group["params"])): group for group in state_dict["param_groups"]}
        for group in self.param_groups:
            key = tuple(sorted(self._names[id(p)] for p in group["params"]))
            if key in saved:  # others are groups that the other training did not have
                _load_group("/".join(key), group, saved[key])

    @staticmethod
    def _load(name: str, mine: dict[str, Any], given: dict[str, Any]) -> None:
        """Take the state of one parameter, in place."""
        if len(given) != len(mine):
            raise ValueError(
                f"Expects equal length as {len(mine)} for parameter {name} but found: {len(given)}"
            )
        for key, value in mine.items():
            if key not in given:
                raise ValueError(f"Expects state {key} for parameter {name} but not found.")
            if isinstance(value, Tensor):
                value.detach().copy_(given[key])
            else:
                mine[key] = deepcopy(given[key])

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:  # type: ignore[override]  # of any mapping
        """One more group, of parameters of the module."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        if any(id(p) not in self._names for p in params):
            raise ValueError("some parameters are not in the module")
        self._optimizer.add_param_group({**param_group, "params": params})

    def init_state(self) -> None:
        """Make the state by a step with zeros for gradients; as in PyTorch decay of weights takes effect in it."""
        for p in self.named_parameters.values():
            if p.requires_grad:
                p.grad = rushlight.zeros_like(p)
        self.step()


def _load_group(name: str, mine: dict[str, Any], given: dict[str, Any]) -> None:
    """Take the settings of a group."""
    if len(given) != len(mine):
        raise ValueError(
            f"Expects equal param_group size as {len(mine)} for group {name} but found {len(given)}."
        )
    for key in mine:
        if key not in given:
            raise ValueError(
                f"Expects group key {key} to be in group {name} in `state_dict` but is missing."
            )
        if key != "params":
            mine[key] = deepcopy(given[key])
