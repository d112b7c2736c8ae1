"""`torch.utils.module_tracker`: which modules are running, in forward and in backward."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import rushlight
from rushlight.autograd.saved_hooks import register_multi_grad_hook
from rushlight.autograd.state import queue_callback, thread
from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside its `with` statement `parents` is the set of the names of the modules that are running.

    "Global" is always among them. In a backward pass a module runs from the first gradient of its results to the
    last gradient of its arguments; one whose arguments want no gradient runs to the end of the pass.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU())
    >>> with ModuleTracker() as tracker:
    ...     hook = model[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
    ...     x = model(torch.ones(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: WeakKeyDictionary = WeakKeyDictionary()  # of modules
        self._pass: Any = None  # the backward pass in which modules run
        self._hooks: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        return thread.task is not None

    def __enter__(self) -> ModuleTracker:
        hooks = rushlight.nn.hooks
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _enter_module(self, module: Any, args: tuple) -> None:
        if module not in self._names:
            name = type(module).__name__
            for path, part in module.named_modules():
                self._names.setdefault(part, f"{name}.{path}" if path else name)
        name = self._names[module]
        self.parents.add(name)
        if wanted := requiring_gradients(args):  # in backward the module ends where it began
            self._hooks.append(
                register_multi_grad_hook(wanted, lambda _: self.parents.discard(name))
            )

    def _leave_module(self, module: Any, args: tuple, result: Any) -> None:
        name = self._names[module]
        self.parents.discard(name)
        if wanted := requiring_gradients(result):
            self._hooks.append(
                register_multi_grad_hook(wanted, lambda _: self._begin(name), mode="any")
            )

    def _begin(self, name: str) -> None:
        """A module begins in the backward pass that is running, at whose end the modules are those of before."""
        if self._pass is not thread.task:
            outer, before = self._pass, set(self.parents)
            self._pass = thread.task

            def end() -> None:
                self._pass, self.parents = outer, before

            queue_callback(end)
        self.parents.add(name)


def requiring_gradients(things: Any) -> list[Tensor]:
    """The tensors in a structure that take gradients, where gradients are recorded."""
    if not rushlight.is_grad_enabled():
        return []
    return [t for t in tree_leaves(things) if isinstance(t, Tensor) and t.requires_grad]
