"""Attention in machine code; see `__init__.py` for when it runs, `_codegen/kernels/attention.py` for how.

What is taken: float32 and float64, and the half types, which are computed in float32 (bfloat16 forward in AMX tiles,
where there are some); heads of at most 128 elements, any strides. The second result of `attention` is the logarithm of each query's sum of
exponentials [N, H, L], not the weights.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import cast
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.strided import expand
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import attention as reference
from rushlight._codegen import product_sizes
from rushlight._codegen.kernels import attention as kernels
from rushlight._codegen.kernels import attention_tiles as tiled
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import BF16, F32, F64, REDUCED

LANES = 16  # of a vector of float32, where there are tiles
FAR = 1 << 40  # how far beyond its own place a query sees where it sees all


@cache
def kernel_of(kernel: Any, masked: bool, dtype: np.dtype) -> Any:
    """A kernel, compiled for this machine's tiles."""
    t = of(dtype)
    assert t is not None
    return kernel.compiled(MASK=masked, **product_sizes.gemm_sizes(t))


def rows_of(a: np.ndarray) -> np.ndarray:
    """`a`, or a copy of it, with the elements of rows side by side."""
    if a.strides[-1] == a.itemsize and a.flags.aligned:
        return a
    return in_order(a)


def like(a: np.ndarray, shape: tuple) -> np.ndarray:
    """A new array of a shape, laid out as `a` where that has the shape and its rows allow it."""
    if a.shape == shape and not a.flags.c_contiguous and 0 not in a.strides:
        out = np.empty_like(a)
        if out.strides[-1] == a.itemsize:
            return out
    return np.empty(shape, a.dtype)


def wide(a: Any) -> Any:
    """In float32."""
    return a if a is None or a.dtype is F32 else cast(a, F32)


def takes(*arrays: np.ndarray, dtypes: tuple = (F32, F64)) -> bool:
    """Whether query, key, value (and mask) are for machine code."""
    d = arrays[0].dtype
    if not any(d is each for each in dtypes):
        return False
    for a in arrays:
        if a.__class__ is not np.ndarray or a.ndim != 4 or a.dtype is not d or not a.size:
            return False
    q, k, v = (a.shape for a in arrays[:3])
    return bool(
        q[0] == k[0] == v[0]
        and k[1] == v[1]
        and q[1] % k[1] == 0
        and q[3] == k[3] <= kernels.WIDEST
        and v[3] <= kernels.WIDEST
        and k[2] == v[2]
    )


def belong(q: np.ndarray, v: np.ndarray, g: Any, result: Any, kept: Any) -> bool:
    """Whether a gradient, a result and its kept sums have the shapes of this query and value."""
    shape = (*q.shape[:3], v.shape[3])
    whole = kept.dtype is q.dtype and kept.flags.c_contiguous and kept.flags.aligned
    return whole and g.shape == result.shape == shape and kept.shape == shape[:3]


def mask_of(mask: Any, shape: tuple) -> np.ndarray:
    """A mask in full shape, by strides of 0, with the elements of rows side by side."""
    return expand(rows_of(expand(mask, (*mask.shape[:-1], shape[-1]))), shape)


@implements("attention")
def attention(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, keep: bool
) -> tuple[Any, Any]:
    """(softmax(query keyᵀ scale + mask) value, what the gradients need if `keep`)."""
    if query.dtype in REDUCED:
        if product_sizes.tiles() and in_tiles(query, key, value, mask):
            out, kept = attended(query, key, value, wide(mask), causal, scale)
        else:
            given = [wide(a) for a in (query, key, value, mask)]
            out, kept = attention(*given, causal, scale, True)
        return cast(out, query.dtype), kept if keep else None
    if not takes(query, key, value, *(() if mask is None else (mask,))):
        return reference.attention(query, key, value, mask, causal, scale, keep)
    out, sums = attended(query, key, value, mask, causal, scale)
    return out, sums if keep else None


def in_tiles(q: Any, k: Any, v: Any, mask: Any) -> bool:
    """Whether query, key and value of bfloat16 are for AMX tiles: their elements come in pairs."""
    if not takes(q, k, v, dtypes=(BF16,)) or q.shape[3] % 2:
        return False
    return mask is None or (mask.__class__ is np.ndarray and mask.ndim == 4 and bool(mask.size))


def pairs_of(a: np.ndarray) -> np.ndarray:
    """`rows_of`, whose rows are whole numbers of pairs apart."""
    a = rows_of(a)
    return in_order(a) if a.strides[0] % 4 or a.strides[1] % 4 or a.strides[2] % 4 else a


def attended(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    """The result, of bfloat16 in float32, and the logarithms of the sums of exponentials."""
    (n, heads, length), halves = q.shape[:3], q.dtype is BF16
    shape = (n, heads, length, v.shape[3])
    if halves:
        out = np.empty_like(like(q, shape), F32)
        q, k, v = pairs_of(q), pairs_of(k), rows_of(v)
        kernel = tiled.attention.compiled(MASK=mask is not None, L=LANES)
    else:
        out = like(q, shape)
        q, k, v = rows_of(q), rows_of(k), rows_of(v)
        kernel = kernel_of(kernels.attention, mask is not None, q.dtype)
    sums = np.empty((n, heads, length), out.dtype)
    added = out if mask is None else mask_of(mask, (n, heads, length, k.shape[2]))
    # Chunks of a head: each packs all keys, for at least two blocks of queries.
    down = max(1, min(8 // (n * heads), length // (2 * kernels.QUERIES)))
    kernel(q, k, v, added, out, np.empty_like(sums), sums, scale, 0 if causal else FAR, down)
    return out, sums


@implements("attention_gradients")
def attention_gradients(
    g: Any, query: Any, key: Any, value: Any, mask: Any, causal: bool, result: Any, kept: Any,
    scale: float, needs: tuple,
) -> tuple:  # fmt: skip
    """The gradients of `attention` by query, key, value and (in full shape) mask."""
    if query.dtype in REDUCED:
        given = [wide(a) for a in (g, query, key, value, mask)]
        found = attention_gradients(*given, causal, wide(result), kept, scale, needs)
        return (*(x if x is None else cast(x, query.dtype) for x in found[:3]), found[3])
    if kept.ndim == 3 and (
        needs[3]
        or not takes(query, key, value, result, g, *(() if mask is None else (mask,)))
        or not belong(query, value, g, result, kept)
    ):
        kept = reference.attention(query, key, value, mask, causal, scale, True)[1]
    if kept.ndim == 4:
        return reference.attention_gradients(
            g, query, key, value, mask, causal, result, kept, scale, needs
        )
    k, v = reference.for_all_heads(key, query), reference.for_all_heads(value, query)
    q, k, v, h, out = map(rows_of, (query, k, v, g, result))
    gq, gk, gv = like(query, q.shape), like(key, k.shape), like(value, v.shape)
    added = q if mask is None else mask_of(mask, (*q.shape[:3], k.shape[2]))
    kernel = kernel_of(kernels.gradients, mask is not None, q.dtype)
    kernel(
        h, q, k, v, added, out, kept, np.empty_like(kept), gq, gk, gv, scale, 0 if causal else FAR
    )
    found = (gq, reference.by_shared_heads(gk, key), reference.by_shared_heads(gv, value))
    return (*(x if need else None for x, need in zip(found, needs[:3], strict=True)), None)
