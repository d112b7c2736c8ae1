"""Inner loops of ufuncs: functions of numbers over operands with any strides.

`loop` is NumPy's `PyUFuncGenericFunction`, less the cases that depend on the order of elements
(sums, running sums), which `ufunc_entry.py` keeps from it. Numbers that a function takes besides arrays
are operands too, with a stride of 0, of the type that the function computes in.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.elementwise import STREAM, WIDTH, streamed
from rushlight._codegen.kernels.pointwise import CHEAP, COSTLY
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64, u8

BLOCK = 256  # elements of which those of one kind are gathered
TOGETHER = 8  # of these are computed as a vector


@kernel
def loop(F, TYPES, B, NUMBERS, GRAIN, args: Ptr[Ptr[u8]], n_at: Ptr[i64], steps: Ptr[i64]):
    """out = F(*arrays, *numbers): arrays of TYPES, as many numbers as NUMBERS says, `out` of B."""
    N = len(TYPES)
    n = n_at[0]
    x = [bits(args[k], Ptr[TYPES[k]]) for k in range(N)]
    s = [bits(args[N + k], Ptr[TYPES[0].loaded])[0] for k in range(NUMBERS)]
    out = bits(args[N + NUMBERS], Ptr[B])
    step = [steps[k] for k in range(N)]
    out_step = steps[N + NUMBERS]
    full = [step[k] == TYPES[k].size for k in range(N)]
    dense = out_step == B.size
    first, last = dense, dense
    alone = dense & (step[0] == 0)
    for k in unroll(N):
        dense = dense & full[k]
    if N > 1:  # one element for all, as the gradient of a sum is, and arrays
        first = first & (step[0] == 0) & full[1] & full[N - 1]
        last = last & (step[N - 1] == 0) & full[0] & full[N - 2]
    addresses = bits(args, Ptr[i64])
    address = addresses[N + NUMBERS]
    around = dense & (n * B.size >= STREAM) & ((address & (WIDTH - 1)) == 0)
    for k in unroll(N):  # what was just read is in the caches: it is overwritten there
        around = around & (addresses[k] != address)
    for lo, hi in parallel(n, GRAIN):
        if GRAIN == CHEAP and around:
            L = streamed(B)
            for i in range(lo, hi - L + 1, L):
                store(out + i, F(*[load(x[k] + i, L) for k in range(N)], *s), None, True)
            for i in range(hi - (hi - lo) % L, hi):
                out[i] = F(*[x[k][i] for k in range(N)], *s)
        elif dense:
            for i in lanes(lo, hi):
                out[i] = F(*[x[k][i] for k in range(N)], *s)
        elif N > 1 and first:
            a = x[0][0]
            for i in lanes(lo, hi):
                out[i] = F(a, *[x[k][i] for k in range(1, N)], *s)
        elif N > 1 and last:
            b = x[N - 1][0]
            for i in lanes(lo, hi):
                out[i] = F(*[x[k][i] for k in range(N - 1)], b, *s)
        elif N == 1 and alone:
            v = F(x[0][0], *s)
            for i in lanes(lo, hi):
                out[i] = v
        else:
            bytes_of = [bits(x[k], Ptr[u8]) for k in range(N)]
            to = bits(out, Ptr[u8])
            for i in range(lo, hi):
                at = [bits(bytes_of[k] + i * step[k], Ptr[TYPES[k]]) for k in range(N)]
                here = bits(to + i * out_step, Ptr[B])
                here[0] = F(*[at[k][0] for k in range(N)], *s)


@kernel
def loop_of_vectors(F, T, N, NUMBERS, L, args: Ptr[Ptr[u8]], n_at: Ptr[i64], steps: Ptr[i64]):
    """out = F(*arrays, *numbers), N arrays, L elements at a time, for an F that looks whether some of them are rare
    cases."""
    n = n_at[0]
    x = [bits(args[k], Ptr[T]) for k in range(N)]
    s = [bits(args[N + k], Ptr[T.loaded])[0] for k in range(NUMBERS)]
    out, step = bits(args[N + NUMBERS], Ptr[T]), [steps[k] for k in range(N)]
    out_step = steps[N + NUMBERS]
    dense = (step[0] == T.size) & (out_step == T.size)
    by_one = dense
    if N > 1:
        by_one = dense & (step[1] == 0)
        dense = dense & (step[1] == T.size)
    for lo, hi in parallel(n, COSTLY):
        tail = lo
        if dense:
            for i in range(lo, hi - L + 1, L):
                store(out + i, F(*[load(x[k] + i, L) for k in range(N)], *s))
            tail = hi - (hi - lo) % L
        if N > 1:
            if by_one:
                b = splat(x[1][0], L)
                for i in range(lo, hi - L + 1, L):
                    store(out + i, F(load(x[0] + i, L), b, *s))
                tail = hi - (hi - lo) % L
        for i in range(tail, hi):
            at = [bits(bits(x[k], Ptr[u8]) + i * step[k], Ptr[T]) for k in range(N)]
            to = bits(bits(out, Ptr[u8]) + i * out_step, Ptr[T])
            to[0] = F(*[at[k][0] for k in range(N)], *s)


@kernel
def loop_of_kinds(KIND, FUNCTIONS, T, N, args: Ptr[Ptr[u8]], n_at: Ptr[i64], steps: Ptr[i64]):
    """out = FUNCTIONS[k](*arrays), N arrays, where KIND(*arrays) is k: the elements of a block that are of one kind are
    computed together, so that none waits for what another kind needs."""
    n, R, KINDS, L = n_at[0], T.loaded, len(FUNCTIONS), TOGETHER
    at, step = [args[k] for k in range(N + 1)], [steps[k] for k in range(N + 1)]
    for lo, hi in parallel(n, COSTLY):
        x = [array(R, BLOCK) for k in range(N)]
        places = [array(i64, BLOCK + L) for k in range(KINDS)]
        taken, out = [array(R, L) for k in range(N)], array(R, L)
        for start in range(lo, hi, BLOCK):
            counts = [i64(0) for k in range(KINDS)]
            for i in range(min(i64(BLOCK), hi - start)):
                for k in unroll(N):
                    x[k][i] = bits(at[k] + (start + i) * step[k], Ptr[T])[0]
                kind = KIND(*[x[k][i] for k in range(N)])
                for k in unroll(KINDS):
                    places[k][counts[k]] = i
                    counts[k] = counts[k] + (i64(1) if kind == k else 0)
            for k in unroll(KINDS):
                one = places[k][0]  # which fills the last vector
                for j in unroll(L):
                    places[k][counts[k] + j] = one
                for first in range(0, counts[k], L):
                    here = places[k] + first
                    for j in unroll(L):
                        place = here[j]
                        for d in unroll(N):
                            taken[d][j] = x[d][place]
                    store(out, FUNCTIONS[k](*[load(taken[d], L) for d in range(N)]))
                    for j in range(min(i64(L), counts[k] - first)):
                        bits(at[N] + (start + here[j]) * step[N], Ptr[T])[0] = out[j]


@kernel
def first_zero(x: Ptr[T], n: i64, place: Ptr[i64]):
    """place[0] = where the first vector or number with a 0 is; n for none."""
    L = WIDTH // T.size
    place[0] = n
    for i in range(0, n - L + 1, L):
        if some(load(x + i, L) == T(0)):
            place[0] = i
            break
    if place[0] == n:
        for i in range(n - n % L, n):
            if x[i] == 0:
                place[0] = i
                break
