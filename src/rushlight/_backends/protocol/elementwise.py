"""Elementwise kernels: arithmetic, activations, losses of elements, special functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rushlight._backends.protocol.array import Array, Dtype, Number, Shape

if TYPE_CHECKING:
    pass


class Elementwise(Protocol):
    """Elementwise kernels: arithmetic, activations, losses of elements, special functions."""

    # -- functions of NumPy --

    def arccos(self, a: Array) -> Array:
        """Inverse cosine."""

    def arccosh(self, a: Array) -> Array:
        """Inverse hyperbolic cosine."""

    def arcsin(self, a: Array) -> Array:
        """Inverse sine."""

    def arcsinh(self, a: Array) -> Array:
        """Inverse hyperbolic sine."""

    def arctan(self, a: Array) -> Array:
        """Inverse tangent."""

    def arctanh(self, a: Array) -> Array:
        """Inverse hyperbolic tangent."""

    def cosh(self, a: Array) -> Array:
        """Hyperbolic cosine."""

    def dtype(self, name: str) -> Dtype:
        """The dtype of a name."""

    def exp2(self, a: Array) -> Array:
        """2**a."""

    def fmax(self, a: Array, b: Array | Number) -> Array:
        """The larger; the number where one is NaN."""

    def fmin(self, a: Array, b: Array | Number) -> Array:
        """The smaller; the number where one is NaN."""

    def gcd(self, a: Array, b: Array | Number) -> Array:
        """Greatest common divisor."""

    def greater(self, a: Array, b: Array | Number) -> Array:
        """a > b."""

    def greater_equal(self, a: Array, b: Array | Number) -> Array:
        """a >= b."""

    def lcm(self, a: Array, b: Array | Number) -> Array:
        """Least common multiple."""

    def log10(self, a: Array) -> Array:
        """Logarithm to base 10."""

    def log2(self, a: Array) -> Array:
        """Logarithm to base 2."""

    def logical_and(self, a: Array, b: Array | Number) -> Array:
        """Both are not 0."""

    def logical_or(self, a: Array, b: Array | Number) -> Array:
        """Either is not 0."""

    def logical_xor(self, a: Array, b: Array | Number) -> Array:
        """Exactly one is not 0."""

    def not_equal(self, a: Array, b: Array | Number) -> Array:
        """a != b."""

    def reciprocal(self, a: Array) -> Array:
        """1 / a."""

    def sinh(self, a: Array) -> Array:
        """Hyperbolic sine."""

    def square(self, a: Array) -> Array:
        """a * a."""

    def take(self, a: Array, indices: Array) -> Array:
        """Elements at indices of an axis."""

    def tan(self, a: Array) -> Array:
        """tangent."""

    # -- elementwise --

    def threshold_gradient(self, g: Array, a: Array, threshold: float) -> Array:
        """g where `a` is above the threshold or NaN, else 0."""

    def addcmul(self, a: Array, b: Array, c: Array, value: Number) -> Array:
        """a + value * b * c."""

    def addcdiv(self, a: Array, b: Array, c: Array, value: Number) -> Array:
        """a + value * b / c."""

    def add_scaled(self, a: Array, b: Array, factor: Number) -> Array:
        """a + factor * b; of half types the factor is rounded to half, the sum once."""

    def angle(self, a: Array) -> Array:
        """The angle of complex numbers; pi below zero and 0 above of real ones, NaN of NaN."""

    def clip(self, a: Array, low: Number | None, high: Number | None) -> Array:
        """`a` between two Python numbers, either may be None; NaN stays."""

    def clip_arrays(self, a: Array, low: Array | None, high: Array | None) -> Array:
        """`a` between two arrays, either may be None."""

    def copysign(self, a: Array, b: Array) -> Array:
        """|a| with the sign of b."""

    def deg2rad(self, a: Array) -> Array:
        """a * pi / 180."""

    def frac(self, a: Array) -> Array:
        """What is behind the point, with the sign of `a`."""

    def frexp(self, a: Array) -> Array:
        """Mantissa and exponent (int32); of NaN and the infinities the exponent is 0."""

    def heaviside(self, a: Array, b: Array) -> Array:
        """0 below zero, 1 above, `b` at zero; NaN counts as neither below nor zero."""

    def hypot(self, a: Array, b: Array) -> Array:
        """sqrt(a*a + b*b) without overflow."""

    def is_exact(self, a: Array) -> bool:
        """Whether the dtype is bool or an integer."""

    def is_float(self, a: Array) -> bool:
        """Whether the dtype is floating (not complex)."""

    def isfinite(self, a: Array) -> Array:
        """Neither infinite nor NaN."""

    def isinf(self, a: Array) -> Array:
        """Infinite."""

    def lerp(self, a: Array, end: Array, weight: Array) -> Array:
        """a + weight * (end - a), exact at both ends."""

    def ldexp(self, a: Array, b: Array) -> Array:
        """a * 2**b for integers `b`, in the dtype of `a`."""

    def logaddexp(self, a: Array, b: Array) -> Array:
        """log(exp(a) + exp(b))."""

    def logaddexp2(self, a: Array, b: Array) -> Array:
        """log2(2**a + 2**b)."""

    def logit(self, a: Array, eps: float | None) -> Array:
        """log(a / (1 - a))."""

    def rad2deg(self, a: Array) -> Array:
        """a * 180 / pi."""

    def nan_to_num(
        self, a: Array, nan: Number | None, posinf: Number | None, neginf: Number | None
    ) -> Array:
        """NaN and the infinities replaced; None: 0, the largest and the lowest number of the
        dtype."""

    def reverse_subtract(self, a: Array, b: Array) -> Array:
        """b - a."""

    def round_to(self, a: Array, decimals: int) -> Array:
        """Rounded half to even at `decimals` digits, as PyTorch does it: scaled, rounded,
        scaled back."""

    def rsqrt(self, a: Array) -> Array:
        """1 / sqrt(a)."""

    def sgn(self, a: Array) -> Array:
        """The sign; of a complex number z / |z|."""

    def sinc(self, a: Array) -> Array:
        """sin(pi a) / (pi a)."""

    def trunc_divide(self, a: Array, b: Array) -> Array:
        """The quotient rounded towards zero."""

    def with_wide_number(self, kernel: Callable, a: Array, b: Array) -> Array:
        """`kernel` of a half type and one number, which is float32, as the computation; rounded
        once."""

    # -- activation --

    def gelu(self, a: Array) -> Array:
        """a * Phi(a), Phi the normal distribution function (Hendrycks and Gimpel 2016)."""

    def gelu_tanh(self, a: Array) -> Array:
        """The approximation of `gelu` by tanh."""

    def mish(self, a: Array) -> Array:
        """a * tanh(softplus(a)) (Misra 2019)."""

    def relu(self, a: Array) -> Array:
        """The larger of `a` and 0; NaN for NaN."""

    def silu(self, a: Array) -> Array:
        """a * sigmoid(a)."""

    def clip_gradient(self, g: Array, a: Array, low: float | None, high: float | None) -> Array:
        """g where `a` is between the bounds, either may be None, or at one; else 0."""

    def elu(self, a: Array, above: float, below: float, inner: float) -> Array:
        """Above * a where `a` is above 0, else below * (exp(inner * a) - 1)."""

    def elu_gradient(self, g: Array, a: Array, above: float, below: float, inner: float) -> Array:
        """The gradient of elu."""

    def gelu_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of gelu."""

    def gelu_tanh_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of gelu_tanh."""

    def glu(self, a: Array, axis: int) -> Array:
        """The first half of `a` along an axis times the sigmoid of the second."""

    def glu_gradient(self, g: Array, a: Array, axis: int) -> Array:
        """The gradient by both halves, one behind the other."""

    def hardshrink(self, a: Array, width: float) -> Array:
        """a where its magnitude is above `width`, else 0."""

    def hardsigmoid(self, a: Array) -> Array:
        """a / 6 + 1 / 2, between 0 and 1."""

    def hardsigmoid_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of hardsigmoid."""

    def hardswish(self, a: Array) -> Array:
        """a * hardsigmoid(a) (Howard et al. 2019)."""

    def hardswish_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of hardswish."""

    def hardtanh(self, a: Array, low: float, high: float) -> Array:
        """The smaller of `high` and of the larger of `a` and `low`."""

    def hardtanh_gradient(self, g: Array, a: Array, low: float, high: float) -> Array:
        """g where `a` is strictly between the bounds, else 0."""

    def leaky_relu(self, a: Array, slope: float) -> Array:
        """a where it is above 0, else slope * a."""

    def leaky_relu_gradient(self, g: Array, a: Array, slope: float) -> Array:
        """The gradient of leaky_relu."""

    def log_sigmoid(self, a: Array) -> Array:
        """log(sigmoid(a))."""

    def log_sigmoid_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of log_sigmoid."""

    def mish_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of mish."""

    def prelu(self, a: Array, weight: Array) -> Array:
        """a where it is above 0, else weight * a."""

    def prelu_gradient(self, g: Array, a: Array, weight: Array) -> Array:
        """The gradient of prelu by its input."""

    def prelu_weight_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of prelu by its weight."""

    def scaled_softplus(self, a: Array, beta: float, most: float) -> Array:
        """softplus(beta * a) / beta, and `a` where beta * a is above `most`."""

    def scaled_softplus_gradient(self, g: Array, a: Array, beta: float, most: float) -> Array:
        """The gradient of scaled_softplus."""

    def shrink_gradient(self, g: Array, a: Array, width: float) -> Array:
        """The gradient of hardshrink and softshrink."""

    def sigmoid_gradient(self, g: Array, y: Array) -> Array:
        """The gradient of sigmoid, from its output."""

    def silu_gradient(self, g: Array, a: Array) -> Array:
        """The gradient of silu."""

    def softshrink(self, a: Array, width: float) -> Array:
        """a moved towards 0 by `width`, 0 within."""

    def tanh_gradient(self, g: Array, y: Array) -> Array:
        """The gradient of tanh, from its output."""

    def threshold(self, a: Array, least: float, value: float) -> Array:
        """a where it is above `least` or NaN, else `value`."""

    # -- loss --

    def binary_cross_entropy(self, a: Array, b: Array) -> Array:
        """-(b log(a) + (1 - b) log(1 - a)), each logarithm at least -100."""

    def binary_cross_entropy_gradient(self, g: Array, a: Array, b: Array) -> Array:
        """The gradient of binary_entropy by a."""

    def nll_loss(
        self, input: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int
    ) -> Array:
        """-w[t] * x[t] for log probabilities [n, c] and classes [n]: each, their sum or
        weighted mean."""

    def nll_loss_gradient(
        self,
        g: Array,
        target: Array,
        weight: Array | None,
        reduction: str,
        ignore_index: int,
        shape: Shape,
    ) -> Array:
        """The gradient of `nll_loss`: -w[t] * g at the target's place of each row, zeros
        elsewhere."""

    def huber(self, a: Array, b: Array, delta: float) -> Array:
        """Squared where |a - b| is at most `delta`, else linear (Huber 1964)."""

    def squared_distance(self, a: Array, b: Array) -> Array:
        """The sum of (a - b)**2; of half types in float32."""

    def huber_gradient(self, g: Array, a: Array, b: Array, delta: float) -> Array:
        """The gradient of huber by a."""

    def bce_with_logits(self, a: Array, b: Array) -> Array:
        """max(a, 0) - a * b + log(1 + exp(-|a|))."""

    def bce_with_logits_gradient(self, g: Array, a: Array, b: Array) -> Array:
        """The gradient of logit_entropy by a."""

    def smooth_l1(self, a: Array, b: Array, beta: float) -> Array:
        """Squared where |a - b| is below `beta`, else absolute (Girshick 2015)."""

    def smooth_l1_gradient(self, g: Array, a: Array, b: Array, beta: float) -> Array:
        """The gradient of smooth_l1 by a."""

    def mse_gradient(self, g: Array, a: Array, b: Array, factor: float) -> Array:
        """g * factor * (a - b); g may be one number for all."""

    # -- special --

    def airy_ai(self, x: Array) -> Array:
        """The Airy function Ai: a series in the middle, decay [DLMF 9.7.5], oscillation [DLMF
        9.7.9]."""

    def entr(self, x: Array) -> Array:
        """-x log(x), 0 at 0, -inf below."""

    def erfc(self, x: Array) -> Array:
        """1 - erf(x), without cancellation."""

    def erfcx(self, x: Array) -> Array:
        """exp(x^2) erfc(x)."""

    def erfinv(self, x: Array) -> Array:
        """The inverse of erf; NaN outside [-1, 1]."""

    def i0(self, x: Array) -> Array:
        """Modified Bessel function I, order 0."""

    def i0e(self, x: Array) -> Array:
        """exp(-|a|) I0(a)."""

    def i1(self, x: Array) -> Array:
        """Modified Bessel function I, order 1."""

    def i1e(self, x: Array) -> Array:
        """exp(-|a|) I1(a)."""

    def j0(self, x: Array) -> Array:
        """Bessel function J, order 0."""

    def j1(self, x: Array) -> Array:
        """Bessel function J, order 1."""

    def k0(self, x: Array) -> Array:
        """Modified Bessel function K, order 0."""

    def k0e(self, x: Array) -> Array:
        """exp(a) K0(a)."""

    def k1(self, x: Array) -> Array:
        """Modified Bessel function K, order 1."""

    def k1e(self, x: Array) -> Array:
        """exp(a) K1(a)."""

    def log_ndtr(self, x: Array) -> Array:
        """log(ndtr(x)), also where ndtr(x) is too small to be a number."""

    def ndtr(self, x: Array) -> Array:
        """The normal distribution function."""

    def ndtri(self, p: Array) -> Array:
        """The inverse of ndtr; NaN outside [0, 1]."""

    def spherical_j0(self, x: Array) -> Array:
        """sin(x) / x [DLMF 10.49.3]."""

    def y0(self, x: Array) -> Array:
        """Bessel function Y, order 0."""

    def y1(self, x: Array) -> Array:
        """Bessel function Y, order 1."""

    # -- gamma --

    def gammainc(self, a: Array, x: Array) -> Array:
        """The regularised lower incomplete gamma function P(a, x); NaN for negative
        arguments."""

    def gammaincc(self, a: Array, x: Array) -> Array:
        """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""

    def mvlgamma(self, x: Array, p: int) -> Array:
        """Log of the multivariate gamma function [DLMF 35.3.4]."""

    def polygamma(self, n: int, x: Array) -> Array:
        """The derivative number `n` of digamma."""

    def xlog1py(self, x: Array, y: Array) -> Array:
        """x log1p(y), 0 where x is 0 and y is not NaN."""

    def xlogy(self, x: Array, y: Array) -> Array:
        """x log(y), 0 where x is 0 and y is not NaN."""

    def zeta(self, x: Array, q: Array) -> Array:
        """The Hurwitz zeta function: the sum of (k + q)^-x over k >= 0; infinite at x = 1, NaN
        below."""

    # -- polynomials --

    def chebyshev_t(self, x: Array, n: Array) -> Array:
        """Chebyshev polynomial T of degree b."""

    def chebyshev_u(self, x: Array, n: Array) -> Array:
        """Chebyshev polynomial U of degree b."""

    def chebyshev_v(self, x: Array, n: Array) -> Array:
        """Chebyshev polynomial V of degree b."""

    def chebyshev_w(self, x: Array, n: Array) -> Array:
        """Chebyshev polynomial W of degree b."""

    def hermite_h(self, x: Array, n: Array) -> Array:
        """physicist's Hermite polynomial of degree b."""

    def hermite_he(self, x: Array, n: Array) -> Array:
        """probabilist's Hermite polynomial of degree b."""

    def laguerre_l(self, x: Array, n: Array) -> Array:
        """Laguerre polynomial of degree b."""

    def legendre_p(self, x: Array, n: Array) -> Array:
        """Legendre polynomial of degree b."""

    def shifted_chebyshev_t(self, x: Array, n: Array) -> Array:
        """T of 2a - 1."""

    def shifted_chebyshev_u(self, x: Array, n: Array) -> Array:
        """U of 2a - 1."""

    def shifted_chebyshev_v(self, x: Array, n: Array) -> Array:
        """V of 2a - 1."""

    def shifted_chebyshev_w(self, x: Array, n: Array) -> Array:
        """W of 2a - 1."""
