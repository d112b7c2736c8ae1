"""Stride arithmetic: pure functions of shapes and strides.

Strides count elements, as PyTorch's do (NumPy's count bytes). Shapes and strides are tuples of
ints, none negative. Where a rule is PyTorch's choice among several (strides of size-1 and size-0
dimensions, ambiguous orders), it is followed to the letter, because `t.stride()` shows it;
tests/oracle/test_geometry_oracle.py compares every function.

Note [Layouts of results]
    Where the elements of a result lie is visible: in `stride()`, in what may be viewed without a copy, in the layout of
    what is computed from it. `elementwise_strides` is the rule for all operators that work element by element, and
    `preserve_strides` the one for copies, in this file and nowhere else. A kernel may lay its result out as is quickest;
    when an elementwise operator has run, whoever carried the call out asks whether the result lies by the rule:

    - a printed function (`array_lines` in dispatch/emit_results.py) and the general way (`forward` in general.py), by
      the kernel `laid_out` (`_backends/reference/layout.py`), unless all operands are row-major and of one shape;
    - the native entry of calls (`laid_out` in `_codegen/kernels/calls.py`), by the same rule as machine code
      (`_codegen/kernels/layout.py`);
    - the meta back end, which makes its results by it; a compiled program, when it is made (`compiler/`).

    Kernels of two arrays (`_codegen/kernels/broadcast.py`) and of dense arrays lay their results out right by
    themselves, so that the question is seldom answered by a copy: where operands of other functions lie in different
    orders. Strides of sizes 1, which say nothing of where elements are, are written into the new array, or into a view of
    it. An operator names its operands where they are not its inputs in their order (`operands=` of a declaration); one
    without operands gives row-major results.

>>> contiguous_strides((2, 3, 4)), channels_last_strides((2, 3, 4, 5))
((12, 4, 1), (60, 1, 15, 3))
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING

from rushlight.core import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = tuple[int, ...]

# Dimensions from the innermost in memory to the outermost: C, then the spatial ones backwards, then
# N.
_CHANNELS_LAST_ORDER = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}
_CHANNELS_LAST_FORMAT = {4: dtypes.channels_last, 5: dtypes.channels_last_3d}


# -- the strides of the named memory formats -------------------------------------------------------


def contiguous_strides(shape: Ints) -> Ints:
    """Row-major strides: the last dimension is 1, each other the product of the sizes after it.

    A size of 0 counts as 1, so that no stride is 0.
    """
    strides = [1] * len(shape)
    step = 1
    for d in range(len(shape) - 1, 0, -1):
        step *= shape[d] or 1
        strides[d - 1] = step
    return tuple(strides)


def channels_last_strides(shape: Ints) -> Ints:
    """Strides that put N, C, H, W into memory as N, H, W, C, or N, C, D, H, W as N, D, H, W, C.

    RuntimeError for other numbers of dimensions. A size of 0 makes the strides further out 0.
    """
    if len(shape) not in _CHANNELS_LAST_ORDER:
        raise RuntimeError(
            "required rank 4 tensor to use channels_last format (or rank 5 for channels_last_3d), "
            f"got shape {list(shape)}"
        )
    return _packed(shape, _CHANNELS_LAST_ORDER[len(shape)])


def format_strides(shape: Ints, memory_format: dtypes.memory_format) -> Ints:
    """The strides of a new tensor of `shape` in a memory format.

    RuntimeError if channels_last meets other than 4 dimensions, channels_last_3d other than 5, and
    for preserve_format, which means the strides of another tensor: see `preserve_strides`.
    """
    if memory_format is dtypes.contiguous_format:
        return contiguous_strides(shape)
    for rank, with_rank in _CHANNELS_LAST_FORMAT.items():
        if memory_format is with_rank:
            if len(shape) != rank:
                raise RuntimeError(
                    f"required rank {rank} tensor to use {memory_format.name} format, "
                    f"got shape {list(shape)}"
                )
            return channels_last_strides(shape)
    raise RuntimeError(
        f"unsupported memory format {memory_format!r}: a new tensor is contiguous_format, channels_last "
        "or channels_last_3d"
    )


def _packed(shape: Ints, order: Sequence[int]) -> Ints:
    """Strides without gaps; `order` names the dimensions from the innermost to the outermost."""
    strides = [1] * len(shape)
    step = 1
    for d in order:
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def known_strides(shape: Ints, strides: Ints) -> Ints:
    """The strides of an array of NumPy's, given those that it says: all are 0 in what it has made empty, which is
    row-major."""
    return strides if 0 not in shape or any(strides) else contiguous_strides(shape)


# -- what given strides are ------------------------------------------------------------------------


def is_contiguous(shape: Ints, strides: Ints) -> bool:
    """Whether the elements lie in row-major order without gaps.

    The strides of size-1 dimensions do not matter.

    >>> is_contiguous((2, 1, 3), (3, 99, 1)), is_contiguous((3, 2), (1, 3))
    (True, False)
    """
    return 0 in shape or _is_packed(shape, strides, range(len(shape) - 1, -1, -1))


def is_channels_last(shape: Ints, strides: Ints, ndim: int | None = None) -> bool:
    """`is_contiguous(memory_format=channels_last)` for `ndim=4`, channels_last_3d for 5.

    `ndim=None`: the one that fits. False if the tensor has another number of dimensions. Unlike
    `is_contiguous`, an empty tensor's strides count.
    """
    order = _CHANNELS_LAST_ORDER.get(len(shape))
    if order is None or ndim not in (None, len(shape)):
        return False
    return _is_packed(shape, strides, order)


def _is_packed(shape: Ints, strides: Ints, order: Sequence[int]) -> bool:
    step = 1
    for d in order:
        size = shape[d]
        if size != 1:
            if strides[d] != step:
                return False
            step *= size
    return True


def is_channels_last_strides(shape: Ints, strides: Ints, ndim: int | None = None) -> bool:
    """Whether the strides look like channels last, gaps allowed: they grow from C to N.

    A slice of a channels-last tensor passes. What would also pass as row-major (N, 1, 1, 1 with
    equal strides) does not.
    """
    order = _CHANNELS_LAST_ORDER.get(len(shape))
    if order is None or ndim not in (None, len(shape)) or strides[1] == 0:
        return False
    least = 0
    for d in order:
        if shape[d] == 0 or strides[d] < least:
            return False
        # All dimensions between C and N have size 1, so the strides are ambiguous.
        if d == 0 and least == strides[1]:
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def is_non_overlapping_and_dense(shape: Ints, strides: Ints) -> bool:
    """Whether the elements fill one block of memory, each address once, in any order of dimensions.

    >>> is_non_overlapping_and_dense((2, 3), (1, 2)), is_non_overlapping_and_dense((2, 3), (4, 1))
    (True, False)
    """
    if 0 in shape:
        return True
    step = 1
    for stride, size in sorted((strides[d], size) for d, size in enumerate(shape) if size > 1):
        if stride != step:
            return False
        step *= size
    return True


def suggest_memory_format(shape: Ints, strides: Ints) -> dtypes.memory_format:
    """The format of a result after an input with these strides: channels last or contiguous."""
    if is_channels_last_strides(shape, strides):
        return _CHANNELS_LAST_FORMAT[len(shape)]
    return dtypes.contiguous_format


def has_internal_overlap(shape: Ints, strides: Ints) -> bool:
    """Whether two elements certainly share memory, as after `expand`; such memory must not be written to.

    Overlap made by `as_strided` is not found where no stride is 0 (PyTorch: "too hard").
    """
    for size, stride in zip(shape, strides):
        if stride == 0 and size > 1:
            return 0 not in shape
    return False


# -- the strides of results ------------------------------------------------------------------------


def preserve_strides(shape: Ints, strides: Ints) -> Ints:
    """The strides of `empty_like`, `clone`, `to` under preserve_format: dense, in the same order.

    Dense strides are kept as they are, those of size-1 dimensions too. Otherwise gaps close and
    dimensions of stride 0 (expanded) keep their position among the others.

    >>> preserve_strides((4, 3), (2, 16)), preserve_strides((4, 3), (0, 1))
    ((1, 4), (3, 1))
    """
    if 1 not in shape and 0 not in shape and all(map(operator.gt, strides, (*strides[1:], 0))):
        return contiguous_strides(shape)  # rows in order, perhaps with gaps
    if is_non_overlapping_and_dense(shape, strides):
        return strides
    return _packed(shape, _order(shape, [strides]))


def elementwise_strides(shape: Ints, operands: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The strides of the result of an elementwise operation on operands of (shape, strides); see Note [Layouts of
    results].

    `shape` is the result's, to which the operands broadcast.

    If all operands have one shape and are all contiguous, all channels last, or all dense with
    equal strides, so is the result. Otherwise the result is dense with its dimensions in the order
    of the first operand that tells any two apart.

    >>> elementwise_strides((2, 3), [((2, 3), (1, 2)), ((2, 3), (1, 2))])
    (1, 2)
    >>> elementwise_strides((2, 3), [((2, 3), (1, 2)), ((), ())])
    (1, 2)
    """
    if all(own == shape for own, _ in operands):
        if all(is_contiguous(*operand) for operand in operands):
            return contiguous_strides(shape)
        # A 5-d tensor never takes this path: its order is found below.
        if all(is_channels_last(*operand, 4) for operand in operands):
            return channels_last_strides(shape)
        first = operands[0][1]
        if all(
            strides == first and is_non_overlapping_and_dense(own, strides)
            for own, strides in operands
        ):
            return first
    ndim = len(shape)
    broadcast = []
    for own, strides in operands:
        missing = ndim - len(own)
        # A size-1 dimension keeps its stride if the result has size 1 too, and counts in the order.
        kept = (
            0 if size == 1 and shape[missing + d] != 1 else strides[d] for d, size in enumerate(own)
        )
        broadcast.append((*(0,) * missing, *kept))
    order = _order(shape, broadcast)
    if order == list(range(ndim - 1, -1, -1)):
        return contiguous_strides(shape)
    return _packed(shape, order)


