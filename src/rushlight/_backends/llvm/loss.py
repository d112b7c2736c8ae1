"""Losses of elements, and their gradients, as machine code; see llvm/elementwise.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import pointwise_of_several
from rushlight._backends.llvm.operands import takes
from rushlight._backends.llvm.reduce import sum
from rushlight._backends.reference import loss as reference
from rushlight._codegen import types
from rushlight._codegen.kernels import activations as of
from rushlight._codegen.kernels import reduce
from rushlight._codegen.kernels.loops import CHEAP


def squared_distance(a: Any, b: Any) -> Any:
    """The sum of (a - b)**2; of half types in float32."""
    if not takes(a) or b.__class__ is not np.ndarray or b.dtype is not a.dtype:
        return reference.squared_distance(a, b)
    if a.shape != b.shape or not (a.flags.carray and b.flags.carray):
        return reference.squared_distance(a, b)
    t = types.of(a.dtype)
    assert t is not None
    parts = np.empty(-(-a.size // reduce.APART), t.loaded.np)
    reduce.squares_apart.compiled(T=t, R=t.loaded)(a, b, parts, a.size)
    return sum(parts, None, False) if parts.size > 1 else parts.reshape(())


smooth_l1 = pointwise_of_several(of.smooth_l1, reference.smooth_l1, 2, 1, CHEAP)
smooth_l1_gradient = pointwise_of_several(
    of.smooth_l1_gradient, reference.smooth_l1_gradient, 3, 1, CHEAP
)
huber = pointwise_of_several(of.huber, reference.huber, 2, 1, CHEAP)
huber_gradient = pointwise_of_several(of.huber_gradient, reference.huber_gradient, 3, 1, CHEAP)
mse_gradient = pointwise_of_several(of.squared_error_gradient, reference.mse_gradient, 3, 1, CHEAP)
bce_with_logits = pointwise_of_several(of.logit_entropy, reference.bce_with_logits)
bce_with_logits_gradient = pointwise_of_several(
    of.logit_entropy_gradient, reference.bce_with_logits_gradient, 3
)
binary_cross_entropy = pointwise_of_several(of.binary_entropy, reference.binary_cross_entropy)
binary_cross_entropy_gradient = pointwise_of_several(
    of.binary_entropy_gradient, reference.binary_cross_entropy_gradient, 3
)
