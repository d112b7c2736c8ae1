"""Functions that make large gradients smaller."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]


def fused() -> Any:
    """The module that handles all gradients in one call; optimizers load it anyway."""
    from rushlight.optim import fused

    return fused


def scaled(xp: Any, g: Any, factor: float) -> None:
    """The update rule that scales a gradient (see `optim/rules.py`)."""
    g *= factor


def clipped(xp: Any, g: Any, most: float) -> None:
    """The update rule that limits the elements of a gradient (see `optim/rules.py`)."""
    g[...] = xp.clip(g, -most, most)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all tensors, taken as one vector."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return rushlight.tensor(0.0)
    with rushlight.no_grad():
        vector_norm = rushlight.linalg.vector_norm
        found = fused().lengths(tensors) if norm_type == 2 else None
        if found is not None:
            norms = rushlight.from_numpy(found)
        else:
            norms = rushlight.stack([vector_norm(tensor, norm_type) for tensor in tensors])
        total = vector_norm(norms, norm_type)
        if error_if_nonfinite and not rushlight.isfinite(total).item():
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is "
                f"non-finite ({total.item()}), so it cannot be clipped. To disable this error and "
                "scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients by max_norm / total_norm where that is below 1."""
    with rushlight.no_grad():
        # The product with 1 where nothing is to be clipped spares reading the norm.
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        grads = _grads(parameters)
        if not (len(grads) > 1 and fused().changed(scaled, grads, factor.item())):
            for grad in grads:
                grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their total norm is at most `max_norm`; returns the norm before.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_([p], max_norm=1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Cut every element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with rushlight.no_grad():
        grads = _grads(parameters)
        if not fused().changed(clipped, grads, clip_value):
            for grad in grads:
                grad.clamp_(min=-clip_value, max=clip_value)
