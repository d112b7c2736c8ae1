"""Pooling: the largest, the mean or a norm of each window."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.tuples import ntuple

__all__ = [
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
]  # fmt: skip


class _MaxPool(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _pool: Any = None
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window along the last dimension of [N, C, L] or [C, L]."""

    _pool = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest value of each window over the last two dimensions.

    input: [N, C, H, W] or [C, H, W]. `return_indices` also returns their flat indices, for MaxUnpool2d.

    >>> import rushlight as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).view(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _pool = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest value of each window over the last three dimensions of [N, C, D, H, W] or [C, D, H, W]."""

    _pool = "max_pool3d"


class _MaxUnpool(Module):
    _n = 0
    _pool: Any = None
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, self._n)
        self.stride = ntuple(stride if stride is not None else kernel_size, self._n)
        self.padding = ntuple(padding, self._n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self._pool)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpool):
    """The partial inverse of MaxPool1d: each maximum at its index in `indices`, zeros elsewhere."""

    _n, _pool = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """The partial inverse of MaxPool2d: each maximum at its index in `indices`, zeros elsewhere."""

    _n, _pool = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """The partial inverse of MaxPool3d: each maximum at its index in `indices`, zeros elsewhere."""

    _n, _pool = 3, "max_unpool3d"


class AvgPool1d(Module):
    """The mean of each window along the last dimension of [N, C, L] or [C, L]."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, 1)
        self.stride = ntuple(stride if stride is not None else kernel_size, 1)
        self.padding = ntuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPool(Module):
    __constants__ = [
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
    ]  # fmt: skip
    _pool: Any = None
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """The mean of each window over the last two dimensions of [N, C, H, W] or [C, H, W].

    >>> import rushlight as torch
    >>> torch.nn.AvgPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    _pool = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window over the last three dimensions of [N, C, D, H, W] or [C, D, H, W]."""

    _pool = "avg_pool3d"

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)


class _LPPool(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _pool: Any = None
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._pool)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPool):
    """The p-norm of each window along the last dimension of [N, C, L] or [C, L]."""

    _pool = "lp_pool1d"


class LPPool2d(_LPPool):
    """The p-norm of each window over the last two dimensions of [N, C, H, W] or [C, H, W]."""

    _pool = "lp_pool2d"


class LPPool3d(_LPPool):
    """The p-norm of each window over the last three dimensions of [N, C, D, H, W] or [C, D, H, W]."""

    _pool = "lp_pool3d"


class _AdaptivePool(Module):
    __constants__ = ["output_size"]
    _pool: Any = None
    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of [N, C, L] or [C, L] in windows that make `output_size` of the last dimension."""

    _pool = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means over windows chosen so that the last two dimensions become `output_size`.

    `None` in `output_size` keeps that dimension.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.ones(8, 16, 5, 7)).shape
    torch.Size([8, 16, 1, 7])
    """

    _pool = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of [N, C, D, H, W] or [C, D, H, W] in windows that make `output_size` of the last three dimensions."""

    _pool = "adaptive_avg_pool3d"


class _AdaptiveMaxPool(_AdaptivePool):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest values of [N, C, L] or [C, L] in windows that make `output_size` of the last dimension."""

    _pool = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest values of [N, C, H, W] or [C, H, W] in windows that make `output_size` of the last two dimensions."""

    _pool = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest values of [N, C, D, H, W] or [C, D, H, W] in windows that make `output_size` of the last three
    dimensions."""

    _pool = "adaptive_max_pool3d"


class _FractionalMaxPool(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _n = 0
    _pool: Any = None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self._n
        self.kernel_size = ntuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = ntuple(output_size, n) if output_size is not None else None
        self.output_ratio = ntuple(output_ratio, n) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._pool)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maxima of windows at random positions (Graham 2014), over two dimensions."""

    _n, _pool = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maxima of windows at random positions (Graham 2014), over three dimensions."""

    _n, _pool = 3, "fractional_max_pool3d"
