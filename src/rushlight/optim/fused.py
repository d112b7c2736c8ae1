"""Steps of optimizers in machine code: one call for all parameters that share a rule and its numbers.

An optimizer's step is limited by memory. NumPy goes over the parameters a dozen times for one step of
Adam, a loop that reads and writes each array once needs a fraction of that. Rules are traced and
compiled by `_codegen/kernels/update.py`, which gives the numbers that NumPy gives, bit for bit.

Nothing depends on it. Without machine code, for a rule that computes what cannot be traced, and for
arrays that the loop does not take, NumPy runs the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight.autograd.state import active
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.tensor import INFERENCE, Tensor, _bump
from rushlight.optim import rules

_refused: set[tuple] = set()  # kinds of rules that could not be traced or compiled


def runner() -> Callable[..., None]:
    """The function that runs the rules of one step: `run(rule, tensors, *numbers)`; a `Batch` also needs `finish()`."""
    return Batch() if available() else counted


def available() -> bool:
    """True if rules run as machine code."""
    return llvm.active


def counted(rule: rules.Rule, tensors: tuple[Tensor | None, ...], *numbers: Any) -> None:
    """Run a rule by NumPy, and count it."""
    arrays = [None if t is None else t._array for t in tensors]
    llvm.work(arrays[0].size)
    rules.on_arrays(rule, arrays, numbers)


class Batch:
    """Parameters whose rule waits for `finish()`, or for a parameter with another rule."""

    __slots__ = ("rule", "numbers", "given", "dtype", "waiting")

    def __init__(self) -> None:
        self.rule: Any = None
        self.numbers: tuple = ()
        self.given: list[bool] = []
        self.dtype: Any = None
        self.waiting: list[list] = []

    def __call__(self, rule: rules.Rule, tensors: tuple[Tensor | None, ...], *numbers: Any) -> None:
        """Take the arrays of one parameter, the second of which is the gradient."""
        given = [t is not None for t in tensors]
        arrays = [t._array for t in tensors if t is not None]
        dtype = arrays[0].dtype
        if any(a.__class__ is not np.ndarray for a in arrays):  # another device runs the rule
            rules.on_arrays(rule, [None if t is None else t._array for t in tensors], numbers)
            return
        if (
            rule is not self.rule
            or numbers != self.numbers
            or dtype is not self.dtype
            or given != self.given
        ):
            self.finish()
            self.rule, self.numbers, self.dtype, self.given = rule, numbers, dtype, given
        self.waiting.append(arrays)

    def finish(self) -> None:
        """Run the rule for all waiting parameters."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        kind = (self.rule, self.dtype, *self.given)
        left = waiting
        if kind not in _refused:
            try:
                left = self._native(waiting)
            except Exception:
                # A rule of someone else's that computes more than stand-ins can, or an LLVM that
                # does not take what we write: NumPy runs it.
                _refused.add(kind)
            else:
                turned = [a for a in left if not a[0].flags.c_contiguous]  # channels last, say
                if turned:
                    views = [in_order(arrays) for arrays in turned]
                    refused = {id(v) for v in self._native(views)}
                    taken = [a for a, v in zip(turned, views, strict=True) if id(v) not in refused]
                    left = [a for a in left if not any(a is t for t in taken)]
        for arrays in left:
            rest = iter(arrays)
            full = [next(rest) if given else None for given in self.given]
            rules.on_arrays(self.rule, full, self.numbers)

    def _native(self, waiting: list[list]) -> list[list]:
        """Run the rule in machine code; returns the parameters that it did not take."""
        from rushlight._codegen.kernels import update

        if self.dtype not in FLOATING:
            return waiting
        rule, constants = update.prepared(self.rule, tuple(self.given), self.numbers, self.dtype)
        kernel = update.compiled(rule, self.dtype)
        flat = [a for arrays in waiting for a in arrays]
        refused = xp.empty(1 + len(waiting), np.int64)
        kernel(flat, np.ndarray, self.dtype, constants, refused, len(waiting))
        if not refused[0]:
            return []
        return [a for a, left in zip(waiting, refused[1:].tolist(), strict=True) if left]


def in_order(arrays: list) -> list:
    """Views of a parameter's arrays with the axes in memory order."""
    strides = arrays[0].strides
    axes = sorted(range(len(strides)), key=lambda k: -strides[k])
    return [a.transpose(axes) if a.ndim == len(axes) else a for a in arrays]


def lengths(tensors: list[Tensor]) -> np.ndarray | None:
    """The norms of contiguous tensors of one dtype in one call; None where they are not that."""
    if len(tensors) < 2 or not available():
        return None
    arrays = [t._array for t in tensors]
    d = arrays[0].dtype
    if d not in FULL or any(a.__class__ is not np.ndarray for a in arrays):
        return None
    from rushlight._codegen.kernels import update
    from rushlight._codegen.types import of

    arrays = [a if a.flags.c_contiguous else in_order([a])[0] for a in arrays]
    out = xp.empty(len(arrays), d)
    parts = xp.empty(max(a.size for a in arrays) // update.GRAIN + 1, d)
    update.lengths.compiled(T=of(d), R=of(d))(arrays, np.ndarray, d, parts, out, len(arrays))
    return None if (out < 0).any() else out


def changed(rule: rules.Rule, tensors: list[Tensor], *numbers: float) -> bool:
    """Run a rule of one array on tensors in place, in one call; False, and nothing done, where that is not
    for machine code."""
    if len(tensors) < 2 or not available():
        return False
    for t in tensors:
        plain = t._array.__class__ is np.ndarray and t._edge is None and t._counter is not INFERENCE
        if not plain or t._array.dtype not in FULL or active.modes:
            return False
    batch = Batch()
    for t in tensors:
        batch(rule, (t,), *numbers)
        _bump(t)
    batch.finish()
    return True
