"""The functions of `nn.functional`. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.device import device as _device
from rushlight.dtypes import dtype as _dtype
from rushlight.dtypes import layout as _layout
from rushlight.dtypes import memory_format as _memory_format
from rushlight.size import Size as Size
from rushlight.tensor import Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]


def _elu(input: Tensor, alpha: _float, scale: _float, input_scale: _float, *, out: Any = None) -> Tensor:
    """scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""
def _hardsigmoid(input: Tensor, *, out: Any = None) -> Tensor: ...
def _hardswish(input: Tensor, *, out: Any = None) -> Tensor: ...
def _hardtanh(input: Tensor, min_val: _float, max_val: _float, *, out: Any = None) -> Tensor: ...
def _leaky_relu(input: Tensor, negative_slope: _float, *, out: Any = None) -> Tensor: ...
def _logsigmoid(input: Tensor, *, out: Any = None) -> Tensor: ...
def _mish(input: Tensor, *, out: Any = None) -> Tensor: ...
def _nll_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int) -> Tensor:
    """-w[t] * x[t] for input (N, C) and target (N) of class numbers."""
def _nll_loss_backward(grad_output: Tensor, target: Tensor, weight: Tensor | None, reduction: _str, ignore_index: _int, shape: _Ints) -> Tensor:
    """The gradient of `nll`: -w[t] * g at the target's place of each row, zeros elsewhere."""
def _silu(input: Tensor, *, out: Any = None) -> Tensor: ...
def _slope(grad_output: Tensor, input: Tensor | _Number, of: _str, *, out: Any = None) -> Tensor:
    """grad_output times the derivative of the kernel `of` at `input`."""
def _threshold(input: Tensor, threshold: _float, value: _float, *, out: Any = None) -> Tensor: ...
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, L) or (C, L)."""
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, H, W) or (C, H, W)."""
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """The averages of `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W)."""
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, L) or (C, L)."""
def adaptive_max_pool1d_with_indices(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """`adaptive_max_pool1d` with the place of each maximum."""
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, H, W) or (C, H, W)."""
def adaptive_max_pool2d_with_indices(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """`adaptive_max_pool2d` with the place of each maximum."""
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, D, H, W) or (C, D, H, W)."""
def adaptive_max_pool3d_with_indices(input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
    """`adaptive_max_pool3d` with the place of each maximum."""
def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Tensor:
    """The grid for `grid_sample` under affine maps: theta (N, 2, 3), size (N, C, H, W): (N, H, W, 2)."""
def alpha_dropout(input: Tensor, p: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.alpha_dropout`; `inplace`: into the input's memory."""
def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True) -> Tensor:
    """The average of each window of (N, C, L) or (C, L)."""
def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True, divisor_override: Any = None) -> Tensor:
    """The average of each window of (N, C, H, W) or (C, H, W)."""
def avg_pool3d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True, divisor_override: Any = None) -> Tensor:
    """The average of each window of (N, C, D, H, W) or (C, D, H, W): as `avg_pool2d`."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Any = None) -> Tensor:
    """y[..., o] = Σ input1[..., i] weight[o, i, j] input2[..., j] + bias[o]."""
def celu(input: Tensor, alpha: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.celu`; `inplace`: into the input's memory."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """(N, C, *) with its channels, as (groups, C / groups), transposed."""
def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Tensor:
    """Convolution of (N, C, L) or (C, L) with weight (O, C / groups, k): see `convolution`."""
def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Tensor:
    """Convolution of (N, C, H, W) or (C, H, W) with weight (O, C / groups, kh, kw)."""
def conv3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1) -> Tensor:
    """Convolution of (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kd, kh, kw)."""
def conv_tbc(input: Any, weight: Any, bias: Any, pad: Any = 0) -> Tensor:
    """Convolution over time of (time, batch, channels) with weight (k, C, O) and bias (O)."""
def conv_transpose1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1, dilation: Any = 1) -> Tensor:
    """The transpose of `conv1d`: (N, C, L) or (C, L), weight (C, O / groups, k)."""
def conv_transpose2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1, dilation: Any = 1) -> Tensor:
    """The transpose of `conv2d`: (N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw)."""
def conv_transpose3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1, dilation: Any = 1) -> Tensor:
    """The transpose of `conv3d`: (N, C, D, H, W), weight (C, O / groups, kd, kh, kw)."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', label_smoothing: _float = ..., *, out: Any = None) -> Tensor:
    """The cross entropy between logits `input` and classes (or class probabilities) `target`."""
