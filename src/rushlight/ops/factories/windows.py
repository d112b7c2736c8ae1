"""Window functions: `torch.signal.windows`, and their elder forms such as `hann_window`.

A window of M points is computed in double precision from its formula and rounded once. A symmetric one
is for filters, a periodic one (M + 1 points without the last) for spectra.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight.core import dtypes, modes
from rushlight.core.dtype_sets import F64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.factories.arguments import check_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight.core.device import device as device_type
    from rushlight.core.dtypes import dtype as DType
    from rushlight.core.dtypes import layout as Layout

    Device = device_type | str | int | None


def made(values, dtype=None, device=None, requires_grad=False) -> Tensor:
    """A tensor of these values in the dtype asked for, the default one for None."""
    a = xp.asarray(values).astype((dtype or modes.get_default_dtype()).np)
    t = _wrap(devices.for_device(device).from_numpy(a))
    return t.requires_grad_() if requires_grad else t


# -- formulas: M points, `span` of them make the whole width ---------------------------------------


def cosine_sum(m, span, coefficients):
    k = xp.arange(m) * (2 * math.pi / span)
    return sum((-1) ** i * c * xp.cos(i * k) for i, c in enumerate(coefficients))


def triangle(m, span):
    return 1 - xp.absolute(2 * xp.arange(m) / span - 1)


def bessel(m, span, beta):
    x = xp.minimum(beta, -beta + xp.arange(m) * (2 * beta / span))
    return np.i0(xp.sqrt(xp.maximum(beta * beta - x * x, 0))) / np.i0(beta)


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
        return made(xp.ones(m, F64), dtype, device, requires_grad)
    return made(formula(m, m - 1 if sym else m), dtype, device, requires_grad)


# -- torch.signal.windows --------------------------------------------------------------------------


@public("signal.windows")
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Σ (-1)ⁱ aᵢ cos(2πi k / (M - 1)) for k = 0, ..., M - 1."""
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    a = list(a)
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return window(
        "general_cosine", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: cosine_sum(m, span, a),
    )  # fmt: skip


@public("signal.windows")
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2πk / (M - 1))."""
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.54 - 0.46 cos(2πk / (M - 1))."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@public("signal.windows")
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
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
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2πk / (M - 1)) + 0.08 cos(4πk / (M - 1))."""
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Nuttall's sum of four cosines (Heinzel et al., 2002, minimum 4-term)."""
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip


@public("signal.windows")
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: 1 - |2k / (M - 1) - 1|."""
    return window("bartlett", M, sym, dtype, layout, device, requires_grad, triangle)


@public("signal.windows")
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(π (k + 1/2) / M)."""
    return window(
        "cosine", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: xp.sin((xp.arange(m) + 0.5) * (math.pi / (span + 1))),
    )  # fmt: skip


@public("signal.windows")
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau); the center is the middle, and can be chosen if not `sym`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return window(
        "exponential", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: xp.exp(-xp.absolute(xp.arange(m) - (span / 2 if center is None else center)) / tau),
    )  # fmt: skip


@public("signal.windows")
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(k - middle)² / (2 std²))."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return window(
        "gaussian", M, sym, dtype, layout, device, requires_grad,
        lambda m, span: xp.exp(-(((xp.arange(m) - span / 2) / std) ** 2) / 2),
    )  # fmt: skip


@public("signal.windows")
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Layout | None = dtypes.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
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


def elder(name, n, periodic, formula, dtype, layout, device, pin_memory, requires_grad):
    dtype = modes.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if layout not in (None, dtypes.strided):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    check_options(name, None, pin_memory)
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    values = xp.ones(n, F64) if n < 2 else formula(n, n if periodic else n - 1)
    return made(values, dtype, device, requires_grad)


@public()
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """0.5 - 0.5 cos(2πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "hann_window", window_length, periodic, lambda m, span: cosine_sum(m, span, (0.5, 0.5)),
        dtype, layout, device, pin_memory, requires_grad,
    )  # fmt: skip


@public()
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "hamming_window", window_length, periodic,
        lambda m, span: cosine_sum(m, span, (alpha, beta)), dtype, layout, device, pin_memory, requires_grad,
    )  # fmt: skip


@public()
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2πk / N) + 0.08 cos(4πk / N); N is the length, one less if not `periodic`."""
    return elder(
        "blackman_window", window_length, periodic,
        lambda m, span: cosine_sum(m, span, (0.42, 0.5, 0.08)), dtype, layout, device, pin_memory, requires_grad,
    )  # fmt: skip


@public()
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: 1 - |2k / N - 1|; N is the length, one less if not `periodic`."""
    return elder(
        "bartlett_window",
        window_length,
        periodic,
        triangle,
        dtype,
        layout,
        device,
        pin_memory,
        requires_grad,
    )


@public()
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(beta √(1 - (2k / N - 1)²)) / I₀(beta); N is the length, one less if not `periodic`."""
    return elder(
        "kaiser_window", window_length, periodic, lambda m, span: bessel(m, span, beta),
        dtype, layout, device, pin_memory, requires_grad,
    )  # fmt: skip
