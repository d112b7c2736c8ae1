"""Calls of LAPACK's routines, over stacks of matrices.

A routine is the address of a function of LAPACK's Fortran interface with integers of 64 bits
(`_backends/blas.py` finds it): every argument is a pointer, and the length of each text follows at the
end. T is a real type; an element of a matrix is PARTS of them, two for complex numbers.

Inputs are arrays of two or three dimensions with any strides, as they are (Header). They are copied into the
memory of the results, column by column, where LAPACK works. Of three dimensions the first counts matrices:
where `grain` is given, threads share them, each chunk of that many with memory of its own to work in.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import shape_inference
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64, u8

BLOCK = 16  # rows and columns that are copied together
LOWER, UPPER = ord("L"), ord("U")
LEFT, RIGHT = ord("L"), ord("R")
PLAIN, TURNED, ADJOINT = ord("N"), ord("T"), ord("C")
VALUES, VECTORS = ord("N"), ord("V")
WHOLE, SOME = ord("A"), ord("S")  # of singular vectors
LENGTH = 1  # of each text


@inline
def stack(a, T, PARTS):
    """(where the matrices are, how many, rows, columns, the strides of these in elements of T)"""
    nd, shape, strides = (
        shape_inference.dims_of(a),
        shape_inference.shape_of(a),
        shape_inference.strides_of(a),
    )
    count, step = i64(1), i64(0)
    if nd == 3:
        count, step = shape[0], strides[0] // T.size
    first = bits(a[abi.DATA], Ptr[T])
    m, n, s1, s2 = (
        shape[nd - 2],
        shape[nd - 1],
        strides[nd - 2] // T.size,
        strides[nd - 1] // T.size,
    )
    return first, count, m, n, step, s1, s2


@inline
def columns(PARTS, p, s1, s2, out, m, n):
    """Copy a matrix to `out`, column by column."""
    for j0 in range(0, n, BLOCK):
        j1 = min(j0 + BLOCK, n)
        for i0 in range(0, m, BLOCK):
            i1 = min(i0 + BLOCK, m)
            for j in range(j0, j1):
                for i in range(i0, i1):
                    for k in unroll(PARTS):
                        out[PARTS * (j * m + i) + k] = p[i * s1 + j * s2 + k]


@inline
def located(T, PARTS, p, s1, s2, n, space):
    """(a square matrix of factors, the distance of its columns): where it is, or copied to `space`."""
    w, far = bits(p, i64), s2 // PARTS
    if (s1 != PARTS) | (far < n):
        columns(PARTS, p, s1, s2, space, n, n)
        w, far = bits(space, i64), n + 0
    return bits(w, Ptr[T]), far


@inline
def clear(PARTS, w, m, n, upper):
    """Set what is above the diagonal (`upper`), or below it, of a matrix of m rows to zero."""
    for j in range(n):
        first, last = select(upper, i64(0), min(j + 1, m)), select(upper, min(j, m), m)
        for i in range(PARTS * first, PARTS * last):
            w[PARTS * j * m + i] = 0


@inline
def rows_of_triangle(PARTS, UPPER, p, s1, s2, out, m, n):
    """Copy a matrix of m rows to `out`, row by row, with zeros above the diagonal, or below it if UPPER."""
    if s2 == PARTS:
        for i in range(m):
            row, to = p + i * s1, out + PARTS * i * n
            edge = min(n, i if UPPER else i + 1)
            for j in lanes(PARTS * (edge if UPPER else 0), PARTS * (n if UPPER else edge)):
                to[j] = row[j]
            for j in lanes(PARTS * (0 if UPPER else edge), PARTS * (edge if UPPER else n)):
                to[j] = 0
    else:
        for i0 in range(0, m, BLOCK):
            for j0 in range(0, n, BLOCK):
                j1 = min(j0 + BLOCK, n)
                for i in range(i0, min(i0 + BLOCK, m)):
                    row, to = p + i * s1, out + PARTS * i * n
                    edge = max(j0, min(j1, i if UPPER else i + 1))
                    first, last = (edge, j1) if UPPER else (j0, edge)
                    for j in range(first, last):
                        for k in unroll(PARTS):
                            to[PARTS * j + k] = row[j * s2 + k]
                    start, stop = (j0, edge) if UPPER else (edge, j1)
                    for j in lanes(PARTS * start, PARTS * stop):
                        to[j] = 0


@inline
def texts(codes):
    """The memory of texts of one character each."""
    t = array(u8, 4)
    for k in unroll(len(codes)):
        t[k] = u8(codes[k])
    return t


@inline
def numbers(values):
    """The memory of integers."""
    t = array(i64, 8)
    for k in unroll(len(values)):
        t[k] = values[k]
    return t


@kernel
def cholesky(PARTS, potrf: i64, a: Header, out: Ptr[T], info: Ptr[i32], uplo: i64, grain: i64):
    """The factor in the triangle `uplo`, and zeros in the other."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    for lo, hi in parallel(count, grain):
        which, ints = texts([uplo]), numbers([n, i64(0)])
        for k in range(lo, hi):
            w = out + k * n * n * PARTS
            columns(PARTS, p + k * step, s1, s2, w, n, n)
            call(potrf, None, which, ints, w, ints, ints + 1, i64(LENGTH))
            clear(PARTS, w, n, n, uplo == LOWER)
            info[k] = i32(ints[1])


