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
    asarray,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    concatenate,
    conjugate,
    copyto,
    cos,
    cosh,
    divide,
    dtype,
    empty,
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
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    ones,
    reciprocal,
    repeat,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    take,
    tan,
    tanh,
    where,
    zeros,
)

from rushlight._backends import llvm
from rushlight.core import dtypes
from rushlight.core.device import CPU, device


def cast(a: np.ndarray, to: np.dtype) -> np.ndarray:
    """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary part)."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c" and to.kind != "c":
            if to.kind == "b":
                return a.astype(bool)
            a = a.real
        if to.itemsize == 2 and to.kind == "f" and a.dtype.itemsize == 8 and a.dtype.kind == "f":
            # C++ has no conversion from double: 1.00048828125000001 becomes 1, not 1.0009765625.
            a = a.astype(np.float32)
        if to is _SATURATING:  # it has no infinity: what is too large becomes the largest number
            a = np.clip(a.astype(np.float32), -448, 448)
        return a.astype(to)


def device_of(a: np.ndarray) -> device:
    """The device of an array."""
    return CPU


def from_numpy(a: np.ndarray) -> np.ndarray:
    """An array of this back end with the values of a NumPy array: that array itself."""
    return a


def to_numpy(a: np.ndarray) -> np.ndarray:
    """The values of an array of this back end as a NumPy array: that array itself."""
    return a if a.__class__ is np.ndarray else a.view(np.ndarray)


def shares_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the ranges of memory of two arrays overlap."""
    return np.may_share_memory(a, b)


cast_plainly = cast
_SATURATING = dtypes.float8_e4m3fn.np


