"""What factorizations and solvers do with matrices of one layout; see plans.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import linalg
from rushlight._backends.llvm.plans import row_major, split_up
from rushlight._codegen.kernels import lapack
from rushlight.core.dtype_sets import I32, I64

if TYPE_CHECKING:
    from rushlight._codegen.planned_entry import Plan

    Ints = tuple[int, ...]


def columns(plan: Plan, shape: Ints, dtype: np.dtype) -> np.ndarray:
    """Matrices whose columns are dense."""
    n = len(shape)
    return plan.new(shape, dtype, (*range(n - 2), n - 1, n - 2))


def stacked(plan: Plan, a: np.ndarray) -> np.ndarray:
    """As a matrix, or as a stack of three dimensions."""
    shape = a.shape if a.ndim <= 3 else (-1, *a.shape[-2:])
    found = split_up(a, shape)
    return row_major(plan, a).reshape(shape) if found is None else found


def lapack_call(plan: Plan, run: Any, *given: Any) -> None:
    """Note a call of a kernel that calls a routine of LAPACK; matrices as stacks of at most three dimensions."""
    plan.call(run.func, *run.args, *given) if run.__class__ is partial else plan.call(run, *given)


def cholesky(plan: Plan, input: np.ndarray, upper: bool, check_errors: bool) -> Any:
    run = linalg._cholesky[input.dtype]
    if check_errors or input.ndim < 2 or not linalg.fits(run, input):
        return None
    out, info = columns(plan, input.shape, input.dtype), plan.new(input.shape[:-2], I32)
    triangle, grain = lapack.UPPER if upper else lapack.LOWER, linalg.chunks(input)[0]
    lapack_call(plan, run, stacked(plan, input), out, info, triangle, grain)
    return out, info


def lu_factor(plan: Plan, a: np.ndarray, pivot: bool, check_errors: bool) -> Any:
    run = linalg._lu_factor[a.dtype]
    if check_errors or not pivot or a.ndim < 2 or not linalg.fits(run, a, square=False):
        return None
    lead, least = a.shape[:-2], min(a.shape[-2:])
    out, pivots = columns(plan, a.shape, a.dtype), plan.new((*lead, least), I32)
    info, (grain, count) = plan.new(lead, I32), linalg.chunks(a)
    lapack_call(
        plan, run, stacked(plan, a), out, pivots, info, plan.new((count, least), I64), grain
    )
    return out, pivots, info


def ldl_factor(plan: Plan, a: np.ndarray, hermitian: bool, check_errors: bool) -> Any:
    run = linalg._ldl_factor[hermitian and a.dtype.kind == "c"][a.dtype]
    if check_errors or a.ndim < 2 or not linalg.fits(run, a):
        return None
    n, lead = a.shape[-1], a.shape[:-2]
    out, pivots, info = (
        columns(plan, a.shape, a.dtype),
        plan.new(a.shape[:-1], I32),
        plan.new(lead, I32),
    )
    space = plan.new((n,), I64), plan.new((linalg.BLOCK * n,), a.dtype)
    lapack_call(plan, run, stacked(plan, a), out, pivots, info, *space, linalg.BLOCK * n)
    return out, pivots, info


def product_of(plan: Plan, a: np.ndarray, tau: np.ndarray, wide: int) -> np.ndarray:
    """The first columns of the product of reflections."""
    size, (grain, count) = linalg.BLOCK * wide, linalg.chunks(a)
    out = columns(plan, (*a.shape[:-1], wide), a.dtype)
    space = plan.new((count, size), a.dtype)
    lapack_call(
        plan,
        linalg._orgqr[a.dtype],
        stacked(plan, a),
        row_major(plan, tau),
        out,
        space,
        size,
        wide,
        tau.shape[-1],
        grain,
    )
    return out


def householder_product(plan: Plan, a: np.ndarray, tau: np.ndarray) -> Any:
    m, n = a.shape[-2:]
    good = linalg.fits(linalg._orgqr[a.dtype], a, tau, square=False)
    good = good and tau.shape[:-1] == a.shape[:-2]
    return product_of(plan, a, tau, n) if good and m >= n >= tau.shape[-1] else None


def qr(plan: Plan, a: np.ndarray, mode: str) -> Any:
    runs = linalg._geqrf[a.dtype], linalg._orgqr[a.dtype]
    if a.ndim < 2 or mode not in ("reduced", "complete"):
        return None
    if not all(linalg.fits(run, a, square=False) for run in runs):
        return None
    *lead, m, n = a.shape
    size, (grain, count) = linalg.BLOCK * n, linalg.chunks(a)
    h, tau = columns(plan, a.shape, a.dtype), plan.new((*lead, min(m, n)), a.dtype)
    space = plan.new((count, size), a.dtype)
    lapack_call(plan, runs[0], stacked(plan, a), h, tau, space, size, grain)
    wide = m if mode == "complete" else min(m, n)
    r = columns(plan, (*lead, wide, n), a.dtype)
    lapack_call(plan, linalg._upper_triangle[a.dtype], stacked(plan, h), r, wide)
    return product_of(plan, h, tau, wide), r


def solve_triangular(
    plan: Plan, a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool
) -> Any:
    run = linalg._solve_triangular[a.dtype]
    good = 2 <= a.ndim == b.ndim and a.shape[:-2] == b.shape[:-2] and linalg.fits(run, a, b)
    if not good or a.shape[-1] != b.shape[-2 if left else -1] or linalg.dense(a) is not a:
        return None
    out, side = columns(plan, b.shape, b.dtype), lapack.LEFT if left else lapack.RIGHT
    diag = lapack.UPPER if unitriangular else lapack.PLAIN
    lapack_call(plan, run, stacked(plan, a), stacked(plan, b), out, side, upper, diag)
    return out


def lu_solved(
    plan: Plan, lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, left: bool, adjoint: bool
) -> Any:
    run, n = linalg._lu_solve[lu.dtype], lu.shape[-1]
    good = left and 2 <= lu.ndim == b.ndim and lu.shape[:-2] == b.shape[:-2]
    good = good and linalg.fits(run, lu, b) and n == b.shape[-2] and pivots.dtype is I32
    if not good or pivots.shape != lu.shape[:-1] or not pivots.flags.c_contiguous:
        return None
    out, space = columns(plan, b.shape, b.dtype), plan.new((n, n), lu.dtype)
    trans = lapack.ADJOINT if adjoint else lapack.PLAIN
    lapack_call(
        plan,
        run,
        stacked(plan, lu),
        pivots,
        stacked(plan, b),
        space,
        plan.new((n,), I64),
        out,
        trans,
    )
    return out
