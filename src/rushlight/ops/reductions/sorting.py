"""Sorting and searching. nan is larger than any number; equal elements keep their order."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from rushlight._backends import cpu as xp
from rushlight._backends import math_bits
from rushlight._backends.meta import Meta
from rushlight.autograd.state import active
from rushlight.core import dtypes, geometry
from rushlight.core.dtype_sets import FLOATING, I32, I64
from rushlight.core.settings import warn_once
from rushlight.core.tensor import _wrap
from rushlight.dispatch.registry import Array, composite, no_derivative, op, public
from rushlight.ops.reductions.extremes import chosen_on_arrays, to_chosen
from rushlight.ops.reductions.reduce import axis

if TYPE_CHECKING:
    Bool = bool

Tensor = Any  # annotation only


def no_complex(name: str, input: Any) -> None:
    if input.dtype.kind == "c":
        raise RuntimeError(
            f"{name} does not support complex dtypes on CPU: complex numbers have no order"
        )


@op(outputs=("values", "indices"))
def sort(xp, input: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None):
    """(values, indices) sorted along `dim`. Always stable; nan comes last, first if `descending`.

    >>> import rushlight as torch
    >>> torch.tensor([3, 1, 2]).sort()
    torch.return_types.sort(
    values=tensor([1, 2, 3]),
    indices=tensor([1, 2, 0]))
    """
    no_complex("Sort", input)
    return xp.sort(input, axis(dim, input.ndim, "sort"), descending)


sort.grad(
    input=lambda g, indices, dim: g.new_zeros(g.shape).scatter(dim, indices, g) if g.ndim else g
)


@composite
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The indices that sort `input` along `dim`; see `sort`.

    >>> import rushlight as torch
    >>> torch.tensor([3, 1, 2]).argsort()
    tensor([1, 2, 0])
    """
    return input.sort(dim, descending, stable=stable or None).indices


@composite
def msort(input: Tensor) -> Tensor:
    """`input` sorted along its first dimension.

    >>> import rushlight as torch
    >>> torch.tensor([3, 1, 2]).msort()
    tensor([1, 2, 3])
    """
    return input.sort(0).values


@op(outputs=("values", "indices"))
def topk(xp, input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """(values, indices) of the `k` largest (or smallest) along `dim`, the most extreme first.

    [n, m] gives two tensors [n, k]. Of equal elements it takes those that PyTorch takes on a CPU, and leaves
    all in PyTorch's order where `sorted=False`.

    >>> import rushlight as torch
    >>> torch.tensor([3, 1, 2]).topk(2).values
    tensor([3, 2])
    """
    no_complex("topk", input)
    if input.dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU")
    over = axis(dim, input.ndim, "topk")
    n = 1 if over is None else input.shape[over]
    if not 0 <= k <= n:
        raise RuntimeError(
            f"selected index k out of range: k is {k}, the size of dimension {dim} is {n}"
        )
    return xp.topk(input, index(k), over, largest, sorted)


topk.grad(
    input=lambda g, input_shape, indices, dim: to_chosen(g, input_shape, indices, dim, True),
    kernel=lambda xp, g, input_shape, indices, dim: chosen_on_arrays(
        xp, g, input_shape, indices, dim, True
    ),
)


# -- unique ----------------------------------------------------------------------------------------


@op(where="_all", name="unique", outputs=("values", "inverse", "counts"), node="Unique2Backward0")
def unique_parts(
    xp, input: Array, dim: int | None, consecutive: bool, indices: bool, lengths: bool = True
):
    """(values, inverse, counts); the inverse only with `indices`, counts with `lengths`, else any array."""
    if input.dtype.kind == "c":
        raise NotImplementedError(
            f"\"unique\" not implemented for '{dtypes.OF[input.dtype].scalar_name}': no order"
        )
    if dim is None:
        return xp.unique(input, consecutive, indices, lengths)
    over = geometry.wrap_dim(dim, input.ndim, wrap_scalar=False)
    if not input.size:
        empty = [d for d, n in enumerate(input.shape) if not n]
        if len(empty) > 1:
            raise RuntimeError(
                "Number of zero sized dimensions is more than one, so unique cannot be applied"
            )
        if empty != [over]:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
            )
    return xp.unique_along(input, over, consecutive)


