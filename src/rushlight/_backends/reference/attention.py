"""Kernels of scaled dot product attention: scores of a few heads at a time, in the cache.

query [N, H, L, E], key [N, H, S, E], value [N, H, S, V]; the mask, if any, is broadcast to
[N, H, L, S] and added. Half types are computed in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference.reduce import upcast

if TYPE_CHECKING:
    from rushlight._backends.protocol.array import Array

KERNELS = "attention attention_gradients".split()

BLOCK = 1 << 17  # elements of the scores that are worked on at a time
_max: Any = np.maximum.reduce
_add: Any = np.add.reduce


def pieces(n: int, heads: int, size: int) -> list:
    """Slices of samples and heads whose `size` scores each make about one block."""
    if heads * size <= BLOCK:
        step = max(1, BLOCK // max(heads * size, 1))
        return [(slice(i, i + step), slice(None)) for i in range(0, n, step)]
    step = max(1, BLOCK // max(size, 1))
    return [(slice(i, i + 1), slice(h, h + step)) for i in range(n) for h in range(0, heads, step)]


def hidden(rows: slice, length: int, columns: int) -> np.ndarray:
    """Which keys come after each query of `rows`: those a causal mask hides."""
    last = min(rows.stop, length)
    return np.arange(columns) > np.arange(rows.start, last)[:, None]


def for_all_heads(a: Any, query: Any) -> Any:
    """Keys or values for each head of the query, where several share one."""
    heads = query.shape[1]
    return a if a.shape[1] == heads else np.repeat(a, heads // a.shape[1], 1)


def by_shared_heads(g: Any, a: Any) -> Any:
    """The gradient by `a` from that by `for_all_heads(a)`."""
    if g is None or g.shape == a.shape:
        return g
    wide = upcast(g).reshape(*a.shape[:2], g.shape[1] // a.shape[1], *a.shape[2:])
    return wide.sum(2).astype(a.dtype, copy=False)


def attention(
    query: Any, key: Any, value: Any, mask: Array | None, causal: bool, scale: float, keep: bool
) -> tuple[Any, Any]:
    """(softmax(query keyᵀ scale + mask) value, the softmax if `keep`); rows that see nothing are 0."""
    key, value = for_all_heads(key, query), for_all_heads(value, query)
    q, k, v = upcast(query), upcast(key), upcast(value)
    n, heads, length = q.shape[:3]
    s = k.shape[2]
    if v.shape[3] == q.shape[3] and 0 not in q.strides:
        # laid out in memory as the query is, where its rows are without gaps
        out = np.empty_like(q) if q.strides[-1] == q.itemsize else np.empty(q.shape, q.dtype)
    else:
        out = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
    weights = np.empty((n, heads, length, s), q.dtype) if keep else None
    if not out.size or not s:
        out[...] = 0
        return out.astype(query.dtype, copy=False), weights
    q = q * q.dtype.type(scale)
    whole = length * s <= BLOCK or keep
    step = length if whole else max(64, BLOCK // s)
    added = None if mask is None else np.broadcast_to(upcast(mask), (n, heads, length, s))
    for at in pieces(n, heads, step * s):
        transposed = k[at].swapaxes(-1, -2)
        for i in range(0, length, step):
            rows = slice(i, i + step)
            piece = (*at, rows)
            p = np.matmul(q[piece], transposed, out=None if weights is None else weights[piece])
            if added is not None:
                p += added[piece]
            if causal:
                np.copyto(p, -np.inf, where=hidden(rows, length, s))
            top = _max(p, -1, None, None, True)
            if mask is not None:
                top[np.isneginf(top)] = 0  # nothing to see: exp(-inf - 0) is 0, not NaN
            p -= top
            np.exp(p, out=p)
            total = _add(p, -1, None, None, True)
            if mask is not None:
                total[total == 0] = 1
            if keep:
                p /= total
                np.matmul(p, v[at], out=out[piece])
            else:
                r = np.matmul(p, v[at])
                r /= total
                out[piece] = r
    return out.astype(query.dtype, copy=False), weights


def attention_gradients(
    g: Any, query: Any, key: Any, value: Any, mask: Array | None, causal: bool, result: Any, weights: Any,
    scale: float, needs: tuple,
) -> tuple:  # fmt: skip
    """The gradients of `attention` by query, key, value and (in full shape) mask.

    `result` and `weights` are what `attention` gave.
    """
    if key.shape[1] != query.shape[1]:
        k, v = for_all_heads(key, query), for_all_heads(value, query)
        found = attention_gradients(g, query, k, v, mask, causal, result, weights, scale, needs)
        return (
            found[0],
            by_shared_heads(found[1], key),
            by_shared_heads(found[2], value),
            found[3],
        )
    q, k, v, h = upcast(query), upcast(key), upcast(value), upcast(g)
    gq, gk, gv = np.empty_like(q), np.empty_like(k), np.empty_like(v)
    to_mask = np.empty(weights.shape, weights.dtype) if needs[3] else None
    scores = needs[0] or needs[1] or needs[3]
    for at in pieces(*q.shape[:2], weights.shape[2] * weights.shape[3]):
        p = weights[at]
        if needs[2]:
            np.matmul(p.swapaxes(-1, -2), h[at], out=gv[at])
        if not scores:
            continue
        d = np.matmul(h[at], v[at].swapaxes(-1, -2))
        d -= np.vecdot(d, p)[..., None]
        d *= p
        if to_mask is not None:
            to_mask[at] = d
        d *= d.dtype.type(scale)
        if needs[0]:
            np.matmul(d, k[at], out=gq[at])
        if needs[1]:
            np.matmul(d.swapaxes(-1, -2), q[at], out=gk[at])
    # What is not needed holds anything, which may not fit into a half type.
    found = (gq, gk, gv)
    types = (query.dtype, key.dtype, value.dtype)
    return (
        *(
            x.astype(t, copy=False) if n else None
            for x, t, n in zip(found, types, needs[:3], strict=True)
        ),
        to_mask,
    )
