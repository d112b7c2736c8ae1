"""Inception v3 (Szegedy 2015)."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import model
from rushlight.vision.models.googlenet import BasicConv2d, init_trunc_normal, rescale

__all__ = ["Inception3", "InceptionOutputs", "inception_v3"]

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])
InceptionOutputs.__doc__ = (
    "What Inception3 gives in training: the scores, and those of the side branch."
)


def _tall(inp: int, out: int, k: int) -> BasicConv2d:
    return BasicConv2d(inp, out, kernel_size=(k, 1), padding=(k // 2, 0))


def _wide(inp: int, out: int, k: int) -> BasicConv2d:
    return BasicConv2d(inp, out, kernel_size=(1, k), padding=(0, k // 2))


def _pooled(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)


class InceptionA(nn.Module):
    """1x1, 5x5, double 3x3 and pooled branches."""

    def __init__(self, inp: int, pool_features: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(inp, 64, kernel_size=1)
        self.branch5x5_1 = BasicConv2d(inp, 48, kernel_size=1)
        self.branch5x5_2 = BasicConv2d(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(inp, 64, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, kernel_size=3, padding=1)
        self.branch_pool = BasicConv2d(inp, pool_features, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.branch1x1(x)
        five = self.branch5x5_2(self.branch5x5_1(x))
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([one, five, three, self.branch_pool(_pooled(x))], 1)


class InceptionB(nn.Module):
    """Halves the size: 3x3, double 3x3 and pooled branches."""

    def __init__(self, inp: int) -> None:
        super().__init__()
        self.branch3x3 = BasicConv2d(inp, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = BasicConv2d(inp, 64, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, F.max_pool2d(x, 3, stride=2)], 1)


class InceptionC(nn.Module):
    """1x1, 7x7 and double 7x7 branches, the sevens as 1x7 and 7x1, and a pooled one."""

    def __init__(self, inp: int, c7: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(inp, 192, kernel_size=1)
        self.branch7x7_1 = BasicConv2d(inp, c7, kernel_size=1)
        self.branch7x7_2 = _wide(c7, c7, 7)
        self.branch7x7_3 = _tall(c7, 192, 7)
        self.branch7x7dbl_1 = BasicConv2d(inp, c7, kernel_size=1)
        self.branch7x7dbl_2 = _tall(c7, c7, 7)
        self.branch7x7dbl_3 = _wide(c7, c7, 7)
        self.branch7x7dbl_4 = _tall(c7, c7, 7)
        self.branch7x7dbl_5 = _wide(c7, 192, 7)
        self.branch_pool = BasicConv2d(inp, 192, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(_pooled(x))], 1)


class InceptionD(nn.Module):
    """Halves the size: 3x3, 7x7 then 3x3, and pooled branches."""

    def __init__(self, inp: int) -> None:
        super().__init__()
        self.branch3x3_1 = BasicConv2d(inp, 192, kernel_size=1)
        self.branch3x3_2 = BasicConv2d(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = BasicConv2d(inp, 192, kernel_size=1)
        self.branch7x7x3_2 = _wide(192, 192, 7)
        self.branch7x7x3_3 = _tall(192, 192, 7)
        self.branch7x7x3_4 = BasicConv2d(192, 192, kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        return torch.cat([three, self.branch7x7x3_4(seven), F.max_pool2d(x, 3, stride=2)], 1)


class InceptionE(nn.Module):
    """1x1, 3x3 and double 3x3 branches, whose last step is 1x3 and 3x1 side by side, and a pooled one."""

    def __init__(self, inp: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(inp, 320, kernel_size=1)
        self.branch3x3_1 = BasicConv2d(inp, 384, kernel_size=1)
        self.branch3x3_2a = _wide(384, 384, 3)
        self.branch3x3_2b = _tall(384, 384, 3)
        self.branch3x3dbl_1 = BasicConv2d(inp, 448, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = _wide(384, 384, 3)
        self.branch3x3dbl_3b = _tall(384, 384, 3)
        self.branch_pool = BasicConv2d(inp, 192, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        parts = [
            self.branch1x1(x),
            self.branch3x3_2a(three),
            self.branch3x3_2b(three),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
            self.branch_pool(_pooled(x)),
        ]
        return torch.cat(parts, 1)


class InceptionAux(nn.Module):
    """A classifier on the side, for training."""

    def __init__(self, inp: int, num_classes: int) -> None:
        super().__init__()
        self.conv0 = BasicConv2d(inp, 128, kernel_size=1)
        self.conv1 = BasicConv2d(128, 768, kernel_size=5)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Inception3(nn.Module):
    """Images `[N, 3, H, W]` (299 as trained) to scores; in training with `aux_logits` to `InceptionOutputs`."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b = InceptionA(192, pool_features=32)
        self.Mixed_5c = InceptionA(256, pool_features=64)
        self.Mixed_5d = InceptionA(288, pool_features=64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b = InceptionC(768, 128)
        self.Mixed_6c = InceptionC(768, 160)
        self.Mixed_6d = InceptionC(768, 160)
        self.Mixed_6e = InceptionC(768, 192)
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a = InceptionD(768)
        self.Mixed_7b = InceptionE(1280)
        self.Mixed_7c = InceptionE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is not False:
            # as in torchvision, a stddev set on a BasicConv2d does not reach its convolution
            init_trunc_normal(self, 0.1)

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        if self.transform_input:
            x = rescale(x)
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        side = self.AuxLogits(x) if self.training and self.AuxLogits is not None else None
        x = self.avgpool(self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x))))
        x = self.fc(self.dropout(x).flatten(1))
        return x if side is None else InceptionOutputs(x, side)


inception_v3 = model(
    "inception_v3",
    "Inception v3, 27,161,264 parameters, 23,834,568 of them without the side branch (`aux_logits=False`).",
    Inception3,
)
