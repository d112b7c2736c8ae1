"""Losses of margins: by how much the right is ahead of the wrong, the near of the far."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.dispatch.registry import Array, composite, elementwise, op
from rushlight.ops.nn.inputs import check_dtype
from rushlight.ops.nn.loss import check_weight_dtype, reduced, reduction_of
from rushlight.ops.nn.regression_losses import in_dtype_of, loss_of, paired, reduced_form


@composite(where="nn.functional", inplace=False)
def hinge_embedding_loss(
    input: Array, target: Array, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """The hinge loss of a distance: x where the target is 1, max(0, margin - x) where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    far = (margin - input).clamp_min(0).masked_fill(target == 1, 0)
    near = input.masked_fill(target == -1, 0)
    return reduced(far + near, reduction)


@composite(where="nn.functional", inplace=False)
def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """max(0, -y (x1 - x2) + margin): x1 should be the larger where y is 1."""
    reduction = reduction_of(size_average, reduce, reduction)
    if not (input1.ndim == input2.ndim == target.ndim):
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced(ranking(input1, input2, target, margin), reduction)


def ranking(input1: Any, input2: Any, target: Any, margin: float) -> Any:
    """`margin_ranking_loss` of each pair."""
    return (-target * (input1 - input2) + margin).clamp_min(0)


@elementwise(
    where="nn.functional", name="_soft_margin_loss", promote="float", inplace=False, out=False
)
def soft_margin(xp, input: Array, target: Array):
    return xp.log1p(xp.exp(xp.multiply(input, xp.negative(target))))


def soft_margin_rule(g: Any, input: Any, target: Any) -> Any:
    z = (input * -target).exp()
    return -target * z * g / (z + 1)


soft_margin.grad(
    input=soft_margin_rule, target=lambda g, input, target: soft_margin_rule(g, target, input)
)
reduced_soft_margin = reduced_form(soft_margin)


@composite(where="nn.functional", inplace=False)
def soft_margin_loss(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
):  # fmt: skip
    """The logistic loss for targets 1 and -1: log(1 + exp(-y x))."""
    reduction = reduction_of(size_average, reduce, reduction)
    if input.dtype is target.dtype and input.dtype.is_floating_point:
        return loss_of(soft_margin, reduced_soft_margin, input, target, reduction)
    return reduced(in_dtype_of(input, soft_margin(input, target)), reduction)


