"""Convolutions and transposed convolutions over one, two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.lazy import LazyModule
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.nn.text import unusual
from rushlight.nn.tuples import _reverse_repeat_tuple, ntuple

__all__ = [
    f"{lazy}Conv{kind}{n}d"
    for lazy in ("", "Lazy")
    for kind in ("", "Transpose")
    for n in (1, 2, 3)
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base of all convolutions: their parameters, initialization and `repr`."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
        "out_channels", "kernel_size",
    ]  # fmt: skip
    bias: Tensor | None
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple,
        stride: tuple,
        padding: tuple | str,
        dilation: tuple,
        transposed: bool,
        output_padding: tuple,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of ['same', 'valid']"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {list(_PADDING_MODES)}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        self.weight = Parameter(rushlight.empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(rushlight.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def _padding_for_pad(self) -> Sequence[int]:
        """The padding as `F.pad` takes it: last dimension first, before and after."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sizes = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (d, k) in enumerate(zip(self.dilation, self.kernel_size, strict=False)):
                total = d * (k - 1)
                position = 2 * (len(self.kernel_size) - 1 - i)
                sizes[position] = total // 2
                sizes[position + 1] = total - total // 2
        return sizes

    def reset_parameters(self) -> None:
        """Reinitialize weight and bias, uniform within 1 / sqrt(fan_in)."""
        drawn = self.weight
        if not drawn.is_contiguous():  # numbers are drawn in the order of indices, as for others
            drawn = rushlight.empty_like(drawn, memory_format=rushlight.contiguous_format)
        init.kaiming_uniform_(drawn, a=math.sqrt(5))
        if drawn is not self.weight:
            with rushlight.no_grad():
                self.weight.copy_(drawn)
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        n = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        usual = {"padding": (0,) * len(self.padding), "dilation": (1,) * n}
        text += f", stride={self.stride}"
        text += unusual(self, **usual, output_padding=(0,) * n, groups=1)
        text += ", bias=False" if self.bias is None else ""
        return text + unusual(self, padding_mode="zeros")


class _Conv(_ConvNd):
    """A convolution over `_n` dimensions; the classes below choose n."""

    _n = 0
    _conv: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        n = self._n
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size, n),
            ntuple(stride, n),
            padding if isinstance(padding, str) else ntuple(padding, n),
            ntuple(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._n
        convolve = getattr(F, self._conv)
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over the last dimension.

    input: [N, in_channels, L] or [in_channels, L]; weight: [out_channels, in_channels / groups, k].
    """

    _n, _conv = 1, "conv1d"


class Conv2d(_Conv):
    """Convolution over the last two dimensions.

    input: [N, in_channels, H, W] or [in_channels, H, W]; weight: [out_channels, in_channels /
    groups, kH, kW]; output: H' = (H + 2 * padding - dilation * (kH - 1) - 1) // stride + 1.

    >>> import rushlight as torch
    >>> torch.nn.Conv2d(16, 33, 3, stride=2)(torch.zeros(20, 16, 50, 100)).shape
    torch.Size([20, 33, 24, 49])
    """

    _n, _conv = 2, "conv2d"


class Conv3d(_Conv):
    """Convolution over the last three dimensions: input [N, in_channels, D, H, W]."""

    _n, _conv = 3, "conv3d"


class _ConvTranspose(_ConvNd):
    """A transposed convolution: the gradient of a convolution with respect to its input."""

    _n = 0
    _conv: Any = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._n
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size, n),
            ntuple(stride, n),
            ntuple(padding, n),
            ntuple(dilation, n),
            True,
            ntuple(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple:
        """The output padding that makes the result have `output_size`."""
        if output_size is None:
            return self.output_padding
        n = self._n
        batch_dims = input.dim() - n
        sizes = list(output_size)
        if len(sizes) == input.dim():
            sizes = sizes[batch_dims:]
        if len(sizes) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{input.dim()} elements (got {len(sizes)})"
            )
        extra = []
        for i in range(n):
            smallest = (input.size(i + batch_dims) - 1) * self.stride[i] - 2 * self.padding[i]
            smallest += self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not smallest <= sizes[i] <= smallest + self.stride[i] - 1:
                raise ValueError(
                    f"requested an output size of {sizes}, but dimension {i} must be between "
                    f"{smallest} and {smallest + self.stride[i] - 1} (for an input of "
                    f"{input.size()[batch_dims:]})"
                )
            extra.append(sizes[i] - smallest)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        convolve = getattr(F, self._conv)
        return convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over the last dimension."""

    _n, _conv = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over the last two dimensions; weight: [in, out / groups, kH, kW].

    >>> import rushlight as torch
    >>> torch.nn.ConvTranspose2d(16, 33, 3, stride=2)(torch.zeros(20, 16, 50, 100)).shape
    torch.Size([20, 33, 101, 201])
    """

    _n, _conv = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over the last three dimensions."""

    _n, _conv = 3, "conv_transpose3d"


class _LazyConv(LazyModule):
    """Takes `in_channels` from the first input; every argument but that is the convolution's."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            *(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode),
            *(device, dtype),
        )
        self._wait(out_channels, bias, device, dtype)

    def _wait(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Replace the parameters by parameters without a shape."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and values."""
        if not self.has_uninitialized_params():
            return
        if input.dim() not in (self._n + 1, self._n + 2):
            raise RuntimeError(
                f"Expected {self._n + 1}D (unbatched) or {self._n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-self._n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes `in_channels` from its first input."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super(_LazyConv, self).__init__(
            *(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation),
            *(padding_mode, device, dtype),
        )
        self._wait(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
