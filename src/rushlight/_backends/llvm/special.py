"""Special functions as machine code."""

from __future__ import annotations

from math import factorial
from typing import Any

from rushlight._backends.llvm.elementwise import Elementwise
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import gamma as reference
from rushlight._codegen.kernels import bessel, math, polynomials
from rushlight._codegen.kernels import incomplete_gamma as gamma
from rushlight._codegen.kernels import special as of
from rushlight._codegen.kernels.pointwise import FLOAT_TYPES
from rushlight._codegen.types import f64

LANES = 16  # of functions whose rare cases are looked for

for _name in "lgamma digamma ndtr log_ndtr".split():
    implements(_name)(Elementwise(getattr(of, _name)))
erfcx = implements("erfcx")(Elementwise(math.erfcx))
entr = implements("entr")(Elementwise(of.entropy))
xlog1py = implements("xlog1py")(Elementwise(of.xlog1py, 2))
for _modified in "i0 i0e i1 i1e k0 k0e k1 k1e".split():
    implements(_modified)(Elementwise(getattr(bessel, _modified)))
for _oscillating in "j0 j1 spherical_j0 airy_ai".split():
    implements(_oscillating)(Elementwise(getattr(bessel, _oscillating), vectors=LANES))

for _polynomial in (
    "chebyshev_t chebyshev_u chebyshev_v chebyshev_w shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
    "shifted_chebyshev_w hermite_h hermite_he laguerre_l legendre_p"
).split():
    implements(_polynomial)(Elementwise(getattr(polynomials, _polynomial), 2, vectors=LANES))
mvlgamma = implements("mvlgamma")(Elementwise(of.mvlgamma, 1, 1, vectors=LANES))


def of_kinds(arrays: int, *kinds: Any) -> Elementwise:
    """A function that differs by the kind of its arguments: what tells the kinds apart, and what computes each."""
    return Elementwise(kinds[-1], arrays, kinds=dict.fromkeys(FLOAT_TYPES, kinds))


zeta = implements("zeta")(of_kinds(2, of.zeta_kind, of.zeta_known, of.zeta_above, of.zeta_below))
gammainc = implements("gammainc")(
    of_kinds(2, gamma.kind, gamma.lower_known, gamma.lower_near, gamma.lower_far)
)
gammaincc = implements("gammaincc")(
    of_kinds(2, gamma.kind, gamma.upper_known, gamma.upper_near, gamma.upper_far)
)
y0 = implements("y0")(
    of_kinds(1, bessel.second_kind, bessel.second_known, bessel.y0_near, bessel.y0_far)
)
y1 = implements("y1")(
    of_kinds(1, bessel.second_kind, bessel.second_known, bessel.y1_near, bessel.y1_far)
)
# In float32 the whole of these costs less than to tell kinds apart.
_ndtri = (of.ndtri_kind, of.ndtri_known, of.ndtri_centre, of.ndtri_ends)
_erfinv = (of.erfinv_kind, of.erfinv_known, of.erfinv_centre, of.erfinv_ends)
ndtri = implements("ndtri")(Elementwise(of.ndtri, kinds={f64: _ndtri}))
erfinv = implements("erfinv")(Elementwise(of.erfinv, kinds={f64: _erfinv}))

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
