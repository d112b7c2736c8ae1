"""Gradient rules as one kernel where a backward is not recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor, _wrap

FLOATS = frozenset(d.np for d in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64))

NUMBERS = frozenset(
    (float, int, bool, type(None))
)  # known to be no tensors: the check takes a while


def fused(kernel: str, rule: Callable, g: Tensor, *args: Any) -> Any:
    """`rule(g, *args)`, by the back end's kernel of the same arguments where nothing is recorded.

    With `create_graph` the rule, in operators, is what can be differentiated again; modes see its
    operators; and it takes whatever is no array.
    """
    if not thread.grad and not active.modes:
        a = g._array
        if a.__class__ is np.ndarray and a.dtype in FLOATS:
            d, arrays = a.dtype, [a]
            for each in args:
                kind = each.__class__
                if kind is Tensor or (kind not in NUMBERS and isinstance(each, Tensor)):
                    each = each._array
                    if each.__class__ is not np.ndarray or each.dtype is not d:
                        return rule(g, *args)
                arrays.append(each)
            try:
                r = getattr(xp, kernel)(*arrays)
            except RuntimeWarning:  # warnings are errors: the rule's operators know how to hush
                return rule(g, *args)
            return _wrap(r if r.__class__ is np.ndarray else np.asarray(r))
    return rule(g, *args)
