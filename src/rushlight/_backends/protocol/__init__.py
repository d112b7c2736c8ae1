"""What a back end must have: the contract between operators and the arrays that they compute on.

A back end is a class of arrays (`Array`) and a namespace of kernels, an object whose attributes are
functions: `rushlight._backends.devices.register(type, kernels, *classes)` makes it known. Operators call
these kernels, and methods of arrays, and nothing else.

- `primitives.py`: the kernels that every back end must have.
- The other files: fused kernels. A back end has them where it is faster by them; those that
  `_backends/compose.py` composes of primitives come from there otherwise.

Unless its sentence says otherwise, a kernel takes arrays of one dtype, its own back end's, after promotion;
arrays broadcast in elementwise kernels; a result is a new array that shares no memory with an argument; an
elementwise kernel of one or two arrays also takes `out=`, an array that it writes its result to. A Python
number stands for an array of no dimensions in the dtype of the others. float16 and bfloat16 are computed in
float32 and rounded once. Errors are raised as PyTorch raises them for the CPU.

Nothing that computes imports this package: it is for readers, type checkers, scripts/index.py and
tests/test_backends.py, which holds it against `reference/`.
"""

from __future__ import annotations

from typing import Protocol

from rushlight._backends.protocol.array import Array, Dtype
from rushlight._backends.protocol.elementwise import Elementwise
from rushlight._backends.protocol.layout import Layout
from rushlight._backends.protocol.networks import Networks
from rushlight._backends.protocol.primitives import Primitives
from rushlight._backends.protocol.random import Random


class Kernels(Primitives, Elementwise, Layout, Networks, Random, Protocol):
    """All kernels of a back end."""


PRIMITIVES = frozenset(name for name in vars(Primitives) if not name.startswith("_"))
KERNELS = {
    name: function
    for part in Kernels.__mro__
    for name, function in vars(part).items()
    if not name.startswith("_")
}

__all__ = ["KERNELS", "PRIMITIVES", "Array", "Dtype", "Kernels", "Primitives"]
