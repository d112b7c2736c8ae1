"""Normalisation of rows as machine code; see `__init__.py` for when it runs, `_codegen/kernels/norm.py` for how.

Arrays of floating dtypes, C-contiguous or copied so; weight and bias of any floating dtype. Statistics are
float32 for half types. Groups of channels may have them last in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.batch_normalize import vectors, with_layout_of
from rushlight._backends.llvm.operands import Compiled, is_floating
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import layout
from rushlight._backends.reference import normalize as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import batch_norm, norm, norm_last
from rushlight._codegen.native_entry import OTHER, ByDtype, bind, unbound
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FLOATING, compute_dtype

_rows_norm, _rows_kept = Compiled(norm.row_norm), Compiled(norm.row_norm_kept)
_rows_back = Compiled(norm.row_norm_backward)
_groups_norm, _groups_norm_back = Compiled(norm.groups_norm), Compiled(norm.groups_norm_backward)
_groups_last, _groups_last_back = map(
    Compiled, (norm_last.groups_last, norm_last.groups_last_backward)
)


def whole(a: Any) -> Any:
    """`a`, or a copy of it, with its elements side by side; None for what kernels do not take."""
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or not a.size:
        return None
    return in_order(a)


def in_rows(a: np.ndarray, n: int, *others: Any) -> bool:
    """Whether `a` is rows of `n` elements, and each of the others (or None) is one."""
    return n > 0 and a.size % n == 0 and vectors(n, *others)


def like(g: Any, x: np.ndarray) -> Any:
    """The gradient of something like x, its elements side by side; None where it is not of that kind."""
    if g.__class__ is not np.ndarray or g.dtype is not x.dtype or g.shape != x.shape:
        return None
    return in_order(g)


def affine(x: np.ndarray, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Weight and bias of one dtype, `x` where there is none (it is not read)."""
    if weight is None:
        return (x, x) if bias is None else (bias, bias)
    if bias is None or bias.dtype is weight.dtype:
        return weight, weight if bias is None else bias
    d = np.promote_types(np.float32, x.dtype if x.dtype.itemsize > 2 else np.float32)
    return weight.astype(d), bias.astype(d)


def normalised(a: Any, weight: Any, bias: Any, n: int, eps: float, *kept: np.dtype) -> Any:
    """[normalised rows of `n` elements, and of the dtypes `kept` their means and 1 / deviations]; None for
    what kernels do not take."""
    x = whole(a)
    if x is None or not in_rows(x, n, weight, bias):
        return None
    d = x.dtype
    rows = x.size // n
    made = [np.empty(x.shape, d), *[np.empty(rows, each) for each in kept]]
    w, b = affine(x, weight, bias)
    kernels = _rows_kept if kept else _rows_norm
    kernels[weight is not None, bias is not None, True, d, w.dtype](x, w, b, *made, rows, n, eps)
    return made


def entries(d: np.dtype) -> Any:
    """The native entry for rows with weights and biases of their dtype."""
    if d not in FLOATING:
        return unbound
    t, known = of(d), {"WEIGHT": True, "BIAS": True, "CENTRE": True}
    known |= {"T": t, "W": t, "R": of(compute_dtype(d))}
    return bind((norm.infer_row_norm, {}), [d, d, d], [d], (norm.row_norm, known))


@implements("layer_norm")
@put_entries_before(ByDtype(entries))
def layer_norm(a: Any, weight: Any, bias: Any, n: int, eps: float) -> Any:
    """Rows of `n` elements, normalised."""
    found = normalised(a, weight, bias, n, eps)
    return found[0] if found else reference.layer_norm(a, weight, bias, n, eps)


def entries_kept(infer: Any, kernel: Any, **known: bool) -> ByDtype:
    """The native entries of a normalisation with weights and biases of its dtype, and its means and 1 / deviations."""

    def make(d: np.dtype) -> Any:
        if d not in FLOATING:
            return unbound
        t, wide = of(d), compute_dtype(d)
        types = {"WEIGHT": True, "BIAS": True, "T": t, "W": t, "R": of(wide)}
        results = [d, (wide, OTHER), (wide, OTHER)]
        return bind((infer, {}), [d, d, d], results, (kernel, known | types))

    return ByDtype(make)


ROWS_KEPT = entries_kept(norm.infer_row_norm_kept, norm.row_norm_kept, CENTRE=True)
GROUPS_KEPT = entries_kept(norm.infer_groups_norm, norm.groups_norm, KEPT=True)


