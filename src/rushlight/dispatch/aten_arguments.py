"""Operators whose inner form in PyTorch takes other arguments: how to get these, and what takes them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.dispatch.aten_forms import MOST, is_one_slice, loaded, torch
from rushlight.dispatch.aten_functions import (
    cdist,
    fractional_max_pool,
    max_unpool,
    short_time_transform,
)
from rushlight.dispatch.aten_losses import LOSSES, REDUCTIONS, numbered

if TYPE_CHECKING:
    from collections.abc import Callable


def as_list(v: Any) -> Any:
    """Sequences of numbers are lists in calls of PyTorch's operators."""
    return [*v] if isinstance(v, tuple) else v


def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """`aten.index_put`."""
    return torch().index_put(input, tuple(indices), values, accumulate)


def indexed(input: Tensor, indices: Any) -> Tensor:
    """`aten.index.Tensor`: None stands for a full slice; a tensor without dimensions is not read as a number."""
    given = [i for i in indices if i is not None]
    rows = [i if i is None or i.dim() or i.dtype.kind == 0 else i.unsqueeze(0) for i in indices]
    found = input[tuple([slice(None) if i is None else i for i in rows])]
    if any(i.dim() or i.dtype.kind == 0 for i in given):
        return found
    at = [d for d, i in enumerate(indices) if i is not None]
    return found.squeeze(at[0] if at[-1] - at[0] == len(at) - 1 else 0)


