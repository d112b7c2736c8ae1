"""VGG networks (Simonyan 2014): 3x3 convolutions, poolings, three linear layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import nn
from rushlight.vision.models.blocks import init_fan_out, model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.core.tensor import Tensor

__all__ = [
    "VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

# Number of convolutions in each of the five stages, which are 64, 128, 256, 512 and 512 wide and end in a pooling.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """`features`, a pooling to 7x7, and a classifier of three linear layers."""

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            init_fan_out(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """The features of a VGG: a number is a 3x3 convolution of so many channels, "M" a pooling."""
    layers: list[nn.Module] = []
    channels = 3
    for v in cfg:
        if v == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers.append(nn.Conv2d(channels, int(v), 3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(int(v)))
        layers.append(nn.ReLU(inplace=True))
        channels = int(v)
    return nn.Sequential(*layers)


def _vgg(depth: int, batch_norm: bool, **kwargs: Any) -> VGG:
    cfg: list[int | str] = []
    for width, count in zip((64, 128, 256, 512, 512), _STAGES[depth], strict=True):
        cfg += [width] * count + ["M"]
    return VGG(make_layers(cfg, batch_norm), **kwargs)


@model
def vgg11(**kwargs: Any) -> VGG:
    """VGG of 11 layers, 132,863,336 parameters; `kwargs` go to `VGG`."""
    return _vgg(11, False, **kwargs)


@model
def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG of 11 layers with batch normalisation, 132,868,840 parameters."""
    return _vgg(11, True, **kwargs)


@model
def vgg13(**kwargs: Any) -> VGG:
    """VGG of 13 layers, 133,047,848 parameters."""
    return _vgg(13, False, **kwargs)


@model
def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG of 13 layers with batch normalisation, 133,053,736 parameters."""
    return _vgg(13, True, **kwargs)


@model
def vgg16(**kwargs: Any) -> VGG:
    """VGG of 16 layers, 138,357,544 parameters."""
    return _vgg(16, False, **kwargs)


@model
def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG of 16 layers with batch normalisation, 138,365,992 parameters."""
    return _vgg(16, True, **kwargs)


@model
def vgg19(**kwargs: Any) -> VGG:
    """VGG of 19 layers, 143,667,240 parameters."""
    return _vgg(19, False, **kwargs)


@model
def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG of 19 layers with batch normalisation, 143,678,248 parameters."""
    return _vgg(19, True, **kwargs)
