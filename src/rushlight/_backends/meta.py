"""The meta device: shapes, strides and dtypes without data.

A meta tensor's array is a `Meta`: a NumPy array over memory that is reserved and never touched, so
that views and stride arithmetic are NumPy's own. Kernels whose result has the broadcast shape of
their inputs are not run; others run on one zero, stretched over the shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.core import geometry
from rushlight.core.device import META, device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Meta(np.ndarray):
    """An array of the meta device."""

    memoryless = True  # what a program may ask the address of has none


def empty(shape: tuple, dtype: np.dtype, strides: tuple | None = None) -> Meta:
    """A meta array; `strides` in bytes."""
    n = math.prod(shape) * dtype.itemsize
    if strides is not None and n:
        n = sum((k - 1) * s for k, s in zip(shape, strides, strict=True)) + dtype.itemsize
    try:
        return np.ndarray.__new__(Meta, shape, dtype, reserve(n), 0, strides)
    except (
        OSError
    ):  # more addresses than the system gives: an array that says what is beyond its memory
        steps = tuple([s * dtype.itemsize for s in geometry.contiguous_strides(shape)])
        one = np.zeros(1, dtype).view(Meta)
        return as_strided(one, shape, steps if strides is None else strides, subok=True)


zeros = ones = empty


def device_of(a: Meta) -> device:
    """The meta device."""
    return META


def from_numpy(a: np.ndarray) -> Meta:
    """The shape and dtype of `a`, row-major."""
    return empty(a.shape, a.dtype)


def empty_strided(shape: tuple, dtype: np.dtype, strides: tuple) -> Meta:
    """A meta array; `strides` in elements."""
    return empty(shape, dtype, tuple([s * dtype.itemsize for s in strides]))


def full(shape: tuple, value: object, dtype: np.dtype) -> Meta:
    """A meta array: nothing is kept of `value`."""
    return empty(shape, dtype)


def copyto(out: Meta, a: Meta, casting: str = "same_kind") -> None:
    """Nothing: there is no memory to write to."""


def reserve(n: int) -> Any:
    """`n` bytes of address space without memory behind."""
    if n < 4096:
        return bytearray(max(n, 1))
    import mmap

    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)}
    return mmap.mmap(-1, n, **(flags if hasattr(mmap, "MAP_PRIVATE") else {}))


def like(a: np.ndarray) -> Meta:
    """A meta array with the shape, dtype and (dense) strides of a computed one."""
    return empty_strided(a.shape, a.dtype, layout_of(a)[1])


def forward(op: Any, values: list, run: Callable, numbers: Sequence[str] = ()) -> Any:
    """The forward of `op`, shapes only; `numbers`: the inputs that are Python numbers."""
    arrays = [v for p, v in zip(op.params, values, strict=False) if p in op.inputs]
    if op.view:
        return run(op, values)
    if op.elementwise and op.outputs is None:
        shapes = [np.shape(a) for a in arrays if a is not None]
        shape = geometry.broadcast_shapes(*shapes)
        dtype = dtype_of(op, values, run)
        named = dict(zip(op.params, values, strict=False))
        operands = [named[i] for i in op.operands(numbers) if named[i] is not None]
        strides = geometry.elementwise_strides(shape, [layout_of(a) for a in operands])
        return empty_strided(shape, dtype, strides)
    if (shape := SHAPES.get(op.path)) is not None:
        given = dict(zip(op.params, values, strict=False))
        same = len({a.dtype for a in arrays if a is not None}) == 1
        if same and (found := shape(given)) is not None:
            return empty(found, arrays[0].dtype)
    with np.errstate(all="ignore"):  # a mean over weights that are all zero, say
        results = run(op, [stand_in(v) for v in values])
    if isinstance(results, (tuple, list)):
        return [None if r is None else like(np.asarray(r)) for r in results]
    return like(np.asarray(results))


# -- shapes of results that take long to compute ---------------------------------------------------


def of_product(a: Meta, b: Meta) -> tuple | None:
    """The shape of `a @ b` for matrices and batches of them; None where there is more to say."""
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return None
    if a.shape[:-2] != b.shape[:-2] and a.ndim > 2 < b.ndim:
        return None
    lead = a.shape[:-2] or b.shape[:-2]
    return (*lead, a.shape[-2], b.shape[-1])


def of_vector(a: Meta, b: Meta) -> tuple | None:
    """The shape of a matrix times a vector."""
    return a.shape[:1] if a.ndim == 2 and b.shape == a.shape[1:] else None


def of_linear(given: dict) -> tuple | None:
    """The shape of `input @ weight.T + bias`."""
    x, w, bias = given["input"], given["weight"], given["bias"]
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        return None
    if bias is not None and bias.shape != w.shape[:1]:
        return None
    return (*x.shape[:-1], w.shape[0])


def of_sum(given: dict) -> tuple | None:
    """The shape of `input + a @ b`."""
    x, a, b = list(given.values())[:3]
    shape = of_product(a, b)
    if shape is None or len(shape) != len(x.shape) and len(x.shape) != 1:
        return None
    return shape if all(n in (1, m) for n, m in zip(x.shape[::-1], shape[::-1])) else None


def of_convolution(given: dict) -> tuple | None:
    """The shape of a convolution of row-major arrays."""
    x, w, _, stride, padding, dilation, transposed, more, groups = given.values()
    if x.ndim != w.ndim or not x.flags.c_contiguous or not w.flags.c_contiguous or 0 in x.shape:
        return None
    wide = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != wide:
        return None
    sizes = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, more, strict=True)
    if transposed:
        out = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in sizes]
    else:
        out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes]
    if min(out) < 1:
        return None
    return (x.shape[0], w.shape[1] * groups if transposed else w.shape[0], *out)


SHAPES: dict[str, Callable] = {
    "internal.convolution": of_convolution,
    "mm": lambda given: of_product(*given.values()),
    "bmm": lambda given: of_product(*given.values()),
    "matmul": lambda given: of_product(*given.values()),
    "mv": lambda given: of_vector(*given.values()),
    "addmm": of_sum,
    "baddbmm": of_sum,
    "nn.functional.linear": of_linear,
}


def dtype_of(op: Any, values: list, run: Callable) -> np.dtype:
    """The result dtype: that of the kernel on single elements."""
    one = [np.ones((1,) * v.ndim, v.dtype) if isinstance(v, np.ndarray) else v for v in values]
    with np.errstate(all="ignore"):
        return np.asarray(run(op, one)).dtype


def layout_of(a: Any) -> tuple[tuple, tuple]:
    """(shape, strides in elements) of an array, or a number."""
    if not isinstance(a, np.ndarray):
        return (), ()
    k = a.itemsize
    return a.shape, geometry.known_strides(a.shape, tuple([s // k for s in a.strides]))


def stand_in(v: Any) -> Any:
    """A plain array of the same layout, of zeros: the memory that is reserved, or where that is too small, one zero,
    stretched."""
    if isinstance(v, Meta):
        base = v
        while isinstance(base.base, np.ndarray):
            base = base.base
        if base.size > 1 or v.size < 2:
            return v.view(np.ndarray)
        return np.broadcast_to(np.zeros((), v.dtype), v.shape)
    if isinstance(v, (list, tuple)):
        return type(v)(stand_in(x) for x in v)
    return v


def __getattr__(name: str) -> Any:
    """Kernels that have no other meaning here are the reference's, such as those of views."""
    if name.startswith("__"):
        raise AttributeError(name)
    from rushlight._backends import cpu

    return getattr(cpu, name)