@implements("layer_norm_with_statistics")
@put_entries_before(ROWS_KEPT)
def layer_norm_with_statistics(
    a: Any, weight: Any, bias: Any, n: int, eps: float
) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of rows of `n` elements."""
    wide = compute_dtype(a.dtype)
    found = normalised(a, weight, bias, n, eps, wide, wide)
    return tuple(found) if found else reference.layer_norm_with_statistics(a, weight, bias, n, eps)


@implements("rms_norm")
def rms_norm(a: Any, weight: Any, n: int, eps: float) -> Any:
    """Rows of `n` elements over the square root of the mean of their squares."""
    x = whole(a)
    if x is None or not in_rows(x, n, weight):
        return reference.rms_norm(a, weight, n, eps)
    y = np.empty(x.shape, x.dtype)
    w = x if weight is None else weight
    kernel = _rows_norm[weight is not None, False, False, x.dtype, w.dtype]
    kernel(x, w, w, y, x.size // n, n, eps)
    return y


def gradients_of_rows(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple, centre: bool
) -> tuple[Any, Any, Any] | None:
    """The gradients of both by input, weight and bias; None where kernels do not take them."""
    x = whole(a)
    h = None if x is None else like(g, x)
    if h is None or not in_rows(x, n, weight):
        return None
    d, w = x.dtype, x if weight is None else weight
    sums = bool(needs[1] or needs[2])
    gw = np.empty(n, w.dtype)
    gb = np.empty(n, w.dtype) if sums else gw
    gx = np.empty(x.shape, d) if needs[0] else gw
    # `whole` took x: there is a type for d.
    parts = np.empty(2 * norm.PARTS * n, of(d).loaded.np) if sums else gw  # type: ignore[union-attr]
    kernel = _rows_back[weight is not None, centre, bool(needs[0]), sums, d, w.dtype]
    kernel(h, x, w, gx, gw, gb, parts, x.size // n, n, eps)
    gx = layout.in_format(gx, a) if needs[0] else None
    return gx, gw if needs[1] else None, gb if needs[2] else None


@implements("layer_norm_gradients")
def layer_norm_gradients(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of layer_norm by input, weight and bias; None where not needed."""
    found = gradients_of_rows(g, a, weight, n, eps, needs, True)
    return found or reference.layer_norm_gradients(g, a, weight, n, eps, needs)


@implements("rms_norm_gradients")
def rms_norm_gradients(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple
) -> tuple[Any, Any]:
    """The gradients of rms_norm by input and weight; None where not needed."""
    found = gradients_of_rows(g, a, weight, n, eps, (*needs, False), False)
    return found[:2] if found else reference.rms_norm_gradients(g, a, weight, n, eps, needs)


def planes_of(a: Any, groups: int, *others: Any) -> tuple[Any, int, bool]:
    """(`a` with its elements side by side, elements of a plane, whether channels are last in memory) of
    (N, C, *); None first for what is the reference's."""
    if a.ndim < 2 or groups < 1 or a.shape[1] % groups:
        return None, 0, False
    last = a.flags.aligned and layout.channels_last(a)
    x = a if last and is_floating(a) and a.size else whole(a)
    if x is None or not vectors(x.shape[1], *others):
        return None, 0, False
    return x, x.size // (x.shape[0] * x.shape[1]), last


def space_of(x: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """What the kernels for channels that are last take for their own use."""
    n, channels = x.shape[:2]
    parts = np.empty(n * min(size, batch_norm.PARTS) * 2 * channels, compute_dtype(x.dtype))
    return parts, np.empty(n * norm_last.TABLES * channels, compute_dtype(x.dtype))


@implements("group_norm")
@put_entries_before(GROUPS_KEPT)
def group_norm(
    a: Any, weight: Any, bias: Any, groups: int, eps: float, statistics: bool = True
) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of `groups` groups of the channels of (N, C, *); without
    `statistics` the last two are None."""
    x, size, last = planes_of(a, groups, weight, bias)
    if x is None:
        return reference.group_norm(a, weight, bias, groups, eps)
    n, channels = x.shape[:2]
    d = x.dtype
    y = np.empty_like(x) if last else np.empty(x.shape, d)
    mean = rstd = None
    if statistics:
        mean, rstd = (
            np.empty((n, groups), compute_dtype(d)),
            np.empty((n, groups), compute_dtype(d)),
        )
    w, b = affine(x, weight, bias)
    key = weight is not None, bias is not None, statistics, d, w.dtype
    m, r = (y, y) if mean is None else (mean, rstd)
    each = channels // groups
    if last:
        space = space_of(x, size)
        _groups_last[key](x, w, b, y, m, r, *space, n, size, groups, each, eps)
    else:
        _groups_norm[key](x, w, b, y, m, r, n * groups, groups, each, size, eps)
    return layout.in_format(y, a), mean, rstd


@implements("group_norm_gradients")
def group_norm_gradients(
    g: Any, a: Any, weight: Any, groups: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of group_norm by input, weight and bias."""
    x, size, last = planes_of(a, groups, weight)
    h = None if x is None else with_layout_of(g, x) if last else like(g, x)
    if h is None:
        return reference.group_norm_gradients(g, a, weight, groups, eps, needs)
    n, channels = x.shape[:2]
    d, w = x.dtype, x if weight is None else weight
    gw, gb = np.empty(channels, w.dtype), np.empty(channels, w.dtype)
    gx = (np.empty_like(x) if last else np.empty(x.shape, d)) if needs[0] else gw
    key = weight is not None, bool(needs[0]), bool(needs[1] or needs[2]), d, w.dtype
    each = channels // groups
    if last:
        space = space_of(x, size)
        _groups_last_back[key](h, x, w, gx, gw, gb, *space, n, size, groups, each, eps)
    else:
        parts = np.empty(2 * n * channels, compute_dtype(d))
        kernel = _groups_norm_back[key]
        kernel(h, x, w, gx, gw, gb, parts, n * groups, groups, each, size, eps)
    gx = layout.in_format(gx, a) if needs[0] else None
    return gx, gw if needs[1] else None, gb if needs[2] else None
