"""Special functions as machine code."""

from __future__ import annotations

from math import factorial
from typing import Any

from rushlight._backends.llvm.elementwise import Elementwise
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import gamma as reference
from rushlight._codegen.kernels import bessel, incomplete_gamma, math, polynomials
from rushlight._codegen.kernels import special as of

LANES = 16  # of functions whose rare cases are looked for

for _name in "lgamma digamma erfinv ndtri ndtr log_ndtr".split():
    implements(_name)(Elementwise(getattr(of, _name)))
erfcx = implements("erfcx")(Elementwise(math.erfcx))
entr = implements("entr")(Elementwise(of.entropy))
xlog1py = implements("xlog1py")(Elementwise(of.xlog1py, 2))
zeta = implements("zeta")(Elementwise(of.zeta, 2, vectors=LANES))
for _modified in "i0 i0e i1 i1e k0 k0e k1 k1e".split():
    implements(_modified)(Elementwise(getattr(bessel, _modified)))
for _waving in "j0 j1 y0 y1 spherical_j0 airy_ai".split():
    implements(_waving)(Elementwise(getattr(bessel, _waving), vectors=LANES))

for _polynomial in (
    "chebyshev_t chebyshev_u chebyshev_v chebyshev_w shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
    "shifted_chebyshev_w hermite_h hermite_he laguerre_l legendre_p"
).split():
    implements(_polynomial)(Elementwise(getattr(polynomials, _polynomial), 2, vectors=LANES))
for _incomplete in "gammainc gammaincc".split():
    implements(_incomplete)(Elementwise(getattr(incomplete_gamma, _incomplete), 2, vectors=8))
mvlgamma = implements("mvlgamma")(Elementwise(of.mvlgamma, 1, 1, vectors=LANES))

_digamma = Elementwise(of.digamma).bind(reference.digamma)
_trigamma = Elementwise(of.trigamma).bind(lambda a: reference.polygamma(1, a))
_higher = Elementwise(of.polygamma, 1, 2, vectors=LANES)


@implements("polygamma")
def polygamma(n: int, a: Any) -> Any:
    """The derivative number `n` of digamma."""
    if n < 2:
        return _trigamma(a) if n == 1 else _digamma(a)
    if n > 30:
        return reference.polygamma(n, a)
    higher = _higher.bind(lambda x, *_: reference.polygamma(n, x))
    return higher(a, n, (-1) ** (n + 1) * factorial(n))
