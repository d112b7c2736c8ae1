"""Kernels of normalisation: statistics, normalised values and gradients, few passes over memory.

Half types are computed in float32. What takes several passes runs over blocks of rows (or channels)
that stay in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference.layout import channels_last, in_format, with_strides
from rushlight._backends.reference.reduce import sum, upcast
from rushlight.core import geometry

if TYPE_CHECKING:
    from rushlight._backends.protocol.array import Array

KERNELS = (
    "batch_norm batch_norm_gradients group_norm group_norm_gradients l2_norm layer_norm layer_norm_with_statistics "
    "layer_norm_gradients rms_norm rms_norm_gradients update_running_stats"
).split()

BLOCK = 1 << 16  # elements of a block: its temporaries stay in the cache
_add: Any = np.add.reduce


def blocks(n: int, size: int) -> Any:
    """Slices of range(n) whose rows of `size` elements make about one block."""
    step = max(1, BLOCK // max(size, 1))
    return [slice(i, i + step) for i in range(0, n, step)]


def wide_flat(a: Any) -> Any:
    """A weight as a row, halves as float32; None stays."""
    return None if a is None else upcast(a).reshape(-1)


def as_weight(v: Any, weight: Any, a: Any) -> Any:
    """A gradient of parameters in their dtype, which without a weight is the input's."""
    return None if v is None else v.astype((a if weight is None else weight).dtype, copy=False)


