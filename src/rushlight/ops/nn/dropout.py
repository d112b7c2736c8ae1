"""Dropout: zeros at random, in training."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.state import active
from rushlight.core import dtypes, settings
from rushlight.core.tensor import _wrap
from rushlight.dispatch.registry import Array, composite
from rushlight.ops.factories.creation import empty_like, ones
from rushlight.rng import sampling
from rushlight.rng.generator import default_generator

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def check(p: float, error: type[Exception] = ValueError) -> None:
    if not 0 <= p <= 1:
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


def mask_for(input: Tensor, p: float, feature: bool) -> Tensor:
    """Ones and zeros, zero with probability `p`; one for each channel when `feature`."""
    if feature:
        shape = (*input.shape[:2], *([1] * (input.ndim - 2)))
        return input.new_empty(shape).bernoulli_(1 - p)
    # laid out as the input, and filled in the order of memory, as PyTorch's
    return empty_like(input).bernoulli_(1 - p)


def scaled_mask(input: Tensor, p: float, feature: bool) -> Tensor:
    """`mask_for` divided by 1 - p, in one pass over an ordinary array."""
    a = input._array
    if a.__class__ is not np.ndarray or active.modes or not input.is_floating_point():
        return mask_for(input, p, feature).div_(1 - p)
    if feature:
        mask = input.new_empty((*a.shape[:2], *([1] * (a.ndim - 2))))
    else:
        mask = _wrap(xp.empty(a.shape, a.dtype)) if a.flags.c_contiguous else empty_like(input)
    sampling.bernoulli_(mask._array, 1 - p, default_generator, scale(p, input.dtype))
    return mask


@functools.lru_cache(64)
def scale(p: float, dtype: dtypes.dtype) -> float:
    """1 / (1 - p), rounded as a division in that dtype is."""
    return ones((), dtype=dtype).div_(1 - p).item()


def dropped(input: Any, p: float, train: bool, feature: bool) -> Any:
    check(p, RuntimeError)
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * input.new_zeros(())
    if feature and input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return input * scaled_mask(input, p, feature)


# The saturation value of selu, -scale * alpha: what alpha dropout puts in place of a dropped element
# (Klambauer et al. 2017, section "New dropout technique").
ALPHA = 1.7580993408473766


def alpha_dropped(input: Any, p: float, train: bool, feature: bool, like: Any = None) -> Any:
    """The input after alpha dropout, with a mask for `like`, or for itself."""
    check(p, RuntimeError)
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * input.new_zeros(())
    mask = mask_for(input if like is None else like, p, feature)
    a = 1 / ((ALPHA * ALPHA * p + 1) * (1 - p)) ** 0.5
    shift = (mask - 1).mul_(ALPHA * a).add_(ALPHA * a * p)
    return input * mask.mul_(a) + shift


def declare(name: str, meaning: str, drop: Any, feature: bool) -> Any:
    @composite(name=name, doc=meaning, inplace=True, method=False)
    def declared(input: Array, p: float, train: bool):
        return drop(input, p, train, feature)

    return declared


dropout = declare(
    "dropout",
    "Zero elements with probability `p` and scale the rest by 1 / (1 - p), when training.",
    dropped, False,
)  # fmt: skip
feature_dropout = declare("feature_dropout", "As `dropout`, for whole channels.", dropped, True)
alpha_dropout = declare(
    "alpha_dropout", "Dropout that keeps mean and variance of selu's results.", alpha_dropped, False
)
feature_alpha_dropout = declare(
    "feature_alpha_dropout", "As `alpha_dropout`, for whole channels.", alpha_dropped, True
)


@composite(method=False, inplace=False)
def native_dropout(input: Array, p: float, train: bool | None):
    """(dropout of the input, which elements were kept)."""
    if not train:
        return input.clone(), input.new_ones(input.shape, dtype=dtypes.bool)
    mask = mask_for(input, p, False)
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask.to(dtypes.bool)


def functional(kind: Any, input: Any, p: float, training: bool, inplace: bool) -> Any:
    check(p)
    result = kind(input, p, training)
    return input.copy_(result) if inplace and result is not input else result


@composite(where="nn.functional", name="dropout", inplace=False)
def functional_dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False):
    """As `torch.dropout`; `inplace`: into the input's memory."""
    if inplace or active.modes:
        return functional(dropout, input, p, training, inplace)
    check(p)
    return dropped(input, p, training, False)


def declare_functional(kind: Any) -> None:
    name = kind.__name__
    meaning = f"As `torch.{name}`; `inplace`: into the input's memory."

    @composite(where="nn.functional", name=name, doc=meaning, inplace=False)
    def declared(input: Array, p: float = 0.5, training: bool = False, inplace: bool = False):
        return functional(kind, input, p, training, inplace)


declare_functional(alpha_dropout)
declare_functional(feature_alpha_dropout)


def of_channels(
    name: str, ndims: tuple[int, ...], input: Any, p: float, training: bool, inplace: bool
) -> Any:
    check(p)
    if input.ndim not in ndims:
        settings.warn(
            f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use "
            f"dropout instead. Note that {name} takes {' or '.join(map(str, ndims))} dimensions."
        )
    batched = input.ndim == ndims[-1] or input.ndim not in ndims
    x = input if batched else input.unsqueeze(0)
    result = feature_dropout(x, p, training)
    if not batched:
        result = result.squeeze(0)
    if not inplace:
        return result
    return input.copy_(result) if training and p else input


@composite(where="nn.functional", inplace=False)
def dropout1d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zero whole channels of (N, C, L) or (C, L)."""
    check(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d "
            "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
            "dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return of_channels("dropout1d", (2, 3), input, p, training, inplace)


@composite(where="nn.functional", inplace=False)
def dropout2d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zero whole channels of (N, C, H, W)."""
    check(p)
    if input.ndim == 3:
        settings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. "
            "This behavior will change in a future release to interpret the input as one without a "
            "batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, "
            "please switch to using dropout1d instead."
        )
        result = feature_dropout(input, p, training)
        return input.copy_(result) if inplace and training else result
    return of_channels("dropout2d", (3, 4), input, p, training, inplace)


@composite(where="nn.functional", inplace=False)
def dropout3d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return of_channels("dropout3d", (4, 5), input, p, training, inplace)
