"""`torch.masked`: reductions that leave out elements where a mask is False.

The mask is broadcast to the input; None takes everything. Where nothing is left, the result is the
identity of the operation: 0 for a sum, 1 for a product, -inf for a maximum, nan for a mean.

>>> import rushlight as torch
>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> torch.masked.sum(x, 1, mask=torch.tensor([True, False]))
tensor([1., 3.])
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.core import dtypes
from rushlight.masked.layouts import any_over, for_all_layouts, wrapped_dims

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

    Dims = int | tuple[int, ...] | None
    Bool = builtins.bool

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean",
    "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def _mask(input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask as bool, broadcast to `input`."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_:
        mask = mask != 0
    return mask if mask.shape == input.shape else mask.expand(input.shape)


def _fill(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """`input` with `value` where the mask is False."""
    mask = _mask(input, mask)
    return input if mask is None else input.masked_fill(mask.logical_not(), value)


def _extreme(name: str, dtype: Any) -> Any:
    """The identity of a maximum (`amax`) or a minimum in a dtype."""
    largest = name.endswith("min")
    if dtype.is_floating_point:
        return float("inf") if largest else float("-inf")
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    info = torch.iinfo(dtype)
    return info.max if largest else info.min


def _identity(name: str, dtype: Any, ord: float = 2.0) -> Any:
    """What does not change a reduction (for a mean, a variance: what is put in the place of the masked)."""
    if name in ("amax", "amin", "argmax", "argmin"):
        return _extreme(name, dtype)
    if name in ("prod", "cumprod"):
        return 1
    if name == "norm":
        return float("inf") if ord < 0 else 0
    if name == "median":
        return float("nan")
    return float("-inf") if name in ("logaddexp", "logsumexp", "softmax", "log_softmax") else 0


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None or dtype is input.dtype else input.to(dtype)


def _count(input: Tensor, mask: Tensor | None, dims: tuple[int, ...], keepdim: Bool) -> Tensor:
    """The number of elements that the mask selects."""
    ones = input.new_ones(input.shape, dtype=dtypes.int64)
    return _fill(ones, mask, 0).sum(dims, keepdim)


# -- reductions ------------------------------------------------------------------------------------


@for_all_layouts
def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: Bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the selected elements; integers give int64."""
    return _fill(input, mask, 0).sum(wrapped_dims(dim, input.ndim), bool(keepdim), dtype=dtype)


@for_all_layouts
def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: Bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the selected elements; integers give int64. With `dim=[]` nothing is reduced, as in PyTorch."""
    result = _fill(input, mask, 1)
    over = () if dim == [] else wrapped_dims(dim, input.ndim)
    if not over:
        integer = not (result.dtype.is_floating_point or result.dtype.is_complex)
        return _cast(result, dtypes.int64 if dtype is None and integer else dtype)
    if len(over) == input.ndim and not keepdim:
        return result.prod(dtype=dtype)
    for d in reversed(over):
        result = result.prod(d, bool(keepdim), dtype=dtype)
    return result


@for_all_layouts
def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: Bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the selected elements; nan of nothing. ValueError for integers without `dtype`."""
    wanted = input.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {which} dtype must be either a floating point or "
            f"complex dtype. Got: {wanted}"
        )
    over = wrapped_dims(dim, input.ndim)
    if mask is None:
        return input.mean(over, bool(keepdim), dtype=dtype)
    total = sum(input, over, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, mask, over, bool(keepdim))