unique_parts.grad(input=no_derivative("_unique2"))


def requested(parts: tuple, inverse: Bool, counts: Bool) -> Any:
    picked = (parts[0], *parts[1:2] * bool(inverse), *parts[2:] * bool(counts))
    return picked if len(picked) > 1 else picked[0]


@public(method=True, overridable=True)
def unique(
    input: Tensor, sorted: Bool = True, return_inverse: Bool = False, return_counts: Bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different elements in order (or slices along `dim`), each nan by itself.

    With `return_inverse` also where each element of `input` is among them, with `return_counts` also
    how often each occurs. `sorted=False` allows any order; they are sorted all the same.

    >>> import rushlight as torch
    >>> torch.tensor([3, 1, 3]).unique(return_inverse=True, return_counts=True)
    (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    parts = unique_parts(input, dim, False, return_inverse, return_counts)
    return requested(parts, return_inverse, return_counts)


@public(method=True, overridable=True)
def unique_consecutive(
    input: Tensor, return_inverse: Bool = False, return_counts: Bool = False, dim: int | None = None
) -> Any:
    """Every run of equal elements (or slices along `dim`) reduced to one; see `unique`.

    >>> import rushlight as torch
    >>> torch.tensor([1, 1, 2, 1]).unique_consecutive()
    tensor([1, 2, 1])
    """
    parts = unique_parts(input, dim, True, return_inverse, return_counts)
    return requested(parts, return_inverse, return_counts)


# -- searching -------------------------------------------------------------------------------------


@op(where="_all", name="searchsorted")
def search(
    xp,
    sorted_sequence: Array,
    input: Array,
    side: str,
    out_int32: bool,
    sorter: Array | None,
    label: str,
):
    right = side == "right"
    kinds = {sorted_sequence.dtype.kind, input.dtype.kind}
    if input.size and ("c" in kinds or kinds == {"b"}):
        raise NotImplementedError(
            f"\"{label}_out_cpu\" not implemented for '{dtypes.OF[sorted_sequence.dtype].scalar_name}'"
        )
    if sorter is not None:
        sorted_sequence = xp.take_along(sorted_sequence, sorter)
    return xp.searchsorted(sorted_sequence, input, right, I32 if out_int32 else I64)


SOUGHT = FLOATING | {I32, I64}


def _search_in_one_row(boundaries: Any, input: Any, right: Any, out_int32: Any) -> Tensor | None:
    """The indices in one row, of plain row-major tensors of one dtype; None for anything else."""
    seq, a = getattr(boundaries, "_array", None), getattr(input, "_array", None)
    if seq.__class__ is not ndarray or a.__class__ is not ndarray or active.modes:
        return None
    if (d := a.dtype) is not seq.dtype or d not in SOUGHT or seq.ndim != 1:
        return None
    if not (a.flags.c_contiguous and seq.flags.c_contiguous):
        return None
    return _wrap(xp.searchsorted(seq, a, bool(right), I32 if out_int32 else I64))


@public(overridable=True)
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: Bool = False, right: Bool = False,
    side: str | None = None, sorter: Tensor | None = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """Where each element of `input` would go into `sorted_sequence` along the last dimension.

    The first such place, or with `right=True` (`side="right"`) the last. `sorted_sequence` has one
    dimension, or those of `input` but the last. `sorter`: the indices that sort it. int64, or int32.

    >>> import rushlight as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4]))
    tensor([1, 2])
    """
    if side is None and sorter is None and out is None:
        found = _search_in_one_row(sorted_sequence, input, right, out_int32)
        if found is not None:
            return found
    name = "torch.searchsorted()"
    input = as_tensor(input, sorted_sequence)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}: side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"{name}: side and right can't be set to opposites, got side of left while right was True"
        )
    own, given = sorted_sequence.shape, input.shape
    if not given and len(own) != 1:
        raise RuntimeError(
            f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({len(own)}) and input value's dim(0) numel(1)"
        )
    if not own:
        raise RuntimeError(
            f"{name}: boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if len(own) != 1 and (len(own) != len(given) or own[:-1] != given[:-1]):
        raise RuntimeError(
            f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(own)} and "
            f"input value tensor {list(given)}"
        )
    if sorter is not None:
        if sorter.shape != own:
            raise RuntimeError(
                f"{name}: boundary and sorter must have the same size, but got boundary tensor {list(own)}"
                f"and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype is not dtypes.int64:
            raise RuntimeError(
                f"{name}: sorter must be a tensor of long dtype but got dtype {sorter.dtype.scalar_name}"
            )
        a = math_bits.resolved(sorter._array)
        if a.size and not isinstance(a, Meta) and (a.min() < 0 or a.max() >= own[-1]):
            raise RuntimeError(f"{name}: sorter index out of range")
    check_int_out(name, out, out_int32)
    warn_of_copies(sorted_sequence, input, sorter)
    side = "right" if right or side == "right" else "left"
    return search(sorted_sequence, input, side, out_int32, sorter, "searchsorted", out=out)


@public(overridable=True)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: Bool = False, right: Bool = False, out: Any = None
) -> Tensor:
    """The number of the bucket each element of `input` falls into, between sorted `boundaries`.

    Bucket i is boundaries[i - 1] < x <= boundaries[i]; `right=True` moves the equality to the other
    side. int64, or int32.

    >>> import rushlight as torch
    >>> torch.bucketize(torch.tensor([0, 3, 9]), torch.tensor([1, 3, 5]))
    tensor([0, 1, 3])
    """
    if out is None:
        found = _search_in_one_row(boundaries, input, right, out_int32)
        if found is not None:
            return found
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    input = as_tensor(input, boundaries)
    check_int_out("torch.bucketize()", out, out_int32)
    warn_of_copies(boundaries, input, None)
    return search(
        boundaries, input, "right" if right else "left", out_int32, None, "bucketize", out=out
    )


