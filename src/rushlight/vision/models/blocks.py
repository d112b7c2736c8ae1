"""Building blocks that several models share, and the registry of model functions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rushlight import nn
from rushlight.core.tensor import Tensor

__all__ = [
    "Conv2dNormActivation",
    "IntermediateLayerGetter",
    "SqueezeExcitation",
    "StochasticDepth",
    "make_divisible",
]

MODELS: dict[str, Callable[..., nn.Module]] = {}  # filled by `model`


def model(
    name: str, doc: str, make: Callable[..., nn.Module], *args: Any, **defaults: Any
) -> Callable[..., nn.Module]:
    """Make and register a model function: `make(*args, **kwargs)`, with `defaults` for what `kwargs` lack.

    It also has the arguments `weights=`, which must be None, and `progress=`.
    """

    def build(*, weights: Any = None, progress: bool = True, **kwargs: Any) -> nn.Module:
        if kwargs.pop("pretrained", False):
            weights = "pretrained=True"
        if weights is not None:
            raise ValueError(
                f"[{name}] weights must be None, got {weights!r}: Rushlight does not fetch "
                "trained weights. The keys and shapes are torchvision's, so load a file that you have: "
                f"model = {name}(); model.load_state_dict(torch.load('weights.pth'))"
            )
        return make(*args, **{**defaults, **kwargs})

    build.__name__ = build.__qualname__ = name
    build.__module__, build.__doc__ = make.__module__, doc
    MODELS[name] = build
    return build


def make_divisible(value: float, divisor: int) -> int:
    """The multiple of `divisor` nearest to `value`, at least `divisor` and not more than 10 % below `value`."""
    new = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return new + divisor if new < 0.9 * value else new


class Conv2dNormActivation(nn.Sequential):
    """A convolution (padded to keep the size), a norm and an activation, each of the latter two left out when None."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: int = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None
        layers: list[nn.Module] = [
            nn.Conv2d(
                in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    """Scales each channel by a function of the channels' means (Hu 2018)."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(scale)) * input


class StochasticDepth(nn.Module):
    """While training, zeroes the input with probability `p` and scales the rest by 1 / (1 - p) (Huang 2016).

    mode "row": each sample of the batch by itself; "batch": all of them together.
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
        if mode not in ("batch", "row"):
            raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        rows = input.shape[0] if self.mode == "row" else 1
        noise = input.new_empty([rows] + [1] * (input.ndim - 1)).bernoulli_(1 - self.p)
        if self.p < 1:
            noise.div_(1 - self.p)
        return input * noise

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"


def init_fan_out(root: nn.Module, linear: bool = True) -> None:
    """Initialize a model: convolutions by He's method (fan out), norms by 1 and 0, linear layers by N(0, 0.01).

    `linear=False` leaves linear layers as they are.
    """
    for m in root.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.BatchNorm2d | nn.GroupNorm):
            nn.init.ones_(m.weight)
            nn.init.zeros_(m.bias)
        elif linear and isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, 0, 0.01)
            nn.init.zeros_(m.bias)


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of a model up to the last one that is asked for; returns results of some under other names.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> IntermediateLayerGetter(model, {"1": "hidden"})(torch.ones(4, 2))["hidden"].shape
    torch.Size([4, 3])
    """

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        names = [name for name, _ in model.named_children()]
        if not set(return_layers) <= set(names):
            raise ValueError("return_layers are not present in model")
        super().__init__()
        self.return_layers = {str(k): str(v) for k, v in return_layers.items()}
        last = max((names.index(name) for name in self.return_layers), default=0)
        for name in names[: last + 1]:
            self[name] = getattr(model, name)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
