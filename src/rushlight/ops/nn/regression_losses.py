"""Losses that compare numbers with numbers: squared and absolute errors, divergences.

Most are compositions of operators; those with a node of their own in PyTorch (`HuberLossBackward0`...)
are one operator that gives the elements' losses, and its `reduced_form`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import dtypes, settings
from rushlight.dispatch.registry import Array, composite, elementwise, op
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.nn.loss import REDUCTIONS, reduced, reduction_of, weighted


def same_sizes(input: Any, target: Any) -> None:
    """Warn where broadcasting is probably a mistake, as PyTorch does."""
    if input.shape != target.shape:
        settings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
            "same size."
        )


def in_dtype_of(input: Any, loss: Any) -> Any:
    """The losses of the elements in the dtype of `input`, as some functions give them whatever the target's is."""
    if loss.dtype is input.dtype:
        return loss
    if not dtypes.can_cast(loss.dtype, input.dtype):
        raise RuntimeError(
            f"result type {loss.dtype.scalar_name} can't be cast to the desired output type "
            f"{input.dtype.scalar_name}"
        )
    return loss.to(input.dtype)


def scaled(g: Any, input: Any, reduction: str) -> Any:
    return g / input.numel() if reduction == "mean" else g


def scaled_array(xp: Any, g: Any, n: int, reduction: str) -> Any:
    """`scaled` of arrays; half types are divided in float32."""
    if reduction != "mean":
        return g
    half = g.dtype.itemsize < 4
    return xp.asarray(xp.with_wide_number(xp.divide, g, n) if half else xp.divide(g, n))


def reduced_form(elements: Any) -> Any:
    """The operator that gives the mean or the sum of an operator's losses of elements, which is one node in PyTorch.

    It takes floating tensors of one shape and dtype. `settings`: what `elements` takes after the tensors.
    """
    inner = elements.op

    @op(where="nn.functional", name=f"_reduced{inner.name}", node=inner.node_name(), out=False)
    def total(xp, input: Array, target: Array, reduction: str, settings: tuple):
        losses = inner.declared(xp, input, target, *settings)
        return xp.asarray((xp.mean if reduction == "mean" else xp.sum)(losses, None, False))

    def declare(wrt: str, of_elements: Any) -> None:
        def arguments(names: Any, g: Any, input: Any, target: Any, settings: tuple) -> list:
            values = {"g": g, "input": input, "target": target}
            values.update(zip(inner.statics, settings, strict=True))
            return [values[n] for n in names]

        def rule(g: Any, input: Any, target: Any, reduction: str, settings: tuple) -> Any:
            g = scaled(g, input, reduction)
            return of_elements.function(*arguments(of_elements.names, g, input, target, settings))

        def kernel(
            xp: Any, g: Any, input: Any, target: Any, reduction: str, settings: tuple
        ) -> Any:
            found, g = of_elements.kernel, scaled_array(xp, g, input.size, reduction)
            values = arguments(of_elements.kernel_names, g, input, target, settings)
            return found(xp, *values) if callable(found) else getattr(xp, found)(*values)

        total.grad(**{wrt: rule}, kernel=kernel if of_elements.kernel else None)

    for wrt, of_elements in inner.rules.items():
        declare(wrt, of_elements)
    return total


def loss_of(
    elements: Any, total: Any, input: Any, target: Any, reduction: str, *numbers: Any
) -> Any:
    """The losses of the elements as they are, or reduced, where they can be by their `reduced_form`, `total`."""
    matching = input.dtype is target.dtype and input.shape == target.shape
    one = matching and input.dtype.is_floating_point and input.numel()
    if (
        not one
        or reduction not in ("mean", "sum")
        or any(isinstance(n, np.generic) for n in numbers)
    ):
        return reduced(elements(input, target, *numbers), reduction)
    return total(input, target, reduction, numbers)


# -- squared error ---------------------------------------------------------------------------------


@op(where="nn.functional", name="_mse_loss", node="MseLossBackward0", out=False)
def squared_error(xp, input: Array, target: Array, reduction: str):
    """(x - y)**2, summed or averaged: one pass over both."""
    d = input.dtype
    if reduction == "none":
        if d.itemsize < 4:
            losses = xp.square(input.astype("f") - target.astype("f")).astype(d)
        else:
            losses = xp.square(xp.subtract(input, target))
        return xp.laid_out(losses, input, target)
    total = xp.squared_distance(input, target)
    if reduction == "mean":
        total = total / total.dtype.type(input.size) if input.size else total.dtype.type("nan")
    return xp.asarray(total, d)


def squared_error_rule(g: Any, input: Any, target: Any, reduction: str) -> Any:
    factor = 2 / (input.numel() or 1) if reduction == "mean" else 2.0
    return g * (input - target) * factor


