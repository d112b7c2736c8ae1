"""Connectionist temporal classification: the likelihood of a sequence without an alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.dtype_sets import FULL
from rushlight.dispatch.registry import Array, composite, no_derivative, op

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


@op(
    name="_ctc_loss",
    node="CtcLossBackward0",
    method=False,
    out=False,
    outputs=("result", "log_alpha"),
)
def negative_log_likelihood(
    xp, log_probs: Array, targets: Array, input_lengths: list, target_lengths: list, blank: int,
    zero_infinity: bool,
):  # fmt: skip
    """(-log p of each target, the forward variables [N, T, 2 S + 1])."""
    loss, alpha = xp.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        loss = xp.where(xp.isinf(loss), 0, loss).astype(loss.dtype)
    return loss, alpha


negative_log_likelihood.grad(
    log_probs=lambda g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, log_alpha: (
        likelihood_gradient(
            g, log_probs, targets, input_lengths, target_lengths, log_alpha, blank, zero_infinity
        )
    )
)


@op(name="_ctc_loss_backward", method=False, out=False)
def likelihood_gradient(
    xp, grad_output: Array, log_probs: Array, targets: Array, input_lengths: list,
    target_lengths: list, log_alpha: Array, blank: int, zero_infinity: bool,
):  # fmt: skip
    """grad_output * (exp(log_probs) - the posterior of each class at each step).

    As in PyTorch: right for log_probs that come from log_softmax, through which exp(log_probs) adds
    nothing.
    """
    return xp.ctc_loss_gradient(
        grad_output,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        log_alpha,
        blank,
        zero_infinity,
    )


NOT_TWICE = no_derivative("_ctc_loss_backward")
likelihood_gradient.grad(grad_output=NOT_TWICE, log_probs=NOT_TWICE)


def lengths_of(lengths: Any, name: str, n: int, most: int | None) -> list:
    if hasattr(lengths, "_array"):
        if lengths.dtype.is_floating_point or lengths.dtype.is_complex:
            raise RuntimeError(f"{name} must be integral")
        lengths = lengths.reshape(-1).tolist()
    elif isinstance(lengths, int):
        raise TypeError(
            f"ctc_loss() received an invalid combination of arguments: '{name}' must be a tensor or a "
            "tuple of ints, not int"
        )
    lengths = [int(k) for k in lengths]
    if len(lengths) != n:
        raise RuntimeError(f"{name} must be of size batch_size: {n}, not {len(lengths)}")
    for k in lengths:
        if k < 0:
            raise RuntimeError(
                f"Expected {name} to have value at least 0, but got value {k} (while checking arguments "
                "for ctc_loss_allocate_outputs)"
            )
        if most is not None and k > most:
            raise RuntimeError(
                f"Expected {name} to have value at most {most}, but got value {k} (while checking "
                "arguments for ctc_loss_allocate_outputs)"
            )
    return lengths


def padded(targets: Tensor, lengths: list, n: int) -> Tensor:
    """The targets [N, S], also where they were given one after the other in a row."""
    longest = max(lengths, default=0)
    where = "for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
    if targets.ndim != 1:
        if targets.shape[0] != n:
            raise RuntimeError(
                f"Expected tensor to have size {n} at dimension 0, but got size {targets.shape[0]} {where}"
            )
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{targets.shape[1]} {where}"
            )
        return targets
    if targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size "
            f"{targets.shape[0]} {where}"
        )
    rows = targets.new_zeros((n, longest))
    at = 0
    for i, k in enumerate(lengths):
        rows[i, :k] = targets[at : at + k]
        at += k
    return rows


@composite(method=False, inplace=False)
def ctc_loss(
    log_probs: Array, targets: Array, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
):  # fmt: skip
    """As `nn.functional.ctc_loss`; `reduction`: 0 none, 1 mean, 2 sum."""
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    if not x.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    steps, n, classes = x.shape
    inputs = lengths_of(input_lengths, "input_lengths", n, steps)
    sizes = lengths_of(target_lengths, "target_lengths", n, None)
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: 0 to {classes - 1}, not {blank}")
    if x.dtype.np not in FULL:
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{x.dtype.scalar_name}'")
    rows = padded(targets.reshape(-1) if single else targets, sizes, n)
    loss = negative_log_likelihood(x, rows.long(), inputs, sizes, blank, zero_infinity)[0]
    if reduction == 1:
        return (loss / loss.new_tensor([max(k, 1) for k in sizes])).mean()
    if reduction == 2:
        return loss.sum()
    return loss.squeeze(0) if single else loss


@composite(where="nn.functional", name="ctc_loss", inplace=False)
def functional_ctc_loss(
    log_probs: Array, targets: Array, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
):  # fmt: skip
    """-log of the probability of all alignments of `targets` (Graves et al. 2006).

    log_probs [T, N, C] (or [T, C]): log_softmax of the classes, of which `blank` stands for none;
    targets [N, S], or all in one row; lengths [N]. "mean": each loss is divided by the length of its
    target first. `zero_infinity`: 0 where a target does not fit into its input.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS.index(reduction),
        zero_infinity,
    )  # fmt: skip
