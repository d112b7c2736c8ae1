"""The functions of `nn.functional`. Written by scripts/stubs.py; do not edit."""

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


def _bce_with_logits(input: Tensor, target: Tensor | _Number) -> Tensor:
    """max(x, 0) - x y + log(1 + exp(-|x|))."""
def _binary_cross_entropy(input: Tensor, target: Tensor | _Number) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)), each logarithm at least -100."""
def _cross_entropy_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int, label_smoothing: _float) -> Tensor:
    """The cross entropy of logits (N, C, *) and classes (N, *): `nll` of `log_softmax` in one, nothing"""
def _elu(input: Tensor, alpha: _float, scale: _float, input_scale: _float, *, out: Any = None) -> Tensor:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
def _glu(input: Tensor, dim: _int) -> Tensor: ...
def _hardsigmoid(input: Tensor, *, out: Any = None) -> Tensor: ...
def _hardswish(input: Tensor, *, out: Any = None) -> Tensor: ...
def _hardtanh(input: Tensor, min_val: _float, max_val: _float, *, out: Any = None) -> Tensor: ...
def _huber_loss(input: Tensor, target: Tensor | _Number, delta: _float) -> Tensor: ...
def _leaky_relu(input: Tensor, negative_slope: _float, *, out: Any = None) -> Tensor: ...
def _logsigmoid(input: Tensor, *, out: Any = None) -> Tensor: ...
def _mish(input: Tensor, *, out: Any = None) -> Tensor: ...
def _mse_loss(input: Tensor, target: Tensor, reduction: _str) -> Tensor:
    """(x - y)**2, summed or averaged: one pass over both."""
def _multi_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None, p: _int, margin: _float, reduction: _str) -> Tensor: ...
def _multilabel_margin_loss(input: Tensor, target: Tensor, reduction: _str) -> Tensor: ...
def _nll_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int) -> Tensor:
    """-w[t] * x[t] for input (N, C) and target (N) of class numbers."""
def _nll_loss_backward(grad_output: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int, shape: _Ints) -> Tensor:
    """The gradient of `nll`: -w[t] * g at the target's place of each row, zeros elsewhere."""
def _reduced_bce_with_logits(input: Tensor, target: Tensor, reduction: _str, settings: _Ints) -> Tensor: ...
def _reduced_binary_cross_entropy(input: Tensor, target: Tensor, reduction: _str, settings: _Ints) -> Tensor: ...
def _reduced_huber_loss(input: Tensor, target: Tensor, reduction: _str, settings: _Ints) -> Tensor: ...
def _reduced_smooth_l1_loss(input: Tensor, target: Tensor, reduction: _str, settings: _Ints) -> Tensor: ...
def _reduced_soft_margin_loss(input: Tensor, target: Tensor, reduction: _str, settings: _Ints) -> Tensor: ...
def _silu(input: Tensor, *, out: Any = None) -> Tensor: ...
def _slope(grad_output: Tensor, input: Tensor | _Number, of: _str, *, out: Any = None) -> Tensor:
    """grad_output times the derivative of the kernel `of` at `input`."""
