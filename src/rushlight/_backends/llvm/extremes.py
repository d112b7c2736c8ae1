"""Extremes as machine code; see `__init__.py` for when they run, `_codegen/kernels/extremes.py` for how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.reduce import (
    PART,
    SMALL,
    fold_known,
    folded,
    in_one,
    in_rows,
    kind,
    planned,
)
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import of_copies, out_of_order, row_major
from rushlight._backends.reference import reduce as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import extremes as kernels
from rushlight._codegen.kernels import fold, shape_inference
from rushlight._codegen.native_entry import ByDtype, bind
from rushlight._codegen.types import Type, of
from rushlight.core.dtype_sets import BOOL, FLOATING, I32, I64, U8

KNOWN = {dtype: of(dtype) for dtype in (*FLOATING, I32, I64, U8)}
DEEPEST = 1 << 16  # rows of columns that one thread takes: their partners are other columns
PARTED = {"LONGEST": PART, "DEEPEST": DEEPEST, "MOST": kernels.PARTS}


def extremes(small: bool, indices: bool, values: bool) -> ByDtype:
    """The native entries for the largest or smallest elements, where the first of them stand, or both."""

    def make(dtype: np.dtype, t: Type) -> Any:
        known = {"SMALL": small, "T": t}
        rows, columns, parts = kernels.both_rows, kernels.both_columns, kernels.both_parts
        by_columns = known
        if not indices:
            rows, columns, parts = kernels.extreme_rows, fold.fold_columns, kernels.extreme_parts
            by_columns = fold_known("amin" if small else "amax", True, t, t, t.loaded)
        elif not values:
            rows, columns, parts = (
                kernels.argument_rows,
                kernels.argument_columns,
                kernels.argument_parts,
            )
        results = [dtype] * values + [I64] * indices
        infer = (shape_inference.reduction, PARTED)
        if indices:  # columns are not cut: two tiles at least
            infer = (shape_inference.infer_first_indices, PARTED | {"FEW": 2})
        return bind(infer, [dtype], results, (rows, known), (columns, by_columns), (parts, known))

    return entries(make, KNOWN)


LARGEST, SMALLEST = extremes(False, False, True), extremes(True, False, True)
ARGMAX, ARGMIN = extremes(False, True, False), extremes(True, True, False)
LARGEST_AT, SMALLEST_AT = extremes(False, True, True), extremes(True, True, True)


def of_any_order(name: str) -> Callable:
    """`amax` or `amin` of arrays that are not C-contiguous, too."""

    def kernel(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
        found, entries = planned(a, axis, keepdims), LARGEST if name == "amax" else SMALLEST
        if (r := in_one(entries, a, found)) is not None:
            return r
        if (r := in_rows(entries, a, axis, keepdims)) is not None:
            return r
        if found is None and out_of_order(a) and a.size >= SMALL:
            return kernel(row_major(a), axis, keepdims)
        if found is None or a.dtype == BOOL:
            return getattr(reference, name)(a, axis, keepdims)
        return folded(name, a, found, kind(a), kind(a))

    return kernel


amax = implements("amax")(put_entries_before(LARGEST)(of_any_order("amax")))
amin = implements("amin")(put_entries_before(SMALLEST)(of_any_order("amin")))
argmax = implements("argmax")(of_copies(ARGMAX)(reference.argmax))
argmin = implements("argmin")(of_copies(ARGMIN)(reference.argmin))


@implements("max_with_index")
@of_copies(LARGEST_AT)
def max_with_index(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the maximum, where the first is)."""
    return amax(a, axis, keepdims), argmax(a, axis, keepdims)


@implements("min_with_index")
@of_copies(SMALLEST_AT)
def min_with_index(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the minimum, where the first is)."""
    return amin(a, axis, keepdims), argmin(a, axis, keepdims)
