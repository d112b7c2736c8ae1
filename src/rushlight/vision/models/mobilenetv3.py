"""MobileNetV3, large and small (Howard 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import (
    Conv2dNormActivation,
    SqueezeExcitation,
    init_fan_out,
    make_divisible,
    model,
)

__all__ = ["MobileNetV3", "mobilenet_v3_large", "mobilenet_v3_small"]

# in, kernel, expanded, out, squeeze and excite?, activation, stride
_LARGE = (
    (16, 3, 16, 16, False, "RE", 1),
    (16, 3, 64, 24, False, "RE", 2),
    (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2),
    (40, 5, 120, 40, True, "RE", 1),
    (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2),
    (80, 3, 200, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 480, 112, True, "HS", 1),
    (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2),
    (160, 5, 960, 160, True, "HS", 1),
    (160, 5, 960, 160, True, "HS", 1),
)
_SMALL = (
    (16, 3, 16, 16, True, "RE", 2),
    (16, 3, 72, 24, False, "RE", 2),
    (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2),
    (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1),
    (48, 5, 144, 48, True, "HS", 1),
    (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1),
    (96, 5, 576, 96, True, "HS", 1),
)


class InvertedResidual(nn.Module):
    """Widen, convolve each channel, squeeze and excite, narrow; one row of the tables above."""

    def __init__(
        self, row: Sequence[Any], width: Callable[[int], int], norm: Callable[..., nn.Module]
    ) -> None:
        super().__init__()
        inp, kernel, expanded, out, use_se, activation, stride = row
        inp, expanded, out = width(inp), width(expanded), width(out)
        self.use_res_connect = stride == 1 and inp == out
        act = nn.Hardswish if activation == "HS" else nn.ReLU
        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": act}
        layers: list[nn.Module] = []
        if expanded != inp:
            layers.append(Conv2dNormActivation(inp, expanded, 1, **both))
        layers.append(
            Conv2dNormActivation(expanded, expanded, kernel, stride, groups=expanded, **both)
        )
        if use_se:
            squeeze = make_divisible(expanded // 4, 8)
            layers.append(SqueezeExcitation(expanded, squeeze, scale_activation=nn.Hardsigmoid))
        layers.append(
            Conv2dNormActivation(expanded, out, 1, norm_layer=norm, activation_layer=None)
        )
        self.block = nn.Sequential(*layers)
        self.out_channels = out

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """Images `[N, 3, H, W]` to scores `[N, num_classes]`, by the rows of a table and a last width."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[Sequence[Any]],
        last_channel: int,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        rows = inverted_residual_setting
        if not rows:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)

        def width(channels: int) -> int:
            return make_divisible(channels * width_mult, 8)

        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.Hardswish}
        layers: list[nn.Module] = [Conv2dNormActivation(3, width(rows[0][0]), 3, stride=2, **both)]
        layers += [InvertedResidual(row, width, norm) for row in rows]
        narrow = width(rows[-1][3])
        layers.append(Conv2dNormActivation(narrow, 6 * narrow, 1, **both))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * narrow, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        init_fan_out(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _v3(rows: Sequence[Sequence[Any]], last: int, **kwargs: Any) -> MobileNetV3:
    return MobileNetV3(rows, make_divisible(last * kwargs.get("width_mult", 1.0), 8), **kwargs)


mobilenet_v3_large = model(
    "mobilenet_v3_large", "MobileNetV3 large, 5,483,032 parameters.", _v3, _LARGE, 1280
)
mobilenet_v3_small = model(
    "mobilenet_v3_small", "MobileNetV3 small, 2,542,856 parameters.", _v3, _SMALL, 1024
)