@kernel
def cholesky_inverse(PARTS, potri: i64, a: Header, out: Ptr[T], info: Ptr[i32], uplo: i64):
    """The inverse of the matrix with this factor."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    which, ints = texts([uplo]), numbers([n, i64(0)])
    for k in range(count):
        w = out + k * n * n * PARTS
        columns(PARTS, p + k * step, s1, s2, w, n, n)
        call(potri, None, which, ints, w, ints, ints + 1, i64(LENGTH))
        for j in range(n):
            for i in range(j):
                low, high = w + PARTS * (j * n + i), w + PARTS * (i * n + j)
                if uplo == LOWER:
                    low[0] = high[0]
                    if PARTS == 2:
                        low[1] = -high[1]
                else:
                    high[0] = low[0]
                    if PARTS == 2:
                        high[1] = -low[1]
        info[k] = i32(ints[1])


@kernel
def cholesky_solve(PARTS, potrs: i64, a: Header, b: Header, space: Ptr[T], out: Ptr[T], uplo: i64):
    """X of A X = B, where `a` has the factors of A."""
    p, _, _, n, step, s1, s2 = stack(a, T, PARTS)
    q, count, _, columns_of_b, b_step, b1, b2 = stack(b, T, PARTS)
    which, ints = texts([uplo]), numbers([n, columns_of_b, i64(0), n])
    for k in range(count):
        w = out + k * n * columns_of_b * PARTS
        factors, far = located(T, PARTS, p + k * step, s1, s2, n, space)
        ints[3] = far
        columns(PARTS, q + k * b_step, b1, b2, w, n, columns_of_b)
        call(potrs, None, which, ints, ints + 1, factors, ints + 3, w, ints, ints + 2, i64(LENGTH))


@kernel
def lu_factor(
    PARTS, getrf: i64, a: Header, out: Ptr[T], pivots: Ptr[i32], info: Ptr[i32], space: Ptr[i64],
    grain: i64,
):  # fmt: skip
    """L and U in one matrix; exchanges of rows, counted from 1."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    least = min(m, n)
    for lo, hi in parallel(count, grain):
        ints, places = numbers([m, n, i64(0)]), space + lo // grain * least
        for k in range(lo, hi):
            w = out + k * m * n * PARTS
            columns(PARTS, p + k * step, s1, s2, w, m, n)
            call(getrf, None, ints, ints + 1, w, ints, places, ints + 2)
            for i in range(least):
                pivots[k * least + i] = i32(places[i])
            info[k] = i32(ints[2])


