"""Losses of elements, and their gradients, as machine code; see compiled_elementwise.py."""

from __future__ import annotations

from rushlight.backends import numpy_loss as reference
from rushlight.backends.compiled_elementwise import pointwise_of_several
from rushlight.compiler.kernels import activations as of
from rushlight.compiler.kernels.loops import CHEAP

smooth_l1 = pointwise_of_several(of.smooth_l1, reference.smooth_l1, 2, 1, CHEAP)
smooth_l1_gradient = pointwise_of_several(
    of.smooth_l1_gradient, reference.smooth_l1_gradient, 3, 1, CHEAP
)
huber = pointwise_of_several(of.huber, reference.huber, 2, 1, CHEAP)
huber_gradient = pointwise_of_several(of.huber_gradient, reference.huber_gradient, 3, 1, CHEAP)
squared_error_gradient = pointwise_of_several(
    of.squared_error_gradient, reference.squared_error_gradient, 3, 1, CHEAP
)
logit_entropy = pointwise_of_several(of.logit_entropy, reference.logit_entropy)
logit_entropy_gradient = pointwise_of_several(
    of.logit_entropy_gradient, reference.logit_entropy_gradient, 3
)
binary_entropy = pointwise_of_several(of.binary_entropy, reference.binary_entropy)
binary_entropy_gradient = pointwise_of_several(
    of.binary_entropy_gradient, reference.binary_entropy_gradient, 3
)
