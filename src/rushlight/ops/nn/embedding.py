"""Embedding: rows of a table, alone or reduced in bags, and one-hot rows.

With `sparse=True` the gradient of the table is a sparse tensor: one entry for each row that was taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends.sparse import note
from rushlight.autograd.state import active, thread
from rushlight.core import settings
from rushlight.core.dtype_sets import I32, I64
from rushlight.core.tensor import Tensor as _Tensor
from rushlight.core.tensor import _wrap
from rushlight.dispatch.registry import Array, composite, op, public
from rushlight.dispatch.transforms import Lifted, somewhere

MODES = {"sum": 0, "mean": 1, "max": 2}


def check_indices(t: Any, of: str) -> None:
    if t.dtype.np not in (I64, I32):
        kind = t.dtype.scalar_name
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            f"Int; but got torch.{kind}Tensor instead (while checking arguments for {of})"
        )


# -- one row each ----------------------------------------------------------------------------------


def rows_taken(xp, weight: Any, indices: Any) -> Any:
    rows = xp.index_select(weight, indices, 0)
    if rows is None:
        bad = xp.out_of_range(indices, weight.shape[0])
        raise IndexError(
            f"index out of range in self: [embedding] index {bad}, the table has {weight.shape[0]} rows"
        )
    return rows


def entries_of_rows(
    g: Any, indices: Any, n: int, padding_idx: int, scale_grad_by_freq: bool = False
) -> Any:
    """The rows of a gradient at the rows of a table [n, columns] they belong to, as a sparse tensor."""
    if scale_grad_by_freq:  # the forward is possible, in PyTorch too
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    from rushlight.ops.sparse.operators import build

    width = g.shape[-1]
    at, rows = indices.reshape(-1), g.reshape(indices.numel(), width)
    if padding_idx >= 0:
        used = (at != padding_idx).nonzero().reshape(-1)
        if used.numel() < at.numel():
            at, rows = at[used], rows.index_select(0, used)
    return build(
        rows, at.long()._array[None].copy(), (n, width)
    )  # the caller may write to `indices`


@op(name="embedding_dense_backward", method=False, out=False)
def rows_gradient(
    xp, grad_output: Array, indices: Array, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
):  # fmt: skip
    """The rows of `grad_output` added up by index; those of `padding_idx` are left out."""
    d = grad_output.dtype
    g, i = xp.upcast(grad_output).reshape(indices.size, grad_output.shape[-1]), indices.reshape(-1)
    if 0 <= padding_idx < num_weights:
        keep = i != padding_idx
        if not keep.all():
            g, i = g[keep], i[keep]
    z = xp.index_select_gradient((num_weights, g.shape[1]), i, 0, g)
    if scale_grad_by_freq and i.size:
        z /= xp.maximum(xp.bincount(i, None, num_weights), 1)[:, None].astype(z.dtype)
    return z.astype(d, copy=False)


def declare_rows(name: str, doc: str, gradient: Any) -> Any:
    @op(name=name, doc=doc, node="EmbeddingBackward0", method=False, out=False)
    def rows_of(xp, weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool):
        return rows_taken(xp, weight, indices)

    return rows_of.grad(
        weight=lambda g, weight_shape, indices, padding_idx, scale_grad_by_freq: gradient(
            g, indices, weight_shape[0], padding_idx, scale_grad_by_freq
        )
    )


rows_of = declare_rows("_embedding", "weight[indices], checked.", rows_gradient)
rows_of_sparse = declare_rows(
    "_embedding_sparse", "As `_embedding`; the gradient is sparse.", entries_of_rows
)


def gathered_back(g: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """The transpose of `rows_gradient`."""
    rows = rows_of(g, indices, -1, False)
    if scale_grad_by_freq:
        counts = indices.reshape(-1).bincount(minlength=g.shape[0])
        rows = rows / counts[indices].unsqueeze(-1).to(g.dtype)
    if padding_idx >= 0:
        rows = rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    return rows


rows_gradient.grad(
    grad_output=lambda g, indices, padding_idx, scale_grad_by_freq: gathered_back(
        g, indices, padding_idx, scale_grad_by_freq
    )
)


@composite(method=False, inplace=False)
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
):  # fmt: skip
    """weight[indices] for a table `weight` [rows, columns]; -> [*indices, columns].

    The row `padding_idx` gets no gradient; `scale_grad_by_freq` divides a row's gradient by how often
    it was taken.
    """
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {weight.ndim}-D")
    check_indices(indices, "embedding")
    if sparse:
        note()  # the backward that makes the first sparse tensor must know before it begins
        return rows_of_sparse(weight, indices, padding_idx, scale_grad_by_freq)
    return rows_of(weight, indices, padding_idx, scale_grad_by_freq)


def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale the rows of a table that `indices` name to norm `max_norm` where theirs is larger, in place."""
    check_indices(indices, "embedding_renorm_")
    recording, thread.grad = thread.grad, False
    try:
        used = indices.reshape(-1).unique()
        rows = input.detach()[used]
        norms = rows.norm(norm_type, dim=1)
        scale = (max_norm / (norms + 1e-7)).where(norms > max_norm, norms.new_ones(()))
        input[used] = rows * scale.unsqueeze(1)
    finally:
        thread.grad = recording
    return input


