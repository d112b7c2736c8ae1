"""Pooling: maxima, averages and power averages over windows, in one to three dimensions.

Two and three dimensions have operators; one dimension is two with a height of 1. The gradient of a
maximum goes to its position in the input, and the operators that add at indices and take from indices are
each other's gradients; so are the sums over windows and their transposes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight._backends.windows import Windows
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import (
    check_dtype,
    check_tensor,
    is_channels_last,
    is_channels_last_in_bytes,
)

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]

INTS = frozenset({int})
COUNT = {1: "one int", 2: "two ints", 3: "three ints"}


# -- arguments -------------------------------------------------------------------------------------


def ints_of(name: str, argument: str, value: Any, n: int, default: Ints | None = None) -> Ints:
    """An argument of `n` ints: one int stands for all, None or [] for `default` where there is one."""
    if default is not None and (value is None or (isinstance(value, (tuple, list)) and not value)):
        return default
    if value.__class__ is int:
        return (value,) * n
    if value.__class__ is tuple and len(value) == n and INTS.issuperset(map(type, value)):
        return value
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for v in values:
        if not hasattr(v, "__index__") or isinstance(v, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' must be tuple of ints, not {type(v).__name__}"
            )
    if len(values) not in (1, n):
        if n == 1:
            raise RuntimeError(
                f"{name}() argument '{argument}' should contain one int (got {len(values)})"
            )
        omitted = (
            "be omitted, a single int, or" if default is not None else "either be a single int, or"
        )
        omitted = omitted if default is None else f"either {omitted}"
        raise RuntimeError(f"{name}: {argument} must {omitted} a tuple of {COUNT[n]}")
    return values * n if len(values) < n else values


def check_shape(name: str, shape: Ints, n: int) -> None:
    """Raise for a wrong number of dimensions or an empty plane."""
    if len(shape) not in (n + 1, n + 2):
        if name.startswith("avg_pool2d"):
            geometry.wrap_dim(-3, len(shape), wrap_scalar=False)
        raise RuntimeError(
            f"[{name}] non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input, got shape "
            f"{list(shape)}"
        )
    if 0 in shape[len(shape) - n - 1 :]:
        if name == "max_pool3d":
            raise RuntimeError(
                f"[{name}] Expected input's non-batch dimensions to have positive length, but input has "
                f"a shape of {list(shape)}"
            )
        raise RuntimeError(
            f"[{name}] Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size "
            f"for input, but got:{list(shape)}"
        )


def out_sizes(
    sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Ints:
    """The number of windows in each dimension. `ceil_mode`: one that begins inside the input or its
    left padding counts though it ends outside."""
    out = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
        m = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (m - 1) * s >= n + p:
            m -= 1
        out.append(m)
    return tuple(out)


def check_positive(n: int, kernel: Ints, stride: Ints, dilation: Ints) -> None:
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    for what, short, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(values) <= 0:
            letters = ("T", "H", "W")[3 - n :]
            got = " ".join(f"{short}{c}: {v}" for c, v in zip(letters, values, strict=True))
            raise RuntimeError(f"{what} should be greater than zero, but got {got}")


@lru_cache(maxsize=1024)
def windows_over(
    name: str, shape: Ints, dtype: dtypes.dtype, kernel: Ints, stride: Ints, padding: Ints,
    dilation: Ints, ceil_mode: bool,
) -> Windows:  # fmt: skip
    """The windows over the last dimensions of a tensor; raises where there are none."""
    n = len(kernel)
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0:
        check_positive(n, kernel, stride, dilation)
    sizes = shape[len(shape) - n :]
    if len(shape) >= n:
        out = out_sizes(sizes, kernel, stride, padding, dilation, ceil_mode)
    check_shape(name, shape, n)
    check_dtype(name, dtype, "fiu")
    if any(m < 1 for m in out):
        given, got = ("x".join(map(str, (shape[-n - 1], *each))) for each in (sizes, out))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({got}). Output size is too small"
        )
    return Windows(sizes, kernel, stride, padding, dilation, out)


def regular(
    xp: Any, a: np.ndarray, keep_last: bool = True, lines: bool = False
) -> tuple[np.ndarray, bool]:
    """The array contiguous or, with `keep_last`, channels last, and whether it is the latter.

    `lines`: it is (N, C, L) or (C, L). Channels that lie innermost, as after `x.transpose(1, 2)`, are so in the result,
    too: in PyTorch such an input is one of images (N, C, 1, L). It is made contiguous nevertheless.
    """
    if a.flags.c_contiguous:
        return a, False
    if keep_last and a.ndim in (4, 5) and is_channels_last_in_bytes(a.shape, a.strides, a.itemsize):
        return a, True
    if lines and a.ndim == 3:
        (n, c, length), (outer, channel, step) = a.shape, a.strides
        images = (n, c, 1, length), (outer, channel, length * step, step)
        return xp.row_major(a), is_channels_last_in_bytes(*images, a.itemsize)
    return xp.row_major(a), False


def in_channels_last(xp: Any, a: np.ndarray, last: bool) -> np.ndarray:
    """`a` with the strides that PyTorch gives a channels-last result."""
    if not last or a.strides == channels_last_steps(a.shape, a.itemsize):
        return a
    order = (0, *range(2, a.ndim), 1)
    back = (0, a.ndim - 1, *range(1, a.ndim - 1))
    return xp.row_major(a.transpose(order)).transpose(back)


@lru_cache(maxsize=1024)
def channels_last_steps(shape: Ints, size: int) -> Ints:
    """The strides of channels last in bytes; those of lines (N, C, L) are those of images of one row."""
    if len(shape) == 3:
        n, c, _, step = channels_last_steps((*shape[:2], 1, shape[2]), size)
        return n, c, step
    return tuple([s * size for s in geometry.channels_last_strides(shape)])


# -- indices -----------------------------------------------------------------------------------------


@op(where="internal", node="MaxPoolBackwardBackward0")
def add_at_indices(xp, input: Array, indices: Array, sizes: Ints):
    """Zeros of `sizes` with `input` added at `indices`, which count through each plane: channels last as these are."""
    last = not indices.flags.c_contiguous and is_channels_last(indices)
    return in_channels_last(xp, xp.add_at_indices(input, indices, sizes), last)


@op(where="internal", node="MaxPoolBackwardBackward0")
def take_at_indices(xp, input: Array, indices: Array, n: int):
    """`input` at `indices`, which count through each plane of the last `n` dimensions."""
    return xp.take_at_indices(input, indices, n)


add_at_indices.grad(input=lambda g, indices, sizes: take_at_indices(g, indices, len(sizes)))
take_at_indices.grad(
    input=lambda g, indices, input_shape, n: add_at_indices(
        g, indices, input_shape[len(input_shape) - n :]
    )
)


# -- maxima ----------------------------------------------------------------------------------------


def last_node(name: str, n: int) -> str:
    """The node of pooling in `n` dimensions: PyTorch pools lines as images of one row, and squeezes these."""
    return f"{name}Backward0" if n > 1 else "SqueezeBackward1"


def of_lines(op: Any, name: str) -> None:
    """Give the node of pooling of lines the names of PyTorch's: that of images, squeezed."""
    op.pytorch_nodes = lambda node: (
        "SqueezeBackward1",
        ((f"{name}Backward0", ("UnsqueezeBackward0", 0)),),
    )


