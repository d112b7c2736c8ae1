"""Symbolic sizes and control flow of PyTorch's graph compiler: in Rushlight plain numbers and plain Python.

Sizes are always numbers, so `SymInt` has no instances; programs ask `isinstance(n, (int, torch.SymInt))`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight.core.stub import stub
from rushlight.dispatch.overrides import overridable

__all__ = [
    "SymBool", "SymFloat", "SymInt", "cond", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
    "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "while_loop",
]  # fmt: skip


class _NeverMade:
    def __init__(self, *args: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be made: sizes are plain numbers in Rushlight"
        )


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymInt(_NeverMade):
    """A symbolic integer; it has no instances."""


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymFloat(_NeverMade):
    """A symbolic float; it has no instances."""


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymBool(_NeverMade):
    """A symbolic bool; it has no instances."""


@overridable
def sym_int(a: Any) -> int:
    """`int(a)`, rounded towards zero."""
    return int(a)


@overridable
def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


@overridable
def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def _with_float(found: Any, a: Any, b: Any) -> Any:
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


@overridable
def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float when one of them is a float.

    >>> import rushlight as torch
    >>> torch.sym_max(3, 2), torch.sym_max(3, 2.0)
    (3, 3.0)
    """
    return _with_float(max(a, b), a, b)


@overridable
def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float when one of them is a float."""
    return _with_float(min(a, b), a, b)


@overridable
def sym_sum(args: Sequence[Any]) -> Any:
    """`sum(args)`."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


@overridable
def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`, which must be of one type."""
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: {t!r} and {f!r} are of different types")
    return t if b else f


@stub("identity", "Sizes are plain numbers.")
def sym_fresh_size(expr: Any) -> Any:
    """`expr`."""
    return expr


def _truth(value: Any, what: str) -> bool:
    if isinstance(value, bool):
        return value
    if hasattr(value, "numel") and value.numel() == 1 and value.dtype.name == "bool":
        return bool(value)
    raise RuntimeError(
        f"{what} must be a boolean or a boolean tensor with one element, got {value!r}"
    )


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`; only one of them runs.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, -2.0])
    >>> torch.cond(x.sum() > 0, torch.exp, torch.neg, (x,))
    tensor([-1.,  2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(
            f"Expect both branches to be callable, got {type(true_fn).__name__} and {type(false_fn).__name__} (cond)"
        )
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of tensors, got {operands!r} (cond)")
    return (true_fn if _truth(pred, "cond: pred") else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """Repeat `carried = body_fn(*carried)` while `cond_fn(*carried)`; returns the last `carried`.

    >>> import rushlight as torch
    >>> torch.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), torch.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable (while_loop)")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or a list, got {carried_inputs!r}")
    carried = tuple(carried_inputs)
    while _truth(cond_fn(*carried), "while_loop: what cond_fn returns"):
        made = body_fn(*carried)
        if not isinstance(made, (tuple, list)) or len(made) != len(carried):
            raise RuntimeError(
                f"body_fn should return a tuple of {len(carried)} values as carried_inputs has, got {made!r} (while_loop)"
            )
        carried = tuple(made)
    return carried
