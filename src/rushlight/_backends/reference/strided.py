"""Views that are worked out from shapes and strides, and arrays joined."""

from __future__ import annotations

from operator import index as integer
from typing import Any

from rushlight._backends import cpu as xp
from rushlight.core import geometry

KERNELS = "basic_index cat diagonal expand unsqueeze view within_memory".split()

NOT_VIEWABLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans "
    "across two contiguous subspaces). Use .reshape(...) instead."
)


def view(a: Any, size: tuple) -> Any:
    """The same memory under another shape, of which one size may be -1. RuntimeError where no strides give it."""
    size = geometry.infer_size(size, a.size)
    strides = geometry.view_strides(a.shape, xp.element_strides(a), size)
    if strides is None:
        raise RuntimeError(f"{NOT_VIEWABLE} (sizes {list(a.shape)}, viewed as {list(size)})")
    k = a.itemsize
    return xp.as_strided(a, size, tuple([s * k for s in strides]))


def within_memory(a: Any, size: tuple, stride: tuple, offset: int | None) -> Any:
    """The memory of `a` under any size and strides, from `offset` on (None: from its first element), in elements.

    RuntimeError where that leaves the memory.
    """
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: sizes {list(size)}, strides {list(stride)}"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if any(n < 0 for n in size):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(size)}: {list(size)}"
        )
    k = a.itemsize
    root = xp.root(a)
    own = (xp.address(a) - xp.address(root)) // k
    offset = own if offset is None else offset
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if 0 not in size:
        need = (offset + 1 + sum((n - 1) * s for n, s in zip(size, stride))) * k
        have = xp.extent(root.shape, xp.element_strides(root)) * root.itemsize if root.size else 0
        if need > have:
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
                f"itemsize {k} requiring a storage size of {need} are out of bounds for storage of size "
                f"{have}"
            )
    return xp.as_strided(a, size, tuple([s * k for s in stride]), (offset - own) * k)


def diagonal(a: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of two dimensions as the last dimension; `offset` > 0: above the main one."""
    n = a.ndim
    d1, d2 = geometry.wrap_dim(dim1, n), geometry.wrap_dim(dim2, n)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    shape, strides = a.shape, a.strides
    down, right = max(-offset, 0), max(offset, 0)
    size = max(min(shape[d1] - down, shape[d2] - right), 0)
    shift = down * strides[d1] + right * strides[d2] if size else 0
    rest = [d for d in range(n) if d not in (d1, d2)]
    return xp.as_strided(
        a,
        (*[shape[d] for d in rest], size),
        (*[strides[d] for d in rest], strides[d1] + strides[d2]),
        shift,
    )


def expand(a: Any, size: tuple) -> Any:
    """Dimensions of size 1 stretched to `size`, new ones in front; -1 keeps a size. RuntimeError for others."""
    return xp.as_strided(a, *geometry.expand_strides(a.shape, a.strides, size))


def unsqueeze(a: Any, dim: int) -> Any:
    """A new dimension of size 1 before `dim`."""
    shape, strides = a.shape, a.strides
    n = len(shape)
    d = geometry.wrap_dim(dim, n + 1)
    step = shape[d] * strides[d] if d < n else a.itemsize
    return xp.as_strided(a, (*shape[:d], 1, *shape[d:]), (*strides[:d], step, *strides[d:]))


def basic_index(a: Any, index: Any) -> Any:
    """`a[index]` for ints, slices of ints, None and Ellipsis; new dimensions have PyTorch's strides.

    IndexError or ValueError for what is out of range.
    """
    items = index if index.__class__ is tuple else (index,)
    shape, strides, n = a.shape, a.strides, a.ndim
    taken = sum(i is not None and i is not Ellipsis for i in items)
    if taken > n:
        raise too_many(index, n)
    plain: list = []  # without new dimensions
    steps: list = []  # of each dimension of the result its stride, None for that of `plain`
    own: list = []  # what these are, which NumPy does not say of an empty array
    p = 0
    for k, i in enumerate(items):
        if i is None:
            steps.append(shape[p] * strides[p] if p < n else a.itemsize)
            continue
        if i is Ellipsis:
            left = n - taken
            steps += [None] * left
            plain += [slice(None)] * left
            own += strides[p : p + left]
            p, taken = p + left, n  # a second one stands for nothing
            continue
        if i.__class__ is slice:
            if i.step is not None and i.step <= 0:
                raise ValueError(
                    "slice step cannot be zero" if not i.step else "step must be greater than zero"
                )
            steps.append(None)
            own.append(strides[p] if i.step is None else strides[p] * i.step)
        elif not -shape[p] <= i < shape[p]:
            raise out_of_range(k, i, shape[p])
        plain.append(i)
        p += 1
    r = a[(*plain, ...)]
    if None not in items and r.size:
        return r
    sizes, old = iter(r.shape), iter(r.strides if r.size else (*own, *strides[p:]))
    steps += [None] * (r.ndim - steps.count(None))
    new = tuple([next(sizes) if s is None else 1 for s in steps])
    return xp.as_strided(r, new, tuple([next(old) if s is None else s for s in steps]))


def too_many(index: Any, n: int) -> IndexError:
    """What is wrong with an index that has more items than there are dimensions."""
    if index.__class__ is tuple:
        return IndexError(f"too many indices for tensor of dimension {n}")
    if index.__class__ is slice:
        return IndexError("slice() cannot be applied to a 0-dim tensor.")
    if index:
        return out_of_range(0, index, 0)
    return IndexError(
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number"
    )


def out_of_range(k: int, i: Any, size: int) -> IndexError:
    """The error of an index that stands at position `k`, which PyTorch calls the dimension."""
    return IndexError(f"index {integer(i)} is out of bounds for dimension {k} with size {size}")


def cat(arrays: list, axis: int) -> Any:
    """Arrays of one dtype, whose shapes agree but for `axis`, one after the other; row-major."""
    r = xp.concatenate(arrays, axis)
    return r if r.flags.c_contiguous else r.copy(order="C")