def squared_error_gradient(xp, g, input, target, reduction):
    factor = 2 / (input.size or 1) if reduction == "mean" else 2.0
    return xp.mse_gradient(g, input, target, factor)


squared_error.grad(input=squared_error_rule, kernel=squared_error_gradient)
squared_error.grad(
    target=lambda g, input, target, reduction: squared_error_rule(g, target, input, reduction),
    kernel=lambda xp, g, input, target, reduction: squared_error_gradient(
        xp, g, target, input, reduction
    ),
)


def paired(input: Any, target: Any) -> tuple[Any, Any]:
    """Both broadcast to one shape and promoted to one dtype."""
    import rushlight

    if input.dtype is not target.dtype:
        d = rushlight.promote_types(input.dtype, target.dtype)
        input, target = input.to(d), target.to(d)
    if input.shape != target.shape:
        input, target = rushlight.broadcast_tensors(input, target)
    return input, target


@composite(where="nn.functional", inplace=False)
def mse_loss(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Array | None = None,
):  # fmt: skip
    """The mean (or sum) of the squared differences; `weight`: of each element."""
    same_sizes(input, target)
    reduction = reduction_of(size_average, reduce, reduction)
    input, target = paired(input, target)
    if weight is not None:
        return weighted((input - target) ** 2, weight, reduction)
    if not (input.dtype.is_floating_point):
        raise NotImplementedError(f"\"mse_cpu\" not implemented for '{input.dtype.scalar_name}'")
    return squared_error(input, target, reduction)


# -- absolute errors -------------------------------------------------------------------------------


@composite(where="nn.functional", inplace=False)
def l1_loss(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Array | None = None,
):  # fmt: skip
    """The mean absolute error: the mean (or sum) of |x - y|."""
    same_sizes(input, target)
    reduction = reduction_of(size_average, reduce, reduction)
    return weighted((input - target).abs(), weight, reduction)


@elementwise(
    where="nn.functional", name="_smooth_l1_loss", node="SmoothL1LossBackward0", accepts="f",
    inplace=False, holomorphic=False, out=False,
)  # fmt: skip
def smooth_error(xp, input: Array, target: Array, beta: float):
    return xp.smooth_l1(input, target, beta)


def smooth_rule(g: Any, input: Any, target: Any, beta: float) -> Any:
    d = input - target
    return g * (d / beta).clamp(-1, 1) if beta else g * d.sign()


smooth_error.grad(input=smooth_rule, kernel="smooth_l1_gradient")
smooth_error.grad(
    target=lambda g, target, input, beta: smooth_rule(g, target, input, beta),
    kernel="smooth_l1_gradient",
)
reduced_smooth_error = reduced_form(smooth_error)


