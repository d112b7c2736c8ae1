"""Kernels that copy, index, sort and reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rushlight._backends.protocol.array import Array, Axis, Dtype, Shape

if TYPE_CHECKING:
    pass


class Layout(Protocol):
    """Kernels that copy, index, sort and reduce."""

    # -- views --

    def contiguous(self, a: Array) -> Array:
        """`a`, or a row-major copy of it."""

    def cat_contiguous(self, arrays: list[Array], axis: int) -> Array | None:
        """Row-major arrays of one dtype one after the other along an axis; None for others."""

    def stack_contiguous(self, arrays: list[Array], axis: int) -> Array | None:
        """Row-major arrays of one dtype and shape along a new axis; None for others."""

    def cat(self, arrays: list[Array], axis: int) -> Array:
        """Arrays of one dtype, whose shapes agree but for `axis`, one after the other; row-
        major."""

    def roll(self, a: Array, shifts: Shape, dims: Shape) -> Array:
        """The elements moved on by `shifts` along `dims`, round the end; row-major."""

    def tile(self, a: Array, repeats: Shape) -> Array:
        """Copies side by side, repeats[d] of them along each dimension; row-major."""

    def element_strides(self, a: Array) -> Shape:
        """Strides in elements, as PyTorch counts them; those of an empty array are row-
        major."""

    def flip(self, a: Array, dims: Shape) -> Array:
        """`a` in reverse order along `dims`: negative strides, for copying from only."""

    def copy_like(self, a: Array, like: Array) -> Array:
        """A copy of `a` with the order of dimensions in memory that `like` has."""

    def plain(self, a: Array) -> bool:
        """Row-major without gaps, and the strides of size-1 dimensions are row-major too."""

    def extent(self, shape: Shape, strides: Shape) -> int:
        """One more than the greatest distance of an element from the first, in the unit of
        `strides`."""

    def triangle(self, a: Array, diagonal: int, lower: bool) -> Array:
        """The matrices of `a` with zeros on one side of a diagonal."""

    # -- indexing --

    def gather_gradient(self, shape: Shape, index: Array, dim: int, values: Array) -> Array:
        """Zeros of `shape` with `values` added where `index` says along `dim`."""

    def index_select_gradient(self, shape: Shape, index: Array, axis: int, values: Array) -> Array:
        """Zeros of `shape`; along `axis` at index[k] += the k-th slice of `values`, one after
        the other."""

    def index_select(self, a: Array, index: Array, axis: int) -> Array | None:
        """The slices of `a` along `axis` that `index`, of any shape, names; None where an index
        is out of range."""

    def scatter(self, z: Array, index: Array, dim: int, values: Array, add: bool = False) -> bool:
        """`z` at the places that `index` names along `dim` = values, or += values, in place;
        False, and nothing is written, where an index is out of range."""

    def add_rows(self, z: Array, rows: Array, values: Array) -> None:
        """`z[rows[k]] += values[k]` for each k in turn; rows may repeat. `z` (R, C), `values`
        (K, C)."""

    def gather_key(self, shape: Shape, index: Array, dim: int) -> tuple[Array, ...]:
        """The key that reads, for each element of `index`, the place it names along `dim`."""

    def fill_masked(self, z: Array, mask: Array, value: Array) -> None:
        """`z[mask] = value`, one number, for a mask that broadcasts to the shape of `z`; in
        place."""

    def gather(self, a: Array, index: Array, dim: int) -> Array | None:
        """`result[i][j] = a[i][index[i][j]]` for dim 1, and so on; None where an index is out
        of range."""

    def out_of_range(self, index: Array, size: int) -> int | None:
        """An index that is negative or not below `size`, or None."""

    def put_slices(self, z: Array, index: Array, axis: int, values: Array, add: bool) -> bool:
        """`z` along `axis` at index[k] = (or +=) the k-th slice of `values`, or one number, in
        place; False, and nothing is written, where an index is out of range."""

    def scatter_reduce(
        self, z: Array, index: Array, dim: int, values: Array, reduce: str, include: bool
    ) -> bool:
        """`z` at the places that `index` names along `dim`, and `values` there, reduced in
        place; `include` False: without what stood there. False, and nothing is written, where
        an index is out of range."""

    def as_strided_gradient(self, a: Array, source: tuple, target: tuple, mean: str) -> Array:
        """Add `a` into zeroed memory under the geometry `source`, read it under `target`."""

    # -- masks --

    def masked_expand(self, values: Array, mask: Array) -> Array:
        """Zeros of the shape of the mask, with `values` in their order where it is True.
        ValueError for another number of values."""

    def masked_select(self, a: Array, mask: Array) -> Array:
        """The elements where a mask of the same shape is True, in row-major order, as a
        vector."""

    # -- sorting --

    def isin(self, a: Array, tests: Array, invert: bool) -> Array:
        """Which elements of `a` are in `tests`."""

    def bincount(self, a: Array, weights: Array | None, minlength: int) -> Array:
        """Counts (int64), or sums of weights in their dtype if that is float32, else
        float64."""

    def histc(self, a: Array, bins: int, low: float, high: float) -> Array:
        """Counts in equal bins; the last one contains its right end."""

    def histogram(
        self, points: Array, edges: list[Array], weights: Array | None, density: bool
    ) -> Array:
        """Counts (or weights) of the rows of `points` between the edges of each column."""

    def searchsorted(self, seq: Array, a: Array, right: bool, dtype: Dtype) -> Array:
        """Where each element of `a` goes into `seq`, row by row when `seq` has several
        dimensions."""

    def take_along(self, a: Array, order: Array) -> Array:
        """The elements of `a` along its last dimension in the given order."""

    def topk(self, a: Array, k: int, axis: int | None, largest: bool) -> tuple[Array, Array]:
        """(values, indices) of the k largest or smallest, the most extreme first."""

    def unique(self, a: Array, consecutive: bool, places: bool) -> tuple[Array, Array, Array]:
        """(values, inverse of the shape of `a`, counts) of the elements, sorted unless
        `consecutive`."""

    def unique_along(self, a: Array, axis: int, consecutive: bool) -> tuple[Array, Array, Array]:
        """(values, inverse, counts) of the slices along `axis`, in the order of their
        elements."""

    # -- reduce --

    def segment_offsets(self, lengths: Array) -> Array:
        """Where segments of these lengths start, and where the last one ends."""

    def mean(self, a: Array, axis: Axis, keepdims: bool, dtype: Dtype | None = None) -> Array:
        """The mean, in `dtype`; halves are divided in float32."""

    def kth_index(self, a: Array, axis: int | None, k: int) -> Array:
        """Where the k-th smallest is, counted from 0; nan is largest."""

    def max_with_index(self, a: Array, axis: Axis, keepdims: bool) -> tuple[Array, Array]:
        """(the maximum, where the first is)."""

    def logcumsumexp(self, a: Array, axis: int | None) -> Array:
        """log(cumsum(exp(a))) in float64, one logaddexp a step."""

    def logsumexp(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """log(sum(exp(a))), the maximum (of the real parts) taken out first."""

    def median(self, a: Array, skip_nan: bool) -> Array:
        """The lower median of all elements; nan of nothing."""

    def median_index(self, a: Array, axis: int | None, skip_nan: bool) -> Array:
        """Where the lower median is: at the first nan if there is one, or of the others
        (`skip_nan`)."""

    def mode_index(self, a: Array, axis: int | None) -> Array:
        """Where the commonest value is: of several the smallest, of its places the last."""

    def pick(self, a: Array, axis: int | None, keepdims: bool, index: Array) -> tuple[Array, Array]:
        """(values, indices) for `index`, which has size 1 along `axis` (None: `a` is 0-d)."""

    def cumulative_extreme(
        self, a: Array, axis: int | None, ufunc: Callable
    ) -> tuple[Array, Array]:
        """(values, indices) of the maximum (`ufunc`) up to each place; equal ones move the
        index on."""

    def segment_ids(self, ends: Array, shape: Shape, axis: int) -> tuple[Array, Array]:
        """For each element of an array of `shape` its segment along `axis` (-1: in none), and
        the segment's length."""

    def segment_reduce(
        self, a: Array, kind: str, ends: Array, axis: int, initial: float | None
    ) -> Array:
        """Reduce a[..., ends[..., i]:ends[..., i + 1]] along `axis`; `ends` has the leading
        shape of `a`."""

    def min_with_index(self, a: Array, axis: Axis, keepdims: bool) -> tuple[Array, Array]:
        """(the minimum, where the first is)."""

    def expand_reduced(self, a: Array, shape: Shape, kept: Shape | None) -> Array:
        """`a`, in the shape `kept` that differs from `shape` by sizes 1, repeated over `shape`:
        no copy."""

    def sum_to(self, a: Array, shape: Shape) -> Array:
        """The sum over all dimensions in which `a` is larger than `shape`; `a` was broadcast
        from it."""

    def nansum(self, a: Array, axis: Axis, keepdims: bool, dtype: Dtype | None = None) -> Array:
        """The sum, NaN left out."""

    def count_nonzero(self, a: Array, axis: Axis) -> Array:
        """How many elements are not 0; int64."""

    def variance(
        self, a: Array, axis: Axis, keepdims: bool, correction: float
    ) -> tuple[Array, Array]:
        """(variance, mean) in two passes, the squared distances from the mean summed."""

    def upcast(self, a: Array) -> Array:
        """`a`, halves as float32."""

    def xor_sum(self, a: Array, axis: Axis, keepdims: bool) -> Array:
        """The exclusive or of the elements as 64 bits each."""

    # -- sequences --

    def arange_into(self, out: Array, start: float, step: float) -> None:
        """Start + i * step into `out`, float32 or float64 [n]."""

    def linspace_into(self, out: Array, start: float, end: float) -> None:
        """n > 1 numbers from `start` to `end` into `out`, float32 or float64 [n]: the first
        half is counted from the start, the second from the end."""
