"""`functorch`, the older package of function transforms: what `torch.func` has, and modules with their state taken out.

`torch.func` has replaced it. Programs that `import functorch` get this module by the import hook.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rushlight as torch
from rushlight import func, nn
from rushlight.core.tensor import Tensor
from rushlight.func import functional_call

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip


def _deprecated(name: str, function: Callable, instead: str) -> Callable:
    """A function that warns that it is deprecated."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. `functorch.{name}` is deprecated as of PyTorch 2.0. Please use "
            f"`{instead}` instead",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return wrapper


grad = _deprecated("grad", func.grad, "torch.func.grad")
grad_and_value = _deprecated("grad_and_value", func.grad_and_value, "torch.func.grad_and_value")
vjp = _deprecated("vjp", func.vjp, "torch.func.vjp")
jvp = _deprecated("jvp", func.jvp, "torch.func.jvp")
jacrev = _deprecated("jacrev", func.jacrev, "torch.func.jacrev")
jacfwd = _deprecated("jacfwd", func.jacfwd, "torch.func.jacfwd")
hessian = _deprecated("hessian", func.hessian, "torch.func.hessian")
functionalize = _deprecated("functionalize", func.functionalize, "torch.func.functionalize")
vmap = _deprecated("vmap", func.vmap, "torch.vmap")


def __getattr__(name: str) -> Any:
    if name == "make_fx":
        from rushlight.fx.experimental import proxy_tensor

        return proxy_tensor.make_fx
    raise AttributeError(f"module 'functorch' has no attribute {name!r}")


# -- modules whose state is passed -----------------------------------------------------------------


class FunctionalModule(nn.Module):
    """A module that is called with its parameters: `fmodel(params, *args)`."""

    def __init__(self, stateless_model: nn.Module, param_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model, self.param_names = stateless_model, param_names

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(nn.Module):
    """A module that is called with its parameters and buffers: `fmodel(params, buffers, *args)`."""

    def __init__(
        self, stateless_model: nn.Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...]
    ) -> None:  # fmt: skip
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names

    def forward(
        self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        state |= zip(self.buffer_names, buffers, strict=True)
        return functional_call(self.stateless_model, state, args, kwargs)


def _parts(model: nn.Module) -> tuple[tuple, tuple, tuple, tuple]:
    """(names of parameters, parameters, names of buffers, buffers) of a module."""
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    return (*map(tuple, (parameters, parameters.values(), buffers, buffers.values())),)  # type: ignore[return-value]


def _copied(model: nn.Module, disable_autograd_tracking: bool) -> nn.Module:
    model = copy.deepcopy(model)
    if disable_autograd_tracking:
        model.requires_grad_(False)
    return model


def make_functional(model: nn.Module, disable_autograd_tracking: bool = False) -> tuple:
    """(a `FunctionalModule`, copies of the parameters of `model`); RuntimeError for a module with buffers."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    model = _copied(model, disable_autograd_tracking)
    names, params, _, _ = _parts(model)
    return FunctionalModule(model, names), params


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple:
    """(a `FunctionalModuleWithBuffers`, copies of the parameters of `model`, copies of its buffers)."""
    model = _copied(model, disable_autograd_tracking)
    names, params, buffer_names, buffers = _parts(model)
    return FunctionalModuleWithBuffers(model, names, buffer_names), params, buffers


def combine_state_for_ensemble(models: Sequence[nn.Module]) -> tuple:
    """(a module that is called with its state, parameters, buffers) of modules of one class, stacked for `vmap`."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    made, params, buffers = zip(*map(make_functional_with_buffers.__wrapped__, models), strict=True)
    return made[0], _stacked(params), _stacked(buffers)


make_functional = _deprecated("make_functional", make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(
    "make_functional_with_buffers", make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _deprecated(
    "combine_state_for_ensemble", combine_state_for_ensemble, "torch.func.stack_module_state"
)


def _stacked(rows: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.stack(list(column)).detach() for column in zip(*rows, strict=True))


def functional_init(
    model_class: type[nn.Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable:
    """A function that makes a module from its arguments: (weights, a function of weights and data, their names)."""

    def wrapped(*args: Any, **kwargs: Any) -> tuple:
        params, buffers, call, names, _ = functional_init_with_buffers(
            model_class, ensemble_shape, device
        )(*args, **kwargs)
        if buffers:
            raise RuntimeError(
                "functional_init: the model has buffers. Please use functional_init_with_buffers instead."
            )
        return params, lambda weights, data: call(weights, (), data), names

    return wrapped


def functional_init_with_buffers(
    model_class: type[nn.Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable:
    """As `functional_init`: (weights, buffers, a function of both and data, names of weights, names of buffers).

    With `ensemble_shape=(n,)` weights and buffers are those of n modules, stacked.
    """

    def wrapped(*args: Any, **kwargs: Any) -> tuple:
        if len(ensemble_shape) >= 2:
            raise ValueError("NYI: ensemble_shape with more than 1 element")
        if ensemble_shape and ensemble_shape[0] <= 0:
            raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")
        models = [model_class(*args, **kwargs).to(device) for _ in range(*ensemble_shape or (1,))]
        names, params, buffer_names, buffers = _parts(models[0])
        if ensemble_shape:
            params, buffers = (_stacked([_parts(m)[at] for m in models]) for at in (1, 3))
        module = FunctionalModuleWithBuffers(models[0], names, buffer_names)

        def call(weights: Iterable, buffers: Iterable, data: tuple) -> Any:
            return module(weights, buffers, *data)

        return params, buffers, call, names, buffer_names

    return wrapped
