"""Operators written in simpler ones: what `core_aten_decompositions` puts in the place of nodes of a traced graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor

# name of an overload (`lerp.Scalar`), or of an operator for its default (`silu`) -> the function
CORE: dict[str, Callable] = {}
OTHERS: dict[str, Callable] = {}  # decompositions of operators that are core operators themselves


def core(*names: str) -> Callable:
    """Declare the decomposition of operators that are not in PyTorch's core set."""

    def declare(function: Callable) -> Callable:
        CORE.update(dict.fromkeys(names, function))
        return function

    return declare


def other(*names: str) -> Callable:
    """Declare the decomposition of operators of the core set; they are asked for by name."""

    def declare(function: Callable) -> Callable:
        OTHERS.update(dict.fromkeys(names, function))
        return function

    return declare


def _wide(x: Tensor) -> Tensor:
    """float16 and bfloat16 numbers as float32, in which a chain of operators is computed."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    """Losses of elements by PyTorch's number of a reduction: none, mean, sum."""
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


# -- elementwise functions -------------------------------------------------------------------------

CORE |= {
    "absolute": lambda x: x.abs(),
    "addcdiv": lambda x, a, b, *, value=1: x + value * (a / b),
    "addcmul": lambda x, a, b, *, value=1: x + value * a * b,
    "clamp_max": lambda x, max: x.clamp(max=max),
    "clamp_min": lambda x, min: x.clamp(min=min),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "frac": lambda x: x - x.trunc(),
    "hardsigmoid": lambda x: (_wide(x) + 3).clamp(0, 6).div(6).to(x.dtype),
    "hardswish": lambda x: (_wide(x) * (_wide(x) + 3).clamp(0, 6) / 6).to(x.dtype),
    "isfinite": lambda x: (x.abs() != math.inf) & (x == x),
    "isneginf": lambda x: x == -math.inf,
    "isposinf": lambda x: x == math.inf,
    "log_sigmoid": lambda x: torch.minimum(x.new_zeros(()), x) - x.abs().neg().exp().log1p(),
    "mish": lambda x: x * torch.where(x > 20, x, x.exp().log1p()).tanh(),
    "negative": lambda x: x.neg(),
    "relu6": lambda x: x.clamp(0, 6),
    **dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), lambda x, y, alpha=1: y - alpha * x),
    "sgn": lambda x: torch.where(x == 0, 0, x / x.abs()) if x.is_complex() else x.sign(),
    "silu": lambda x: (_wide(x) * _wide(x).sigmoid()).to(x.dtype),
    "sinc": lambda x: torch.where(x == 0, 1, (x * math.pi).sin() / (x * math.pi)),
    "square": lambda x: x.pow(2),
    "xlogy.Tensor": lambda x, y: torch.where(
        y.isnan(), math.nan, torch.where(x == 0, 0, x * y.log())
    ),
}


@core("celu")
def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(x > 0, x, alpha * (x / alpha).expm1())


@other("elu")
def _elu(x: Tensor, alpha: float = 1.0, scale: float = 1, input_scale: float = 1) -> Tensor:
    return torch.where(x > 0, x * scale, (x * input_scale).expm1() * (alpha * scale))


@core("selu")
def _selu(x: Tensor) -> Tensor:
    return _elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@other("gelu")
def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + inner.tanh())
    return x * 0.5 * (1 + (x * math.sqrt(0.5)).erf())


@other("leaky_relu")
def _leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return torch.where(x > 0, x, x * negative_slope)


@other("hardtanh")
def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return x.clamp(min_val, max_val)


@core("hardshrink")
def _hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(x.abs() <= lambd, 0, x)


@core("softshrink")
def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where(x.abs() > lambd, x - x.sign() * lambd, x * 0)


@core("softplus")
def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    scaled = x * beta
    return torch.where(scaled > threshold, x, scaled.exp().log1p() / beta)


@core("threshold")
def _threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    return torch.where(x <= threshold, value, x)


@core("logit")
def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


@core("glu")
def _glu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


@core("lerp.Scalar", "lerp.Tensor")
def _lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    return x + weight * (end - x)


@core("heaviside")
def _heaviside(x: Tensor, values: Tensor) -> Tensor:
    return torch.where(x == 0, values, (x > 0).to(x.dtype))


@core("logaddexp")
def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    most = torch.maximum(x, y)
    return torch.where((x == y) & x.isinf(), x, most + (x - y).abs().neg().exp().log1p())


