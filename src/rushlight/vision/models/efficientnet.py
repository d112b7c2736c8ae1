"""EfficientNet b0 to b7 (Tan 2019)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import (
    Conv2dNormActivation,
    SqueezeExcitation,
    StochasticDepth,
    init_fan_out,
    make_divisible,
    model,
)

__all__ = ["EfficientNet"]
__all__ += [f"efficientnet_b{i}" for i in range(8)]

# expansion, kernel, stride, in, out, blocks
_STAGES = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)
# width, depth, dropout
_SIZES = (
    (1.0, 1.0, 0.2),
    (1.0, 1.1, 0.2),
    (1.1, 1.2, 0.3),
    (1.2, 1.4, 0.3),
    (1.4, 1.8, 0.4),
    (1.6, 2.2, 0.4),
    (1.8, 2.6, 0.5),
    (2.0, 3.1, 0.5),
)


class MBConv(nn.Module):
    """Widen, convolve each channel, squeeze and excite, narrow; the whole block is dropped at random in training."""

    def __init__(
        self,
        inp: int,
        out: int,
        expansion: int,
        kernel: int,
        stride: int,
        drop: float,
        norm: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        self.use_res_connect = stride == 1 and inp == out
        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.SiLU}
        wide = make_divisible(inp * expansion, 8)
        layers: list[nn.Module] = []
        if wide != inp:
            layers.append(Conv2dNormActivation(inp, wide, 1, **both))
        layers += [
            Conv2dNormActivation(wide, wide, kernel, stride, groups=wide, **both),
            SqueezeExcitation(wide, max(1, inp // 4), partial(nn.SiLU, inplace=True)),
            Conv2dNormActivation(wide, out, 1, norm_layer=norm, activation_layer=None),
        ]
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(drop, "row")
        self.out_channels = out

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class EfficientNet(nn.Module):
    """Images `[N, 3, H, W]` to scores `[N, num_classes]`, scaled by `width_mult` and `depth_mult`."""

    def __init__(
        self,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        dropout: float = 0.2,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d

        def width(channels: int) -> int:
            return make_divisible(channels * width_mult, 8)

        both: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.SiLU}
        layers: list[nn.Module] = [Conv2dNormActivation(3, width(32), 3, stride=2, **both)]
        total = sum(ceil(n * depth_mult) for *_, n in _STAGES)
        done = 0
        for expansion, kernel, stride, inp, out, n in _STAGES:
            stage = []
            for i in range(ceil(n * depth_mult)):
                drop = stochastic_depth_prob * done / total
                first = (width(inp), stride) if i == 0 else (width(out), 1)
                stage.append(MBConv(first[0], width(out), expansion, kernel, first[1], drop, norm))
                done += 1
            layers.append(nn.Sequential(*stage))
        last = width(320)
        layers.append(Conv2dNormActivation(last, 4 * last, 1, **both))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout, inplace=True), nn.Linear(4 * last, num_classes)
        )
        init_fan_out(self, linear=False)
        bound = num_classes**-0.5
        nn.init.uniform_(self.classifier[1].weight, -bound, bound)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


for _i, (_width, _depth, _dropout) in enumerate(_SIZES):
    _norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01) if _i >= 5 else None
    _more = {"dropout": _dropout, "norm_layer": _norm}
    _doc = f"EfficientNet b{_i}; `kwargs` go to `EfficientNet`."
    globals()[f"efficientnet_b{_i}"] = model(
        f"efficientnet_b{_i}", _doc, EfficientNet, _width, _depth, **_more
    )
