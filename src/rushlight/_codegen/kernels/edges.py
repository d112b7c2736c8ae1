"""Arrays continued beyond their edges, and the transpose of that.

Only the last three dimensions grow: an array is [outer, d, h, w].
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.copy import move
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.kernels.shape_inference import dims_of, in_order, note, shape_of
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NDIM, RUN, SHAPE
from rushlight._codegen.types import Header, Ptr, i64


@inline
def mirrored(i, n, MODE):
    """Where element i of a row that begins before 0 and ends behind n comes from."""
    if MODE == "reflect":
        i = 0 - i if i < 0 else i
        return 2 * (n - 1) - i if i >= n else i
    elif MODE == "replicate":
        return min(max(i, i64(0)), n - 1)
    else:
        return (i + n) % n


@kernel
def pad(MODE, a: Ptr[U], out: Ptr[U], value: i64, outer: i64, d: i64, h: i64, w: i64,
        d_low: i64, h_low: i64, w_low: i64, d_out: i64, h_out: i64, w_out: i64):  # fmt: skip
    """`a` [outer, d, h, w] continued beyond its edges: `out` [outer, d_out, h_out, w_out], in which it
    begins at d_low, h_low, w_low. MODE: "constant" (the bits of the value; negative places cut off), "reflect",
    "replicate" or "circular"."""
    v = U(value)
    for lo, hi in parallel(outer * d_out * h_out, rows_of(w_out)):
        r = lo + 0
        while r < hi:  # plane by plane
            plane, first = r // h_out, r % h_out
            i, o = plane % d_out - d_low, plane // d_out
            rows = min(h_out - first, hi - r)
            inside = (i >= 0) & (i < d)
            if MODE != "constant":
                i = mirrored(i, d, MODE)
                inside = inside | True
            of, e = (o * d + i) * h, i64(0)
            while e < rows:
                q, j, together = out + (r + e) * w_out, first + e - h_low, i64(1)
                here = inside & (j >= 0) & (j < h)
                if (
                    here & (w_out == w) & (w_low == 0)
                ):  # rows that are not continued lie beside each other
                    together = min(h - j, rows - e)
                    move(q, a + (of + j) * w, together * w, False, U)
                elif MODE == "constant":
                    if here:
                        begin, cut = max(w_low, i64(0)), max(0 - w_low, i64(0))
                        wide = min(w - cut, w_out - begin)
                        for x in range(begin):
                            q[x] = v
                        move(q + begin, a + ((of + j) * w + cut), wide, False, U)
                        for x in range(begin + wide, w_out):
                            q[x] = v
                    else:
                        for x in lanes(0, w_out):
                            q[x] = v
                else:
                    p = a + (of + mirrored(j, h, MODE)) * w
                    for x in range(w_low):
                        q[x] = p[mirrored(x - w_low, w, MODE)]
                    move(q + w_low, p, w, False, U)
                    for x in range(w_low + w, w_out):
                        q[x] = p[mirrored(x - w_low, w, MODE)]
                e += together
            r += rows


@kernel
def pad_adjoint(MODE, a: Ptr[T], out: Ptr[T], outer: i64, d: i64, h: i64, w: i64,
                d_low: i64, h_low: i64, w_low: i64, d_wide: i64, h_wide: i64, w_wide: i64):  # fmt: skip
    """The transpose of `pad`: elements of `a` [outer, d_wide, h_wide, w_wide] added up where theirs came from."""
    for lo, hi in parallel(outer, rows_of(d_wide * h_wide * w_wide)):
        for i in lanes(lo * (d * h * w), hi * (d * h * w)):
            out[i] = T(0)
        for o in range(lo, hi):
            for i in range(d_wide):
                of = (o * d + mirrored(i - d_low, d, MODE)) * h
                j = i64(0)
                while j < h_wide:
                    p = a + ((o * d_wide + i) * h_wide + j) * w_wide
                    q = out + (of + mirrored(j - h_low, h, MODE)) * w
                    together = i64(1)
                    if (w_wide == w) & (
                        j == h_low
                    ):  # rows that are not continued lie beside each other
                        together = h + 0
                    for x in range(w_low):
                        q[mirrored(x - w_low, w, MODE)] += p[x]
                    for x in lanes(0, together * w):
                        q[x] += p[w_low + x]
                    for x in range(w_low + w, w_wide):
                        q[mirrored(x - w_low, w, MODE)] += p[x]
                    j += together


# -- shape inference -------------------------------------------------------------------------------


@inline
def last_three(a, k):
    """The size of dimension k of the last three, 1 for one that is not there."""
    nd, n = dims_of(a), i64(1)
    if nd + k >= 3:
        n = shape_of(a)[nd + k - 3]
    return n


@inline
def planes_of(a, sizes, plan):
    """What comes before the last three dimensions; the result has these, then `sizes`, of which there are as
    many as `a` has."""
    nd, outer = dims_of(a), i64(1)
    plan[NDIM] = nd
    for k in range(nd - 3):
        outer = outer * shape_of(a)[k]
        plan[SHAPE + k] = shape_of(a)[k]
    for i in unroll(3):
        if nd + i >= 3:
            plan[SHAPE + nd + i - 3] = sizes[i]
    return outer


@kernel
def padded(MODE, a: Header, value: i64, d0: i64, d1: i64, h0: i64, h1: i64, w0: i64, w1: i64,
           plan: Ptr[i64]):  # fmt: skip
    """The last three dimensions continued by so many elements at both ends: what `pad` takes."""
    nd, low, high = dims_of(a), [d0, h0, w0], [d1, h1, w1]
    sizes = [last_three(a, k) for k in range(3)]
    wide = [sizes[k] + low[k] + high[k] for k in range(3)]
    fits = in_order(a) & (nd > 0) & (nd <= DIMS)
    for k in unroll(3):
        fits = fits & (sizes[k] > 0) & (wide[k] > 0)
        fits = fits & ((nd + k >= 3) | ((low[k] == 0) & (high[k] == 0)))
        if MODE == "constant":
            fits = fits & (low[k] + sizes[k] > 0) & (high[k] + sizes[k] > 0)
        else:
            fits = fits & (low[k] >= 0) & (high[k] >= 0)
            if MODE != "replicate":
                most = sizes[k] - 1 if MODE == "reflect" else sizes[k]
                fits = fits & (low[k] <= most) & (high[k] <= most)
    plan[RUN] = 0
    if fits:
        outer = planes_of(a, wide, plan)
        note(plan, outer * wide[0] * wide[1] * wide[2], [value, outer] + sizes + low + wide)
        plan[RUN] = i64(outer > 0)


@kernel
def unpadded(MODE, a: Header, d0: i64, d1: i64, h0: i64, h1: i64, w0: i64, w1: i64,
             plan: Ptr[i64]):  # fmt: skip
    """The transpose of `padded`: what `pad_adjoint` takes."""
    nd, low, high = dims_of(a), [d0, h0, w0], [d1, h1, w1]
    wide = [last_three(a, k) for k in range(3)]
    sizes = [wide[k] - low[k] - high[k] for k in range(3)]
    fits = in_order(a) & (nd > 0) & (nd <= DIMS)
    for k in unroll(3):
        most = sizes[k] + 0
        if MODE == "reflect":
            most = sizes[k] - 1
        fits = fits & (sizes[k] > 0) & (low[k] >= 0) & (high[k] >= 0)
        fits = fits & ((nd + k >= 3) | ((low[k] == 0) & (high[k] == 0)))
        if MODE != "replicate":
            fits = fits & (low[k] <= most) & (high[k] <= most)
    plan[RUN] = 0
    if fits:
        outer = planes_of(a, sizes, plan)
        note(plan, outer * wide[0] * wide[1] * wide[2], [outer] + sizes + low + wide)
        plan[RUN] = i64(outer > 0)