def declare_max_pool(n: int) -> tuple:
    """The operators of max pooling in `n` dimensions: the maxima alone, and with their indices."""
    name = f"max_pool{n}d"
    node = last_node(f"MaxPool{n}DWithIndices", n)

    @op(where="internal", name=f"{name}_with_indices", node=node, outputs=("output", "indices"))
    def indexed(xp, input: Array, windows: Windows):
        x, last = regular(xp, input, lines=n == 1)
        return tuple(in_channels_last(xp, a, last) for a in xp.max_pool_indices(x, windows))

    @op(where="internal", name=name, node=node, intermediates=("indices",))
    def values(xp, input: Array, windows: Windows, keep: bool):
        if keep:
            return indexed.op.declared(xp, input, windows)
        x, last = regular(xp, input)
        return in_channels_last(xp, xp.max_pool(x, windows), last), None

    for each in (values, indexed):
        each.grad(input=lambda g, indices, windows: add_at_indices(g, indices, windows.sizes))
        if n == 1:
            of_lines(each.op, "MaxPool2DWithIndices")
    return values, indexed


max_pools = {n: declare_max_pool(n) for n in (1, 2, 3)}


def max_pool(
    n: int, name: str, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: bool,
) -> Any:  # fmt: skip
    check_tensor(name, input)
    kernel, stride, padding = window_sizes(name, n, kernel_size, stride, padding)
    dilation, ceil_mode = ints_of(name, "dilation", dilation, n), bool(ceil_mode)
    if n == 1:
        check_max_pool1d(
            name, input.shape, kernel, stride, padding, dilation, ceil_mode, bool(indices)
        )
    windows = windows_over(
        name, input.shape, input.dtype, kernel, stride, padding, dilation, ceil_mode
    )
    if not indices:
        if n == 1 and not input.requires_grad:  # lines by themselves, as in PyTorch, not images
            input = input.contiguous()
        return max_pools[n][0](input, windows)
    return tuple(max_pools[n][1](input, windows))


