"""What factorizations and solvers demand of their inputs, in PyTorch's words. Arrays or tensors."""

from __future__ import annotations

from rushlight.core import dtypes, settings
from rushlight.core.dtype_sets import COMPLEX, FULL, REDUCED


def dtype_name(a) -> str:
    d = a.dtype
    return (d if isinstance(d, dtypes.dtype) else dtypes.OF[d]).scalar_name


def deprecated(name: str, instead: str) -> None:
    """A warning, once, of an older function that `torch.linalg` has under another name."""
    settings.warn_once(
        f"torch.{name} is deprecated in favor of {instead} and will be removed in a future PyTorch release."
    )


def real_tolerances(name: str, **given) -> None:
    """No tolerance is a complex tensor."""
    for which, t in given.items():
        if hasattr(t, "shape") and t.is_complex():
            raise RuntimeError(
                f"torch.{name}: {which} tensor of complex type is not supported. Got {dtype_name(t)}"
            )


def matrix(name: str, a, argument: str = "A") -> None:
    """At least two dimensions."""
    if a.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions. Got shape "
            f"{list(a.shape)}"
        )


def square(name: str, a, argument: str = "A") -> None:
    """A stack of square matrices."""
    shape = a.shape
    if len(shape) < 2:
        matrix(name, a, argument)
    if shape[-2] != shape[-1]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {shape[-2]} by "
            f"{shape[-1]} matrices"
        )


def floating(name: str, a, *, half: bool = False) -> None:
    """A floating or complex dtype, of at least 32 bits unless `half`."""
    d = getattr(a.dtype, "np", a.dtype)
    if d in FULL or d in COMPLEX or half and d in REDUCED:
        return
    if d in REDUCED:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {dtype_name(a)}")
    raise RuntimeError(
        f"{name}: Expected a floating point or complex tensor as input. Got {dtype_name(a)}"
    )


def implemented(kernel: str, a) -> None:
    """A dtype that LAPACK has routines for."""
    d = getattr(a.dtype, "np", a.dtype)
    if d not in FULL and d not in COMPLEX:
        raise NotImplementedError(f"\"{kernel}_cpu\" not implemented for '{dtype_name(a)}'")


def square_floating(name: str, a, argument: str = "A") -> None:
    square(name, a, argument)
    floating(name, a)


def same_dtype(name: str, a, b) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {dtype_name(a)} and "
            f"B of type {dtype_name(b)} instead"
        )


def fits(name: str, a, b, left: bool = True) -> None:
    """B has as many rows (columns, for X A = B) as A."""
    equation, n = ("AX = B", b.shape[-2]) if left else ("XA = B", b.shape[-1])
    if a.shape[-1] != n:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
