"""SqueezeNet (Iandola 2016)."""

from __future__ import annotations

import rushlight as torch
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import model

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# (channels and kernel of the first convolution, then Fire modules by (squeeze, expand), "M" a pooling)
_VERSIONS: dict[str, tuple] = {
    "1_0": ((96, 7), "M", (16, 64), (16, 64), (32, 128), "M", (32, 128), (48, 192), (48, 192), (64, 256), "M", (64, 256)),
    "1_1": ((64, 3), "M", (16, 64), (16, 64), "M", (32, 128), (32, 128), "M", (48, 192), (48, 192), (64, 256), (64, 256)),
}  # fmt: skip


class Fire(nn.Module):
    """A 1x1 convolution to few channels, then 1x1 and 3x3 ones side by side."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        one = self.expand1x1_activation(self.expand1x1(x))
        return torch.cat([one, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Version "1_0" or "1_1"; images `[N, 3, H, W]` to scores `[N, num_classes]`."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        (channels, kernel), *rest = _VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel, stride=2), nn.ReLU(inplace=True)]
        for each in rest:
            if each == "M":
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            else:
                squeeze, expand = each
                layers.append(Fire(channels, squeeze, expand, expand))
                channels = 2 * expand
        self.features = nn.Sequential(*layers)
        final = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), final, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is final:
                    nn.init.normal_(m.weight, mean=0.0, std=0.01)
                else:
                    nn.init.kaiming_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


squeezenet1_0 = model("squeezenet1_0", "SqueezeNet 1.0, 1,248,424 parameters.", SqueezeNet, "1_0")
squeezenet1_1 = model(
    "squeezenet1_1",
    "SqueezeNet 1.1, 1,235,496 parameters and 2.4 times less work than 1.0.",
    SqueezeNet,
    "1_1",
)
