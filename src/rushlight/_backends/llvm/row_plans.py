"""What normalisation, gated units and sums do with arrays of one layout; see plans.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm.plans import (
    copy_into,
    good,
    innermost,
    report,
    row_major,
    undecided,
)
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FLOATING, FULL, I64, compute_dtype

if TYPE_CHECKING:
    from rushlight._codegen.planned_entry import Plan


def glu(plan: Plan, input: np.ndarray, dim: int) -> Any:
    from rushlight._backends.llvm import activation

    transposed = input.T.flags.c_contiguous and not input.flags.c_contiguous
    x, axis = (input.T, ~dim) if transposed else (input, dim)
    known = input.dtype in FLOATING and x.flags.c_contiguous
    found = activation.halved(x.shape, axis) if known else None
    if found is None:
        return None
    rows, n, shape = found
    order = tuple(range(input.ndim))[::-1] if transposed else None
    y = plan.new(shape[::-1] if transposed else shape, input.dtype, order)
    plan.call(activation._glu[(input.dtype,)], x, y, rows, n)
    return y


def summed(plan: Plan, input: np.ndarray, shape: Any) -> Any:
    """`sum_to_size` over dimensions that lie side by side."""
    from rushlight._backends.llvm import reduce

    lead = input.ndim - len(shape)
    over = tuple([d for d, n in enumerate(input.shape) if d < lead or n != shape[d - lead]])
    if input.size < reduce.SMALL:
        return None
    if not input.flags.c_contiguous and reduce.planned(input, over, False) is not None:
        return None  # parts are added in the order of memory
    x, t = row_major(plan, input), of(input.dtype)
    found = reduce.plan(x.shape, x.strides, x.itemsize, over, False)
    if (
        found is None
        or found[2] is None
        or t is None
        or not (input.dtype in FLOATING or input.dtype is I64)
    ):
        return None
    outer, n, inner = found[2]
    if n > reduce.PART:
        return None
    y = plan.new(tuple(shape), input.dtype)
    if inner == 1 and input.dtype is I64:
        run = reduce.fold_of("sum", True, True, True, t, t, t)
        plan.call(run, x, y, outer, n, n)
    elif inner == 1:
        run = reduce.kernels.sum_rows.compiled(MEAN=False, T=t, R=t)
        plan.call(run, x, y, outer, n)
    elif n <= reduce.DEEP:
        run = reduce.fold_of("sum", True, True, False, t, t, t.loaded)
        plan.call(run, x, y, outer, n, inner, n)
    else:
        return None
    return y


def margins(
    plan: Plan, input: np.ndarray, target: np.ndarray, weight: Any, p: int, margin: float,
    reduction: str,
) -> Any:  # fmt: skip
    from rushlight._backends.llvm import margin as kernels
    from rushlight._backends.llvm import reduce

    d = input.dtype
    if d not in FULL or p not in (1, 2) or not kernels.fits(input, target, weight):
        return None
    if target.ndim != 1 or weight is not None and weight.shape != input.shape[1:]:
        return None
    rows, alone = len(input), reduction != "none"
    x, y = row_major(plan, input), row_major(plan, target)
    w, wrong = x if weight is None else row_major(plan, weight), report(plan)
    losses = plan.new(() if alone and rows == 1 else (rows,), d)
    run = kernels.ONE_CLASS[p, weight is not None, d]
    plan.call(run, x, y, w, losses, wrong, *x.shape, margin)
    good(plan, wrong)
    if not losses.ndim or not alone:
        return losses
    t, total = of(d), plan.new((), d)
    add = reduce.kernels.sum_rows.compiled(MEAN=reduction == "mean", T=t, R=t)
    plan.call(add, losses, total, 1, rows)
    return total


def own_distances(plan: Plan, input: np.ndarray, p: float) -> Any:
    """Those of the rows of a matrix to each other."""
    from rushlight._backends.llvm import distances

    if input.ndim != 2 or input.dtype not in FULL or p not in distances.NORMS or len(input) < 2:
        return None
    (n, k), x = input.shape, row_major(plan, input)
    columns, out = plan.new((k, n), x.dtype), plan.new((n * (n - 1) // 2,), x.dtype)
    copy_into(plan, columns, input.T)
    plan.call(distances._own_distances[distances.NORMS[p], x.dtype], x, columns, out, n, k)
    return out


def group_norm(
    plan: Plan, input: np.ndarray, weight: Any, bias: Any, num_groups: int, eps: float
) -> Any:
    from rushlight._backends.llvm import normalize

    given = [v for v in (weight, bias) if v is not None]
    if (
        input.ndim < 2
        or input.shape[1] % num_groups
        or input.dtype not in FLOATING
        or undecided(input)
    ):
        return None
    if not normalize.vectors(input.shape[1], *given) or len({v.dtype for v in given}) > 1:
        return None
    x = input if innermost(input) else row_major(plan, input)
    last = not x.flags.c_contiguous
    y = plan.new(x.shape, x.dtype, (0, 2, 3, 1) if last else None)
    w, b = normalize.affine(x, weight, bias)
    n, channels = x.shape[:2]
    key = weight is not None, bias is not None, False, x.dtype, w.dtype
    size, each = x.size // (n * channels), channels // num_groups
    if last:
        space = [plan.new(s.shape, s.dtype) for s in normalize.space_of(x, size)]
        run = normalize._groups_last[key]
        plan.call(run, x, w, b, y, y, y, *space, n, size, num_groups, each, eps)
    else:
        run = normalize._groups_norm[key]
        plan.call(run, x, w, b, y, y, y, n * num_groups, num_groups, each, size, eps)
    return y


def batch_norm(
    plan: Plan, input: np.ndarray, weight: Any, bias: Any, mean: np.ndarray, var: np.ndarray,
    training: bool, eps: float,
) -> Any:  # fmt: skip
    from rushlight._backends.llvm import batch_normalize, normalize

    given, channels = [v for v in (weight, bias) if v is not None], input.shape[1]
    wide = compute_dtype(input.dtype) if input.dtype in FLOATING else None
    if (
        not batch_normalize.vectors(channels, mean, var, *given)
        or len({v.dtype for v in given}) > 1
    ):
        return None
    if mean.dtype is not var.dtype or training and mean.dtype is not wide:
        return None
    found = batch_normalize.laid_out(input)
    if found is None or not training and found[3] == 1:
        return None
    _, n, _, size = found
    x = input if found[0] is input else row_major(plan, input)
    y = plan.new(x.shape, x.dtype, None if x.flags.c_contiguous else (0, *range(2, x.ndim), 1))
    w, b = normalize.affine(x, weight, bias)
    key: tuple = weight is not None, bias is not None
    if training and size == 1:
        parts = plan.new(((2 * batch_normalize.kernels.PARTS + 2) * channels,), mean.dtype)
        run = batch_normalize._rows_norm[(*key, False, False, x.dtype, w.dtype)]
        plan.call(run, x, w, b, mean, var, x, y, parts, n, channels, eps)
    elif training:
        run = batch_normalize._planes_norm[(*key, False, False, x.dtype, w.dtype)]
        plan.call(run, x, w, b, mean, var, x, y, n, channels, size, eps)
    else:
        run = batch_normalize._planes_scale[(*key, x.dtype, w.dtype, mean.dtype)]
        plan.call(run, x, w, b, mean, var, y, n, channels, size, eps)
    return y
