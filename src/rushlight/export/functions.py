"""Functions of PyTorch that call operators of other names or other arguments: what is recorded in their place.

Each function here takes what the public one takes, and calls operators by their names in `torch.ops.aten`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.dispatch.aten_functions import DISTANCE_MODES
from rushlight.export.calls import without_defaults
from rushlight.export.errors import refuse
from rushlight.export.losses import body_of_loss
from rushlight.ops.nn.adaptive_pool import unpooled_sizes
from rushlight.ops.nn.resample import size_and_factors

# Functions that PyTorch writes in others in Python: what they call is recorded.
IN_PYTHON = frozenset(
    "multi_head_attention_forward normalize softmin softsign tanhshrink local_response_norm gaussian_nll_loss lp_pool1d "
    "lp_pool2d lp_pool3d gumbel_softmax multilabel_soft_margin_loss triplet_margin_with_distance_loss upsample "
    "upsample_nearest upsample_bilinear".split()
)


def body_of(func: Any, name: str) -> Callable | None:
    """The body of a function that is recorded in its place, or None."""
    op = getattr(func, "op", None)
    if name in IN_PYTHON:
        return op.declared if op is not None else getattr(func, "__wrapped__", None)
    if name in _FUNCTIONAL and func is getattr(rushlight.nn.functional, name):
        return _FUNCTIONAL[name]
    if name in _FUNCTIONS and (op is None or not op.where):
        return _FUNCTIONS[name]
    return body_of_loss(func, name)


def _aten(name: str, overload: str = "default") -> Any:
    return getattr(getattr(rushlight.ops.aten, name), overload)


def _each(v: Any, n: int) -> list:
    """A number for each of `n` dimensions."""
    return [v] * n if isinstance(v, int) else [*v]


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:  # fmt: skip
    """`torch.norm`: a norm of vectors, or of matrices for "nuc"."""
    options = {} if dtype is None else {"dtype": dtype}
    if p == "nuc":
        dims = [-2, -1] if dim is None else _each(dim, 1)
        return _aten("linalg_matrix_norm", "str_ord")(input, p, dims, keepdim, **options)
    args = [2 if p in (None, "fro") else p, dim if dim is None else _each(dim, 1), keepdim]
    return _aten("linalg_vector_norm")(input, *without_defaults(args, [2, None, False]), **options)


def max_pool(n: int) -> Callable:
    """`max_pool1d`, `max_pool2d` or `max_pool3d`."""

    def body(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        kernel = _each(kernel_size, n)
        given = [[] if stride is None else _each(stride, n), _each(padding, n), _each(dilation, n)]
        args = without_defaults([*given, ceil_mode], [[], [0] * n, [1] * n, False])
        return _aten(f"max_pool{n}d" + "_with_indices" * return_indices)(input, kernel, *args)

    return body


def _sizes(input: Any, output_size: Any, n: int) -> list:
    """The sizes of the results of an adaptive pool; None: as the input's."""
    given = zip(_each(output_size, n), input.shape[-n:], strict=True)
    return [have if v is None else v for v, have in given]


def adaptive_avg_pool(n: int) -> Callable:
    """`adaptive_avg_pool1d` and its like."""

    def body(input: Any, output_size: Any) -> Any:
        return _aten(f"adaptive_avg_pool{n}d")(input, _sizes(input, output_size, n))

    return body


