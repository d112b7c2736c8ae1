"""Masked reductions of sparse tensors.

Without a mask the elements that are specified count; with one those that it selects, zeros where the
input specifies none. The result is sparse in the layout of the input; what is specified in it is where an element counted.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.core import geometry

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor

NEEDS_MASK = ("prod", "amax", "amin")  # zeros that are not specified would count without one


def wrapped_dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions reduced over, in order; None and () mean all."""
    if dim is None or dim == () or dim == []:
        return tuple(range(ndim))
    return tuple(sorted(geometry.wrap_dims(dim, ndim))) if ndim else ()


def any_over(mask: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Whether an element is selected, along `dims`."""
    for d in reversed(dims):
        mask = mask.any(d, keepdim)
    return mask


def specified(t: Tensor) -> Tensor:
    """The mask of the elements that a sparse tensor specifies."""
    if t.layout is not torch.sparse_coo:
        t = t.to_sparse_coo()
    t = t.coalesce()
    ones = torch.ones_like(t.values(), dtype=torch.bool)
    return torch.sparse_coo_tensor(t.indices(), ones, t.shape).to_dense()


def to_layout(t: Tensor, kept: Tensor, layout: Any, dense_dims: int) -> Tensor:
    """The elements of `t` that are `kept` as a sparse tensor; its last `dense_dims` dimensions are dense."""
    n = t.ndim - min(dense_dims, t.ndim)
    rows = any_over(kept, tuple(range(n, t.ndim)), False)
    at = rows.nonzero().t()
    t = t.masked_fill(~kept, 0)
    values = t[tuple(at)] if n else t.unsqueeze(0)[: at.shape[1]]
    made = torch.sparse_coo_tensor(at, values, t.shape)
    return made if layout is torch.sparse_coo else made.to_sparse(layout=layout)


def for_all_layouts(function: Callable) -> Callable:
    """A reduction of strided tensors that takes sparse ones too."""

    @functools.wraps(function)
    def reduced(
        input: Tensor, *args: Any, keepdim: bool = False, mask: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        if input.layout is torch.strided:
            if mask is not None and mask.layout is not torch.strided:
                mask = mask.to_dense()
            return function(input, *args, keepdim=keepdim, mask=mask, **kwargs)
        if mask is None and function.__name__ in NEEDS_MASK:
            raise ValueError(
                f"masked {function.__name__} expects explicit mask for {input.layout} tensor input"
            )
        if mask is None:
            shown = specified(input)
        else:
            dense = mask if mask.layout is torch.strided else mask.to_dense()
            shown = dense.bool().expand(input.shape)
        result = function(input.to_dense(), *args, keepdim=keepdim, mask=shown, **kwargs)
        positions = args[1:] if function.__name__ == "norm" else args
        dims = wrapped_dims(positions[0] if positions else kwargs.get("dim"), input.ndim)
        kept = any_over(shown, dims, bool(keepdim))
        if len(dims) == input.ndim and input.layout is torch.sparse_coo:
            kept = result != 0  # a number is taken for a strided tensor that becomes sparse
        inner = input.dense_dim()
        lost = 0 if keepdim else sum(d >= input.ndim - inner for d in dims)
        return to_layout(result, kept, input.layout, inner - lost)

    return reduced
