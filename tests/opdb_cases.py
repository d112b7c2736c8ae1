"""Further cases of rows: inputs large enough for the ways kernels take with them, dtypes asked for, special values.

Only values are checked (in every form and type): gradients do not depend on the size.
"""

from __future__ import annotations

import numpy as np

import rushlight
from opdb_rows import B, C, I, K, N, P, U, distinct, fixed, invertible, v

F64 = rushlight.float64
NAN = np.nan

BIG = [
    v(N(9000)),
    v(N(70, 300)),
    v(N(70, 300), 0),
    v(N(70, 300), 1),
    v(N(40, 20, 30), 1),
    v(N(3, 5000), -1, True),
    v(N(5000, 3), 0),
]
LONG = [v(N(9000), 0), v(N(70, 300), 1), v(N(70, 300), 0)]
SPREAD_OUT = [
    v(distinct(9000)),
    v(distinct(70, 300)),
    v(distinct(70, 300), 1),
    v(distinct(5000, 3), 0),
]
DTYPE = [v(I(3, 4), dtype=F64), v(B(3, 4), 1, dtype=F64)]

CASES = {
    # reductions and scans
    "sum": [*BIG, *DTYPE, v(N(40, 20, 30), (0, 2)), v(N(40, 20, 30), (1, 2)), v(C(70, 90), 1)],
    "mean": [*BIG, *DTYPE, v(N(40, 20, 30), (0, 2)), v(C(70, 90), 1)],
    "nansum": [*BIG, v(K([[1.0, NAN], [NAN, NAN]]), 1)],
    "prod": [v(U(0.9, 1.1)(70, 30)), v(U(0.9, 1.1)(70, 30), 0), *DTYPE],
    "std": [v(N(9000)), v(N(70, 300), dim=1), v(N(5000, 3), dim=0)],
    "var": [v(N(9000)), v(N(70, 300), dim=1), v(N(5000, 3), dim=0)],
    "amax": [*SPREAD_OUT, v(K([[1.0, NAN], [3.0, 2.0]]), 1), v(I(3, 4), 0), v(B(3, 4), 1)],
    "amin": [*SPREAD_OUT, v(K([[1.0, NAN], [3.0, 2.0]]), 1), v(I(3, 4), 0), v(B(3, 4), 1)],
    "argmax": [*SPREAD_OUT, v(K([1.0, NAN, 3.0])), v(I(70, 9), 1)],
    "argmin": [*SPREAD_OUT, v(K([1.0, NAN, 3.0])), v(I(70, 9), 1)],
    "max": [*SPREAD_OUT, v(K([[1.0, NAN], [3.0, 2.0]]), 1)],
    "min": [*SPREAD_OUT, v(K([[1.0, NAN], [3.0, 2.0]]), 1)],
    "any": [v(B(70, 300), 1), v(K([[0.0, NAN], [0.0, 0.0]]), 1), v(I(3, 4))],
    "all": [v(B(70, 300), 1), v(K([[1.0, NAN], [0.0, 0.0]]), 1), v(I(3, 4))],
    "count_nonzero": [v(I(70, 300)), v(I(70, 300), 1)],
    "logsumexp": [v(N(70, 300), 1), v(N(70, 300), 0)],
    "cumsum": [*LONG, v(I(70, 9), 1), v(I(5), 0, dtype=F64), v(N(), 0)],
    "cumprod": [v(U(0.9, 1.1)(70, 30), 1), v(I(5), 0, dtype=F64)],
    "cummax": [v(distinct(70, 300), 1), v(distinct(70, 300), 0)],
    "cummin": [v(distinct(70, 300), 1), v(distinct(70, 300), 0)],
    "logcumsumexp": [v(N(70, 30), 1)],
    "median": [v(distinct(9001)), v(distinct(70, 300), 1), v(distinct(70, 300), 0)],
    "kthvalue": [v(distinct(70, 300), 7), v(distinct(70, 300), 7, 0)],
    "quantile": [v(distinct(70, 300), 0.3, 1), v(distinct(9000), 0.9)],
    # sorting
    "sort": [v(distinct(9000)), v(distinct(70, 300), 0, True), v(I(70, 300, low=-90, high=90), stable=True), v(B(50), stable=True)],
    "argsort": [v(distinct(9000)), v(I(70, 300, low=-90, high=90), stable=True)],
    "topk": [v(distinct(70, 300), 3), v(distinct(9000), 5, largest=False), v(distinct(70, 300), 40, 0)],
    "unique": [v(I(2000, low=-50, high=50), return_inverse=True, return_counts=True), v(N(500))],
    "searchsorted": [v(K(np.arange(500.0)), U(-10, 600)(70, 30))],
    "bincount": [v(I(3000, low=0, high=70)), v(I(3000, low=0, high=70), fixed(N(3000)))],
    # elementwise: large, and values at the ends of the range
    "add": [v(N(200, 90), N(90)), v(N(200, 90), N(200, 1)), v(N(9000), 2.0)],
    "mul": [v(N(200, 90), N(90)), v(N(200, 90), N(200, 1)), v(N(9000), 2.0)],
    "exp": [v(N(9000)), v(K([-800.0, 800.0]))],
    "tanh": [v(N(9000)), v(K([-50.0, 50.0, 1e-8]))],
    "sigmoid": [v(N(9000)), v(K([-800.0, 800.0]))],
    "erf": [v(N(9000)), v(K([-7.0, 7.0, 1e-9]))],
    "log1p": [v(K([1e-12, -1e-12, 1e4]))],
    "expm1": [v(K([1e-12, -1e-12]))],
    "pow": [v(P(9000), 2), v(P(9000), 0.5), v(I(5, low=1), I(5, low=0)), v(K([2.0, -3.0]), 3)],
    "floor_divide": [v(N(9000), 0.3), v(I(50, low=-90, high=90), 7), v(I(50, low=-90, high=90), -7)],
    "remainder": [v(I(50, low=-90, high=90), K(7)), v(I(50, low=-90, high=90), K(-7))],
    "fmod": [v(I(50, low=-90, high=90), K(7)), v(I(50, low=-90, high=90), K(-7))],
    "logaddexp": [v(K([-900.0, 900.0]), K([-901.0, 899.0]))],
    "where": [v(B(200, 90), N(90), N(200, 1))],
    # products
    "matmul": [v(N(70, 90), N(90, 50)), v(N(5, 70, 9), N(5, 9, 30)), v(N(5, 70, 9), N(9, 30)), v(I(70, 9), I(9, 30)), v(C(20, 30), C(30, 20)), v(N(3, 1, 4, 5), N(2, 5, 6))],
    "bmm": [v(N(20, 30, 9), N(20, 9, 30)), v(I(3, 4, 5), I(3, 5, 2))],
    "nn.functional.linear": [v(N(70, 90), N(50, 90), N(50)), v(N(3, 4, 90), N(50, 90), N(50))],
    "einsum": [v("bhqd,bhkd->bhqk", N(2, 3, 20, 8), N(2, 3, 30, 8)), v(N(3, 4), [0, 1], N(4, 5), [1, 2], [0, 2]), v("ij,ij", N(30, 40), N(30, 40)), v("i,i->", N(3), N(3)), v("ij->ji", N(3, 4)), v("ii", N(3, 3))],
    # moving elements
    "index_select": [v(N(300, 70), 0, I(500, low=0, high=300)), v(N(300, 70), 1, I(90, low=0, high=70))],
    "gather": [v(N(300, 70), 1, I(300, 90, low=0, high=70)), v(N(300, 70), 0, I(500, 70, low=0, high=300))],
    "scatter_add": [v(N(40, 30), 1, I(40, 90, low=0, high=30), N(40, 90))],
    "index_add": [v(N(40, 30), 0, I(200, low=0, high=40), N(200, 30)), v(N(40, 30), 1, I(90, low=0, high=30), N(40, 90))],
    "cat": [v([N(200, 30), N(100, 30)]), v([N(200, 30), N(200, 50)], 1)],
    "nn.functional.embedding": [v(I(40, 30, low=0, high=90), N(90, 20))],
    "flip": [v(N(70, 90), (0, 1))],
    "roll": [v(N(70, 90), (5, -3), (0, 1))],
    # layers
    "nn.functional.softmax": [v(N(70, 300), 1), v(N(70, 300), 0), v(K([[800.0, 801.0]]), 1)],
    "nn.functional.log_softmax": [v(N(70, 300), 1), v(N(70, 300), 0)],
    "nn.functional.layer_norm": [v(N(70, 90), (90,), N(90), N(90))],
    "nn.functional.batch_norm": [v(N(8, 20, 9, 9), None, None, N(20), N(20), True), v(N(8, 20, 9, 9), fixed(N(20)), fixed(P(20)), N(20), N(20))],
    "nn.functional.group_norm": [v(N(8, 20, 9, 9), 4, N(20), N(20))],
    "nn.functional.scaled_dot_product_attention": [v(N(2, 3, 70, 16), N(2, 3, 90, 16), N(2, 3, 90, 16)), v(N(2, 3, 70, 16), N(2, 3, 70, 16), N(2, 3, 70, 16), is_causal=True)],
    "nn.functional.cross_entropy": [v(N(200, 70), I(200, low=0, high=70))],
    "conv1d": [v(N(4, 8, 90), N(16, 8, 5), N(16), 2, 2)],
    "conv2d": [v(N(2, 8, 14, 14), N(16, 8, 3, 3), N(16), 1, 1), v(N(2, 16, 9, 9), N(8, 16, 1, 1)), v(N(2, 8, 12, 12), N(8, 1, 3, 3), None, 1, 1, 1, 8), v(N(2, 8, 12, 12), N(16, 8, 3, 3), None, 2, 1)],
    "conv_transpose2d": [v(N(2, 8, 7, 7), N(8, 4, 4, 4), N(4), 2, 1)],
    "max_pool2d": [v(distinct(2, 4, 20, 20), 2), v(distinct(2, 4, 20, 20), 3, 2, 1)],
    "nn.functional.avg_pool2d": [v(N(2, 4, 20, 20), 2), v(N(2, 4, 20, 20), 3, 1, 1)],
    "nn.functional.interpolate": [v(N(1, 3, 20, 20), scale_factor=2.0, mode="bilinear"), v(N(1, 3, 20, 20), scale_factor=2.0)],
    # linear algebra
    "linalg.solve": [v(invertible(30, 30), N(30, 5)), v(invertible(4, 3, 3), N(4, 3, 1))],
    "linalg.inv": [v(invertible(30, 30)), v(invertible(5, 4, 4))],
    # special functions far out
    "lgamma": [v(U(-5.9, -0.1)(20)), v(U(3, 300)(20))],
    "digamma": [v(U(-5.9, -0.1)(20)), v(U(3, 300)(20))],
    "erfinv": [v(K([1 - 1e-12, 1e-12, -0.999]))],
    "igamma": [v(U(0.1, 60)(40), U(0.1, 60)(40))],
    "igammac": [v(U(0.1, 60)(40), U(0.1, 60)(40))],
    "special.bessel_j0": [v(U(-60, 60)(40))],
    "special.bessel_j1": [v(U(-60, 60)(40))],
    "special.bessel_y0": [v(U(0.1, 60)(40))],
    "special.bessel_y1": [v(U(0.1, 60)(40))],
    "i0": [v(U(-30, 30)(20))],
    "special.i1": [v(U(-30, 30)(20))],
    "special.i0e": [v(U(-90, 90)(20))],
    "special.i1e": [v(U(-90, 90)(20))],
    "special.log_ndtr": [v(U(-40, 10)(20))],
    "special.erfcx": [v(U(-5, 90)(20))],
    "special.ndtri": [v(K([1e-12, 1 - 1e-9]))],
    "special.zeta": [v(U(1.1, 9)(20), U(0.2, 20)(20))],
    "special.chebyshev_polynomial_t": [v(U(1, 2)(5), 5)],
    "special.chebyshev_polynomial_u": [v(U(1, 2)(5), 5)],
}  # fmt: skip
