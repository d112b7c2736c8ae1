"""complex32: pairs of float16, which are moved as they are and computed in complex64.

Note [complex32]
    The array of a complex32 tensor is a `Halves`. The one test of the straight path of every operator (`array.__class__
    is ndarray`) sends a call with one the general way, where `run` is asked. It knows three kinds of operators: views and
    those in `MOVING` run on the elements as they are; those in `COMPUTING` run on complex64, and their result is rounded
    once; PyTorch has no other for complex32, and each is refused by name. So no kernel but copies sees complex32, and none
    computes in it by accident: NumPy says of these elements neither that they are complex nor what their real part is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight.core import settings
from rushlight.core.dtype_sets import C32, C64, F16, F32

if TYPE_CHECKING:
    from collections.abc import Callable

made: list[bool] = []  # not empty once there was an array of complex32: then calls look for them


class Halves(np.ndarray):
    """The memory of a complex32 tensor."""


# Operators that move elements, or convert them, and compute nothing.
MOVING = frozenset(
    "Tensor.copy Tensor.fill_diagonal Tensor.fill_number Tensor.fill_number_ Tensor.fill_tensor Tensor.fill_tensor_ "
    "Tensor.repeat Tensor.zero _sparse.assemble _sparse.assemble_compressed _sparse.coalesce _sparse.coo_of _sparse.compress _sparse.permute "
    "_sparse.taken _sparse.to_dense _sparse.to_sparse _sparse.values_of _to_copy _to_device aten._unsafe_view aten.block_diag aten.diagonal_gradient aten.index "
    "aten.index_fill_tensor aten.index_fill_value aten.laid_out aten.masked_fill aten.masked_fill_tensor "
    "aten.masked_select_gradient aten.nonzero aten.basic_index_gradient aten.repeat_each aten.restride aten.row_major aten.where cat clone constant_pad_nd "
    "diag_embed diagonal_scatter index_copy index_select masked_select roll select_scatter slice_scatter stack tril "
    "triu".split()
)
# Operators that PyTorch has for complex32.
COMPUTING = frozenset(
    "_add_scaled _close _conjugates _pair.std_mean _pair.var_mean _sub_scaled abs add addcmul all any "
    "aten.conj_copy aten.index_put aten.index_select_gradient aten.unfold_gradient count_nonzero dist eq "
    "index_add internal.all_products internal.convolution internal.convolution_weight isfinite isinf isnan isreal linalg.vector_norm mul ne neg rsub sgn std sub var".split()
)


def tensor_array(a: Any) -> Any:
    """`a` as tensors hold it: as a `Halves` if its elements are complex32."""
    if a.dtype is not C32 or a.__class__ is not np.ndarray:
        return a
    if not made:
        made.append(True)
    return a.view(Halves)


def fresh(a: Any) -> Any:
    """`tensor_array` of new memory, with PyTorch's warning."""
    if a.dtype is C32:
        settings.warn_once(
            "ComplexHalf support is experimental and many operators don't support it yet."
        )
    return tensor_array(a)


def refuse(what: str) -> NoReturn:
    """Raise: `what` does not compute on complex32."""
    raise NotImplementedError(f"\"{what}\" not implemented for 'ComplexHalf'")


def among(values: list) -> bool:
    """Whether there are arrays of complex32 among the values of a call."""
    for v in values:
        if v.__class__ is list or v.__class__ is tuple:
            if among(v):
                return True
        elif getattr(v, "dtype", None) is C32:
            return True
    return False


def run(op: Any, values: list, compute: Callable) -> Any:
    """`compute(values)` of a call with arrays of complex32: on them, or in complex64 and rounded."""
    if op.view or op.path in MOVING:
        return converted(compute(converted(values, plain)), tensor_array if op.view else fresh)
    if op.path not in COMPUTING:
        refuse(f"{op.name}_cpu")
    return converted(compute(converted(values, widened)), rounded)


def write(op: Any, a: Any, write: Callable) -> None:
    """`write(a)`, which overwrites a part of an array of complex32: on the array, or in complex64 and rounded."""
    if op.path in MOVING:
        write(plain(a))
        return
    if op.path not in COMPUTING:
        refuse(f"{op.name}_cpu")
    wide = widened(a)
    write(wide)
    a[...] = wide.astype(C32)


def converted(v: Any, to: Callable) -> Any:
    """`to` of all arrays in an array, a list..."""
    if v.__class__ in (list, tuple):
        return type(v)([converted(x, to) for x in v])
    return to(v) if isinstance(v, (np.ndarray, np.generic)) else v


def plain(a: Any) -> Any:
    return a.view(np.ndarray) if a.__class__ is Halves else a


def widened(a: Any) -> Any:
    return a.astype(C64).view(np.ndarray) if a.dtype is C32 else a


def rounded(a: Any) -> Any:
    """A result of complex64, or a real one, in half precision."""
    if a.dtype is C64:
        return fresh(np.asarray(a.astype(C32)))
    return a.astype(F16) if a.dtype is F32 else a
