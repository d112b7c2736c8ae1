"""Cross products, Kronecker products and traces as machine code; `_codegen/kernels/cross_products.py` has the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.product_table import ELEMENTS
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, row_major
from rushlight._backends.reference import products as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import cross_products as kernels
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FLOATING, I64


def small_cross(d: np.dtype) -> Any:
    """The native entry for `cross`."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d]}
    runs = (kernels.cross_rows, known), (kernels.cross_columns, known)
    return bind((kernels.infer_cross, {}), [d, d], [d], *runs)


@implements("cross")
@put_entries_before(ByDtype(small_cross))
def cross(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    """The cross products of vectors along an axis of arrays that broadcast."""
    dense = a.flags.c_contiguous and b.flags.c_contiguous and a.shape == b.shape
    if dense or a.dtype not in ELEMENTS:
        return reference.cross(a, b, axis)
    if a.shape != b.shape:
        a, b = np.broadcast_arrays(a, b)
    return cross(contiguous(a), contiguous(b), axis)


def small_kron(d: np.dtype) -> Any:
    """The native entry for `kron`."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d]}
    return bind((kernels.infer_kron, known), [d, d], [d], (kernels.kron, known))


@implements("kron")
@put_entries_before(ByDtype(small_kron))
def kron(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The Kronecker product of two matrices of one dtype."""
    if b.dtype in ELEMENTS and b.size and not b.flags.c_contiguous:
        return kron(a, row_major(b))
    return reference.kron(a, b)


def small_trace(d: np.dtype) -> Any:
    """The native entry for `trace`."""
    if d not in ELEMENTS or d.kind == "u":
        return unbound
    to = d if d in FLOATING else I64
    known = {"E": ELEMENTS[d], "R": of(to)}
    return bind((kernels.infer_trace, {"SIZE": d.itemsize}), [d], [to], (kernels.trace, known))


trace = implements("trace")(put_entries_before(ByDtype(small_trace))(reference.trace))