def _smooth_l1_loss(input: Tensor, target: Tensor | _Number, beta: _float) -> Tensor: ...
def _soft_margin_loss(input: Tensor, target: Tensor | _Number) -> Tensor: ...
def _threshold(input: Tensor, threshold: _float, value: _float, *, out: Any = None) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, L) or (C, L)."""
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, H, W) or (C, H, W)."""
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W)."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, L) or (C, L)."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """`adaptive_max_pool1d` with the index of each maximum."""
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, H, W) or (C, H, W)."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """`adaptive_max_pool2d` with the index of each maximum."""
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W)."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> Tensor:
    """`adaptive_max_pool3d` with the index of each maximum."""
def affine_grid(theta: Tensor, size: Any, align_corners: _bool | None = None) -> Tensor:
    """The grid for `grid_sample` under affine maps: theta (N, 2, 3), size (N, C, H, W): (N, H, W, 2)."""
def alpha_dropout(input: Tensor, p: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.alpha_dropout`; `inplace`: into the input's memory."""
def avg_pool1d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The average of each window of (N, C, L) or (C, L)."""
def avg_pool2d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Any = None) -> Tensor:
    """The average of each window of (N, C, H, W) or (C, H, W)."""
def avg_pool3d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None, *, out: Any = None) -> Tensor:
    """The average of each window of (N, C, D, H, W) or (C, D, H, W): as `avg_pool2d`."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = ..., eps: _float = ..., *, out: Any = None) -> Tensor:
    """As `torch.batch_norm`; in training every channel must have more than one value."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A bilinear map: y[..., o] = Σ input1[..., i] weight[o, i, j] input2[..., j] + bias[o]."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The cross entropy of probabilities `input` in [0, 1] and targets of the same shape."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', pos_weight: Tensor | None = None, *, out: Any = None) -> Tensor:
    """The cross entropy of sigmoid(input) and `target`, stably; `pos_weight`: weight of positives."""
def celu(input: Tensor, alpha: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.celu`; `inplace`: into the input's memory."""
def celu_(input: Tensor, alpha: _float = ...) -> Tensor:
    """`celu` into the input's memory."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """(N, C, *) with its channels, as (groups, C / groups), transposed."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, L) or (C, L), weight (O, C / groups, k)."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, H, W) or (C, H, W), weight (O, C / groups, kh, kw)."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: Any = 0, dilation: _Ints = 1, groups: _int = 1) -> Tensor:
    """Convolution of (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kd, kh, kw)."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """Convolution over time of (time, batch, channels) with weight (k, C, O) and bias (O)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv1d`: (N, C, L) or (C, L), weight (C, O / groups, k)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv2d`: (N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _Ints = 1, padding: _Ints = 0, output_padding: _Ints = 0, groups: _int = 1, dilation: _Ints = 1) -> Tensor:
    """The transpose of `conv3d`: (N, C, D, H, W), weight (C, O / groups, kd, kh, kw)."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """A loss on the angle between two vectors: 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = ..., *, out: Any = None) -> Tensor:
    """x1 . x2 over the product of their lengths, each at least eps, along `dim`."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = ..., *, out: Any = None) -> Tensor:
    """The cross entropy between logits `input` and classes (or class probabilities) `target`."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: _int = 0, reduction: _str = 'mean', zero_infinity: _bool = False, *, out: Any = None) -> Tensor:
    """-log of the probability of all alignments of `targets` (Graves et al. 2006)."""
