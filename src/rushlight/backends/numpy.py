"""The reference back end: every kernel on NumPy arrays, and correct for every dtype.

A kernel that NumPy has under the same meaning is NumPy's own; the others stand below. The list of
kernels, with one line of meaning each, is `base.KERNELS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (  # noqa: F401 - these are the kernels themselves
    absolute,
    add,
    arange,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    concatenate,
    conjugate,
    cos,
    cosh,
    divide,
    dtype,
    equal,
    exp,
    exp2,
    expm1,
    fmax,
    fmin,
    full,
    gcd,
    greater,
    greater_equal,
    invert,
    lcm,
    less,
    less_equal,
    log,
    log10,
    log1p,
    log2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    repeat,
    roll,
    not_equal,
    reciprocal,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    take,
    tile,
    tan,
    tanh,
    where,
    zeros,
)

from rushlight import dtypes
from rushlight.backends.numpy_reduce import (  # noqa: F401 - kernels
    anywhere,
    argmax,
    argmin,
    average,
    ends_of,
    everywhere,
    kth_index,
    largest,
    logcumsumexp,
    logsumexp,
    median,
    median_index,
    mode_index,
    pick,
    product,
    running,
    running_extreme,
    segment_of,
    segments,
    smallest,
    spread,
    sum_to,
    total,
    variance,
    widened,
    without_nan,
)
from rushlight.backends.numpy_sorting import (  # noqa: F401 - kernels
    among,
    bincount,
    histc,
    histogram,
    search,
    sort,
    take_along,
    topk,
    unique,
    unique_along,
)
from rushlight.backends.numpy_activation import (  # noqa: F401
    gelu,
    gelu_slope,
    gelu_tanh,
    gelu_tanh_slope,
    mish,
    silu,
    silu_slope,
    softplus,
)
from rushlight.backends.numpy_elementwise import (  # noqa: F401 - kernels
    add_product,
    add_quotient,
    add_scaled,
    ceil,
    clip,
    angle,
    clip_arrays,
    copysign,
    degrees_to_radians,
    floor,
    floor_divide,
    fmod,
    frac,
    frexp,
    heaviside,
    hypot,
    is_exact,
    is_float,
    isfinite,
    isinf,
    isnan,
    lerp,
    load_exponent,
    logaddexp,
    logaddexp2,
    logit,
    nextafter,
    power,
    radians_to_degrees,
    remainder,
    replace_nonfinite,
    reverse_subtract,
    rint,
    round_to,
    rsqrt,
    sgn,
    shift_left,
    shift_right,
    sigmoid,
    sign,
    signbit,
    sinc,
    trunc,
    trunc_divide,
    with_wide_number,
)
from rushlight.backends.numpy_conv import (  # noqa: F401 - kernels
    convolve,
    convolve_transposed,
    convolve_weight,
)
from rushlight.backends.numpy_indexing import (  # noqa: F401 - kernels
    add_along,
    add_rows,
    along,
    gather_along,
    index_add_at,
    index_take,
    out_of_range,
    reduce_at,
    restrided,
    stack_columns,
)
from rushlight.backends.numpy_views import (  # noqa: F401 - array geometry
    address,
    contiguous,
    elements,
    flipped,
    kept_layout,
    plain,
    reach,
    root,
    strided,
    triangle,
)
from rushlight.backends.numpy_pad import (  # noqa: F401 - kernels
    columns_of,
    columns_sum,
    pad_constant,
    pad_edges,
    pad_edges_adjoint,
)
from rushlight.backends.numpy_resample import (  # noqa: F401 - kernels
    affine_places,
    affine_places_adjoint,
    grid_gradients,
    grid_taps,
    grid_values,
    resample,
    resample_adjoint,
    taps_of,
)
from rushlight.backends.numpy_pool import (  # noqa: F401 - kernels
    adaptive_counts,
    adaptive_sums,
    adaptive_tables,
    add_at_places,
    fractional_starts,
    max_by_tables,
    max_pool,
    max_pool_gradient,
    places_by_plane,
    put_places,
    quotient,
    take_places,
    window_counts,
    window_sums,
    window_sums_adjoint,
    window_tables,
)
from rushlight.backends.numpy_products import (  # noqa: F401 - kernels
    accumulate,
    adjoint_times,
    bmm,
    broadcast_to,
    c_name,
    check_bmm,
    dot,
    linear,
    matmul,
    mm,
    mv,
    times_adjoint,
    vdot,
)


def cast(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary part)."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c" and dtype.kind != "c":
            if dtype.kind == "b":
                return a.astype(bool)
            a = a.real
        if dtype.itemsize == 2 and dtype.kind == "f" and a.dtype.itemsize == 8 and a.dtype.kind == "f":
            # C++ has no conversion from double: 1.00048828125000001 becomes 1, not 1.0009765625.
            a = a.astype(np.float32)
        return a.astype(dtype)


def number(value: Any, dtype: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers wrap around as in C."""
    if dtype.kind in "iu" and not -(1 << 63) <= int(value) < (1 << 63):
        if dtype.kind == "u" and dtype.itemsize == 8 and 0 <= value < 1 << 64:
            return np.array(value, dtype)
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {value}")
    if dtype.kind in "iu" and dtype is not dtypes.int64.np:
        return np.array(int(value), np.int64).astype(dtype)
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype)


# Kernels that are loaded when the first of their file is used.
LATER = {
    "special": (
        "airy_ai entropy erf erfc erfcx erfinv i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtr "
        "ndtri spherical_j0 y0 y1"
    ),
    "gamma": (
        "digamma gammainc gammaincc lgamma mvlgamma polygamma xlog1py xlogy zeta"
    ),
    "polynomials": (
        "chebyshev_t chebyshev_u chebyshev_v chebyshev_w hermite_h hermite_he laguerre_l "
        "legendre_p shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
        "shifted_chebyshev_w"
    ),
}


def __getattr__(name: str) -> Any:
    """The kernels of LATER, and `xp.linalg` and `xp.fft`."""
    from importlib import import_module

    if name in ("linalg", "fft"):
        module = globals()[name] = import_module(f"rushlight.backends.numpy_{name}")
        return module
    for family, names in LATER.items():
        if name in names.split():
            kernel = getattr(import_module(f"rushlight.backends.numpy_{family}"), name)
            globals()[name] = kernel
            return kernel
    raise AttributeError(f"the NumPy back end has no kernel {name!r}")
