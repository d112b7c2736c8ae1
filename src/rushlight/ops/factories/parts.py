"""Complex tensors from their parts: `complex`, `polar`."""

from __future__ import annotations

from rushlight._backends import devices
from rushlight.core import dtypes
from rushlight.core.dtype_sets import C32, C64, F16, FULL
from rushlight.dispatch.registry import Array, elementwise


def _check(real: Array, imag: Array, where: str) -> None:
    """RuntimeError unless both are float32, or both float64."""
    if real.__class__ is imag.__class__ and real.dtype is imag.dtype and real.dtype in FULL:
        return
    for k, part in enumerate((real, imag)):
        if not devices.is_array(part):
            raise TypeError(
                f"{where.removesuffix('_cpu')}(): argument {k + 1} must be Tensor, not "
                f"{type(part).__name__}"
            )
    a, b = dtypes.OF[real.dtype], dtypes.OF[imag.dtype]
    if not {real.dtype, imag.dtype} <= FULL | {F16}:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{a.scalar_name} and {b.scalar_name}"
        )
    if a is not b:
        raise RuntimeError(
            f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for "
            "second argument"
        )
    if a is dtypes.float16 and where == "polar_cpu":
        raise NotImplementedError("\"polar_cpu\" not implemented for 'Half'")


def _joined(xp, real: Array, imag: Array) -> Array:
    # Not real + 1j * imag: infinity times 0 would put a nan into the other part.
    d = dtypes.OF[real.dtype].to_complex().np
    shape, n = real.shape, real.ndim - imag.ndim
    spread = n >= 0 and imag.shape == shape[n:] and (not n or 1 not in shape)  # over all of real
    if spread and real.flags.c_contiguous:
        made = xp.empty(shape, C64 if d is C32 else d)
    elif d is not C32 and spread and imag.strides == real.strides and 1 not in shape:
        transposed = real.flags.f_contiguous  # the result has the order of both
        made = xp.empty(shape[::-1], d).transpose() if transposed else xp.cast(real, d)
    else:
        made = xp.asarray(real + imag).astype(C64 if d is C32 else d)
    made.real, made.imag = real, imag
    return xp.cast(made, C32) if d is C32 else made


@elementwise(promote=None, inplace=False, holomorphic=False, method=False)
def complex(xp, real: Array, imag: Array):
    """`real + 1j * imag` from two tensors of one floating dtype, with broadcasting.

    >>> import rushlight as torch
    >>> torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
    """
    _check(real, imag, "complex_cpu")
    return _joined(xp, real, imag)


complex.grad(real=lambda g: g.real, imag=lambda g: g.imag)


@elementwise(promote=None, inplace=False, holomorphic=False, method=False)
def polar(xp, abs: Array, angle: Array):
    """`abs * (cos(angle) + 1j * sin(angle))` from two tensors of one floating dtype."""
    _check(abs, angle, "polar_cpu")
    return _joined(xp, abs * xp.cos(angle), abs * xp.sin(angle))


# z = r u with u = z / |z|: dz/dr = u, dz/dangle = i z; the real part, since r and angle are real.
polar.grad(
    abs=lambda g, result: (g.conj_physical() * result.sgn()).real,
    angle=lambda g, result: (g.conj_physical() * result * 1j).real,
)