@kernel
def det(PARTS, getrf: i64, a: Header, out: Ptr[T], space: Ptr[T], places: Ptr[i64], grain: i64):
    """The products of the diagonals of U, negative after an odd number of exchanges."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    for lo, hi in parallel(count, grain):
        ints, chunk = numbers([n, i64(0)]), lo // grain
        w, at = space + chunk * n * n * PARTS, places + chunk * n
        for k in range(lo, hi):
            columns(PARTS, p + k * step, s1, s2, w, n, n)
            call(getrf, None, ints, ints, w, ints, at, ints + 1)
            real, imaginary, odd = T(1), T(0), i64(0)
            for i in range(n):
                odd = odd + i64(at[i] != i + 1)
                u = w + i * (n + 1) * PARTS
                if PARTS == 1:
                    real = real * u[0]
                else:
                    old = real + 0
                    real = old * u[0] - imaginary * u[1]
                    imaginary = old * u[1] + imaginary * u[0]
            sign = T(1 - 2 * (odd % 2))
            out[k * PARTS] = real * sign
            if PARTS == 2:
                out[k * PARTS + 1] = imaginary * sign


@kernel
def lu_solve(
    PARTS, getrs: i64, a: Header, pivots: Ptr[i32], b: Header, space: Ptr[T], places: Ptr[i64], out: Ptr[T],
    trans: i64,
):  # fmt: skip
    """X of A X = B (Aᴴ X = B) for what `lu_factor` found."""
    p, _, _, n, step, s1, s2 = stack(a, T, PARTS)
    q, count, _, columns_of_b, b_step, b1, b2 = stack(b, T, PARTS)
    which, ints = texts([trans]), numbers([n, columns_of_b, i64(0), n])
    for k in range(count):
        w = out + k * n * columns_of_b * PARTS
        factors, far = located(T, PARTS, p + k * step, s1, s2, n, space)
        ints[3] = far
        columns(PARTS, q + k * b_step, b1, b2, w, n, columns_of_b)
        for i in range(n):
            places[i] = max(i64(1), min(i64(pivots[k * n + i]), n))  # of meta tensors they are 0
        call(
            getrs,
            None,
            which,
            ints,
            ints + 1,
            factors,
            ints + 3,
            places,
            w,
            ints,
            ints + 2,
            i64(LENGTH),
        )


@kernel
def solve_triangular(
    PARTS, trsm: i64, a: Header, b: Header, out: Ptr[T], side: i64, upper: i64, diag: i64
):
    """X of A X = B (X A = B) for triangular A, whose rows or columns are dense."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    q, count, m, columns_of_b, b_step, b1, b2 = stack(b, T, PARTS)
    by_rows = (s2 == PARTS) & (s1 >= n * PARTS)
    trans, turned, leading = i64(PLAIN), upper + 0, s2 // PARTS
    if by_rows:
        trans, turned, leading = i64(TURNED), 1 - upper, s1 // PARTS
    which = texts([side, select(turned != 0, i64(UPPER), i64(LOWER)), trans, diag])
    ints, one = numbers([m, columns_of_b, max(leading, n)]), array(T, 2)
    one[0] = 1
    one[1] = 0
    for k in range(count):
        w = out + k * m * columns_of_b * PARTS
        columns(PARTS, q + k * b_step, b1, b2, w, m, columns_of_b)
        call(
            trsm, None, which, which + 1, which + 2, which + 3, ints, ints + 1, one, p + k * step,
            ints + 2, w, ints, i64(LENGTH), i64(LENGTH), i64(LENGTH), i64(LENGTH),
        )  # fmt: skip


@kernel
def geqrf(
    PARTS, routine: i64, a: Header, out: Ptr[T], tau: Ptr[T], space: Ptr[T], room: i64, grain: i64
):
    """Reflections below R, and their factors."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    least = min(m, n)
    for lo, hi in parallel(count, grain):
        ints, mine = numbers([m, n, room, i64(0)]), space + lo // grain * room * PARTS
        for k in range(lo, hi):
            w, t = out + k * m * n * PARTS, tau + k * least * PARTS
            columns(PARTS, p + k * step, s1, s2, w, m, n)
            call(routine, None, ints, ints + 1, w, ints, t, mine, ints + 2, ints + 3)


@kernel
def orgqr(
    PARTS, routine: i64, a: Header, tau: Ptr[T], out: Ptr[T], space: Ptr[T], room: i64, wide: i64,
    reflections: i64, grain: i64,
):  # fmt: skip
    """The first `wide` columns of the product of reflections."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    for lo, hi in parallel(count, grain):
        ints = numbers([m, wide, reflections, room, i64(0)])
        mine = space + lo // grain * room * PARTS
        for k in range(lo, hi):
            w, t = out + k * m * wide * PARTS, tau + k * reflections * PARTS
            columns(PARTS, p + k * step, s1, s2, w, m, min(n, wide))
            call(routine, None, ints, ints + 1, ints + 2, w, ints, t, mine, ints + 3, ints + 4)


