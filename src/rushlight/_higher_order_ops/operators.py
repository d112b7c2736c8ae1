"""`torch.ops.higher_order`: operators that take functions, as nodes of graphs call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._higher_order_ops import control_flow
from rushlight._ops import DispatchKey, HigherOrderOperator

__all__ = ["cond"]


class Cond(HigherOrderOperator):
    """`true_fn(*operands)` or `false_fn(*operands)`, as `pred` says."""

    def __call__(self, pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
        return super().__call__(pred, true_fn, false_fn, operands)


cond = Cond("cond")
cond.py_impl(DispatchKey.CompositeImplicitAutograd)(control_flow.cond)