@core("nan_to_num")
def _nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not x.is_floating_point():
        return x.clone()
    info = torch.finfo(x.dtype)
    x = torch.where(x.isnan(), 0.0 if nan is None else nan, x)
    x = torch.where(x == math.inf, info.max if posinf is None else posinf, x)
    return torch.where(x == -math.inf, info.min if neginf is None else neginf, x)


@core("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    value = value if isinstance(value, Tensor) else torch.tensor(value, dtype=x.dtype)
    return torch.where(mask, value.to(x.dtype), x)


@core("isclose")
def _isclose(
    x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    close = (x == y) | (((x - y).abs() <= atol + (rtol * y).abs()) & ((x - y).abs() != math.inf))
    return close | (x.isnan() & y.isnan()) if equal_nan else close


# -- reductions, and norms of distributions --------------------------------------------------------


@other("_softmax")
def _softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    wide = x.to(torch.float32) if half_to_float else _wide(x)
    raised = (wide - wide.amax(dim, keepdim=True)).exp()
    found = raised / raised.sum(dim, keepdim=True)
    return found if half_to_float else found.to(x.dtype)


@other("_log_softmax")
def _log_softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    wide = x.to(torch.float32) if half_to_float else _wide(x)
    shifted = wide - wide.amax(dim, keepdim=True)
    found = shifted - shifted.exp().sum(dim, keepdim=True).log()
    return found if half_to_float else found.to(x.dtype)


CORE["softmax.int"] = lambda x, dim, dtype=None: _softmax(x if dtype is None else x.to(dtype), dim)
CORE["log_softmax.int"] = lambda x, dim, dtype=None: _log_softmax(
    x if dtype is None else x.to(dtype), dim
)


@core("logsumexp")
def _logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    most = x.amax(dim, keepdim=True)
    most = torch.where(most.abs() == math.inf, 0, most)
    found = (x - most).exp().sum(dim, keepdim=True).log() + most
    return found if keepdim else found.squeeze(dim)


def _count(x: Tensor, dim: Any) -> int:
    dims = range(x.dim()) if dim is None else dim if isinstance(dim, Sequence) else (dim,)
    return math.prod(x.shape[d] for d in dims)


@other("var.correction")
def _var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    dims = [*range(x.dim())] if dim is None else dim
    squares = (x - x.mean(dims, keepdim=True)).pow(2).sum(dims, keepdim=keepdim)
    free = _count(x, dim) - (1 if correction is None else correction)
    return squares / (free if free > 0 else 0)


CORE["var"] = lambda x, unbiased=True: _var(x, correction=int(unbiased))
CORE["var.dim"] = lambda x, dim, unbiased=True, keepdim=False: _var(
    x, dim, correction=int(unbiased), keepdim=keepdim
)
CORE["std.correction"] = lambda x, dim=None, *, correction=None, keepdim=False: _var(
    x, dim, correction=correction, keepdim=keepdim
).sqrt()
CORE["std"] = lambda x, unbiased=True: CORE["var"](x, unbiased).sqrt()
CORE["std.dim"] = lambda x, dim, unbiased=True, keepdim=False: CORE["var.dim"](
    x, dim, unbiased, keepdim
).sqrt()
CORE["all"] = lambda x: x.logical_not().any().logical_not()
CORE["all.dim"] = lambda x, dim, keepdim=False: x.logical_not().any(dim, keepdim).logical_not()
CORE["aminmax"] = lambda x, *, dim=None, keepdim=False: (
    (x.amin(), x.amax()) if dim is None else (x.amin(dim, keepdim), x.amax(dim, keepdim))
)
CORE["count_nonzero"] = CORE["count_nonzero.dim_IntList"] = lambda x, dim=None: (
    (x != 0).sum() if dim is None else (x != 0).sum(dim)
)
CORE["nansum"] = lambda x, dim=None, keepdim=False, *, dtype=None: torch.where(x.isnan(), 0, x).sum(
    dim, keepdim=keepdim, dtype=dtype
)
CORE["trace"] = lambda x: x.diagonal().sum()


# -- products --------------------------------------------------------------------------------------


@other("addmm")
def _addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = a.mm(b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


@core("baddbmm")
def _baddbmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = a.bmm(b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


@other("addmv")
def _addmv(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = alpha * _mv(a, b)
    return product if beta == 0 else beta * bias + product


@core("addr")
def _addr(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = alpha * a.unsqueeze(1) * b
    return product if beta == 0 else beta * x + product


@core("mv")
def _mv(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)


CORE["dot"] = lambda a, b: (a * b).sum()
CORE["vdot"] = lambda a, b: (a.conj_physical() * b if a.is_complex() else a * b).sum()
CORE["outer"] = CORE["ger"] = lambda a, b: a.unsqueeze(1) * b


# -- shapes ----------------------------------------------------------------------------------------

CORE |= {
    "t": lambda x: x.permute(*range(x.dim())[::-1]),
    "transpose.int": lambda x, a, b: x.permute(*_swapped(x.dim(), a, b)),
    "stack": lambda tensors, dim=0: torch.cat([x.unsqueeze(dim) for x in tensors], dim),
    "_unsafe_view": lambda x, size: x.view(size),
    "unbind.int": lambda x, dim=0: tuple([x.select(dim, i) for i in range(x.shape[dim])]),
    "new_zeros": lambda x, size, **options: torch.full(size, 0, **_like(x, options)),
    "new_ones": lambda x, size, **options: torch.full(size, 1, **_like(x, options)),
    "new_full": lambda x, size, fill, **options: torch.full(size, fill, **_like(x, options)),
    "zeros": lambda size, **options: torch.full(size, 0, **_floating(options)),
    "ones": lambda size, **options: torch.full(size, 1, **_floating(options)),
    "zeros_like": lambda x, **options: torch.full_like(x, 0, **options),
    "ones_like": lambda x, **options: torch.full_like(x, 1, **options),
    "type_as": lambda x, other: x.to(other.dtype),
}


def _swapped(n: int, a: int, b: int) -> list[int]:
    order = [*range(n)]
    if n:
        order[a], order[b] = order[b], order[a]
    return order


def _like(x: Tensor, options: dict) -> dict:
    own = {"dtype": x.dtype, "device": x.device}
    return own | {k: v for k, v in options.items() if v is not None}


def _floating(options: dict) -> dict:
    return {"dtype": torch.get_default_dtype()} | {
        k: v for k, v in options.items() if v is not None
    }


def _pieces(x: Tensor, sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    found, at = [], 0
    for n in sizes:
        found.append(x.narrow(dim, at, n))
        at += n
    return tuple(found)


@core("split.Tensor", "unsafe_split.Tensor")
def _split(x: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    n = x.shape[dim]
    starts = range(0, n, split_size) if n else (0,)
    return _pieces(x, [min(split_size, n - at) for at in starts], dim)


@other("split_with_sizes")
def _split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    return _pieces(x, sizes, dim)


@core("select_scatter")
def _select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    n, shape = x.shape[dim], [1] * x.dim()
    shape[dim] = n
    at = torch.arange(n).view(shape) == (index + n if index < 0 else index)
    return torch.where(at, src.unsqueeze(dim), x)


@core("tril")
def _tril(x: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(_below(x, diagonal), x, 0)


@core("triu")
def _triu(x: Tensor, diagonal: int = 0) -> Tensor:
    return torch.where(_below(x, diagonal - 1), 0, x)


def _below(x: Tensor, diagonal: int) -> Tensor:
    rows, columns = torch.arange(x.shape[-2]), torch.arange(x.shape[-1])
    return columns - rows.unsqueeze(1) <= diagonal


@core("eye")
def _eye(n: int, m: int | None = None, *, dtype: Any = None, **options: Any) -> Tensor:
    rows, columns = torch.arange(n), torch.arange(n if m is None else m)
    same = rows.unsqueeze(1) == columns
    return same.to(dtype or torch.get_default_dtype())


@core("roll")
def _roll(x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shifts = shifts if isinstance(shifts, Sequence) else [shifts]
    dims = dims if isinstance(dims, Sequence) else [dims]
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        if n := x.shape[dim]:
            x = x.index_select(dim, (torch.arange(n) - shift) % n)
    return x.clone()


# -- normalisation, dropout, embedding ------------------------------------------------------------


@other("native_layer_norm")
def _native_layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = [*range(x.dim() - len(shape), x.dim())]
    wide = _wide(x)
    mean = wide.mean(dims, keepdim=True)
    rstd = ((wide - mean).pow(2).mean(dims, keepdim=True) + eps).rsqrt()
    found = (wide - mean) * rstd
    found = found if weight is None else found * weight
    found = found if bias is None else found + bias
    return found.to(x.dtype), mean, rstd


@other("native_group_norm")
def _native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    wide = _wide(x).reshape(N, group, -1)
    mean = wide.mean(2, keepdim=True)
    rstd = ((wide - mean).pow(2).mean(2, keepdim=True) + eps).rsqrt()
    found = ((wide - mean) * rstd).reshape(x.shape)
    shape = [1, C] + [1] * (x.dim() - 2)
    found = found if weight is None else found * weight.reshape(shape)
    found = found if bias is None else found + bias.reshape(shape)
    return found.to(x.dtype), mean.squeeze(2), rstd.squeeze(2)


@other("_native_batch_norm_legit_no_training")
def _batch_norm_of_evaluation(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    shape = [1, -1] + [1] * (x.dim() - 2)
    found = (_wide(x) - mean.reshape(shape)) * (var + eps).rsqrt().reshape(shape)
    found = found if weight is None else found * weight.reshape(shape)
    found = found if bias is None else found + bias.reshape(shape)
    return found.to(x.dtype), x.new_zeros(0), x.new_zeros(0)


@other("native_dropout")
def _native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    mask = torch.rand_like(x) > p
    return mask * x * (1 / (1 - p)), mask


@other("embedding")
def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale: bool = False, sparse: bool = False
) -> Tensor:  # fmt: skip
    if indices.dim() <= 1:
        found = weight.index_select(0, indices.reshape(-1))
        return found.squeeze(0) if indices.dim() == 0 else found
    return weight.index_select(0, indices.reshape(-1)).view(*indices.shape, *weight.shape[1:])


# -- losses ----------------------------------------------------------------------------------------


@core("mse_loss")
def _mse_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((x - target).pow(2), reduction)


@core("l1_loss")
def _l1_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((x - target).abs(), reduction)


@core("smooth_l1_loss")
def _smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    if not beta:
        return _l1_loss(x, target, reduction)
    far = (x - target).abs()
    loss = torch.where(far < beta, 0.5 * far.pow(2) / beta, far - 0.5 * beta)
    return _reduced(loss, reduction)


@core("huber_loss")
def _huber_loss(x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    far = (x - target).abs()
    loss = torch.where(far <= delta, 0.5 * far.pow(2), delta * (far - 0.5 * delta))
    return _reduced(loss, reduction)


@core("soft_margin_loss")
def _soft_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((-target * x).exp().log1p(), reduction)


@core("binary_cross_entropy")
def _binary_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    loss = (target - 1) * (1 - x).log().clamp(min=-100) - target * x.log().clamp(min=-100)
    return _reduced(loss if weight is None else loss * weight, reduction)


@core("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    log = CORE["log_sigmoid"](x)
    if pos_weight is not None:
        loss = (1 - target) * x - ((pos_weight - 1) * target + 1) * log
    else:
        loss = (1 - target) * x - log
    return _reduced(loss if weight is None else loss * weight, reduction)


@core("nll_loss_forward")
def _nll_loss_forward(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    dim = 0 if x.dim() < 2 else 1
    kept = target != ignore_index
    at = torch.where(kept, target, 0)
    loss = -x.gather(dim, at.unsqueeze(dim)).squeeze(dim)
    weights = kept.to(x.dtype) if weight is None else weight[at] * kept
    loss = torch.where(kept, loss * weights, 0)
    if reduction == 0 and x.dim() > 1:
        return loss, x.new_full((), 0.0)
    total = weights.sum()
    return (loss.sum() / total if reduction == 1 else loss.sum()), total


# -- gradients -------------------------------------------------------------------------------------

CORE |= {
    "sigmoid_backward": lambda g, y: g * (y * (1 - y)),
    "tanh_backward": lambda g, y: g * (1 - y * y),
    "threshold_backward": lambda g, x, threshold: torch.where(x <= threshold, 0, g),
    "_softmax_backward_data": lambda g, y, dim, dtype=None: (
        g * y - y * (g * y).sum(dim, keepdim=True)
    ),
    "_log_softmax_backward_data": lambda g, y, dim, dtype=None: (
        g - y.exp() * g.sum(dim, keepdim=True)
    ),
    "native_dropout_backward": lambda g, mask, scale: g * (mask.to(g.dtype) * scale),
}