def adaptive_max_pool(n: int) -> Callable:
    """`adaptive_max_pool1d` and its like, whose operators always return the indices."""

    def body(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        found = _aten(f"adaptive_max_pool{n}d")(input, _sizes(input, output_size, n))
        return found if return_indices else found[0]

    return body


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:  # fmt: skip
    """`grid_sample`, whose operator takes numbers for the modes."""
    number = ("bilinear", "nearest", "bicubic").index(mode)
    padding = ("zeros", "border", "reflection").index(padding_mode)
    return _aten("grid_sampler")(input, grid, number, padding, bool(align_corners))


def feature_dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # fmt: skip
    """`dropout1d` and its like."""
    return _aten("feature_dropout")(input, p, training)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:  # fmt: skip
    """`unfold`: `aten.im2col`."""
    return _aten("im2col")(input, *[_each(v, 2) for v in (kernel_size, dilation, padding, stride)])


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:  # fmt: skip
    """`fold`: `aten.col2im`."""
    given = (output_size, kernel_size, dilation, padding, stride)
    return _aten("col2im")(input, *[_each(v, 2) for v in given])


def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """`interpolate`: an operator for each mode and number of dimensions."""
    n = input.dim() - 2
    sizes, factors = size_and_factors(tuple(input.shape)[2:], size, scale_factor)
    if recompute_scale_factor or mode == "area":
        if sizes is None:
            pairs = zip(input.shape[2:], factors or (), strict=True)
            sizes = tuple(int(have * f) for have, f in pairs)
        factors = None
    if mode == "area":
        return _aten(f"adaptive_avg_pool{n}d")(input, [*(sizes or ())])
    wide = None if sizes is None or factors is not None else [*sizes]
    by = None if factors is None else [*factors]
    if "nearest" in mode:
        name = f"upsample_nearest{n}d" if mode == "nearest" else f"_upsample_nearest_exact{n}d"
        return _aten(name, "vec")(input, wide, by)
    name = f"_upsample_{mode}{n}d_aa" if antialias else f"upsample_{mode}{n}d"
    return _aten(name, "vec")(input, wide, bool(align_corners), by)


def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """`nn.functional.embedding_bag`, whose operator takes the weight first and bags of any length."""
    if max_norm is not None:
        refuse("embedding_bag: max_norm writes to the weight, which cannot be exported")
    if input.dim() == 2:
        offsets = rushlight.arange(0, input.numel(), input.shape[1])
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    number = ("sum", "mean", "max").index(mode)
    return _aten("embedding_bag", "padding_idx")(
        weight, input, offsets, scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx,
    )[0]  # fmt: skip


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """`torch.tensordot`, whose operator takes the dimensions of both."""
    if isinstance(dims, int):
        dims = [*range(-dims, 0)], [*range(dims)]
    return _aten("tensordot")(a, b, *[_each(d, 1) for d in dims])


def max_unpool(n: int) -> Callable:
    """`max_unpool1d` and its like, whose operators take sizes in the place of windows; that of one dimension is that of two."""

    def body(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:  # fmt: skip
        kernel, padding = _each(kernel_size, n), _each(padding, n)
        stride = kernel if stride is None else _each(stride, n)
        sizes = [*unpooled_sizes(input, tuple(kernel), tuple(stride), tuple(padding), output_size)]
        if n > 1:
            return _aten(f"max_unpool{n}d")(input, indices, sizes, *[stride, padding] * (n == 3))
        given = _aten("unsqueeze")(input, -1), _aten("unsqueeze")(indices, -1)
        return _aten("squeeze", "dim")(_aten("max_unpool2d")(*given, [*sizes, 1]), -1)

    return body


def fractional_max_pool(n: int) -> Callable:
    """`fractional_max_pool2d` or `fractional_max_pool3d`: the places of the windows are drawn first."""

    def body(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        if output_size is None:
            ratio = [output_ratio] * n if isinstance(output_ratio, float) else output_ratio
            sizes = [int(s * r) for s, r in zip(input.shape[-n:], ratio, strict=True)]
        else:
            sizes = _each(output_size, n)
        lead = [1, input.shape[0]] if input.dim() == n + 1 else [*input.shape[:2]]
        if _random_samples is None:
            _random_samples = _aten("rand")([*lead, n], dtype=input.dtype)
        given = _each(kernel_size, n), sizes, _random_samples
        found = _aten(f"fractional_max_pool{n}d")(input, *given)
        return found if return_indices else found[0]

    return body


def stft(
    input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """`torch.stft`, whose operator pads nothing."""
    if center:
        rows = input.reshape(1, -1, input.shape[-1])
        padded = rushlight.nn.functional.pad(rows, [n_fft // 2, n_fft // 2], pad_mode)
        input = padded.reshape(*input.shape[:-1], padded.shape[-1])
    given = (n_fft, hop_length, win_length, window, normalized, onesided, return_complex)
    return _aten("stft")(input, *given, *[align_to_window] * (align_to_window is not None))


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """`torch.roll`."""
    return _aten("roll")(input, _each(shifts, 1), *[] if dims is None else [_each(dims, 1)])


def cdist(
    x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Any:
    """`torch.cdist`, whose operator takes a number for the mode."""
    if compute_mode not in DISTANCE_MODES:
        refuse(f"cdist: {compute_mode!r} is no compute_mode")
    mode = DISTANCE_MODES.index(compute_mode) or None
    return _aten("cdist")(x1, x2, *without_defaults([p, mode], [2.0, None]))


# functions of nn.functional
_FUNCTIONAL: dict[str, Callable] = {
    **{f"max_pool{n}d": max_pool(n) for n in (1, 2, 3)},
    **{f"max_unpool{n}d": max_unpool(n) for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": fractional_max_pool(n) for n in (2, 3)},
    **{f"adaptive_avg_pool{n}d": adaptive_avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": adaptive_max_pool(n) for n in (1, 2, 3)},
    **dict.fromkeys(("dropout1d", "dropout2d", "dropout3d"), feature_dropout),
    "embedding_bag": embedding_bag,
    "fold": fold,
    "grid_sample": grid_sample,
    "interpolate": interpolate,
    "logsigmoid": lambda input: _aten("log_sigmoid")(input),
    "unfold": unfold,
}
# functions of torch, and methods
_FUNCTIONS: dict[str, Callable] = {
    "block_diag": lambda *tensors: _aten("block_diag")([*tensors]),
    "broadcast_tensors": lambda *tensors: _aten("broadcast_tensors")([*tensors]),
    "cartesian_prod": lambda *tensors: _aten("cartesian_prod")([*tensors]),
    "cdist": cdist,
    "norm": norm,
    "roll": roll,
    "stft": stft,
    "tensordot": tensordot,
}
