"""Gradients of each sample of a batch, for all parameters of a module: `parameter.grad_sample`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.utils import _pytree as pytree

__all__ = ["call_for_per_sample_grads"]

GRADIENT = "grad_sample"  # the attribute of a parameter that holds the gradients of all samples
_PLAIN = (Tensor, int, float, complex, str, type(None), rushlight.dtype, rushlight.device)


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True,
) -> Callable:  # fmt: skip
    """The module as a function; a backward pass through it sets `grad_sample` of its parameters, and not `grad`.

    The module runs under `vmap` on one sample at a time, each with parameters of its own, so samples must not mix
    (batch norm in training mode raises). "mean" undoes the division by the number of samples in the loss.
    RuntimeError for inputs without a tensor or with other sizes of the batch, and where a parameter has `grad_sample` already.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> model = torch.nn.Linear(4, 3)
    >>> call_for_per_sample_grads(model)(torch.ones(5, 4)).sum().backward()
    >>> model.weight.grad_sample.shape, model.weight.grad
    (torch.Size([5, 3, 4]), None)
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, GRADIENT, None) is not None:
            raise RuntimeError(
                f"grad_sample of {name} would be added to, which is incorrect for multiple calls: delete it first"
            )
    dim = 0 if batch_first else 1

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        for v in leaves:
            if not isinstance(v, _PLAIN):
                raise RuntimeError(
                    f"Expected ExpandedWeights to have batch size matching input, but a {type(v).__name__} may hold "
                    "tensors that cannot be seen: pass tensors, or lists, tuples and dictionaries of them"
                )
        n = _size_of_batch([v for v in leaves if isinstance(v, Tensor)], dim, batch_size)
        own = {
            name: _expanded(p, n, float(n) if loss_reduction == "mean" else 1.0)
            for name, p in module.named_parameters()
            if p.requires_grad
        }

        def of_one(own: dict[str, Tensor], *leaves: Any) -> Any:
            one = [v.unsqueeze(dim) if isinstance(v, Tensor) else v for v in leaves]
            args, kwargs = pytree.tree_unflatten(one, spec)
            result = rushlight.func.functional_call(module, own, args, kwargs)
            return pytree.tree_map(lambda v: v.squeeze(dim) if isinstance(v, Tensor) else v, result)

        where = (0, *[dim if isinstance(v, Tensor) else None for v in leaves])
        mapped = rushlight.func.vmap(of_one, in_dims=where, out_dims=dim, randomness="different")
        return mapped(own, *leaves)

    return call


def _size_of_batch(tensors: list[Tensor], dim: int, given: int | None) -> int:
    """The size of the batch, which all tensors have."""
    sizes = [given] if given is not None else []
    sizes += [t.shape[dim] for t in tensors]
    if not tensors:
        raise RuntimeError(
            "ExpandedWeights cannot compute the batch size from the inputs: no tensor is in its arguments"
        )
    other = next((n for n in sizes if n != sizes[0]), None)
    if other is not None:
        raise RuntimeError(
            f"found at least one input with batch size {sizes[0]} and one with batch size {other}"
        )
    return sizes[0]


def _expanded(parameter: Tensor, n: int, scale: float) -> Tensor:
    """The parameter once for each sample; their gradients become its `grad_sample`."""

    def keep(gradient: Tensor) -> None:
        found = gradient.detach() * scale if scale != 1 else gradient.detach()
        before = getattr(parameter, GRADIENT, None)
        setattr(parameter, GRADIENT, found if before is None else before + found)

    own = parameter.detach().expand(n, *parameter.shape).requires_grad_()
    own.register_hook(keep)
    return own
