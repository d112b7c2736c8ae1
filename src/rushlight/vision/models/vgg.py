"""VGG networks (Simonyan 2014): 3x3 convolutions, poolings, three linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import init_fan_out, model

__all__ = ["VGG"]

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


# The model functions, whose arguments go to VGG: name, what it is, depth, and whether it normalises batches.
for _name, _doc, _depth, _norm in (
    ("vgg11", "VGG of 11 layers, 132,863,336", 11, False),
    ("vgg11_bn", "VGG of 11 layers with batch normalisation, 132,868,840", 11, True),
    ("vgg13", "VGG of 13 layers, 133,047,848", 13, False),
    ("vgg13_bn", "VGG of 13 layers with batch normalisation, 133,053,736", 13, True),
    ("vgg16", "VGG of 16 layers, 138,357,544", 16, False),
    ("vgg16_bn", "VGG of 16 layers with batch normalisation, 138,365,992", 16, True),
    ("vgg19", "VGG of 19 layers, 143,667,240", 19, False),
    ("vgg19_bn", "VGG of 19 layers with batch normalisation, 143,678,248", 19, True),
):  # fmt: skip
    globals()[_name] = model(_name, f"{_doc} parameters.", _vgg, _depth, _norm)
    __all__.append(_name)
