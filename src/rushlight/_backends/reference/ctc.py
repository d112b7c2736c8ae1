"""Kernels of the CTC loss: forward and backward variables, all sequences and places at once.

A target of S classes is walked through 2 S + 1 places, a blank before, between and after them
(Graves et al. 2006, equations 6 to 11). Computed in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KERNELS = "ctc_loss ctc_loss_gradient".split()


def places_of(targets: Any, blank: int) -> tuple[Any, Any]:
    """(class at each place [N, 2 S + 1], whether it may be reached from two places before)."""
    n, s = targets.shape
    at = np.full((n, 2 * s + 1), blank, np.int64)
    at[:, 1::2] = targets
    jump = np.zeros(at.shape, bool)
    jump[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    return at, jump


def emissions(log_probs: Any, at: Any) -> Any:
    """The log probability of each place at each step: [T, N, 2 S + 1]."""
    return np.take_along_axis(log_probs, at[None], 2).astype(np.float64)


def moved(a: Any, k: int) -> Any:
    """`a` moved `k` places along its last dimension, -inf where nothing comes from."""
    r = np.full(a.shape, -np.inf)
    if k > 0:
        r[:, k:] = a[:, :-k]
    else:
        r[:, :k] = a[:, -k:]
    return r


def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: list, target_lengths: list, blank: int
) -> tuple[Any, Any]:
    """(-log p [N], the forward variables [N, T, 2 S + 1], -inf behind the end of an input)."""
    steps, n, classes = log_probs.shape
    lengths = np.array(target_lengths)
    used = np.arange(targets.shape[1]) < lengths[:, None]
    targets = np.where(used, targets, blank)
    if targets.size and (targets.min() < 0 or targets.max() >= classes):
        raise RuntimeError(f"[ctc_loss] a target is not one of the {classes} classes")
    at, jump = places_of(targets, blank)
    emitted = emissions(log_probs, at)
    alpha = np.full((steps, n, at.shape[1]), -np.inf)
    alpha[0, :, 0] = emitted[0, :, 0]
    if at.shape[1] > 1:
        alpha[0, :, 1] = np.where(lengths > 0, emitted[0, :, 1], -np.inf)
    for t in range(1, steps):
        a = alpha[t - 1]
        r = np.logaddexp(a, moved(a, 1))
        if jump.any():
            r = np.where(jump, np.logaddexp(r, moved(a, 2)), r)
        alpha[t] = r + emitted[t]
    rows = np.arange(n)
    last = alpha[np.maximum(np.array(input_lengths) - 1, 0), rows]
    end = last[rows, 2 * lengths]
    some = lengths > 0
    end = np.where(some, np.logaddexp(end, last[rows, np.maximum(2 * lengths - 1, 0)]), end)
    none = np.array(input_lengths) == 0  # nothing was heard: only nothing could be said
    end = np.where(none, np.where(some, -np.inf, 0.0), end)
    alpha[np.arange(steps)[:, None] >= np.array(input_lengths)] = -np.inf
    dtype = log_probs.dtype
    return (-end).astype(dtype), alpha.swapaxes(0, 1)


def ctc_loss_gradient(
    g: Any, log_probs: Any, targets: Any, input_lengths: list, target_lengths: list, alpha: Any,
    blank: int, zero_infinity: bool,
) -> Any:  # fmt: skip
    """g * (exp(log_probs) - posterior), zeros after the end of each input."""
    steps, n, classes = log_probs.shape
    lengths, heard = np.array(target_lengths), np.array(input_lengths)
    used = np.arange(targets.shape[1]) < lengths[:, None]
    at, jump = places_of(np.where(used, targets, blank), blank)
    emitted = emissions(log_probs, at)
    alpha = alpha.swapaxes(0, 1)
    rows = np.arange(n)
    last = alpha[np.maximum(heard - 1, 0), rows]
    end = last[rows, 2 * lengths]
    some = lengths > 0
    before = np.maximum(2 * lengths - 1, 0)
    total = np.where(some, np.logaddexp(end, last[rows, before]), end)
    ahead = np.zeros(jump.shape, bool)  # the place two further on may be reached from here
    ahead[:, :-2] = jump[:, 2:]
    beta = np.full(last.shape, -np.inf)
    posterior = np.empty((steps, *last.shape))
    for t in range(steps - 1, -1, -1):
        r = np.logaddexp(beta, moved(beta, -1))
        r = np.where(ahead, np.logaddexp(r, moved(beta, -2)), r)
        beta = r + emitted[t]
        starts = heard - 1 == t
        if starts.any():
            first = np.full(beta.shape, -np.inf)
            first[rows, 2 * lengths] = emitted[t, rows, 2 * lengths]
            first[rows[some], before[some]] = emitted[t, rows[some], before[some]]
            beta = np.where(starts[:, None], first, beta)
        posterior[t] = np.exp(alpha[t] + beta - emitted[t] - total[:, None])
    # a class of probability 0 is at no place of a possible path: -inf - -inf would be NaN
    posterior[(alpha == -np.inf) & np.isfinite(total)[:, None]] = 0
    posterior[(emitted == -np.inf) & np.isfinite(total)[:, None]] = 0
    of_class = (at[:, :, None] == np.arange(classes)).astype(np.float64)
    r = np.exp(log_probs.astype(np.float64))
    r -= (posterior.swapaxes(0, 1) @ of_class).swapaxes(0, 1)
    r *= g[:, None]
    r[np.arange(steps)[:, None] >= heard] = 0
    if zero_infinity:
        r[:, np.isneginf(total)] = 0
    return r.astype(log_probs.dtype)
