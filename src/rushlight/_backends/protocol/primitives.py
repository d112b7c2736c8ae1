"""The primitives: kernels that every back end must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rushlight._backends.protocol.array import Array, Axis, Dtype, Number, Shape

if TYPE_CHECKING:
    from rushlight.core.device import device
    from rushlight.rng.generator import Generator


class Primitives(Protocol):
    """What other kernels can be composed of."""

    def asarray(self, a: Array | Number, dtype: Dtype | None = None) -> Array:
        """`a` itself, or a number as an array."""

    def empty(self, shape: Shape, dtype: Dtype) -> Array:
        """Uninitialised memory of a shape and dtype, row-major."""

    def empty_strided(self, shape: Shape, dtype: Dtype, strides: Shape) -> Array:
        """Uninitialised memory of a shape and dtype with strides, in elements."""

    def zeros(self, shape: Shape, dtype: Dtype) -> Array:
        """An array of zeros."""

    def ones(self, shape: Shape, dtype: Dtype) -> Array:
        """Ones of a shape and dtype."""

    def zeros_like(self, a: Array) -> Array:
        """Zeros of the shape, dtype and memory order of an array."""

    def full(self, shape: Shape, value: Number, dtype: Dtype) -> Array:
        """An array filled with one value."""

    def arange(
        self,
        start: Number,
        stop: Number | None = None,
        step: Number = 1,
        dtype: Dtype | None = None,
    ) -> Array:
        """Numbers from start to end by a step."""

    def number(self, value: Number, to: Dtype) -> Array:
        """A Python number as a 0-d array; integers wrap around as in C."""

    def cast(self, a: Array, to: Dtype) -> Array:
        """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary
        part)."""

    def copyto(self, out: Array, a: Array | Number, casting: str = "same_kind") -> None:
        """`out[...] = a`, converted; `a` broadcasts."""

    def fill(self, a: Array, value: Number) -> None:
        """`a[...] = value`, a number."""

    def from_numpy(self, a: np.ndarray) -> Array:
        """An array of this back end with the values of a NumPy array."""

    def to_numpy(self, a: Array) -> np.ndarray:
        """The values of an array of this back end as a NumPy array: of the CPU, or copied there."""

    def device_of(self, a: Array) -> device:
        """The device of an array: a `torch.device`."""

    def shares_memory(self, a: Array, b: Array) -> bool:
        """Whether the ranges of memory of two arrays overlap."""

    def address(self, a: Array) -> int:
        """Where the first element is in memory, in bytes."""

    def root(self, a: Array) -> Array:
        """The array over the whole memory that `a` is a part of."""

    def as_strided(
        self, a: Array, shape: Shape, strides: Shape, offset: int = 0, dtype: Dtype | None = None
    ) -> Array:
        """An array on the memory of `a`, `offset` bytes after its first element; `strides` in
        bytes."""

    def row_major(self, a: Array) -> Array:
        """A row-major copy of `a`."""

    def copy_into(self, out: Array, a: Array) -> None:
        """`out[...] = a`, where both have one dtype, and `a` broadcasts. ValueError where it
        does not."""

    def concatenate(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        """Arrays one after the other along an axis."""

    def repeat(self, a: Array, repeats: int | Array, axis: int | None = None) -> Array:
        """Elements repeated."""

    def add(self, a: Array, b: Array | Number) -> Array:
        """a + b."""

    def subtract(self, a: Array, b: Array | Number) -> Array:
        """a - b."""

    def multiply(self, a: Array, b: Array | Number) -> Array:
        """a * b."""

    def divide(self, a: Array, b: Array | Number) -> Array:
        """a / b."""

    def floor_divide(self, a: Array, b: Array) -> Array:
        """The quotient rounded down."""

    def remainder(self, a: Array, b: Array) -> Array:
        """The remainder with the sign of the divisor; a zero keeps the sign of the dividend."""

    def fmod(self, a: Array, b: Array) -> Array:
        """The remainder with the sign of the dividend."""

    def power(self, a: Array, b: Array) -> Array:
        """`a` to the power of `b`; common exponents by products, as PyTorch computes them."""

    def negative(self, a: Array) -> Array:
        """-a."""

    def absolute(self, a: Array) -> Array:
        """|a|, real for complex numbers."""

    def maximum(self, a: Array, b: Array | Number) -> Array:
        """The larger; NaN where either is."""

    def minimum(self, a: Array, b: Array | Number) -> Array:
        """The smaller; NaN where either is."""

    def sqrt(self, a: Array) -> Array:
        """Square root."""

    def exp(self, a: Array) -> Array:
        """e**a."""

    def expm1(self, a: Array) -> Array:
        """exp(a) - 1, exact near 0."""

    def log(self, a: Array) -> Array:
        """Natural logarithm."""

    def log1p(self, a: Array) -> Array:
        """log(1 + a), exact near 0."""

    def sin(self, a: Array) -> Array:
        """sine."""

    def cos(self, a: Array) -> Array:
        """cosine."""

    def arctan2(self, a: Array, b: Array | Number) -> Array:
        """The angle of the point (b, a)."""

    def tanh(self, a: Array) -> Array:
        """Hyperbolic tangent."""

    def sigmoid(self, a: Array) -> Array:
        """1 / (1 + exp(-a))."""

    def floor(self, a: Array) -> Array:
        """Rounded down; integers as they are."""

    def ceil(self, a: Array) -> Array:
        """Rounded up; integers as they are."""

    def trunc(self, a: Array) -> Array:
        """Rounded towards zero; integers as they are."""

    def rint(self, a: Array) -> Array:
        """Rounded to the nearest integer, halves to even."""

    def conjugate(self, a: Array) -> Array:
        """The complex conjugate."""

    def nextafter(self, a: Array, b: Array) -> Array:
        """The next number after a towards b."""

    def signbit(self, a: Array) -> Array:
        """The sign is set, of -0.0 too."""

    def sign(self, a: Array) -> Array:
        """-1, 0 or 1; 0 for NaN."""

    def erf(self, a: Array) -> Array:
        """The error function; of a few elements the C library's, where the result is rounded to
        float32."""

    def lgamma(self, x: Array) -> Array:
        """Log |gamma(x)|; infinite at 0, -1, -2, ..."""

    def digamma(self, x: Array) -> Array:
        """The logarithmic derivative of gamma; NaN at -1, -2, ..., infinite at 0."""

    def equal(self, a: Array, b: Array | Number) -> Array:
        """a == b."""

    def less(self, a: Array, b: Array | Number) -> Array:
        """a < b."""

    def less_equal(self, a: Array, b: Array | Number) -> Array:
        """a <= b."""

    def logical_not(self, a: Array) -> Array:
        """a is 0."""

    def isnan(self, a: Array) -> Array:
        """NaN."""

    def bitwise_and(self, a: Array, b: Array | Number) -> Array:
        """a & b."""

    def bitwise_or(self, a: Array, b: Array | Number) -> Array:
        """a | b."""

    def bitwise_xor(self, a: Array, b: Array | Number) -> Array:
        """a ^ b."""

    def invert(self, a: Array) -> Array:
        """~a."""

    def left_shift(self, a: Array, b: Array) -> Array:
        """`a << b`, 0 for a shift that is negative or no less than the number of bits."""

    def right_shift(self, a: Array, b: Array) -> Array:
        """`a >> b`, filled with the sign; out of range all bits are the sign."""

    def where(self, condition: Array, a: Array, b: Array) -> Array:
        """a where the condition holds, else b."""

    def sum(self, a: Array, axis: Axis, keepdims: bool, dtype: Dtype | None = None) -> Array:
        """The sum. Halves accumulate in float32, integers and bool in int64."""

    def prod(self, a: Array, axis: Axis, keepdims: bool, dtype: Dtype | None = None) -> Array:
        """The product. Halves accumulate in float32, integers and bool in int64."""

    def amax(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """The maximum; nan where there is one."""

    def amin(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """The minimum; nan where there is one."""

    def argmax(self, a: Array, axis: Axis, keepdims: bool = False) -> Array:
        """Where the first maximum (or the first nan) is."""

    def argmin(self, a: Array, axis: Axis, keepdims: bool = False) -> Array:
        """Where the first minimum (or the first nan) is."""

    def any(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """Whether any element is not zero; nan is not zero. bool, or uint8 for uint8."""

    def all(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """Whether no element is zero. bool, or uint8 for uint8."""

    def cumulative(self, a: Array, axis: int, ufunc: Callable, dtype: Dtype | None = None) -> Array:
        """The sums (`ufunc` = add) or products up to each place; floats accumulate in
        float64."""

    def sort(self, a: Array, axis: int | None, descending: bool) -> tuple[Array, Array]:
        """(values, indices), stable."""

    def matmul(self, a: Array, b: Array) -> Array:
        """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in
        `torch.matmul`."""

    def index_take(self, a: Array, key: tuple) -> Array:
        """`a[key]` for a tuple of full slices and index arrays, in the layout PyTorch gives
        it."""

    def index_put(self, z: Array, key: tuple, values: Array) -> None:
        """`z[key] = values` for a tuple of full slices and index arrays, in place."""

    def index_add_at(self, z: Array, key: tuple, values: Array) -> None:
        """`z[key] += values`, where positions that occur several times add up."""

    def reduce_at(self, z: Array, key: tuple, values: Array, reduce: str, include: bool) -> None:
        """`z[key] = reduce(z[key], values)`, one after the other where places repeat."""

    def nonzero(self, a: Array) -> Array:
        """The indices of elements that are not 0, in row-major order: int64 [a.ndim, how
        many]."""

    def random_words(self, generator: Generator, n: int) -> Array:
        """The next `n` words of 32 bits, as uint64 [n]."""

    def random_wide_words(self, generator: Generator, n: int) -> Array:
        """The next `n` words of 64 bits, each made of two of 32 bits, the high one first, as
        uint64 [n]."""
