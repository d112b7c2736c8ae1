"""Attention: the weighted mean of values, weighted by how queries and keys agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight._backends import cpu as xp
from rushlight.autograd.state import thread
from rushlight.core import geometry, settings
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.linalg.matmul import linear
from rushlight.ops.nn.dropout import dropout
from rushlight.ops.nn.pad import pad

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def weights_in_operators(query: Any, key: Any, mask: Any, causal: bool, scale: float) -> Any:
    """softmax(query keyᵀ scale + mask), 0 in rows that see nothing."""
    from rushlight.ops.nn.softmax import softmax

    scores = (query * scale) @ key.mT
    if mask is not None:
        scores = scores + mask
    if causal:
        seen = scores.new_ones(scores.shape[-2:]).tril() != 0
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is None:
        return softmax(scores, -1)
    fully_masked = (scores == -math.inf).all(-1, keepdim=True)
    # Filled before as well: the gradient of softmax multiplies by its result, and 0 times nan is nan.
    return softmax(scores.masked_fill(fully_masked, 0), -1).masked_fill(fully_masked, 0)


@op(
    name="_attention", node="ScaledDotProductFlashAttentionForCpuBackward0", method=False, out=False,
    intermediates=("weights",),
)  # fmt: skip
def attend(
    xp, query: Array, key: Array, value: Array, mask: Array | None, causal: bool, scale: float,
    keep: bool,
):  # fmt: skip
    """softmax(query keyᵀ scale + mask) value, of four dimensions; key and value may have fewer heads.

    Intermediate: the softmax, or the logarithms of its divisors, as the kernel of the gradients needs it.
    """
    return xp.attention(query, key, value, mask, causal, scale, keep)


def attend_rule(g, query, key, value, mask, causal, scale, needs):
    k, v = shared_heads(query, key), shared_heads(query, value)
    weights = weights_in_operators(query, k, mask, causal, scale)
    gv = sum_of_shared(weights.mT @ g, value) if needs[2] else None
    d = g @ v.mT
    d = weights * (d - (d * weights).sum(-1, keepdim=True))
    gq = d @ k * scale if needs[0] else None
    gk = sum_of_shared(d.mT @ query * scale, key) if needs[1] else None
    gm = d.sum_to_size(mask.shape).to(mask.dtype) if needs[3] else None
    return gq, gk, gv, gm


def attend_gradients(
    xp, g, query, key, value, mask, causal, scale, result, weights, needs
):  # fmt: skip
    *found, gm = xp.attention_gradients(
        g, query, key, value, mask, causal, result, weights, scale, needs
    )
    if gm is None:
        return *found, None
    return *found, xp.cast(gm if gm.shape == mask.shape else xp.sum_to(gm, mask.shape), mask.dtype)


def sum_of_shared(g: Any, t: Any) -> Any:
    """The gradient by heads that several heads of the query used."""
    return g if g.shape == t.shape else g.unflatten(1, (t.shape[1], -1)).sum(2)


attend.grad_all(attend_rule, kernel=attend_gradients)


def check_attention(query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout_p: float) -> None:
    """RuntimeError where dtypes, dimensions, mask or dropout of an attention do not go together."""
    if not query.dtype is key.dtype is value.dtype:
        names = [xp.c_name(t._array) for t in (query, key, value)]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} "
            "and value.dtype: {} instead.".format(*names)
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype.is_floating_point:
        if query.dtype.is_complex:
            kind = query.dtype.scalar_name
            raise NotImplementedError(
                f"\"softmax_lastdim_kernel_impl\" not implemented for '{kind}'"
            )
        raise RuntimeError(f"expected scalar type Float but found {query.dtype.scalar_name}")
    if mask is not None and mask.dtype.name not in ("bool", "float32", query.dtype.name):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {xp.c_name(mask._array)} and  query.dtype: {xp.c_name(query._array)} "
            "instead."
        )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")


def check_causal(query: Any, key: Any, value: Any, mask: Any, dropout_p: float) -> None:
    """RuntimeError for a mask beside `is_causal`, which only PyTorch's fused kernel takes."""
    from rushlight.backends import cuda

    fused = (
        query.ndim == key.ndim == value.ndim == 4
        and mask.ndim in (2, 4)
        and not dropout_p
        and all(t.stride(-1) == 1 and not t.is_meta for t in (query, key, value))
        and cuda.flash_sdp_enabled()
    )
    if not fused:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )


