"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import llvm
from rushlight.core import settings
from rushlight.core.dtype_sets import FLOATING, I64
from rushlight.core.dtypes import int64, uint8
from rushlight.dispatch.handlers import only_recorded
from rushlight.dispatch.registry import Array, composite, op
from rushlight.dispatch.saved import arguments_of, dims_of
from rushlight.ops.linalg.matmul import linear
from rushlight.ops.nn.softmax import log_softmax_of


def reduced(loss: Any, reduction: str) -> Any:
    """The elements' losses as they are, their mean, or their sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def weighted(loss: Any, weight: Any, reduction: str) -> Any:
    """The losses times their weights, reduced; the mean is divided by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    loss = loss * weight
    if reduction == "mean":
        return loss.sum() / weight.expand(loss.shape).sum()
    return reduced(loss, reduction)


REDUCTIONS = ("none", "mean", "sum")


def reduction_of(size_average: Any, reduce: Any, reduction: str, allowed: Any = REDUCTIONS) -> str:
    """The reduction, by PyTorch's two older arguments where they are given; ValueError for one not `allowed`."""
    if size_average is None and reduce is None:
        if reduction not in allowed:
            raise ValueError(f"{reduction} is not a valid value for reduction")
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    new = "none" if not reduce else "mean" if size_average else "sum"
    settings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{new}' instead."
    )
    return new


@op(where="nn.functional", name="_nll_loss", node="NllLossBackward0", out=False)
def nll(xp, input: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int):
    """-w[t] * x[t] for input (N, C) and target (N) of class numbers."""
    return xp.nll_loss(input, target, weight, reduction, ignore_index)


nll.grad(
    input=lambda g, input_shape, target, weight, reduction, ignore_index: nll_backward(
        g, target, weight, reduction, ignore_index, input_shape
    )
)


@op(where="nn.functional", name="_nll_loss_backward", node="NllLossBackwardBackward0", out=False)
def nll_backward(
    xp,
    grad_output: Array,
    target: Array,
    weight: Array | None,
    reduction: str,
    ignore_index: int,
    shape: tuple,
):
    """The gradient of `nll`: -w[t] * g at the target's place of each row, zeros elsewhere."""
    return xp.nll_loss_gradient(grad_output, target, weight, reduction, ignore_index, shape)


nll_backward.grad(
    grad_output=lambda g, target, weight, reduction, ignore_index: nll(
        g, target, weight, reduction, ignore_index
    )
)


@op(
    where="nn.functional", name="_cross_entropy_loss", node="NllLossBackward0", out=False,
    intermediates=("sums", "divisor"),
)  # fmt: skip
def cross_entropy_loss(
    xp, input: Array, target: Array, weight: Array | None, reduction: str, ignore_index: int,
    label_smoothing: float, keep: bool,
):  # fmt: skip
    """The cross entropy of logits (N, C, *) and classes (N, *): `nll` of `log_softmax` in one, nothing
    of the size of the logits is made in between.

    Intermediates: log(sum(exp(x))) over the classes (N, *), and the number that the sum of losses was divided by.
    """
    losses, sums, totals = xp.cross_entropy(input, target, weight, ignore_index, label_smoothing)
    found = xp.entropy_total(totals, reduction == "mean", input.dtype)
    if found is None:
        c = input.shape[1]
        bad = target[(target != ignore_index) & ((target < 0) | (target >= c))][0]
        raise IndexError(f"Target {bad} is out of bounds. (There are {c} classes, 0 to {c - 1}.)")
    loss, divisor = found
    if reduction == "none":
        loss = losses.astype(input.dtype, copy=False)
    return loss, sums, divisor


