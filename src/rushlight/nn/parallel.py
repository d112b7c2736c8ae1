"""Modules run on several devices: on the CPU they run where they are."""

from __future__ import annotations

from typing import Any

from rushlight.core.stub import stub
from rushlight.nn.module import Module
from rushlight.nn.scatter_gather import (  # noqa: F401  # public here
    gather,
    parallel_apply,
    replicate,
    scatter,
)

__all__ = ["DataParallel"]


@stub("identity", "Without GPUs the module runs on the whole batch.")
class DataParallel(Module):
    """Runs `module` on parts of a batch, one per device; without GPUs, on the whole batch.

    The parameters' names begin with `module.`, as in PyTorch.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


@stub("identity", "Without GPUs the module runs on the whole batch.")
def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """`module(*inputs)`: without GPUs on the whole batch."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from rushlight.distributed.data_parallel import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
