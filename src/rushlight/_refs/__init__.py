"""`torch._refs`: the public operators under the names of PyTorch's reference implementations.

PyTorch writes many of its operators a second time, in Python, for its compilers. Rushlight's operators are in Python already: there is
no second implementation here, `torch._refs.add` is `torch.add`. What PyTorch has under none of these names is not here either.

>>> import rushlight as torch
>>> import rushlight._refs.special
>>> torch._refs.add is torch.add, torch._refs.special.zeta is torch.special.zeta
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.ops.reductions.reduce import axes

# Module -> the public names that PyTorch's has
NAMES = {
    "_refs": (
        "abs abs_ acos acos_ acosh acosh_ add add_ addcdiv addcdiv_ addcmul addcmul_ addr alias "
        "alias_copy all allclose amax amin any arange as_strided as_strided_copy as_strided_scatter "
        "asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d "
        "atleast_3d bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not "
        "bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor "
        "bitwise_xor_ block_diag broadcast_shapes broadcast_tensors broadcast_to bucketize cat "
        "cauchy cauchy_ ceil ceil_ chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ "
        "clone column_stack conj conj_physical conj_physical_ constant_pad_nd contiguous copy_to "
        "copysign copysign_ cos cos_ cosh cosh_ count_nonzero cumprod cumprod_ cumsum cumsum_ "
        "deg2rad deg2rad_ diag diag_embed diagonal diagonal_copy diagonal_scatter digamma digamma_ "
        "div div_ dot dsplit dstack empty empty_like empty_permuted empty_strided eq eq_ equal erf "
        "erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expand_copy expm1 "
        "expm1_ exponential exponential_ eye fill fill_ flatten flip fliplr flipud float_power "
        "float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod fmod_ frac frac_ full "
        "full_like gcd gcd_ ge ge_ geometric geometric_ gt gt_ heaviside heaviside_ hsplit hstack "
        "hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ imag index_add index_copy index_copy_ "
        "index_fill index_fill_ index_select is_complex isclose isfinite isinf isnan isneginf "
        "isposinf isreal istft item lcm lcm_ le le_ lerp lerp_ lgamma lgamma_ linspace log log10 "
        "log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_ log_softmax logaddexp "
        "logaddexp2 logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ "
        "logical_xor logical_xor_ logspace logsumexp lt lt_ masked_fill masked_fill_ maximum mean "
        "meshgrid minimum movedim mul mul_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ narrow "
        "narrow_copy native_group_norm native_layer_norm ne ne_ neg neg_ new_empty "
        "new_empty_strided new_full new_ones new_zeros nextafter nextafter_ norm normal ones "
        "ones_like permute permute_copy positive pow pow_ prod rad2deg rad2deg_ randn ravel real "
        "reciprocal reciprocal_ remainder remainder_ renorm repeat reshape reshape_as rfloordiv "
        "roll rot90 round rpow rsqrt rsqrt_ rsub rtruediv scalar_tensor sgn sgn_ sigmoid sigmoid_ "
        "sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ softmax split_with_sizes sqrt sqrt_ "
        "square square_ squeeze squeeze_copy stack std std_mean stft sub sub_ sum sum_to_size "
        "swap_axes T t t_copy take_along_dim tan tan_ tanh tanh_ tensor_split to trace transpose "
        "transpose_copy tril tril_ tril_indices triu triu_ triu_indices true_divide true_divide_ "
        "trunc trunc_ trunc_divide unbind unbind_copy unflatten unfold unfold_copy unsqueeze "
        "unsqueeze_copy var var_mean vdot view view_as view_as_complex view_copy vsplit vstack "
        "where xlogy xlogy_ zero zero_ zeros zeros_like"
    ),
    "_refs._conversions": (
        "bfloat16 bool byte cdouble cfloat chalf char complex double float half int long polar "
        "short"
    ),
    "_refs.fft": (
        "fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn "
        "irfft irfft2 irfftn rfft rfft2 rfftn"
    ),
    "_refs.linalg": ("cross diagonal matrix_norm norm svd svdvals vecdot vector_norm"),
    "_refs.nn.functional": (
        "alpha_dropout celu celu_ channel_shuffle dropout elu elu_ gelu glu group_norm hardshrink "
        "hardtanh hinge_embedding_loss huber_loss l1_loss layer_norm leaky_relu log_softmax "
        "margin_ranking_loss mish mish_ mse_loss nll_loss pairwise_distance pdist poisson_nll_loss "
        "prelu relu relu6 selu selu_ smooth_l1_loss softmax softmin softplus softshrink tanhshrink "
        "threshold threshold_ triplet_margin_loss"
    ),
    "_refs.special": (
        "bessel_j0 bessel_j1 entr erfcx expit i0e i1 i1e log_ndtr log_softmax logit multigammaln "
        "ndtr ndtri softmax spherical_bessel_j0 xlog1py zeta"
    ),
}
# and those that it does not list in `__all__`
_UNLISTED = {
    "_refs": "frexp normal_ select_scatter tensor",
    "_refs.nn.functional": "hardsigmoid pixel_shuffle pixel_unshuffle",
}


def _prod(a: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """`torch.prod`, also over several dimensions, which `torch.prod` does not take."""
    if not isinstance(dim, (list, tuple)):
        return rushlight.prod(a, dim, keepdim, dtype=dtype)
    axes(dim, a.ndim)  # raises where they are out of range or twice the same
    over = dim or range(a.ndim)
    for each in over:
        a = rushlight.prod(a, each, True, dtype=dtype)
    return a if keepdim else a.squeeze(tuple(over))


# Names that no public operator has
_OTHERS: dict[str, Callable] = {
    "_refs.copy_to": lambda a, b: a.copy_(b),
    "_refs.prod": _prod,
    "_refs.rfloordiv": lambda a, b: rushlight.floor_divide(b, a),
    "_refs.rpow": lambda a, b: rushlight.pow(b, a),
    "_refs.rtruediv": lambda a, b: rushlight.true_divide(b, a),
    "_refs.swap_axes": lambda a, axis0, axis1: a.swapaxes(axis0, axis1),
    "_refs.T": lambda a: a.T,
    "_refs.nn.functional.mish_": lambda a: rushlight.nn.functional.mish(a, inplace=True),
    "_refs.trunc_divide": lambda a, b: rushlight.div(a, b, rounding_mode="trunc"),
}  # fmt: skip


def namespace(module: str) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a module of this package; what it has is looked up at the first use."""
    path = module.partition(".")[2]
    names = NAMES[path].split()
    unlisted = _UNLISTED.get(path, "").split()
    public = path.removeprefix("_refs").lstrip(".")

    def __getattr__(name: str) -> Any:
        if name not in names and name not in unlisted:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if f"{path}.{name}" in _OTHERS:
            return _OTHERS[f"{path}.{name}"]
        for owner in _owners(public):
            if hasattr(owner, name):
                return getattr(owner, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return names, __getattr__


def _owners(public: str) -> list[Any]:
    """Where the operators of `torch._refs.<public>` are, in the order in which a name is looked for."""
    if public == "_conversions":
        return [rushlight.Tensor, rushlight]
    owner: Any = rushlight
    for part in filter(None, public.split(".")):
        owner = getattr(owner, part)
    return [owner] if public else [rushlight, rushlight.Tensor, rushlight.ops.aten]


__all__, _operator = namespace(__name__)


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg", "nn", "special", "_conversions"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    return _operator(name)
