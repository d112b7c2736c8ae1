"""Pooling: maxima, averages and power averages over windows, in one to three dimensions.

Two and three dimensions have operators; one dimension is two with a height of 1. The gradient of a
maximum goes to its place in the input, and the operators that add at places and take from places are
each other's gradients; so are the sums over windows and their transposes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.conv import is_channels_last

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]

COUNT = {1: "one int", 2: "two ints", 3: "three ints"}


# -- arguments -------------------------------------------------------------------------------------


def spread(name: str, argument: str, value: Any, n: int, default: Ints | None = None) -> Ints:
    """An argument of `n` ints: one int stands for all, None or [] for `default` where there is one."""
    if default is not None and (value is None or (isinstance(value, (tuple, list)) and not value)):
        return default
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


def check_input(name: str, a: np.ndarray, n: int, dtypes_of: str) -> None:
    """Raise for a wrong number of dimensions, an empty plane, or a dtype outside `dtypes_of`."""
    if a.ndim not in (n + 1, n + 2):
        if name.startswith("avg_pool2d"):
            geometry.wrap_dim(-3, a.ndim, wrap_scalar=False)
        raise RuntimeError(
            f"[{name}] non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input, got shape "
            f"{list(a.shape)}"
        )
    if 0 in a.shape[a.ndim - n - 1 :]:
        if name == "max_pool3d":
            raise RuntimeError(
                f"[{name}] Expected input's non-batch dimensions to have positive length, but input has "
                f"a shape of {list(a.shape)}"
            )
        raise RuntimeError(
            f"[{name}] Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size "
            f"for input, but got:{list(a.shape)}"
        )
    check_dtype(name, a, dtypes_of)


def check_dtype(name: str, a: np.ndarray, kinds: str) -> None:
    d = dtypes.OF[a.dtype]
    kind = "f" if d.is_floating_point else a.dtype.kind
    if kind not in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{d.scalar_name}'")


@lru_cache(maxsize=512)
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


def planned(
    name: str,
    a: np.ndarray,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    kinds: str,
) -> Ints:
    """The sizes of the output; raises when there is none."""
    n = len(kernel)
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0:
        check_positive(n, kernel, stride, dilation)
    if a.ndim >= n:
        out = out_sizes(a.shape[a.ndim - n :], kernel, stride, padding, dilation, ceil_mode)
    check_input(name, a, n, kinds)
    if any(m < 1 for m in out):
        channels = a.shape[-n - 1]
        given, got = (
            "x".join(map(str, (channels, *sizes))) for sizes in (a.shape[a.ndim - n :], out)
        )
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({got}). Output size is too small"
        )
    return out


def regular(a: np.ndarray, keep_last: bool = True) -> tuple[np.ndarray, bool]:
    """The array contiguous or, with `keep_last`, channels last, and whether it is the latter."""
    if a.flags.c_contiguous:
        return a, False
    if keep_last and is_channels_last(a):
        return a, True
    return a.copy(), False


def placed(a: np.ndarray, last: bool) -> np.ndarray:
    """`a` with the strides that PyTorch gives a channels-last result."""
    if not last:
        return a
    strides = geometry.channels_last_strides(a.shape)
    if tuple(s // a.itemsize for s in a.strides) == strides:
        return a
    order = (0, *range(2, a.ndim), 1)
    back = (0, a.ndim - 1, *range(1, a.ndim - 1))
    return a.transpose(order).copy().transpose(back)


# -- places ----------------------------------------------------------------------------------------


@op(where="internal", node="MaxPoolBackwardBackward0")
def add_places(xp, input: Array, indices: Array, sizes: Ints):
    """Zeros of `sizes` with `input` added at `indices`, which count through each plane."""
    return xp.add_at_places(input, indices, sizes)


@op(where="internal", node="MaxPoolBackwardBackward0")
def pick_places(xp, input: Array, indices: Array, n: int):
    """`input` at `indices`, which count through each plane of the last `n` dimensions."""
    return xp.take_places(input, indices, n)


add_places.grad(input=lambda g, indices, sizes: pick_places(g, indices, len(sizes)))
pick_places.grad(
    input=lambda g, indices, input_shape, n: add_places(
        g, indices, input_shape[len(input_shape) - n :]
    )
)


# -- maxima ----------------------------------------------------------------------------------------


def declare_max_pool(n: int) -> tuple:
    """The operators of max pooling in `n` dimensions: the maxima alone, and with their places.

    `windows`: (kernel, stride, padding, dilation).
    """
    name = f"max_pool{n}d"
    node = f"MaxPool{n}DWithIndicesBackward0"

    @op(where="internal", name=f"{name}_with_indices", node=node, outputs=("output", "indices"))
    def indexed(xp, input: Array, windows: tuple, ceil_mode: bool):
        out = planned(name, input, *windows, ceil_mode, "fiu")
        x, last = regular(input)
        return tuple(placed(a, last) for a in xp.max_pool_places(x, *windows, out))

    @op(where="internal", name=name, node=node, intermediates=("indices",))
    def values(xp, input: Array, windows: tuple, ceil_mode: bool, keep: bool):
        if keep:
            return indexed.op.declared(xp, input, windows, ceil_mode)
        out = planned(name, input, *windows, ceil_mode, "fiu")
        x, last = regular(input)
        return placed(xp.max_pool(x, *windows, out), last), None

    for each in (values, indexed):
        each.grad(input=lambda g, indices, input_shape: add_places(g, indices, input_shape[-n:]))
    return values, indexed


max_pools = {n: declare_max_pool(n) for n in (2, 3)}


def max_pool(
    n: int, name: str, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: bool,
) -> Any:  # fmt: skip
    check_tensor(name, input)
    windows = (
        *window_sizes(name, n, kernel_size, stride, padding),
        spread(name, "dilation", dilation, n),
    )
    if n == 1:
        check_max_pool1d(name, input, *(a[0] for a in windows), ceil_mode, indices)
        windows = tuple((i, *a) for i, a in zip((1, 1, 0, 1), windows, strict=True))
        input = input.unsqueeze(-2)
    y = max_pools[max(n, 2)][bool(indices)](input, windows, bool(ceil_mode))
    if n == 1:
        y = tuple(t.squeeze(-2) for t in y) if indices else y.squeeze(-2)
    return tuple(y) if indices else y


def check_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


def check_max_pool1d(
    name: str, input: Tensor, k: int, s: int, p: int, d: int, ceil_mode: bool, indices: bool
) -> None:
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(input.shape)}"
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
    (m,) = out_sizes(input.shape[-1:], (k,), (s,), (p,), (d,), ceil_mode)
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
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        return max_pool(
            n, name, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
        )

    @composite(
        name=f"{name}_with_indices", doc=f"`{name}` with the place of each maximum.",
        where="" if n == 1 else "nn.functional", method=False, out=False,
    )  # fmt: skip
    def with_indices(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        return max_pool(n, name, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return values


max_pool1d = declare_max_pool_functions(
    1, f"The maximum of each window of {SHAPES[1]}; with `return_indices` also its place."
)
max_pool2d = declare_max_pool_functions(
    2,
    """The maximum of each window of (N, C, H, W) or (C, H, W).

    `stride` is `kernel_size` by default. Padding counts as lower than any number. With
    `return_indices` also the place of each maximum, row * W + column. RuntimeError where no window
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

    `windows`: (kernel, stride, padding); `divisor`: (whether padding counts, the divisor that is given or None).
    """
    name = f"avg_pool{n}d"

    def count(xp: Any, windows: tuple, sizes: Ints, out: Ints, divisor: tuple) -> Any:
        include, override = divisor
        return xp.window_counts(*windows, sizes, out, include) if override is None else override

    @op(where="internal", name=name, node=f"AvgPool{n}DBackward0")
    def forward(xp, input: Array, windows: tuple, ceil_mode: bool | Ints, divisor: tuple):
        if divisor[1] == 0:
            raise RuntimeError(f"[{name}] divisor must be not zero")
        out = ceil_mode
        if isinstance(ceil_mode, bool):
            out = planned(name, input, *windows, (1,) * n, ceil_mode, "fiu")
        x, last = regular(input, n < 3)
        total = count(xp, windows, x.shape[x.ndim - n :], out, divisor)
        return placed(xp.window_averages(x, *windows, out, total), last)

    @op(where="internal", name=f"{name}_gradient", node=f"AvgPool{n}DBackwardBackward0")
    def gradient(xp, grad_output: Array, sizes: Ints, windows: tuple, divisor: tuple):
        g, last = regular(grad_output)
        total = count(xp, windows, sizes, g.shape[g.ndim - n :], divisor)
        return placed(xp.window_averages_adjoint(g, *windows, sizes, total), last)

    forward.grad(
        input=lambda g, input_shape, windows, divisor: gradient(
            g, input_shape[-n:], windows, divisor
        )
    )
    gradient.grad(
        grad_output=lambda g, grad_output_shape, windows, divisor: forward(
            g, windows, grad_output_shape[-n:], divisor
        )
    )
    return forward


averages = {n: declare_avg_pool(n) for n in (2, 3)}


@composite(method=False, out=False)
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The average of each window of (N, C, L) or (C, L)."""
    check_tensor("avg_pool1d", input)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument #1 'self' "
            "(while checking arguments for avg_pool1d)"
        )
    kernel, stride, padding = window_sizes("avg_pool1d", 1, kernel_size, stride, padding)
    windows = (1, *kernel), (1, *stride), (0, *padding)
    divisor = (count_include_pad, None)
    return averages[2](input.unsqueeze(-2), windows, bool(ceil_mode), divisor).squeeze(-2)


def window_sizes(name: str, n: int, kernel_size: Any, stride: Any, padding: Any) -> tuple:
    """(kernel, stride, padding) of `n` ints each."""
    kernel = spread(name, "kernel_size", kernel_size, n)
    return kernel, spread(name, "stride", stride, n, kernel), spread(name, "padding", padding, n)


def declare_avg_pool_function(n: int, meaning: str) -> Any:
    name = f"avg_pool{n}d"

    @composite(name=name, doc=meaning, where="nn.functional", inplace=False)
    def averaged(
        input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ):  # fmt: skip
        check_tensor(name, input)
        windows = window_sizes(name, n, kernel_size, stride, padding)
        return averages[n](input, windows, bool(ceil_mode), (count_include_pad, divisor_override))

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
