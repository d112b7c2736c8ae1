"""Fourier transforms of lines as machine code; see `__init__.py` for when they run, `_codegen/kernels/fft.py` for how."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import pi, prod
from typing import Any

import numpy as np

from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, row_major
from rushlight._backends.reference import fft as reference
from rushlight._backends.tables import bounded_cache
from rushlight._codegen import product_sizes
from rushlight._codegen.kernels import fft as kernels
from rushlight._codegen.kernels import fft_lines
from rushlight._codegen.native_entry import bind
from rushlight._codegen.types import f32, f64, width
from rushlight.core.dtype_sets import C64, C128, F32, F64

# Numbers of a line that is written as a matrix, at most: the table of its roots is as long.
LONG = 1 << 20
REALS = {F32: f32, C64: f32, F64: f64, C128: f64}


def unity(k: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i k / n), exact where it is 0, 1 or -1 in a part."""
    quarter, rest = np.divmod(k % n * 4, n)
    far = 2 * rest > n
    angle = np.where(far, n - rest, rest) * (pi / 2 / n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(far, s, c), np.where(far, c, s)
    r = np.empty(k.shape, np.complex128)
    r.real = np.choose(quarter, [c, -s, -c, s])
    r.imag = np.choose(quarter, [-s, -c, s, c])
    return r


def apart(a: np.ndarray, lanes: int, real: np.dtype) -> np.ndarray:
    """Vectors of real parts, each with that of the imaginary parts behind it."""
    a = a.reshape(-1, 1, lanes)
    return np.ascontiguousarray(np.concatenate([a.real, a.imag], 1), real)


def reversed_digits(m: int) -> np.ndarray:
    """Where the results of steps of radix 4, and a last one of radix 2, stand."""
    if m == 1:
        return np.zeros(1, np.int64)
    radix = min(m, 4)
    rest = reversed_digits(m // radix)
    return (rest[:, None] + np.arange(radix) * (m // radix)).reshape(-1)


@bounded_cache(32)
def tables(n: int, lanes: int, real: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the roots of unity of the steps, those between both parts, the order of rows in between)."""
    m = span = n // lanes
    steps = []
    while span >= 4:
        k = np.arange(span // 4)[:, None] * np.arange(1, 4)
        steps.append(unity(k * (n // span), n).reshape(-1))
        span //= 4
    roots = np.concatenate(steps).view(np.float64).astype(real)
    between = apart(unity(np.arange(m)[:, None] * np.arange(lanes), n), lanes, real)
    return roots, between, reversed_digits(m)


@bounded_cache(32)
def halves(n: int, lanes: int, real: np.dtype) -> np.ndarray:
    """The roots of unity that join the halves of a spectrum of 2n real numbers."""
    return apart(unity(np.arange(n // 2), 2 * n), lanes, real)


@bounded_cache(64)
def passes(n: int, real: np.dtype) -> tuple[np.ndarray, np.ndarray] | None:
    """(the roots of unity of all passes of `fft_lines`, how many passes there are and their factors); None for a
    number with other factors."""
    factors, roots, m = [], [], n
    for r in fft_lines.FACTORS:
        while m % r == 0:
            m //= r
            factors.append(r)
            roots.append(unity(np.outer(np.arange(m), np.arange(1, r)) * (n // (m * r)), n).ravel())
    if m > 1:
        return None
    flat = np.concatenate(roots).view(np.float64).astype(real)
    return flat, np.array([len(factors), *factors], np.int64)


@bounded_cache(64)
def halves_in_turns(n: int, real: np.dtype) -> np.ndarray:
    """`halves`, each real part before its imaginary part, one by one."""
    return unity(np.arange(n // 2 + 1), 2 * n).view(np.float64).astype(real)


def side_by_side(a: np.ndarray, out: np.ndarray, d: int, name: str, n: int, scale: float) -> bool:
    """Transforms of many lines of contiguous arrays along dimension d; False where there are fewer lines than lanes,
    or n, the complex numbers of a line, has factors that `fft_lines` does not know."""
    t = REALS[a.dtype]
    lanes, inner, last = product_sizes.gemm_sizes(t)["L"], prod(a.shape[d + 1 :]), d == a.ndim - 1
    rows = a.size // a.shape[d]
    if not lanes // 2 <= n <= fft_lines.MOST or (rows if last else inner) < lanes:
        return False
    known = passes(n, t.np)
    if known is None:
        return False
    if name == "fft" or name == "ifft":
        sign = 1 if name == "fft" else -1
        if last:
            fft_lines.rows.compiled(T=t)(a, out, *known, rows, n, sign, scale)
        else:
            run = fft_lines.columns.compiled(T=t)
            run(a, out, *known, rows // inner, n, inner, sign, scale)
    else:
        run = (fft_lines.rows_to_real if name == "irfft" else fft_lines.real_rows).compiled(T=t)
        run(a, out, *known, halves_in_turns(n, t.np), rows, n, scale)
    return True


@bounded_cache(8)
def turns(rows: int, columns: int, dtype: np.dtype, inverse: bool) -> np.ndarray:
    """exp(-2 pi i j k / n) of the rows j and columns k of a line of n numbers that is written as a matrix; conjugate for the
    `inverse`. A row is the product of two, of its number's high and low digits: to compute all roots takes longer than
    ten transforms."""
    n, k, step = rows * columns, np.arange(columns), 1 << (rows.bit_length() - 1) // 2
    high, low = (unity(np.outer(j, k), n) for j in (np.arange(0, rows, step), np.arange(step)))
    if inverse:
        high, low = high.conj(), low.conj()
    return (high[:, None] * low).reshape(rows, columns).astype(dtype)


def by_matrices(a: np.ndarray, out: np.ndarray, n: int, inverse: bool, scale: float) -> bool:
    """Transforms of long lines of n = 2^k complex numbers, each written as a matrix: of its columns, then of its rows; False
    for other lines (D. Bailey, FFTs in external or hierarchical memory, 1990)."""
    rows = 1 << (n.bit_length() - 1) // 2
    columns = n // rows
    if n & (n - 1) or columns > fft_lines.MOST or n > LONG:
        return False
    t, sign = REALS[a.dtype], -1 if inverse else 1
    run = fft_lines.columns.compiled(T=t)
    first = np.empty((a.size // n, rows, columns), a.dtype)
    run(contiguous(a), first, *passes(rows, t.np), len(first), rows, columns, sign, 1.0)
    np.multiply(first, turns(rows, columns, a.dtype, inverse), out=first)
    transposed = row_major(first.swapaxes(1, 2))
    run(transposed, out, *passes(columns, t.np), len(first), columns, rows, sign, scale)
    return True


@implements("transform_lines", dtypes=REALS)
def transform_lines(
    a: np.ndarray, out: np.ndarray, d: int, transform: np.ufunc, scale: float
) -> None:
    """Lines of powers of two that fit on the stack, and many lines of small factors; all others are NumPy's."""
    name = transform.__name__
    t = REALS[a.dtype]
    whole = name == "fft" or name == "ifft"
    points = (out if name == "irfft" else a).shape[d]
    n = points if whole else points // 2  # complex numbers that are transformed
    known = whole or (points % 2 == 0 and a.shape[d] == (n + 1 if name == "irfft" else points))
    if not known or not out.flags.c_contiguous:
        reference.transform_lines(a, out, d, transform, scale)
        return
    if n > kernels.MOST:
        last = whole and d == a.ndim - 1
        if not (last and by_matrices(a, out, n, name == "ifft", scale)):
            reference.transform_lines(a, out, d, transform, scale)
        return
    lanes, rows, a = width(t), a.size // a.shape[d], contiguous(a)
    by_rows = d == a.ndim - 1 and n >= lanes * lanes and not n & (n - 1)
    # Where a register has all lanes a row by itself, which stays in the nearest cache, takes half of the time.
    whole_vectors = product_sizes.gemm_sizes(t)["L"] == lanes
    if not (by_rows and whole_vectors) and side_by_side(a, out, d, name, n, scale):
        return
    if not by_rows:
        reference.transform_lines(a, out, d, transform, scale)
        return
    roots = tables(n, lanes, t.np)
    if whole:
        run = kernels.fft_rows.compiled(T=t)
        run(a, out, *roots, rows, n, 1 if name == "fft" else -1, scale)
    else:
        run = (kernels.irfft_rows if name == "irfft" else kernels.rfft_rows).compiled(T=t)
        run(a, out, *roots, halves(n, lanes, t.np), rows, n, scale)


# -- a few points ----------------------------------------------------------------------------------

FEW = 64  # points of a transform that may be a product with a matrix
VECTORS = 512  # that such a product takes of a line at most
WORK = (
    1 << 17
)  # multiplications from which `side_by_side` is faster, as was measured for 16 to 64 points
Ints = tuple[int, ...]


def smooth(n: int, kind: str) -> bool:
    """Whether `fft_lines` takes lines of n numbers: n has no prime factors above 7, and is even for real lines."""
    even = kind == "c2c" or n % 2 == 0
    return n >= 16 and even and passes(n, np.dtype(np.float64)) is not None


def matrix(kind: str, parts: int, sizes: Ints, inverse: bool, factor: float) -> np.ndarray:
    """The matrix of a transform: [real numbers of a line, of its result]; `parts`: real numbers of each number of a
    line. `sizes`: how many numbers are in a line, or of "c2r" how many come out."""
    n = sizes[-1]
    half = n // 2 + 1
    e = unity(np.outer(np.arange(n), np.arange(n)), n)
    if kind == "r2c":
        e = e[:, :half]
    elif kind == "c2r":  # most of the first half stand for a number of the second, too
        e = e[:half] * np.where(np.arange(half) % (n / 2), 2, 1)[:, None]
    if len(sizes) == 2:
        k = np.arange(sizes[0])
        e = np.kron(unity(np.outer(k, k), sizes[0]), e)
    if inverse:
        e = e.conj()
    if parts == 2:
        e = np.stack([e, 1j * e], 1).reshape(-1, e.shape[1])
    return (e.real if kind == "c2r" else np.ascontiguousarray(e).view(np.float64)) * factor


@lru_cache(None)
def product(d: np.dtype, kind: str) -> Callable[..., Any]:
    """The native entry of `few_points` for lines of a dtype."""
    t, parts = REALS[d], 2 if d.kind == "c" else 1
    result = t.np if kind == "c2r" else C64 if t is f32 else C128
    infer = kernels.few_points_result, {"REAL": t.size}
    return bind(infer, [d, t.np], [result], (kernels.few_points, {"PARTS": parts, "T": t}))


@bounded_cache(1024)
def few(
    d: np.dtype,
    shape: Ints,
    strides: Ints,
    kind: str,
    dims: Ints,
    scale: int,
    inverse: bool,
    n: int,
) -> tuple | None:
    """(the order of dimensions, the native entry, the matrix and the numbers that it takes, the way back) of a
    transform of a few points; None for others."""
    order, back = reference.arranged(dims, strides, kind != "c2c") or (None, None)
    sizes = tuple([shape[k] for k in order or range(len(shape))][len(shape) - len(dims) :])
    if kind == "c2r":
        sizes = (*sizes[:-1], n)
    if d not in REALS or not 0 < len(dims) < 3 or prod(sizes) > FEW or not prod(shape):
        return None
    parts = 2 if d.kind == "c" else 1
    if 2 * parts * prod(shape) * prod(sizes) > WORK and all(smooth(n, kind) for n in sizes):
        return None
    w = matrix(kind, parts, sizes, inverse, reference.factor(scale, prod(sizes)))
    p, lanes = w.shape[1], width(REALS[d])
    vectors = -(-p // lanes)
    if len(w) * vectors > VECTORS:
        return None
    wide = np.zeros((len(w), vectors * lanes), REALS[d].np)
    wide[:, :p] = w
    last = (p if kind == "c2r" else p // 2) // prod(sizes[:-1])
    return order, product(d, kind), (wide, len(dims), last, p), back


def at_once(
    a: np.ndarray, kind: str, dims: Ints, scale: int, inverse: bool, n: int = 0
) -> np.ndarray | None:
    """A transform of a few points; None of others."""
    how = few(a.dtype, a.shape, a.strides, kind, dims, scale, inverse, n)
    if how is None:
        return None
    order, run, given, back = how
    r = run(a if order is None else a.transpose(order), *given)
    return r if r is None or back is None else r.transpose(back)


@implements("c2c")
def c2c(a: np.ndarray, dims: Ints, scale: int, inverse: bool) -> np.ndarray:
    r = at_once(a, "c2c", dims, scale, inverse)
    return reference.c2c(a, dims, scale, inverse) if r is None else r


@implements("r2c")
def r2c(a: np.ndarray, dims: Ints, scale: int) -> np.ndarray:
    r = at_once(a, "r2c", dims, scale, False)
    return reference.r2c(a, dims, scale) if r is None else r


@implements("c2r")
def c2r(a: np.ndarray, dims: Ints, scale: int, n: int) -> np.ndarray:
    r = at_once(a, "c2r", dims, scale, True, n)
    return reference.c2r(a, dims, scale, n) if r is None else r
