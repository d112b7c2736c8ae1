"""NumPy's elementwise functions: their own loops, shared by threads, or ours (`_codegen/ufunc_loops.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight._backends.llvm.registration import Binding, implements
from rushlight._codegen import parallel_ufuncs, ufunc_loops
from rushlight._codegen.kernels.pointwise import Pointwise


class Ufunc(Binding):
    """A ufunc with loops in place of those of NumPy's of the same name."""

    @property
    def formula(self) -> Pointwise | None:
        return ufunc_loops.formula(self.name)

    def bind(self, reference: Callable) -> Callable:
        name = reference.__name__
        ufunc = getattr(np, name)
        return parallel_ufuncs.parallel(ufunc, ufunc_loops.loops(name), ufunc_loops.functions(name))


for _name in (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh conjugate cos cosh divide "
    "equal exp exp2 expm1 fmax fmin greater greater_equal less less_equal log log10 log1p log2 "
    "logical_and logical_not logical_or logical_xor maximum minimum multiply negative not_equal "
    "reciprocal sin sinh sqrt square subtract tan tanh"
).split():
    implements(_name)(Ufunc())