def sliced(
    input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A slice of one dimension: `aten.slice.Tensor`."""
    own = loaded("aten.basic_index")
    cut = slice(start, None if end == MOST else end, step)
    dim = dim + input.dim() if dim < 0 else dim
    return own.function(input, (*[slice(None)] * dim, cut))


def slice_of(input: Tensor, index: Any) -> tuple:
    """The arguments of `aten.slice`."""
    dim, cut = is_one_slice(index)  # type: ignore[misc]
    start, _, step = cut.indices(input.shape[dim])
    args = (input, dim, start, MOST if cut.stop is None else cut.stop, step)
    return (args[:-1] if step == 1 else args), {}


def softmax_gradient(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> tuple:
    """The arguments of `aten._softmax_backward_data`, which takes the dtype."""
    return (grad_output, output, dim, input_dtype or output.dtype), {}


def place_of(grad: Tensor, shape: tuple, index: Any) -> tuple:
    """The arguments of `aten.slice_backward`, or of `aten.select_backward`."""
    items = index if index.__class__ is tuple else (index,)
    if (one := is_one_slice(items)) is not None:
        start, end, step = one[1].indices(shape[one[0]])
        return (grad, [*shape], one[0], start, end, step), {}
    return (grad, [*shape], len(items) - 1, items[-1]), {}


def place_name(index: Any, **_: Any) -> str | None:
    """Which of both; None for other indices."""
    items = index if index.__class__ is tuple else (index,)
    if is_one_slice(items) is not None:
        return "slice_backward"
    if items[-1].__class__ is int and all(i == slice(None) for i in items[:-1]):
        return "select_backward"
    return None


def gradient_in_zeros(grad: Tensor, shape: Any, dim: int, *cut: Any) -> Tensor:
    """`aten.slice_backward(grad, sizes, dim, start, end, step)`, `aten.select_backward(grad, sizes, dim, index)`."""
    at = slice(*cut) if len(cut) == 3 else cut[0]
    dim = dim % len(shape)
    return loaded("aten.basic_index_gradient").function(
        grad, tuple(shape), (*[slice(None)] * dim, at)
    )


def deviation(input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple:
    """The arguments of `aten.var.correction`."""
    if dim.__class__ is bool:  # var(input, unbiased)
        dim, unbiased = None, dim
    dims = None if dim is None else [dim] if dim.__class__ is int else [*dim]
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    options = {"correction": correction} | ({"keepdim": True} if keepdim else {})
    return (input, dims) if dims is not None else (input,), options


def pooled(input: Tensor, windows: Any) -> tuple:
    """The arguments of `aten.max_pool2d_with_indices`."""
    w = windows
    return (
        input, [*w.kernel], [*w.stride], [*w.padding], [*w.dilation], *[True] * rounded_up(w),
    ), {}  # fmt: skip


def averaged(input: Tensor, windows: Any, divisor: tuple) -> tuple:
    """The arguments of `aten.avg_pool2d`, without the last ones that have their defaults."""
    w, (padding_counts, number) = windows, divisor
    args = [input, [*w.kernel], [*w.stride], [*w.padding], rounded_up(w), padding_counts, number]
    defaults = [*[None] * 3, [0] * len(w.padding), False, True, None]
    while len(args) > 3 and args[-1] == defaults[len(args) - 1]:
        args.pop()
    return tuple(args), {}


def sorting(input: Tensor, dim: int, descending: bool, stable: bool | None) -> tuple:
    """The arguments of `aten.sort.default`, or of `aten.sort.stable`."""
    if stable is None:
        return (input, dim, True) if descending else (input, dim) if dim != -1 else (input,), {}
    given = ({"dim": dim} if dim != -1 else {}) | ({"descending": True} if descending else {})
    return (input,), {"stable": stable} | given


def softmax(input: Tensor, dim: int, half_to_float: bool) -> tuple:
    """The arguments of `aten._softmax`: all of them."""
    return (input, dim, half_to_float), {}


def rounded_up(w: Any) -> bool:
    """Whether there are windows that are not whole."""
    each = zip(w.sizes, w.kernel, w.stride, w.padding, w.dilation, w.out, strict=True)
    return any((n + 2 * p - d * (k - 1) - 1) // s + 1 != out for n, k, s, p, d, out in each)


def loss_arguments(weights: int) -> Callable:
    """The arguments of a loss of elements, and of its reduced form; PyTorch's takes this many weights in between."""

    def arguments(
        input: Tensor, target: Tensor, reduction: str = "none", settings: tuple = (), **own: Any
    ) -> tuple:
        more = [v for v in (*settings, *own.values()) if v != 1.0]
        if more or reduction != "mean":
            more = [*[None] * weights, REDUCTIONS.index(reduction), *more]
        return (input, target, *more), {}

    return arguments


def likelihood(
    input: Tensor, target: Tensor, weight: Any, reduction: str, ignore_index: int
) -> tuple:
    """The arguments of `aten.nll_loss_forward`."""
    return (input, target, weight, REDUCTIONS.index(reduction), ignore_index), {}


def nll_loss(
    input: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple:
    """`aten.nll_loss_forward`: the loss, and the weights of all targets together."""
    own = loaded("nn.functional._nll_loss").function
    loss = own(input, target, weight, REDUCTIONS[reduction], ignore_index)
    used = target != ignore_index
    if not reduction:
        total = input.new_zeros(())
    elif weight is None:
        total = used.sum().to(input.dtype)
    else:
        total = (weight[target * used] * used).sum()
    return loss, total


to_contiguous = {"memory_format": dtypes.contiguous_format}
DEVIATIONS = {
    "std": ("std", deviation), "var": ("var", deviation),
    "_pair.std_mean": ("std_mean", deviation), "_pair.var_mean": ("var_mean", deviation),
}  # fmt: skip
# path -> (PyTorch's name, or what gives it, the arguments of a call), and which of its results is the one of ours
ARGUMENTS: dict[str, tuple] = {
    **DEVIATIONS,
    "_batch_norm": (
        lambda training, **_: None if training else "native_batch_norm",
        lambda input, weight, bias, mean, var, training, eps: (
            (input, weight, bias, mean, var, training, 0.1, eps),
            {},
        ),
        0,
    ),
    "_conjugates": ("conj_physical", lambda input: ((input,), {})),
    "_embedding": (
        "embedding",
        lambda weight, indices, padding_idx, scale_grad_by_freq: (
            (weight, indices)
            + (
                (padding_idx, *[True] * scale_grad_by_freq)
                if padding_idx != -1 or scale_grad_by_freq
                else ()
            ),
            {},
        ),
    ),
    **{name: (name, softmax) for name in ("_softmax", "_log_softmax")},
    "_log_softmax_backward_data": ("_log_softmax_backward_data", softmax_gradient),
    "_native_group_norm": (
        "native_group_norm",
        lambda input, weight, bias, num_groups, eps: (
            (input, weight, bias, *input.shape[:2], prod(input.shape[2:]), num_groups, eps),
            {},
        ),
    ),
    "_native_layer_norm": (
        "native_layer_norm",
        lambda input, weight, bias, normalized_shape, eps: (
            (input, [*normalized_shape], weight, bias, eps),
            {},
        ),
    ),
    "_softmax_backward_data": ("_softmax_backward_data", softmax_gradient),
    "_to_copy": (
        "_to_copy",
        lambda input, **options: ((input,), {k: v for k, v in options.items() if v is not None}),
    ),
    "_to_device": ("_to_copy", lambda input, device, source: ((input,), {"device": device})),
    "aten.alias": ("alias", lambda input: ((input,), {})),
    "aten.basic_index": ("slice", slice_of),
    "aten.conj_copy": ("conj_physical", lambda input: ((input,), {})),
    "aten.diagonal_gradient": (
        "diagonal_backward",
        lambda grad, shape, **more: ((grad, [*shape], *more.values()), {}),
    ),
    "aten.index": ("index", lambda input, at: ((input, at.indices()), {})),
    "aten.index_put": (
        "index_put",
        lambda input, values, at, accumulate: (
            (input, at.indices(), values, *[True] * bool(accumulate)),
            {},
        ),
    ),
    "aten.basic_index_gradient": (place_name, place_of),
    "aten.row_major": ("clone", lambda input: ((input,), to_contiguous)),
    "aten.slice": (
        "slice",
        lambda input, dim, start, end, step: (
            (input, dim, start, MOST if end is None else end, *[step] * (step != 1)),
            {},
        ),
    ),
    "aten.unfold_gradient": (
        "unfold_backward",
        lambda grad, shape, **more: ((grad, [*shape], *more.values()), {}),
    ),
    "internal.avg_pool2d": ("avg_pool2d", averaged),
    "internal.avg_pool3d": ("avg_pool3d", averaged),
    "internal.convolution": (
        "convolution",
        lambda **values: (tuple(map(as_list, values.values())), {}),
    ),
    "internal.max_pool1d_with_indices": ("max_pool1d_with_indices", pooled),
    "internal.max_pool2d_with_indices": ("max_pool2d_with_indices", pooled),
    "internal.max_pool3d_with_indices": ("max_pool3d_with_indices", pooled),
    "nn.functional._logsigmoid": ("log_sigmoid", lambda input: ((input,), {})),
    "nn.functional._mse_loss": ("mse_loss", loss_arguments(0)),
    "nn.functional._nll_loss": ("nll_loss_forward", likelihood, 0),
    "sort": ("sort", sorting),
}
for own, name, weights in (
    ("bce_with_logits", "binary_cross_entropy_with_logits", 2),
    ("binary_cross_entropy", "binary_cross_entropy", 1),
    ("huber_loss", "huber_loss", 0),
    ("smooth_l1_loss", "smooth_l1_loss", 0),
    ("soft_margin_loss", "soft_margin_loss", 0),
):
    for form in ("_", "_reduced_"):
        ARGUMENTS[f"nn.functional.{form}{own}"] = (name, loss_arguments(weights))


def max_pool(n: int) -> Callable:
    """`aten.max_pool2d_with_indices`."""

    def call(input: Tensor, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False):  # fmt: skip
        given = [
            tuple(v) if isinstance(v, list) else v for v in (kernel, stride, padding, dilation)
        ]
        pool = getattr(torch().nn.functional, f"max_pool{n}d")
        return pool(input, *given, ceil, return_indices=True)

    return call


def adaptive_max_pool(n: int) -> Callable:
    """`aten.adaptive_max_pool2d`, which returns the indices, too."""

    def call(input: Tensor, output_size: Any) -> Any:
        pool = getattr(torch().nn.functional, f"adaptive_max_pool{n}d")
        return pool(input, tuple(output_size), return_indices=True)

    return call


def to_copy(input: Tensor, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Tensor:  # fmt: skip
    """`aten._to_copy`."""
    if device is not None:
        return input.to(device, dtype, copy=True, memory_format=memory_format)
    if dtype is not None and dtype.kind < 2 and input._edge is not None:
        input = input.detach()  # no gradient goes through integers
    return loaded("_to_copy").function(input, dtype, memory_format)


def max_pool_backward(n: int) -> Callable:
    """`aten.max_pool2d_with_indices_backward`."""

    def call(grad: Tensor, input: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Tensor) -> Tensor:  # fmt: skip
        flat = grad.new_zeros(input.shape).flatten(-n)
        return flat.scatter_add(-1, indices.flatten(-n), grad.flatten(-n)).reshape(input.shape)

    return call


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *more: Any, **named: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """`aten._native_batch_norm_legit`, which has a form without running means and variances."""
    if len(more) + len(named) == 3:
        more = (None, None, *more)
    return torch().native_batch_norm(input, weight, bias, *more, **named)


def batch_norm_kept(training: bool) -> Callable:
    """`aten._batch_norm_with_update` or `_batch_norm_no_update`: `native_batch_norm`, and what a GPU's library keeps."""

    def call(input: Tensor, *more: Any, **named: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        given = dict(
            zip(("weight", "bias", "running_mean", "running_var", "momentum", "eps"), more)
        )
        kept = input.new_empty(0, dtype=torch().uint8)
        return (*torch().native_batch_norm(input, training=training, **given, **named), kept)

    return call


def batch_norm_apart(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *more: Any
) -> tuple[Tensor, ...]:
    """`aten._native_batch_norm_legit_functional`: the new running means and variances are results, nothing is written to."""
    mean, var = mean.clone(), var.clone()
    return (*torch().native_batch_norm(input, weight, bias, mean, var, *more), mean, var)


def safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """`aten._safe_softmax`: 0 where all numbers are -inf."""
    empty = (input == float("-inf")).all(dim, keepdim=True)
    return input.masked_fill(empty, 0).softmax(dim, dtype).masked_fill(empty, 0)


def assert_scalar(value: Any, message: str) -> None:
    """`aten._assert_scalar`."""
    if not value:
        raise RuntimeError(message)


def assert_metadata(
    input: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:  # fmt: skip
    """`aten._assert_tensor_metadata`."""
    found = (input.shape, input.stride(), input.dtype, input.device, input.layout)
    wanted = (size and tuple(size), stride and tuple(stride), dtype, device, layout)
    for name, got, want in zip(
        ("sizes", "strides", "dtypes", "devices", "layouts"), found, wanted, strict=True
    ):
        if want is not None and got != want:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {want}, Got: {got}")


def clamped_indices(input: Tensor, indices: Any) -> list:
    """Indices, each moved to the nearest place that there is."""
    return [
        None if i is None else i.clamp(-n, n - 1)
        for i, n in zip(indices, input.shape, strict=False)
    ]


def masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """`aten._unsafe_masked_index`: `fill` where the mask is False, whatever the index is there."""
    if not input.numel():
        shape = torch().broadcast_shapes(mask.shape, *[i.shape for i in indices if i is not None])
        return input.new_full(shape, fill)
    return indexed(input, clamped_indices(input, indices)).masked_fill(~mask, fill)


def masked_index_add(input: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    """`aten._unsafe_masked_index_put_accumulate`: values are added at indices where the mask is True."""
    if not input.numel():
        return input.clone()
    return index_put(input, clamped_indices(input, indices), values.masked_fill(~mask, 0), True)


# Operators with the arguments of PyTorch's under another path: name -> (path, the defaults of the last parameters).
BEHIND: dict[str, tuple[str, tuple]] = {
    "elu": ("nn.functional._elu", (1.0, 1, 1)),
    "glu": ("nn.functional._glu", (-1,)),
    "hardsigmoid": ("nn.functional._hardsigmoid", ()),
    "hardswish": ("nn.functional._hardswish", ()),
    "hardtanh": ("nn.functional._hardtanh", (-1.0, 1.0)),
    "leaky_relu": ("nn.functional._leaky_relu", (0.01,)),
    "mish": ("nn.functional._mish", ()),
    "silu": ("nn.functional._silu", ()),
    "unfold": ("Tensor.unfold", (1,)),
}


def resampled(name: str) -> Callable:
    """`aten.upsample_bilinear2d` and its like: to a size or by factors, which may stand one by one."""

    def call(input: Tensor, output_size: Any, *given: Any, scale_factors: Any = None, **one: Any) -> Tensor:  # fmt: skip
        smooth = "nearest" not in name
        align_corners, more = (given[0], given[1:]) if smooth else (False, given)
        if len(more) == 1 and not isinstance(more[0], float):
            scale_factors = more[0]
        elif more or one:
            each = (*more, *one.values(), None)[: input.dim() - 2]
            scale_factors = None if None in each else each
        factors = None if scale_factors is None else tuple(scale_factors)
        if output_size is None:
            sizes = zip(input.shape[2:], factors or (), strict=True)
            output_size = [int(n * f) for n, f in sizes]
        return loaded(f"internal.{name}").function(
            input, tuple(output_size), align_corners, factors
        )

    return call


def resampling(name: str) -> Callable:
    """The arguments of an overload `vec`."""
    smooth = "nearest" not in name

    def arguments(
        input: Tensor, output_size: Any, align_corners: bool, scale_factors: Any
    ) -> tuple:
        factors = scale_factors
        given = (None, [*factors]) if factors is not None else ([*output_size], None)
        return (input, given[0], *[align_corners] * smooth, given[1]), {}

    return arguments


RESAMPLED = (
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d".split()
)
ARGUMENTS |= {f"internal.{name}": (name, resampling(name)) for name in RESAMPLED}


# what PyTorch's names call, where that is no public function of the name: a function, or an operator's path
CALLS: dict[str, Callable | str] = {
    "as_strided": lambda input, size, stride, storage_offset=None: torch().as_strided(
        input, tuple(size), tuple(stride), storage_offset
    ),
    "as_strided_copy": lambda input, size, stride, storage_offset=None: torch().as_strided_copy(
        input, tuple(size), tuple(stride), storage_offset
    ),
    "unfold": lambda input, dimension, size, step: input.unfold(dimension, size, step),
    "cdist": cdist,
    "stft": short_time_transform,
    **{f"max_unpool{n}d": max_unpool(n) for n in (2, 3)},
    **{f"fractional_max_pool{n}d": fractional_max_pool(n) for n in (2, 3)},
    "block_diag": lambda tensors: torch().block_diag(*tensors),
    "cartesian_prod": lambda tensors: torch().cartesian_prod(*tensors),
    "tensordot": lambda a, b, dims_self, dims_other: torch().tensordot(
        a, b, (dims_self, dims_other)
    ),
    "broadcast_tensors": lambda tensors: [*torch().broadcast_tensors(*tensors)],
    "_assert_scalar": assert_scalar,
    "_assert_tensor_metadata": assert_metadata,
    "_local_scalar_dense": lambda input: input.item(),
    "_is_all_true": lambda input: input.all(),
    "_is_any_true": lambda input: input.any(),
    "_batch_norm_no_update": batch_norm_kept(False),
    "_batch_norm_with_update": batch_norm_kept(True),
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_functional": batch_norm_apart,
    "_native_batch_norm_legit_no_training": lambda input, weight, bias, mean, var, momentum, eps: (
        torch().native_batch_norm(input, weight, bias, mean, var, False, momentum, eps)
    ),
    "_safe_softmax": safe_softmax,
    "_to_copy": to_copy,
    **{name: resampled(name) for name in RESAMPLED},
    **{f"adaptive_max_pool{n}d": adaptive_max_pool(n) for n in (1, 2, 3)},
    "im2col": lambda input, *sizes: torch().nn.functional.unfold(input, *map(tuple, sizes)),
    "col2im": lambda input, *sizes: torch().nn.functional.fold(input, *map(tuple, sizes)),
    "_unsafe_masked_index": masked_index,
    "_unsafe_masked_index_put_accumulate": masked_index_add,
    "alias": lambda input: loaded("aten.alias").function(input),
    "convolution": "internal.convolution",
    "diagonal_backward": lambda grad, sizes, *more: loaded("aten.diagonal_gradient").function(
        grad, tuple(sizes), *more
    ),
    "embedding": lambda weight, indices, padding_idx=-1, scale=False, sparse=False: loaded(
        "_embedding"
    ).function(weight, indices, padding_idx, scale),
    "index": indexed,
    "index_put": index_put,
    "lift_fresh": lambda input: input,
    "lift_fresh_copy": lambda input: input.clone(),
    "log_sigmoid": "nn.functional._logsigmoid",
    "max_pool1d_with_indices": max_pool(1),
    "max_pool2d_with_indices": max_pool(2),
    "max_pool2d_with_indices_backward": max_pool_backward(2),
    "max_pool3d_with_indices": max_pool(3),
    "max_pool3d_with_indices_backward": max_pool_backward(3),
    **{name: numbered(loss) for name, loss in LOSSES.items()},
    "native_dropout_backward": lambda grad, mask, scale: grad * (mask.to(grad.dtype) * scale),
    "nll_loss_forward": nll_loss,
    "select_backward": gradient_in_zeros,
    "slice": sliced,
    "slice_backward": gradient_in_zeros,
    "sym_size": lambda input, dim: input.shape[dim],
    "unsafe_split": lambda input, split_size, dim=0: torch().unsafe_split(input, split_size, dim),
    "unfold_backward": lambda grad, sizes, *more: loaded("aten.unfold_gradient").function(
        grad, tuple(sizes), *more
    ),
}


# -- kernels of gradient rules -----------------------------------------------------------------------


def same(*values: Any) -> tuple:
    """The arguments of PyTorch's operator are what the rule reads."""
    return values


# path -> (PyTorch's name, its arguments from what the rule reads, and back)
GRADIENTS: dict[str, tuple[str, Callable, Callable]] = {
    "hardshrink": ("hardshrink_backward", same, same),
    "nn.functional._elu": (
        "elu_backward",
        lambda g, input, alpha, scale, input_scale: (g, alpha, scale, input_scale, False, input),
        lambda g, alpha, scale, input_scale, is_result, input: (
            g,
            input,
            alpha,
            scale,
            input_scale,
        ),
    ),
    "nn.functional._glu": ("glu_backward", same, same),
    "nn.functional._hardsigmoid": ("hardsigmoid_backward", same, same),
    "nn.functional._hardswish": ("hardswish_backward", same, same),
    "nn.functional._hardtanh": ("hardtanh_backward", same, same),
    "nn.functional._leaky_relu": (
        "leaky_relu_backward",
        lambda g, input, slope: (g, input, slope, False),
        lambda g, input, slope, is_result=False: (g, input, slope),
    ),
    "nn.functional._mish": ("mish_backward", same, same),
    "nn.functional._silu": ("silu_backward", same, same),
    "nn.functional.gelu": (
        "gelu_backward",
        lambda g, input, approximate: (
            (g, input) + ((approximate,) if approximate != "none" else ())
        ),
        lambda g, input, approximate="none": (g, input, approximate),
    ),
    "nn.functional.softplus": ("softplus_backward", same, same),
    "nn.functional.softshrink": ("softshrink_backward", same, same),
    "relu": (
        "threshold_backward",
        lambda g, result: (g, result, 0),
        lambda g, result, threshold: (g, result),
    ),
    "sigmoid": ("sigmoid_backward", same, same),
    "tanh": ("tanh_backward", same, same),
}