def _extremum(name: str, of: str) -> Any:
    def extremum(
        input: Tensor,
        dim: Dims = None,
        *,
        keepdim: Bool = False,
        dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        input = _cast(input, dtype)
        filled = _fill(input, mask, _extreme(name, input.dtype))
        return getattr(filled, name)(wrapped_dims(dim, input.ndim), bool(keepdim))

    extremum.__name__ = extremum.__qualname__ = name
    extremum.__doc__ = f"The {of} of nothing."
    return for_all_layouts(extremum)


def _arg_extreme(name: str, of: str) -> Any:
    def arg_extreme(
        input: Tensor, dim: int | None = None, *, keepdim: Bool = False, dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        filled = _fill(input, mask, _extreme(name, input.dtype))
        found = getattr(filled, name)(dim, bool(keepdim))
        return found.to(input.dtype if dtype is None else dtype)

    arg_extreme.__name__ = arg_extreme.__qualname__ = name
    arg_extreme.__doc__ = f"The index of the {of} of the selected elements, in the dtype of the input (as PyTorch has it)."
    return arg_extreme


amax = _extremum("amax", "maximum of the selected elements; the least number")
amin = _extremum("amin", "minimum of the selected elements; the largest number")
argmax, argmin = _arg_extreme("argmax", "maximum"), _arg_extreme("argmin", "minimum")


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: Bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median over one dimension of the selected elements; nan of nothing."""
    input = _cast(input, dtype)
    if input.dtype.is_floating_point:
        return _fill(input, mask, float("nan")).nanmedian(dim, bool(keepdim)).values
    kept = _mask(input, mask)
    if kept is not None and not kept.any(dim).all():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return (
        _fill(input.to(dtypes.float64), mask, float("nan"))
        .nanmedian(dim, bool(keepdim))
        .values.to(input.dtype)
    )


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: Bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """`torch.logsumexp` of the selected elements; -inf of nothing."""
    result_dtype = input.dtype if dtype is None else dtype
    x = (
        input
        if input.is_floating_point() or input.is_complex()
        else input.to(torch.get_default_dtype())
    )
    result = _fill(x, mask, float("-inf")).logsumexp(wrapped_dims(dim, input.ndim), bool(keepdim))
    return _cast(result, result_dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: Bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`linalg.vector_norm` of the selected elements; 0 of nothing (inf for `ord` = -inf)."""
    ord = 2.0 if ord is None else ord
    input = _cast(input, dtype)
    filled = _fill(input, mask, float("inf") if ord < 0 else 0)
    return torch.linalg.vector_norm(filled, ord, wrapped_dims(dim, input.ndim), bool(keepdim))


def var(
    input: Tensor, dim: Dims = None, unbiased: Bool | None = None, *, correction: float | None = None,
    keepdim: Bool = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the selected elements, by n - `correction`; see `torch.var`."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = dtypes.float32
    x = _cast(input, dtype)
    over = wrapped_dims(dim, x.ndim)
    n = _count(x, mask, over, True)
    d = _fill(x - sum(x, over, keepdim=True, mask=mask) / n, mask, 0)
    squares = d * d.conj() if d.is_complex() else d * d
    total = squares.sum(over, bool(keepdim))  # of complex numbers complex, as PyTorch has it
    left = (n if keepdim else n.reshape(total.shape)) - correction
    return (total / left.clamp(min=0)).to(x.dtype)


def std(
    input: Tensor, dim: Dims = None, unbiased: Bool | None = None, *, correction: float | None = None,
    keepdim: Bool = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of `var`."""
    return var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    ).sqrt()


# -- the shape stays -------------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running sum of the selected elements."""
    return _fill(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running product of the selected elements."""
    return _fill(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The softmax over the selected elements; 0 elsewhere."""
    input = _cast(input, dtype)
    return torch.nn.functional.softmax(_fill(input, mask, float("-inf")), dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the softmax over the selected elements; -inf elsewhere."""
    input = _cast(input, dtype)
    return torch.nn.functional.log_softmax(_fill(input, mask, float("-inf")), dim)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of -input."""
    return softmax(-_cast(input, dtype), dim, mask=mask)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The selected elements divided by their norm over `dim` (at least `eps`); 0 elsewhere."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _fill(_cast(input, dtype), mask, 0) / length.clamp(min=eps)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`torch.logaddexp`, an element that is masked out counting as -inf."""
    least = float("-inf")
    return torch.logaddexp(
        _fill(_cast(input, dtype), input_mask, least), _fill(_cast(other, dtype), other_mask, least)
    )


# -- PyTorch's names of what is above, for programs that compare with it ----------------------------

_canonical_dim = wrapped_dims


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask as bool in the shape of the input."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    return _mask(input, mask)  # type: ignore[return-value] # None only without a mask


def _output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Where an element of the result has something that was selected."""
    mask = _input_mask(input, *args, **kwargs)
    if op.__name__ in ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"):
        return mask
    args = args[1:] if op.__name__ == "norm" else args
    dims = wrapped_dims(args[0] if args else kwargs.get("dim"), input.ndim)
    return any_over(mask, dims, bool(kwargs.get("keepdim")))


def _combine_input_and_mask(op: Any, input: Tensor, mask: Tensor | None, *args: Any) -> Tensor:
    """`input` with what does not change a reduction where the mask is False."""
    return input if mask is None else _fill(input, mask, _identity(op.__name__, input.dtype, *args))


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """What does not change a reduction, as a tensor of the dtype of the input; None for a mean, a variance."""
    name, dtype = op_name.rpartition(".")[2], input.dtype
    if name in ("mean", "var", "std"):
        return None
    if name in ("logaddexp", "logsumexp") and not dtype.is_complex:
        name = "amax"
    if name not in _REDUCTIONS:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    kept = None if name == "median" and not dtype.is_floating_point else dtype
    return torch.tensor(_identity(name, dtype, *args), dtype=kept, device=input.device)


_REDUCTIONS = frozenset(
    "sum cumsum prod cumprod amax amin argmax argmin logaddexp logsumexp norm median".split()
)
_TENSORS = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")


def __getattr__(name: str) -> Any:
    if name in _TENSORS:
        from rushlight.masked import maskedtensor

        return getattr(maskedtensor, name)
    if name == "_ops":  # in PyTorch a module of this package
        return sys.modules[__name__]
    raise AttributeError(f"module 'rushlight.masked' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_TENSORS]
