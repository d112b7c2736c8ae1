"""Coefficients of special functions, for the reference and for kernels; lowest powers first.

The Chebyshev series of data/special_functions.json are written by scripts/special_tables.py, which says what
each is of. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from functools import cache

EULER = 0.57721566490153286061
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
)  # B2, B4, ...
STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))  # DLMF 5.11.1
PSI = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI, 1))  # DLMF 5.11.2
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def zeta_less_one(k: int) -> float:
    """zeta(k) - 1 for k >= 2, by Euler-Maclaurin summation [DLMF 25.2.8]."""
    n = 12
    s = sum(m**-k for m in range(n - 1, 1, -1))
    s += n ** (1 - k) / (k - 1) + 0.5 * n**-k
    term = float(k)
    for j, b in enumerate(BERNOULLI, 1):
        s += b / math.factorial(2 * j) * term * n ** (1 - k - 2 * j)
        term *= (k + 2 * j - 1) * (k + 2 * j)
    return s


# DLMF 5.7.3: log gamma(2 + z) = (1 - EULER) z + sum over k >= 2 of (-1)^k (zeta(k) - 1) z^k / k
AROUND_TWO = (0.0, 1 - EULER, *((-1) ** k * zeta_less_one(k) / k for k in range(2, 28)))


@cache
def series() -> dict[str, list[float]]:
    """The coefficients of the Chebyshev series, by name."""
    import json
    import os

    place = os.path.join(os.path.dirname(__file__), os.pardir, "data/special_functions.json")
    with open(place) as file:
        return json.load(file)


# M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied
# Statistics 37 (1988), PPND16: numerators and denominators of the three regions.
CENTRE_P = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
CENTRE_Q = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)  # fmt: skip
TAIL_P = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
    3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
TAIL_Q = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
    1.05075007164441684324e-9,
)  # fmt: skip
END_P = (
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
    2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
    2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
END_Q = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
    2.04426310338993978564e-15,
)  # fmt: skip
