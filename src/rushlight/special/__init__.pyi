"""The functions of `special`. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
from rushlight.core.tensor import Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]


def airy_ai(input: Tensor, *, out: Any = None) -> Tensor:
    """The Airy function Ai."""
def bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the first kind, order 0."""
def bessel_j1(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the first kind, order 1."""
def bessel_y0(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the second kind, order 0."""
def bessel_y1(input: Tensor, *, out: Any = None) -> Tensor:
    """The Bessel function of the second kind, order 1."""
def chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree `n`, 0 for a negative one."""
def chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree `n`, 0 for a negative one."""
def chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree `n`, 0 for a negative one."""
def chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree `n`, 0 for a negative one."""
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of `lgamma`."""
def entr(input: Tensor, *, out: Any = None) -> Tensor:
    """-input * log(input); 0 at 0, -inf below."""
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """The error function 2/sqrt(pi) * the integral of exp(-t^2) over t in [0, input]."""
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """1 - erf(input), exact where that is small."""
def erfcx(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(input^2) * erfc(input)."""
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
def exp2(input: Tensor, *, out: Any = None) -> Tensor:
    """2 to the power of each element."""
def expit(input: Tensor, *, out: Any = None) -> Tensor:
    """The logistic function 1 / (1 + exp(-input))."""
def expm1(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(input) - 1, exact near zero."""
def gammainc(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other)."""
def gammaincc(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularised upper incomplete gamma function Q(input, other) = 1 - P."""
def gammaln(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm of |gamma(input)|; infinite at 0, -1, -2, ..."""
def hermite_polynomial_h(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The physicist's Hermite polynomial of degree `n`, 0 for a negative one."""
def hermite_polynomial_he(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The probabilist's Hermite polynomial of degree `n`, 0 for a negative one."""
def i0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function of the first kind, order 0."""
def i0e(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(-|input|) * i0(input)."""
def i1(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function of the first kind, order 1."""
def i1e(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(-|input|) * i1(input)."""
def laguerre_polynomial_l(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Laguerre polynomial of degree `n`, 0 for a negative one."""
def legendre_polynomial_p(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Legendre polynomial of degree `n`, 0 for a negative one."""
def log1p(input: Tensor, *, out: Any = None) -> Tensor:
    """log(1 + input), exact near zero."""
def log_ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """log(ndtr(input)), finite far out on the left too."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """log(softmax(x)) along `dim`, computed stably."""
def logit(input: Tensor, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
def logsumexp(input: Tensor, dim: _Ints | None, keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The logarithm of the sum of e**input over `dim`, without overflow: the maximum is taken out."""
def modified_bessel_i0(input: Tensor, *, out: Any = None) -> Tensor:
    """As `i0`."""
def modified_bessel_i1(input: Tensor, *, out: Any = None) -> Tensor:
    """As `i1`."""
def modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function of the second kind, order 0."""
def modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """The modified Bessel function of the second kind, order 1."""
def multigammaln(input: Tensor, p: _int, *, out: Any = None) -> Tensor:
    """The logarithm of the gamma function of `p` dimensions."""
def ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """The distribution function of the standard normal distribution."""
def ndtri(input: Tensor, *, out: Any = None) -> Tensor:
    """The quantile function of the standard normal distribution, the inverse of `ndtr`."""
def polygamma(n: _int, input: Tensor, *, out: Any = None) -> Tensor:
    """Derivative number `n` of `digamma`."""
def psi(input: Tensor, *, out: Any = None) -> Tensor:
    """The derivative of `lgamma`."""
def round(input: Tensor, *, decimals: _int = 0, out: Any = None) -> Tensor:
    """Rounded to the nearest integer (or to `decimals` digits), halves to even."""
def scaled_modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(x) times order 0."""
def scaled_modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """exp(x) times order 1."""
def shifted_chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """T of 2 * input - 1, of degree `n`, 0 for a negative one."""
def shifted_chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """U of 2 * input - 1, of degree `n`, 0 for a negative one."""
def shifted_chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """V of 2 * input - 1, of degree `n`, 0 for a negative one."""
def shifted_chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Any = None) -> Tensor:
    """W of 2 * input - 1, of degree `n`, 0 for a negative one."""
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(pi x) / (pi x), 1 at zero."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, of the shape of `input`; `dtype`: compute in it."""
def spherical_bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(input) / input, 1 at 0."""
def xlog1py(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The product input * log1p(other), 0 where `input` is 0."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The product input * log(other), 0 where `input` is 0."""
def zeta(input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor:
    """The Hurwitz zeta function: the sum over k >= 0 of 1 / (k + other)**input."""

def __getattr__(name: _str) -> Any: ...
