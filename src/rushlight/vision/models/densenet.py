"""DenseNets (Huang 2016): every layer of a block takes the outputs of all earlier ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import model

__all__ = ["DenseNet"]


class _DenseLayer(nn.Module):
    def __init__(self, channels: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        middle = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, middle, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(middle)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(middle, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        x = torch.cat(input, 1) if isinstance(input, list) else input
        x = self.conv1(self.relu1(self.norm1(x)))
        x = self.conv2(self.relu2(self.norm2(x)))
        return F.dropout(x, self.drop_rate, self.training) if self.drop_rate > 0 else x


class _DenseBlock(nn.ModuleDict):
    def __init__(
        self, layers: int, channels: int, bn_size: int, growth_rate: int, drop_rate: float
    ) -> None:
        super().__init__()
        for i in range(layers):
            layer = _DenseLayer(channels + i * growth_rate, growth_rate, bn_size, drop_rate)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, input: Tensor) -> Tensor:
        features = [input]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class _Transition(nn.Sequential):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(channels, out, 1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)


declare(
    "no-op",
    "Backward keeps the concatenations.",
    "torchvision.models",
    "DenseNet(memory_efficient=)",
)


class DenseNet(nn.Module):
    """Images `[N, 3, H, W]` to scores `[N, num_classes]`; each layer adds `growth_rate` channels.

    `memory_efficient` (recomputing the concatenations in backward) is accepted and changes nothing.
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        channels = num_init_features
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(channels),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )
        for i, layers in enumerate(block_config, 1):
            parts[f"denseblock{i}"] = _DenseBlock(layers, channels, bn_size, growth_rate, drop_rate)
            channels += layers * growth_rate
            if i != len(block_config):
                parts[f"transition{i}"] = _Transition(channels, channels // 2)
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                nn.init.constant_(m.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """As `Module.load_state_dict`; takes the keys of torchvision's oldest files too (`norm.1` for `norm1`)."""
        if any(".norm.1." in key for key in state_dict):
            old = ("norm", "relu", "conv")
            names = {f".{n}.{i}.": f".{n}{i}." for n in old for i in (1, 2)}
            renamed = OrderedDict()
            for key, value in state_dict.items():
                for before, after in names.items():
                    key = key.replace(before, after)
                renamed[key] = value
            state_dict = renamed
        return super().load_state_dict(state_dict, *args, **kwargs)


# The model functions: name, what it is, growth rate, layers of each block, and features before them.
for _name, _doc, *_sizes in (
    ("densenet121", "DenseNet of 121 layers, 7,978,856", 32, (6, 12, 24, 16), 64),
    ("densenet161", "DenseNet of 161 layers, 28,681,000", 48, (6, 12, 36, 24), 96),
    ("densenet169", "DenseNet of 169 layers, 14,149,480", 32, (6, 12, 32, 32), 64),
    ("densenet201", "DenseNet of 201 layers, 20,013,928", 32, (6, 12, 48, 32), 64),
):  # fmt: skip
    globals()[_name] = model(_name, f"{_doc} parameters.", DenseNet, *_sizes)
    __all__.append(_name)