@composite(where="nn.functional", inplace=False)
def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
):  # fmt: skip
    """softmax(query keyᵀ scale + attn_mask) value (Vaswani 2017).

    query [..., L, E], key [..., S, E], value [..., S, V] -> [..., L, V]. `attn_mask`: added, or of
    dtype bool: False hides; broadcast to [..., L, S]. `is_causal`: a query sees the keys up to its own
    place. `scale`: None is 1 / sqrt(E). `enable_gqa`: key and value have fewer heads, each is used by
    several of the query's.

    >>> import rushlight as torch
    >>> q = k = torch.zeros(1, 2)
    >>> torch.nn.functional.scaled_dot_product_attention(q, k, torch.tensor([[3.0, 4.0]]))
    tensor([[3., 4.]])
    """
    q, k, v = query._array, key._array, value._array
    shape = q.shape
    if (
        attn_mask is None
        and len(shape) == 4
        and not dropout_p
        and shape[3]
        and (k.shape[:2] == v.shape[:2] == shape[:2] or enable_gqa and heads_go(shape, k, v))
        and k.shape[2:3] == v.shape[2:3]
        and k.shape[3:] == shape[3:]
        and q.dtype is k.dtype is v.dtype
        and q.dtype.kind in "fV"
        and v.ndim == 4
    ):  # the usual case
        if scale is None:
            scale = shape[3] ** -0.5
        return attend(query, key, value, None, is_causal, scale)
    check_attention(query, key, value, attn_mask, dropout_p)
    if is_causal and attn_mask is not None:
        check_causal(query, key, value, attn_mask, dropout_p)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if enable_gqa:
        key, value = shared_heads(query, key), shared_heads(query, value)
    if attn_mask is not None and attn_mask.dtype.name == "bool":
        shown = attn_mask
        attn_mask = query.new_zeros(shown.shape).masked_fill_(~shown, -math.inf)
    if dropout_p:
        weights = weights_in_operators(query, key, attn_mask, is_causal, scale)
        return dropout(weights, dropout_p, True) @ value
    lead = query.shape[:-2]
    if not lead == key.shape[:-2] == value.shape[:-2]:
        lead = geometry.broadcast_shapes(lead, key.shape[:-2], value.shape[:-2])
        query, key, value = (t.expand(*lead, *t.shape[-2:]) for t in (query, key, value))
    for n, m in ((query.shape[-1], key.shape[-1]), (key.shape[-2], value.shape[-2])):
        if n != m:
            batch = math.prod(lead)
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {n}] but "
                f"got: [{batch}, {m}]."
            )
    if attn_mask is not None:
        attn_mask = mask_for(attn_mask, (*lead, query.shape[-2], key.shape[-2]))
    if len(lead) != 2:
        query, key, value = (four_dimensions(t) for t in (query, key, value))
    result = attend(query, key, value, attn_mask, is_causal, scale)
    if len(lead) != 2:
        return result.reshape(*lead, *result.shape[-2:])
    return result


def heads_go(shape: tuple, k: Any, v: Any) -> bool:
    """Whether several heads of a query of four dimensions share those of key and value."""
    own = k.shape[1:2] == v.shape[1:2] and k.shape[:1] == v.shape[:1] == shape[:1]
    return own and k.shape[1] > 0 and shape[1] % k.shape[1] == 0


def four_dimensions(t: Tensor) -> Tensor:
    """[..., L, E] as [N, H, L, E]."""
    if t.ndim < 4:
        return t[(None,) * (4 - t.ndim)]
    return t.reshape(-1, *t.shape[-3:])


