"""`OptimizedModule`: what `torch.compile` makes of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.compiled import Compiled
from rushlight.nn.module import Module

OWN = frozenset(["_orig_mod", "_compiled", "training", "_call_has_hooks", "_is_full_backward_hook"])


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's, which is `_orig_mod`.

    The names of parameters in `state_dict()` begin with `_orig_mod.`, as PyTorch's do.
    """

    def __init__(
        self, mod: Module, fullgraph: bool = False, backend: Callable | None = None,
        each_size: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._orig_mod = mod
        self.__dict__["_compiled"] = Compiled(mod, fullgraph, backend, each_size)
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in OWN or "_modules" not in own or "_orig_mod" not in own["_modules"]:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_compiled"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self.__dict__["_compiled"] = Compiled(self._orig_mod)