def cross_entropy_loss_rule(g, input, target, weight, reduction, ignore_index, label_smoothing):
    n = input.shape[1]
    keep = (target != ignore_index).unsqueeze(1)
    at = target.unsqueeze(1).masked_fill(~keep, 0)
    own = keep.to(input.dtype)
    view = (1, n, *[1] * (input.ndim - 2))
    w = input.new_ones(view) if weight is None else weight.view(view)
    if weight is not None:
        own = own * weight[at]
    f = g.unsqueeze(1) if reduction == "none" else g
    if reduction == "mean":
        f = f / own.sum()
    hard, soft = (1 - label_smoothing) * own * f, label_smoothing / n * f * keep
    gx = input.softmax(1) * (hard + soft * w.sum()) - soft * w
    gx = gx.scatter_add(1, at, -hard.expand(at.shape).to(gx.dtype))
    return gx.to(input.dtype)


def cross_entropy_loss_gradient(
    xp, g, input, target, weight, ignore_index, label_smoothing, sums, divisor
):
    return xp.cross_entropy_gradient(
        g, input, target, weight, sums, ignore_index, label_smoothing, divisor
    )


cross_entropy_loss.grad(input=cross_entropy_loss_rule, kernel=cross_entropy_loss_gradient)


def nodes_of_cross_entropy(node: Any) -> tuple[str, tuple] | None:
    """PyTorch's nodes: a logarithm of a softmax, a likelihood of it, and with smoothing the sum of two."""
    likelihoods, n = ("LogSoftmaxBackward0", 0), dims_of(node, "input")
    smoothing = arguments_of(node).get("label_smoothing")
    if n is None or smoothing is None:
        return None
    if n != 2:
        name = "NllLoss2DBackward0"
        paths = (likelihoods,) if n == 4 else ((VIEW, likelihoods),)
    else:
        name, paths = "NllLossBackward0", (likelihoods,)
    if not smoothing:
        return name, paths
    of_all = ("NegBackward0", ("SumBackward1", likelihoods))
    summed = ("DivBackward0", ("SumBackward0", ("MaskedFillBackward0", of_all)))
    return "AddBackward0", (("MulBackward1", (name, *paths)), ("MulBackward1", summed))


VIEW = "ViewBackward0"
cross_entropy_loss.op.pytorch_nodes = nodes_of_cross_entropy


def in_one(input: Any, target: Any, weight: Any) -> bool:
    """Whether `cross_entropy` does it: logits and int64 classes of one shape less a dimension."""
    a, t = input._array, target._array
    shape = a.shape
    return (
        llvm.active
        and a.__class__ is t.__class__ is np.ndarray
        and len(shape) > 1
        and a.dtype in FLOATING
        and t.dtype == I64
        and t.shape == (shape[:1] + shape[2:])
        and a.size > 0
        and (
            weight is None
            or weight._array.dtype is a.dtype
            and weight._array.shape == shape[1:2]
            and weight._edge is None
        )
        and only_recorded()
    )


def check_classes(shape: tuple, target: tuple) -> None:
    """The shape of the classes `target` beside that of their likelihoods."""
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(shape) == 1 and len(target) == 1 and target != (1,):
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target[0]}"
        )
    if len(shape) > 1 and shape[:1] != target[:1]:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({target[0] if target else 0})."
        )
    if len(shape) < 3 and len(target) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if len(shape) == 4 and len(target) != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{len(target)}"
        )
    if len(shape) == 4 and shape[2:] != target[1:]:
        raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(target)}")
    if len(shape) > 2 and shape[2:] != target[1:]:
        raise RuntimeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(target)}")


def class_weights(weight: Any, shape: tuple) -> Any:
    """`weight` with one dimension: a number for each class of likelihoods of this shape."""
    classes = shape[0] if len(shape) == 1 else shape[1]
    if len(shape) > 2:
        if weight.numel() != classes:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
        return weight.reshape(-1)
    if weight._array.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    return weight


def check_nll(input: Any, target: Any, weight: Any) -> None:
    """The dtypes of a likelihood and its classes."""
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}"
        )
    if not input.dtype.is_floating_point:
        kind = input.dtype.scalar_name
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{kind}'")
    check_weight_dtype(input, weight)


def check_weight_dtype(input: Any, weight: Any) -> None:
    """RuntimeError for weights of classes of another dtype than the input's."""
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


