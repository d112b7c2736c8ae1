"""Attention with several heads."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight.autograd.state import active
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.nn.attention import self_attention

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear; its name is part of how PyTorch prints attention."""


class MultiheadAttention(Module):
    """softmax(q k.T / sqrt(d)) v in each head, the heads then mixed (Vaswani 2017).

    query: [L, N, embed_dim] ([N, L, ...] with `batch_first`, [L, ...] without a batch); key, value:
    [S, N, kdim], [S, N, vdim]. Masks: `key_padding_mask` [N, S], `attn_mask` [L, S] or [N * heads,
    L, S]; True, or -inf, is left out. Returns the output and, with `need_weights`, the weights.

    >>> import rushlight as torch
    >>> x = torch.zeros(5, 2, 8)
    >>> output, weights = torch.nn.MultiheadAttention(8, 4)(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def new(*shape: int) -> Parameter:
            return Parameter(rushlight.empty(shape, device=device, dtype=dtype))

        separate = not self._qkv_same_embed_dim
        shapes = {
            "q_proj_weight": (embed_dim, embed_dim) if separate else None,
            "k_proj_weight": (embed_dim, self.kdim) if separate else None,
            "v_proj_weight": (embed_dim, self.vdim) if separate else None,
            "in_proj_weight": None if separate else (3 * embed_dim, embed_dim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else new(*shape))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = new(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = new(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        self.__dict__.setdefault("_qkv_same_embed_dim", True)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if (
            query is key is value
            and not need_weights
            and not active.modes
            and query.__class__ is Tensor
            and query.ndim == 3
            and query._array.shape[2] == self.embed_dim
            and self._qkv_same_embed_dim
            and self.bias_k is None
            and not self.add_zero_attn
        ):
            dropout = self.dropout if self.training else 0.0
            out = self.out_proj
            found = self_attention(
                query, self.num_heads, self.in_proj_weight, self.in_proj_bias, out.weight, out.bias,
                attn_mask, key_padding_mask, dropout, is_causal, self.batch_first,
            )  # fmt: skip
            if found is not None:
                return found, None
        if query.__class__ is not Tensor and query.is_nested:
            return self._attend_nested(query, key, value, key_padding_mask, need_weights, attn_mask)
        swap = self.batch_first and query.dim() == 3
        if swap:
            # One tensor given three times stays one: its projections are then one product.
            swapped = {id(t): t.transpose(0, 1) for t in (query, key, value)}
            query, key, value = (swapped[id(t)] for t in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if swap else output), weights

    def _attend_nested(
        self, query: Any, key: Any, value: Any, padding: Any, need_weights: bool, mask: Any
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Each component attends to itself; the weights are padded by zeros. AssertionError where PyTorch has no
        way for nested tensors."""
        why = self._why_not_nested(query, key, value, padding, mask)
        if why:
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not "
                f"hit because {why}"
            )
        pairs = [self(c, c, c, need_weights=need_weights) for c in query.unbind()]
        output = rushlight.nested.as_nested_tensor([o for o, _ in pairs])
        if not need_weights:
            return output, None
        return output, rushlight.nested.as_nested_tensor([w for _, w in pairs]).to_padded_tensor(0)

    def _why_not_nested(self, query: Any, key: Any, value: Any, padding: Any, mask: Any) -> str:
        """Why PyTorch's fast path does not take this nested tensor; "" where it does."""
        weights = (self.in_proj_weight, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias)
        tensors = [t for t in (query, *weights) if t is not None]
        reasons = {
            "non-self attention was used (query, key, and value are not the same Tensor)": (
                query is not key or key is not value
            ),
            "training is enabled": self.training,
            "self.num_heads is not even": self.num_heads % 2,
            "batch_first was not True": not self.batch_first,
            "self.bias_k was not None": self.bias_k is not None,
            "add_zero_attn was enabled": self.add_zero_attn,
            "_qkv_same_embed_dim was not True": not self._qkv_same_embed_dim,
            "in_proj_bias was None": self.in_proj_bias is None,
            "supplying both src_key_padding_mask and src_mask at the same time is not supported with NestedTensor "
            "input": padding is not None or mask is not None,
            "some Tensor argument has_torch_function": query.layout is rushlight.jagged,
            "grad is enabled and at least one of query or the input/output projection weights or biases "
            "requires_grad": rushlight.is_grad_enabled() and any(t.requires_grad for t in tensors),
        }
        return next((why for why, holds in reasons.items() if holds), "")


class SDPBackend(enum.IntEnum):
    """The names of PyTorch's attention kernels; Rushlight has one, `MATH`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    __str__ = enum.Enum.__str__


@stub("no-op", "Attention on the CPU has one kernel.")
@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Restrict attention to the named kernels inside the block; it has no effect, there is one kernel."""
    for backend in backends if isinstance(backends, (list, tuple)) else [backends]:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(
                f"sdpa_kernel expects SDPBackend or a list of them, got {backend!r}"
            )
    yield
