"""The parts of complex numbers: `real`, `imag`, `view_as_real`, `conj`..."""

from __future__ import annotations

from math import gcd
from typing import Any

from numpy import ndarray

from rushlight._backends import complex32, math_bits
from rushlight.core import dtypes
from rushlight.core.dtype_sets import BOOL, C32, COMPLEX, FULL
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, op


def part_of(xp, input: Array, nr: int) -> Array:
    """The real (0) or imaginary (1) parts, on the same memory."""
    d = dtypes.OF[input.dtype].to_real().np
    return xp.as_strided(input, input.shape, input.strides, nr * d.itemsize, d)


@op(view=True, where="aten", name="real", node="SelectBackward0", method=False)
def real_part(xp, input: Array):
    """The real parts of complex numbers."""
    return part_of(xp, input, 0)


real_part.grad(input=lambda g, input_dtype: g.to(input_dtype))


@op(view=True, where="aten", name="imag", node="SelectBackward0", method=False)
def imag_part(xp, input: Array):
    """The imaginary parts of complex numbers."""
    return part_of(xp, input, 1)


imag_part.grad(input=lambda g, input_dtype: g.to(input_dtype) * 1j)


@composite(method=False)
def real(input: Tensor):
    """The real parts, on the same memory; a real tensor as it is."""
    if input._array.dtype not in COMPLEX:
        return input
    return real_part(conj(input) if input.is_conj() else input)


@composite(method=False)
def imag(input: Tensor):
    """The imaginary parts, on the same memory; RuntimeError for real dtypes."""
    if input._array.dtype not in COMPLEX:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return imag_part(_neg_view(conj(input)) if input.is_conj() else input)


@op(view=True, method=False)
def view_as_real(xp, input: Array):
    """Complex numbers as pairs of reals: a new last dimension of size 2.

    >>> import rushlight as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.dtype not in COMPLEX:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    d = dtypes.OF[input.dtype].to_real().np
    return xp.as_strided(input, (*input.shape, 2), (*input.strides, d.itemsize), 0, d)


view_as_real.grad(input=lambda g: complex_from(g))


def is_whole(a: Any) -> bool:
    """Whether a row-major array is all of the memory that it is in, as far as is seen at once."""
    if not a.flags.c_contiguous:
        return False
    base = a.base
    return base is None or (
        base.__class__ is ndarray and base.base is None and base.nbytes == a.nbytes
    )


PAIRS = {d: dtypes.OF[d].to_complex().np for d in FULL}  # what pairs of such numbers are


@op(view=True, method=False)
def view_as_complex(xp, input: Array):
    """Pairs of reals in the last dimension as complex numbers.

    >>> import rushlight as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    shape = input.shape
    c = PAIRS.get(input.dtype)
    if c is not None and shape and shape[-1] == 2 and is_whole(input):
        made = input.view(c)[..., 0]
        if 1 not in shape:
            return made
        strides = input.strides[:-1]
        if made.strides == strides and not gcd(*strides) % c.itemsize:
            return made  # of size 1 strides may be odd
    d = dtypes.OF[input.dtype]
    if d not in (dtypes.float16, dtypes.float32, dtypes.float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {d.scalar_name}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    strides = xp.element_strides(input)
    if strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    c = d.to_complex().np
    if not is_whole(input) and (xp.address(input) - xp.address(xp.root(input))) % c.itemsize:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return complex32.tensor_array(xp.as_strided(input, input.shape[:-1], input.strides[:-1], 0, c))


view_as_complex.grad(input=lambda g: view_as_real(resolve_conj(g.contiguous())))


def complex_from(g: Tensor) -> Tensor:
    return view_as_complex(g if g.is_contiguous() else g.contiguous())


# -- views of conjugates and negatives: see Note [Conjugates are views] in _backends/math_bits.py ----


@composite
def conj(input: Tensor):
    """The complex conjugates, a view of the same memory; a real tensor as it is."""
    d = input._array.dtype
    if d not in COMPLEX:
        return input
    with_bits = input.layout is dtypes.strided and input.device.type in ("cpu", "meta")
    return _conj(input) if with_bits and d is not C32 else conj_copy(input)


@op(view=True, node="ConjBackward0")
def _conj(xp, input: Array):
    """The same memory with the conjugate bit, or without it."""
    return math_bits.toggled(input, True, False)


_conj.grad(input=lambda g: g.conj())


@op(view=True, node="NegViewBackward0")
def _neg_view(xp, input: Array):
    """The negatives, a view of the same memory; NotImplementedError for bool."""
    if input.dtype is BOOL:
        raise NotImplementedError("\"neg_cpu\" not implemented for 'Bool'")
    return math_bits.toggled(input, False, True)


_neg_view.grad(input=lambda g: -g)


@op(where="aten", name="conj_copy", node="ConjBackward0", method=False)
def conj_copy(xp, input: Array):
    return xp.conjugate(input)


conj_copy.grad(input=lambda g: g.conj_physical())


@composite
def resolve_conj(input: Tensor):
    """The conjugates computed, where `input` is a view of conjugates; else `input`."""
    return input.clone() if input.is_conj() else input


@composite
def resolve_neg(input: Tensor):
    """The negatives computed, where `input` is a view of negatives; else `input`."""
    return input.clone() if input.is_neg() else input
