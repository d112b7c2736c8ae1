"""Arguments of factorizations and solvers, for odd_examples.py."""

from __future__ import annotations

import numpy as np

from odd_draws import F64, small
from rushlight._backends.reference import linalg as reference

NAMES = frozenset(reference.KERNELS)


def matrices(rng, d, *shape):
    return rng.standard_normal(shape).astype(F64 if d.kind in "iu" else d)


def lead(rng):
    return tuple(small(rng) for _ in range(int(rng.integers(3))))


def square(rng, d):
    """Well-conditioned matrices."""
    n = small(rng, 1, 40)
    return matrices(rng, d, *lead(rng), n, n) + 2 * n * np.eye(n).astype(d)


def positive(rng, d):
    a = square(rng, d)
    return a + a.swapaxes(-1, -2)


def right_side(rng, d, a):
    shape = a.shape[:-2] if rng.integers(2) else ()
    return matrices(rng, d, *shape, a.shape[-1], small(rng, 1, 20))


def tall(rng, d):
    n = small(rng, 1, 20)
    return matrices(rng, d, *lead(rng), n + small(rng, 0, 20), n)


def factored(rng, d, factor):
    """The results of a factorization in float64 as d, with a right side."""
    results = factor(positive(rng, F64))
    parts = [r.astype(d) if r.dtype == F64 else r for r in results[:2]]
    return (*parts, right_side(rng, d, parts[0]))


def reflections(rng, d):
    a, tau = reference.geqrf(tall(rng, F64))
    return a.astype(d), tau.astype(d)


def one(draw, *rest):
    return lambda rng, d: (draw(rng, d), *rest)


def with_right_side(rng, d):
    a = square(rng, d)
    return a, right_side(rng, d, a)


def triangular(rng, d):
    return (*with_right_side(rng, d), bool(rng.integers(2)), True, False)


def cholesky_solve(rng, d):
    a = positive(rng, d)
    return right_side(rng, d, a), a, bool(rng.integers(2))


def ormqr(rng, d):
    a, tau = reflections(rng, d)
    c = matrices(rng, d, *a.shape[:-1], small(rng, 1, 9))
    return a, tau, c, True, bool(rng.integers(2))


EXAMPLES = {
    "cholesky": one(positive, False),
    "cholesky_inverse": one(positive, True),
    "cholesky_solve": cholesky_solve,
    "lu_factor": one(square),
    "lu_solve": lambda rng, d: (*factored(rng, d, reference.lu_factor), True, bool(rng.integers(2))),
    "lu_unpack": lambda rng, d: factored(rng, d, reference.lu_factor)[:2],
    "solve_triangular": triangular,
    "solve": with_right_side,
    "det": one(square),
    "inv": one(square),
    "eigh": one(positive, "L"),
    "eigvalsh": one(positive, "U"),
    "eig": one(square),
    "eigvals": one(square),
    "svd": one(tall, False),
    "svdvals": one(tall),
    "geqrf": one(tall),
    "qr": one(tall, "reduced"),
    "householder_product": reflections,
    "ormqr": ormqr,
    "ldl_factor": one(positive, False),
    "ldl_solve": lambda rng, d: (
        *factored(rng, d, lambda a: reference.ldl_factor(a, False)), False,
    ),
}  # fmt: skip
