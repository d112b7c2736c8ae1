"""Optimizers that step one parameter at a time, with a gradient that is given: for hooks that run while backward does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rushlight import optim
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import Optimizer

__all__ = ["as_functional_optim", "functional_optim_map", "register_functional_optim"]


class FunctionalOptimizer:
    """An optimizer of a class for each parameter, made when it is stepped first."""

    def __init__(
        self, kind: type[Optimizer], params: Sequence[Tensor], *args: Any, _allow_empty_param_list: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self.params = list(params)
        if not self.params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        self._make = lambda parameters: kind(parameters, *args, **kwargs)
        self._make([Tensor([0.0])])  # wrong settings are refused now
        self._optimizers: dict[int, Optimizer] = {}

    @property
    def state(self) -> dict[Tensor, Any]:
        """What the optimizers remember of each parameter."""
        return {k: v for each in self._optimizers.values() for k, v in each.state.items()}

    def step_param(self, param: Tensor, grad: Tensor | None) -> None:
        """Step one parameter."""
        if id(param) not in self._optimizers:
            self._optimizers[id(param)] = self._make([param])
        before, param.grad = param.grad, grad
        try:
            self._optimizers[id(param)].step()
        finally:
            param.grad = before

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Step the parameters that it was made of."""
        if len(gradients) != len(self.params):
            raise ValueError(
                "the gradients passed in does not equal to the size of the parameters! Params length: "
                f"{len(self.params)}. Gradients length: {len(gradients)}"
            )
        for pair in zip(self.params, gradients):
            self.step_param(*pair)


functional_optim_map: dict[Any, Callable] = {
    kind: partial(FunctionalOptimizer, kind)
    for kind in (
        optim.Adagrad, optim.Adam, optim.AdamW, optim.SGD, optim.Adadelta, optim.RMSprop, optim.Rprop, optim.Adamax,
    )
}  # fmt: skip


def register_functional_optim(key: Any, optim: Callable) -> None:
    """Let `as_functional_optim(key)` make a class that has `step_param`, unless it knows the key."""
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """The optimizers of a class, with `step_param(parameter, gradient)`.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> as_functional_optim(torch.optim.SGD, lr=0.5).step_param(x, torch.tensor([1.0, 2.0]))
    >>> x.tolist(), x.grad
    ([0.5, 0.0], None)
    """
    if optim_cls not in functional_optim_map:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return functional_optim_map[optim_cls]([], *args, **kwargs, _allow_empty_param_list=True)
