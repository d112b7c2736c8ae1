"""Functions that move elements: they act on the numbers and on the mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.masked.maskedtensor.core import MaskedTensor, data_of, entered, with_mask

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = (
    "broadcast_to chunk clone diagonal detach expand expand_as flatten flip index_select movedim moveaxis mT narrow permute basic_index_gradient "
    "ravel repeat reshape reshape_as roll select select_copy slice split squeeze swapaxes swapdims t tile transpose "
    "unbind unflatten unfold unsqueeze view view_as __getitem__"
).split()
LISTS = "cat concat concatenate hstack stack vstack".split()


def both(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`func` of the numbers and of the mask; no memory is shared with `input`."""
    if any(isinstance(a, MaskedTensor) for a in args if name == "__getitem__"):
        raise ValueError("an index may not be masked: take its get_data() or to_tensor(False)")
    args = tuple(data_of(a) for a in args)
    return packed(func(data_of(input), *args, **kwargs), func(input._mask, *args, **kwargs))


def packed(data: Any, mask: Any) -> Any:
    if isinstance(data, (tuple, list)):
        return tuple(map(packed, data, mask))
    return with_mask(data.clone(), mask.clone())


def joined(func: Callable, name: str, tensors: Any, *args: Any, **kwargs: Any) -> Any:
    """`func` of a list of tensors."""
    data = func([data_of(t) for t in tensors], *args, **kwargs)
    return with_mask(data, func([own_mask(t) for t in tensors], *args, **kwargs))


def own_mask(thing: Any) -> Any:
    """The mask of an argument: all True for a plain tensor."""
    if isinstance(thing, MaskedTensor):
        return thing._mask
    if isinstance(thing, torch.Tensor):
        return torch.ones_like(thing, dtype=torch.bool)
    return torch.tensor(True)


def where(func: Callable, name: str, condition: Any, input: Any, other: Any) -> MaskedTensor:
    """`torch.where`: the mask comes from where the number does. `Tensor.where` has its tensor first."""
    if name == "where_method":
        condition, input = input, condition
    if isinstance(condition, MaskedTensor):
        condition = condition.to_tensor(False)
    mask = torch.where(condition, own_mask(input), own_mask(other))
    sides = [
        entered(data_of(side), chosen & mask, mask.shape)
        for side, chosen in ((input, condition), (other, ~condition))
    ]
    return with_mask(torch.where(condition, *sides), mask)


def contiguous(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`contiguous` and `is_contiguous`, which sparse tensors do not have."""
    if input._mask.layout is not torch.strided:
        raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
    if name == "is_contiguous":
        return func(data_of(input), *args, **kwargs)
    if func(input._mask, *args, **kwargs) is input._mask and input.is_contiguous(*args, **kwargs):
        return input
    return both(func, name, input, *args, **kwargs)


def converted(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`to_dense`, `to_sparse`, `to_sparse_coo`, `to_sparse_csr`."""
    data, mask = data_of(input), input._mask
    if name == "to_dense":
        return (
            input if mask.layout is torch.strided else with_mask(data.to_dense(), mask.to_dense())
        )
    mask = func(mask.to_dense() if mask.layout is not torch.strided else mask, *args, **kwargs)
    if mask.layout is input.layout:
        return input
    mask = mask.coalesce() if mask.layout is torch.sparse_coo else mask
    return with_mask(data.to_dense().sparse_mask(mask), mask)