@kernel
def ormqr(
    PARTS, routine: i64, a: Header, tau: Ptr[T], c: Header, factors: Ptr[T], out: Ptr[T], space: Ptr[T],
    room: i64, reflections: i64, side: i64, trans: i64,
):  # fmt: skip
    """Q C (C Q, Qᴴ C, C Qᴴ) for the product Q of reflections."""
    p, count, rows, _n, step, s1, s2 = stack(a, T, PARTS)
    q, count, m, columns_of_c, c_step, c1, c2 = stack(c, T, PARTS)
    which = texts([side, trans])
    ints = numbers([m, columns_of_c, reflections, rows, room, i64(0)])
    for k in range(count):
        w, t = out + k * m * columns_of_c * PARTS, tau + k * reflections * PARTS
        columns(PARTS, p + k * step, s1, s2, factors, rows, reflections)
        columns(PARTS, q + k * c_step, c1, c2, w, m, columns_of_c)
        call(
            routine, None, which, which + 1, ints, ints + 1, ints + 2, factors, ints + 3, t, w, ints,
            space, ints + 4, ints + 5, i64(LENGTH), i64(LENGTH),
        )  # fmt: skip


@kernel
def ldl_factor(
    PARTS, sytrf: i64, a: Header, out: Ptr[T], pivots: Ptr[i32], info: Ptr[i32], places: Ptr[i64],
    space: Ptr[T], room: i64,
):  # fmt: skip
    """L and D in one matrix, from the lower triangle; zeros above."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    which, ints = texts([i64(LOWER)]), numbers([n, room, i64(0)])
    for k in range(count):
        w = out + k * n * n * PARTS
        columns(PARTS, p + k * step, s1, s2, w, n, n)
        call(sytrf, None, which, ints, w, ints, places, space, ints + 1, ints + 2, i64(LENGTH))
        clear(PARTS, w, n, n, b1(1))
        for i in range(n):
            pivots[k * n + i] = i32(places[i])
        info[k] = i32(ints[2])


@kernel
def ldl_solve(
    PARTS,
    sytrs: i64,
    a: Header,
    pivots: Ptr[i32],
    b: Header,
    space: Ptr[T],
    places: Ptr[i64],
    out: Ptr[T],
):
    """X of A X = B for what `ldl_factor` found."""
    p, _, _, n, step, s1, s2 = stack(a, T, PARTS)
    q, count, _, columns_of_b, b_step, b1, b2 = stack(b, T, PARTS)
    which, ints = texts([i64(LOWER)]), numbers([n, columns_of_b, i64(0), n])
    for k in range(count):
        w = out + k * n * columns_of_b * PARTS
        factors, far = located(T, PARTS, p + k * step, s1, s2, n, space)
        ints[3] = far
        columns(PARTS, q + k * b_step, b1, b2, w, n, columns_of_b)
        at = i64(0)
        while at < n:
            other = i64(pivots[k * n + at])
            if (other < 0) & (at + 1 < n):
                places[at] = max(other, -n)
                places[at + 1] = places[at]
                at += 2
            else:
                places[at] = max(i64(1), min(abs(other), n))
                at += 1
        call(
            sytrs,
            None,
            which,
            ints,
            ints + 1,
            factors,
            ints + 3,
            places,
            w,
            ints,
            ints + 2,
            i64(LENGTH),
        )


@kernel
def upper_triangle(PARTS, a: Header, out: Ptr[T], rows: i64):
    """The first rows of each matrix, with zeros below the diagonal."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    for k in range(count):
        w = out + k * rows * n * PARTS
        columns(PARTS, p + k * step, s1, s2, w, rows, n)
        clear(PARTS, w, rows, n, b1(0))


