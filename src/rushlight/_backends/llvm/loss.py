"""Losses of elements, and their gradients, as machine code; see llvm/elementwise.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.elementwise import Elementwise
from rushlight._backends.llvm.reduce import sum
from rushlight._backends.llvm.registration import implements
from rushlight._codegen import types
from rushlight._codegen.kernels import activations as of
from rushlight._codegen.kernels import reduce
from rushlight._codegen.kernels.loops import CHEAP
from rushlight.core.dtype_sets import FLOATING


@implements("squared_distance", dtypes=FLOATING, least=1024)
def squared_distance(a: Any, b: Any) -> Any:
    """The sum of (a - b)**2; of half types in float32."""
    if b.__class__ is not np.ndarray or b.dtype is not a.dtype or a.shape != b.shape:
        return NotImplemented
    if not (a.flags.carray and b.flags.carray):
        return NotImplemented
    t = types.of(a.dtype)
    assert t is not None
    parts = np.empty(-(-a.size // reduce.APART), t.loaded.np)
    reduce.squares_apart.compiled(T=t, R=t.loaded)(a, b, parts, a.size)
    return sum(parts, None, False) if parts.size > 1 else parts.reshape(())


smooth_l1 = implements("smooth_l1")(Elementwise(of.smooth_l1, 2, 1, CHEAP))
smooth_l1_gradient = implements("smooth_l1_gradient")(
    Elementwise(of.smooth_l1_gradient, 3, 1, CHEAP)
)
huber = implements("huber")(Elementwise(of.huber, 2, 1, CHEAP))
huber_gradient = implements("huber_gradient")(Elementwise(of.huber_gradient, 3, 1, CHEAP))
mse_gradient = implements("mse_gradient")(Elementwise(of.squared_error_gradient, 3, 1, CHEAP))
bce_with_logits = implements("bce_with_logits")(Elementwise(of.logit_entropy, 2))
bce_with_logits_gradient = implements("bce_with_logits_gradient")(
    Elementwise(of.logit_entropy_gradient, 3)
)
binary_cross_entropy = implements("binary_cross_entropy")(Elementwise(of.binary_entropy, 2))
binary_cross_entropy_gradient = implements("binary_cross_entropy_gradient")(
    Elementwise(of.binary_entropy_gradient, 3)
)
