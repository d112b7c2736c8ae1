"""Poisson, binomial and gamma numbers, by drawing until a proposal is accepted.

The formulas are those of `_backends/reference/rejection.py`, which names their sources. Logarithms and powers are the C
library's (LOG, EXP, ...), as Python's and PyTorch's are.
"""

from __future__ import annotations

from math import lgamma, log, pi

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.random import TWO_PI, next_wide
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, f64, i64, u32


@routine
def uniform(key: Ptr[u32]) -> f64:
    """The next number in [0, 1)."""
    return next_wide(key)


# -- Poisson ---------------------------------------------------------------------------------------


@inline
def multiplied(EXP, key, rate):
    """How many uniform numbers can be multiplied until the product is at most exp(-rate)."""
    count = f64(0)
    limit = EXP(-rate)
    product = uniform(key)
    while product > limit:
        product = product * uniform(key)
        count += 1
    return count


@inline
def poisson_by_rejection(LOG, LGAMMA, key, rate):
    root, log_rate = sqrt(rate), LOG(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    k = f64(0)
    drawing = b1(True)
    while drawing:
        u = uniform(key) - 0.5
        v = uniform(key)
        us = 0.5 - abs(u)
        x = floor((2 * a / us + b) * u + rate + 0.43)
        k = x if abs(x) < 2.0**63 else -(2.0**63)  # as a processor rounds to an integer of 64 bits
        if (us >= 0.07) & (v <= v_r):
            drawing = b1(False)
        elif (k >= 0) & ((us >= 0.013) | (v <= us)):
            left = LOG(v) + LOG(inverse_alpha) - LOG(a / (us * us) + b)
            if left <= -rate + k * log_rate - LGAMMA(k + 1.0):
                drawing = b1(False)
    return k


@kernel
def poissons(EXP, LOG, LGAMMA, state: i64, rates: Ptr[f64], out: Ptr[f64], n: i64):
    """A count for each rate."""
    key = bits(state, Ptr[u32])
    for i in range(n):
        rate = rates[i]
        if rate >= 10:
            out[i] = poisson_by_rejection(LOG, LGAMMA, key, rate)
        elif rate > 0:
            out[i] = multiplied(EXP, key, rate)
        else:
            out[i] = 0.0


# -- binomial --------------------------------------------------------------------------------------

# log k! less Stirling's log(sqrt(2 pi)) + (k + 1/2) log(k + 1) - (k + 1), for k = 0 to 9.
TAILS = tuple(
    lgamma(k + 1.0) - (0.5 * log(2 * pi) + (k + 0.5) * log(k + 1.0) - (k + 1)) for k in range(10)
)


@routine
def stirling_tail(k: f64) -> f64:
    square = (k + 1.0) * (k + 1.0)
    tail = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)
    for j in unroll(range(10)):
        tail = TAILS[j] if k == j else tail
    return tail


@inline
def binomial_by_gaps(LOG, key, n, log_q):
    """How many geometric numbers have a sum of at most n."""
    total, successes = f64(0), f64(-1)
    while total <= n:
        total += ceil(LOG(uniform(key)) / log_q)
        successes += 1
    return successes


@inline
def binomial_by_rejection(LOG, key, n, p, mean, deviation, odds, m):
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = mean + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    k = f64(0)
    drawing = b1(True)
    while drawing:
        u = uniform(key) - 0.5
        v = uniform(key)
        us = 0.5 - abs(u)
        k = floor((2 * a / us + b) * u + c)
        if (k >= 0) & (k <= n):
            if (us >= 0.07) & (v <= v_r):
                drawing = b1(False)
            else:
                left = LOG(v * alpha / (a / (us * us) + b))
                bound = (
                    (m + 0.5) * LOG((m + 1) / (odds * (n - m + 1)))
                    + (n + 1) * LOG((n - m + 1) / (n - k + 1))
                    + (k + 0.5) * LOG(odds * (n - k + 1) / (k + 1))
                    + stirling_tail(m)
                    + stirling_tail(n - m)
                    - stirling_tail(k)
                    - stirling_tail(n - k)
                )
                if left <= bound:
                    drawing = b1(False)
    return k


@kernel
def binomials(LOG, state: i64, rows: Ptr[f64], out: Ptr[f64], n: i64):
    """A count for each row (trials, p, rare, mean, deviation, odds, mode, log_q)."""
    key = bits(state, Ptr[u32])
    for i in range(n):
        row = rows + 8 * i
        trials, p, rare, mean = row[0], row[1], row[2], row[3]
        found = f64(0)
        if (trials <= 0) | (p <= 0):
            found = f64(0)
        elif p >= 1:
            found = trials
        elif (trials < float("inf")) & (p < 1):
            if mean >= 10:
                found = binomial_by_rejection(LOG, key, trials, rare, mean, row[4], row[5], row[6])
            else:
                found = binomial_by_gaps(LOG, key, trials, row[7])
            found = found if p <= 0.5 else trials - found
        else:  # NaN, or more trials than any sum of gaps
            found = float("nan")
        out[i] = found


# -- gamma -----------------------------------------------------------------------------------------


@inline
def normal(LOG1P, COS, SIN, key, spare):
    """The next normal number: of each pair spare[0] keeps the second, where spare[1] is not 0."""
    z = spare[0]
    if spare[1] != 0:
        spare[1] = 0.0
    else:
        angle = uniform(key) * TWO_PI
        radius = sqrt(LOG1P(-uniform(key)) * -2)
        spare[0] = radius * SIN(angle)
        spare[1] = 1.0
        z = radius * COS(angle)
    return z


@kernel
def gammas(
    POW, LOG, LOG1P, COS, SIN, state: i64, rows: Ptr[f64], out: Ptr[f64], n: i64, squeeze: f64, spare: Ptr[f64]
):  # fmt: skip
    """A number for each row (alpha, 1 / alpha, d)."""
    key = bits(state, Ptr[u32])
    for i in range(n):
        alpha, inverse, d = rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]
        found = f64(0)
        if alpha != 0:
            scale = f64(1)
            if alpha < 1:
                if alpha > 0:
                    scale = POW(1.0 - uniform(key), inverse)
                else:
                    scale = float("nan")
            # A negative or NaN alpha takes its numbers from the stream too, and comes out as NaN.
            c = 1.0 / sqrt(9.0 * d)
            drawing = b1(True)
            while drawing:
                x, y = f64(0), f64(0)
                while y <= 0:
                    x = normal(LOG1P, COS, SIN, key, spare)
                    y = 1.0 + c * x
                v = y * y * y
                u = 1.0 - uniform(key)
                square = x * x
                if u < 1.0 - squeeze * square * square:
                    drawing = b1(False)
                elif LOG(u) < 0.5 * square + d * (1.0 - v + LOG(v)):
                    drawing = b1(False)
                if not drawing:
                    found = scale * d * v
        out[i] = found