@kernel
def lu_unpack(
    PARTS,
    a: Header,
    pivots: Ptr[i32],
    order: Ptr[i64],
    permutation: Ptr[T],
    lower: Ptr[T],
    upper: Ptr[T],
):
    """P, L and U of what `lu_factor` found, row by row."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    least = min(m, n)
    for k in range(count):
        l, u, w = (
            lower + k * m * least * PARTS,
            upper + k * least * n * PARTS,
            permutation + k * m * m * PARTS,
        )
        rows_of_triangle(PARTS, False, p + k * step, s1, s2, l, m, least)
        rows_of_triangle(PARTS, True, p + k * step, s1, s2, u, least, n)
        for i in range(m):
            order[i] = i
        for i in range(least):
            other = max(i64(0), min(i64(pivots[k * least + i]) - 1, m - 1))
            held = order[i]
            order[i] = order[other]
            order[other] = held
            l[PARTS * (i * least + i)] = 1
            if PARTS == 2:
                l[PARTS * (i * least + i) + 1] = 0
        for i in lanes(0, PARTS * m * m):
            w[i] = 0
        for i in range(m):
            w[PARTS * (order[i] * m + i)] = 1


@kernel
def solve(
    PARTS, gesv: i64, a: Header, b: Header, space: Ptr[T], places: Ptr[i64], out: Ptr[T], info: Ptr[i32],
    grain: i64,
):  # fmt: skip
    """X of A X = B."""
    p, _, _, n, step, s1, s2 = stack(a, T, PARTS)
    q, count, _, columns_of_b, b_step, b1, b2 = stack(b, T, PARTS)
    for lo, hi in parallel(count, grain):
        ints, chunk = numbers([n, columns_of_b, i64(0)]), lo // grain
        factors, at = space + chunk * n * n * PARTS, places + chunk * n
        for k in range(lo, hi):
            w = out + k * n * columns_of_b * PARTS
            columns(PARTS, p + k * step, s1, s2, factors, n, n)
            columns(PARTS, q + k * b_step, b1, b2, w, n, columns_of_b)
            call(gesv, None, ints, ints + 1, factors, ints, at, w, ints, ints + 2)
            info[k] = i32(ints[2])


@kernel
def inverse(
    PARTS, getrf: i64, getri: i64, a: Header, out: Ptr[T], info: Ptr[i32], places: Ptr[i64], space: Ptr[T],
    room: i64, grain: i64,
):  # fmt: skip
    """The inverses; the factors of a singular matrix. Above the diagonal getri leaves -0 where it finds nothing to
    subtract from; a sum with 0 makes it 0."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    for lo, hi in parallel(count, grain):
        ints, chunk = numbers([n, room, i64(0)]), lo // grain
        at, mine = places + chunk * n, space + chunk * room * PARTS
        for k in range(lo, hi):
            w = out + k * n * n * PARTS
            columns(PARTS, p + k * step, s1, s2, w, n, n)
            call(getrf, None, ints, ints, w, ints, at, ints + 2)
            info[k] = i32(ints[2])
            if ints[2] == 0:
                call(getri, None, ints, w, ints, at, mine, ints + 1, ints + 2)
                for i in lanes(0, n * n * PARTS):
                    w[i] = w[i] + T(0)


