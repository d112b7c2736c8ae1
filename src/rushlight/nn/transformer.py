"""The Transformer and its layers (Vaswani 2017)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.activation import GELU, ReLU
from rushlight.nn.attention import MultiheadAttention
from rushlight.nn.container import ModuleList
from rushlight.nn.dropout import Dropout
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.nn.normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


def _activation(name: Any) -> Callable[[Tensor], Tensor]:
    if not isinstance(name, str):
        return name
    if name not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {name}")
    return getattr(F, name)


_get_activation_fn = _activation  # PyTorch's name, which decoders of other libraries import


def _clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _attend(
    attention: MultiheadAttention,
    query: Tensor,
    memory: Tensor,
    mask: Any,
    padding: Any,
    causal: bool,
) -> Tensor:
    """The attention of `query` to `memory`, without the weights."""
    masks = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": causal}
    return attention(query, memory, memory, need_weights=False, **masks)[0]


class _Layer(Module):
    """The base of both layers: attentions, then two linear maps; a norm and a dropout for each part."""

    __constants__ = ["norm_first"]
    _attentions: tuple[str, ...] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        heads = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **factory_kwargs}
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, **heads))
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory_kwargs)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory_kwargs)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for i in parts:
            setattr(
                self,
                f"norm{i}",
                LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory_kwargs),
            )
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)
        # PyTorch's encoder layers keep which it is, and need it in what they load
        if len(self._attentions) == 1:
            relu = self.activation is F.relu or isinstance(self.activation, ReLU)
            gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
            self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        if not hasattr(self, "activation"):
            self.activation = F.relu


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear maps, each added to its input and normalised.

    `norm_first` normalises before instead of after. src: [S, N, d_model], or [N, S, d_model] with
    `batch_first`.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            masks = (src_mask, src_key_padding_mask, is_causal)
            return self.dropout1(_attend(self.self_attn, x, x, *masks))

        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + self.dropout2(self._feed(self.norm2(x)))
        x = self.norm1(src + attend(src))
        return self.norm2(x + self.dropout2(self._feed(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and two linear maps."""

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend_self(x: Tensor) -> Tensor:
            masks = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            return self.dropout1(_attend(self.self_attn, x, x, *masks))

        def attend_memory(x: Tensor) -> Tensor:
            masks = (memory_mask, memory_key_padding_mask, memory_is_causal)
            return self.dropout2(_attend(self.multihead_attn, x, memory, *masks))

        if self.norm_first:
            x = tgt + attend_self(self.norm1(tgt))
            x = x + attend_memory(self.norm2(x))
            return x + self.dropout3(self._feed(self.norm3(x)))
        x = self.norm1(tgt + attend_self(tgt))
        x = self.norm2(x + attend_memory(x))
        return self.norm3(x + self.dropout3(self._feed(x)))


class TransformerEncoder(Module):
    """Copies of an encoder layer one after another, and a norm at the end if given.

    Where PyTorch uses its fast path (evaluation, no gradients, `batch_first`, padding), the padded
    positions of the result are zero, as in PyTorch.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        slow = self._why_not_fast(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not slow
        if enable_nested_tensor and slow:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer{slow}",
                stacklevel=2,
            )

    @staticmethod
    def _why_not_fast(layer: Any) -> str:
        """What keeps a layer from the fast path; empty where nothing does."""
        if not isinstance(layer, TransformerEncoderLayer):
            return " was not TransformerEncoderLayer"
        attention = layer.self_attn
        reasons = [
            (layer.norm_first, "norm_first was True"),
            (
                not attention.batch_first,
                "self_attn.batch_first was not True(use batch_first for better inference performance)",
            ),
            (not attention._qkv_same_embed_dim, "self_attn._qkv_same_embed_dim was not True"),
            (attention.in_proj_bias is None, "self_attn was passed bias=False"),
            (layer.activation not in (F.relu, F.gelu), "activation_relu_or_gelu was not True"),
            (
                layer.norm1.eps != layer.norm2.eps,
                "norm1.eps was not equal to encoder_layer.norm2.eps",
            ),
            (attention.num_heads % 2 == 1, "self_attn.num_heads is odd"),
        ]
        return next((f".{text}" for holds, text in reasons if holds), "")

    def _is_fast(self, src: Tensor, mask: Tensor | None) -> bool:
        return (
            self.use_nested_tensor
            and not self.training
            and mask is None
            and src.dim() == 3
            and not (
                rushlight.is_grad_enabled()
                and (src.requires_grad or any(p.requires_grad for p in self.layers.parameters()))
            )
        )

    def _at_the_end(self, padding: Tensor) -> Tensor | None:
        """What a padding mask hides, moved to the end of the rows; None where it is not there and that is to be
        checked."""
        hidden = padding if padding.dtype == rushlight.bool else padding == float("-inf")
        kept = hidden.logical_not().sum(1, keepdim=True)
        at_the_end = rushlight.arange(hidden.size(1), device=hidden.device) >= kept
        return None if self.mask_check and bool((at_the_end != hidden).any()) else at_the_end

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        output, hidden = src, None
        if src_key_padding_mask is not None and self._is_fast(src, mask):
            hidden = self._at_the_end(src_key_padding_mask)
        padding = src_key_padding_mask if hidden is None else hidden
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=bool(is_causal) and mask is not None,
                src_key_padding_mask=padding,
            )
        if hidden is not None:
            output = output.masked_fill(hidden.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Copies of a decoder layer one after another, and a norm at the end if given."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal) and tgt_mask is not None,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder of the source and a decoder of the target.

    src: [S, N, d_model], tgt: [T, N, d_model] (batch first with `batch_first`); output: as tgt.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        rest = {
            "batch_first": batch_first,
            "norm_first": norm_first,
            "bias": bias,
            **factory_kwargs,
        }

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory_kwargs)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*sizes, **rest)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*sizes, **rest)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and tgt.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """[sz, sz]: 0 on and below the diagonal, -inf above, where the future is."""
        full = rushlight.full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return rushlight.triu(full, diagonal=1)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