def as_tensor(value: Any, like: Tensor) -> Tensor:
    if hasattr(value, "_array"):
        return value
    from rushlight import tensor

    return tensor(value, device=like.device)


def warn_of_copies(boundaries: Tensor, input: Tensor, sorter: Tensor | None) -> None:
    """Warn, once for each argument, that it is not contiguous."""
    for name, t in (("boundary", boundaries), ("input value", input), ("sorter", sorter)):
        if t is not None and not t.is_contiguous():
            warn_once(
                f"torch.searchsorted(): {name} tensor is non-contiguous, this will lower the performance due to "
                f"extra data copy when converting non-contiguous tensor to contiguous, please use contiguous {name} "
                "tensor if possible. This message will only appear once per program."
            )


def check_int_out(name: str, out: Any, out_int32: Bool) -> None:
    want = dtypes.int32 if out_int32 else dtypes.int64
    if out is not None and out.dtype is not want:
        raise RuntimeError(
            f"{name}: output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
            f"whether out_int32 flag is True, but we got output tensor's dtype {out.dtype.scalar_name} and "
            f"out_int32 flag is {'True' if out_int32 else 'False'}"
        )


@op(where="_all", name="isin")
def among(xp, elements: Array, test_elements: Array, invert: bool):
    for a in (elements, test_elements):
        if a.dtype.kind in "cb":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {dtypes.OF[a.dtype].scalar_name}"
            )
    return xp.isin(elements, test_elements, invert)


@public(overridable=True)
def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: Bool = False,
    invert: Bool = False,
    out: Any = None,
) -> Tensor:
    """Which of `elements` are in `test_elements` (with `invert`: are not). nan is in nothing.

    >>> import rushlight as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 4]))
    tensor([False,  True, False])
    """
    if not hasattr(elements, "_array") and not hasattr(test_elements, "_array"):
        raise TypeError(
            "isin() received an invalid combination of arguments: elements or test_elements must be a "
            f"Tensor, got {elements!r} and {test_elements!r}"
        )
    return among(
        as_tensor(elements, test_elements), as_tensor(test_elements, elements), invert, out=out
    )
