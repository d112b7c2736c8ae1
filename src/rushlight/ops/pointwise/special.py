"""Special functions: error functions, gamma and its relatives, Bessel functions, entropies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, elementwise, no_derivative, public

if TYPE_CHECKING:
    from typing import Any

SQRT_PI = math.sqrt(math.pi)


def function(name: str, kernel: str, meaning: str, rule: Any = None, *aliases: str) -> Any:
    """Declare a function of one number: of `torch.special`, or of the top namespace where it has aliases there."""
    options = {} if aliases else {"where": "special", "inplace": False}

    @elementwise(kernel, "float", name=name, doc=meaning, accepts="f", **options)
    def declared(input: Array):
        pass

    if rule is not None:
        declared.grad(input=rule)
    return declared.alias(*aliases)


# -- error functions -------------------------------------------------------------------------------

function(
    "erf", "erf", "The error function 2/sqrt(pi) * the integral of exp(-t^2) over t in [0, input].",
    lambda g, input: g * (2 / SQRT_PI * (-input * input).exp()), "special.erf",
)  # fmt: skip
function(
    "erfc", "erfc", "1 - erf(input), exact where that is small.",
    lambda g, input: g * (-2 / SQRT_PI * (-input * input).exp()), "special.erfc",
)  # fmt: skip
function(
    "erfinv", "erfinv", "The inverse of `erf`; infinite at -1 and 1, NaN beyond.",
    lambda g, input: g * (SQRT_PI / 2 * input.erfinv().square().exp()), "special.erfinv",
)  # fmt: skip
erfcx = function(
    "erfcx", "erfcx", "exp(input^2) * erfc(input).",
    lambda g, input, result: g * (2 * (input * result) - 2 / SQRT_PI),
)  # fmt: skip
function(
    "ndtr", "ndtr", "The distribution function of the standard normal distribution.",
    lambda g, input: g * ((input * input / -2).exp() * (1 / math.sqrt(2 * math.pi))),
)  # fmt: skip
function(
    "ndtri", "ndtri", "The quantile function of the standard normal distribution, the inverse of `ndtr`.",
    lambda g, result: g * ((result * result / 2).exp() * math.sqrt(2 * math.pi)),
)  # fmt: skip
function(
    "log_ndtr", "log_ndtr", "log(ndtr(input)), finite far out on the left too.",
    lambda g, input: g / erfcx(input * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
)  # fmt: skip


# -- gamma -----------------------------------------------------------------------------------------


@elementwise(kernel="lgamma", promote="float", accepts="f")
def lgamma(input: Array):
    """The logarithm of |gamma(input)|; infinite at 0, -1, -2, ...

    >>> import rushlight as torch
    >>> torch.lgamma(torch.tensor([1.0, 4.0])).exp()
    tensor([1., 6.])
    """


lgamma.grad(input=lambda g, input: g * input.digamma())
lgamma.alias("special.gammaln")


function(
    "digamma", "digamma", "The derivative of `lgamma`.", lambda g, input: g * polygamma(1, input),
    "special.digamma", "special.psi",
)  # fmt: skip


def check_order(n: Any, input: Any) -> None:
    if not isinstance(n, int):
        raise TypeError(
            f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}"
        )
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n. It is {n}")


@elementwise(promote="float", accepts="f", variant=check_order, method=False, inplace=False)
def polygamma(xp, n: int, input: Array):
    """Derivative number `n` of `digamma`."""
    return xp.polygamma(n, input)


polygamma.grad(input=lambda g, n, input: g * polygamma(n + 1, input))
polygamma.alias("special.polygamma")


@public("Tensor", name="polygamma")
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """`polygamma(n, self)`."""
    return polygamma(n, self)


@public("Tensor")
def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place `polygamma(n, self)`."""
    r = polygamma(n, self.clone())  # saved for backward, so not what is written over
    if not self.is_floating_point():
        raise RuntimeError(
            f"result type {r.dtype.scalar_name} can't be cast to the desired output type "
            f"{self.dtype.scalar_name}"
        )
    return self.copy_(r)


def log_gamma_of_dimension(input: Tensor, p: int) -> None:
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")


@elementwise(promote="float", accepts="f", variant=log_gamma_of_dimension, operands=())
def mvlgamma(xp, input: Array, p: int):
    """The logarithm of the gamma function of `p` dimensions."""
    return xp.mvlgamma(input, p)


def mvlgamma_slope(g: Tensor, input: Tensor, p: int) -> Tensor:
    slope = input.digamma()
    for i in range(1, p):
        slope = slope + (input - i / 2).digamma()
    return g * slope


mvlgamma.grad(input=mvlgamma_slope)
mvlgamma.alias("special.multigammaln")


