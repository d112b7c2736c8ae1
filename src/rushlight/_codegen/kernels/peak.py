"""How fast this machine can be: what measurements are compared with."""

from __future__ import annotations

from time import perf_counter

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, i64

CHAINS = 16  # independent sums, enough to hide what one multiply-add takes
LANES = 16


@kernel
def multiply_adds(out: Ptr[f32], threads: i64, count: i64):
    """Fused multiply-adds in registers: CHAINS * LANES * count on each thread."""
    for lo, hi in parallel(threads, 1):
        for t in range(lo, hi):
            x, y = splat(out[t] + f32(0.5), LANES), splat(out[t] + f32(0.25), LANES)
            sums = [splat(f32(i), LANES) for i in range(CHAINS)]
            for _ in range(count):
                for i in unroll(CHAINS):
                    sums[i] = fma(sums[i], x, y)
            s = sums[0]
            for i in unroll(range(1, CHAINS)):
                s = s + sums[i]
            store(out + t * LANES, s)


def fused_multiply_adds(threads: int, count: int = 1_000_000) -> float:
    """GFLOP/s of `threads` threads, a multiply-add counted as two."""
    import numpy as np

    out = np.zeros(threads * LANES, np.float32)
    run = multiply_adds.compiled()
    run(out, threads, 1000)
    start = perf_counter()
    run(out, threads, count)
    return 2 * CHAINS * LANES * threads * count / (perf_counter() - start) / 1e9


def copied(size: int = 1 << 26) -> float:
    """GB/s of a copy of memory out of the caches, read and written bytes counted."""
    import numpy as np

    a, b = np.ones(size, np.uint8), np.ones(size, np.uint8)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        np.copyto(b, a)
        best = min(best, perf_counter() - start)
    return 2 * size / best / 1e9
