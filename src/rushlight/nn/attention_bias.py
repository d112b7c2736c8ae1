"""`torch.nn.attention.bias`: causal masks of attention whose queries and keys differ in number."""

from __future__ import annotations

import enum
import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of the scores [L, S] the diagonal begins at: that of the first query and the first key, or that of the
    last ones."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask [L, S] as `attn_mask` of `scaled_dot_product_attention`: each query sees the keys up to the diagonal.

    With `UPPER_LEFT`, or as many queries as keys, attention computes it as `is_causal=True`, without a mask in memory.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        below = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        if below < 0:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                UserWarning,
                stacklevel=2,
            )
        mask = rushlight.ones(seq_len_q, seq_len_kv, dtype=rushlight.bool).tril(below)
        made = mask.as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a plain tensor of bool."""
        return self.as_subclass(Tensor).to(device or self.device)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs)
        return attend(*args, **(kwargs or {}))

    def __repr__(self, **options: Any) -> str:
        return repr(self._materialize())


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """`scaled_dot_product_attention` with a `CausalBias` for its mask."""
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    causal = attn_mask.variant is CausalVariant.UPPER_LEFT
    causal = causal or attn_mask.seq_len_q == attn_mask.seq_len_kv
    mask = None if causal else attn_mask._materialize(query.device)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, **options)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of `size` queries and keys whose diagonal begins at the first query and the first key."""
    return CausalBias(CausalVariant.UPPER_LEFT, *two(size, "causal_upper_left"))


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of `size` queries and keys whose diagonal ends at the last query and the last key.

    >>> from rushlight.nn.attention_bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *two(size, "causal_lower_right"))


def two(size: tuple[int, ...], name: str) -> tuple[int, ...]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size
