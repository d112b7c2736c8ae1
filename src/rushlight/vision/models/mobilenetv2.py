"""MobileNetV2 (Sandler 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight.nn.functional as F
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import Conv2dNormActivation, init_fan_out, make_divisible, model

__all__ = ["InvertedResidual", "MobileNetV2", "mobilenet_v2"]

# expansion, channels, blocks, stride of the first block
_SETTING = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Widen by 1x1, one 3x3 convolution per channel, narrow by 1x1; beside the identity where shapes allow."""

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: float,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm = norm_layer or nn.BatchNorm2d
        hidden = round(inp * expand_ratio)
        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.ReLU6}
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, hidden, 1, **both))
        layers += [
            Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, **both),
            nn.Conv2d(hidden, oup, 1, bias=False),
            norm(oup),
        ]
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(*layers)
        self.out_channels = oup

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Images `[N, 3, H, W]` to scores `[N, num_classes]`; `width_mult` widens every layer."""

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block = block or InvertedResidual
        norm = norm_layer or nn.BatchNorm2d
        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.ReLU6}
        channels = make_divisible(32 * width_mult, round_nearest)
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        layers: list[nn.Module] = [Conv2dNormActivation(3, channels, stride=2, **both)]
        for t, c, n, s in inverted_residual_setting or _SETTING:
            out = make_divisible(c * width_mult, round_nearest)
            for i in range(n):
                layers.append(
                    block(channels, out, s if i == 0 else 1, expand_ratio=t, norm_layer=norm)
                )
                channels = out
        layers.append(Conv2dNormActivation(channels, self.last_channel, 1, **both))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes)
        )
        init_fan_out(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


mobilenet_v2 = model("mobilenet_v2", "MobileNetV2, 3,504,872 parameters.", MobileNetV2)