def mask_for(mask: Tensor, shape: tuple) -> Tensor:
    """The mask in four dimensions, sizes 1 where it is the same; RuntimeError if it does not fit."""
    if geometry.broadcast_shapes(shape, mask.shape) != shape:
        raise RuntimeError(
            f"The expanded size of the tensor ({shape}) does not fit the mask of shape {list(mask.shape)}"
        )
    if len(shape) > 4:
        return mask.expand(shape).reshape(-1, *shape[-3:])
    return mask[(None,) * (4 - mask.ndim)]


def shared_heads(query: Tensor, t: Tensor) -> Tensor:
    """Each head of `t` repeated for the heads of the query that use it."""
    heads, own = query.shape[-3], t.shape[-3]
    if own == 0 or heads % own:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{own} and {heads}"
        )
    return t if heads == own else t.repeat_interleave(heads // own, -3)


# -- several heads ---------------------------------------------------------------------------------


def self_attention(
    x: Any, heads: int, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any, mask: Any,
    padding: Any, dropout_p: float, is_causal: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """`multi_head_attention_forward` of one tensor with itself, without the weights; None where a mask is
    of a kind that it is left to that.

    x [N, L, E] with `batch_first`, else [L, N, E]. The heads stay where the projection left them. A
    result that is recorded has strides as if it came from [L, N, E], as PyTorch's.
    """
    n, length, e = x.shape if batch_first else (x.shape[1], x.shape[0], x.shape[2])
    if is_causal and padding is None:
        if mask is None:
            return None
        mask = None  # the hint stands for the mask
    else:
        is_causal = False
    for t, shape in ((mask, (length, length)), (padding, (n, length))):
        if t is not None and (t._array.shape != shape or t.dtype is not x.dtype):
            if t._array.shape != shape or t.dtype.name != "bool":
                return None
    if mask is not None and padding is not None and mask.dtype is not padding.dtype:
        return None  # PyTorch warns
    if mask is not None:
        mask = additive(mask, "attn_mask", None, "", x.dtype, False)
    if padding is not None:
        padding = additive(padding, "key_padding_mask", None, "", x.dtype, False)
        padding = padding.view(n, 1, 1, length)
        mask = padding if mask is None else mask + padding
    parts = linear(x, in_weight, in_bias).chunk(3, -1)
    if batch_first:
        q, k, v = (t.view(n, length, heads, e // heads).transpose(1, 2) for t in parts)
    else:
        q, k, v = (t.view(length, n, heads, e // heads).permute(1, 2, 0, 3) for t in parts)
    result = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    if not batch_first:
        return linear(result.permute(2, 0, 1, 3).reshape(x.shape), out_weight, out_bias)
    if thread.grad and (x.requires_grad or in_weight.requires_grad):
        result = result.permute(2, 0, 1, 3).reshape(length, n, e)
        return linear(result, out_weight, out_bias).transpose(0, 1)
    return linear(result.transpose(1, 2).reshape(x.shape), out_weight, out_bias)


def check_shapes(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> bool:
    """Whether there is a batch; AssertionError where the dimensions do not go together."""

    def check(holds: bool, text: str) -> None:
        if not holds:
            raise AssertionError(text)

    if query.ndim not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.ndim}-D query tensor"
        )
    n = query.ndim
    kind = "batched (3-D)" if n == 3 else "unbatched (2-D)"
    check(
        key.ndim == n and value.ndim == n,
        f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.ndim}-D and "
        f"{value.ndim}-D tensors respectively",
    )
    if padding is not None:
        check(
            padding.ndim == n - 1,
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{padding.ndim}-D tensor instead",
        )
    if mask is not None:
        check(
            mask.ndim in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{mask.ndim}-D tensor instead",
        )
        if n == 2 and mask.ndim == 3:
            shape = (heads, query.shape[0], key.shape[0])
            check(
                mask.shape == shape,
                f"Expected `attn_mask` shape to be {shape} but got {mask.shape}",
            )
    return n == 3


def additive(mask: Any, name: str, other: Any, other_name: str, dtype: Any, warn: bool) -> Any:
    """A mask as numbers to add: True becomes -inf."""
    if mask is None:
        return None
    if mask.dtype.name != "bool" and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if warn and other is not None and mask.dtype is not other:
        settings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead."
        )
    if mask.dtype.is_floating_point:
        return mask
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill_(mask, -math.inf)


def projected(
    query: Any, key: Any, value: Any, weight: Any, bias: Any, separate: tuple | None
) -> tuple:
    """query, key and value through their projections; one product where they are one tensor."""
    e = query.shape[-1]
    if separate is None and key is value:
        if query is key:
            return linear(query, weight, bias).chunk(3, -1)
        parts = (None, None) if bias is None else bias.split([e, 2 * e])
        to_query, to_rest = weight.split([e, 2 * e])
        return (
            linear(query, to_query, parts[0]),
            *linear(key, to_rest, parts[1]).chunk(2, -1),
        )
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    weights = weight.chunk(3) if separate is None else separate
    return tuple(
        linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases, strict=True)
    )


def check_projections(
    key: Any, value: Any, e: int, expected: int, heads: int, weight: Any, separate: tuple | None
) -> int:
    """The size of a head; AssertionError where sizes and weights do not go together."""
    if e != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {e}")
    head = e // heads
    if head * heads != e:
        raise AssertionError(f"embed_dim {e} not divisible by num_heads {heads}")
    if separate is not None:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
        for name, w in zip("qkv", separate, strict=True):
            if w is None:
                raise AssertionError(
                    f"use_separate_proj_weight is True but {name}_proj_weight is None"
                )
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return head


def per_head(padding: Any, n: int, heads: int, s: int) -> Any:
    """A mask of keys [N, S], once for each head: [N * heads, 1, S]."""
    for at, want in ((0, n), (1, s)):
        if padding.shape[at] != want:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{at}] to be {want}, but got {padding.shape[at]}"
            )
    return padding.view(n, 1, 1, s).expand(-1, heads, -1, -1).reshape(n * heads, 1, s)


