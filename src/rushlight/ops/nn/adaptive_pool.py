"""Pooling into a given number of windows: adaptive, fractional; power averages; unpooling."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from rushlight._backends import cpu as xp
from rushlight.autograd.state import active
from rushlight.core import dtypes, settings
from rushlight.core.dtype_sets import FLOATING, I64
from rushlight.core.tensor import _wrap
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.factories.random import rand
from rushlight.ops.nn.inputs import check_dtype, check_tensor, is_channels_last
from rushlight.ops.nn.pool import (
    SHAPES,
    add_at_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    in_channels_last,
    ints_of,
    last_node,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    of_lines,
    regular,
    take_at_indices,
    window_sizes,
)
from rushlight.rng import generator as generators
from rushlight.rng import sampling

if TYPE_CHECKING:
    import numpy as np

    from rushlight.core.tensor import Tensor

    Ints = tuple[int, ...]


def check_sizes(
    name: str, shape: Ints, dtype: dtypes.dtype, n: int, first: int, got: str = "but got"
) -> None:
    """The shape and dtype of an input; `first`: the dimension from which on none may be empty."""
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, {got} {list(shape)}")
    check_filled(name, "input", shape, first)
    check_dtype(name, dtype, "f")


def check_filled(name: str, what: str, shape: Ints, first: int = 1) -> None:
    for d in range(first, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{name}(): Expected {what} to have non-zero size for non-batch dimensions, but {what} "
                f"has sizes {list(shape)} with dimension {d} being empty"
            )


# -- adaptive averages -----------------------------------------------------------------------------


def declare_adaptive(n: int) -> tuple:
    """The operators of adaptive pooling in `n` dimensions: averages, and maxima with indices."""
    name = f"adaptive_avg_pool{n}d"

    @op(where="internal", name=name, node=last_node(f"AdaptiveAvgPool{n}D", n))
    def averages(xp, input: Array, output_size: Ints):
        x, last = regular(xp, input, n < 3, n == 1)
        return in_channels_last(xp, xp.adaptive_averages(x, output_size), last)

    @op(where="internal", name=f"{name}_gradient", node=f"AdaptiveAvgPool{n}DBackwardBackward0")
    def gradient(xp, grad_output: Array, sizes: Ints):
        check_filled(f"{name}_backward", "grad_output", grad_output.shape)
        g, last = regular(xp, grad_output, lines=n == 1)
        return in_channels_last(xp, xp.adaptive_averages_adjoint(g, sizes), last)

    averages.grad(input=lambda g, input_shape: gradient(g, input_shape[-n:]))
    gradient.grad(grad_output=lambda g, grad_output_shape: averages(g, grad_output_shape[-n:]))
    if n == 1:
        of_lines(averages.op, "AdaptiveAvgPool2D")

    @op(
        where="internal",
        name=f"adaptive_max_pool{n}d",
        node=last_node(f"AdaptiveMaxPool{n}D", n),
        outputs=("output", "indices"),
    )
    def maxima(xp, input: Array, output_size: Ints):
        x, last = regular(xp, input, lines=n == 1)
        y, indices = xp.adaptive_maxima(x, output_size)
        if n < 3:
            return (
                (in_channels_last(xp, y, True), in_channels_last(xp, indices, True))
                if last
                else (y, indices)
            )
        return xp.contiguous(y), xp.contiguous(indices)  # PyTorch's are always so

    if n == 1:
        of_lines(maxima.op, "AdaptiveMaxPool2D")

    def maxima_rule(g: Any, indices: Any, input_shape: tuple) -> Any:
        check_filled(f"adaptive_max_pool{n}d_backward", "grad_output", g.shape)
        return add_at_indices(g, indices, input_shape[-n:])

    maxima.grad(input=maxima_rule)
    return averages, maxima


adaptive = {n: declare_adaptive(n) for n in (1, 2, 3)}


def output_sizes(name: str, input: Tensor, output_size: Any, n: int) -> Ints:
    """The output sizes, which None keeps; raises for what cannot be pooled."""
    check_tensor(name, input)
    several = output_size.__class__ is tuple
    plain = (
        all(v.__class__ is int for v in output_size) if several else output_size.__class__ is int
    )
    find = checked_sizes if plain else checked_sizes.__wrapped__
    return find(name, input.shape, input.dtype, output_size, n)


@lru_cache(maxsize=1024)
def checked_sizes(
    name: str, shape: Ints, dtype: dtypes.dtype, output_size: Any, n: int
) -> Ints:  # fmt: skip
    """The sizes of the result of an adaptive pooling over `n` dimensions; None keeps the size of the input."""
    several = isinstance(output_size, (tuple, list))
    values = tuple(output_size) if several else (output_size,) * n
    if several and len(shape) <= len(values):
        raise ValueError(
            f"Input dimension should be at least {len(values) + 1}, but {name} got {list(shape)}"
        )
    if len(values) != n:
        if n == 1:
            raise RuntimeError(
                f"{name}() argument 'output_size' should contain one int (got {len(values)})"
            )
        raise RuntimeError(f"{name}: internal error: output_size must be {n}, got {output_size}")
    is_max = "max" in name
    got = "but got:" if is_max else "but got"
    if len(shape) not in (n + 1, n + 2):
        check_sizes(name, shape, dtype, n, 1, got)
    sizes = shape[len(shape) - n :]
    out = tuple(s if v is None else v for s, v in zip(sizes, values, strict=True))
    for v in out:
        if not hasattr(v, "__index__"):
            raise TypeError(
                f"{name}(): argument 'output_size' must be tuple of ints, not {type(v).__name__}"
            )
    if any(v < 0 for v in out):
        if is_max:
            raise RuntimeError(
                f"{name}: Trying to create tensor with negative dimension: output_size={out}"
            )
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, out))}}}"
        )
    each = is_max or (n == 3 and out != (1, 1, 1))
    check_sizes(name, shape, dtype, n, 1 if each else len(shape) - n, got)
    return out


def adaptive_avg_pool(n: int, input: Tensor, output_size: Any) -> Tensor:
    out = output_sizes(f"adaptive_avg_pool{n}d", input, output_size, n)
    if n > 1 and out == (1,) * n and (n == 3 or not is_channels_last(input._array)):
        return input.mean(tuple(range(-n, 0)), keepdim=True)  # its strides are PyTorch's
    return adaptive[n][0](input, out)


def declare_adaptive_avg_pool(n: int, meaning: str = "") -> Any:
    meaning = f"The averages of `output_size` windows that cover {SHAPES[n]}.{meaning}"

    @composite(
        name=f"adaptive_avg_pool{n}d", doc=meaning, where="" if n == 1 else "nn.functional",
        method=False, out=False,
    )  # fmt: skip
    def averaged(input: Array, output_size: Any):
        return adaptive_avg_pool(n, input, output_size)

    return averaged


adaptive_avg_pool1d = declare_adaptive_avg_pool(1)
adaptive_avg_pool2d = declare_adaptive_avg_pool(
    2,
    """

    Window i of m over n elements is [i n // m, ceil((i + 1) n / m)). `output_size`: an int or two,
    None keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(12.0).view(1, 3, 4), (1, 2))
    tensor([[[4.5000, 6.5000]]])
    """,
)
adaptive_avg_pool3d = declare_adaptive_avg_pool(3)


# -- adaptive maxima -------------------------------------------------------------------------------


def adaptive_max_pool(n: int, input: Tensor, output_size: Any, indices: bool) -> Any:
    name = f"adaptive_max_pool{n}d"
    out = output_sizes(name, input, output_size, n)
    y = adaptive[n][1](input, out)
    return tuple(y) if indices else y[0]


def declare_adaptive_max_pool(n: int) -> Any:
    name = f"adaptive_max_pool{n}d"
    meaning = f"The maxima of `output_size` windows that cover {SHAPES[n]}."

    @composite(
        name=name, doc=meaning, where="" if n == 1 else "nn.functional", method=False, out=False
    )
    def maxima(input: Array, output_size: Any, return_indices: bool = False):
        return adaptive_max_pool(n, input, output_size, return_indices)

    meaning = f"`{name}` with the index of each maximum."

    @composite(name=f"{name}_with_indices", doc=meaning, where="nn.functional", out=False)
    def with_indices(input: Array, output_size: Any, return_indices: bool = False):
        return adaptive_max_pool(n, input, output_size, True)

    return maxima


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(
    declare_adaptive_max_pool, (1, 2, 3)
)


# -- power averages --------------------------------------------------------------------------------


def declare_lp_pool(n: int, largest: Any, average: Any) -> Any:
    name = f"lp_pool{n}d"
    meaning = f"(sum of x^p over each window)^(1/p) of {SHAPES[n]}; the maximum for p = inf."

    @composite(name=name, doc=meaning, where="nn.functional", out=False)
    def power_average(
        input: Array, norm_type: float, kernel_size: Ints, stride: Any = None, ceil_mode: bool = False
    ):  # fmt: skip
        check_tensor(name, input)
        kernel = ints_of(name, "kernel_size", kernel_size, n)
        if norm_type == float("inf"):
            return largest(input, kernel, stride, ceil_mode=ceil_mode)
        y = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (y.sign() * y.abs().relu()).mul(prod(kernel)).pow(1.0 / norm_type)

    return power_average


lp_pool1d = declare_lp_pool(1, max_pool1d, avg_pool1d)
lp_pool2d = declare_lp_pool(2, max_pool2d, avg_pool2d)
lp_pool3d = declare_lp_pool(3, max_pool3d, avg_pool3d)


# -- unpooling -------------------------------------------------------------------------------------


def declare_unpool(n: int) -> Any:
    @op(where="internal", name=f"max_unpool{n}d", node=last_node(f"MaxUnpool{n}D", n))
    def unpool(xp, input: Array, indices: Array, output_size: Ints):
        out = output_size
        if indices.dtype is not I64:
            name = dtypes.OF[indices.dtype].scalar_name
            raise RuntimeError(f"elements in indices should be type int64 but got: {name}")
        if input.shape != indices.shape:
            raise RuntimeError(
                "Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            )
        if input.ndim not in (n + 1, n + 2) or 0 in input.shape[1:]:
            raise RuntimeError(
                f"[max_unpool{n}d] Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor "
                f"with non-empty planes, but got {list(input.shape)}"
            )
        x, last = regular(xp, input)
        return in_channels_last(xp, xp.put_at_indices(x, indices, out), last)

    unpool.grad(input=lambda g, indices: take_at_indices(g, indices, n))
    return unpool


unpool = {n: declare_unpool(n) for n in (1, 2, 3)}


@lru_cache(maxsize=1024)
def smallest_sizes(shape: Ints, kernel: Ints, stride: Ints, padding: Ints) -> Ints:
    """The smallest sizes from which windows make planes of `shape`."""
    each = zip(shape, kernel, stride, padding, strict=True)
    return tuple([(m - 1) * s + k - 2 * p for m, k, s, p in each])


def unpooled_sizes(
    input: Tensor, kernel: Ints, stride: Ints, padding: Ints, output_size: Any
) -> Ints:
    """The sizes before pooling: given, if they can be, or the smallest of those possible."""
    n = len(kernel)
    shape = input._array.shape
    default = smallest_sizes(shape[len(shape) - n :], kernel, stride, padding)
    if output_size is None:
        return default
    sizes = tuple(output_size)
    if len(sizes) == n + 2:
        sizes = sizes[2:]
    if len(sizes) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length "
            f"of '{len(sizes)}'"
        )
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < sizes[d] < high:
            raise ValueError(
                f'invalid output_size "{sizes}" (dim {d} must be between {low} and {high})'
            )
    return sizes


def declare_max_unpool(n: int) -> Any:
    name = f"max_unpool{n}d"
    shape = SHAPES[n].partition(" or")[0]
    meaning = f"Zeros with `input` {shape} at the `indices` that `max_pool{n}d` returned."

    @composite(name=name, doc=meaning, where="nn.functional", out=False)
    def max_unpool(
        input: Array, indices: Array, kernel_size: Ints, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ):  # fmt: skip
        check_tensor(name, input)
        kernel, stride, padding = window_sizes(name, n, kernel_size, stride, padding)
        out = unpooled_sizes(input, kernel, stride, padding, output_size)
        settings.alert_not_deterministic(f"max_unpooling{max(n, 2)}d_forward_out")
        if any(s <= 0 for s in stride):
            raise RuntimeError(
                f"strides should be greater than zero, but got stride: {list(stride)}"
            )
        return unpool[n](input, indices, out)

    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = map(declare_max_unpool, (1, 2, 3))


# -- fractional maxima -----------------------------------------------------------------------------


def declare_fractional(n: int) -> Any:
    """The fractional max pooling over `n` dimensions, an operator."""
    name = f"fractional_max_pool{n}d"

    @op(
        where="internal",
        name=name,
        node=f"FractionalMaxPool{n}DBackward0",
        outputs=("output", "indices"),
    )
    def fractional(xp, input: Array, samples: Array, kernel: Ints, output_size: Ints):
        out, lead = output_size, input.ndim - n - 1
        check_fractional(n, input.shape, input.dtype, samples.shape, samples.dtype, kernel, out)
        x = input if lead else input[None]
        order = range(n) if n == 3 else (1, 0)  # in two dimensions the first sample is the width's
        y, indices = xp.fractional_maxima(x, samples[: len(x)], kernel, out, order)
        shape = (*input.shape[: input.ndim - n], *out)
        return y.reshape(shape), indices.reshape(shape)

    fractional.grad(
        input=lambda g, indices, input_shape: add_at_indices(g, indices, input_shape[-n:])
    )
    return fractional


fractional = {n: declare_fractional(n) for n in (2, 3)}


@lru_cache(maxsize=1024)
def check_fractional(
    n: int, shape: Ints, dtype: np.dtype, samples: Ints, samples_dtype: np.dtype, kernel: Ints, out: Ints
) -> None:  # fmt: skip
    """Raise for an input, random numbers or windows that `fractional_max_pool` does not take."""
    name = f"fractional_max_pool{n}d"
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}"
        )
    lead = len(shape) - n - 1
    for d in range(lead, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(shape)} with dimension {d} being empty."
            )
    check_dtype(name, dtypes.OF[dtype], "f")
    batch, channels = (1, *shape)[-n - 2 : -n]
    if samples_dtype != dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if len(samples) != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions got {len(samples)}")
    if samples[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples[1] != channels:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples[2] != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n}; got {samples[2]}.")
    words = ("time", "height", "width")[3 - n :]
    for word, size, k, m in zip(words, shape[lead + 1 :], kernel, out, strict=True):
        if m + k - 1 >= size + (n == 2):  # in three dimensions PyTorch wants one element more
            raise RuntimeError(
                f"{name}(): pool {word} {k} too large relative to input {word} {size}"
            )


def all_or_one(name: str, argument: str, value: Any, n: int) -> Ints:
    """An argument of `n` ints, or of one that is no tuple."""
    if isinstance(value, (tuple, list)) and len(value) != n:
        tuples = "tuple of Ints" if n == 2 else "tuple of three Ints"
        raise RuntimeError(f"{name}: {argument} must either be a single Int or {tuples}")
    return ints_of(name, argument, value, n)


def fractional_max_pool(
    n: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, indices: bool,
    samples: Tensor | None,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{n}d"
    check_tensor(name, input)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    kernel = all_or_one(name, "kernel_size", kernel_size, n)
    if output_size is None:
        ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
        shape = input.shape[input.ndim - n :]
        if len(ratio) != n:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = tuple(int(s * r) for s, r in zip(shape, ratio, strict=True))
    out = all_or_one(name, "output_size", output_size, n)
    if samples is None:
        lead = (1, input.shape[0]) if input.ndim == n + 1 else tuple(input.shape[:2])
        a = input._array
        if a.__class__ is ndarray and a.dtype in FLOATING and not active.modes:
            uniform = xp.empty((*lead, n), a.dtype)
            sampling.uniform_(uniform, 0.0, 1.0, generators.default_generator)
            samples = _wrap(uniform)
        else:
            samples = rand(*lead, n, dtype=input.dtype, device=input.device)
    y = fractional[n](input, samples, kernel, out)
    return tuple(y) if indices else y[0]


def declare_fractional_max_pool(n: int, source: str = "") -> Any:
    name = f"fractional_max_pool{n}d"
    meaning = f"The maxima of windows at random steps over {SHAPES[n]}{source}."

    @composite(name=name, doc=meaning, where="nn.functional", out=False)
    def maxima(
        input: Array, kernel_size: Ints, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ):  # fmt: skip
        return fractional_max_pool(
            n, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )

    meaning = f"`{name}` with the index of each maximum."

    @composite(name=f"{name}_with_indices", doc=meaning, where="nn.functional", out=False)
    def with_indices(
        input: Array, kernel_size: Ints, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ):  # fmt: skip
        return fractional_max_pool(
            n, input, kernel_size, output_size, output_ratio, True, _random_samples
        )

    return maxima


fractional_max_pool2d = declare_fractional_max_pool(2, " (Graham 2014)")
fractional_max_pool3d = declare_fractional_max_pool(3)
