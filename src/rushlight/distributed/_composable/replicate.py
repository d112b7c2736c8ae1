"""`replicate`: a module whose gradients are averaged as by DistributedDataParallel, without a module around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed._composable.contract import contract
from rushlight.distributed.data_parallel import DistributedDataParallel
from rushlight.distributed.fsdp.fully_shard import FSDPModule
from rushlight.nn.container import ParameterList
from rushlight.nn.module import Module

__all__ = ["DDP", "replicate"]


class _ReplicateState:
    """The DistributedDataParallel of a module's parameters, which is made at the first forward."""

    def __init__(self) -> None:
        self.ddp: DistributedDataParallel | None = None
        self.synchronizes = True
        self.comm_hooks: list[tuple[tuple, dict[str, Any]]] = []

    def make(self, parameters: list[Tensor], options: dict[str, Any]) -> DistributedDataParallel:
        """The DistributedDataParallel, ready for a forward."""
        if self.ddp is None:
            self.ddp = DistributedDataParallel(ParameterList(parameters), **options)
        for args, kwargs in self.comm_hooks:
            self.ddp.register_comm_hook(*args, **kwargs)
        self.comm_hooks.clear()
        self.ddp.require_backward_grad_sync = self.synchronizes
        return self.ddp


class DDP:
    """What the classes of replicated modules have besides their own methods."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Whether backward averages gradients: without it they are added up until a step that does."""
        replicate.state(self).synchronizes = requires_gradient_sync  # type: ignore[attr-defined]

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        """DistributedDataParallel's, from the next forward on."""
        replicate.state(self).comm_hooks.append((args, kwargs))  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict) -> Any:
        raise AssertionError(
            "DDP does not support deepcopy. Please use state dict for serialization."
        )


@contract(_ReplicateState)
def replicate(
    module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any
) -> Module:
    """The module, whose gradients are averages over the processes from now on; it becomes one of a subclass of its class and DDP.

    Other arguments are those of DistributedDataParallel, and `device_id`.
    """
    device = kwargs.pop("device_id", "cpu")
    if not isinstance(device, str | int) and type(device).__name__ != "device":
        raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
    if isinstance(device, int):
        kwargs["device_ids"] = [device]
    if isinstance(module, FSDPModule):
        raise RuntimeError(
            "Cannot apply `replicate()` on a Module already managed by `fully_shard`"
        )
    state: _ReplicateState = replicate.state(module)  # type: ignore[attr-defined]
    ignored = {id(each) for each in ignored_modules or ()}

    def before(module: Module, args: tuple, inputs: dict[str, Any]) -> None:
        state.make(list(_parameters(module, ignored)), kwargs)._pre_forward()

    def after(module: Module, args: tuple, output: Any) -> Any:
        return state.ddp._post_forward(output)  # type: ignore[union-attr]

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after)
    kind = type(module)
    module.__class__ = type(f"DDP{kind.__name__}", (DDP, kind), {})
    return module


def _parameters(module: Module, ignored: set[int]) -> Iterator[Tensor]:
    """The parameters of a module, without those that `fully_shard` cares for or that are in ignored modules."""
    if isinstance(module, FSDPModule) or id(module) in ignored:
        return
    yield from module.parameters(recurse=False)
    for child in module.children():
        yield from _parameters(child, ignored)