def number(value: Any, to: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers wrap around as in C."""
    if to.kind in "iu" and not -(1 << 63) <= int(value) < (1 << 63):
        if to.kind == "u" and to.itemsize == 8 and 0 <= value < 1 << 64:
            return np.array(value, to)
        raise RuntimeError(f"value cannot be converted to type {to} without overflow: {value}")
    if to.kind in "iu" and to is not dtypes.int64.np:
        return np.array(int(value), np.int64).astype(to)
    with np.errstate(all="ignore"):
        return np.array(value).astype(to)


# All other kernels, by file (`reference/<family>.py`); each is loaded when it is first used.
LATER = {
    "activation": (
        "clip_gradient elu elu_gradient gelu gelu_gradient gelu_tanh glu glu_gradient "
        "gelu_tanh_gradient hardshrink hardsigmoid hardsigmoid_gradient "
        "hardswish hardswish_gradient hardtanh hardtanh_gradient leaky_relu "
        "leaky_relu_gradient log_sigmoid log_sigmoid_gradient mish mish_gradient prelu "
        "prelu_gradient prelu_weight_gradient relu scaled_softplus scaled_softplus_gradient "
        "shrink_gradient sigmoid_gradient silu silu_gradient softshrink "
        "tanh_gradient threshold"
    ),
    "loss": (
        "binary_cross_entropy binary_cross_entropy_gradient huber huber_gradient bce_with_logits "
        "bce_with_logits_gradient nll_loss nll_loss_gradient smooth_l1 smooth_l1_gradient squared_distance "
        "mse_gradient"
    ),
    "conv": ("convolve convolve_transposed convolve_weight"),
    "elementwise": (
        "threshold_gradient addcmul addcdiv add_scaled angle ceil clip clip_arrays copysign "
        "deg2rad fill floor floor_divide fmod frac frexp heaviside hypot "
        "is_exact is_float isfinite isinf isnan lerp ldexp logaddexp logaddexp2 logit "
        "nextafter power rad2deg remainder nan_to_num reverse_subtract "
        "rint round_to rsqrt sgn left_shift right_shift sigmoid sign signbit sinc trunc "
        "trunc_divide with_wide_number"
    ),
    "indexing": (
        "gather_gradient add_rows along fill_masked gather index_add_at index_put index_take "
        "out_of_range put_slices scatter_reduce reduce_at as_strided_gradient index_select_gradient index_select scatter"
    ),
    "normalize": (
        "batch_norm batch_norm_gradients group_norm group_norm_gradients layer_norm "
        "layer_norm_gradients l2_norm update_running_stats rms_norm rms_norm_gradients"
    ),
    "softmax": (
        "cross_entropy cross_entropy_gradient log_softmax log_softmax_gradient softmax softmax_gradient"
    ),
    "bags": ("embedding_bag"),
    "masks": ("masked_expand masked_select nonzero"),
    "attention": ("attention attention_gradients"),
    "distances": ("cdist cdist_gradient pdist pdist_gradient"),
    "ctc": ("ctc_loss ctc_loss_gradient"),
    "recurrent": ("recurrent_layer recurrent_layer_gradients"),
    "pad": ("im2col col2im pad_constant pad_edges pad_edges_adjoint"),
    "pool": (
        "adaptive_counts adaptive_sums adaptive_tables add_at_places fractional_starts "
        "max_by_tables max_pool max_pool_places places_by_plane put_places "
        "quotient take_places window_averages window_averages_adjoint window_counts"
    ),
    "products": (
        "accumulate accumulate_activated adjoint_times bmm broadcast_to c_name check_bmm dot linear "
        "matmul mm mv outer outer_added times_adjoint vdot"
    ),
    "reduce": (
        "any argmax argmin mean segment_offsets all kth_index amax max_with_index logcumsumexp "
        "logsumexp median median_index mode_index count_nonzero pick prod cumulative cumulative_extreme "
        "segment_ids segment_reduce amin min_with_index expand_reduced sum_to sum nansum variance upcast "
        "xor_sum"
    ),
    "random": (
        "by_c_library random_uniform random_doubles random_floats random_bernoulli random_integers "
        "random_normal_floats random_normals random_permutation random_wide_normals random_wide_words random_words"
    ),
    "samples": "dirichlet_gradient standard_gamma_gradient",
    "sequences": "arange_into linspace_into",
    "resample": (
        "affine_grid affine_grid_adjoint grid_sample_gradients grid_taps grid_sample resample "
        "resample_adjoint taps_of"
    ),
    "sorting": (
        "isin bincount histc histogram searchsorted sort take_along topk unique unique_along"
    ),
    "views": (
        "address cat_contiguous contiguous copy_into element_strides empty_strided flip cat copy_like plain extent roll root "
        "row_major stack_contiguous as_strided tile triangle"
    ),
    "special": (
        "airy_ai entr erf erfc erfcx erfinv i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtr "
        "ndtri spherical_j0 y0 y1"
    ),
    "gamma": ("digamma gammainc gammaincc lgamma mvlgamma polygamma xlog1py xlogy zeta"),
    "polynomials": (
        "chebyshev_t chebyshev_u chebyshev_v chebyshev_w hermite_h hermite_he laguerre_l "
        "legendre_p shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v "
        "shifted_chebyshev_w"
    ),
}


_family: dict[str, str] = {}  # kernel -> the file it is in, filled by the first use


def _files() -> dict[str, str]:
    if not _family:
        _family.update({k: f"reference.{f}" for f, names in LATER.items() for k in names.split()})
    return _family


# Dictionaries that hold kernels under `k_<kernel>`, the globals of generated code: `llvm.activate` puts the
# compiled ones there.
tables: list[dict[str, Any]] = []


def kernel(name: str) -> Any:
    """The implementation of a kernel that calls take now. AttributeError where there is none."""
    found = globals().get(name)
    return __getattr__(name) if found is None else llvm.counted(name, found)


def replace(files: dict[str, str]) -> None:
    """Take kernels from other files from now on (`llvm.activate` does this)."""
    for name in files:
        globals().pop(name, None)
    _files().update(files)


def __getattr__(name: str) -> Any:
    """The kernels of LATER, and `xp.linalg` and `xp.fft`."""
    from importlib import import_module

    if name in ("linalg", "fft"):
        module = globals()[name] = import_module(f"rushlight._backends.reference.{name}")
        return module
    file = _files().get(name)
    if file is None:
        raise AttributeError(f"the CPU has no kernel {name!r}")
    found = getattr(import_module(f"rushlight._backends.{file}"), name)
    found = globals()[name] = llvm.counted(name, found)
    return found


for _name in ("cast", "where"):
    globals()[_name] = llvm.counted(_name, globals()[_name])
