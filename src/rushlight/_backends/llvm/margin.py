"""Losses of the margins between the classes of a row as machine code; see `_codegen/kernels/margin.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._codegen.kernels import margin
from rushlight.core.dtype_sets import FULL, I64

ONE_CLASS, ONE_CLASS_GRADIENT, LABELS, LABELS_GRADIENT = map(
    Compiled, (margin.one_class, margin.one_class_gradient, margin.labels, margin.labels_gradient)
)


def fits(x: Any, y: Any, *others: Any) -> bool:
    """Whether rows of x, classes and further arrays of x's dtype are for the kernels."""
    if x.__class__ is not np.ndarray or y.__class__ is not np.ndarray or y.dtype != I64:
        return False
    for a in others:
        if a is not None and (a.__class__ is not np.ndarray or a.dtype is not x.dtype):
            return False
    return x.ndim == 2 and len(y) == len(x) and x.size > 0


def one_of(g: Any, x: np.ndarray) -> bool:
    """Whether g is one number, or one for each row."""
    return g.size == 1 or g.shape == x.shape[:1]


@implements("margins", dtypes=FULL, least=1)
def margins(x: Any, y: Any, weight: Any, p: Any, margin: Any) -> Any:
    if (
        p not in (1, 2)
        or not fits(x, y, weight)
        or y.ndim != 1
        or weight is not None
        and weight.size != x.shape[1]
    ):
        return NotImplemented
    out, wrong = np.empty(len(x), x.dtype), np.zeros(1, np.int64)
    run = ONE_CLASS[p, weight is not None, x.dtype]
    w = x if weight is None else weight
    run(in_order(x), in_order(y), in_order(w), out, wrong, *x.shape, margin)
    return NotImplemented if wrong[0] else out


@implements("margins_gradient", dtypes=FULL, least=1, array=1)
def margins_gradient(g: Any, x: Any, y: Any, weight: Any, p: Any, margin: Any, scale: Any) -> Any:
    if p not in (1, 2) or not fits(x, y, weight, g) or y.ndim != 1 or not one_of(g, x):
        return NotImplemented
    if weight is not None and weight.size != x.shape[1]:
        return NotImplemented
    out, wrong = np.empty(x.shape, x.dtype), np.zeros(1, np.int64)
    run, step = ONE_CLASS_GRADIENT[p, weight is not None, x.dtype], int(g.size > 1)
    g, x, y, w = map(in_order, (g, x, y, x if weight is None else weight))
    run(g, x, y, w, out, wrong, *x.shape, margin, step, scale)
    return NotImplemented if wrong[0] else out


@implements("label_margins", dtypes=FULL, least=1)
def label_margins(x: Any, y: Any) -> Any:
    if not fits(x, y) or y.shape != x.shape:
        return NotImplemented
    out, is_label, wrong = np.empty(len(x), x.dtype), np.empty(x.shape, x.dtype), np.zeros(1, I64)
    LABELS[(x.dtype,)](in_order(x), in_order(y), is_label, out, wrong, *x.shape)
    return NotImplemented if wrong[0] else (out, is_label)


@implements("label_margins_gradient", dtypes=FULL, least=1, array=1)
def label_margins_gradient(g: Any, x: Any, y: Any, is_label: Any, scale: Any) -> Any:
    if not fits(x, y, is_label, g) or not y.shape == x.shape == is_label.shape or not one_of(g, x):
        return NotImplemented
    out, wrong = np.empty(x.shape, x.dtype), np.zeros(1, np.int64)
    g, x, y, is_label = map(in_order, (g, x, y, is_label))
    LABELS_GRADIENT[(x.dtype,)](g, x, y, is_label, out, wrong, *x.shape, int(g.size > 1), scale)
    return NotImplemented if wrong[0] else out
