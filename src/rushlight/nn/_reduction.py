"""`torch.nn._reduction`: how losses written for PyTorch turn their words into numbers."""

from __future__ import annotations

import warnings
from typing import Any


def get_enum(reduction: str) -> int:
    """0 none, 1 mean, 2 sum; ValueError for other words."""
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
        return 1
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ("none", "mean", "sum").index(reduction)


def legacy_get_string(size_average: Any, reduce: Any, emit_warning: bool = True) -> str:
    """The word for the two older arguments."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    word = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{word}' instead.",
            stacklevel=2,
        )
    return word


def legacy_get_enum(size_average: Any, reduce: Any, emit_warning: bool = True) -> int:
    """The number for the two older arguments."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