@composite(where="nn.functional", inplace=False)
def multilabel_soft_margin_loss(
    input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """The mean over classes of the cross entropy of each label (0 or 1)."""
    from rushlight.ops.nn.activation import logsigmoid

    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


def check_classes(target: Any) -> None:
    if target.dtype.name != "int64":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")


def over_rows(xp: Any, losses: Any, reduction: str) -> Any:
    """The losses of rows, their mean, or their sum."""
    if reduction == "none":
        return losses
    if losses.size == 1:
        return losses.reshape(())
    return xp.asarray((xp.mean if reduction == "mean" else xp.sum)(losses, None, False))


def share(input: Any, reduction: str) -> float:
    """By what the gradient of a reduced loss is multiplied for each row."""
    return 1 / len(input) if reduction == "mean" and len(input) else 1.0


def widened(a: Any) -> Any:
    """Half types as float32, in which they are computed."""
    return a.astype("f") if a is not None and a.dtype.itemsize == 2 else a


@op(where="nn.functional", name="_multi_margin_loss", node="MultiMarginLossBackward0", out=False)
def margins(
    xp, input: Array, target: Array, weight: Array | None, p: int, margin: float, reduction: str
):
    check_dtype("multi_margin_loss_cpu_kernel", dtypes.OF[input.dtype], "f")
    losses = xp.margins(widened(input), target, widened(weight), p, margin)
    return over_rows(xp, losses, reduction).astype(input.dtype, copy=False)


def margins_rule(
    g: Any, input: Any, target: Any, weight: Any, p: int, margin: float, reduction: str
) -> Any:
    y = target.unsqueeze(1)
    z = (margin - input.gather(1, y) + input).scatter(1, y, 0.0)
    slopes = (2 * z if p == 2 else 1.0) * (z > 0).to(z.dtype) / z.shape[1]
    if weight is not None:
        slopes = slopes * weight[target].unsqueeze(1)
    slopes = slopes * (g.unsqueeze(1) if g.ndim else g) * share(input, reduction)
    return slopes.scatter_add(1, y, -slopes.sum(1, True))


margins.grad(
    input=margins_rule,
    kernel=lambda xp, g, input, target, weight, p, margin, reduction: xp.margins_gradient(
        widened(g), widened(input), target, widened(weight), p, margin, share(input, reduction)
    ).astype(input.dtype, copy=False),
)


@op(
    where="nn.functional", name="_multilabel_margin_loss", node="MultilabelMarginLossBackward0",
    out=False, intermediates=("is_label",),
)  # fmt: skip
def label_margins(xp, input: Array, target: Array, reduction: str, keep: bool):
    check_dtype("multilabel_margin_loss_forward_out_frame", dtypes.OF[input.dtype], "f")
    losses, is_label = xp.label_margins(widened(input), target)
    return over_rows(xp, losses, reduction).astype(input.dtype, copy=False), is_label


def label_margins_rule(g: Any, input: Any, target: Any, reduction: str) -> Any:
    listed = (target >= 0).cumprod(1) > 0
    at = target.masked_fill(~listed, 0)
    z = 1 - input.gather(1, at).unsqueeze(2) + input.unsqueeze(1)
    is_label = input.new_zeros(input.shape).scatter_add(1, at, listed.to(input.dtype)) > 0
    counts = listed.unsqueeze(2) & ~is_label.unsqueeze(1) & (z > 0)
    slopes = counts.to(input.dtype) / input.shape[1] * share(input, reduction)
    slopes = slopes * (g.reshape(-1, 1, 1) if g.ndim else g)
    return slopes.sum(1).scatter_add(1, at, -slopes.sum(2))


label_margins.grad(
    input=label_margins_rule,
    kernel=lambda xp, g, input, target, is_label, reduction: xp.label_margins_gradient(
        widened(g), widened(input), target, is_label, share(input, reduction)
    ).astype(input.dtype, copy=False),
)


@composite(where="nn.functional", inplace=False)
def multi_margin_loss(
    input: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Array | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """sum over the other classes of max(0, margin - x[y] + x[j])**p, over the number of classes."""
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    sizes, own = input._array.shape, target._array.shape
    x = input.reshape(1, -1) if len(sizes) < 2 else input
    y = target if len(own) == 1 else target.reshape(-1)
    rows, classes = x._array.shape if len(sizes) <= 2 else (0, 0)
    if not classes:
        raise RuntimeError(
            "multi_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch size, but "
            f"got: {list(input.shape)}"
        )
    if y._array.shape != (rows,) or len(own) > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
            f"(batch size). Expected target size [{rows}], but got {list(own)}. Input has shape {list(sizes)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    check_weight_dtype(input, weight)
    check_classes(target)
    loss = margins(x, y, weight, p, margin, reduction)
    return loss.squeeze(0) if not own and reduction == "none" else loss


@composite(where="nn.functional", inplace=False)
def multilabel_margin_loss(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
):  # fmt: skip
    """sum over labels y and classes j that are none of max(0, 1 - (x[y] - x[j])), over their number.

    A row of `target` lists class numbers up to the first -1.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    both = input.ndim < 2 and target.ndim < 2  # one number, with a dimension or without
    if input.shape != target.shape and not (both and input.numel() == target.numel() == 1):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    check_classes(target)
    single = input.ndim < 2
    x, y = (input.reshape(1, -1), target.reshape(1, -1)) if single else (input, target)
    loss = label_margins(x, y, reduction)
    return loss.squeeze(0) if single and reduction == "none" else loss


@composite(where="nn.functional", inplace=False)
def pairwise_distance(
    x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    import rushlight

    return rushlight.norm(x1 - x2 + eps, p, -1, keepdim)


pairwise_distance.alias("pairwise_distance")


@composite(method=False)
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8):
    """x1 . x2 over the product of their lengths, each at least eps, along `dim`."""
    import rushlight

    if not x1.dtype.is_floating_point and not x2.dtype.is_floating_point:
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is integral"
        )
    x1, x2 = paired(x1, x2)
    n1 = rushlight.linalg.vector_norm(x1, 2, dim, True)
    n2 = rushlight.linalg.vector_norm(x2, 2, dim, True)
    return (x1 / n1.clamp(min=eps) * (x2 / n2.clamp(min=eps))).sum(dim)


@composite(where="nn.functional", inplace=False)
def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """A loss on the angle between two vectors: 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    dim = target.ndim
    if not input1.ndim == input2.ndim == dim + 1:
        raise RuntimeError(
            f"{dim}D target tensor expects {dim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    eps = 1e-12
    dot = (input1 * input2).sum(dim)
    cos = dot / (((input1 * input1).sum(dim) + eps) * ((input2 * input2).sum(dim) + eps)).sqrt()
    near = (1 - cos).masked_fill(target != 1, 0)
    far = (cos - margin).clamp_min(0).masked_fill(target != -1, 0)
    return reduced(near + far, reduction)


@composite(where="nn.functional", inplace=False)
def triplet_margin_loss(
    anchor: Array, positive: Array, negative: Array, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """max(0, d(a, p) - d(a, n) + margin); `swap`: the smaller of d(a, n) and d(p, n)."""
    reduction = reduction_of(size_average, reduce, reduction)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, margin=margin, swap=swap, reduction=reduction,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
    )  # fmt: skip


@composite(where="nn.functional", inplace=False)
def triplet_margin_with_distance_loss(
    anchor: Array, positive: Array, negative: Array, *, distance_function: Any = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
):  # fmt: skip
    """As `triplet_margin_loss`, with any function of two tensors as the distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not (anchor.ndim == positive.ndim == negative.ndim):
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)
