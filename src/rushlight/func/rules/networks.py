"""Batching rules of layers: convolution, pooling, normalisation, losses."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batched, in_front, loop
from rushlight.dispatch.registry import OPS
from rushlight.func.rules.rules import examples, merged, rule, unmerged
from rushlight.ops.nn.conv import check_dtypes

F = torch.nn.functional

# -- examples beside each other --------------------------------------------------------------------

for n in (1, 2, 3):
    for path in (
        f"max_pool{n}d_with_indices avg_pool{n}d adaptive_avg_pool{n}d adaptive_max_pool{n}d "
        f"max_unpool{n}d avg_pool{n}d_gradient adaptive_avg_pool{n}d_gradient"
    ).split():
        RULES["internal." + path] = examples
    for mode in ("reflection", "replication", "circular"):
        RULES[f"internal.{mode}_pad{n}d"] = RULES[f"internal.{mode}_pad{n}d_gradient"] = examples
RULES["internal.im2col"] = RULES["internal.col2im"] = examples


@rule("internal.max_pool1d", "internal.max_pool2d", "internal.max_pool3d")
def max_pool(b: Batched) -> Any:
    """The result, and the indices of the largest, which the gradient rule reads."""
    got = b.call(OPS[b.op.path + "_with_indices"], input=merged(b.expanded("input")))
    return [unmerged(r, b.size) for r in got]


for path in "pixel_shuffle pixel_unshuffle channel_shuffle grid_sampler_2d grid_sampler_3d".split():
    RULES[path] = examples
for path in "internal.grid_sampler_2d_gradient internal.grid_sampler_3d_gradient".split():
    RULES[path] = examples


@rule("affine_grid_generator", "internal.affine_grid_gradient")
def affine_grid(b: Batched) -> Any:
    """Images of all elements side by side, of which there are as many times more."""
    (name,) = b.op.inputs
    n, *size = b.named["size"]
    return unmerged(b.call(**{name: merged(b.named[name])}, size=(n * b.size, *size)), b.size)


@rule("internal.grid_taps")
def grid_taps(b: Batched) -> Any:
    """Images side by side, which stand behind the dimensions and the taps in the results."""
    grid, size = b.named["grid"], b.size
    found = b.call(grid=merged(grid))
    images = (size, grid.shape[1])
    return [t.unflatten(-2, images).movedim(-3, 0) for t in found]


@rule("constant_pad_nd")
def constant_pad(b: Batched) -> Any:
    return b.call()


for name in (
    "upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa"
).split():
    RULES["internal." + name] = RULES[f"internal.{name}_gradient"] = examples


@rule("internal.add_at_indices", "internal.take_at_indices")
def at_indices(b: Batched) -> Any:
    return examples(b)


# -- convolution -----------------------------------------------------------------------------------


@rule("internal.convolution")
def convolution(b: Batched) -> Any:
    """A batch of images joins theirs; a batch of weights becomes groups."""
    x, w, bias, size = b.named["input"], b.named["weight"], b.named["bias"], b.size
    groups = b.named["groups"]
    check_dtypes(x._array, w._array, None if bias is None else bias._array)
    if "weight" not in b.has:
        x = b.expanded("input")
        y = unmerged(b.call(input=merged(x), bias=None if "bias" in b.has else bias), size)
    else:
        # x: [batch, N, C, ...] -> [N, batch * C, ...]; w: [batch, O, C / groups, ...] -> [batch * O, ...]
        x = b.expanded("input").transpose(0, 1)
        x = x.reshape((x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))
        own = (
            bias if bias is None or "bias" in b.has else bias.unsqueeze(0).expand(size, *bias.shape)
        )
        y = b.call(
            input=x,
            weight=merged(w),
            bias=None if own is None else own.reshape(-1),
            groups=groups * size,
        )
        return y.reshape((y.shape[0], size, y.shape[1] // size, *y.shape[2:])).transpose(0, 1)
    if "bias" in b.has:
        y = y + bias.reshape((size, 1, -1, *(1,) * (y.dim() - 3)))
    return y


@rule("internal.convolution_weight")
def convolution_weight(b: Batched) -> Any:
    """A weight of its own for each element: images and gradients as groups."""
    x, g, size, groups = b.expanded("input"), b.expanded("grad_output"), b.size, b.named["groups"]

    def as_groups(t: Tensor) -> Tensor:  # [batch, N, C, ...] -> [N, batch * C, ...]
        t = t.transpose(0, 1)
        return t.reshape((t.shape[0], t.shape[1] * t.shape[2], *t.shape[3:]))

    w = b.call(input=as_groups(x), grad_output=as_groups(g), groups=groups * size)
    return unmerged(w, size)


# -- normalisation ---------------------------------------------------------------------------------


def scaled(y: Tensor, b: Batched, at: int) -> Tensor:
    """y * weight + bias, whose batches go in front; `at`: the dimensions behind theirs."""
    w, c = b.named["weight"], b.named.get("bias")

    def shaped(name: str, t: Tensor) -> Tensor:
        t = t.reshape((*t.shape, *(1,) * at))
        return in_front(t, y.dim() - 1) if name in b.has else t

    y = y if w is None else y * shaped("weight", w)
    return y if c is None else y + shaped("bias", c)


@rule("_layer_norm", "_rms_norm")
def layer_norm(b: Batched) -> Any:
    if b.has == {"input"}:
        return b.call()
    changed: dict[str, Any] = {"input": b.expanded("input"), "weight": None}
    if "bias" in b.named:
        changed["bias"] = None
    return scaled(b.call(**changed), b, 0)


@rule("_native_layer_norm")
def native_layer_norm(b: Batched) -> Any:
    if b.has == {"input"}:
        return b.call()
    result, mean, rstd = b.call(input=b.expanded("input"), weight=None, bias=None)
    return scaled(result, b, 0), mean, rstd


@rule("_native_group_norm")
def native_group_norm(b: Batched) -> Any:
    if b.has == {"input"}:
        return examples_of(b, ("input",))
    result, mean, rstd = examples_of(b, ("input",), weight=None, bias=None)
    return scaled(result, b, result.dim() - 3), mean, rstd


@rule("_group_norm")
def group_norm(b: Batched) -> Any:
    if b.has == {"input"}:
        return examples_of(b, ("input",))
    y = examples_of(b, ("input",), weight=None, bias=None)
    return scaled(y, b, y.dim() - 3)


def examples_of(b: Batched, names: tuple[str, ...], **changed: Any) -> Any:
    """As `examples`, of some arguments."""
    got = b.call(**{i: merged(b.expanded(i)) for i in names}, **changed)
    return unmerged(got, b.size) if isinstance(got, Tensor) else [unmerged(g, b.size) for g in got]


@rule("_batch_norm")
def batch_norm(b: Batched) -> Any:
    """The batch becomes channels: statistics of each element are its own."""
    x = b.expanded("input").transpose(0, 1)  # [N, batch, C, ...]
    shape, channels = x.shape, x.shape[2]
    x = x.reshape((shape[0], b.size * channels, *shape[3:]))

    def own(name: str) -> Any:
        t = b.named[name]
        return None if t is None else b.expanded(name).reshape(-1)

    y = b.call(input=x, weight=own("weight"), bias=own("bias"), mean=own("mean"), var=own("var"))
    return y.reshape((shape[0], b.size, channels, *shape[3:])).transpose(0, 1)


# -- losses ----------------------------------------------------------------------------------------


def reduced(y: Tensor, reduction: str, b: Batched) -> Tensor:
    """A loss of all elements, [batch, ...], reduced behind the batch."""
    if reduction == "none":
        return y
    y = y.reshape(b.size, -1)
    return y.mean(1) if reduction == "mean" else y.sum(1)


def pair(b: Batched) -> Any:
    """The input and the target of one shape, behind the batch."""
    n = max(b.ndim("input"), b.ndim("target"))
    x, t = in_front(b.expanded("input"), n), in_front(b.expanded("target"), n)
    return torch.broadcast_tensors(x, t)


@rule("nn.functional._mse_loss")
def regression(b: Batched) -> Any:
    return reduced(F.mse_loss(*pair(b), reduction="none"), b.named["reduction"], b)


@rule(
    "nn.functional._reduced_bce_with_logits", "nn.functional._reduced_binary_cross_entropy",
    "nn.functional._reduced_huber_loss", "nn.functional._reduced_smooth_l1_loss",
    "nn.functional._reduced_soft_margin_loss",
)  # fmt: skip
def reduced_form(b: Batched) -> Any:
    elements = OPS[b.op.path.replace("_reduced_", "_")].function
    return reduced(elements(*pair(b), *b.named["settings"]), b.named["reduction"], b)


@rule("nn.functional._cross_entropy_loss")
def cross_entropy(b: Batched) -> Any:
    """Classes stand at dimension 1, at 0 for one example."""
    x, target, weight = b.outer["input"], b.outer["target"], b.outer["weight"]
    y = torch.log_softmax(x, 1 if x.dim() > 1 else 0)
    reduction, ignored, smoothing = (
        b.named[k] for k in ("reduction", "ignore_index", "label_smoothing")
    )
    at = 1 if x.dim() > 1 else 0
    if target.is_floating_point():
        classes = x.shape[at]
        p = target * (1 - smoothing) + smoothing / classes if smoothing else target
        if weight is not None:
            p = p * weight.reshape((-1, *(1,) * (x.dim() - 1 - at)))
        each = -(p * y).sum(at)
        return inner(
            each
            if reduction == "none"
            else each.sum()
            if reduction == "sum"
            else each.sum() / max(x.numel() // classes, 1),
            b,
        )
    loss = F.nll_loss(y, target, weight, reduction=reduction, ignore_index=ignored)
    if smoothing:
        classes = x.shape[at]
        w = torch.ones(classes, dtype=x.dtype) if weight is None else weight
        smooth = -(y * w.reshape((-1, *(1,) * (x.dim() - 1 - at)))).sum(at)
        smooth = torch.where(target == ignored, 0.0, smooth)
        if reduction == "sum":
            smooth = smooth.sum()
        elif reduction == "mean":
            chosen = torch.where(target == ignored, 0.0, w[target.clamp(min=0)])
            smooth = smooth.sum() / chosen.sum()
        loss = (1 - smoothing) * loss + smooth * (smoothing / classes)
    return inner(loss, b)


def inner(t: Tensor, b: Batched) -> Tensor:
    """The tensor inside of a result, with a batch in front."""
    a = t._array
    return a.value if a.has else a.value.unsqueeze(0).expand(b.size, *a.value.shape)


@rule("nn.functional._nll_loss")
def nll_loss(b: Batched) -> Any:
    x, target, reduction = b.expanded("input"), b.expanded("target"), b.named["reduction"]
    each = b.call(
        input=x if x.dim() == 2 else merged(x),
        target=target if x.dim() == 2 else merged(target),
        weight=None,
        reduction="none",
    ).reshape(target.shape)
    w = weights_of(b, target)
    if b.named["weight"] is not None:
        each = each * w
    if reduction == "none":
        return each
    total = each.reshape(b.size, -1).sum(1)
    return total if reduction == "sum" else total / w.reshape(b.size, -1).sum(1)


def weights_of(b: Batched, target: Tensor) -> Tensor:
    """The weight of the class of each target, 0 of those that are ignored."""
    kept = target != b.named["ignore_index"]
    if b.named["weight"] is None:
        return kept
    at = torch.where(kept, target, 0).reshape(b.size, -1)
    return b.expanded("weight").gather(1, at).reshape(target.shape) * kept


@rule("nn.functional._nll_loss_backward")
def nll_loss_backward(b: Batched) -> Any:
    """The gradient by the likelihoods: -weight at the class of each target, times that of the loss."""
    g, target, shape = b.expanded("grad_output"), b.expanded("target"), tuple(b.named["shape"])
    reduction, single = b.named["reduction"], len(shape) == 1
    w = weights_of(b, target) if reduction == "mean" or b.named["weight"] is not None else None
    if reduction == "mean":
        g = g / w.reshape(b.size, -1).sum(1)
    g = in_front(g, target.dim() - 1).expand(target.shape)
    if b.named["weight"] is not None:
        g = g * w
    got = b.call(
        grad_output=g if single else merged(g),
        target=target if single else merged(target),
        weight=None,
        reduction="none",
        shape=(b.size, *shape) if single else (b.size * shape[0], *shape[1:]),
    )
    return got if single else unmerged(got, b.size)


@rule("nn.functional._multi_margin_loss", "nn.functional._multilabel_margin_loss", "_ctc_loss", "_ctc_loss_backward",
      "_embedding_bag", "_recurrent_layer", "internal.fractional_max_pool2d", "internal.fractional_max_pool3d",
      "_embedding_sparse")  # fmt: skip
def one_by_one(b: Batched) -> Any:
    return loop(b)


@rule("threshold_backward")
def threshold_backward(b: Batched) -> Any:
    n = max(b.ndim("grad_output"), b.ndim("input"))
    return b.call(
        grad_output=in_front(b.expanded("grad_output"), n), input=in_front(b.expanded("input"), n)
    )


@rule("_attention")
def attention(b: Batched) -> Any:
    """The operator has four dimensions: the batch joins the first."""
    names = ("query", "key", "value")
    n = max(b.ndim(i) for i in names)
    whole = n < 4

    def shaped(name: str) -> Tensor:
        t = b.expanded(name)
        return in_front(t, 3) if whole else merged(in_front(t, n))

    changed: dict[str, Any] = {i: shaped(i) for i in names}
    if b.named["mask"] is not None:
        mask = in_front(b.expanded("mask"), 3 if whole else n)
        if not whole:
            mask = merged(
                mask.expand(b.size, changed["query"].shape[0] // max(b.size, 1), *mask.shape[2:])
            )
        changed["mask"] = mask
    got = b.call(**changed)
    return got.reshape((b.size, *got.shape[4 - n :])) if whole else unmerged(got, b.size)


# -- embedding -------------------------------------------------------------------------------------


@rule("_embedding")
def embedding(b: Batched) -> Any:
    w = b.named["weight"]
    if "weight" not in b.has:
        return b.call()
    rows = w.shape[1]
    start = torch.arange(0, b.size * rows, max(rows, 1)).reshape(
        (b.size, *(1,) * b.ndim("indices"))
    )
    return F.embedding(b.expanded("indices") + start, merged(w))


@rule("embedding_dense_backward")
def embedding_back(b: Batched) -> Any:
    rows = b.named["num_weights"]
    if b.named["padding_idx"] >= 0 or b.named["scale_grad_by_freq"]:
        return loop(b)
    start = torch.arange(0, b.size * rows, max(rows, 1)).reshape(
        (b.size, *(1,) * b.ndim("indices"))
    )
    got = b.call(
        grad_output=b.expanded("grad_output"),
        indices=b.expanded("indices") + start,
        num_weights=b.size * rows,
    )
    return unmerged(got, b.size)
