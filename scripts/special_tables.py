"""Writes src/rushlight/data/special_functions.json: Chebyshev coefficients of special functions.

    python scripts/special_tables.py            # needs mpmath; takes about a minute

Each table is the Chebyshev series, on [-1, 1], of a function of which the hard part (a singularity, an
exponential, a phase) was divided out. It is computed in 60 digits by interpolation in Chebyshev nodes
and cut where the coefficients fall below 2**-56 of the largest.
"""

from __future__ import annotations

from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
TARGET = Path(__file__).resolve().parent.parent / "src/rushlight/data/special_functions.json"


def series(f, nodes=64):
    """Chebyshev coefficients of `f` on [-1, 1]; the first is halved already."""
    xs = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / nodes) for k in range(nodes)]
    ys = [f(x) for x in xs]
    c = [
        2
        * mp.fsum(y * mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / nodes) for k, y in enumerate(ys))
        / nodes
        for j in range(nodes)
    ]
    c[0] /= 2
    size = max(abs(v) for v in c)
    while abs(c[-1]) < size * mp.mpf(2) ** -56:
        c.pop()
    return [float(v) for v in c]


def on(low, high, f, nodes=64):
    """The series of `f` over [low, high]."""
    low, high = mp.mpf(low), mp.mpf(high)
    return series(lambda t: f((high - low) / 2 * t + (high + low) / 2), nodes)


def inverse(f):
    """`f` of 1/u for u >= 0, the limit taken from just beside 0."""
    return lambda u: f(1 / max(u, mp.mpf(10) ** -12))


def phase(order, which):
    """P or Q of J = sqrt(2/(pi x)) (P cos(c) - Q sin(c)), Y = ... (P sin(c) + Q cos(c)) [DLMF 10.17]."""

    def value(x):
        c = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        size = mp.sqrt(mp.pi * x / 2)
        return (
            size * (j * mp.cos(c) + y * mp.sin(c))
            if which == "p"
            else size * (y * mp.cos(c) - j * mp.sin(c)) * x
        )

    return value


def airy_phase(which):
    """f or g of Ai(-z) = (sin(s) f - cos(s) g) / (sqrt(pi) z^(1/4)), s = zeta + pi/4 [DLMF 9.7(ii)]."""

    def value(zeta):
        z = (3 * zeta / 2) ** (mp.mpf(2) / 3)
        s = zeta + mp.pi / 4
        a, b = mp.airyai(-z), mp.airybi(-z)
        size = mp.sqrt(mp.pi) * mp.root(z, 4)
        return (
            size * (a * mp.sin(s) + b * mp.cos(s))
            if which == "f"
            else size * (b * mp.sin(s) - a * mp.cos(s)) * zeta
        )

    return value


def airy_decay(zeta):
    z = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(z, 4) * mp.exp(zeta) * mp.airyai(z)


def squared(f):
    """`f` of sqrt(u), the limit taken from just beside 0."""
    return lambda u: f(mp.sqrt(max(u, mp.mpf(10) ** -24)))


BESSEL_SPLIT = 5
AIRY_LOW, AIRY_HIGH = -4, 2


def zeta_of(z):
    return 2 * mp.mpf(z) ** (mp.mpf(3) / 2) / 3


def tables():
    e, k = mp.exp, mp.besselk
    i = mp.besseli
    yield "I0_SMALL", "exp(-x) I0(x) over x in [0, 8]", on(0, 8, lambda x: e(-x) * i(0, x))
    yield (
        "I1_SMALL",
        "exp(-x) I1(x) / x over x in [0, 8]",
        on(0, 8, lambda x: e(-x) * i(1, x) / x if x else mp.mpf(1) / 2),
    )
    for n in (0, 1):
        yield (
            f"I{n}_LARGE",
            f"sqrt(x) exp(-x) I{n}(x) over 1/x in [0, 1/8]",
            on(0, mp.mpf(1) / 8, inverse(lambda x, n=n: mp.sqrt(x) * e(-x) * i(n, x))),
        )
    yield (
        "K0_SMALL",
        "K0(x) + log(x/2) I0(x) over x^2 in [0, 4]",
        on(0, 4, squared(lambda x: k(0, x) + mp.log(x / 2) * i(0, x))),
    )
    yield (
        "K1_SMALL",
        "x K1(x) - x log(x/2) I1(x) over x^2 in [0, 4]",
        on(0, 4, squared(lambda x: x * (k(1, x) - mp.log(x / 2) * i(1, x)))),
    )
    for n in (0, 1):
        yield (
            f"K{n}_LARGE",
            f"sqrt(x) exp(x) K{n}(x) over 1/x in [0, 1/2]",
            on(0, mp.mpf(1) / 2, inverse(lambda x, n=n: mp.sqrt(x) * e(x) * k(n, x))),
        )
    top = BESSEL_SPLIT**2
    j, y = mp.besselj, mp.bessely
    yield "J0_SMALL", f"J0(x) over x^2 in [0, {top}]", on(0, top, squared(lambda x: j(0, x)))
    yield (
        "J1_SMALL",
        f"J1(x) / x over x^2 in [0, {top}]",
        on(0, top, squared(lambda x: j(1, x) / x)),
    )
    yield (
        "Y0_SMALL",
        f"Y0(x) - 2/pi log(x) J0(x) over x^2 in [0, {top}]",
        on(0, top, squared(lambda x: y(0, x) - 2 / mp.pi * mp.log(x) * j(0, x))),
    )
    yield (
        "Y1_SMALL",
        f"(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x over x^2 in [0, {top}]",
        on(0, top, squared(lambda x: (y(1, x) - 2 / mp.pi * (mp.log(x) * j(1, x) - 1 / x)) / x)),
    )
    for n in (0, 1):
        for w in "pq":
            yield (
                f"PHASE{n}_{w.upper()}",
                f"DLMF 10.17.3, {w} of order {n}, over 1/x^2 in [0, 1/{top}]",
                on(
                    0,
                    mp.mpf(1) / top,
                    lambda u, n=n, w=w: phase(n, w)(1 / mp.sqrt(max(u, mp.mpf(10) ** -12))),
                ),
            )
    yield "AIRY_MIDDLE", f"Ai(x) over [{AIRY_LOW}, {AIRY_HIGH}]", on(AIRY_LOW, AIRY_HIGH, mp.airyai)
    yield (
        "AIRY_DECAY",
        "2 sqrt(pi) x^(1/4) exp(zeta) Ai(x) over 1/zeta in [0, 1/zeta(2)]",
        on(0, 1 / zeta_of(AIRY_HIGH), inverse(airy_decay)),
    )
    for w in "fg":
        yield (
            f"AIRY_PHASE_{w.upper()}",
            f"DLMF 9.7.9, {w}, over 1/zeta^2 in [0, 1/zeta(4)^2]",
            on(
                0,
                1 / zeta_of(-AIRY_LOW) ** 2,
                lambda u, w=w: airy_phase(w)(1 / mp.sqrt(max(u, mp.mpf(10) ** -12))),
            ),
        )
    yield "ERF_SMALL", "erf(x) / x over x^2 in [0, 4]", on(0, 4, squared(lambda x: mp.erf(x) / x))


def main():
    made = []
    for name, meaning, c in tables():
        print(name, len(c), meaning)
        made.append(f'"{name}": [\n' + ",\n".join(map(repr, c)) + "\n]")
    TARGET.write_text("{\n" + ",\n".join(made) + "\n}\n")


if __name__ == "__main__":
    main()
