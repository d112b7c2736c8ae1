"""GoogLeNet (Szegedy 2014), with batch normalisation."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import model

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "googlenet"]

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
GoogLeNetOutputs.__doc__ = (
    "What GoogLeNet gives in training: the scores, and those of the two side branches."
)

# name: (in, 1x1, 3x3 reduced, 3x3, "5x5" reduced, "5x5", pooled)
_INCEPTIONS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


class BasicConv2d(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side; the one called 5x5 in the paper is 3x3 in torchvision's weights."""

    def __init__(self, inp: int, one: int, red3: int, three: int, red5: int, five: int, pool: int):
        super().__init__()
        self.branch1 = BasicConv2d(inp, one, kernel_size=1)
        self.branch2 = nn.Sequential(
            BasicConv2d(inp, red3, kernel_size=1),
            BasicConv2d(red3, three, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            BasicConv2d(inp, red5, kernel_size=1),
            BasicConv2d(red5, five, kernel_size=3, padding=1),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True),
            BasicConv2d(inp, pool, kernel_size=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        return torch.cat([branch(x) for branch in branches], 1)


class InceptionAux(nn.Module):
    """A classifier on the side, for training."""

    def __init__(self, in_channels: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.conv = BasicConv2d(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


def rescale(x: Tensor) -> Tensor:
    """Images normalised by ImageNet's mean and standard deviation, rescaled to -1..1."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    parts = [x[:, i : i + 1] * (std[i] / 0.5) + (mean[i] - 0.5) / 0.5 for i in range(3)]
    return torch.cat(parts, 1)


def init_trunc_normal(root: nn.Module, std: float) -> None:
    """Initialize convolutions and linear layers by N(0, `std` or their own `stddev`), norms by 1 and 0."""
    for m in root.modules():
        if isinstance(m, nn.Conv2d | nn.Linear):
            own = float(getattr(m, "stddev", std))
            nn.init.trunc_normal_(m.weight, mean=0.0, std=own, a=-2, b=2)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)


class GoogLeNet(nn.Module):
    """Images `[N, 3, H, W]` to scores; in training with `aux_logits` to `GoogLeNetOutputs`."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.conv1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = BasicConv2d(64, 64, kernel_size=1)
        self.conv3 = BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, channels in _INCEPTIONS.items():
            if name == "4a":
                self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
            if name == "5a":
                self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
            self.add_module(f"inception{name}", Inception(*channels))
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        if init_weights is not False:
            init_trunc_normal(self, 0.01)

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        if self.transform_input:
            x = rescale(x)
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.inception4a(self.maxpool3(self.inception3b(self.inception3a(x))))
        first = self.aux1(x) if self.training and self.aux1 is not None else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        second = self.aux2(x) if self.training and self.aux2 is not None else None
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        return x if first is None else GoogLeNetOutputs(x, second, first)


googlenet = model(
    "googlenet",
    "GoogLeNet, 13,004,888 parameters, 6,624,904 of them without the side branches (`aux_logits=False`).",
    GoogLeNet,
)
