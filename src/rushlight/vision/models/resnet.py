"""Residual networks (He 2015), and their wide (Zagoruyko 2016) and grouped (Xie 2016) kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import init_fan_out, model

__all__ = ["ResNet"]


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A 3x3 convolution without bias that keeps the size at stride 1."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride, dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the identity (or `downsample`)."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3 (which has the stride), 1x1 convolutions beside the identity (or `downsample`)."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """Images `[N, 3, H, W]` (224 as trained) to scores `[N, num_classes]`, in four stages of `layers` blocks.

    >>> from rushlight.vision.models import resnet18
    >>> sum(p.numel() for p in resnet18(num_classes=10).parameters())
    11181642
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(dilate) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None or a 3-element tuple, got "
                f"{replace_stride_with_dilation}"
            )
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        init_fan_out(self, linear=False)
        if zero_init_residual:
            for m in self.modules():
                last = getattr(m, {Bottleneck: "bn3", BasicBlock: "bn2"}.get(type(m), ""), None)
                if last is not None and last.weight is not None:
                    nn.init.constant_(last.weight, 0)

    def _make_layer(
        self,
        block: type[BasicBlock | Bottleneck],
        planes: int,
        blocks: int,
        stride: int = 1,
        dilate: bool = False,
    ) -> nn.Sequential:
        norm = self._norm_layer
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        width = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != width:
            downsample = nn.Sequential(conv1x1(self.inplanes, width, stride), norm(width))
        shape = (self.groups, self.base_width)
        made = [block(self.inplanes, planes, stride, downsample, *shape, before, norm)]
        self.inplanes = width
        made += [
            block(width, planes, 1, None, *shape, self.dilation, norm) for _ in range(1, blocks)
        ]
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


# The model functions, whose arguments go to ResNet: name, what it is, block, blocks of each stage, and what else it sets.
for _name, _doc, _block, _layers, _more in (
    ("resnet18", "ResNet of 18 layers, 11,689,512", BasicBlock, (2, 2, 2, 2), {}),
    ("resnet34", "ResNet of 34 layers, 21,797,672", BasicBlock, (3, 4, 6, 3), {}),
    ("resnet50", "ResNet of 50 layers, 25,557,032", Bottleneck, (3, 4, 6, 3), {}),
    ("resnet101", "ResNet of 101 layers, 44,549,160", Bottleneck, (3, 4, 23, 3), {}),
    ("resnet152", "ResNet of 152 layers, 60,192,808", Bottleneck, (3, 8, 36, 3), {}),
    ("resnext50_32x4d", "ResNeXt of 50 layers in 32 groups of width 4, 25,028,904", Bottleneck, (3, 4, 6, 3), {"groups": 32, "width_per_group": 4}),
    ("resnext101_32x8d", "ResNeXt of 101 layers in 32 groups of width 8, 88,791,336", Bottleneck, (3, 4, 23, 3), {"groups": 32, "width_per_group": 8}),
    ("resnext101_64x4d", "ResNeXt of 101 layers in 64 groups of width 4, 83,455,272", Bottleneck, (3, 4, 23, 3), {"groups": 64, "width_per_group": 4}),
    ("wide_resnet50_2", "ResNet of 50 layers with inner convolutions twice as wide, 68,883,240", Bottleneck, (3, 4, 6, 3), {"width_per_group": 128}),
    ("wide_resnet101_2", "ResNet of 101 layers with inner convolutions twice as wide, 126,886,696", Bottleneck, (3, 4, 23, 3), {"width_per_group": 128}),
):  # fmt: skip
    globals()[_name] = model(_name, f"{_doc} parameters.", ResNet, _block, list(_layers), **_more)
    __all__.append(_name)
