"""Convolutions: one operator, `convolution`, behind all the public functions.

Gradients of a convolution are convolutions: that of the input is the transposed convolution with the
same weight, that of the weight convolves the input with the gradient (`convolution_weight`). The
three are each other's gradients, so any number of derivatives is at hand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight._backends.convolution import Problem, out_sizes
from rushlight.core import dtypes, settings
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import has_channels_last_1d, is_channels_last

if TYPE_CHECKING:
    import numpy as np

    Ints = tuple[int, ...]


# -- checks ----------------------------------------------------------------------------------------


def sizes_text(sizes: Any) -> str:
    return "(" + " x ".join(map(str, sizes)) + ")"


C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char",
    "uint8": "unsigned char", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def c_name(dtype: dtypes.dtype) -> str:
    return C_NAMES.get(dtype.name, dtype.name)


@lru_cache(maxsize=1024)
def forward_problem(
    x: Ints, w: Ints, bias: Ints | None, stride: Ints, padding: Ints, dilation: Ints, groups: int,
    dtype: np.dtype, last: bool,
) -> Problem:  # fmt: skip
    """A convolution of arrays of these shapes; RuntimeError where they do not fit together."""
    check_sizes(x, w, bias, stride, padding, dilation, False, (), groups)
    y = (x[0], w[0], *out_sizes(x[2:], w[2:], stride, padding, dilation))
    last = result_is_last(last, y, dtype)
    return Problem("forward", x, w, y, stride, padding, dilation, groups, dtype, last)


@lru_cache(maxsize=1024)
def transposed_problem(
    y: Ints, w: Ints, bias: Ints | None, stride: Ints, padding: Ints, dilation: Ints,
    output_padding: Ints, groups: int, dtype: np.dtype, last: bool,
) -> Problem:  # fmt: skip
    """A transposed convolution of arrays of these shapes; RuntimeError where they do not fit together."""
    check_sizes(y, w, bias, stride, padding, dilation, True, output_padding, groups)
    sizes = transposed_sizes(y, w, stride, padding, dilation, output_padding)
    x, last = (y[0], w[1] * groups, *sizes), result_is_last(last, y, dtype)
    return Problem("transposed", x, w, y, stride, padding, dilation, groups, dtype, last)


@lru_cache(maxsize=1024)
def weight_problem(
    x: Ints, kernel: Ints, y: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int,
    dtype: np.dtype, last: bool,
) -> Problem:  # fmt: skip
    """The gradient of a convolution's weight."""
    w = (y[1], x[1] // groups, *kernel)
    return Problem("weight", x, w, y, stride, padding, dilation, groups, dtype, last)


def result_is_last(last: bool, shape: Ints, dtype: np.dtype) -> bool:
    """As PyTorch: in three dimensions double precision is contiguous."""
    return last and not (len(shape) == 5 and dtype.itemsize > 4)


def check_sizes(
    x: Ints, w: Ints, bias: Ints | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> None:  # fmt: skip
    """Raise PyTorch's error for sizes that do not fit together."""
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if len(x) != len(w):
        raise RuntimeError(
            f"Expected {len(w)}-dimensional input for {len(w)}-dimensional weight {list(w)}, but got "
            f"{len(x)}-dimensional input of size {list(x)} instead"
        )
    if w[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got "
            f"weight of size {list(w)} instead"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
            f"got weight of size [{list(w)}] instead"
        )
    given = f"Given transposed={int(transposed)}, " if transposed else f"Given groups={groups}, "
    channels = w[0] if transposed else w[1] * groups
    if x[1] != channels:
        raise RuntimeError(
            f"{given}weight of size {list(w)}, expected input{list(x)} to have {channels} channels, "
            f"but got {x[1]} channels instead"
        )
    results = w[1] * groups if transposed else w[0]
    if bias is not None and bias != (results,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {list(w)}, expected bias to "
            f"be 1-dimensional with {results} elements, but got bias of size {list(bias)} instead"
        )
    if not transposed:
        wide = [n + 2 * p for n, p in zip(x[2:], padding, strict=True)]
        reach = [d * (k - 1) + 1 for k, d in zip(w[2:], dilation, strict=True)]
        if any(n < k for n, k in zip(wide, reach, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: {sizes_text(wide)}. Kernel size: "
                f"{sizes_text(reach)}. Kernel size can't be greater than actual input size"
            )


def check_dtypes(input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> None:
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({c_name(dtypes.OF[input.dtype])}) and bias type "
            f"({c_name(dtypes.OF[bias.dtype])}) should be the same"
        )
    if weight.dtype != input.dtype:
        raise RuntimeError(
            f"expected scalar type {dtypes.OF[input.dtype].scalar_name} but found "
            f"{dtypes.OF[weight.dtype].scalar_name}: [convolution] input and weight must have one dtype"
        )


def transposed_sizes(
    x: Ints, w: Ints, stride: Ints, padding: Ints, dilation: Ints, output_padding: Ints
) -> Ints:
    """The spatial sizes of a transposed convolution; RuntimeError if there is none."""
    each = zip(x[2:], w[2:], stride, padding, dilation, output_padding, strict=True)
    out = tuple((n - 1) * s - 2 * p + d * (k - 1) + q + 1 for n, k, s, p, d, q in each)
    if any(q >= s and q >= d for q, s, d in zip(output_padding, stride, dilation, strict=True)):
        names = (
            ("depth", "height", "width")[3 - len(out) :] if len(out) > 1 else ("height", "width")
        )
        one = (1,) if len(out) == 1 else ()
        values = [
            f"{what}_{name}: {v}"
            for what, row in (
                ("output_padding", ((0,) if one else ()) + tuple(output_padding)),
                ("stride", (*one, *stride)),
                ("dilation", (*one, *dilation)),
            )
            for name, v in zip(names, row, strict=True)
        ]
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            + " ".join(values)
        )
    if any(n <= 0 for n in out):
        raise RuntimeError(
            f"Given input size per channel: {sizes_text(x[2:])}. Calculated output size per channel: "
            f"{sizes_text(out)}. Output size is too small"
        )
    return out


# -- the operators ---------------------------------------------------------------------------------


@op(where="internal", name="convolution", node="ConvolutionBackward0", out=False)
def convolve(
    xp, input: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
):  # fmt: skip
    """`convolution`, whose geometry is tuples of as many ints as there are dimensions."""
    dtype = input.dtype
    if dtype is not weight.dtype or (bias is not None and bias.dtype is not dtype):
        check_dtypes(input, weight, bias)
    last = is_channels_last(input) or is_channels_last(weight)
    size = None if bias is None else bias.shape
    if transposed:
        problem = transposed_problem(
            input.shape, weight.shape, size, stride, padding, dilation, output_padding, groups,
            dtype, last,
        )  # fmt: skip
        y = xp.convolve_transposed(input, weight, bias, problem)
    else:
        problem = forward_problem(
            input.shape, weight.shape, size, stride, padding, dilation, groups, dtype, last
        )
        y = xp.convolve(input, weight, bias, problem)
    if weight.ndim == 3 and has_channels_last_1d(weight):
        _, channels, n = y.shape
        return xp.with_strides(y, (channels * n, 1, channels))
    return y


def input_gradient(
    g: Tensor, weight: Tensor, input_shape: Ints, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, groups: int,
) -> Tensor:  # fmt: skip
    """The convolution the other way, to the shape of the input."""
    w, sizes = conj(weight), input_shape[2:]
    if not transposed:  # what the last window did not reach comes back as output padding
        each = zip(sizes, g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
        rest = tuple(m - ((o - 1) * s - 2 * p + d * (k - 1) + 1) for m, o, k, s, p, d in each)
        return convolve(g, w, None, stride, padding, dilation, True, rest, groups)
    # An output padding of a stride and more, possible under dilation, is left out.
    x = convolve(g, w, None, stride, padding, dilation, False, (0,) * len(sizes), groups)
    return clipped(x, input_shape)


def weight_gradient(
    g: Tensor, input: Tensor, weight_shape: Ints, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, groups: int,
) -> Tensor:  # fmt: skip
    """The gradient of the weight: where the input is read, it is multiplied by g."""
    x = conj(input)
    pair = (g, x) if transposed else (x, g)
    return convolution_weight(*pair, weight_shape[2:], stride, padding, dilation, groups)


def bias_gradient(g: Tensor) -> Tensor:
    if g.dtype is dtypes.complex32:  # which sums do not know
        return bias_gradient(g.to(dtypes.complex64)).to(g.dtype)
    return g.sum((0, *range(2, g.ndim)))


def conj(t: Tensor) -> Tensor:
    return t.conj_physical() if t.dtype.is_complex else t


convolve.grad(
    input=input_gradient,
    weight=weight_gradient,
    bias=bias_gradient,
)


@op(where="internal", node="ConvolutionBackward0")
def convolution_weight(
    xp, input: Array, grad_output: Array, kernel: Ints, stride: Ints, padding: Ints,
    dilation: Ints, groups: int,
):  # fmt: skip
    """The gradient of a convolution's weight: (N, C, *in), (N, O, *out) to (O, C / groups, *kernel).

    An input larger than the windows reach counts as far as they reach.
    """
    last = is_channels_last(input) or is_channels_last(grad_output)
    problem = weight_problem(
        input.shape, kernel, grad_output.shape, stride, padding, dilation, groups, input.dtype, last
    )
    return xp.convolve_weight(input, grad_output, problem)


convolution_weight.grad(
    input=lambda g, grad_output, input_shape, stride, padding, dilation, groups: input_gradient(
        conj(grad_output), conj(g), input_shape, stride, padding, dilation, False, groups
    ),
    grad_output=lambda g, input, grad_output_shape, stride, padding, dilation, groups: clipped(
        convolve(
            conj(input), g, None, stride, padding, dilation, False, (0,) * len(stride), groups
        ),
        grad_output_shape,
    ),
)


def clipped(t: Tensor, shape: Ints) -> Tensor:
    """`t` with its spatial dimensions cut to those of `shape`, dense in the order of its strides."""
    if tuple(t.shape[2:]) == tuple(shape[2:]):
        return t
    for i, size in enumerate(shape[2:], 2):
        t = t.narrow(i, 0, size)
    return t.clone()


# -- the public functions --------------------------------------------------------------------------


def expanded(value: Any, n: int, name: str) -> Ints:
    """An int, or a tuple of 1 or `n` ints, as a tuple of `n` ints."""
    if value.__class__ is int:
        return (value,) * n
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for v in values:
        if v.__class__ is not int and (not hasattr(v, "__index__") or isinstance(v, Tensor)):
            raise TypeError(
                f"[convolution] argument '{name}' must be tuple of ints, not {type(v).__name__}"
            )
    if len(values) == n:
        return values
    if len(values) != 1:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the "
            f"convolution dimensions, but got {name}={list(values)}"
        )
    return values * n


def check_tensors(name: str, input: Any, weight: Any, bias: Any) -> None:
    """Raise for what is not a tensor."""
    for i, (argument, t) in enumerate((("input", input), ("weight", weight), ("bias", bias))):
        if not isinstance(t, Tensor) and not (t is None and argument == "bias"):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {i + 1}) must be Tensor, "
                f"not {type(t).__name__}"
            )