def incomplete_slope(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g * ((input - 1) * other.log() - other - input.lgamma()).exp()


@elementwise(kernel="gammainc", accepts="f", numbers=())
def igamma(input: Array, other: Array):
    """The regularised lower incomplete gamma function P(input, other)."""


igamma.grad(input=no_derivative("igamma: input"), other=incomplete_slope)
igamma.alias("special.gammainc")


@elementwise(kernel="gammaincc", accepts="f", numbers=())
def igammac(input: Array, other: Array):
    """The regularised upper incomplete gamma function Q(input, other) = 1 - P."""


igammac.grad(
    input=no_derivative("igammac: input"),
    other=lambda g, input, other: -incomplete_slope(g, input, other),
)
igammac.alias("special.gammaincc")


@elementwise(
    kernel="zeta",
    node="SpecialZetaBackward0",
    scalar_nodes=("SpecialZetaBackward2", "SpecialZetaBackward1"), promote="float", accepts="f", where="special", inplace=False,
    numbers=("input", "other"),
)  # fmt: skip
def zeta(input: Array, other: Array):
    """The Hurwitz zeta function: the sum over k >= 0 of 1 / (k + other)**input."""


zeta.grad(
    input=no_derivative("zeta"),
    other=lambda g, input, other: g * (-input * zeta(input + 1, other)),
)


# -- entropies -------------------------------------------------------------------------------------


def xlogy_slope(g: Tensor, input: Any, other: Any) -> Tensor:
    if not isinstance(other, Tensor):
        if other > 0:
            return g * math.log(other)
        return (g * (-math.inf if other == 0 else math.nan)).masked_fill(input == 0, 0)
    return (g * other.log()).masked_fill((input == 0) & (other <= 0), 0)


@elementwise(
    kernel="xlogy",
    promote="float",
    accepts="f",
    numbers=("input", "other"),
    node="XlogyBackward0",
    scalar_nodes=("XlogyBackward2", "XlogyBackward1"),
)
def xlogy(input: Array, other: Array):
    """The product input * log(other), 0 where `input` is 0."""


xlogy.grad(input=xlogy_slope, other=lambda g, input, other: g * (input / other))
xlogy.alias("special.xlogy")


def xlog1py_slope(g: Tensor, input: Any, other: Any) -> Tensor:
    if not isinstance(other, Tensor):
        return g * math.log1p(other) if other > -1 else g * math.nan
    return (g * other.log1p()).masked_fill((input == 0) & (other <= -1), 0)


@elementwise(
    kernel="xlog1py",
    promote="float",
    accepts="f",
    where="special",
    inplace=False,
    numbers=("input", "other"),
    node="SpecialXlog1PyBackward0",
    scalar_nodes=("SpecialXlog1PyBackward2", "SpecialXlog1PyBackward1"),
)
def xlog1py(input: Array, other: Array):
    """The product input * log1p(other), 0 where `input` is 0."""


xlog1py.grad(input=xlog1py_slope, other=lambda g, input, other: g * (input / (other + 1)))


function(
    "entr", "entr", "-input * log(input); 0 at 0, -inf below.",
    lambda g, input: g * -(1 + input.log()),
)  # fmt: skip


# -- modified Bessel functions ---------------------------------------------------------------------


def over(result: Tensor, input: Tensor) -> Tensor:
    """`result / input`, and its limit 1/2 at 0."""
    zero = input == 0
    return (result / input.masked_fill(zero, 1)).masked_fill(zero, 0.5)


BESSEL = "The modified Bessel function of the first kind, order"
function("i0", "i0", f"{BESSEL} 0.", lambda g, input: g * i1(input), "special.i0")
i0e = function(
    "i0e", "i0e", "exp(-|input|) * i0(input).",
    lambda g, input, result: g * (i1e(input) - input.sgn() * result),
)  # fmt: skip
i1 = function(
    "i1", "i1", f"{BESSEL} 1.",
    lambda g, input, result: g * (input.i0() - over(result, input)),
)  # fmt: skip
i1e = function(
    "i1e", "i1e", "exp(-|input|) * i1(input).",
    lambda g, input, result: g * (i0e(input) - result * input.sgn() - over(result, input)),
)  # fmt: skip


# -- without derivatives, as in PyTorch ------------------------------------------------------------

for name, kernel, meaning in (
    ("bessel_j0", "j0", "The Bessel function of the first kind, order 0."),
    ("bessel_j1", "j1", "The Bessel function of the first kind, order 1."),
    ("bessel_y0", "y0", "The Bessel function of the second kind, order 0."),
    ("bessel_y1", "y1", "The Bessel function of the second kind, order 1."),
    ("spherical_bessel_j0", "spherical_j0", "sin(input) / input, 1 at 0."),
    ("airy_ai", "airy_ai", "The Airy function Ai."),
    ("modified_bessel_i0", "i0", "As `i0`."),
    ("modified_bessel_i1", "i1", "As `i1`."),
    ("modified_bessel_k0", "k0", "The modified Bessel function of the second kind, order 0."),
    ("modified_bessel_k1", "k1", "The modified Bessel function of the second kind, order 1."),
    ("scaled_modified_bessel_k0", "k0e", "exp(x) times order 0."),
    ("scaled_modified_bessel_k1", "k1e", "exp(x) times order 1."),
):
    function(name, kernel, meaning)


def polynomial(name: str, kernel: str, meaning: str) -> Any:
    """Declare a polynomial of degree `n`, a tensor or a number."""

    @elementwise(
        kernel, "float", name=name, doc=f"{meaning} of degree `n`, 0 for a negative one.",
        accepts="f", where="special", inplace=False, numbers=("input", "n"),
    )  # fmt: skip
    def declared(input: Array, n: Array):
        pass

    return declared


for letter, kind in zip("tuvw", ("first", "second", "third", "fourth"), strict=True):
    polynomial(
        f"chebyshev_polynomial_{letter}", f"chebyshev_{letter}",
        f"The Chebyshev polynomial of the {kind} kind",
    )  # fmt: skip
    polynomial(
        f"shifted_chebyshev_polynomial_{letter}", f"shifted_chebyshev_{letter}",
        f"{letter.upper()} of 2 * input - 1,",
    )  # fmt: skip
polynomial("hermite_polynomial_h", "hermite_h", "The physicist's Hermite polynomial")
polynomial("hermite_polynomial_he", "hermite_he", "The probabilist's Hermite polynomial")
polynomial("laguerre_polynomial_l", "laguerre_l", "The Laguerre polynomial")
polynomial("legendre_polynomial_p", "legendre_p", "The Legendre polynomial")
