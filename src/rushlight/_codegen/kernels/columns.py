"""Windows of images as columns, and columns added up as images."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import store_line
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64, width


@kernel
def col2im(a: Ptr[T], out: Ptr[T], planes: i64, H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
           dh: i64, dw: i64, ph: i64, pw: i64, sh: i64, sw: i64):  # fmt: skip
    """out [planes, H, W]: of a [planes, kh, kw, oh, ow] each element added at its place, if that is inside."""
    for lo, hi in parallel(planes, rows_of(H * W + kh * kw * oh * ow)):
        for i in lanes(lo * H * W, hi * H * W):
            out[i] = T(0)
        for r in range(lo, hi):
            for k in range(kh * kw):
                left = k % kw * dw - pw
                first = max(i64(0), (sw - 1 - left) // sw)
                last = min(ow, (W - left + (sw - 1)) // sw)
                for o in range(oh):
                    y = k // kw * dh - ph + o * sh
                    if (y >= 0) & (y < H) & (left < W):
                        to = out + ((r * H + y) * W + left)
                        p = a + ((r * (kh * kw) + k) * oh + o) * ow
                        if sw == 1:
                            for j in lanes(first, last):
                                to[j] += p[j]
                        else:
                            for j in range(first, last):
                                to[j * sw] += p[j]


@kernel
def im2col(x: Ptr[T], out: Ptr[T], planes: i64, H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
           dh: i64, dw: i64, ph: i64, pw: i64, sh: i64, sw: i64):  # fmt: skip
    """out [planes, kh, kw, oh, ow] = the elements of windows of x [planes, H, W], zeros outside of it."""
    L = width(T)
    for lo, hi in parallel(planes, rows_of(kh * kw * oh * ow)):
        for k in range(kh * kw):  # divisions take as long as a line of a small image
            left = k % kw * dw - pw
            first = max(i64(0), (sw - 1 - left) // sw)
            last = min(ow, (W - left + (sw - 1)) // sw)
            for r in range(lo, hi):
                for o in range(oh):
                    y = k // kw * dh - ph + o * sh
                    p = x + ((r * H + y) * W + left)
                    to = out + ((r * (kh * kw) + k) * oh + o) * ow
                    end = last if (y >= 0) & (y < H) else i64(0)
                    if (sw == 1) & (ow >= L):
                        for j in range(0, ow, L):
                            if (j >= first) & (j + L <= end):
                                store(to + j, load(p + j, L))
                            else:
                                at = iota(i64, L) + j
                                part = load(p + j, L, (at >= first) & (at < end))
                                store_line(to + j, part, ow - j, L)
                    else:
                        begin = min(first, ow)
                        end = max(begin, end)
                        for j in range(begin):
                            to[j] = T(0)
                        for j in range(begin, end):
                            to[j] = p[j * sw]
                        for j in range(end, ow):
                            to[j] = T(0)


@kernel
def im2row(x: Ptr[T], out: Ptr[T], C: i64, H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
           dh: i64, dw: i64, ph: i64, pw: i64, sh: i64, sw: i64):  # fmt: skip
    """out [oh, ow, kh, kw, C] = the elements of windows of x [H, W, C], zeros outside of it."""
    for lo, hi in parallel(oh * ow * kh * kw, rows_of(C)):
        for r in range(lo, hi):
            k, o = r % (kh * kw), r // (kh * kw)
            row, column = o // ow * sh + k // kw * dh - ph, o % ow * sw + k % kw * dw - pw
            inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
            p = x + (row * W + column) * C
            if inside:
                for i in lanes(0, C):
                    out[r * C + i] = p[i]
            else:
                for i in lanes(0, C):
                    out[r * C + i] = T(0)