@composite(where="nn.functional", inplace=False)
def smooth_l1_loss(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
):  # fmt: skip
    """Squared below `beta`, absolute above (Girshick 2015)."""
    same_sizes(input, target)
    reduction = reduction_of(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return loss_of(smooth_error, reduced_smooth_error, input, target, reduction, beta)


@elementwise(
    where="nn.functional", name="_huber_loss", node="HuberLossBackward0", accepts="f", inplace=False,
    out=False,
)  # fmt: skip
def huber_error(xp, input: Array, target: Array, delta: float):
    return xp.huber(input, target, delta)


def huber_rule(g: Any, input: Any, target: Any, delta: float) -> Any:
    return g * (input - target).clamp(-delta, delta)


huber_error.grad(input=huber_rule, kernel="huber_gradient")
huber_error.grad(
    target=lambda g, target, input, delta: huber_rule(g, target, input, delta),
    kernel="huber_gradient",
)
reduced_huber_error = reduced_form(huber_error)


@composite(where="nn.functional", inplace=False)
def huber_loss(
    input: Array, target: Array, reduction: str = "mean", delta: float = 1.0,
    weight: Array | None = None,
):  # fmt: skip
    """Squared within `delta`, linear beyond (Huber 1964)."""
    same_sizes(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is None and input.dtype is target.dtype:
        return loss_of(huber_error, reduced_huber_error, input, target, reduction, delta)
    return weighted(in_dtype_of(input, huber_error(input, target, delta)), weight, reduction)


# -- cross entropies of yes and no -----------------------------------------------------------------


@elementwise(
    where="nn.functional", name="_binary_cross_entropy", node="BinaryCrossEntropyBackward0", accepts="f",
    inplace=False, out=False,
)  # fmt: skip
def binary_entropy(xp, input: Array, target: Array):
    """-(y log x + (1 - y) log(1 - x)), each logarithm at least -100."""
    losses = xp.binary_cross_entropy(input, target)
    if losses is None:
        raise RuntimeError("all elements of input should be between 0 and 1")
    return losses


binary_entropy.grad(
    input=lambda g, input, target: g * (input - target) / ((1 - input) * input).clamp(min=1e-12),
    kernel=lambda xp, g, input, target: xp.binary_cross_entropy_gradient(input, target, g),
)
binary_entropy.grad(
    target=lambda g, input: g * ((1 - input).log().clamp(min=-100) - input.log().clamp(min=-100)),
    kernel=lambda xp, g, input: xp.binary_cross_entropy_target_gradient(input, g),
)
reduced_binary_entropy = reduced_form(binary_entropy)


@composite(where="nn.functional", inplace=False)
def binary_cross_entropy(
    input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
):  # fmt: skip
    """The cross entropy of probabilities `input` in [0, 1] and targets of the same shape."""
    reduction = reduction_of(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if input.dtype is not target.dtype:
        raise RuntimeError(
            f"Found dtype {target.dtype.scalar_name} but expected {input.dtype.scalar_name}"
        )
    if weight is None:
        return loss_of(binary_entropy, reduced_binary_entropy, input, target, reduction)
    loss = binary_entropy(input, target)
    return reduced(loss * weight.expand(loss.shape), reduction)


@elementwise(
    where="nn.functional", name="_bce_with_logits", node="BinaryCrossEntropyWithLogitsBackward0",
    accepts="f", inplace=False, out=False, operands=("target", "input"),
)  # fmt: skip
def bce_with_logits_loss(xp, input: Array, target: Array):
    """max(x, 0) - x y + log(1 + exp(-|x|))."""
    return xp.bce_with_logits(input, target)


def bce_with_logits_loss_rule(g: Any, input: Any, target: Any) -> Any:
    return g * (input.sigmoid() - target)


bce_with_logits_loss.grad(input=bce_with_logits_loss_rule, kernel="bce_with_logits_gradient")
bce_with_logits_loss.grad(target=lambda g, input: -g * input)
reduced_bce_with_logits = reduced_form(bce_with_logits_loss)


@composite(where="nn.functional", inplace=False)
def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Array | None = None,
):  # fmt: skip
    """The cross entropy of sigmoid(input) and `target`, stably; `pos_weight`: weight of positives."""
    reduction = reduction_of(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    if not (target.dtype.is_floating_point or target.dtype.is_complex):
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type "
            f"{target.dtype.scalar_name}: the target must be floating-point, target.float()"
        )
    if input.dtype.is_complex:
        raise NotImplementedError(
            f"\"log_sigmoid_cpu\" not implemented for '{input.dtype.scalar_name}'"
        )
    if weight is None and pos_weight is None:
        return loss_of(bce_with_logits_loss, reduced_bce_with_logits, input, target, reduction)
    from rushlight.ops.nn.activation import log_sigmoid

    softened = -log_sigmoid(input)  # log(1 + exp(-x))
    if pos_weight is None:
        loss = (1 - target) * input + softened
    else:
        loss = (1 - target) * input + ((pos_weight - 1) * target + 1) * softened
    return reduced(loss if weight is None else loss * weight, reduction)


# -- divergences and likelihoods -------------------------------------------------------------------


@composite(where="nn.functional", inplace=False)
def kl_div(
    input: Array, target: Array, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
):  # fmt: skip
    """The divergence of `target` from exp(input): target * (log(target) - input)."""
    if size_average is None and reduce is None and reduction == "mean":
        settings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. "
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition. "
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    reduction = reduction_of(size_average, reduce, reduction, (*REDUCTIONS, "batchmean"))
    for t in (input, target):
        if not t.dtype.is_floating_point:
            kind = "Complex" if t.dtype.is_complex else "Integral"
            raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduced(loss, reduction)


@composite(where="nn.functional", inplace=False)
def poisson_nll_loss(
    input: Array, target: Array, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
):  # fmt: skip
    """-log of a Poisson probability, up to a constant unless `full` (Stirling's formula)."""
    reduction = reduction_of(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


@composite(where="nn.functional", inplace=False)
def gaussian_nll_loss(
    input: Array, target: Array, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
):  # fmt: skip
    """-log of a normal density of `target` with mean `input` and variance `var` (at least eps)."""
    import rushlight

    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * rushlight.ones_like(input)
    elif not var.is_meta and somewhere(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (
            (input.ndim == var.ndim and input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1)
            or var.numel() == 1
            or _broadcasts(var.shape, input.shape)
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    with rushlight.no_grad():
        floor = var.detach().clamp(min=eps) - var.detach()
    var = var + floor  # at least eps, with the gradient of var
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def _broadcasts(shape: Any, to: Any) -> bool:
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))