def dropout(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.dropout`; `inplace`: into the input's memory."""
def dropout1d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, H, W)."""
def dropout3d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def elu(input: Tensor, alpha: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """The exponential linear unit: x for x > 0, else alpha * (exp(x) - 1) (Clevert et al. 2015)."""
def elu_(input: Tensor, alpha: _float = ..., scale: _float = ..., input_scale: _float = ...) -> Tensor:
    """`elu` into the input's memory."""
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = ..., scale_grad_by_freq: _bool = False, sparse: _bool = False, *, out: Any = None) -> Tensor:
    """The rows of `weight` [rows, columns] that `input` names; -> [*input, columns]."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2, scale_grad_by_freq: _bool = False, mode: _str = 'mean', sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None, *, out: Any = None) -> Tensor:
    """Sums, means or maxima over bags of rows of `weight`."""
def feature_alpha_dropout(input: Tensor, p: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.feature_alpha_dropout`; `inplace`: into the input's memory."""
def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Columns (N, C kh kw, L) added up to images (N, C, *output_size) where windows overlap."""
def fractional_max_pool2d(input: Tensor, kernel_size: _Ints, output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Any = None) -> Tensor:
    """The maxima of windows at random steps over (N, C, H, W) or (C, H, W) (Graham 2014)."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _Ints, output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Any = None) -> Tensor:
    """`fractional_max_pool2d` with the index of each maximum."""
def fractional_max_pool3d(input: Tensor, kernel_size: _Ints, output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Any = None) -> Tensor:
    """The maxima of windows at random steps over (N, C, D, H, W) or (C, D, H, W)."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _Ints, output_size: Any = None, output_ratio: Any = None, return_indices: _bool = False, _random_samples: Any = None) -> Tensor:
    """`fractional_max_pool3d` with the index of each maximum."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: _bool = False, eps: _float = ..., reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """-log of a normal density of `target` with mean `input` and variance `var` (at least eps)."""
def gelu(input: Tensor, *, approximate: _str = 'none', out: Any = None) -> Tensor:
    """x times the normal distribution function of x; `approximate="tanh"`: the cheaper formula."""
def glu(input: Tensor, dim: _int = -1, *, out: Any = None) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016)."""
def grid_sample(input: Tensor, grid: Tensor, mode: _str = 'bilinear', padding_mode: _str = 'zeros', align_corners: _bool | None = None) -> Tensor:
    """`input` (N, C, H, W) read at the positions `grid` (N, h, w, 2): (N, C, h, w); or one dimension more."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = ..., *, out: Any = None) -> Tensor:
    """As `torch.group_norm`."""
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """Products of groups of matrices; `offs` (int32) says where each group ends."""
def gumbel_softmax(logits: Tensor, tau: _float = 1, hard: _bool = False, eps: _float = ..., dim: _int = -1, *, out: Any = None) -> Tensor:
    """Samples from a distribution close to a category (Jang et al. 2016); `hard`: one-hot forward."""
def hardshrink(input: Tensor, lambd: _float = ..., *, out: Any = None) -> Tensor:
    """The input where |x| > lambd, 0 elsewhere."""
def hardsigmoid(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """0 below -3, 1 above 3, x / 6 + 1 / 2 between."""
def hardswish(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * hardsigmoid(x) (Howard et al. 2019)."""
def hardtanh(input: Tensor, min_val: _float = ..., max_val: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """The input, cut off at `min_val` and `max_val`."""
def hardtanh_(input: Tensor, min_val: _float = ..., max_val: _float = ...) -> Tensor:
    """`hardtanh` into the input's memory."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = ..., size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The hinge loss of a distance: x where the target is 1, max(0, margin - x) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: _str = 'mean', delta: _float = ..., weight: Tensor | None = None, *, out: Any = None) -> Tensor:
    """Squared within `delta`, linear beyond (Huber 1964)."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = ..., eps: _float = ..., *, out: Any = None) -> Tensor:
    """As `torch.instance_norm`; every sample must have more than one spatial element."""
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: _str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """(N, C, L), (N, C, H, W) or (N, C, D, H, W) resampled to `size`, or by `scale_factor`."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', log_target: _bool = False, *, out: Any = None) -> Tensor:
    """The divergence of `target` from exp(input): target * (log(target) - input)."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None, *, out: Any = None) -> Tensor:
    """The mean absolute error: the mean (or sum) of |x - y|."""
def layer_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = ..., *, out: Any = None) -> Tensor:
    """As `torch.layer_norm`."""
def leaky_relu(input: Tensor, negative_slope: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x for x > 0, else negative_slope * x."""
def leaky_relu_(input: Tensor, negative_slope: _float = ...) -> Tensor:
    """`leaky_relu` into the input's memory."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Any = None) -> Tensor:
    """input [..., k] @ weight [m, k]ᵀ + bias [m] -> [..., m]: the affine map of `nn.Linear`."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: _str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = ..., options: Any = None, out: Any = None) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target)."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = ..., beta: _float = ..., k: _float = ..., *, out: Any = None) -> Tensor:
    """x / (k + alpha * mean of squares over `size` channels) ** beta (Krizhevsky 2012)."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """As `torch.log_softmax`; without `dim` it is guessed, with a warning."""
def logsigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """The logarithm of the sigmoid."""
def lp_pool1d(input: Tensor, norm_type: _float, kernel_size: _Ints, stride: Any = None, ceil_mode: _bool = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, L) or (C, L); the maximum for p = inf."""
def lp_pool2d(input: Tensor, norm_type: _float, kernel_size: _Ints, stride: Any = None, ceil_mode: _bool = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, H, W) or (C, H, W); the maximum for p = inf."""
def lp_pool3d(input: Tensor, norm_type: _float, kernel_size: _Ints, stride: Any = None, ceil_mode: _bool = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, D, H, W) or (C, D, H, W); the maximum for p = inf."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """max(0, -y (x1 - x2) + margin): x1 should be the larger where y is 1."""
def max_pool1d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, L) or (C, L); with `return_indices` also its index."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """`max_pool1d` with the index of each maximum."""
def max_pool2d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, H, W) or (C, H, W)."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """`max_pool2d` with the index of each maximum."""
def max_pool3d(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """The maximum of each window of (N, C, D, H, W) or (C, D, H, W): as `max_pool2d`."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _Ints, stride: Any = None, padding: _Ints = 0, dilation: _Ints = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Tensor:
    """`max_pool3d` with the index of each maximum."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, L) at the `indices` that `max_pool1d` returned."""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, H, W) at the `indices` that `max_pool2d` returned."""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, D, H, W) at the `indices` that `max_pool3d` returned."""
def mish(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019)."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', weight: Tensor | None = None, *, out: Any = None) -> Tensor:
    """The mean (or sum) of the squared differences; `weight`: of each element."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = True, key_padding_mask: Tensor | None = None, need_weights: _bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False, *, out: Any = None) -> Tensor:
    """Attention in `num_heads` parts of the embedding, projected before and after (Vaswani 2017)."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = ..., weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """sum over the other classes of max(0, margin - x[y] + x[j])**p, over the number of classes."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """sum over labels y and classes j that are none of max(0, 1 - (x[y] - x[j])), over their number."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The mean over classes of the cross entropy of each label (0 or 1)."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """`channel_shuffle`."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The negative log likelihood of classes `target` under log probabilities `input`."""
def normalize(input: Tensor, p: _float = ..., dim: Any = 1, eps: _float = ..., *, out: Any = None) -> Tensor:
    """x / max(norm of x along `dim`, eps)."""
def one_hot(input: Tensor, num_classes: _int = -1, *, out: Any = None) -> Tensor:
    """Rows of zeros with a 1 at each class number: int64 [*, num_classes]."""
def pad(input: Tensor, pad: Any, mode: _str = 'constant', value: Any = None) -> Tensor:
    """`input` padded: `pad` holds (before, after) from the last dimension on."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = ..., eps: _float = ..., keepdim: _bool = False, *, out: Any = None) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
def pdist(input: Tensor, p: _float = ..., *, out: Any = None) -> Tensor:
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]: a vector [n (n - 1) / 2]."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r r, H, W) to (*, C, H r, W r), r = `upscale_factor`: channels become pixels."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r r, H, W), r = `downscale_factor`: the inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = ..., reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """-log of a Poisson probability, up to a constant unless `full` (Stirling's formula)."""
def prelu(input: Tensor, weight: Tensor, *, out: Any = None) -> Tensor:
    """x for x > 0, else weight * x; `weight`: one element, or one per channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.relu`; `inplace`: into the input's memory."""
def relu6(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """The rectified linear unit with an upper bound: min(max(x, 0), 6)."""
def rms_norm(input: Tensor, normalized_shape: _Ints, weight: Tensor | None = None, eps: _float | None = None, *, out: Any = None) -> Tensor:
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions (Zhang and Sennrich 2019)."""
def rrelu(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.rrelu`; `inplace`: into the input's memory."""
def rrelu_(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = False, generator: Any = None) -> Tensor:
    """`rrelu` into the input's memory."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = ..., is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False, *, out: Any = None) -> Tensor:
    """softmax(query keyᵀ scale + attn_mask) value (Vaswani 2017)."""
def selu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.selu`; `inplace`: into the input's memory."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """The logistic function 1 / (1 + exp(-input))."""
def silu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * sigmoid(x) (Elfwing et al. 2017)."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', beta: _float = ..., *, out: Any = None) -> Tensor:
    """Squared below `beta`, absolute above (Girshick 2015)."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The logistic loss for targets 1 and -1: log(1 + exp(-y x))."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """As `torch.softmax`; without `dim` it is guessed, with a warning."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """The softmax of -x."""
def softplus(input: Tensor, beta: _float = 1, threshold: _float = 20, *, out: Any = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta; the input itself where beta * x > threshold."""
def softshrink(input: Tensor, lambd: _float = ..., *, out: Any = None) -> Tensor:
    """x moved towards 0 by lambd, 0 within."""
def softsign(input: Tensor, *, out: Any = None) -> Tensor:
    """The softsign activation: x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic tangent."""
def tanhshrink(input: Tensor, *, out: Any = None) -> Tensor:
    """The difference between the input and its hyperbolic tangent: x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x where it is above `threshold`, else `value`; both as numbers of the dtype of integers."""
def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """`threshold` into the input's memory."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = ..., p: _float = 2, eps: _float = ..., swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin); `swap`: the smaller of d(a, n) and d(p, n)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: _float = ..., swap: _bool = False, reduction: _str = 'mean', out: Any = None) -> Tensor:
    """As `triplet_margin_loss`, with any function of two tensors as the distance."""
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of (N, C, H, W) as columns (N, C kh kw, L), for L windows."""
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: _str = 'nearest', align_corners: _bool | None = None) -> Tensor:
    """The former name of `interpolate`."""
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""

def __getattr__(name: _str) -> Any: ...
