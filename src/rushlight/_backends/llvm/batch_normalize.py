"""Normalisation of channels as machine code; see `__init__.py` for when it runs,
`_codegen/kernels/batch_norm.py` for how.

Arrays of floating dtypes, contiguous or with their channels last; parameters and statistics of any
floating dtype each. Statistics come in float32 for half types. All else is the reference's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled, is_floating
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import copy_into, in_order
from rushlight._backends.reference import layout
from rushlight._backends.reference import normalize as reference
from rushlight._codegen.kernels import batch_norm as kernels
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import f32, f64, of
from rushlight.core.dtype_sets import FLOATING, FULL, compute_dtype


def vectors(n: int, *given: Any) -> bool:
    """Whether each is n numbers that stand side by side, or None."""
    for a in given:
        if a is not None and not (
            a.__class__ is np.ndarray and a.dtype in FLOATING and a.size == n and a.flags.carray
        ):
            return False
    return True


def laid_out(a: Any) -> tuple[np.ndarray, int, int, int] | None:
    """(`a` or a copy of it, n, channels, size) of [n, channels, size] in memory; size 1: rows of channels."""
    if not is_floating(a) or a.ndim < 2 or not a.size:
        return None
    n, channels = a.shape[:2]
    if a.flags.aligned and layout.channels_last(a):
        return a, a.size // channels, channels, 1
    return in_order(a), n, channels, a.size // (n * channels)


def with_layout_of(g: Any, a: np.ndarray) -> np.ndarray | None:
    """A gradient laid out as `a` is."""
    if g.__class__ is not np.ndarray or g.dtype is not a.dtype or g.shape != a.shape:
        return None
    if g.flags.carray and a.flags.carray or g.strides == a.strides and g.flags.aligned:
        return g
    like = np.empty_like(a)  # dense, so in the same order
    copy_into(like, g)
    return like


def can_add(added: Any, a: np.ndarray) -> bool:
    """Whether kernels add an array, or None, to what they make of `a`: what half types are rounded to is another sum."""
    if a.dtype not in FULL:
        return False
    return added is None or with_layout_of(added, a) is added


_planes_norm, _rows_norm = Compiled(kernels.planes_norm), Compiled(kernels.rows_norm)
_planes_scale, _rows_scale = Compiled(kernels.planes_scale), Compiled(kernels.rows_scale)
_planes_back, _rows_back = Compiled(kernels.planes_backward), Compiled(kernels.rows_backward)
_moved = Compiled(kernels.moved)


_scale = Pointwise(kernels.scale, 2, 1, types=(f32, f64))
_shift = Pointwise(kernels.shift, 3, types=(f32, f64))
_scaled = Pointwise(kernels.scaled, 3, types=(f32, f64))


def _element(
    xp: Any, a: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float,
    given: bool = False, added: Any = None, rectified: bool = False,
) -> Any:  # fmt: skip
    """What `batch_norm` computes for one element by statistics that are given."""
    if training or added is not None or rectified or weight is None or bias is None:
        return NotImplemented
    weight, bias, m, v = (each.of_channels(a.ndim) for each in (weight, bias, mean, var))
    by = xp.apply(_scale, weight, v, eps)
    return xp.apply(_scaled, a, by, xp.apply(_shift, m, by, bias)), mean, var


def channels_in_order(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    """What is made of `a`, row-major or as its memory lies, where it lies on PyTorch."""
    return reference.channels_in_order(y, a) if 1 in a.shape or y.strides != a.strides else y


@implements("batch_norm", formula=_element)
def batch_norm(
    a: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float,
    given: bool = False, added: Any = None, rectified: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(normalised, mean, biased variance); the statistics are those given unless `training`. `given`: where
    they are those of the batch they may be written to `mean` and `var`. To what is normalised `added` is added, and
    negative results become 0 where it is to be `rectified`."""
    found, source = laid_out(a), a
    if found is None or not vectors(found[2], weight, bias):
        return reference.batch_norm(
            a, weight, bias, mean, var, training, eps, given, added, rectified
        )
    a, n, channels, size = found
    if (added is not None or rectified) and not (training and can_add(added, a)):
        y, mean, var = batch_norm(a, weight, bias, mean, var, training, eps, given)
        return reference.finished(y, added, rectified), mean, var
    d, wide = a.dtype, compute_dtype(a.dtype)
    w = a if weight is None else weight  # what is not there is not read
    b, z = a if bias is None else bias, a if added is None else added
    if weight is not None and bias is not None and weight.dtype is not bias.dtype:
        w, b = (v.astype(wide, copy=False) for v in (weight, bias))
    key: tuple = weight is not None, bias is not None
    types = d, (b if weight is None else w).dtype
    y = np.empty(a.shape, d) if size > 1 else np.empty_like(a)
    if training:
        if not (given and mean.dtype is var.dtype is wide and vectors(channels, mean, var)):
            mean, var = np.empty(channels, wide), np.empty(channels, wide)
        key = *key, added is not None, rectified, *types
        if size > 1:
            _planes_norm[key](a, w, b, mean, var, z, y, n, channels, size, eps)
        else:
            parts = np.empty((2 * kernels.PARTS + 2) * channels, wide)
            _rows_norm[key](a, w, b, mean, var, z, y, parts, n, channels, eps)
        return channels_in_order(y, source), mean, var
    if not vectors(channels, mean, var) or mean.dtype is not var.dtype:
        return reference.batch_norm(a, weight, bias, mean, var, training, eps)
    key = *key, *types, mean.dtype
    if size > 1:
        _planes_scale[key](a, w, b, mean, var, y, n, channels, size, eps)
    else:
        _rows_scale[key](a, w, b, mean, var, y, np.empty(2 * channels, wide), n, channels, eps)
    return channels_in_order(y, source), mean, var