@composite(where="nn.functional", inplace=False)
def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
):
    """The negative log likelihood of classes `target` under log probabilities `input`.

    `input`: (N, C), (C) or (N, C, d1, ...), `target`: (N), () or (N, d1, ...); `weight`: (C).
    """
    reduction = reduction_of(size_average, reduce, reduction)
    shape = input._array.shape
    check_classes(shape, target._array.shape)
    if weight is not None:
        weight = class_weights(weight, shape)
    check_nll(input, target, weight)
    if len(shape) == 1:
        return nll(input.unsqueeze(0), target.view(1), weight, reduction, ignore_index).view(())
    if len(shape) > 2:
        rows = input.movedim(1, -1).reshape(-1, input.shape[1])
        loss = nll(rows, target.reshape(-1), weight, reduction, ignore_index)
        return loss.view(target.shape) if reduction == "none" else loss
    return nll(input, target, weight, reduction, ignore_index)


@composite(where="nn.functional", inplace=False)
def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
):
    """The cross entropy between logits `input` and classes (or class probabilities) `target`.

    `input`: (C), (N, C) or (N, C, d1, ...); `target`: class numbers without the C dimension, or
    probabilities in the shape of the input.

    >>> import rushlight as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
    tensor(1.3863)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if in_one(input, target, weight):
        return cross_entropy_loss(input, target, weight, reduction, ignore_index, label_smoothing)
    c = 0 if input._array.ndim == 1 else 1
    logs = log_softmax_of(input, c)
    if target._array.shape == input._array.shape:
        if not target.dtype.is_floating_point:
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{target.dtype.scalar_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return probabilities_cross_entropy(input, logs, target, weight, reduction, label_smoothing)
    if not label_smoothing:
        return nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    classes = input.shape[c]
    hard = nll_loss(logs, target, weight, None, ignore_index, None, reduction)
    scale = weight if weight is None else weight.view(*([1] * c), -1, *([1] * (input.ndim - c - 1)))
    smooth = -(logs if scale is None else logs * scale).sum(c)
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == "mean":
        if weight is None:
            smooth = smooth.sum() / (~ignored).sum()
        else:
            smooth = (
                smooth.sum() / weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0).sum()
            )
    else:
        smooth = reduced(smooth, reduction)
    return (1 - label_smoothing) * hard + label_smoothing / classes * smooth


def probabilities_cross_entropy(
    input: Any, logs: Any, target: Any, weight: Any, reduction: str, label_smoothing: float
) -> Any:
    c = 0 if input.ndim == 1 else 1
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / max(input.shape[c], 1)
    if weight is not None:
        logs = logs * weight.view(*([1] * c), -1, *([1] * (input.ndim - c - 1)))
    products = logs * target
    if reduction == "mean":
        return -products.sum() / (input.numel() / max(input.shape[c], 1))
    return -(products.sum() if reduction == "sum" else products.sum(c))


@composite(where="nn.functional", inplace=False)
def linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    *,
    linear_bias: Array | None = None,
    weight: Array | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
):
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    `input`: (features) or (N, features); `linear_weight`: (C, features) or (C, d1, ..., features),
    for targets (N, d1, ...). `options` says how PyTorch cuts the batch into pieces to save memory: the
    loss does not depend on it, and here the batch is not cut.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    features, classes = input.shape[-1], linear_weight.shape[:-1]
    if features != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight.shape[-1]}, respectively"
        )
    if len(classes) > 1 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires "
            f"batched input, (N, {features}), got unbatched input with shape {tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != classes:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(classes)}, got {tuple(linear_bias.shape)}"
        )
    if weight is not None and weight.shape != classes[:1]:
        raise RuntimeError(
            f"expected weight shape to be {tuple(classes[:1])}, got {tuple(weight.shape)}"
        )
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
    if ignore_index is not None and target.dtype.is_floating_point:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, features), bias)
    if len(classes) > 1:
        logits = logits.reshape(input.shape[0], *classes)
    ignore_index = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, None, ignore_index, None, reduction, label_smoothing
    )