public()(embedding_renorm_)


@composite(where="nn.functional", name="embedding", inplace=False)
def functional_embedding(
    input: Array, weight: Array, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
):  # fmt: skip
    """The rows of `weight` [rows, columns] that `input` names; -> [*input, columns].

    `max_norm`: the rows taken are first scaled down to this norm, in place. The row `padding_idx`
    gets no gradient.

    >>> import rushlight as torch
    >>> torch.nn.functional.embedding(torch.tensor([2, 0]), torch.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += weight.shape[0]
    if max_norm is not None:
        embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


# -- bags ------------------------------------------------------------------------------------------


@op(
    name="_embedding_bag", node="EmbeddingBagBackward0", method=False, out=False,
    outputs=("result", "bags", "sizes", "max_indices"),
)  # fmt: skip
def bagged(
    xp, weight: Array, indices: Array, offsets: Array, per_sample_weights: Array | None,
    scale_grad_by_freq: bool, mode: int, n_bags: int, padding_idx: int, sparse: bool,
):  # fmt: skip
    """(bags reduced, bag of each index, indices in each bag, of a maximum the row it is in)."""
    bad = xp.out_of_range(indices, weight.shape[0])
    if bad is not None:
        if mode == MODES["max"] or padding_idx >= 0 or weight.dtype == np.float64:
            raise RuntimeError(
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{bad}"
            )
        at = int((indices == bad).argmax())
        raise RuntimeError(
            f"Index {at} of input takes value {bad} which is not in the valid range [0, {weight.shape[0]})"
        )
    return xp.embedding_bag(
        weight, indices, offsets[:n_bags], per_sample_weights, mode, padding_idx
    )


def bag_gradients(
    g, weight, indices, per_sample_weights, scale_grad_by_freq, mode, padding_idx, sparse, bags, sizes,
    max_indices, needs,
):  # fmt: skip
    n = weight.shape[0]
    if mode == MODES["max"]:
        filled = (sizes > 0).unsqueeze(1)
        zeros = weight.new_zeros(weight.shape)
        return zeros.scatter_add(0, max_indices, g.masked_fill(~filled, 0)), None, None, None
    if mode == MODES["mean"]:
        g = g / sizes.clamp(min=1).unsqueeze(1).to(g.dtype)
    rows = g.index_select(0, bags)
    to_weight = to_samples = None
    if needs[0]:
        scaled = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
        if sparse:
            to_weight = entries_of_rows(scaled, indices, n, padding_idx)
        else:
            to_weight = rows_gradient(scaled, indices, n, padding_idx, scale_grad_by_freq)
    if needs[3]:
        to_samples = (rows * rows_of(weight, indices, -1, False)).sum(1)
        if padding_idx >= 0:
            to_samples = to_samples.masked_fill(indices == padding_idx, 0)
    return to_weight, None, None, to_samples


def bag_arrays(
    xp, g, weight, indices, per_sample_weights, scale_grad_by_freq, mode, padding_idx, sparse, bags, sizes,
    max_indices, needs,
):  # fmt: skip
    if mode == MODES["max"] or scale_grad_by_freq or sparse:
        return NotImplemented
    gw = gs = None
    if needs[0]:
        gw = xp.embedding_bag_gradient(
            g, indices, bags, sizes, per_sample_weights, len(weight), mode, padding_idx
        )
    if needs[3]:
        gs = xp.bag_factors_gradient(g, weight, indices, bags, padding_idx)
    return gw, None, None, gs


bagged.grad_all(bag_gradients, kernel=bag_arrays, never=("indices", "offsets"))


def checked_bags(
    weight: Any, indices: Any, offsets: Any, mode: int, per_sample_weights: Any,
    include_last_offset: bool, padding_idx: Any, scale_grad_by_freq: bool, sparse: bool,
) -> Any:  # fmt: skip
    check_indices(indices, "embedding_bag")
    check_indices(offsets, "embedding_bag")
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{weight.dtype.scalar_name}Tensor does not equal "
            f"torch.{per_sample_weights.dtype.scalar_name}Tensor (while checking arguments for "
            "embedding_bag)"
        )
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{weight.shape[0]} through "
            f"{weight.shape[0] - 1}, but got {padding_idx}"
        )
    elif padding_idx < 0:
        padding_idx += weight.shape[0]
    n = indices.numel()
    watched = offsets.numel() and thread.dispatch_modes
    if watched and not somewhere((offsets[:1] != 0) | (offsets[-1:] > n)):
        pass
    elif offsets.numel() and not offsets.is_meta and not isinstance(offsets._array, Lifted):
        o = offsets._array
        first, last = int(o[0]), int(o[-1])
        if first != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0. However, got {first}"
            )
        if last > n:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {last}"
            )
    if sparse:
        note()
    n_bags = offsets.numel() - bool(include_last_offset)
    return bagged(
        weight,
        indices,
        offsets,
        per_sample_weights,
        scale_grad_by_freq,
        mode,
        n_bags,
        padding_idx,
        sparse,
    )


@composite(method=False, inplace=False)
def embedding_bag(
    weight: Array, indices: Array, offsets: Array, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Array | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
):  # fmt: skip
    """(bags, bag of each index, bag sizes, rows of maxima); `mode`: 0 sum, 1 mean, 2 max."""
    result, bags, sizes, max_indices = checked_bags(
        weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx,
        scale_grad_by_freq, sparse,
    )  # fmt: skip
    if mode == MODES["sum"]:  # PyTorch leaves unfilled what it does not need
        bags, sizes = bags.new_empty(0), sizes.new_zeros(sizes.shape)
    return result, bags, sizes, max_indices if mode == MODES["max"] else sizes


@composite(where="nn.functional", name="embedding_bag", inplace=False)
def functional_embedding_bag(
    input: Array, weight: Array, offsets: Array | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Array | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
):  # fmt: skip
    """Sums, means or maxima over bags of rows of `weight`.

    `input`: [bags, n], or all indices in a row with `offsets` where each bag begins; the result is
    [bags, columns], zeros for an empty bag. `per_sample_weights`: factors, with mode "sum".

    >>> import rushlight as torch
    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), table)
    tensor([[2., 3.]])
    """
    if weight.dtype.name == "int64" and input.dtype.is_floating_point:
        settings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, "
            "input, ...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`."
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
                f"fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        a = input._array
        offsets = _starts(input)
        # A view would be recorded as one, though indices have no gradient.
        plain = a.__class__ is np.ndarray and not thread.dispatch_modes
        input = _wrap(a.reshape(-1)) if plain else input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.ndim != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
            f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if max_norm is not None:
        embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return checked_bags(
        weight, input, offsets, MODES[mode], per_sample_weights, include_last_offset, padding_idx,
        scale_grad_by_freq, sparse,
    )[0]  # fmt: skip


def _starts(input: Any) -> Any:
    import rushlight

    n, m = input.shape
    a = input._array
    if a.__class__ is np.ndarray and not thread.dispatch_modes:
        return _wrap(xp.arange(n, dtype=a.dtype) * m)
    return rushlight.arange(n, dtype=input.dtype, device=input.device) * m


# -- one-hot ---------------------------------------------------------------------------------------


@composite(where="nn.functional", inplace=False)
def one_hot(input: Array, num_classes: int = -1):
    """Rows of zeros with a 1 at each class number: int64 [*, num_classes].

    `num_classes`: -1 takes one more than the largest.

    >>> import rushlight as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not input.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return input.new_empty((*input.shape, num_classes))
    if input.is_meta and num_classes > 0:
        return input.new_empty((*input.shape, num_classes))
    if input.__class__ is _Tensor and not active.modes:
        a = input._array
        if a.__class__ is np.ndarray and (num_classes > 0 or num_classes == -1):
            n = num_classes if num_classes > 0 else int(a.max()) + 1
            z = xp.zeros((a.size, n), np.int64) if n > 0 else None
            if z is not None and xp.scatter(z, a.reshape(-1, 1), 1, xp.asarray(1)):
                return _wrap(z.reshape(*a.shape, n))
    if num_classes == -1 and isinstance(input._array, Lifted):
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
        )
    if somewhere(input < 0):
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(input.max()) + 1
    elif somewhere(input >= num_classes):
        raise RuntimeError("Class values must be smaller than num_classes.")
    return input.new_zeros((*input.shape, num_classes)).scatter(-1, input.unsqueeze(-1), 1)
