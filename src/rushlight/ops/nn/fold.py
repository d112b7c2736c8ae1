"""`unfold` and `fold`: the windows of images as columns, and their sum."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import check_dtype, check_tensor

if TYPE_CHECKING:
    Ints = tuple[int, ...]


def check_windows(kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    for name, short, values, least in (
        ("kernel size", "kernel", kernel, 1),
        ("dilation", "dilation", dilation, 1),
        ("padding", "pad", padding, 0),
        ("stride", "stride", stride, 1),
    ):
        if any(v < least for v in values):
            what = "greater than zero" if least else "non-negative"
            raise RuntimeError(
                f"{name} should be {what}, but got {short}_height: {values[0]} {short}_width: "
                f"{values[1]}"
            )


def blocks(sizes: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Ints:
    """The number of windows in each dimension."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    )


@lru_cache(maxsize=1024)
def check_image(shape: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    check_windows(kernel, dilation, padding, stride)
    if len(shape) == 2:
        raise IndexError("Dimension out of range (expected to be in range of [-2, 1], but got 2)")
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    out = blocks(shape[-2:], kernel, dilation, padding, stride)
    if any(m < 1 for m in out):
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={kernel}, "
            f"dilation={dilation}, padding={padding}, calculated shape of the array of sliding blocks "
            f"as {out}, but its components must be at least one."
        )


@op(where="internal", node="Im2ColBackward0")
def im2col(xp, input: Array, windows: tuple):
    """The windows, (kernel, dilation, padding, stride), of (N, C, H, W) or (C, H, W) as columns
    (N, C kh kw, L) or (C kh kw, L)."""
    check_image(input.shape, *windows)
    check_dtype("im2col_out_cpu", dtypes.OF[input.dtype], "fcb")
    if input.ndim == 3:
        return xp.im2col(input[None], *windows)[0]
    return xp.im2col(input, *windows)


@op(where="internal", node="Col2ImBackward0")
def col2im(xp, input: Array, sizes: Ints, windows: tuple):
    """Columns (N, C kh kw, L) or (C kh kw, L) added up where their windows overlap: (N, C, H, W)."""
    check_columns(input.shape, tuple(sizes), *windows)
    check_dtype("col2im_out_cpu", dtypes.OF[input.dtype], "fcb")
    if input.ndim == 2:
        return xp.col2im(input[None], sizes, *windows)[0]
    return xp.col2im(input, sizes, *windows)


@lru_cache(maxsize=1024)
def check_columns(
    shape: Ints, sizes: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> None:
    """RuntimeError where columns of windows cannot be put together to images of these sizes."""
    check_windows(kernel, dilation, padding, stride)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    rows, columns = shape[-2:]
    if rows % (kernel[0] * kernel[1]):
        raise RuntimeError(
            f"Expected size of input's dimension {len(shape) - 2} to be divisible by the product of "
            f"kernel_size, but got input.size({len(shape) - 2})={rows} and kernel_size={kernel}."
        )
    out = blocks(sizes, kernel, dilation, padding, stride)
    given = (
        f"Given output_size={sizes}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
        f"stride={stride}"
    )
    if any(m < 1 for m in out):
        raise RuntimeError(
            f"{given}, calculated shape of the array of sliding blocks as {out}, which is too small "
            "(non-positive)"
        )
    if columns != out[0] * out[1]:
        raise RuntimeError(
            f"{given}, expected size of input's dimension {len(shape) - 1} to match the calculated number "
            f"of sliding blocks {out[0]} * {out[1]} = {out[0] * out[1]}, but got "
            f"input.size({len(shape) - 1})={columns}."
        )


im2col.grad(input=lambda g, input_shape, windows: col2im(g, input_shape[-2:], windows))
col2im.grad(input=lambda g, windows: im2col(g, windows))


def pair(name: str, argument: str, value: Any) -> Ints:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    for v in values:
        if not hasattr(v, "__index__"):
            raise TypeError(
                f"{name}(): argument '{argument}' must be tuple of ints, not {type(v).__name__}"
            )
    if len(values) == 1:
        values *= 2
    if len(values) != 2:
        raise RuntimeError(f"It is expected {argument} equals to 2, but got size {len(values)}")
    return values


def pairs(name: str, *values: Any) -> tuple[Ints, ...]:
    """(kernel, dilation, padding, stride), two ints each."""
    arguments = ("kernel_size", "dilation", "padding", "stride")
    return tuple(pair(name, a, v) for a, v in zip(arguments, values, strict=True))


@composite(where="nn.functional", out=False)
def unfold(input: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1):
    """The windows of (N, C, H, W) as columns (N, C kh kw, L), for L windows.

    RuntimeError where no window fits.

    >>> import rushlight as torch
    >>> torch.nn.functional.unfold(torch.arange(9.0).view(1, 1, 3, 3), 2)[0, :, 0]
    tensor([0., 1., 3., 4.])
    """
    check_tensor("unfold", input)
    return im2col(input, pairs("unfold", kernel_size, dilation, padding, stride))


@composite(where="nn.functional", out=False)
def fold(
    input: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
):  # fmt: skip
    """Columns (N, C kh kw, L) added up to images (N, C, *output_size) where windows overlap.

    The transpose of `unfold`. RuntimeError where the number of columns does not fit.
    """
    check_tensor("fold", input)
    sizes = pair("fold", "output_size", output_size)
    return col2im(input, sizes, pairs("fold", kernel_size, dilation, padding, stride))