def attended_with_weights(
    q: Any, k: Any, v: Any, mask: Any, dropout_p: float, is_causal: bool, n: int, heads: int
) -> tuple[Any, Any]:
    """The result [L, N * heads, head], and the weights [N * heads, L, S] by which values were summed."""
    scores = q * math.sqrt(1.0 / q.shape[-1])
    scores = scores @ k.mT if mask is None else mask.baddbmm(scores, k.mT)
    weights = scores.softmax(-1)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p, True)
    return weights.bmm(v).transpose(0, 1), weights


def attended(
    q: Any, k: Any, v: Any, mask: Any, dropout_p: float, is_causal: bool, n: int, heads: int
) -> tuple[Any, None]:
    """The result [L, N, heads, head], by kernels that keep no weights."""
    if mask is not None:
        if mask.shape[0] == 1 and mask.ndim == 3:
            mask = mask.unsqueeze(0)
        else:
            mask = mask.view(n, heads, mask.shape[1], k.shape[1])
    q, k, v = (t.view(n, heads, *t.shape[1:]) for t in (q, k, v))
    result = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    return result.permute(2, 0, 1, 3), None


def of_three_dims(mask: Any, parts: int, length: int, s: int) -> Any:
    """A mask of scores as [1, L, S] or [N * heads, L, S]; RuntimeError for other shapes."""
    want = (length, s) if mask.ndim == 2 else (parts, length, s)
    if mask.shape != want:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {want}."
        )
    return mask.unsqueeze(0) if mask.ndim == 2 else mask


def with_biases(k: Any, v: Any, bias_k: Any, bias_v: Any, n: int, static: bool) -> tuple[Any, Any]:
    """Keys and values with one more, the biases, at their end."""
    import rushlight

    if bias_k is None or bias_v is None:
        raise AssertionError("bias_k and bias_v must be given together")
    if static:
        raise AssertionError("bias cannot be added to static key or value")
    return rushlight.cat([k, bias_k.repeat(1, n, 1)]), rushlight.cat([v, bias_v.repeat(1, n, 1)])


