"""What the results and gradients of factorizations and solvers share: codes of failure, names, layouts."""

from __future__ import annotations

from numpy import ndarray

from rushlight._backends import cpu
from rushlight._backends.meta import Meta
from rushlight.autograd.state import active
from rushlight.core import dtypes
from rushlight.core.tensor import _wrap
from rushlight.dispatch.handlers import checks_values
from rushlight.dispatch.transforms import Lifted, tensor_inside


def batch_element(info) -> str:
    """`(Batch element 3): ` of the first that failed; nothing for a single matrix."""
    if not info.ndim:
        return ""
    flat = codes(info)
    return f"(Batch element {int(flat.nonzero()[0][0])}): "


def codes(info):
    """All codes of a tensor or array, of all elements of a batch too."""
    info = getattr(info, "_array", info)
    while isinstance(info, Lifted):
        info = tensor_inside(info)._array
    return info.reshape(-1)


def first_failure(info) -> int:
    """The first code that is not 0 of a tensor or array; 0 when all went well, and on meta."""
    flat = codes(info)
    if isinstance(flat, Meta):
        return 0
    checks_values(info)
    if len(flat) == 1:
        return int(flat[0])
    return int(flat[flat.nonzero()[0][0]]) if flat.any() else 0


def named(name, fields, values):
    """A named tuple of `torch.return_types`."""
    from rushlight.core import return_types

    return tuple.__new__(return_types.make(name, fields), values)


def by_columns(t):
    """A copy of matrices that lies in memory column by column."""
    a = t._array
    if a.__class__ is ndarray and t._edge is None and not active.modes:
        return _wrap(cpu.row_major(a.swapaxes(-1, -2)).swapaxes(-1, -2))
    return t.mT.clone(memory_format=dtypes.contiguous_format).mT


def eye(like, n, m=None):
    """The identity [n, m] of the dtype and the class of `like`."""
    return like.new_ones((n, n if m is None else m)).tril().triu()


def skew(x):
    return x - x.mH


def to_shape(g, shape):
    """Sum `g` over the dimensions that were broadcast."""
    return g if g.shape == shape else g.sum_to_size(shape)
