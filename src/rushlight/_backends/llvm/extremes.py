"""Extremes as machine code; see `__init__.py` for when they run, `_codegen/kernels/extremes.py` for how."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.reduce import PART, fold_known, folded, kind, planned
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import reduce as reference
from rushlight._codegen.kernels import extremes as kernels
from rushlight._codegen.kernels.fold import fold_columns
from rushlight._codegen.kernels.shape_inference import reduction
from rushlight._codegen.native_entry import ByDtype, before, bind, unbound
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import BOOL, FLOATING, I32, I64, U8

KNOWN = FLOATING | {I32, I64, U8}
DEEPEST = 1 << 16  # rows of columns that one thread takes: their partners are other columns
INFER: Any = reduction, {"LONGEST": PART, "DEEPEST": DEEPEST, "MOST": kernels.PARTS, "FEW": 2}


def calls(small: bool, places: bool, values: bool) -> ByDtype:
    """The native entries for each dtype."""

    def make(dtype: np.dtype) -> Any:
        if dtype not in KNOWN:
            return unbound
        t = of(dtype)
        assert t is not None
        known = {"SMALL": small, "T": t}
        rows, columns, parts = kernels.both_rows, kernels.both_columns, kernels.both_parts
        by_columns = known
        if not places:
            rows, columns, parts = kernels.extreme_rows, fold_columns, kernels.extreme_parts
            by_columns = fold_known("amin" if small else "amax", True, t, t, t.loaded)
        elif not values:
            rows, columns, parts = kernels.place_rows, kernels.place_columns, kernels.place_parts
        results = [dtype] * values + [I64] * places
        return bind(INFER, [dtype], results, (rows, known), (columns, by_columns), (parts, known))

    return ByDtype(make)


LARGEST, SMALLEST = calls(False, False, True), calls(True, False, True)
ARGMAX, ARGMIN = calls(False, True, False), calls(True, True, False)
LARGEST_AT, SMALLEST_AT = calls(False, True, True), calls(True, True, True)


@implements("amax")
@before(LARGEST)
def amax(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The maximum; nan where there is one."""
    found = planned(a, axis, keepdims)
    if found is None or a.dtype == BOOL:
        return reference.amax(a, axis, keepdims)
    return folded("amax", a, found, kind(a), kind(a))


@implements("amin")
@before(SMALLEST)
def amin(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The minimum; nan where there is one."""
    found = planned(a, axis, keepdims)
    if found is None or a.dtype == BOOL:
        return reference.amin(a, axis, keepdims)
    return folded("amin", a, found, kind(a), kind(a))


@implements("argmax")
@before(ARGMAX)
def argmax(a: np.ndarray, axis: Any, keepdims: bool = False) -> Any:
    """Where the first maximum (or the first nan) is."""
    return reference.argmax(a, axis, keepdims)


@implements("argmin")
@before(ARGMIN)
def argmin(a: np.ndarray, axis: Any, keepdims: bool = False) -> Any:
    """Where the first minimum (or the first nan) is."""
    return reference.argmin(a, axis, keepdims)


@implements("max_with_index")
@before(LARGEST_AT)
def max_with_index(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the maximum, where the first is); as `largest` and `argmax`."""
    return amax(a, axis, keepdims), argmax(a, axis, keepdims)


@implements("min_with_index")
@before(SMALLEST_AT)
def min_with_index(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the minimum, where the first is); as `smallest` and `argmin`."""
    return amin(a, axis, keepdims), argmin(a, axis, keepdims)
