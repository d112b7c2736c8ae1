"""Window functions: `torch.signal.windows`, and their elder forms such as `hann_window`.

A window of M points is computed in double precision from its formula and rounded once. A symmetric one
is for filters, a periodic one (M + 1 points without the last) for spectra.
"""

from __future__ import annotations

import math

import numpy as np

from rushlight import dtypes, modes
from rushlight.ops.registry import public
from rushlight.tensor import Tensor, _wrap


def made(values, dtype=None, device=None, requires_grad=False) -> Tensor:
    """A tensor of these values in the dtype asked for, the default one for None."""
    t = _wrap(np.asarray(values).astype((dtype or modes.get_default_dtype()).np))
    if device is not None:
        t = t.to(device=device)
    return t.requires_grad_() if requires_grad else t


# -- formulas: M points, `span` of them make the whole width ---------------------------------------


def cosine_sum(m, span, coefficients):
    k = np.arange(m) * (2 * math.pi / span)
    return sum((-1) ** i * c * np.cos(i * k) for i, c in enumerate(coefficients))


def triangle(m, span):
    return 1 - np.abs(2 * np.arange(m) / span - 1)


def bessel(m, span, beta):
    x = np.minimum(beta, -beta + np.arange(m) * (2 * beta / span))
    return np.i0(np.sqrt(np.maximum(beta * beta - x * x, 0))) / np.i0(beta)


def window(name, m, sym, dtype, layout, device, requires_grad, formula):
    """Check the arguments the windows share; one point is 1, none is empty."""
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={m}")
    if layout not in (None, dtypes.strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = modes.get_default_dtype() if dtype is None else dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if m < 2:
        return made(np.ones(m), dtype, device, requires_grad)
    return made(formula(m, m - 1 if sym else m), dtype, device, requires_grad)


# -- torch.signal.windows --------------------------------------------------------------------------


@public("signal.windows")
def general_cosine(
    M, *, a, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False
):
    """Σ (-1)ⁱ aᵢ cos(2πi k / (M - 1)) for k = 0, ..., M - 1."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return window(
        "general_cosine", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: cosine_sum(m, span, a),
    )  # fmt: skip


@public("signal.windows")
def general_hamming(
    M, *, alpha=0.54, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False
):
    """alpha - (1 - alpha) cos(2πk / (M - 1))."""
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def hamming(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """0.54 - 0.46 cos(2πk / (M - 1))."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@public("signal.windows")
def hann(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """0.5 - 0.5 cos(2πk / (M - 1)).

    >>> import rushlight as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(
        M,
        alpha=0.5,
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


@public("signal.windows")
def blackman(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """0.42 - 0.5 cos(2πk / (M - 1)) + 0.08 cos(4πk / (M - 1))."""
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def nuttall(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """Nuttall's sum of four cosines (Heinzel et al., 2002, minimum 4-term)."""
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def bartlett(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """A triangle: 1 - |2k / (M - 1) - 1|."""
    return window("bartlett", M, sym, dtype, layout, device, requires_grad, triangle)


@public("signal.windows")
def cosine(M, *, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False):
    """sin(π (k + 1/2) / M)."""
    return window(
        "cosine", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: np.sin((np.arange(m) + 0.5) * (math.pi / (span + 1))),
    )  # fmt: skip


@public("signal.windows")
def exponential(
    M, *, center=None, tau=1.0, sym=True, dtype=None, layout=dtypes.strided, device=None,
    requires_grad=False,
):  # fmt: skip
    """exp(-|k - center| / tau); the center is the middle, and can be chosen if not `sym`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return window(
        "exponential", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: np.exp(-np.abs(np.arange(m) - (span / 2 if center is None else center)) / tau),
    )  # fmt: skip


@public("signal.windows")
def gaussian(
    M, *, std=1.0, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False
):
    """exp(-(k - middle)² / (2 std²))."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return window(
        "gaussian", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: np.exp(-(((np.arange(m) - span / 2) / std) ** 2) / 2),
    )  # fmt: skip


@public("signal.windows")
def kaiser(
    M, *, beta=12.0, sym=True, dtype=None, layout=dtypes.strided, device=None, requires_grad=False
):
    """I₀(beta √(1 - (2k / (M - 1) - 1)²)) / I₀(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return window(
        "kaiser",
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
        lambda m, span: bessel(m, span, beta),
    )


# -- the elder functions ---------------------------------------------------------------------------


def elder(name, n, periodic, formula, dtype, layout, device, requires_grad):
    dtype = modes.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if layout not in (None, dtypes.strided):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    values = np.ones(n) if n < 2 else formula(n, n if periodic else n - 1)
    return made(values, dtype, device, requires_grad)


@public()
def hann_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False,
):  # fmt: skip
    """0.5 - 0.5 cos(2πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "hann_window", window_length, periodic, lambda m, span: cosine_sum(m, span, (0.5, 0.5)),
        dtype, layout, device, requires_grad,
    )  # fmt: skip


@public()
def hamming_window(
    window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False,
):  # fmt: skip
    """alpha - beta cos(2πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "hamming_window", window_length, periodic,
        lambda m, span: cosine_sum(m, span, (alpha, beta)), dtype, layout, device, requires_grad,
    )  # fmt: skip


@public()
def blackman_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False,
):  # fmt: skip
    """0.42 - 0.5 cos(2πk / N) + 0.08 cos(4πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "blackman_window", window_length, periodic,
        lambda m, span: cosine_sum(m, span, (0.42, 0.5, 0.08)), dtype, layout, device, requires_grad,
    )  # fmt: skip


@public()
def bartlett_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False,
):  # fmt: skip
    """A triangle: 1 - |2k / N - 1|; N is the length, one less if not `periodic`."""
    return elder(
        "bartlett_window", window_length, periodic, triangle, dtype, layout, device, requires_grad
    )


@public()
def kaiser_window(
    window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None,
    pin_memory=False, requires_grad=False,
):  # fmt: skip
    """I₀(beta √(1 - (2k / N - 1)²)) / I₀(beta); N is the length, one less if not `periodic`."""
    return elder(
        "kaiser_window", window_length, periodic, lambda m, span: bessel(m, span, beta),
        dtype, layout, device, requires_grad,
    )  # fmt: skip
