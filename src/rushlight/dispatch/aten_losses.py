"""Losses of `torch.nn.functional`, and ATen's operators for them, which take a number for the reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.dispatch.aten_forms import torch

REDUCTIONS = ("none", "mean", "sum")


class Loss(NamedTuple):
    """The function of `nn.functional` for an operator: its name, its tensors and what follows them in the operator.

    `same_shape`: the operator takes tensors of one shape. `complete`: its parameters have no defaults.
    """

    function: str
    parameters: str = "reduction"
    tensors: str = "input target"
    same_shape: bool = False
    complete: bool = False


_PAIRS = "input1 input2 target"
LOSSES = {
    "binary_cross_entropy": Loss("binary_cross_entropy", "weight reduction"),
    "binary_cross_entropy_with_logits": Loss(
        "binary_cross_entropy_with_logits", "weight pos_weight reduction"
    ),
    "cosine_embedding_loss": Loss("cosine_embedding_loss", "margin reduction", _PAIRS),
    "cross_entropy_loss": Loss(
        "cross_entropy", "weight reduction ignore_index label_smoothing"
    ),
    "ctc_loss": Loss(
        "ctc_loss", "blank reduction zero_infinity", "log_probs targets input_lengths target_lengths"
    ),
    "hinge_embedding_loss": Loss("hinge_embedding_loss", "margin reduction"),
    "huber_loss": Loss("huber_loss", "reduction delta", same_shape=True),
    "kl_div": Loss("kl_div"),
    "l1_loss": Loss("l1_loss", same_shape=True),
    "margin_ranking_loss": Loss("margin_ranking_loss", "margin reduction", _PAIRS),
    "mse_loss": Loss("mse_loss", same_shape=True),
    "multi_margin_loss": Loss("multi_margin_loss", "p margin weight reduction"),
    "multilabel_margin_loss": Loss("multilabel_margin_loss"),
    "nll_loss": Loss("nll_loss", "weight reduction ignore_index"),
    "nll_loss2d": Loss("nll_loss", "weight reduction ignore_index"),
    "nll_loss_nd": Loss("nll_loss", "weight reduction ignore_index"),
    "poisson_nll_loss": Loss("poisson_nll_loss", "log_input full eps reduction", complete=True),
    "smooth_l1_loss": Loss("smooth_l1_loss", "reduction beta", same_shape=True),
    "soft_margin_loss": Loss("soft_margin_loss"),
    "triplet_margin_loss": Loss(
        "triplet_margin_loss", "margin p eps swap reduction", "anchor positive negative"
    ),
}  # fmt: skip


def numbered(loss: Loss) -> Callable:
    """What an operator of a loss calls."""
    names = [*loss.tensors.split(), *loss.parameters.split()]

    def call(*args: Any, **named: Any) -> Any:
        named.update(zip(names, args, strict=False))
        if "self" in named:
            named["input"] = named.pop("self")
        named["reduction"] = REDUCTIONS[named.get("reduction", 1)]
        return getattr(torch().nn.functional, loss.function)(**named)

    return call
