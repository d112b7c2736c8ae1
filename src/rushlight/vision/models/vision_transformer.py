"""Vision transformers (Dosovitskiy 2020)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import rushlight as torch
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.vision.models.blocks import Conv2dNormActivation, model

__all__ = ["VisionTransformer"]


class ConvStemConfig(NamedTuple):
    """One convolution of those that may stand in the place of cutting into patches (Xiao 2021)."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d
    activation_layer: Callable[..., nn.Module] = nn.ReLU


class MLPBlock(nn.Sequential):
    """Two linear layers with GELU and dropout between them."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(in_dim, mlp_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(mlp_dim, in_dim),
            nn.Dropout(dropout),
        )
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.normal_(m.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """Self-attention and MLP, each behind a norm and beside the identity."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions added, then `num_layers` blocks and a last norm; `[N, S, E]` to `[N, S, E]`."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            OrderedDict(
                (
                    f"encoder_layer_{i}",
                    EncoderBlock(
                        num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
                    ),
                )
                for i in range(num_layers)
            )
        )
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Images `[N, 3, image_size, image_size]`, cut into patches, to scores `[N, num_classes]`."""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(
                f"Input shape indivisible by patch size! image {image_size}, patch {patch_size}"
            )
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.num_classes = num_classes
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.conv_proj: nn.Module
        if conv_stem_configs is None:
            self.conv_proj = last = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
            spread = (3 * patch_size**2) ** -0.5
        else:
            self.conv_proj = _stem(conv_stem_configs, hidden_dim)
            last = self.conv_proj.conv_last
            spread = (2.0 / last.out_channels) ** 0.5
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout,
            attention_dropout, norm,
        )  # fmt: skip
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is None:
            heads["head"] = nn.Linear(hidden_dim, num_classes)
        else:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
            heads["head"] = nn.Linear(representation_size, num_classes)
        self.heads = nn.Sequential(heads)
        if conv_stem_configs is None:
            nn.init.trunc_normal_(last.weight, std=spread)
        else:
            nn.init.normal_(last.weight, std=spread)
        assert last.bias is not None
        nn.init.zeros_(last.bias)
        if representation_size is not None:
            nn.init.trunc_normal_(heads["pre_logits"].weight, std=hidden_dim**-0.5)
            nn.init.zeros_(heads["pre_logits"].bias)
        nn.init.zeros_(heads["head"].weight)
        nn.init.zeros_(heads["head"].bias)

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        size = self.image_size
        torch._assert(h == size, f"Wrong image height! Expected {size} but got {h}!")
        torch._assert(w == size, f"Wrong image width! Expected {size} but got {w}!")
        x = self.conv_proj(x).reshape(n, self.hidden_dim, -1).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def _stem(configs: list[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    """The convolutions that make patches, and a last one to `hidden_dim` channels."""
    stem, before = nn.Sequential(), 3
    for i, c in enumerate(configs):
        layer = Conv2dNormActivation(
            before, c.out_channels, c.kernel_size, c.stride, norm_layer=c.norm_layer,
            activation_layer=c.activation_layer,
        )  # fmt: skip
        stem.add_module(f"conv_bn_relu_{i}", layer)
        before = c.out_channels
    stem.add_module("conv_last", nn.Conv2d(before, hidden_dim, 1))
    return stem


def _vit(patch: int, layers: int, heads: int, hidden: int, mlp: int, **kwargs: Any):
    return VisionTransformer(
        kwargs.pop("image_size", 224), patch, layers, heads, hidden, mlp, **kwargs
    )


# The model functions: name, what it is, and its patch, layers, heads, hidden and MLP sizes.
for _name, _doc, *_sizes in (
    ("vit_b_16", "ViT base with patches of 16, 86,567,656", 16, 12, 12, 768, 3072),
    ("vit_b_32", "ViT base with patches of 32, 88,224,232", 32, 12, 12, 768, 3072),
    ("vit_l_16", "ViT large with patches of 16, 304,326,632", 16, 24, 16, 1024, 4096),
    ("vit_l_32", "ViT large with patches of 32, 306,535,400", 32, 24, 16, 1024, 4096),
    ("vit_h_14", "ViT huge with patches of 14, 632,045,800", 14, 32, 16, 1280, 5120),
):  # fmt: skip
    globals()[_name] = model(_name, f"{_doc} parameters.", _vit, *_sizes)
    __all__.append(_name)
