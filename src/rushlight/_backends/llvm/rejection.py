"""Poisson, binomial and gamma numbers as machine code; the reference's to the last bit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight._backends.llvm.random import drawn
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import rejection as reference
from rushlight._codegen.kernels import libm
from rushlight._codegen.kernels import rejection as kernels
from rushlight._codegen.language import external
from rushlight._codegen.types import f64
from rushlight.core.dtype_sets import F64

TAKES = {"pow": 2}  # numbers; other functions take one


@cache
def with_library(name: str, *functions: str) -> Any:
    """A kernel with the C library's functions; None where these are not Python's."""
    if not all(f in ("lgamma", "pow") or libm.each(f) for f in functions):
        return None
    called = {f.upper(): external(f, f64, *[f64] * TAKES.get(f, 1)) for f in functions}
    try:
        return getattr(kernels, name).compiled(**called)
    except RuntimeError:  # a library without one of them
        return None


def fit(a: Any, *columns: int) -> bool:
    """Whether it is an array of rows such as kernels read."""
    return (
        a.__class__ is np.ndarray
        and a.dtype is F64
        and bool(a.size)
        and a.shape[1:] == columns
        and a.flags.carray
    )


@implements("random_poissons")
def random_poissons(generator: Any, rates: np.ndarray) -> np.ndarray:
    """A Poisson count for each of `rates`, float64 [n], none negative."""
    kernel = with_library("poissons", "exp", "log", "lgamma")
    if kernel is None or not fit(rates):
        return reference.random_poissons(generator, rates)
    out = np.empty(rates.size)
    drawn(generator, kernel, rates, out, rates.size)
    return out


@implements("random_binomials")
def random_binomials(generator: Any, rows: np.ndarray) -> np.ndarray:
    """A binomial count for each row, float64 [n, 8]: see the reference."""
    kernel = with_library("binomials", "log")
    if kernel is None or not fit(rows, 8):
        return reference.random_binomials(generator, rows)
    out = np.empty(len(rows))
    drawn(generator, kernel, rows, out, len(rows))
    return out


@implements("random_gammas")
def random_gammas(generator: Any, rows: np.ndarray, squeeze: float) -> np.ndarray:
    """A gamma number for each row, float64 [n, 3]: see the reference."""
    kernel = with_library("gammas", "pow", "log", "log1p", "cos", "sin")
    if kernel is None or not fit(rows, 3):
        return reference.random_gammas(generator, rows, squeeze)
    out = np.empty(len(rows))
    drawn(generator, kernel, rows, out, len(rows), squeeze, generator.spare_pair)
    return out
