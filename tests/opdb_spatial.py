"""Rows of convolution, pooling, resampling, padding and sampling grids; references are loops over the places."""

from __future__ import annotations

import itertools
import math

import numpy as np

from opdb_rows import K, N, P, U, c, distinct, fixed, row, v

F = "nn.functional."


def every(value, n):
    return tuple(value) if isinstance(value, tuple | list) else (value,) * n


def conv(n):
    """Each output element is the sum of the products of a window and the weights of its group."""

    def reference(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        single = x.ndim == n + 1
        x = x[None] if single else x
        stride, dilation = every(stride, n), every(dilation, n)
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
            pads = [(t // 2, t - t // 2) for t in total]
        else:
            pads = [(p, p) for p in every(0 if padding == "valid" else padding, n)]
        x = np.pad(x, [(0, 0), (0, 0), *pads])
        spans = [
            (x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
            for i in range(n)
        ]
        out = np.zeros((len(x), len(w), *spans))
        each, outs = w.shape[1], len(w) // groups
        for g in range(groups):
            part, weights = x[:, g * each : (g + 1) * each], w[g * outs : (g + 1) * outs]
            for place in np.ndindex(*spans):
                at = [
                    slice(p * s, p * s + d * (k - 1) + 1, d)
                    for p, s, d, k in zip(place, stride, dilation, w.shape[2:])
                ]
                window = part[(slice(None), slice(None), *at)]
                axes = list(range(1, n + 2))
                out[(slice(None), slice(g * outs, (g + 1) * outs), *place)] = np.tensordot(
                    window, weights, (axes, axes)
                )
        out = out if bias is None else out + bias.reshape(-1, *[1] * n)
        return out[0] if single else out

    return reference


def conv_transpose(n):
    """Each input element adds its multiple of the weights to a window of the output."""

    def reference(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        stride, padding, more, dilation = (
            every(a, n) for a in (stride, padding, output_padding, dilation)
        )
        full = [
            (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1
            for i in range(n)
        ]
        out = np.zeros((len(x), w.shape[1] * groups, *[f + m for f, m in zip(full, more)]))
        ins, outs = x.shape[1] // groups, w.shape[1]
        for g in range(groups):
            for place in np.ndindex(*x.shape[2:]):
                at = [
                    slice(p * s, p * s + d * (k - 1) + 1, d)
                    for p, s, d, k in zip(place, stride, dilation, w.shape[2:])
                ]
                value = x[(slice(None), slice(g * ins, (g + 1) * ins), *place)]
                out[(slice(None), slice(g * outs, (g + 1) * outs), *at)] += np.tensordot(
                    value, w[g * ins : (g + 1) * ins], 1
                )
        cut = [slice(p, s - p) for p, s in zip(padding, out.shape[2:])]
        out = out[(slice(None), slice(None), *cut)]
        return out if bias is None else out + bias.reshape(-1, *[1] * n)

    return reference


def convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    n = w.ndim - 2
    if transposed:
        return conv_transpose(n)(x, w, b, stride, padding, output_padding, groups, dilation)
    return conv(n)(x, w, b, stride, padding, dilation, groups)


def conv_tbc(x, w, b, pad=0):
    return conv(1)(x.transpose(1, 2, 0), w.transpose(2, 1, 0), b, padding=pad).transpose(2, 0, 1)


def windows(x, n, kernel, stride, padding, dilation, ceil_mode, fill):
    """The windows of the last n dimensions: (place, window, how many elements of it are not past the padding)."""
    kernel = every(kernel, n)
    stride, padding, dilation = every(stride or kernel, n), every(padding, n), every(dilation, n)
    sizes, spans = x.shape[-n:], []
    for i in range(n):
        length = sizes[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1
        span = (-(-length // stride[i]) if ceil_mode else length // stride[i]) + 1
        spans.append(span - (ceil_mode and (span - 1) * stride[i] >= sizes[i] + padding[i]))
    reach = [(s - 1) * st + d * (k - 1) + 1 for s, st, d, k in zip(spans, stride, dilation, kernel)]
    pads = [(p, max(0, r - p - size)) for p, r, size in zip(padding, reach, sizes)]
    wide = np.pad(x, [(0, 0)] * (x.ndim - n) + pads, constant_values=fill)
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    numbers = np.pad(numbers, pads, constant_values=-1)
    found = []
    for place in np.ndindex(*spans):
        at = [
            slice(p * s, p * s + d * (k - 1) + 1, d)
            for p, s, d, k in zip(place, stride, dilation, kernel)
        ]
        inside = math.prod(
            min(p * s + k, size + 2 * pad) - p * s
            for p, s, k, size, pad in zip(place, stride, kernel, sizes, padding)
        )
        found.append(
            (
                wide[(Ellipsis, *at)].reshape(*x.shape[:-n], -1),
                inside,
                numbers[tuple(at)].reshape(-1),
            )
        )
    return found, spans


def max_pool(n, indices=False):
    def reference(
        x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ):
        found, spans = windows(x, n, kernel, stride, padding, dilation, ceil_mode, -np.inf)
        shape = (*x.shape[:-n], *spans)
        values = np.stack([w.max(-1) for w, _, _ in found], -1).reshape(shape)
        if not (indices or return_indices):
            return values
        return values, np.stack([places[w.argmax(-1)] for w, _, places in found], -1).reshape(shape)

    return reference


def avg_pool(n):
    def reference(
        x,
        kernel,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        found, spans = windows(x, n, kernel, stride, padding, 1, ceil_mode, 0.0)
        values = [
            w.sum(-1) / (divisor_override or (inside if count_include_pad else (places >= 0).sum()))
            for w, inside, places in found
        ]
        return np.stack(values, -1).reshape(*x.shape[:-n], *spans)

    return reference


def lp_pool(n):
    def reference(x, p, kernel, stride=None, ceil_mode=False):
        found, spans = windows(x, n, kernel, stride, 0, 1, ceil_mode, 0.0)
        return np.stack([(w**p).sum(-1) ** (1 / p) for w, _, _ in found], -1).reshape(
            *x.shape[:-n], *spans
        )

    return reference


def adaptive(n, kind):
    """Windows from floor(i * size / out) to ceil((i + 1) * size / out)."""

    def reference(x, out, return_indices=False):
        sizes = x.shape[-n:]
        out = [s if o is None else o for o, s in zip(every(out, n), sizes)]
        numbers = np.arange(math.prod(sizes)).reshape(sizes)
        values, places = [], []
        for place in np.ndindex(*out):
            at = tuple(
                slice(p * s // o, -(-(p + 1) * s // o)) for p, s, o in zip(place, sizes, out)
            )
            w = x[(Ellipsis, *at)].reshape(*x.shape[:-n], -1)
            values.append(w.mean(-1) if kind == "avg" else w.max(-1))
            places.append(numbers[at].reshape(-1)[w.argmax(-1)])
        shape = (*x.shape[:-n], *out)
        values, places = np.stack(values, -1).reshape(shape), np.stack(places, -1).reshape(shape)
        return (values, places) if kind == "indices" or return_indices else values

    return reference


def checks_fractional(result, x, kernel, output_size=None, *rest, **_):
    """Windows are placed at random: values are elements of the input, of the same channel."""
    indices = None
    if isinstance(result, tuple):
        result, indices = result
    n = x.ndim - 2
    assert result.shape == (*x.shape[:2], *every(output_size, n))
    flat = x.reshape(*x.shape[:2], -1)
    if indices is not None:
        np.testing.assert_array_equal(
            np.take_along_axis(flat, indices.reshape(*x.shape[:2], -1), -1).reshape(result.shape),
            result,
        )
    for b, ch in np.ndindex(*x.shape[:2]):
        assert np.isin(result[b, ch], x[b, ch]).all()


def max_unpool(n):
    def reference(x, indices, kernel, stride=None, padding=0, output_size=None):
        kernel = every(kernel, n)
        stride, padding = every(stride or kernel, n), every(padding, n)
        size = output_size or [
            (x.shape[2 + i] - 1) * stride[i] + kernel[i] - 2 * padding[i] for i in range(n)
        ]
        out = np.zeros((*x.shape[:2], math.prod(size)))
        np.put_along_axis(out, indices.reshape(*x.shape[:2], -1), x.reshape(*x.shape[:2], -1), -1)
        return out.reshape(*x.shape[:2], *size)

    return reference


# -- resampling: a matrix for each dimension ---------------------------------------------------------


def cubic(t, a=-0.75):
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def resampling(size, out, mode, corners, scale=None, antialias=False):
    """Row i: the weights of the inputs that output i is made of."""
    m = np.zeros((out, size))
    ratio = (size - 1) / max(out - 1, 1) if corners else (1 / scale if scale else size / out)
    for i in range(out):
        if mode == "nearest":
            m[i, min(int(i * ratio), size - 1)] = 1
            continue
        if antialias:
            wide = max(ratio, 1.0)
            reach = {"bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0}[mode] * wide
            at = (i + 0.5) * ratio
            places = np.arange(max(int(at - reach + 0.5), 0), min(int(at + reach + 0.5), size))
            away = (places - at + 0.5) / wide
            kernels = {
                "bilinear": lambda t: max(0.0, 1 - abs(t)),
                "bicubic": lambda t: cubic(t, -0.5),
                "lanczos": lambda t: np.sinc(t) * np.sinc(t / 3) if abs(t) < 3 else 0.0,
            }
            w = [kernels[mode](t) for t in away]
            m[i, places] = w / np.sum(w)
            continue
        if mode == "nearest-exact":
            m[i, min(int((i + 0.5) * ratio), size - 1)] = 1
            continue
        at = i * ratio if corners else (i + 0.5) * ratio - 0.5
        if mode == "bicubic":
            first = math.floor(at)
            for j in range(first - 1, first + 3):
                m[i, min(max(j, 0), size - 1)] += cubic(at - j)
            continue
        at = max(at, 0.0)
        low = min(int(at), size - 1)
        m[i, low] += 1 - (at - low)
        m[i, min(low + 1, size - 1)] += at - low
    return m


def interpolate(
    x, size=None, scale_factor=None, mode="nearest", align_corners=False, antialias=False
):
    n = x.ndim - 2
    scales = every(scale_factor, n)
    size = [int(s * f) for s, f in zip(x.shape[2:], scales)] if size is None else every(size, n)
    for i in range(n):
        m = resampling(x.shape[2 + i], size[i], mode, align_corners, scales[i], antialias)
        x = np.moveaxis(np.tensordot(m, x, (1, 2 + i)), 0, 2 + i)
    return x


def pad(x, pads, mode="constant", value=0.0):
    n = len(pads) // 2
    pairs = [(0, 0)] * (x.ndim - n) + [tuple(pads[2 * i : 2 * i + 2]) for i in reversed(range(n))]
    if mode == "constant":
        crop = tuple(slice(max(0, -a), s - max(0, -b)) for (a, b), s in zip(pairs, x.shape))
        grow = [(max(0, a), max(0, b)) for a, b in pairs]
        return np.pad(x[crop], grow, constant_values=value or 0.0)
    return np.pad(x, pairs, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def unfold(x, kernel, dilation=1, padding=0, stride=1):
    found, _ = windows(
        np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in every(padding, 2)]),
        2,
        kernel,
        stride,
        0,
        dilation,
        False,
        0.0,
    )
    return np.stack([w.reshape(len(x), -1) for w, _, _ in found], -1)


def fold(x, size, kernel, dilation=1, padding=0, stride=1):
    """The transpose of unfold, a linear map."""
    channels = x.shape[1] // math.prod(every(kernel, 2))
    eye = np.eye(channels * math.prod(size)).reshape(-1, channels, *size)
    m = unfold(eye, kernel, dilation, padding, stride).reshape(len(eye), -1)
    return (x.reshape(len(x), -1) @ m.T).reshape(len(x), channels, *size)


def affine_grid(theta, size, align_corners=False):
    n = len(size) - 2
    axes = [
        np.linspace(-1, 1, s) if align_corners else (np.arange(s) * 2 + 1) / s - 1 for s in size[2:]
    ]
    grid = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(size[2:])], -1)
    return np.einsum("...j,bij->b...i", grid, theta).reshape(size[0], *size[2:], n)


def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Interpolation between the neighbours of each point; outside: zero, the nearest element, or a reflection."""
    modes = {0: "bilinear", 1: "nearest", 2: "bicubic"}, {0: "zeros", 1: "border", 2: "reflection"}
    mode, padding_mode = modes[0].get(mode, mode), modes[1].get(padding_mode, padding_mode)
    n = x.ndim - 2
    sizes = np.array(x.shape[2:])
    points = grid[..., ::-1]
    at = (points + 1) / 2 * (sizes - 1) if align_corners else ((points + 1) * sizes - 1) / 2

    def settle(p):
        if padding_mode == "reflection":
            low, high = (
                (np.zeros(n), sizes - 1) if align_corners else (np.full(n, -0.5), sizes - 0.5)
            )
            over = np.abs(p - low) % (2 * (high - low))
            p = low + np.minimum(over, 2 * (high - low) - over)
        return p if padding_mode == "zeros" else np.clip(p, 0, sizes - 1)

    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for place in np.ndindex(*grid.shape[:-1]):
        p, batch = at[place], place[0]
        if mode == "bicubic":  # each of the 16 neighbours is settled, not the point
            around = [np.floor(p) + d for d in itertools.product((-1, 0, 1, 2), repeat=n)]
            corners = [(settle(q), np.prod([cubic(t) for t in p - q])) for q in around]
        elif mode == "nearest":
            corners = [(np.rint(settle(p)), 1.0)]
        else:
            p = settle(p)
            around = [np.floor(p) + d for d in itertools.product((0, 1), repeat=n)]
            corners = [(q, np.prod(1 - np.abs(p - q))) for q in around]
        for corner, weight in corners:
            if ((corner >= 0) & (corner < sizes)).all():
                out[(batch, slice(None), *place[1:])] += (
                    weight * x[(batch, slice(None), *corner.astype(int))]
                )
    return out


def pixel_shuffle(x, r):
    *b, ch, h, w = x.shape
    x = x.reshape(*b, ch // r**2, r, r, h, w)
    x = np.moveaxis(x, (-4, -3), (-3, -1))
    return x.reshape(*b, ch // r**2, h * r, w * r)


def pixel_unshuffle(x, r):
    *b, ch, h, w = x.shape
    x = x.reshape(*b, ch, h // r, r, w // r, r)
    x = np.moveaxis(x, (-3, -1), (-4, -3))
    return x.reshape(*b, ch * r**2, h // r, w // r)


def channel_shuffle(x, groups):
    return x.reshape(len(x), groups, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)


def upsample(mode, corners=False):
    return lambda x, size=None, scale_factor=None: interpolate(x, size, scale_factor, mode, corners)


def pools(n):
    """Shapes with `n` spatial dimensions: kernel 2 or 3, stride, padding, ceil_mode."""
    return (2, 2, 7, 6, 5)[: n + 2] if n < 3 else (1, 2, 5, 4, 4)


def max_pools(name, n, indices=False):
    d = distinct(*pools(n))
    return row(
        name,
        max_pool(n, indices),
        c(d, 2),
        c(d, 3, 2, 1),
        c(d, 2, 3),
        c(d, 2, 1, 0, 2),
        c(d, 3, 2, 1, 1, True),
        v(d, 2, return_indices=True),
        c(distinct(*pools(n)[1:]), 2),
    )


def avg_pools(name, n, *more):
    d = N(*pools(n))
    return row(
        name,
        avg_pool(n),
        c(d, 2),
        c(d, 3, 2, 1),
        c(d, 3, 2, 1, True),
        c(d, 3, 2, 1, False, False),
        c(N(*pools(n)[1:]), 2),
        *more,
    )


OUT = {1: (4, (5,)), 2: (3, (2, None)), 3: (2, (3, 2, 1))}

ROWS = [
    row("conv1d", conv(1), c(N(2, 3, 7), N(4, 3, 3)), c(N(2, 4, 7), N(4, 2, 3), N(4), 2, 1, 1, 2), c(N(1, 2, 8), N(3, 2, 3), None, 1, "same", 2), c(N(3, 7), N(4, 3, 2)), c(N(1, 2, 5), N(2, 2, 2), None, 1, "valid"), half=True),
    row("conv2d", conv(2), c(N(2, 3, 5, 6), N(4, 3, 3, 2)), c(N(2, 4, 5, 5), N(4, 1, 3, 3), N(4), (2, 1), 1, 1, 4), c(N(1, 2, 6, 6), N(2, 2, 2, 3), N(2), 1, (1, 0), (2, 1)), c(N(1, 2, 5, 5), N(2, 2, 3, 2), None, 1, "same"), c(N(2, 5, 5), N(3, 2, 1, 1))),
    row("conv3d", conv(3), c(N(1, 2, 4, 3, 4), N(2, 2, 2, 2, 2)), c(N(2, 2, 4, 4, 3), N(2, 1, 2, 1, 2), N(2), (2, 1, 1), (1, 0, 1), 1, 2)),
    row("conv_transpose1d", conv_transpose(1), c(N(2, 3, 5), N(3, 4, 3)), c(N(2, 4, 4), N(4, 2, 3), N(4), 2, 1, 1, 2, 1)),
    row("conv_transpose2d", conv_transpose(2), c(N(2, 3, 3, 4), N(3, 2, 2, 3)), c(N(1, 4, 3, 3), N(4, 1, 3, 3), N(2), 2, 1, (1, 0), 2, 1), c(N(1, 2, 3, 3), N(2, 2, 2, 2), None, 1, 0, 0, 1, 2)),
    row("conv_transpose3d", conv_transpose(3), c(N(1, 2, 2, 3, 2), N(2, 2, 2, 2, 2)), c(N(1, 2, 2, 2, 2), N(2, 2, 2, 1, 2), N(2), 2, 0, 1)),
    row("conv_tbc", conv_tbc, c(N(6, 2, 3), N(3, 3, 4), N(4)), c(N(5, 1, 2), N(2, 2, 3), N(3), 1)),
    row("convolution", convolution, c(N(2, 3, 5), N(4, 3, 2), N(4), (1,), (1,), (1,), False, (0,), 1), c(N(1, 2, 3, 3), N(2, 2, 2, 2), None, (2, 1), (0, 0), (1, 1), True, (1, 0), 1)),
    max_pools("max_pool1d", 1),
    max_pools("max_pool2d", 2),
    max_pools("max_pool3d", 3),
    max_pools("max_pool1d_with_indices", 1, True),
    max_pools(F + "max_pool2d_with_indices", 2, True),
    max_pools(F + "max_pool3d_with_indices", 3, True),
    avg_pools("avg_pool1d", 1),
    avg_pools(F + "avg_pool2d", 2, c(N(1, 1, 4, 4), 2, divisor_override=3)),
    avg_pools(F + "avg_pool3d", 3),
    *(row(F + f"lp_pool{n}d", lp_pool(n), c(P(*pools(n)), 2, 2), c(P(*pools(n)), 3, 2, 1)) for n in (1, 2, 3)),
    *(row(("" if n == 1 else F) + f"adaptive_avg_pool{n}d", adaptive(n, "avg"), *(c(N(*pools(n)), o) for o in OUT[n])) for n in (1, 2, 3)),
    *(row(("" if n == 1 else F) + f"adaptive_max_pool{n}d", adaptive(n, "max"), *(c(distinct(*pools(n)), o) for o in OUT[n]), v(distinct(*pools(n)), 2, return_indices=True)) for n in (1, 2, 3)),
    *(row(F + f"adaptive_max_pool{n}d_with_indices", adaptive(n, "indices"), *(c(distinct(*pools(n)), o) for o in OUT[n])) for n in (1, 2, 3)),
    *(row(F + f"fractional_max_pool{n}d{more}", None, c(distinct(2, 2, *[6] * n), 2, 3), check=checks_fractional, strided=False) for n in (2, 3) for more in ("", "_with_indices")),
    row(F + "max_unpool1d", max_unpool(1), c(N(1, 2, 2), K([[[0, 3], [1, 2]]]), 2), c(N(1, 1, 2), K([[[0, 4]]]), 2, output_size=(5,))),
    row(F + "max_unpool2d", max_unpool(2), c(N(1, 1, 2, 2), K([[[[0, 3], [9, 14]]]]), 2)),
    row(F + "max_unpool3d", max_unpool(3), c(N(1, 1, 1, 2, 1), K([[[[[3], [12]]]]]), 2)),
    row(F + "interpolate", interpolate, *(c(N(1, 2, 4), size=s, mode=m) for s in (6, 3) for m in ("nearest", "nearest-exact", "linear")), c(N(1, 2, 4), scale_factor=1.5), c(N(1, 2, 4), size=7, mode="linear", align_corners=True),
        *(c(N(1, 2, 3, 4), size=(5, 3), mode=m) for m in ("nearest", "bilinear", "bicubic")), c(N(1, 1, 3, 4), scale_factor=(2.0, 1.6), mode="bilinear"), c(N(1, 1, 4, 4), size=(6, 7), mode="bicubic", align_corners=True),
        c(N(1, 1, 2, 3, 2), size=(3, 2, 4), mode="trilinear"), c(N(1, 1, 2, 3, 2), scale_factor=2.0),
        *(c(N(1, 1, 5, 4), size=s, mode=m, antialias=True) for m in ("bilinear", "bicubic", "lanczos") for s in ((3, 2), (6, 3))), c(N(1, 1, 3, 4), size=(5, 3), mode="nearest-exact"), c(N(1, 1, 2, 3, 2), size=(3, 2, 4), mode="nearest-exact")),
    row(F + "upsample", interpolate, c(N(1, 2, 4), scale_factor=2.0), c(N(1, 2, 3, 3), size=(4, 5), mode="bilinear"), warns=True),
    row(F + "upsample_nearest", upsample("nearest"), c(N(1, 2, 4), scale_factor=2), c(N(1, 2, 3, 3), size=(4, 5)), warns=True),
    row(F + "upsample_bilinear", upsample("bilinear", True), c(N(1, 2, 3, 3), size=(4, 5)), c(N(1, 2, 3, 3), scale_factor=2), warns=True),
    row(F + "pad", pad, c(N(2, 3), (1, 2)), c(N(2, 3), (1, -1, 0, 2), "constant", 2.5), *(c(N(1, 2, 5), (2, 1), m) for m in ("reflect", "replicate", "circular")),
        *(c(N(1, 2, 4, 3), (2, 1, 0, 2), m) for m in ("reflect", "replicate", "circular")), *(c(N(1, 1, 3, 3, 3), (1, 2, 0, 1, 2, 1), m) for m in ("reflect", "replicate", "circular"))),
    row("constant_pad_nd", lambda x, p, value=0.0: pad(x, p, value=value), c(N(2, 3), (1, 2)), c(N(2, 3), (1, -1, 0, 2), 2.5)),
    row(F + "unfold", unfold, c(N(1, 2, 4, 5), 2), c(N(2, 2, 4, 5), (2, 3), 1, 1, 2), c(N(1, 1, 5, 5), 2, 2)),
    row(F + "fold", fold, c(N(1, 8, 12), (4, 5), 2), c(N(1, 4, 9), (4, 4), 2, 1, 1, 2)),
    row(F + "affine_grid", affine_grid, c(N(2, 2, 3), (2, 1, 3, 4), False), c(N(2, 2, 3), (2, 1, 3, 4), align_corners=True), c(N(1, 3, 4), (1, 1, 2, 2, 3), False)),
    row("affine_grid_generator", affine_grid, c(N(2, 2, 3), (2, 1, 3, 4), False), c(N(1, 3, 4), (1, 1, 2, 2, 3), True)),
    row(F + "grid_sample", grid_sample, c(N(1, 2, 4, 5), U(-1.2, 1.2)(1, 3, 2, 2), align_corners=False), c(N(2, 1, 3, 3), U(-0.9, 0.9)(2, 2, 2, 2), align_corners=True), c(N(1, 2, 4, 5), U(-1.2, 1.2)(1, 3, 2, 2), padding_mode="border", align_corners=False),
        c(N(1, 2, 4, 5), U(-2, 2)(1, 3, 2, 2), padding_mode="reflection", align_corners=False), c(N(1, 2, 4, 5), U(-2, 2)(1, 3, 2, 2), padding_mode="reflection", align_corners=True), *(c(N(1, 1, 4, 5), U(-1.2, 1.2)(1, 2, 2, 2), mode="bicubic", padding_mode=p, align_corners=a) for p, a in (("zeros", False), ("border", True), ("reflection", False))), c(N(1, 1, 4, 4), fixed(U(-1.3, 1.3)(1, 3, 2, 2)), mode="nearest", padding_mode="border", align_corners=True),
        c(N(1, 1, 4, 4), fixed(U(-1, 1)(1, 3, 2, 2)), mode="nearest", align_corners=False), c(N(1, 1, 3, 3, 3), U(-0.9, 0.9)(1, 2, 1, 2, 3), align_corners=False), order=2),
    row("grid_sampler", grid_sample, c(N(1, 2, 4, 5), U(-1.2, 1.2)(1, 3, 2, 2), 0, 0, False), order=2),
    row("grid_sampler_2d", grid_sample, c(N(1, 2, 4, 5), U(-1.2, 1.2)(1, 3, 2, 2), 0, 0, False), c(N(1, 2, 4, 5), U(-1.2, 1.2)(1, 3, 2, 2), 0, 1, True), order=2),
    row("grid_sampler_3d", grid_sample, c(N(1, 1, 3, 3, 3), U(-0.9, 0.9)(1, 2, 1, 2, 3), 0, 0, False), order=2),
    row("pixel_shuffle", pixel_shuffle, c(N(1, 8, 2, 3), 2), c(N(9, 2, 2), 3)),
    row("pixel_unshuffle", pixel_unshuffle, c(N(1, 2, 4, 6), 2), c(N(1, 6, 3), 3)),
    row("channel_shuffle", channel_shuffle, c(N(2, 6, 2), 3), c(N(1, 4, 2, 2), 2), aka="native_channel_shuffle"),
]  # fmt: skip
