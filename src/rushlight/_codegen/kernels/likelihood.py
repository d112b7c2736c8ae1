"""Negative log likelihoods: of classes under log probabilities [rows, n], without weights of classes, and of yes or no
under probabilities."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.header import same_shape, size_of
from rushlight._codegen.kernels.pointwise import COSTLY
from rushlight._codegen.kernels.rows import row_total
from rushlight._codegen.kernels.shape_inference import dims_of, in_order, like, note, shape_of
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.types import Header, Ptr, f64, i64

EACH, SUM, MEAN = range(3)  # of rows


@kernel
def infer_losses(a: Header, target: Header, reduction: i64, skip: i64, plan: Ptr[i64]):
    plan[RUN] = 0
    fits = in_order(a) & in_order(target) & (dims_of(a) == 2) & (dims_of(target) == 1)
    if fits & (skip != NONE):
        rows, n = shape_of(a)[0], shape_of(a)[1]
        if (shape_of(target)[0] == rows) & (rows * n > 0):
            plan[RUN] = 1
            plan[WORK] = rows * 8
            plan[NDIM] = i64(1) if reduction == EACH else i64(0)
            plan[SHAPE] = rows
            plan[NUMBERS] = rows
            plan[NUMBERS + 1] = n
            plan[NUMBERS + 2] = reduction
            plan[NUMBERS + 3] = skip


@kernel
def losses_of_rows(
    x: Ptr[T], target: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], rows: i64, n: i64, reduction: i64, skip: i64
):  # fmt: skip
    """The losses of all rows, their sum, or their mean; 0 where the class is `skip`. `wrong`: a class out of range."""
    loss, count = f64(0), i64(0)
    for r in range(rows):
        t, l = target[r], T.loaded(0)
        if t != skip:
            if (t < 0) | (t >= n):
                wrong[0] = 1
            else:
                l = -x[r * n + t]
                loss += f64(l)
                count += 1
        if reduction == EACH:
            out[r] = l
    if reduction == SUM:
        out[0] = T.loaded(loss)
    elif reduction == MEAN:
        out[0] = T.loaded(loss / f64(count))


@kernel
def infer_gradient(g: Header, target: Header, n: i64, reduction: i64, skip: i64, plan: Ptr[i64]):
    plan[RUN] = 0
    fits = in_order(g) & in_order(target) & (dims_of(target) == 1)
    if fits & (skip != NONE) & (n > 0):
        rows = shape_of(target)[0]
        if reduction == EACH:
            fits = dims_of(g) == 1
            if fits:
                fits = shape_of(g)[0] == rows
        else:
            fits = dims_of(g) == 0
        if fits & (rows > 0):
            plan[RUN] = 1
            plan[WORK] = rows * n
            plan[NDIM] = 2
            plan[SHAPE] = rows
            plan[SHAPE + 1] = n
            plan[NUMBERS] = rows
            plan[NUMBERS + 1] = n
            plan[NUMBERS + 2] = reduction
            plan[NUMBERS + 3] = skip


@kernel
def gradient_of_rows(
    g: Ptr[T], target: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], rows: i64, n: i64, reduction: i64, skip: i64
):  # fmt: skip
    """The gradient of `losses_of_rows` by the log probabilities."""
    count = rows + 0
    if reduction == MEAN:
        for r in range(rows):
            if target[r] == skip:
                count -= 1
    for r in range(rows):
        row, t = out + r * n, target[r]
        for j in lanes(0, n):
            row[j] = T.loaded(0)
        if t != skip:
            if (t < 0) | (t >= n):
                wrong[0] = 1
            else:
                value = g[r if reduction == EACH else i64(0)]
                if reduction == MEAN:
                    value = value / T.loaded(count)
                row[t] = -value


@inline
def cross_entropy_of(a, b):
    """-(b log(a) + (1 - b) log(1 - a)), each logarithm at least -100."""
    low, high = math.log(a), math.log1p(-a)
    low = -100 if low < -100 else low
    high = -100 if high < -100 else high
    return (b - 1) * high - b * low


@kernel
def infer_pairs(a: Header, b: Header, plan: Ptr[i64]):
    n = size_of(a)
    fits = in_order(a) & in_order(b) & same_shape(a, b) & (n > 0)
    plan[RUN] = i64(1) if fits else i64(0)
    like(a, plan)
    note(plan, n * 16, [n])


@kernel
def losses_of_pairs(a: Ptr[T], b: Ptr[T], out: Ptr[T], wrong: Ptr[i64], n: i64):
    """The cross entropies of probabilities and targets. `wrong`: a probability is not in [0, 1]."""
    for lo, hi in parallel(n, COSTLY):
        outside = row_total(
            a + lo, hi - lo, lambda x: select((x >= 0) & (x <= 1), T.loaded(0), T.loaded(1)), T
        )
        if outside > 0:
            wrong[0] = 1
        for i in lanes(lo, hi):
            out[i] = cross_entropy_of(a[i], b[i])
