"""`torch.nn.parallel`'s functions: batches cut into parts and put together again, modules run one after the other."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor

__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]


def _rebuilt(like: Any, parts: list) -> Any:
    if isinstance(like, dict):
        return type(like)(parts)
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


@stub("emulated", "The parts stay on the CPU.")
def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list:
    """One part of `inputs` for each target: tensors are cut along `dim`, containers inside, other values go to each.

    >>> import rushlight as torch
    >>> scatter((torch.arange(4), "x"), [0, 1])
    [(tensor([0, 1]), 'x'), (tensor([2, 3]), 'x')]
    """
    n = len(target_gpus)
    if isinstance(inputs, Tensor):
        return list(inputs.chunk(n, dim))
    if isinstance(inputs, (tuple, list)) and inputs:
        return [
            _rebuilt(inputs, list(each))
            for each in zip(*(scatter(x, target_gpus, dim) for x in inputs), strict=False)
        ]
    if isinstance(inputs, dict) and inputs:
        pairs = zip(*(scatter(pair, target_gpus, dim) for pair in inputs.items()), strict=False)
        return [_rebuilt(inputs, list(each)) for each in pairs]
    return [inputs] * n


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple:
    """`scatter` of positional and keyword arguments, as many of the ones as of the others."""
    first = scatter(inputs, target_gpus, dim) if inputs else []
    second = scatter(kwargs, target_gpus, dim) if kwargs else []
    n = max(len(first), len(second))
    first += [()] * (n - len(first))
    second += [{}] * (n - len(second))
    return tuple(first), tuple(second)


def gather(outputs: Any, target_device: Any = None, dim: int = 0) -> Any:
    """The parts put together along `dim`; numbers become vectors."""
    first = outputs[0]
    if isinstance(first, Tensor):
        whole = [each.view(1) if each.dim() == 0 else each for each in outputs]
        return rushlight.cat(whole, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(first) == len(each) for each in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)(
            (k, gather([each[k] for each in outputs], target_device, dim)) for k in first
        )
    return _rebuilt(
        first, [gather(each, target_device, dim) for each in zip(*outputs, strict=True)]
    )


@stub("identity", "Without GPUs the module itself stands for its copies.")
def replicate(network: Any, devices: Any, detach: bool = False) -> list:
    """The module itself, once for each device: the CPU needs no copies."""
    return [network] * len(devices)


@stub("emulated", "The modules run one after the other.")
def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list:
    """Each module on its inputs, one after the other."""
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    return [
        module(*(each if isinstance(each, (tuple, list)) else (each,)), **kwargs)
        for module, each, kwargs in zip(modules, inputs, kwargs_tup, strict=True)
    ]
