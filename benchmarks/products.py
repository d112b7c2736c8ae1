"""Matrix products against the two libraries that PyTorch and NumPy call: MKL and OpenBLAS.

    python benchmarks/products.py [--threads 1] [--rounds 9] [--only 64] [--above 1.0]

Each side writes into memory that is there, so that neither allocation nor an operator's overhead
counts (`kernels.py` times whole calls): the kernel by itself, `torch.mm(out=)`, `numpy.matmul(out=)`.
OpenBLAS must take its kernels for this processor, which it does unless OPENBLAS_CORETYPE says otherwise;
the head of the table names them. The ratio is to the faster of the two.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from typing import Any

import alternation

SQUARE = (64, 65, 67, 72, 80, 88, 96, 100, 104, 111, 112, 120, 127, 128, 129, 192, 200, 256, 384, 500,
          512, 768, 1000, 1024, 1025, 1500, 2048)  # fmt: skip
OTHERS = ((64, 784, 128), (784, 64, 128), (512, 384, 1536), (512, 1536, 384), (32, 512, 1000),
          (512, 16, 512), (100, 10000, 100), (200, 64, 64), (64, 64, 200), (10000, 100, 100), (64, 4096, 64),
          (500, 1000, 33))  # fmt: skip
BATCHES = ((512, 32, 32, 32), (64, 128, 64, 128), (32, 100, 100, 100), (16, 256, 64, 256),
           (1000, 16, 16, 16), (96, 65, 64, 65))  # fmt: skip
TRANSPOSED = ("NN", "NT", "TN", "TT")
# Seconds. OpenBLAS's threads wait awake for up to a tenth of a second after their last job: who is
# timed sooner on as many cores finds one of them taken.
REST = 0.12


def cases() -> Iterator[tuple[str, tuple[int, ...], int, int, int, str, str]]:
    """Name, leading dimensions, m, k, n, which of the two matrices are transposed, dtype."""
    for n in SQUARE:
        for kind in TRANSPOSED:
            yield f"{n} {kind}", (), n, n, n, kind, "float32"
        yield f"{n} float64", (), n, n, n, "NN", "float64"
    for m, k, n in OTHERS:
        for kind in TRANSPOSED[:3]:
            yield f"{m} x {k} x {n} {kind}", (), m, k, n, kind, "float32"
    for count, m, k, n in BATCHES:
        for kind in TRANSPOSED[:3]:
            yield f"{count} of {m} x {k} x {n} {kind}", (count,), m, k, n, kind, "float32"


def arrays(lead: tuple[int, ...], m: int, k: int, n: int, kind: str, dtype: str) -> tuple:
    """Two matrices that lie in memory as `kind` says."""
    import numpy as np

    made, draw = [], np.random.default_rng(0)
    for shape, how in zip(((*lead, m, k), (*lead, k, n)), kind, strict=True):
        a = draw.standard_normal(shape).astype(dtype)
        made.append(a if how == "N" else a.swapaxes(-1, -2).copy().swapaxes(-1, -2))
    return tuple(made)


def sides(a: Any, b: Any, torch: Any) -> list[Any]:
    """The product by ours, by PyTorch's library and by NumPy's."""
    import numpy as np

    from rushlight._codegen import product_sizes
    from rushlight._codegen.kernels import gemm
    from rushlight._codegen.types import of

    x, y, z = (np.empty((*a.shape[:-1], b.shape[-1]), a.dtype) for _ in range(3))
    kernel = gemm.product.compiled(**product_sizes.for_gemm(of(a.dtype)))
    left, right, out = (torch.from_numpy(t) for t in (a, b, y))
    multiply = torch.mm if a.ndim == 2 else torch.bmm
    return [
        lambda: kernel(a, b, x, x, x, gemm.SET, 1.0),
        lambda: multiply(left, right, out=out),
        lambda: np.matmul(a, b, out=z),
    ]


def core() -> str:
    """What OpenBLAS calls the processor that its kernels are for."""
    import ctypes

    from rushlight._backends import blas

    name = blas.function("get_corename")
    if name is None:
        return "not OpenBLAS"
    name.restype = ctypes.c_char_p
    return name().decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--above", type=float, help="print only cases above this ratio")
    arguments = parser.parse_args()
    alternation.limit_threads(arguments.threads)
    os.environ.setdefault("RUSHLIGHT_COMPILED", "1")
    import torch
    from kernels import limits

    import rushlight
    from rushlight._backends import blas

    torch.set_num_threads(arguments.threads)
    rushlight.set_num_threads(arguments.threads)
    peak = limits(arguments.threads)[0]
    set_threads = blas.function("set_num_threads")
    if set_threads is not None:  # Rushlight keeps NumPy's library on one thread
        set_threads(arguments.threads)
    print(alternation.machine())
    print(f"kernels  OpenBLAS's for {core()}; PyTorch {torch.__version__}")
    print(f"limit    {peak:.0f} GFLOP/s\n")
    print(f"{'case':<28} {'Rushlight us':>12} {'MKL us':>12} {'OpenBLAS us':>12}  ratio  of peak")
    ratios = []
    for name, lead, m, k, n, kind, dtype in cases():
        if arguments.only not in name:
            continue
        ours, mkl, openblas = sides(*arrays(lead, m, k, n, kind, dtype), torch)
        first = alternation.alternate(ours, mkl, arguments.rounds, 0.01)
        rest = REST if arguments.threads > 1 else alternation.REST
        second = alternation.alternate(ours, openblas, arguments.rounds, 0.01, rest)
        ratio = max(first.ratio, second.ratio)
        ratios.append(ratio)
        if arguments.above is not None and ratio < arguments.above:
            continue
        taken = min(first.ours, second.ours)
        rate = 2 * math.prod(lead) * m * k * n / taken / 1e9 * (2 if dtype == "float64" else 1)
        print(
            f"{name:<28} {taken * 1e6:>12.1f} {first.theirs * 1e6:>12.1f} "
            f"{second.theirs * 1e6:>12.1f} {ratio:>6.3f} {rate / peak:>8.0%}",
            flush=True,
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slower = sum(r > 1 for r in ratios)
        print(
            f"\ngeometric mean {mean:.3f} of the faster one's time; {slower} of {len(ratios)} slower"
        )


if __name__ == "__main__":
    main()