def laid_out(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    """`y` in the memory format that `a` suggests."""
    return in_format(y, a)


def centred(x: np.ndarray, eps: float, out: Any = None) -> tuple[Any, Any, Any]:
    """(x - mean, mean, 1 / sqrt(variance + eps)) of the rows of x."""
    n = x.shape[1]
    m = _add(x, 1)
    m /= n
    c = np.subtract(x, m[:, None], out=out)
    r = np.vecdot(c, c)
    r /= n
    r += eps
    np.sqrt(r, out=r)
    return c, m, np.reciprocal(r, out=r)


# -- layer normalisation: statistics of rows, weights of columns -----------------------------------


def layer_norm(a: Any, weight: Array | None, bias: Array | None, n: int, eps: float) -> Any:
    """Rows of `n` elements, normalised."""
    return layer_norm_with_statistics(a, weight, bias, n, eps)[0]


def layer_norm_with_statistics(
    a: Any, weight: Array | None, bias: Array | None, n: int, eps: float
) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of rows of `n` elements."""
    x = np.ascontiguousarray(upcast(a)).reshape(-1, n) if n else upcast(a).reshape(a.shape[0], 0)
    w, b = wide_flat(weight), wide_flat(bias)
    y = np.empty(x.shape, x.dtype)
    mean, rstd = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    for k in blocks(*x.shape):
        c, mean[k], r = centred(x[k], eps, y[k])
        rstd[k] = r
        c *= r[:, None]
        if w is not None:
            c *= w
        if b is not None:
            c += b
    return y.reshape(a.shape).astype(a.dtype, copy=False), mean, rstd


def layer_norm_gradients(
    g: Any, a: Any, weight: Array | None, n: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of layer_norm by input, weight and bias; None where not needed."""
    if not n:
        flat = a.ravel() if weight is None else weight.ravel()
        return a if needs[0] else None, flat if needs[1] else None, flat if needs[2] else None
    x = np.ascontiguousarray(upcast(a)).reshape(-1, n)
    g = np.ascontiguousarray(upcast(g)).reshape(-1, n)
    w = wide_flat(weight)
    gx = np.empty(x.shape, x.dtype) if needs[0] else None
    gw = np.zeros(n, x.dtype) if needs[1] else None
    gb = np.zeros(n, x.dtype) if needs[2] else None
    for k in blocks(*x.shape):
        h = g[k]
        if gb is not None:
            gb += _add(h, 0)
        if gx is None and gw is None:
            continue
        c, _, r = centred(x[k], eps)
        c *= r[:, None]
        t = h * c
        if gw is not None:
            gw += _add(t, 0)
        if gx is not None:
            out = gx[k]
            mean, slope = (_add(h, 1), _add(t, 1)) if w is None else (h @ w, t @ w)
            c *= (slope / n)[:, None]
            c += (mean / n)[:, None]
            if w is None:
                np.subtract(h, c, out=out)
            else:
                np.multiply(h, w, out=out)
                out -= c
            out *= r[:, None]
    if gx is not None:
        gx = gx.reshape(a.shape).astype(a.dtype, copy=False)
    return gx, as_weight(gw, weight, a), as_weight(gb, weight, a)


def rms_norm(a: Any, weight: Array | None, n: int, eps: float) -> Any:
    """Rows of `n` elements over the square root of the mean of their squares."""
    x = np.ascontiguousarray(upcast(a)).reshape(-1, n) if n else upcast(a).reshape(a.shape[0], 0)
    y = x * rms_scale(x, eps)
    if weight is not None:
        y *= wide_flat(weight)
    return y.reshape(a.shape).astype(a.dtype, copy=False)


def rms_scale(x: np.ndarray, eps: float) -> Any:
    """1 / sqrt(mean of squares + eps) of rows, as a column."""
    r = np.vecdot(x, x)
    r /= max(x.shape[1], 1)
    r += eps
    return (1 / np.sqrt(r))[:, None]


def rms_norm_gradients(
    g: Any, a: Any, weight: Array | None, n: int, eps: float, needs: tuple
) -> tuple[Any, Any]:
    """The gradients of rms_norm by input and weight; None where not needed."""
    x = np.ascontiguousarray(upcast(a)).reshape(-1, n)
    h = np.ascontiguousarray(upcast(g)).reshape(-1, n)
    r = rms_scale(x, eps)
    c = x * r
    gw = as_weight(_add(h * c, 0), weight, a) if needs[1] else None
    if not needs[0]:
        return None, gw
    if weight is not None:
        h = h * wide_flat(weight)
    c *= (np.vecdot(h, c) / n)[:, None]
    gx = (h - c) * r
    return gx.reshape(a.shape).astype(a.dtype, copy=False), gw


# -- group normalisation: statistics of rows, weights of channels ----------------------------------


def group_norm(
    a: Any,
    weight: Array | None,
    bias: Array | None,
    groups: int,
    eps: float,
    statistics: bool = True,
) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of `groups` groups of the channels of (N, C, *); without
    `statistics` the last two may be None."""
    n, channels = a.shape[:2]
    each, size = channels // groups, a.size // max(n * groups, 1)
    x = np.ascontiguousarray(upcast(a)).reshape(n * groups, size)
    w, b = (
        (v if v is None else v.reshape(groups, each)) for v in (wide_flat(weight), wide_flat(bias))
    )
    y = np.empty(x.shape, x.dtype)
    mean, rstd = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    group = np.arange(n * groups) % groups
    for k in blocks(*x.shape):
        c, mean[k], r = centred(x[k], eps, y[k])
        rstd[k] = r
        planes = c.reshape(len(c), each, -1) if c.size else c[:, :, None]
        if w is None:
            c *= r[:, None]
        else:
            planes *= (r[:, None] * w[group[k]])[:, :, None]
        if b is not None and c.size:
            planes += b[group[k]][:, :, None]
    return (
        laid_out(y.reshape(a.shape).astype(a.dtype, copy=False), a),
        mean.reshape(n, groups),
        rstd.reshape(n, groups),
    )


def group_norm_gradients(
    g: Any, a: Any, weight: Array | None, groups: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of group_norm by input, weight and bias."""
    n, channels = a.shape[:2]
    each, size = channels // groups, a.size // max(n * groups, 1)
    x = np.ascontiguousarray(upcast(a)).reshape(n * groups, size)
    h = np.ascontiguousarray(upcast(g)).reshape(n * groups, each, size // max(each, 1))
    w = wide_flat(weight)
    scale = np.ones((groups, each), x.dtype) if w is None else w.reshape(groups, each)
    group = np.arange(n * groups) % groups
    gx = np.empty(h.shape, x.dtype) if needs[0] else None
    sums, slopes = np.empty(h.shape[:2], x.dtype), np.empty(h.shape[:2], x.dtype)
    for k in blocks(*x.shape):
        c, _, r = centred(x[k], eps)
        c *= r[:, None]
        planes = c.reshape(h[k].shape)
        sums[k], slopes[k] = _add(h[k], 2), np.vecdot(h[k], planes)
        if gx is not None:
            s = scale[group[k]]
            mean, slope = np.vecdot(s, sums[k]), np.vecdot(s, slopes[k])
            np.multiply(h[k], (s * r[:, None])[:, :, None], out=gx[k])
            planes *= (slope * r / size)[:, None, None]
            planes += (mean * r / size)[:, None, None]
            gx[k] -= planes
    gw = _add(slopes.reshape(n, channels), 0) if needs[1] else None
    gb = _add(sums.reshape(n, channels), 0) if needs[2] else None
    if gx is not None:
        gx = laid_out(gx.reshape(a.shape).astype(a.dtype, copy=False), a)
    return gx, as_weight(gw, weight, a), as_weight(gb, weight, a)


# -- batch normalisation: statistics and weights of channels ---------------------------------------


def by_channel(a: np.ndarray) -> np.ndarray:
    """(N, C, *) as [N, C, L], or as [rows, C] where channels are next to each other in memory."""
    if a.ndim == 2:
        return a
    if a.size == a.shape[0] * a.shape[1] or channels_last(a):
        return np.moveaxis(a, 1, -1).reshape(-1, a.shape[1])
    return np.ascontiguousarray(a).reshape(a.shape[0], a.shape[1], -1 if a.size else 0)


def restored(r: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What `by_channel` made of an array like `a` in the shape and dtype of `a`."""
    r = r.astype(a.dtype, copy=False)
    if r.ndim == 2 and a.ndim > 2:
        last = np.moveaxis(a, 1, -1)
        return np.moveaxis(r.reshape(last.shape), -1, 1)
    return r.reshape(a.shape)


def channels_in_order(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What is made of `a` by normalising its channels: these come last where they do in `a`, also where a dimension
    of 1 lets `a` suggest another memory format; else it is in the format that `a` suggests."""
    if a.ndim < 6 and channels_last(a):
        return with_strides(y, geometry.channels_last_strides(a.shape))
    return in_format(y, a)


def channel_sums(x: np.ndarray) -> Any:
    return sum(x, 0, False) if x.ndim == 2 else _add(_add(x, 2), 0)


def channel_products(x: np.ndarray, y: np.ndarray) -> Any:
    return sum(x * y, 0, False) if x.ndim == 2 else _add(np.vecdot(x, y), 0)


def spread_out(v: Any, x: np.ndarray) -> Any:
    return v if x.ndim == 2 else v[:, None]


def channel_blocks(x: np.ndarray) -> Any:
    """Blocks of channels of [N, C, L]; [rows, C] is one block."""
    if x.ndim == 2:
        return [(slice(None), slice(None))]
    return [(slice(None), k) for k in blocks(x.shape[1], x.shape[0] * x.shape[2])]


def batch_norm(
    a: Any, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None, training: bool, eps: float,
    given: bool = False, added: Array | None = None, rectified: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(normalised, mean, biased variance); the statistics are those given unless `training`. `given`: where
    they are those of the batch they may be written to `mean` and `var`. To what is normalised `added` is added, and
    negative results become 0 where it is to be `rectified`."""
    x = by_channel(upcast(a))
    w, b = wide_flat(weight), wide_flat(bias)
    if not training:
        m, v = upcast(mean), upcast(var)
        scale = 1 / np.sqrt(v + eps)
        scale = scale if w is None else scale * w
        shift = -m * scale if b is None else b - m * scale
        y = x * spread_out(scale.astype(x.dtype, copy=False), x)
        y += spread_out(shift.astype(x.dtype, copy=False), x)
        return finished(channels_in_order(restored(y, a), a), added, rectified), m.copy(), v.copy()
    y = np.empty(x.shape, x.dtype)
    m, v = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
    n = x.size // max(x.shape[1], 1)
    for k in channel_blocks(x):
        c, block = k[1], x[k]
        m[c] = channel_sums(block) / n
        out = np.subtract(block, spread_out(m[c], x), out=y[k])
        v[c] = channel_products(out, out) / n
        scale = 1 / np.sqrt(v[c] + eps)
        out *= spread_out(scale if w is None else scale * w[c], x)
        if b is not None:
            out += spread_out(b[c], x)
    return finished(channels_in_order(restored(y, a), a), added, rectified), m, v


def finished(y: Any, added: Any, rectified: bool) -> Any:
    """What `batch_norm` makes of what is normalised."""
    if added is not None:
        y = y + added
    return np.maximum(y.dtype.type(0), y) if rectified else y


def batch_norm_gradients(
    g: Any,
    a: Any,
    weight: Array | None,
    mean: Any,
    var: Any,
    training: bool,
    eps: float,
    needs: tuple,
    result: Any = None,
) -> tuple[Any, Any, Any]:
    """The gradients of batch_norm by input, weight and bias. `result`: what it gave where that was rectified."""
    if result is not None:
        g = np.where(result <= 0, g.dtype.type(0), g)
    x, h = by_channel(upcast(a)), by_channel(upcast(g))
    if h.ndim != x.ndim:
        h = (
            np.ascontiguousarray(np.moveaxis(upcast(g), 1, -1)).reshape(x.shape)
            if x.ndim == 2
            else (np.ascontiguousarray(upcast(g)).reshape(x.shape))
        )
    w = wide_flat(weight)
    r = (1 / np.sqrt(upcast(var) + eps)).astype(x.dtype, copy=False)
    mean = upcast(mean)
    n = x.size // max(x.shape[1], 1)
    gx = np.empty(x.shape, x.dtype) if needs[0] else None
    gw, gb = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
    for k in channel_blocks(x):
        c = k[1]
        if training or needs[1] or needs[2]:
            gb[c] = channel_sums(h[k])
        if training or needs[1]:
            z = x[k] - spread_out(mean[c], x)
            gw[c] = channel_products(h[k], z) * r[c]
        if gx is None:
            continue
        scale = r[c] if w is None else r[c] * w[c]
        if training:
            z *= spread_out(gw[c] * r[c] / n, x)
            z += spread_out(gb[c] / n, x)
            np.subtract(h[k], z, out=gx[k])
            gx[k] *= spread_out(scale, x)
        else:
            np.multiply(h[k], spread_out(scale, x), out=gx[k])
    gx = None if gx is None else in_format(restored(gx, a), a)
    return gx, as_weight(gw, weight, a), as_weight(gb, weight, a)


def update_running_stats(
    running_mean: Any, running_var: Any, mean: Any, var: Any, by: float, unbiased: float
) -> None:
    """Running statistics go `by` of the way to those of a batch, the variance times `unbiased`."""
    for running, found, share in ((running_mean, mean, by), (running_var, var, by * unbiased)):
        running[...] = upcast(running) * (1 - by) + upcast(found) * share


def l2_norm(a: np.ndarray, axis: int | tuple[int, ...] | None, keepdims: bool) -> Any:
    """The square roots of the sums of squares along an axis, some or all (None)."""
    if axis is None and a.flags.c_contiguous and not keepdims and a.itemsize > 2:
        flat = a.reshape(-1)
        return np.sqrt(flat.dot(flat))  # one pass, in BLAS
    x = upcast(a)
    return np.asarray(np.sqrt(_add(x * x, axis, None, None, keepdims))).astype(a.dtype, copy=False)