@implements("batch_norm_gradients")
def batch_norm_gradients(
    g: Any, a: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple,
    result: np.ndarray | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of batch_norm by input, weight and bias. `result`: what it gave where that was rectified."""
    found, source = laid_out(a), a
    h = None if found is None else with_layout_of(g, found[0])
    y = h if result is None or found is None else with_layout_of(result, found[0])
    if found is None or h is None or y is None or not vectors(found[2], weight, mean, var) or (
        mean.dtype is not var.dtype
    ):  # fmt: skip
        return reference.batch_norm_gradients(g, a, weight, mean, var, training, eps, needs, result)
    a, n, channels, size = found
    w = a if weight is None else weight
    gw, gb = np.empty(channels, w.dtype), np.empty(channels, w.dtype)
    gx = np.empty_like(a) if needs[0] else gw
    key = (
        weight is not None,
        training,
        bool(needs[1] or needs[2]),
        bool(needs[0]),
        result is not None,
    )
    if size > 1:
        kernel = _planes_back[*key, a.dtype, w.dtype, mean.dtype]
        kernel(h, a, w, mean, var, y, gx, gw, gb, n, channels, size, eps)
    else:
        parts = np.empty((2 * kernels.PARTS + 3) * channels, compute_dtype(a.dtype))
        kernel = _rows_back[*key, a.dtype, w.dtype, mean.dtype]
        kernel(h, a, w, mean, var, y, gx, gw, gb, parts, n, channels, eps)
    if needs[0] and (1 in a.shape or gx.strides != source.strides):
        gx = layout.in_format(gx, source)
    return gx if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


def entries_moved(d: np.dtype) -> Any:
    """The native entry for running statistics in the dtype of those of the batch."""
    if d not in FULL:
        return unbound
    known = {"S": of(d), "R": of(d)}
    return bind((kernels.infer_moved, {}), [d, d, d, d], [], (kernels.moved, known))


MOVED = ByDtype(entries_moved)


@implements("update_running_stats")
def update_running_stats(
    running_mean: Any, running_var: Any, mean: Any, var: Any, by: float, unbiased: float
) -> None:
    """Running statistics go `by` of the way to those of a batch, the variance times `unbiased`."""
    if MOVED[running_mean.dtype](running_mean, running_var, mean, var, by, unbiased):
        return
    n = running_mean.size
    if not (
        vectors(n, running_mean, running_var, mean, var)
        and running_mean.dtype is running_var.dtype
        and mean.dtype is var.dtype
        and mean.dtype.itemsize >= 4
    ):
        reference.update_running_stats(running_mean, running_var, mean, var, by, unbiased)
        return
    kernel = _moved[running_mean.dtype, mean.dtype]
    kernel(running_mean, running_var, mean, var, n, by, unbiased)