def dropout(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.dropout`; `inplace`: into the input's memory."""
def dropout1d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, H, W)."""
def dropout3d(input: Tensor, p: _float = ..., training: _bool = True, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def elu(input: Tensor, alpha: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x for x > 0, else alpha * (exp(x) - 1) (Clevert et al. 2015)."""
def feature_alpha_dropout(input: Tensor, p: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.feature_alpha_dropout`; `inplace`: into the input's memory."""
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Columns (N, C kh kw, L) added up to images (N, C, *output_size) where windows overlap."""
def fractional_max_pool2d(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Any = False, _random_samples: Any = None) -> Tensor:
    """The maxima of windows at random steps over (N, C, H, W) or (C, H, W) (Graham 2014)."""
def fractional_max_pool2d_with_indices(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Any = False, _random_samples: Any = None) -> Tensor:
    """`fractional_max_pool2d` with the place of each maximum."""
def fractional_max_pool3d(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Any = False, _random_samples: Any = None) -> Tensor:
    """The maxima of windows at random steps over (N, C, D, H, W) or (C, D, H, W)."""
def fractional_max_pool3d_with_indices(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Any = False, _random_samples: Any = None) -> Tensor:
    """`fractional_max_pool3d` with the place of each maximum."""
def gelu(input: Tensor, *, approximate: _str = 'none', out: Any = None) -> Tensor:
    """x times the normal distribution function of x; `approximate="tanh"`: the cheaper formula."""
def glu(input: Tensor, dim: _int = -1, *, out: Any = None) -> Tensor:
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016)."""
def grid_sample(input: Any, grid: Any, mode: Any = 'bilinear', padding_mode: Any = 'zeros', align_corners: Any = None) -> Tensor:
    """`input` (N, C, H, W) read at the places `grid` (N, h, w, 2): (N, C, h, w); or one dimension more."""
def gumbel_softmax(logits: Tensor, tau: _float = 1, hard: _bool = False, eps: _float = ..., dim: _int = -1, *, out: Any = None) -> Tensor:
    """Samples from a distribution close to a category (Jang et al. 2016); `hard`: one-hot forward."""
def hardshrink(input: Tensor, lambd: _float = ..., *, out: Any = None) -> Tensor:
    """x where |x| > lambd, else 0."""
def hardsigmoid(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """0 below -3, 1 above 3, x / 6 + 1 / 2 between."""
def hardswish(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * hardsigmoid(x) (Howard et al. 2019)."""
def hardtanh(input: Tensor, min_val: _float = ..., max_val: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """The input, cut off at `min_val` and `max_val`."""
def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None, recompute_scale_factor: Any = None, antialias: Any = False) -> Tensor:
    """(N, C, L), (N, C, H, W) or (N, C, D, H, W) resampled to `size`, or by `scale_factor`."""
def leaky_relu(input: Tensor, negative_slope: _float = ..., inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x for x > 0, else negative_slope * x."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Any = None) -> Tensor:
    """input [..., k] @ weight [m, k]ᵀ + bias [m] -> [..., m]: the affine map of `nn.Linear`."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """As `torch.log_softmax`; without `dim` it is guessed, with a warning."""
def logsigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """log(sigmoid(x))."""
def lp_pool1d(input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, L) or (C, L)."""
def lp_pool2d(input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, H, W) or (C, H, W)."""
def lp_pool3d(input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False) -> Tensor:
    """(sum of x^p over each window)^(1/p) of (N, C, D, H, W) or (C, D, H, W)."""
def max_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """The maximum of each window of (N, C, L) or (C, L); with `return_indices` also its place."""
def max_pool1d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """`max_pool1d` with the place of each maximum."""
def max_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """The maximum of each window of (N, C, H, W) or (C, H, W)."""
def max_pool2d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """`max_pool2d` with the place of each maximum."""
def max_pool3d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """The maximum of each window of (N, C, D, H, W) or (C, D, H, W): as `max_pool2d`."""
def max_pool3d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False) -> Tensor:
    """`max_pool3d` with the place of each maximum."""
def max_unpool1d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, L) at the `indices` that `max_pool1d` returned."""
def max_unpool2d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, H, W) at the `indices` that `max_pool2d` returned."""
def max_unpool3d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor:
    """Zeros with `input` (N, C, D, H, W) at the `indices` that `max_pool3d` returned."""
def mish(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019)."""
def native_channel_shuffle(input: Any, groups: Any) -> Tensor:
    """`channel_shuffle`."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: _str = 'mean', *, out: Any = None) -> Tensor:
    """The negative log likelihood of classes `target` under log probabilities `input`."""
def pad(input: Any, pad: Any, mode: Any = 'constant', value: Any = None) -> Tensor:
    """`input` padded: `pad` holds (before, after) from the last dimension on."""
def pdist(input: Tensor, p: _float = ..., *, out: Any = None) -> Tensor:
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]: a vector [n (n - 1) / 2]."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C r r, H, W) to (*, C, H r, W r), r = `upscale_factor`: channels become pixels."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H r, W r) to (*, C r r, H, W), r = `downscale_factor`: the inverse of `pixel_shuffle`."""
def prelu(input: Tensor, weight: Tensor, *, out: Any = None) -> Tensor:
    """x for x > 0, else weight * x; `weight`: one element, or one per channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.relu`; `inplace`: into the input's memory."""
def relu6(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """min(max(x, 0), 6)."""
def rrelu(input: Tensor, lower: _float = ..., upper: _float = ..., training: _bool = False, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.rrelu`; `inplace`: into the input's memory."""
def selu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """As `torch.selu`; `inplace`: into the input's memory."""
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """The logistic function 1 / (1 + exp(-input))."""
def silu(input: Tensor, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x * sigmoid(x) (Elfwing et al. 2017)."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """As `torch.softmax`; without `dim` it is guessed, with a warning."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _dtype | None = None, *, out: Any = None) -> Tensor:
    """softmax(-x)."""
def softplus(input: Tensor, beta: _float = 1, threshold: _float = 20, *, out: Any = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta; the input itself where beta * x > threshold."""
def softshrink(input: Tensor, lambd: _float = ..., *, out: Any = None) -> Tensor:
    """x moved towards 0 by lambd, 0 within."""
def softsign(input: Tensor, *, out: Any = None) -> Tensor:
    """x / (1 + |x|)."""
def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """The hyperbolic tangent."""
def tanhshrink(input: Tensor, *, out: Any = None) -> Tensor:
    """x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False, *, out: Any = None) -> Tensor:
    """x where it is above `threshold`, else `value`."""
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of (N, C, H, W) as columns (N, C kh kw, L), for L windows."""
def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None) -> Tensor:
    """The former name of `interpolate`."""
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""

def __getattr__(name: _str) -> Any: ...
