"""Ufuncs of functions of ours: broadcasting, strides, `out=` and overlaps are NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from rushlight._codegen import parallel_ufuncs
from rushlight._codegen.elementwise_entry import bind_loop
from rushlight._codegen.kernels import loops
from rushlight._codegen.native_entry import ByDtype, unbound
from rushlight._codegen.types import NUMBERS, Type, bf16, f16, f32, f64, of, u16

COSTLY = 16384  # elements in a chunk of a function that computes
CHEAP = 32768  # and of one that waits for memory, which is written around the caches if it is large
FLOAT_TYPES = (f32, f64, f16, bf16)
SINGLES = (f32, f16, bf16)  # for functions that compute in float64 what float32 needs
ANY = frozenset(NUMBERS.values())
LANES = 32  # of the vectors of such functions: several registers, so that one need not wait


class Pointwise(dict):
    """dtype -> the ufunc of a function of `arrays` arrays of that dtype and as many numbers as
    `numbers` says, which are given as what the function computes in: float32, of float64 itself.
    None for dtypes that it is not made for. Half types are computed in float32 and rounded once, or by `half`
    of their bits.

    >>> from operator import add
    >>> x = np.arange(3, dtype=np.float32)
    >>> Pointwise(add, 2)[x.dtype](x, x)
    array([0., 2., 4.], dtype=float32)
    """

    def __init__(
        self,
        function: Any,
        arrays: int = 1,
        numbers: int = 0,
        grain: int = COSTLY,
        output: Type | None = None,
        types: tuple[Type, ...] = FLOAT_TYPES,
        vectors: int = 0,
        divides: bool = False,
        half: Any = None,
        kinds: dict[Type, tuple] | None = None,
    ) -> None:
        self.function, self.arrays, self.numbers = function, arrays, numbers
        self.grain, self.output, self.types = grain, output, types
        self.vectors = vectors  # lanes of those that the function is written for; 0: for numbers
        self.half = half
        self.kinds = kinds or {}  # what tells kinds of elements apart, and the functions of these
        self.divides = divides  # not defined where the second array is 0: entries leave that alone

    def __missing__(self, dtype: np.dtype) -> np.ufunc | None:
        t = of(dtype)
        self[dtype] = made = None if t not in self.types or t is None else self._made(t)
        return made

    def _loop(self, t: Type) -> int:
        """The address of the loop for arrays of a type."""
        if t in self.kinds:
            kind, *functions = self.kinds[t]
            return loops.loop_of_kinds.address(
                KIND=kind, FUNCTIONS=tuple(functions), T=t, N=self.arrays
            )
        if self.vectors:
            arrays, numbers = self.arrays, self.numbers
            return loops.loop_of_vectors.address(
                F=self.function, T=t, N=arrays, NUMBERS=numbers, L=self.vectors
            )
        bits = self.half is not None and t.size == 2
        return loops.loop.address(
            F=self.half if bits else self.function,
            TYPES=(u16 if bits else t,) * self.arrays,
            B=u16 if bits else self.output or t,
            NUMBERS=self.numbers,
            GRAIN=self.grain,
        )

    def entries(self, absent: Callable | None = None, types: Container[Type] = ANY) -> ByDtype:
        """The native entries of the types: for arrays of one shape, in order, and Python numbers.

        `absent`: what stands for None in the place of each number, given the dtype.
        """

        def make(dtype: np.dtype) -> Any:
            t = of(dtype)
            if self[dtype] is None or t is None or t not in types:
                return unbound
            none = absent(dtype) if absent else (None,) * self.numbers
            numbers, output = (t.loaded, none), self.output or t
            name = self.function.__name__
            search = loops.first_zero.address(T=t) if self.divides else 0
            return bind_loop(name, self._loop(t), (t, self.arrays), numbers, output, search)

        return ByDtype(make, out=True)

    def _made(self, t: Type) -> np.ufunc:
        output, address = self.output or t, self._loop(t)
        dtypes = [t.np] * self.arrays + [t.loaded.np] * self.numbers + [output.np]
        code, plan = parallel_ufuncs.without_status(address)
        count = self.arrays + self.numbers
        name = self.function.__name__
        return parallel_ufuncs.make(name, [(code, dtypes)], count, 1, data=[plan])
