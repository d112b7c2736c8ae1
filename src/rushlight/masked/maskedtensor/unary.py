"""Functions of one tensor, value by value: the mask stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.masked.maskedtensor.core import data_of, on_values, replace, with_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.masked.maskedtensor.core import MaskedTensor

UNARY_NAMES = (
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil "
    "clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0 isnan lgamma "
    "log log10 log1p log2 logit nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sgn sigmoid sign "
    "signbit sin sinc sinh sqrt square tan tanh trunc"
).split()
INPLACE_UNARY_NAMES = [
    name + "_" for name in UNARY_NAMES if name not in ("angle", "isnan", "positive", "signbit")
]
NATIVE_UNARY_FNS = [getattr(torch.ops.aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS = [getattr(torch.ops.aten, name) for name in INPLACE_UNARY_NAMES]

# PyTorch refuses these.
MORE = (
    "bfloat16 bool double elu empty_like float full_like gelu half int isfinite isinf leaky_relu logical_not long masked_fill "
    "ones_like rand_like randn_like relu silu softplus threshold_backward to type_ type_as zeros_like cpu __neg__ __abs__ "
    "__invert__ __pos__"
).split()


def unary(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`func` of the numbers, with the same mask."""
    args = tuple(map(data_of, args))
    made = on_values(lambda v: func(v, *args, **kwargs), data_of(input))
    return with_mask(made, input._mask)


def inplace_unary(func: Callable, name: str, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """`func`, which writes to the numbers."""
    return replace(input, lambda data: on_values(lambda v: func(v, *args, **kwargs), data))
