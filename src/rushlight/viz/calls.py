"""Runs a model once and notes each call of a module: shapes, parameters, multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import Module
from rushlight.utils._pytree import tree_leaves
from rushlight.utils.flop_counter import FlopCounterMode


@dataclass
class ModuleCall:
    """A call of a module inside of another one. `again`: this module was called before."""

    path: str
    module: Module
    inputs: list[Tensor]
    again: bool
    outputs: list[Tensor] = field(default_factory=list)
    parts: list[ModuleCall] = field(default_factory=list)
    multiply_adds: int = 0  # of this call, with its parts

    @property
    def parameters(self) -> int:
        """The elements of the module's parameters, with its parts'; a parameter that is used twice counts once."""
        return sum(p.numel() for p in self.module.parameters())


def shapes_text(tensors: list[Tensor]) -> str:
    """`32x64, 32` of what went into a call or came out of it."""
    return ", ".join("x".join(map(str, t.shape)) or "scalar" for t in tensors)


def arguments(given: tuple) -> tuple:
    """The arguments of a model: a tuple of whole numbers is a shape, filled with zeros."""
    return tuple(
        rushlight.zeros(each)
        if isinstance(each, tuple) and each and all(type(n) is int for n in each)
        else each
        for each in given
    )


def run(model: Module, args: tuple, kwargs: dict) -> ModuleCall:
    """Call the model, in evaluation mode and without gradients, and return the call with all inside of it."""
    if not isinstance(model, Module):
        raise TypeError(f"expected a Module, got {type(model).__name__}")
    names = {id(module): path for path, module in model.named_modules()}
    stack: list[ModuleCall] = []
    seen: set[int] = set()
    first: list[ModuleCall] = []
    counter = FlopCounterMode(display=False)

    def enter(module: Module, args: tuple, kwargs: dict) -> None:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        call = ModuleCall(
            names.get(id(module), ""), module, tensors, id(module) in seen,
            multiply_adds=-counter.get_total_flops(),
        )  # fmt: skip
        seen.add(id(module))
        (stack[-1].parts if stack else first).append(call)
        stack.append(call)

    def leave(module: Module, args: tuple, result: Any) -> None:
        call = stack.pop()
        call.outputs = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        call.multiply_adds = (call.multiply_adds + counter.get_total_flops()) // 2

    modes = {module: module.training for module in model.modules()}
    hooks = []
    try:
        for module in modes:
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(leave))
        model.eval()
        with rushlight.no_grad(), counter:
            model(*arguments(args), **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes.items():
            module.training = training
    return first[0]
