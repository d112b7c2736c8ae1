"""The CTC loss as machine code; see `__init__.py` for when it runs, `_codegen/kernels/ctc.py` for how.

float32 and float64, C-contiguous or copied so; targets of int64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import ctc as reference
from rushlight._codegen.kernels import ctc as kernels
from rushlight.core.dtype_sets import F64, FULL, I64

_losses = Compiled(kernels.ctc_loss)
_gradients = Compiled(kernels.ctc_loss_gradient)


def walked(x: Any, targets: Any, heard: list, lengths: list, blank: int) -> tuple | None:
    """(classes of places, whether two may be gone at once, lengths of inputs, of targets) as kernels take
    them; None for what is the reference's, which says what is wrong."""
    if (
        not x.__class__ is targets.__class__ is np.ndarray
        or x.dtype not in FULL
        or targets.dtype is not I64
        or x.ndim != 3
        or targets.ndim != 2
        or not x.size
        or not len(heard) == len(lengths) == len(targets) == x.shape[1]
        or not 0 <= blank < x.shape[2]
        or not 0 <= min(heard) <= max(heard) <= x.shape[0]
        or not 0 <= min(lengths) <= max(lengths) <= targets.shape[1]
    ):
        return None
    said = np.array(lengths, np.int64)
    used = np.arange(targets.shape[1]) < said[:, None]
    targets = np.where(used, targets, blank)
    if targets.size and (targets.min() < 0 or targets.max() >= x.shape[2]):
        return None
    at, jump = reference.places_of(targets, blank)
    return at, jump, np.array(heard, np.int64), said


@implements("ctc_loss")
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: list, target_lengths: list, blank: int
) -> tuple[Any, Any]:
    """(-log p [N], the forward variables [N, T, 2 S + 1])."""
    plan = walked(log_probs, targets, input_lengths, target_lengths, blank)
    if plan is None:
        return reference.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank)
    steps, n, count = log_probs.shape
    places = plan[0].shape[1]
    losses, alpha = np.empty(n, log_probs.dtype), np.empty((n, steps, places))
    space = np.empty(n * (kernels.EDGE + places))
    kernel = _losses[(log_probs.dtype,)]
    kernel(in_order(log_probs), *plan, losses, alpha, space, steps, n, count, places)
    return losses, alpha


@implements("ctc_loss_gradient")
def ctc_loss_gradient(
    g: Any, log_probs: Any, targets: Any, input_lengths: list, target_lengths: list, alpha: Any,
    blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    """g * (exp(log_probs) - posterior), zeros after the end of each input."""
    plan = walked(log_probs, targets, input_lengths, target_lengths, blank)
    if (
        plan is None
        or not g.__class__ is alpha.__class__ is np.ndarray
        or g.dtype is not log_probs.dtype
        or g.shape != log_probs.shape[1:2]
        or alpha.dtype is not F64
        or alpha.shape != (log_probs.shape[1], log_probs.shape[0], plan[0].shape[1])
    ):
        return reference.ctc_loss_gradient(
            g, log_probs, targets, input_lengths, target_lengths, alpha, blank, zero_infinity
        )
    steps, n, count = log_probs.shape
    places = plan[0].shape[1]
    at, jump, heard, said = plan
    jump = np.concatenate([jump.reshape(-1), np.zeros(kernels.EDGE, bool)])
    out = np.empty(log_probs.shape, log_probs.dtype)
    space = np.empty(n * (2 * (places + kernels.EDGE) + places + count))
    kernel = _gradients[bool(zero_infinity), log_probs.dtype]
    x, h, a = in_order(log_probs), in_order(g), in_order(alpha)
    kernel(h, x, at, jump, heard, said, a, out, space, steps, n, count, places)
    return out
