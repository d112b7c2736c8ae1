"""Reductions: what is masked is left out, and where nothing is left the result is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight import masked
from rushlight.masked.maskedtensor.core import data_of, with_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.core.tensor import Tensor
    from rushlight.masked.maskedtensor.core import MaskedTensor

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()
ALONG = "softmax log_softmax softmin cumsum cumprod".split()  # shape and mask stay


def reduced(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`torch.masked`'s reduction of the numbers."""
    if name == "norm":
        p, *args = args or (kwargs.pop("p", "fro"),)
        kwargs["ord"] = None if p == "fro" else p
    kwargs |= dict(zip(("dim", "keepdim", "dtype"), args))
    dim = kwargs.pop("dim", None)
    data, mask = data_of(input), input._mask
    if data.layout is not torch.strided:
        if dim is not None:
            raise TypeError(f"{name} over a dimension of a sparse MaskedTensor is not implemented")
        if name in ("argmin", "argmax"):
            return sparse_argument(name, data, mask)
        data, mask = data.values(), mask.values()
    keepdim = kwargs.get("keepdim", False)
    if name in ("all", "any"):
        filled = data.bool().masked_fill(~mask, name == "all")
        made = func(filled) if dim is None else func(filled, dim, **kwargs)
    else:
        kwargs |= {"dim": dim} if dim is not None else {}
        made = getattr(masked, name)(data, **kwargs, mask=mask)
    left = mask.any() if dim is None else mask.any(dim, keepdim=keepdim)
    return with_mask(made, left.reshape(made.shape))


def sparse_argument(name: str, data: Tensor, mask: Tensor) -> MaskedTensor:
    """The index in the flattened tensor of the least or largest number that counts."""
    if data.layout is not torch.sparse_coo:
        raise TypeError(f"{name} of a MaskedTensor in the layout {data.layout} is not implemented")
    at = getattr(masked, name)(data.values(), mask=mask.values()).long()
    flat_index = 0
    for index, n in zip(data.indices(), data.shape, strict=True):
        flat_index = flat_index * n + index[at]
    return with_mask(torch.as_tensor(flat_index), mask.values().any())


def along(
    func: Callable, name: str, input: MaskedTensor, dim: int, *args: Any, **kwargs: Any
) -> Any:
    """A function along a dimension that keeps the shape."""
    kwargs.pop("_stacklevel", None)
    made = getattr(masked, name)(data_of(input), dim, *args, **kwargs, mask=input._mask)
    return with_mask(made, input._mask)


def sum_to_size(func: Callable, name: str, input: MaskedTensor, *size: Any) -> MaskedTensor:
    """The sum over what was broadcast, as gradients of plain tensors need it."""
    made = func(data_of(input).masked_fill(~input._mask, 0), *size)
    return with_mask(made, func(input._mask.int(), *size) > 0)