def longer(t: Any, extra: Any) -> Any:
    """`t` with more keys at its end."""
    import rushlight

    return rushlight.cat([t, extra], 1)


@composite(where="nn.functional", inplace=False)
def multi_head_attention_forward(
    query: Array, key: Array, value: Array, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Array | None, in_proj_bias: Array | None, bias_k: Array | None,
    bias_v: Array | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Array,
    out_proj_bias: Array | None, training: bool = True, key_padding_mask: Array | None = None,
    need_weights: bool = True, attn_mask: Array | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Array | None = None,
    k_proj_weight: Array | None = None, v_proj_weight: Array | None = None,
    static_k: Array | None = None, static_v: Array | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
):  # fmt: skip
    """Attention in `num_heads` parts of the embedding, projected before and after (Vaswani 2017).

    query [L, N, E] or [L, E], key and value [S, N, E]; returns [L, N, E] and the weights [N, L, S]
    (averaged over the heads, else [N, heads, L, S]), or None without `need_weights`.
    """
    batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        one = {id(t): t.unsqueeze(1) for t in (query, key, value)}
        query, key, value = (one[id(t)] for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, n, e = query.shape
    mask_dtype = None if attn_mask is None else attn_mask.dtype
    key_padding_mask = additive(
        key_padding_mask, "key_padding_mask", mask_dtype, "attn_mask", query.dtype, True
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint stands for the mask
    else:
        attn_mask = additive(attn_mask, "attn_mask", None, "", query.dtype, False)
        if key_padding_mask is not None:
            is_causal = False
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    head = check_projections(key, value, e, embed_dim_to_check, num_heads, in_proj_weight, separate)
    q, k, v = projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    if attn_mask is not None:
        attn_mask = of_three_dims(attn_mask, n * num_heads, length, key.shape[0])

    def heads_first(t: Any) -> Any:
        return t.reshape(t.shape[0], n * num_heads, head).transpose(0, 1)

    added_keys = 0
    if bias_k is not None or bias_v is not None:
        k, v = with_biases(k, v, bias_k, bias_v, n, static_k is not None or static_v is not None)
        added_keys = 1
    q = heads_first(q)
    k = heads_first(k) if static_k is None else static_head(static_k, n * num_heads, head, "k")
    v = heads_first(v) if static_v is None else static_head(static_v, n * num_heads, head, "v")
    if add_zero_attn:
        k = longer(k, k.new_zeros((n * num_heads, 1, head)))
        v = longer(v, v.new_zeros((n * num_heads, 1, head)))
        added_keys += 1
    if added_keys:
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, added_keys))
        if key_padding_mask is not None:
            key_padding_mask = pad(key_padding_mask, (0, added_keys))
    s = k.shape[1]
    if key_padding_mask is not None:
        padding = per_head(key_padding_mask, n, num_heads, s)
        attn_mask = padding if attn_mask is None else attn_mask + padding
    if not training:
        dropout_p = 0.0
    attend = attended_with_weights if need_weights else attended
    result, weights = attend(q, k, v, attn_mask, dropout_p, is_causal, n, num_heads)
    result = linear(result.reshape(length * n, e), out_proj_weight, out_proj_bias)
    result = result.view(length, n, result.shape[1])
    if weights is not None:
        weights = weights.view(n, num_heads, length, s)
        if average_attn_weights:
            weights = weights.mean(1)
    if not batched:
        result = result.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return result, weights


def static_head(t: Any, n: int, head: int, name: str) -> Any:
    if t.shape[0] != n:
        raise AssertionError(f"expecting static_{name}.size(0) of {n}, but got {t.shape[0]}")
    if t.shape[2] != head:
        raise AssertionError(f"expecting static_{name}.size(2) of {head}, but got {t.shape[2]}")
    return t
