"""Padding: `nn.functional.pad` and the operators behind its modes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.dispatch.registry import Array, composite, op
from rushlight.dispatch.results import kind
from rushlight.ops.nn.inputs import check_dtype, check_tensor, is_channels_last

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]
    Pads = tuple[tuple[int, int], ...]


def pairs(pad: Any) -> Pads:
    """PyTorch's flat list, last dimension first, as (before, after) per dimension, outermost first."""
    return tuple((pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2))


@op(method=False, out=False)
def constant_pad_nd(xp, input: Array, pad: Ints, value: float = 0):
    """`input` with `value` around its last dimensions; `pad`: (before, after) from the last dimension
    on. Negative numbers cut off. RuntimeError where the list is odd or too long.

    >>> import rushlight as torch
    >>> torch.constant_pad_nd(torch.ones(1, 2), (1, 0), 5.0)
    tensor([[5., 1., 1.]])
    """
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(pad)} and input of dimension {input.ndim}"
        )
    each = pairs(pad)
    shape = input.shape[input.ndim - len(each) :]
    for n, (low, high) in zip(shape, each, strict=True):
        if n + low + high < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {low} and {high} resulted in a negative "
                "output size, which is invalid: narrow(): length must be non-negative."
            )
    if value:
        from rushlight.ops.indexing.gather import fill_number

        fill_number(value, input)  # raises where the dtype cannot hold it
    return xp.pad_constant(close_together(xp, input), each, value)


def close_together(xp: Any, input: Any) -> Any:
    """An input with channels last and gaps in memory without the gaps: kernels find its order then."""
    if (
        not is_channels_last(input)
        or input.transpose(0, *range(2, input.ndim), 1).flags.c_contiguous
    ):
        return input
    return xp.copy_like(input, input)


constant_pad_nd.grad(input=lambda g, pad: constant_pad_nd(g, [-p for p in pad]))


# -- continued edges -------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def edges(kind: str, shape: Ints, dtype: np.dtype, pad: Ints, mode: str) -> Pads:
    """(before, after) of each dimension; raises for what an array of this shape and dtype cannot be continued by."""
    each = pairs(pad)
    n = len(each)
    if mode == "circular":
        for size, (low, high) in zip(shape[len(shape) - n :], each, strict=True):
            if low > size or high > size:
                raise RuntimeError(
                    "Padding value causes wrapping around more than once: circular padding "
                    f"({low}, {high}) of size {size}"
                )
            if size + low + high < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        return each
    if 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    for d, (size, (low, high)) in enumerate(zip(shape[len(shape) - n :], each, strict=True)):
        if mode == "reflect" and (low >= size or high >= size):
            raise RuntimeError(
                f"Argument #{4 + 2 * (n - 1 - d)}: Padding size should be less than the corresponding "
                f"input dimension, but got: padding ({low}, {high}) at dimension {len(shape) - n + d} of "
                f"input {list(shape)}"
            )
    out = [size + sum(p) for size, p in zip(shape[len(shape) - n :], each, strict=True)]
    if any(m < 1 for m in out):
        raise RuntimeError(
            f"input (sizes: {list(shape[len(shape) - n :])}) is too small. Calculated output sizes: {out}"
        )
    check_dtype(f"{kind}_pad{n}d", dtypes.OF[dtype], "fiuc")
    return each


def declare_edges(mode: str, kind: str, n: int) -> Any:
    """The operator of one mode of padding in `n` dimensions, and its transpose."""
    name = f"{kind}_pad{n}d"
    node = f"{kind.capitalize()}Pad{n}DBackward"

    # PyTorch writes the middle and the edges into a new tensor
    shown = "CopySlices" if mode == "circular" else f"{node}0"

    @op(where="internal", name=name, node=shown)
    def extended(xp, input: Array, pad: Ints):
        each = edges(kind, input.shape, input.dtype, tuple(pad), mode)
        if mode == "circular":  # PyTorch's result is contiguous
            input = xp.contiguous(input)
        else:
            input = close_together(xp, input)
        return xp.pad_edges(input, each, mode)

    @op(where="internal", name=f"{name}_gradient", node=f"{node}Backward0")
    def gradient(xp, grad_output: Array, pad: Ints, sizes: Ints):
        return xp.pad_edges_adjoint(grad_output, pairs(pad), sizes, mode)

    extended.grad(
        input=lambda g, pad, input_shape: gradient(g, pad, input_shape[len(input_shape) - n :])
    )
    gradient.grad(grad_output=lambda g, pad: extended(g, pad))
    return extended


MODES = {"reflect": "reflection", "replicate": "replication", "circular": "circular"}
EDGES = {
    (mode, 2 * n): declare_edges(mode, kind, n) for mode, kind in MODES.items() for n in (1, 2, 3)
}
_INTS = {int}


def whole(pad: Any) -> Ints:
    """A list of padding as a tuple of ints; TypeError for what is none."""
    for i, p in enumerate(pad):
        if not hasattr(p, "__index__"):
            raise TypeError(
                "pad(): argument 'pad' (position 2) must be tuple of ints, but found element of type "
                f"{type(p).__name__} at pos {i}"
            )
    return tuple(map(int, pad))


@composite(where="nn.functional", out=False)
def pad(input: Array, pad: Any, mode: str = "constant", value: Any = None):
    """`input` padded: `pad` holds (before, after) from the last dimension on.

    `mode`: "constant" (`value`, default 0; any number of dimensions), or for the last 1 to 3 of an
    input with one or two more dimensions "reflect" (mirrored at the edge element), "replicate" (the
    edge element), "circular" (the other side). Negative numbers cut off.

    >>> import rushlight as torch
    >>> torch.nn.functional.pad(torch.arange(3.0).view(1, 3), (2, 1), mode="reflect")
    tensor([[2., 1., 0., 1., 2., 1.]])
    """
    check_tensor("pad", input)
    if {*map(type, pad)} != _INTS or pad.__class__ is not tuple:
        pad = whole(pad)
    if mode.__class__ is str and (value is None or value == 0):
        extended = EDGES.get((mode, len(pad)))
        if extended is not None and (input.ndim - len(pad) // 2) in (1, 2):
            return extended(input, pad)
    if not isinstance(mode, str):
        raise TypeError(
            f"pad(): argument 'mode' (position 3) must be str, not {type(mode).__name__}"
        )
    if isinstance(value, (str, complex)):
        raise TypeError(f"pad(): argument 'value' (position 4) must be float, not {kind(value)}")
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {list(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(pad)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        if value is not None and not input.dtype.is_signed:
            value = float(value)  # a negative one does not fit then
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    n = len(pad) // 2
    if n not in (1, 2, 3) or input.ndim not in (n + 1, n + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    raise NotImplementedError(f"Unrecognised padding mode {mode}")
