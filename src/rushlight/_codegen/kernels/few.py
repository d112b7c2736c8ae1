"""Whole operators for native entries: complex numbers of their parts, few slices scaled to a length."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.header import dims_of, in_order, same_shape, size_of
from rushlight._codegen.kernels.shape_inference import at_axis, like, note
from rushlight._codegen.kernels.trigonometry import sine_and_cosine
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, RUN
from rushlight._codegen.runtime.abi import DATA
from rushlight._codegen.types import Header, Ptr, f64, i64, width

FEW = 16384  # elements of an array whose slices are scaled here
GRAIN = 16384  # pairs in a chunk


@inline
def paired(a, b, plan):
    """A result of the shape of two arrays of one shape: how many elements."""
    n = size_of(a)
    like(a, plan)
    note(plan, n, [n])
    fits = in_order(a) & in_order(b) & same_shape(a, b) & (dims_of(a) <= DIMS)
    plan[RUN] = i64(fits & (n > 0))


@kernel
def complex(real: Header, imag: Header, plan: Ptr[i64]):
    paired(real, imag, plan)


@kernel
def polar(abs: Header, angle: Header, plan: Ptr[i64]):
    paired(abs, angle, plan)


@inline
def store_pairs(out, a, b, L):
    """out[2 * i] = a[i], out[2 * i + 1] = b[i] for the L lanes of two vectors."""
    for half in unroll(2):
        store(out + half * L, shuffle(a, b, [(half * L + i) // 2 + i % 2 * L for i in range(L)]))


@kernel
def complex_of(real: Ptr[T], imag: Ptr[T], out: Ptr[T], n: i64):
    """out[i] = real[i] + 1j * imag[i]."""
    L = width(T)
    for lo, hi in parallel(n, GRAIN):
        end = hi - (hi - lo) % L
        for i in range(lo, end, L):
            store_pairs(out + 2 * i, load(real + i, L), load(imag + i, L), L)
        for i in range(end, hi):
            out[2 * i] = real[i]
            out[2 * i + 1] = imag[i]


@kernel
def polar_of(abs: Ptr[T], angle: Ptr[T], out: Ptr[T], n: i64):
    """out[i] = abs[i] * (cos(angle[i]) + 1j * sin(angle[i]))."""
    L = width(T)
    for lo, hi in parallel(n, GRAIN):
        lines = array(T, 2 * L)
        for i in range(lo, hi, L):
            here = iota(i64, L) < hi - i
            sine, cosine = sine_and_cosine(load(angle + i, L, here))
            length = load(abs + i, L, here)
            if i + L <= hi:
                store_pairs(out + 2 * i, length * cosine, length * sine, L)
            else:
                store_pairs(lines, length * cosine, length * sine, L)
                for k in range(2 * (hi - i)):
                    out[2 * i + k] = lines[k]


@kernel
def cleared(a: Header, plan: Ptr[i64]):
    n = size_of(a)
    note(plan, n, [n])
    plan[RUN] = 1


@kernel
def still_zero(a: Header, plan: Ptr[i64]):
    """As `cleared`, of an array whose first number is 0."""
    n = size_of(a)
    note(plan, n, [n])
    plan[RUN] = i64(bits(bits(a, Ptr[i64])[DATA], Ptr[i64])[0] == 0)


@kernel
def renorm(input: Header, p: f64, dim: i64, maxnorm: f64, plan: Ptr[i64]):
    """Slices along a dimension: outer, n, inner, the length that they have at most."""
    fits, outer, n, inner = at_axis(input, dim)
    like(input, plan)
    work = outer * n * inner
    note(plan, work, [outer, n, inner, bits(maxnorm, i64)])
    fits = fits & (dims_of(input) > 1) & (p == 2) & (maxnorm >= 0)
    plan[RUN] = i64(fits & (work > 0) & (work <= FEW))


@kernel
def shortened(a: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64, most: f64):
    """Every slice a[:, j, :] that is longer than `most`, scaled down to it."""
    for j in range(n):
        squares = f64(0)
        for o in range(outer):
            for i in range(inner):
                v = f64(a[(o * n + j) * inner + i])
                squares = squares + v * v
        length, factor = T(sqrt(squares)), T(1)
        if length > T(most):
            factor = T(most) / (length + T(1e-7))
        for o in range(outer):
            for i in lanes(0, inner):
                at = (o * n + j) * inner + i
                out[at] = a[at] * factor