@kernel
def eigh(
    PARTS, syevd: i64, a: Header, values: Ptr[T], out: Ptr[T], info: Ptr[i32], space: Ptr[T], room: i64,
    real_space: Ptr[T], real_room: i64, places: Ptr[i64], places_room: i64, job: i64, uplo: i64,
):  # fmt: skip
    """Eigenvalues and, with the job VECTORS, vectors of Hermitian matrices."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    which, ints = texts([job, uplo]), numbers([n, room, real_room, places_room, i64(0)])
    for k in range(count):
        w, v = out + k * n * n * PARTS * i64(job == VECTORS), values + k * n
        columns(PARTS, p + k * step, s1, s2, w, n, n)
        if PARTS == 1:
            call(
                syevd, None, which, which + 1, ints, w, ints, v, space, ints + 1, places, ints + 3,
                ints + 4, i64(LENGTH), i64(LENGTH),
            )  # fmt: skip
        else:
            call(
                syevd, None, which, which + 1, ints, w, ints, v, space, ints + 1, real_space, ints + 2,
                places, ints + 3, ints + 4, i64(LENGTH), i64(LENGTH),
            )  # fmt: skip
        info[k] = i32(ints[4])


@kernel
def svd(
    PARTS, gesdd: i64, a: Header, copy: Ptr[T], u: Ptr[T], values: Ptr[T], v: Ptr[T], info: Ptr[i32],
    space: Ptr[T], room: i64, real_space: Ptr[T], places: Ptr[i64], job: i64, width: i64, height: i64,
):  # fmt: skip
    """U [m, width], the singular values, and Vᴴ [height, n]."""
    p, count, m, n, step, s1, s2 = stack(a, T, PARTS)
    which, ints, least = texts([job]), numbers([m, n, height, room, i64(0)]), min(m, n)
    for k in range(count):
        columns(PARTS, p + k * step, s1, s2, copy, m, n)
        left, right, s = u + k * m * width * PARTS, v + k * height * n * PARTS, values + k * least
        if PARTS == 1:
            call(
                gesdd, None, which, ints, ints + 1, copy, ints, s, left, ints, right, ints + 2, space,
                ints + 3, places, ints + 4, i64(LENGTH),
            )  # fmt: skip
        else:
            call(
                gesdd, None, which, ints, ints + 1, copy, ints, s, left, ints, right, ints + 2, space,
                ints + 3, real_space, places, ints + 4, i64(LENGTH),
            )  # fmt: skip
        info[k] = i32(ints[4])


@inline
def pairs(T, imaginary, vectors, out, n):
    """Complex vectors of a real matrix: those of two conjugate values are two columns, real and imaginary parts."""
    for j in range(n):
        at, sign, beside = j + 0, T(0), j + 0
        if imaginary[j] > 0:
            sign, beside = sign + 1, j + 1
        elif imaginary[j] < 0:
            at, sign = j - 1, sign - 1
        for i in range(n):
            out[2 * (j * n + i)] = vectors[at * n + i]
            out[2 * (j * n + i) + 1] = sign * vectors[beside * n + i] if sign != 0 else sign


@kernel
def eig(
    PARTS, geev: i64, a: Header, copy: Ptr[T], parts: Ptr[T], vectors: Ptr[T], values: Ptr[T], out: Ptr[T],
    info: Ptr[i32], space: Ptr[T], room: i64, real_space: Ptr[T], job: i64,
):  # fmt: skip
    """Eigenvalues and, with the job VECTORS, vectors, complex. `parts`: 2 n numbers."""
    p, count, _, n, step, s1, s2 = stack(a, T, PARTS)
    which, ints = texts([i64(VALUES), job]), numbers([n, room, i64(0)])
    for k in range(count):
        columns(PARTS, p + k * step, s1, s2, copy, n, n)
        s, w = values + 2 * k * n, out + 2 * k * n * n * i64(job == VECTORS)
        if PARTS == 2:
            call(
                geev, None, which, which + 1, ints, copy, ints, s, vectors, ints, w, ints, space,
                ints + 1, real_space, ints + 2, i64(LENGTH), i64(LENGTH),
            )  # fmt: skip
        else:
            call(
                geev, None, which, which + 1, ints, copy, ints, parts, parts + n, vectors, ints,
                vectors, ints, space, ints + 1, ints + 2, i64(LENGTH), i64(LENGTH),
            )  # fmt: skip
            for j in range(n):
                s[2 * j] = parts[j]
                s[2 * j + 1] = parts[n + j]
            if job == VECTORS:
                pairs(T, parts + n, vectors, w, n)
        info[k] = i32(ints[2])