def _order(shape: Ints, operands: Sequence[Ints]) -> list[int]:
    """The dimensions from the innermost to the outermost, by the strides of the operands.

    An insertion sort from row-major order in which a comparison may have no answer: a dimension is
    then carried past the other without a swap. That is not a total order, so no sort of Python's
    gives the same result.
    """

    def comes_after(inner: int, outer: int) -> bool | None:
        for strides in operands:
            a, b = strides[inner], strides[outer]
            if a == 0 or b == 0:  # broadcast: this operand does not decide
                continue
            if a != b:
                return a > b
            if shape[inner] > shape[outer]:
                return True
        return None

    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        moving = i
        for j in range(i - 1, -1, -1):
            after = comes_after(order[j], order[moving])
            if after:
                order[j], order[moving] = order[moving], order[j]
                moving = j
            elif after is False:
                break
    return order


def view_strides(shape: Ints, strides: Ints, new_shape: Ints) -> Ints | None:
    """The strides under which the same memory has `new_shape`, or None if a copy is needed.

    Both shapes have as many elements. Old dimensions that are contiguous in memory (stride = size *
    stride of the next) form a chunk; each chunk must be cut into new dimensions exactly.

    >>> view_strides((2, 6), (6, 1), (3, 4)), view_strides((6, 2), (1, 6), (12,))
    ((4, 1), None)
    """
    if 0 in shape:  # any strides would do; PyTorch's choice
        return strides if new_shape == shape else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    new_strides = [0] * len(new_shape)
    v = len(new_shape) - 1
    base = strides[-1]
    chunk = cut = 1
    for d in range(len(shape) - 1, -1, -1):
        chunk *= shape[d]
        # A size-1 dimension joins any chunk: its stride says nothing.
        if d > 0 and (shape[d - 1] == 1 or strides[d - 1] == chunk * base):
            continue
        while v >= 0 and (cut < chunk or new_shape[v] == 1):
            new_strides[v] = cut * base
            cut *= new_shape[v]
            v -= 1
        if cut != chunk:
            return None
        if d > 0:
            base = strides[d - 1]
            chunk = cut = 1
    return tuple(new_strides) if v < 0 else None


