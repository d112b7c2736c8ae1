"""How fast this machine can be: what measurements are compared with."""

from __future__ import annotations

from time import perf_counter

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, i64

CHAINS = 12  # independent sums: enough to hide what one multiply-add takes, and few enough to stay in registers


@kernel
def multiply_adds(out: Ptr[f32], threads: i64, count: i64):
    """Fused multiply-adds in registers of L lanes: CHAINS * L * count on each thread."""
    for lo, hi in parallel(threads, 1):
        for t in range(lo, hi):
            x, y = splat(out[t] + f32(0.5), L), splat(out[t] + f32(0.25), L)
            sums = [splat(f32(i), L) for i in range(CHAINS)]
            for _ in range(count):
                for i in unroll(CHAINS):
                    sums[i] = fma(sums[i], x, y)
            s = sums[0]
            for i in unroll(range(1, CHAINS)):
                s = s + sums[i]
            store(out + t * L, s)


def fused_multiply_adds(threads: int, count: int = 1_000_000) -> float:
    """GFLOP/s of `threads` threads, a multiply-add counted as two."""
    import numpy as np

    from rushlight._codegen.product_sizes import gemm_sizes

    lanes = gemm_sizes(f32)["L"]
    out = np.zeros(threads * lanes, np.float32)
    run = multiply_adds.compiled(L=lanes)
    run(out, threads, 1000)
    start = perf_counter()
    run(out, threads, count)
    return 2 * CHAINS * lanes * threads * count / (perf_counter() - start) / 1e9


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
