"""ShuffleNet V2 (Ma 2018)."""

from __future__ import annotations

import rushlight as torch
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import Conv2dNormActivation, model

__all__ = ["ShuffleNetV2"]


class InvertedResidual(nn.Module):
    """Half of the channels stay and half go through a depthwise convolution; with a stride both halves are made."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        half = oup // 2
        if stride == 1 and inp != 2 * half:
            raise ValueError(
                f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values"
            )
        self.stride = stride
        kept: list[nn.Module] = []
        if stride > 1:
            kept = [*_depthwise(inp, stride), *Conv2dNormActivation(inp, half, 1)]
        made = Conv2dNormActivation(inp if stride > 1 else half, half, 1)
        self.branch1 = nn.Sequential(*kept)
        self.branch2 = nn.Sequential(
            *made, *_depthwise(half, stride), *Conv2dNormActivation(half, half, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            kept, made = x.chunk(2, dim=1)
            both = torch.cat((kept, self.branch2(made)), dim=1)
        else:
            both = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
        return torch.channel_shuffle(both, 2)


def _depthwise(channels: int, stride: int) -> nn.Sequential:
    """A convolution of each channel by itself, and a norm."""
    return Conv2dNormActivation(
        channels, channels, 3, stride, groups=channels, activation_layer=None
    )


class ShuffleNetV2(nn.Module):
    """`stages_repeats` blocks in three stages; `stages_out_channels` of the first layer, the stages and the last one."""

    def __init__(
        self, stages_repeats: list[int], stages_out_channels: list[int], num_classes: int = 1000
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        first, *stages, last = stages_out_channels
        self.conv1 = nn.Sequential(*Conv2dNormActivation(3, first, 3, 2))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        before = first
        for number, (repeats, channels) in enumerate(zip(stages_repeats, stages, strict=True), 2):
            blocks = [InvertedResidual(before, channels, 2)]
            blocks += [InvertedResidual(channels, channels, 1) for _ in range(repeats - 1)]
            setattr(self, f"stage{number}", nn.Sequential(*blocks))
            before = channels
        self.conv5 = nn.Sequential(*Conv2dNormActivation(before, last, 1))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


# The model functions: name, parameters, and channels.
for _width, _count, *_channels in (
    ("0.5", "1,366,792", 24, 48, 96, 192, 1024),
    ("1.0", "2,278,604", 24, 116, 232, 464, 1024),
    ("1.5", "3,503,624", 24, 176, 352, 704, 1024),
    ("2.0", "7,393,996", 24, 244, 488, 976, 2048),
):
    _name = f"shufflenet_v2_x{_width.replace('.', '_')}"
    _doc = f"ShuffleNet V2, {_width} times as wide, {_count} parameters."
    globals()[_name] = model(_name, _doc, ShuffleNetV2, [4, 8, 4], _channels)
    __all__.append(_name)
