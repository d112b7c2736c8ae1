"""What a back end must have: the contract between operators and the arrays that they compute on.

A back end is a class of arrays (`Array`) and a namespace of kernels, an object whose attributes are
functions: `rushlight._backends.devices.register(type, kernels, *classes)` makes it known. Operators call
these kernels, and methods of arrays, and nothing else.

- `primitives.py`: the kernels that every back end must have, with types.
- `NUMPY_FUNCTIONS`, below: kernels that mean what NumPy's functions of these names mean.
- All others are fused kernels, under the names in `_backends/index.py` (`REFERENCE`). The functions of these
  names in `_backends/reference/` state them: signature, docstring, and the values for every dtype. The type of
  an array is `Any` or `np.ndarray` there. A back end has them where it is faster by them; those that
  `_backends/compose.py` composes of primitives come from there otherwise.

A file of `reference/` lists its kernels in `KERNELS`; scripts/index.py makes `REFERENCE` of that.

Unless its sentence says otherwise, a kernel takes arrays of one dtype, its own back end's, after promotion;
arrays broadcast in elementwise kernels; a result is a new array that shares no memory with an argument; an
elementwise kernel of one or two arrays also takes `out=`, an array that it writes its result to. A Python
number stands for an array of no dimensions in the dtype of the others. float16 and bfloat16 are computed in
float32 and rounded once. Errors are raised as PyTorch raises them for the CPU.

Nothing that computes imports this package: it is for readers, type checkers and tests/test_backends.py,
which holds it against `reference/`.
"""

from __future__ import annotations

from rushlight._backends.index import REFERENCE
from rushlight._backends.protocol.array import Array, Dtype
from rushlight._backends.protocol.primitives import Primitives

PRIMITIVES = frozenset(name for name in vars(Primitives) if not name.startswith("_"))
NUMPY_FUNCTIONS = frozenset(
    "arccos arccosh arcsin arcsinh arctan arctanh cosh dtype exp2 fmax fmin gcd greater greater_equal lcm log10 "
    "log2 logical_and logical_or logical_xor not_equal reciprocal sinh square take tan".split()
)
KERNELS = PRIMITIVES | NUMPY_FUNCTIONS | REFERENCE.keys()

__all__ = ["KERNELS", "NUMPY_FUNCTIONS", "PRIMITIVES", "Array", "Dtype", "Primitives"]