def expand_strides(shape: Ints, strides: Ints, new_shape: Sequence[int]) -> tuple[Ints, Ints]:
    """The shape and strides of `expand(new_shape)`: -1 keeps a size, expanding gives stride 0.

    RuntimeError if a size other than 1 would change, if there are too few sizes, or if a new
    dimension is -1.

    >>> expand_strides((3, 1), (1, 1), (2, -1, 4))
    ((2, 3, 4), (0, 1, 0))
    """
    missing = len(new_shape) - len(shape)
    if missing < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(new_shape)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(shape)}): {list(shape)} to {list(new_shape)}"
        )
    sizes, steps = list(new_shape), [0] * len(new_shape)
    for i in range(len(sizes) - 1, -1, -1):
        wanted = sizes[i]
        if i >= missing:
            size, step = shape[i - missing], strides[i - missing]
            if wanted == -1:
                wanted = size
        else:
            if wanted == -1:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            size = 1
            step = sizes[i + 1] * steps[i + 1] if shape else 0
        if size != wanted:
            if size != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({wanted}) must match the existing size ({size}) at "
                    f"non-singleton dimension {i}.  Target sizes: {list(new_shape)}.  "
                    f"Tensor sizes: {list(shape)}"
                )
            if wanted < 0:
                raise RuntimeError(
                    f"expand: invalid size {wanted} at dimension {i} of {list(new_shape)}"
                )
            step = 0
        sizes[i], steps[i] = wanted, step
    return tuple(sizes), tuple(steps)


