"""Losses of the top namespace: those of `nn.functional` with the reduction as a number, 0 none (the default), 1 mean, 2 sum.

PyTorch's signatures give the mean as their default; a call of PyTorch 2.13 without a number reduces nothing, and so here.

Also what `nn.utils.weight_norm` is made of.
"""

from __future__ import annotations

from rushlight.core import geometry
from rushlight.dispatch.registry import Array, composite

_REDUCTIONS = ("none", "mean", "sum")


def _word(reduction: int) -> str:
    if type(reduction) is not int:
        raise TypeError(
            f"argument 'reduction' must be int (0 none, 1 mean, 2 sum), not {type(reduction).__name__}; "
            "torch.nn.functional's loss of this name takes a word"
        )
    return _REDUCTIONS[reduction] if 0 <= reduction < 3 else "none"  # what PyTorch makes of others


@composite(method=False, inplace=False, out=False)
def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None,
    reduction: int = 0,
):  # fmt: skip
    """`nn.functional.binary_cross_entropy_with_logits`: the cross entropy of sigmoid(input) and `target`."""
    from rushlight.ops.nn.regression_losses import binary_cross_entropy_with_logits as loss

    word = _word(reduction)
    return loss(input, target, weight, reduction=word, pos_weight=pos_weight)


@composite(method=False, inplace=False, out=False)
def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: int = 0
):
    """`nn.functional.cosine_embedding_loss`: 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    from rushlight.ops.nn.margin_losses import cosine_embedding_loss as loss

    return loss(input1, input2, target, margin, reduction=_word(reduction))


@composite(method=False, inplace=False, out=False)
def hinge_embedding_loss(input: Array, target: Array, margin: float = 1.0, reduction: int = 0):
    """`nn.functional.hinge_embedding_loss`: x where the target is 1, max(0, margin - x) where it is -1."""
    from rushlight.ops.nn.margin_losses import hinge_embedding_loss as loss

    return loss(input, target, margin, reduction=_word(reduction))


@composite(method=False, inplace=False, out=False)
def kl_div(input: Array, target: Array, reduction: int = 0, *, log_target: bool = False):
    """`nn.functional.kl_div`: target (log(target) - input), of each element by default.

    >>> import rushlight as torch
    >>> torch.kl_div(torch.tensor([0.5]).log(), torch.tensor([1.0]))
    tensor([0.6931])
    """
    from rushlight.ops.nn.regression_losses import kl_div as loss

    word = _word(reduction)
    made = loss(input, target, reduction="none", log_target=log_target)
    return made if word == "none" else made.mean() if word == "mean" else made.sum()


@composite(method=False, inplace=False, out=False)
def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: int = 0
):
    """`nn.functional.margin_ranking_loss` of tensors that broadcast: max(0, -y (x1 - x2) + margin)."""
    from rushlight.ops.nn.margin_losses import ranking, reduced

    return reduced(ranking(input1, input2, target, margin), _word(reduction))


@composite(method=False, inplace=False, out=False)
def poisson_nll_loss(
    input: Array, target: Array, log_input: bool, full: bool, eps: float, reduction: int
):
    """`nn.functional.poisson_nll_loss`, without defaults, as PyTorch's."""
    from rushlight.ops.nn.regression_losses import poisson_nll_loss as loss

    return loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


@composite(method=False, inplace=False, out=False)
def triplet_margin_loss(
    anchor: Array, positive: Array, negative: Array, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
):  # fmt: skip
    """`nn.functional.triplet_margin_loss`: max(0, d(a, p) - d(a, n) + margin)."""
    from rushlight.ops.nn.margin_losses import triplet_margin_loss as loss

    return loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))


@composite(method=False, inplace=False, out=False)
def norm_except_dim(v: Array, pow: int = 2, dim: int = 0):
    """The norm of order `pow` over all dimensions but `dim`, which keep size 1; over all, without dimensions, for -1.

    >>> import rushlight as torch
    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5.],
            [1.]])
    """
    if dim == -1:
        return v.norm(pow)
    kept = geometry.wrap_dim(dim, v.ndim)
    others = [d for d in range(v.ndim) if d != kept]
    return v.norm(pow, others, keepdim=True) if others else v.abs()


@composite(method=False, inplace=False, out=False)
def _weight_norm(v: Array, g: Array, dim: int = 0):
    """g v / ||v||, with the norm over all dimensions but `dim`."""
    if dim in (0, v.ndim - 1):  # one kernel in PyTorch, whose result is row-major
        v, g = v.contiguous(), g.contiguous()
    return v * (g / norm_except_dim(v, 2, dim))
