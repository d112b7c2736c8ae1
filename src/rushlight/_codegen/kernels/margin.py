"""Losses of the margins between the classes of a row, x [N, C], and their gradients."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64, width

# Labels of a row are listed up to the first below 0; `is_label` [N, C] is 1 for each that is listed, else 0.


@kernel
def one_class(P, WEIGHTED, x: Ptr[T], y: Ptr[i64], w: Ptr[T], out: Ptr[T], wrong: Ptr[i64], N: i64,
              C: i64, margin: T):  # fmt: skip
    """out [N]: the sum of max(0, margin - x[y] + x[j])**P over the other classes j, times the class's weight, over C;
    wrong[0] becomes 1 where there is no such class."""
    L = width(T)
    for lo, hi in parallel(N, rows_of(C)):
        for r in range(lo, hi):
            row, t = x + r * C, y[r]
            if (t < 0) | (t >= C):
                wrong[0] = 1
            else:
                own = margin - row[t]
                s = splat(T(0), L)
                for c in range(0, C, L):
                    other = (iota(i64, L) < C - c) & (iota(i64, L) != t - c)
                    v = load_line(row + c, C - c, L) + own
                    v = select(other & (v > 0), v, splat(T(0), L))
                    s = s + (v * v if P == 2 else v)
                by = w[t] / T(C) if WEIGHTED else T(1) / T(C)
                out[r] = total(s) * by


@kernel
def one_class_gradient(P, WEIGHTED, g: Ptr[T], x: Ptr[T], y: Ptr[i64], w: Ptr[T], out: Ptr[T], wrong: Ptr[i64],
                       N: i64, C: i64, margin: T, step: i64, scale: T):  # fmt: skip
    """out [N, C]: the gradient of `one_class`, times `scale` and g, one number (step = 0) or one for each row."""
    L = width(T)
    for lo, hi in parallel(N, rows_of(C)):
        for r in range(lo, hi):
            row, to, t = x + r * C, out + r * C, y[r]
            if (t < 0) | (t >= C):
                wrong[0] = 1
            else:
                own, by = margin - row[t], g[r * step] * scale / T(C)
                if WEIGHTED:
                    by = by * w[t]
                s = splat(T(0), L)
                for c in range(0, C, L):
                    here = iota(i64, L) < C - c
                    v = load_line(row + c, C - c, L) + own
                    slope = 2 * v * by if P == 2 else splat(by, L)
                    slope = select(here & (iota(i64, L) != t - c) & (v > 0), slope, splat(T(0), L))
                    store_line(to + c, slope, C - c, L)
                    s = s + slope
                to[t] = -total(s)


@kernel
def labels(x: Ptr[T], y: Ptr[i64], is_label: Ptr[T], out: Ptr[T], wrong: Ptr[i64], N: i64, C: i64):
    """out [N]: the sum of max(0, 1 - x[y] + x[j]) over labels y and classes j that are none, over C; wrong[0] becomes
    1 where a label is no class."""
    L = width(T)
    for lo, hi in parallel(N, rows_of(2 * C)):
        for r in range(lo, hi):
            row, listed, marks = x + r * C, y + r * C, is_label + r * C
            count = i64(0)
            for c in range(C):
                marks[c] = T(0)
            while count < C:
                t = listed[count]
                if t < 0:
                    break
                if t >= C:
                    wrong[0] = 1
                    break
                marks[t] = T(1)
                count += 1
            s = splat(T(0), L)
            for k in range(count):
                own = T(1) - row[listed[k]]
                for c in range(0, C, L):
                    here = iota(i64, L) < C - c
                    v = load_line(row + c, C - c, L) + own
                    free = here & (load_line(marks + c, C - c, L) == 0) & (v > 0)
                    s = s + select(free, v, splat(T(0), L))
            out[r] = total(s) / T(C)


@kernel
def labels_gradient(g: Ptr[T], x: Ptr[T], y: Ptr[i64], is_label: Ptr[T], out: Ptr[T], wrong: Ptr[i64], N: i64, C: i64,
                    step: i64, scale: T):  # fmt: skip
    """out [N, C]: the gradient of `labels`, times `scale` and g, one number (step = 0) or one for each row."""
    L = width(T)
    for lo, hi in parallel(N, rows_of(2 * C)):
        for r in range(lo, hi):
            row, listed, marks, to = x + r * C, y + r * C, is_label + r * C, out + r * C
            by = g[r * step] * scale / T(C)
            for c in range(C):
                to[c] = T(0)
            for k in range(C):
                t = listed[k]
                if t < 0:
                    break
                if t >= C:
                    wrong[0] = 1
                    break
                own, s = T(1) - row[t], splat(T(0), L)
                for c in range(0, C, L):
                    here = iota(i64, L) < C - c
                    v = load_line(row + c, C - c, L) + own
                    free = here & (load_line(marks + c, C - c, L) == 0) & (v > 0)
                    slope = select(free, splat(by, L), splat(T(0), L))
                    store_line(to + c, load_line(to + c, C - c, L) + slope, C - c, L)
                    s = s + slope
                to[t] -= total(s)