@lru_cache(maxsize=1024)
def check_max_pool1d(
    name: str, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints,
    ceil_mode: bool, indices: bool,
) -> None:  # fmt: skip
    """Raise for what two dimensions would say otherwise."""
    (k,), (s,), (p,), (d,) = kernel, stride, padding, dilation
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )
    for what, v in (("kernel_size", k), ("stride", s), ("dilation", d)):
        if v <= 0:
            raise RuntimeError(f"{name}() {what} must be greater than zero, but got {v}")
    if p < 0:
        raise RuntimeError(
            f"{name}() padding must be non-negative, but got {p}: pad must be non-negative"
        )
    if p > k // 2:
        raise RuntimeError(
            f"{name}() padding should be at most half of kernel size, but got padding={p} and "
            f"kernel_size={k}: pad should be at most half of effective kernel size"
        )
    (m,) = out_sizes(shape[-1:], kernel, stride, padding, dilation, ceil_mode)
    if m <= 0 and not indices:  # else the pool of two dimensions says it
        raise RuntimeError(f"{name}() Invalid computed output size: {m}")


SHAPES = {
    1: "(N, C, L) or (C, L)",
    2: "(N, C, H, W) or (C, H, W)",
    3: "(N, C, D, H, W) or (C, D, H, W)",
}