# -- shapes and dimension numbers ------------------------------------------------------------------


def infer_size(new_shape: Sequence[int], numel: int) -> Ints:
    """`new_shape` for `numel` elements, with a -1 in it replaced by what remains.

    RuntimeError if they do not fit, or if what remains is not determined.

    >>> infer_size((2, -1), 6)
    (2, 3)
    """
    known, unknown = 1, None
    for d, size in enumerate(new_shape):
        if size >= 0:
            known *= size
        elif size != -1:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {d} of shape {list(new_shape)}"
            )
        elif unknown is not None:
            raise RuntimeError(f"only one dimension can be inferred, got shape {list(new_shape)}")
        else:
            unknown = d
    if unknown is None:
        if known == numel:
            return tuple(new_shape)
    elif known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(new_shape)} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
            )
    elif numel % known == 0:
        return (*new_shape[:unknown], numel // known, *new_shape[unknown + 1 :])
    raise RuntimeError(f"shape '{list(new_shape)}' is invalid for input of size {numel}")


def wrap_dim(dim: int, ndim: int, *, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front: -1 becomes ndim - 1. IndexError if it is out of range.

    A 0-d tensor has the dimensions 0 and -1, unless `wrap_scalar` is False (`size`, `select`,
    `unbind` refuse them).

    >>> wrap_dim(-1, 3), wrap_dim(-1, 0)
    (2, 0)
    """
    if 0 <= dim < ndim:
        return dim
    if ndim == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        ndim = 1
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim + ndim if dim < 0 else dim


def wrap_dims(dims: int | Sequence[int], ndim: int) -> Ints:
    """`wrap_dim` of each of `dims`, in their order. An int is one dimension.

    RuntimeError if a dimension comes twice.

    >>> wrap_dims((-1, 0), 3)
    (2, 0)
    """
    if not isinstance(dims, (tuple, list)):
        dims = (operator.index(dims),)  # type: ignore[arg-type]
    if len(dims) == 1:
        dim = dims[0]
        return (dim,) if 0 <= dim < ndim else (wrap_dim(dim, ndim),)
    wrapped = tuple([dim if 0 <= dim < ndim else wrap_dim(dim, ndim) for dim in dims])
    if len(set(wrapped)) < len(wrapped):
        twice = next(d for i, d in enumerate(wrapped) if d in wrapped[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims {list(dims)}")
    return wrapped


def broadcast_shapes(*shapes: Ints) -> Ints:
    """The common shape: aligned at the last dimension, sizes equal or 1.

    RuntimeError if two sizes do not match.

    >>> broadcast_shapes((3, 1), (4,), ())
    (3, 4)
    """
    result: Ints = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        if shape == result:
            continue
        a, b = result, shape
        ndim = max(len(a), len(b))
        a = (1,) * (ndim - len(a)) + a
        b = (1,) * (ndim - len(b)) + b
        joined = [y if x == 1 else x for x, y in zip(a, b)]
        for d in range(ndim - 1, -1, -1):
            if a[d] != b[d] and a[d] != 1 and b[d] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at "
                    f"non-singleton dimension {d}: the shapes are {', '.join(str(list(s)) for s in shapes)}"
                )
        result = tuple(joined)
    return result


def numel(shape: Ints) -> int:
    """The number of elements of a tensor of this shape."""
    return prod(shape)
