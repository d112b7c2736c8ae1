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
        dims = [_batch_dimension(v, dim, n) if isinstance(v, Tensor) else None for v in leaves]
        own = {
            name: _expanded(p, n, float(n) if loss_reduction == "mean" else 1.0)
            for name, p in module.named_parameters()
            if p.requires_grad
        }

        def of_one(own: dict[str, Tensor], *leaves: Any) -> Any:
            one = [v if d is None else v.unsqueeze(d) for v, d in zip(leaves, dims, strict=True)]
            args, kwargs = pytree.tree_unflatten(one, spec)
            return rushlight.func.functional_call(module, own, args, kwargs)

        mapped = rushlight.func.vmap(of_one, in_dims=(0, *dims), randomness="different")
        results, shape = pytree.tree_flatten(mapped(own, *leaves))
        joined = _joined(results, lambda: _shapes(module, leaves, spec))
        return pytree.tree_unflatten(joined, shape)

    return call


def _size_of_batch(tensors: list[Tensor], dim: int, given: int | None) -> int:
    """The size of the batch: as given, or the one that all tensors have."""
    if given is not None:
        return given
    if not tensors:
        raise RuntimeError(
            "ExpandedWeights cannot compute the batch size from the inputs: no tensor is in its arguments"
        )
    sizes = [t.shape[dim] for t in tensors]
    other = next((n for n in sizes if n != sizes[0]), None)
    if other is not None:
        raise RuntimeError(
            f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch size "
            f"{other}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
        )
    return sizes[0]


def _batch_dimension(tensor: Tensor, dim: int, n: int) -> int | None:
    """The dimension of an input that is the batch; None where it has none of that size, as a constant has.

    It is another than `dim` for the initial state of a recurrent module, whose batch comes second whatever `batch_first` says.
    """
    if tensor.dim() > dim and tensor.shape[dim] == n:
        return dim
    of_size = [d for d in range(tensor.dim()) if tensor.shape[d] == n]
    if len(of_size) > 1:
        raise RuntimeError(
            f"an input of shape {tuple(tensor.shape)} has several dimensions of batch size {n}"
        )
    return of_size[0] if of_size else None


def _joined(results: list[Tensor], shapes: Callable[[], list[Any]]) -> list[Tensor]:
    """The results of batches of one sample, stacked in dimension 0, as results of the whole batch.

    Which dimension of a result is the batch is seen where only one has size 1; else it is the one that has another size in the
    `shapes` of the whole batch's results.
    """
    joined, of_all = [], None
    for i, v in enumerate(results):
        if len(v) == 1:
            joined.append(v[0])
            continue
        where = [d for d in range(v.dim() - 1) if v.shape[d + 1] == 1]
        if len(where) > 1:
            of_all = shapes() if of_all is None else of_all
            where = [d for d in where if of_all[i][d] == len(v)]
        if len(where) != 1:
            raise RuntimeError(
                f"a result of shape {tuple(v.shape[1:])} for one sample does not say which of its dimensions is the batch"
            )
        joined.append(v.squeeze(where[0] + 1).movedim(0, where[0]))
    return joined


def _shapes(module: Module, leaves: list[Any], spec: Any) -> list[Any]:
    """The shapes of the module's results for the whole batch, computed without its numbers."""

    def meta(v: Any) -> Any:
        return v.detach().to("meta") if isinstance(v, Tensor) else v

    own = {name: meta(v) for name, v in (*module.named_parameters(), *module.named_buffers())}
    args, kwargs = pytree.tree_unflatten([meta(v) for v in leaves], spec)
    with rushlight.no_grad():
        results = rushlight.func.functional_call(module, own, args, kwargs)
    return [getattr(v, "shape", None) for v in pytree.tree_leaves(results)]


def _expanded(parameter: Tensor, n: int, scale: float) -> Tensor:
    """The parameter once for each sample; their gradients become its `grad_sample`."""

    def keep(gradient: Tensor) -> None:
        found = gradient.detach() * scale if scale != 1 else gradient.detach()
        before = getattr(parameter, GRADIENT, None)
        setattr(parameter, GRADIENT, found if before is None else before + found)

    own = parameter.detach().expand(n, *parameter.shape).requires_grad_()
    own.register_hook(keep)
    return own