def declare_max_pool_functions(n: int, meaning: str) -> Any:
    """The public functions of max pooling in `n` dimensions; returns the first of them."""
    name = f"max_pool{n}d"

    @composite(name=name, doc=meaning, method=False, out=False)
    def values(
        input: Array, kernel_size: Ints, stride: Any = None, padding: Ints = 0, dilation: Ints = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ):  # fmt: skip
        return max_pool(
            n, name, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
        )

    @composite(
        name=f"{name}_with_indices", doc=f"`{name}` with the index of each maximum.",
        where="" if n == 1 else "nn.functional", method=False, out=False,
    )  # fmt: skip
    def with_indices(
        input: Array, kernel_size: Ints, stride: Any = None, padding: Ints = 0, dilation: Ints = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ):  # fmt: skip
        return max_pool(n, name, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return values


max_pool1d = declare_max_pool_functions(
    1, f"The maximum of each window of {SHAPES[1]}; with `return_indices` also its index."
)
max_pool2d = declare_max_pool_functions(
    2,
    """The maximum of each window of (N, C, H, W) or (C, H, W).

    `stride` is `kernel_size` by default. Padding counts as lower than any number. With
    `return_indices` also the index of each maximum, row * W + column. RuntimeError where no window
    fits. The gradient goes to the first maximum of a window.

    >>> import rushlight as torch
    >>> torch.max_pool2d(torch.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """,
)
max_pool3d = declare_max_pool_functions(
    3, f"The maximum of each window of {SHAPES[3]}: as `max_pool2d`."
)


# -- averages --------------------------------------------------------------------------------------


def declare_avg_pool(n: int) -> Any:
    """The operator of average pooling in `n` dimensions and its transpose.

    `divisor`: (whether padding counts, the divisor that is given or None).
    """
    name = f"avg_pool{n}d"
    node = f"AvgPool{max(n, 2)}DBackward"

    @op(where="internal", name=name, node=last_node(f"AvgPool{n}D", n))
    def forward(xp, input: Array, windows: Windows, divisor: tuple):
        x, last = regular(xp, input, n < 3, n == 1)
        return in_channels_last(xp, xp.window_averages(x, windows, divisor), last)

    @op(where="internal", name=f"{name}_gradient", node=f"{node}Backward0")
    def gradient(xp, grad_output: Array, windows: Windows, divisor: tuple):
        g, last = regular(xp, grad_output, lines=n == 1)
        return in_channels_last(xp, xp.window_averages_adjoint(g, windows, divisor), last)

    forward.grad(input=lambda g, windows, divisor: gradient(g, windows, divisor))
    gradient.grad(grad_output=lambda g, windows, divisor: forward(g, windows, divisor))
    if n == 1:
        of_lines(forward.op, "AvgPool2D")
    return forward


averages = {n: declare_avg_pool(n) for n in (1, 2, 3)}


def avg_pool(
    n: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, divisor: tuple
) -> Tensor:  # fmt: skip
    name = f"avg_pool{n}d"
    given = kernel_size, padding, kernel_size if stride is None else stride
    find = averaged_windows if INTS.issuperset(map(type, given)) else averaged_windows.__wrapped__
    if divisor[1] == 0:
        window_sizes(name, n, kernel_size, stride, padding)  # what is wrong there comes first
        raise RuntimeError(f"[{name}] divisor must be not zero")
    windows = find(name, n, input.shape, input.dtype, kernel_size, stride, padding, bool(ceil_mode))
    return averages[n](input, windows, divisor)


@lru_cache(maxsize=1024)
def averaged_windows(
    name: str, n: int, shape: Ints, dtype: dtypes.dtype, kernel_size: Any, stride: Any, padding: Any,
    ceil_mode: bool,
) -> Windows:  # fmt: skip
    """The windows of an average pool, of arguments that are ints, or as many ints as dimensions."""
    kernel, stride, padding = window_sizes(name, n, kernel_size, stride, padding)
    return windows_over(name, shape, dtype, kernel, stride, padding, (1,) * n, ceil_mode)


@composite(method=False, out=False)
def avg_pool1d(
    input: Array, kernel_size: Ints, stride: Any = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
):  # fmt: skip
    """The average of each window of (N, C, L) or (C, L)."""
    check_tensor("avg_pool1d", input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for avg_pool1d)"
        )
    return avg_pool(1, input, kernel_size, stride, padding, ceil_mode, (count_include_pad, None))


def window_sizes(name: str, n: int, kernel_size: Any, stride: Any, padding: Any) -> tuple:
    """(kernel, stride, padding) of `n` ints each."""
    kernel = ints_of(name, "kernel_size", kernel_size, n)
    return kernel, ints_of(name, "stride", stride, n, kernel), ints_of(name, "padding", padding, n)


def declare_avg_pool_function(n: int, meaning: str) -> Any:
    name = f"avg_pool{n}d"

    @composite(name=name, doc=meaning, where="nn.functional", inplace=False)
    def averaged(
        input: Array, kernel_size: Ints, stride: Any = None, padding: Ints = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ):  # fmt: skip
        check_tensor(name, input)
        divisor = (count_include_pad, divisor_override)
        return avg_pool(n, input, kernel_size, stride, padding, ceil_mode, divisor)

    return averaged


avg_pool2d = declare_avg_pool_function(
    2,
    """The average of each window of (N, C, H, W) or (C, H, W).

    A window's sum is divided by `divisor_override`, or by its number of elements, the padding counted
    or not. RuntimeError where no window fits. Integers are divided towards zero.

    >>> import rushlight as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """,
)
avg_pool3d = declare_avg_pool_function(
    3, f"The average of each window of {SHAPES[3]}: as `avg_pool2d`."
)
