"""Activations: functions of each element, and the softmaxes."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


class _MaybeInPlace(Module):
    """The base of activations without parameters; with `inplace` they overwrite the input."""

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        shown = [super().extra_repr()] if self._shown else []
        return ", ".join(shown + ["inplace=True"] * bool(self.inplace))

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self.__dict__.setdefault("inplace", False)


class ReLU(_MaybeInPlace):
    """The rectified linear unit: max(0, x).

    >>> import rushlight as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class SiLU(_MaybeInPlace):
    """The sigmoid linear unit, also called swish: x * sigmoid(x).

    >>> import rushlight as torch
    >>> torch.nn.SiLU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_MaybeInPlace):
    """The Mish activation: x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_MaybeInPlace):
    """The self-normalising ELU: scale * (max(0, x) + min(0, alpha * (exp(x) - 1))) (Klambauer 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_MaybeInPlace):
    """A piecewise linear sigmoid: x / 6 + 1 / 2, clamped to [0, 1]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_MaybeInPlace):
    """A piecewise form of SiLU: x * hardsigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class _Plain(Module):
    """An activation without any setting."""

    _function: Any = None

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input)


class LogSigmoid(_Plain):
    """The logarithm of the sigmoid, computed without overflow."""

    _function = "logsigmoid"


class Softsign(_Plain):
    """The softsign activation: x / (1 + |x|)."""

    _function = "softsign"


class Tanhshrink(_Plain):
    """The difference between the input and its hyperbolic tangent: x - tanh(x)."""

    _function = "tanhshrink"


class Sigmoid(Module):
    """The logistic function: 1 / (1 + exp(-x)).

    >>> import rushlight as torch
    >>> torch.nn.Sigmoid()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return rushlight.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return rushlight.tanh(input)


class Threshold(_MaybeInPlace):
    """The input where it is above `threshold`, `value` elsewhere."""

    __constants__ = ["threshold", "value", "inplace"]
    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(_MaybeInPlace):
    """A leaky ReLU whose slope is drawn from [lower, upper] in training; in evaluation it is their mean."""

    __constants__ = ["lower", "upper", "inplace"]
    _shown = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_MaybeInPlace):
    """The input clamped to [min_val, max_val]."""

    __constants__ = ["min_val", "max_val", "inplace"]
    _shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for old, new, value in (
            ("min_value", "min_val", min_value),
            ("max_value", "max_val", max_value),
        ):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be > min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """The rectified linear unit with an upper bound: min(max(0, x), 6)."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class ELU(_MaybeInPlace):
    """The exponential linear unit: x where x > 0, else alpha * (exp(x) - 1)."""

    __constants__ = ["alpha", "inplace"]
    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(ELU):
    """The continuously differentiable ELU: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_MaybeInPlace):
    """The leaky ReLU: x where x > 0, else negative_slope * x."""

    __constants__ = ["inplace", "negative_slope"]
    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class GELU(Module):
    """The Gaussian error linear unit: x * Phi(x), where Phi is the cdf of the normal distribution.
    `approximate="tanh"` replaces Phi by a formula of tanh.

    >>> import rushlight as torch
    >>> torch.nn.GELU()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The gated linear unit: a * sigmoid(b), where a and b are the halves of the input along `dim`.

    >>> import rushlight as torch
    >>> torch.nn.GLU()(torch.randn(4, 6)).shape
    torch.Size([4, 3])
    """

    __constants__ = ["dim"]
    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class _Shrink(Module):
    """The base of Hardshrink and Softshrink."""

    __constants__ = ["lambd"]
    _function: Any = None

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """The input where |x| > lambd, 0 elsewhere."""

    _function = "hardshrink"


class Softshrink(_Shrink):
    """The input moved towards 0 by `lambd`; 0 where |x| <= lambd."""

    _function = "softshrink"


class Softplus(Module):
    """A smooth ReLU: log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold."""

    __constants__ = ["beta", "threshold"]
    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class PReLU(Module):
    """A leaky ReLU with learned slopes: one for all elements, or one for each channel (dimension 1).

    >>> import rushlight as torch
    >>> torch.nn.PReLU(num_parameters=3)(torch.ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    __constants__ = ["num_parameters"]
    _shown = ("num_parameters",)

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(rushlight.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class Softmax(Module):
    """Probabilities along `dim`: exp(x) / sum(exp(x)), in the shape of the input.

    >>> import rushlight as torch
    >>> torch.nn.Softmax(dim=1)(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """

    __constants__ = ["dim"]
    _function = "softmax"
    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self.__dict__.setdefault("dim", None)

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.dim, _stacklevel=5)


class LogSoftmax(Softmax):
    """The logarithm of the softmax along `dim`, computed without overflow."""

    _function = "log_softmax"


class Softmin(Softmax):
    """The softmax of -x along `dim`."""

    _function = "softmin"


class Softmax2d(Module):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)