def batched(name: str, input: Tensor, weight: Any, bias: Any, n: int) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had none."""
    check_tensors(name, input, weight, bias)
    ndim = input.ndim
    if ndim == n + 1:
        return input.unsqueeze(0), True
    if ndim != n + 2:
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of "
            f"size: {list(input.shape)}"
        )
    return input, False


def bound(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any,
) -> tuple[Tensor, Ints, Ints, Ints, bool]:  # fmt: skip
    """(input with a batch dimension, stride, padding, dilation, whether the input had no such dimension)."""
    x, single = batched(f"conv{n}d", input, weight, bias, n)
    stride, dilation = expanded(stride, n, "stride"), expanded(dilation, n, "dilation")
    if padding.__class__ is str:
        x, padding = padding_for(x, weight, stride, padding, dilation, n)
    return x, stride, expanded(padding, n, "padding"), dilation, single


def padding_for(
    x: Tensor, weight: Tensor, stride: Ints, padding: str, dilation: Ints, n: int
) -> tuple[Tensor, Ints]:
    """What 'same' and 'valid' mean; an odd total is padded onto the far side of the input."""
    if padding == "valid":
        return x, (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight "
            f"{list(weight.shape)}, but got {x.ndim}-dimensional input of size {list(x.shape)} instead"
        )
    totals = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(t % 2 for t in totals):
        settings.warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be "
            "created"
        )
        from rushlight.ops.nn.pad import constant_pad_nd

        x = constant_pad_nd(x, [v for t in reversed(totals) for v in (0, t % 2)], 0)
    return x, tuple(t // 2 for t in totals)


@composite(method=False, out=False)
def convolution(
    input: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
):  # fmt: skip
    """Convolution (cross-correlation) in any number of dimensions, or its transpose.

    `input` (N, C, *in), `weight` (O, C / groups, *kernel), or (C, O / groups, *kernel) when
    `transposed`, `bias` (O). Output (N, O, *out), out = (in + 2 padding - dilation (kernel - 1) - 1)
    // stride + 1; transposed: (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
    RuntimeError where sizes or dtypes do not fit. float16 and bfloat16 are computed in float32.

    >>> import rushlight as torch
    >>> x, w = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 2)
    >>> torch.convolution(x, w, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    tensor([[[[4., 4.]]]])
    """
    check_tensors("convolution", input, weight, bias)
    n = weight.ndim - 2
    if n < 1:
        raise RuntimeError(
            f"weight should have at least three dimensions, but got weight of size {list(weight.shape)}"
        )
    return convolve(
        input,
        weight,
        bias,
        expanded(stride, n, "stride"),
        expanded(padding, n, "padding"),
        expanded(dilation, n, "dilation"),
        transposed,
        expanded(output_padding, n, "output_padding"),
        groups,
    )


def declare_conv(n: int, shapes: str, example: str = "") -> Any:
    doc = f"""Convolution of {shapes}).

    `padding`: ints, "valid" (0) or "same" (the output has the input's size; stride 1 only).
    See `convolution`.
    {example}"""

    @composite(name=f"conv{n}d", doc=doc, method=False, out=False)
    def conv(
        input: Array, weight: Array, bias: Array | None = None, stride: Ints = 1, padding: Any = 0,
        dilation: Ints = 1, groups: int = 1,
    ):  # fmt: skip
        bounds = bound(n, input, weight, bias, stride, padding, dilation)
        x, stride, padding, dilation, single = bounds
        y = convolve(x, weight, bias, stride, padding, dilation, False, zeros, groups)
        if not x.shape[1]:  # of no channels PyTorch makes none, whatever the weight says
            y = y.narrow(1, 0, 0)
        return y.squeeze(0) if single else y

    zeros = (0,) * n
    return conv


conv1d = declare_conv(1, "(N, C, L) or (C, L), weight (O, C / groups, k")
conv2d = declare_conv(
    2,
    "(N, C, H, W) or (C, H, W), weight (O, C / groups, kh, kw",
    """
    >>> import rushlight as torch
    >>> torch.conv2d(torch.ones(1, 3, 3), torch.ones(1, 1, 3, 3), padding="same")
    tensor([[[4., 6., 4.],
             [6., 9., 6.],
             [4., 6., 4.]]])
    """,
)
declare_conv(3, "(N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kd, kh, kw")


def declare_conv_transpose(n: int, shapes: str) -> None:
    name = f"conv_transpose{n}d"

    @composite(name=name, doc=f"The transpose of `conv{n}d`: {shapes}).", method=False, out=False)
    def conv_transpose(
        input: Array, weight: Array, bias: Array | None = None, stride: Ints = 1, padding: Ints = 0,
        output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
    ):  # fmt: skip
        x, single = batched(name, input, weight, bias, n)
        stride, padding = expanded(stride, n, "stride"), expanded(padding, n, "padding")
        dilation = expanded(dilation, n, "dilation")
        output_padding = expanded(output_padding, n, "output_padding")
        y = convolve(x, weight, bias, stride, padding, dilation, True, output_padding, groups)
        return y.squeeze(0) if single else y


declare_conv_transpose(1, "(N, C, L) or (C, L), weight (C, O / groups, k")
declare_conv_transpose(2, "(N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw")
declare_conv_transpose(3, "(N, C, D, H, W), weight (C, O / groups, kd, kh, kw")


@composite(method=False, out=False)
def conv_tbc(input: Array, weight: Array, bias: Array, pad: int = 0):
    """Convolution over time of (time, batch, channels) with weight (k, C, O) and bias (O)."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError(
            "conv_tbc: Input must have 3 dims: time, batch, in_channel; weight 3: kernel, in_channel, "
            f"out_channel; bias 1, got {list(input.shape)}, {list(weight.shape)}, {list(bias.shape)}"
        )
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1).contiguous()
