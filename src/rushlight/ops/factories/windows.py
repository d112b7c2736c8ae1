"""Window functions: `torch.signal.windows`, and the older functions such as `hann_window`.

A window of M points is computed in double precision from its formula and rounded once. A symmetric one
is for filters, a periodic one (M + 1 points without the last) for spectra.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core import dtypes, modes
from rushlight.core.dtype_sets import F64
from rushlight.dispatch.registry import public
from rushlight.ops.factories.arguments import check_options
from rushlight.ops.factories.construct import tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rushlight.core.device import device as device_type
    from rushlight.core.dtypes import dtype as DType
    from rushlight.core.dtypes import layout as Layout
    from rushlight.core.tensor import Tensor

    Device = device_type | str | int | None


def as_window(values, dtype=None, device=None, requires_grad=False) -> Tensor:
    """A tensor of these values in the dtype asked for, the default one for None."""
    dtype = dtype or modes.get_default_dtype()
    return tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)


# -- formulas: M points, `span` of them make the whole width ---------------------------------------


def cosine_sum(*coefficients):
    def formula(m, span):
        k = xp.arange(m) * (2 * math.pi / span)
        return sum((-1) ** i * c * xp.cos(i * k) for i, c in enumerate(coefficients))

    return formula


def triangle(m, span):
    return 1 - xp.absolute(2 * xp.arange(m) / span - 1)


def bessel(beta):
    def formula(m, span):
        x = xp.minimum(beta, -beta + xp.arange(m) * (2 * beta / span))
        return np.i0(xp.sqrt(xp.maximum(beta * beta - x * x, 0))) / np.i0(beta)

    return formula


def declare(where: str, function: Callable, formula: Callable) -> Callable:
    """Put a window under its public name: the signature is that of `function`, with the parameters of
    `formula` before its `dtype`."""
    own = [*inspect.signature(formula).parameters.values()]
    given = [
        p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    given = [p for p in given if p.kind is not p.VAR_POSITIONAL]
    at = next(k for k, p in enumerate(given) if p.kind is p.KEYWORD_ONLY)
    function.__signature__ = inspect.Signature(
        [*given[:at], *own, *given[at:]], return_annotation="Tensor"
    )
    return public(where, name=formula.__name__, doc=formula.__doc__)(function)


# -- torch.signal.windows --------------------------------------------------------------------------


def signal(formula: Callable) -> Callable:
    """Declare a function of `torch.signal.windows`. `formula` takes what is its own and returns a function of
    (m, span)."""
    name = formula.__name__
    if name in ("general_hamming", "hamming", "hann", "nuttall"):
        name = "general_cosine"  # which says what is wrong, as in PyTorch

    def function(
        M: int,
        *,
        sym: bool = True,
        dtype: DType | None = None,
        layout: Layout | None = dtypes.strided,
        device: Device = None,
        requires_grad: bool = False,
        **own: Any,
    ) -> Tensor:
        if sym and own.get("center") is not None:
            raise ValueError("Center must be None for symmetric windows")
        values = formula(**own)
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout not in (None, dtypes.strided):
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        dtype = modes.get_default_dtype() if dtype is None else dtype
        if dtype not in (dtypes.float32, dtypes.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        points = xp.ones(M, F64) if M < 2 else values(M, M - 1 if sym else M)
        return as_window(points, dtype, device, requires_grad)

    return declare("signal.windows", function, formula)


@signal
def general_cosine(*, a: Iterable[float]):
    """A sum of cosines: Σ (-1)ⁱ aᵢ cos(2πi k / (M - 1)) for k = 0, ..., M - 1."""
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    a = list(a)
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return cosine_sum(*a)


@signal
def general_hamming(*, alpha: float = 0.54):
    """The generalised Hamming window: alpha - (1 - alpha) cos(2πk / (M - 1))."""
    return cosine_sum(alpha, 1 - alpha)


@signal
def hamming():
    """The Hamming window: 0.54 - 0.46 cos(2πk / (M - 1))."""
    return cosine_sum(0.54, 1 - 0.54)


@signal
def hann():
    """The Hann window: 0.5 - 0.5 cos(2πk / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return cosine_sum(0.5, 0.5)


@signal
def blackman():
    """The Blackman window: 0.42 - 0.5 cos(2πk / (M - 1)) + 0.08 cos(4πk / (M - 1))."""
    return cosine_sum(0.42, 0.5, 0.08)


@signal
def nuttall():
    """Nuttall's window, a sum of four cosines (Heinzel et al., 2002, minimum 4-term)."""
    return cosine_sum(0.3635819, 0.4891775, 0.1365995, 0.0106411)


@signal
def bartlett():
    """The Bartlett window, a triangle: 1 - |2k / (M - 1) - 1|."""
    return triangle


@signal
def cosine():
    """The cosine window: sin(π (k + 1/2) / M)."""
    return lambda m, span: xp.sin((xp.arange(m) + 0.5) * (math.pi / (span + 1)))


@signal
def exponential(*, center: float | None = None, tau: float = 1.0):
    """The exponential window: exp(-|k - center| / tau); `center` is the middle, and can be chosen if not `sym`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")

    def formula(m, span):
        return xp.exp(-xp.absolute(xp.arange(m) - (span / 2 if center is None else center)) / tau)

    return formula


@signal
def gaussian(*, std: float = 1.0):
    """The Gaussian window: exp(-(k - middle)² / (2 std²))."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return lambda m, span: xp.exp(-(((xp.arange(m) - span / 2) / std) ** 2) / 2)


@signal
def kaiser(*, beta: float = 12.0):
    """The Kaiser window: I₀(beta √(1 - (2k / (M - 1) - 1)²)) / I₀(beta), where I₀ is the modified Bessel function."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return bessel(beta)


# -- the older functions, `hann_window` and its like -----------------------------------------------


def top_level_window(formula: Callable) -> Callable:
    """Declare a function of the top namespace. `formula` takes what is its own and returns a function of
    (m, span)."""
    name = formula.__name__

    def function(
        window_length: int,
        periodic: bool = True,
        *own: float,
        dtype: DType | None = None,
        layout: Layout | None = None,
        device: Device = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **more: float,
    ) -> Tensor:
        values = formula(*own, **more)
        dtype = modes.get_default_dtype() if dtype is None else dtype
        if not dtype.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
        if layout not in (None, dtypes.strided):
            raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
        check_options(name, None, pin_memory)
        n = window_length
        if n < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
        points = xp.ones(n, F64) if n < 2 else values(n, n if periodic else n - 1)
        return as_window(points, dtype, device, requires_grad)

    return declare("", function, formula)


@top_level_window
def hann_window():
    """0.5 - 0.5 cos(2πk / N); N is the length, one less if not `periodic`."""
    return cosine_sum(0.5, 0.5)


@top_level_window
def hamming_window(alpha: float = 0.54, beta: float = 0.46):
    """alpha - beta cos(2πk / N); N is the length, one less if not `periodic`."""
    return cosine_sum(alpha, beta)


@top_level_window
def blackman_window():
    """0.42 - 0.5 cos(2πk / N) + 0.08 cos(4πk / N); N is the length, one less if not `periodic`."""
    return cosine_sum(0.42, 0.5, 0.08)


@top_level_window
def bartlett_window():
    """A triangle: 1 - |2k / N - 1|; N is the length, one less if not `periodic`."""
    return triangle


@top_level_window
def kaiser_window(beta: float = 12.0):
    """I₀(beta √(1 - (2k / N - 1)²)) / I₀(beta); N is the length, one less if not `periodic`."""
    return bessel(beta)
