"""PyTorch's functions for attention in inference, which libraries call by their inner names.

PyTorch's transformer modules choose them where no gradient is recorded. Rushlight's modules have one way of computing, and these
functions are it, with the arguments that PyTorch's have: batch first, and batches of several lengths as nested tensors.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F

__all__ = [
    "_native_multi_head_attention", "_transform_bias_rescale_qkv", "_transformer_encoder_layer_fwd",
]  # fmt: skip

# What `mask_type` says of a mask: of [L, S], of the keys [N, S], or [N, heads, L, S]
_SOURCE, _PADDING, _EACH_HEAD = range(3)


def _native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """`multi_head_attention_forward` without dropout: (the result, the weights or None).

    query [N, L, E], key and value [N, S, E]; or all three nested. True in a mask hides a key.
    """
    if query.is_nested:
        return _nested_attention(
            query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
            need_weights, average_attn_weights,
        )  # fmt: skip
    for name, each in (("query", query), ("key", key), ("value", value)):
        if each.dim() != 3:
            raise RuntimeError(f"expected 3-D `{name}`, got {each.dim()}-D tensor")
    if query.shape[-1] != embed_dim:
        raise RuntimeError(
            f"passed-in embed_dim {embed_dim} didn't match last dim of query {query.shape[-1]}"
        )
    if embed_dim % num_head:
        raise RuntimeError("`embed_dim` must divide evenly by `num_heads`")
    masks = _masks(mask, mask_type)
    result, weights = F.multi_head_attention_forward(
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), embed_dim, num_head,
        qkv_weight, qkv_bias, None, None, False, 0.0, proj_weight, proj_bias, training=False,
        need_weights=need_weights, average_attn_weights=average_attn_weights, **masks,
    )  # fmt: skip
    return result.transpose(0, 1), weights


def _masks(mask: Tensor | None, mask_type: int | None) -> dict[str, Tensor]:
    """The mask as an argument of `multi_head_attention_forward`."""
    if mask is None:
        return {}
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if mask_type == _SOURCE:
        return {"attn_mask": mask}
    if mask_type == _PADDING:
        return {"key_padding_mask": mask}
    if mask_type == _EACH_HEAD:
        return {"attn_mask": mask.flatten(0, 1)}
    raise RuntimeError(
        "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask), "
        f"got {mask_type}"
    )


def _padded(nested: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """The parts of a nested tensor beside each other [N, L, E], where there is none [N, L], and their lengths."""
    lengths = [part.shape[0] for part in nested.unbind()]
    padded = nested.to_padded_tensor(0.0)
    positions = torch.arange(padded.shape[1])
    return padded, positions >= torch.tensor(lengths).unsqueeze(1), lengths


def _cut(padded: Tensor, lengths: list[int]) -> Tensor:
    """The nested tensor of the first `lengths` rows of each part."""
    parts = [part[:n] for part, n in zip(padded.unbind(), lengths, strict=True)]
    return torch.nested.as_nested_tensor(parts)


def _nested_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, *rest: Any
) -> tuple[Tensor, Tensor | None]:
    """The same of nested tensors."""
    *projections, need_weights, average = rest
    q, _, lengths = _padded(query)
    k, hidden, _ = (q, _, lengths) if key is query else _padded(key)
    v = k if value is key else _padded(value)[0]
    result, weights = _native_multi_head_attention(
        q, k, v, embed_dim, num_head, *projections, hidden, need_weights, average, _PADDING
    )
    return _cut(result, lengths), weights


def _transform_bias_rescale_qkv(
    qkv: Tensor, qkv_bias: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value [N, heads, L, E / heads] of a projection [N, L, 3 E] and its bias; the query is divided by the root of E / heads."""
    if qkv.is_nested:
        qkv = qkv.to_padded_tensor(0.0)
    n, length, e = qkv.shape
    if e % (3 * num_heads):
        raise RuntimeError(
            f"the size {e} does not divide evenly by 3 * num_heads = {3 * num_heads}"
        )
    each = (qkv + qkv_bias).reshape(n, length, 3, num_heads, e // 3 // num_heads)
    q, k, v = (part.contiguous() for part in each.permute(2, 0, 3, 1, 4).unbind())
    return q / q.shape[-1] ** 0.5, k, v


def _transformer_encoder_layer_fwd(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor,
    ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    """`nn.TransformerEncoderLayer` in evaluation, batch first: attention and a network of two layers, each added to its input."""
    lengths = None
    x = src
    if src.is_nested:
        x, mask, lengths = _padded(src)
        mask_type = _PADDING

    def norm(t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(t, (embed_dim,), weight, bias, eps)

    def attention(t: Tensor) -> Tensor:
        return _native_multi_head_attention(
            t, t, t, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False,
            True, mask_type,
        )[0]  # fmt: skip

    def network(t: Tensor) -> Tensor:
        inside = F.linear(t, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inside) if use_gelu else F.relu(inside), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        x = x + network(norm(x, norm_weight_2, norm_bias_2))
    else:
        x = norm(x + attention(x), norm_weight_1, norm_bias_1)
        x = norm(x + network(x), norm_weight_2, norm_bias_2)
    return x if lengths is None else _cut(x, lengths)
