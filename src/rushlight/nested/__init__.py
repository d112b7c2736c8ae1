"""`torch.nested`: batches of tensors of different sizes, in one piece of memory.

>>> import rushlight as torch
>>> torch.nested.nested_tensor([torch.arange(2), torch.arange(3)])
nested_tensor([
  tensor([0, 1]),
  tensor([0, 1, 2])
])
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.nested import jagged, jagged_calls, strided, strided_calls
from rushlight.nested.tensor import Nested, alias

del jagged_calls, strided_calls  # imported for the rules that they declare

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A nested tensor, a leaf, with copies of the tensors (or nested lists of numbers) in a list.

    The jagged layout also takes them from a tuple, an iterator or the first dimension of a tensor.
    """
    if not isinstance(tensor_list, list) and layout is not dtypes.jagged:
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor"
        )
    with torch.no_grad():
        tensors = [
            (t.detach() if isinstance(t, Tensor) else torch.tensor(t)).to(device, dtype)
            for t in tensor_list
        ]
        made = pack(tensors, layout)
    if not tensors and (dtype is not None or device is not None):
        made = made.to(device, dtype)
    return made.requires_grad_() if requires_grad else made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of tensors, to which its gradient goes; `ts`: a list of them, or a tensor with a batch."""
    if not isinstance(ts, (Tensor, list, tuple)) or (
        isinstance(ts, (list, tuple)) and not all(isinstance(t, Tensor) for t in ts)
    ):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors "
        )
    if isinstance(ts, Nested):
        if layout is not None and layout is not ts.layout:
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not supported"
            )
        return ts.to(device, dtype)
    if isinstance(ts, Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    tensors = ts.unbind() if isinstance(ts, Tensor) else ts
    return pack([t.to(device, dtype) for t in tensors], layout)


def pack(tensors: list[Tensor], layout: Any) -> Any:
    """A nested tensor of one of the two layouts."""
    if layout is None or layout is dtypes.strided:
        return strided.packed(tensors)
    if layout is dtypes.jagged:
        return jagged.packed(tensors)
    raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """A dense tensor with `padding` after the end of each component, in every dimension.

    >>> import rushlight as torch
    >>> t = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])])
    >>> torch.nested.to_padded_tensor(t, 0)
    tensor([[1, 2],
            [3, 0]])
    """
    return input.to_padded_tensor(padding, output_size)


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
    jagged_dim: int | None = None, min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> Tensor:  # fmt: skip
    """A nested tensor of layout `torch.jagged` on `values`, in which all components lie one after another.

    `offsets` [batch + 1]: where each begins, and the end; or `lengths` [batch], or both, with gaps. `jagged_dim`:
    the dimension of the result whose size differs, 1 by default. The longest and the shortest length may be given,
    and are ignored.

    >>> import rushlight as torch
    >>> t = torch.nested.nested_tensor_from_jagged(torch.arange(5), torch.tensor([0, 2, 5]))
    >>> [c.tolist() for c in t]
    [[0, 1], [2, 3, 4]]
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        # the symbol of the ragged size belongs to the offsets, which are made here
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        lengths = None
    return jagged.jagged_from_parts(
        alias(values), offsets, lengths, 1 if jagged_dim is None else jagged_dim
    )


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = dtypes.strided
) -> Tensor:  # fmt: skip
    """A nested tensor of `length[i]` elements of row i of a dense tensor, from `start[i]` on, in dimension `dim`."""
    if layout is dtypes.strided:
        if not isinstance(start, int) or not isinstance(length, int):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(list(torch.unbind(tensor.narrow(dim, start, length))))
    if layout is not dtypes.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    rows, n = tensor.shape[:2]

    def each(v: Any) -> Tensor:
        return v if isinstance(v, Tensor) else torch.full((rows,), v, device=tensor.device)

    start, length = each(start), each(length)
    first = torch.arange(rows, device=tensor.device) * n + start
    offsets = torch.cat((first, (first[-1] + length[-1]).unsqueeze(0)))
    values = tensor.flatten(0, 1)
    if bool((offsets[1:] - offsets[:-1] == length).all()):
        offsets_at, count = offsets[0].item(), (offsets[-1] - offsets[0]).item()
        return jagged.jagged_from_parts(
            values.narrow(0, offsets_at, count), offsets - offsets_at, None, 1
        )
    return jagged.jagged_from_parts(values, offsets, length, 1)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """A nested tensor of layout `torch.jagged` of the elements of each row of a tensor where a mask is True.

    >>> import rushlight as torch
    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> [c.tolist() for c in torch.nested.masked_select(x, x > 1)]
    [[2], [3, 4]]
    """
    if tensor.layout is not dtypes.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    if mask.layout is not dtypes.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided mask, given: {mask.layout}"
        )
    values = tensor.masked_select(mask)
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    counts = mask.expand(shape).flatten(1).sum(1)
    return jagged.jagged_from_parts(
        values, torch.nn.functional.pad(counts.cumsum(0), (1, 0)), None, 1
    )
