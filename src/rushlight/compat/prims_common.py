"""`torch._prims_common`: questions about dtypes, shapes and strides that libraries ask by these names.

PyTorch's module has some hundred functions, for its reference implementations; here are those that programs import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import rushlight as torch
from rushlight._subclasses.fake_tensor import MetadataMismatchError
from rushlight.core import dtypes, geometry, modes
from rushlight.core.tensor import Tensor

ShapeType = torch.Size | list[int] | tuple[int, ...]
StrideType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
DimsSequenceType = list[int] | tuple[int, ...]
Dim = int
IntLike, FloatLike, BoolLike = (int, torch.SymInt), (float, torch.SymFloat), (bool, torch.SymBool)
Number = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
NumberType = bool | int | float | complex
RealNumberType = bool | int | float
NumberTypeType = type[bool] | type[int] | type[float] | type[complex]
DeviceLikeType = str | torch.device | int
TensorLike = Tensor
TensorLikeType = Tensor
TensorSequenceType = list[Tensor] | tuple[Tensor, ...]
TensorOrNumberLikeType = Tensor | NumberType


# -- dtypes ----------------------------------------------------------------------------------------

_LOW = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


def is_boolean_dtype(dtype: torch.dtype) -> bool:
    return dtype is torch.bool


def is_integer_dtype(dtype: torch.dtype) -> bool:
    """Whether it is one of the integers; bool is none."""
    return not (dtype is torch.bool or dtype.is_floating_point or dtype.is_complex)


def is_low_precision_dtype(dtype: torch.dtype) -> bool:
    """Whether it is a half, of real or complex numbers."""
    return dtype in _LOW


def is_float_dtype(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def is_complex_dtype(dtype: torch.dtype) -> bool:
    return dtype.is_complex


def is_grad_dtype(dtype: torch.dtype) -> bool:
    """Whether a tensor of it can require a gradient."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the real part of a complex one."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype whose parts are of a floating one."""
    return dtype.to_complex()


def dtype_to_type(dtype: torch.dtype) -> type:
    """bool, int, float or complex: Python's type of its numbers."""
    if dtype is torch.bool:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int


def type_to_dtype(typ: type) -> torch.dtype:
    """The dtype that `torch.tensor` gives a number of the type."""
    return modes.scalar_dtype(typ())


def get_computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums are accumulated: float32 for halves."""
    return _LOW.get(dtype, dtype)


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """What an elementwise operator does with the common dtype of its inputs."""

    DEFAULT = (0,)  # computes in at least float32, the result is of the common dtype
    NO_OPMATH = (1,)  # computes in the common dtype
    INT_TO_FLOAT = (2,)  # integers become the default dtype
    ALWAYS_BOOL = (3,)  # a comparison
    COMPLEX_TO_FLOAT = (4,)  # a magnitude
    BOOL_TO_LONG = (5,)  # a sum


def elementwise_dtypes(
    *_args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND
) -> tuple[torch.dtype, torch.dtype]:
    """(the dtype of the computation, the dtype of the result) for tensors and numbers; None is passed over.

    >>> elementwise_dtypes(torch.ones(2), 3, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.ALWAYS_BOOL)
    (torch.float32, torch.bool)
    """
    groups: dict[str, Any] = {"dim": None, "zero": None, "wrapped": None}
    for arg in _args:
        if arg is None:
            continue
        if isinstance(arg, Tensor):
            group, dtype = ("dim" if arg.ndim else "zero"), arg.dtype
        elif isinstance(arg, (bool, int, float, complex)):
            group, dtype = "wrapped", modes.scalar_dtype(arg)
        else:
            raise ValueError(f"Unexpected type {type(arg)} when computing elementwise dtypes")
        both = groups[group]
        groups[group] = dtype if both is None else dtypes.promote_types(both, dtype)
    common = dtypes.result_dtype(**groups)
    kinds, kind = ELEMENTWISE_TYPE_PROMOTION_KIND, type_promotion_kind
    if kind is kinds.NO_OPMATH:
        return common, common
    if kind is kinds.INT_TO_FLOAT and not is_grad_dtype(common):
        common = torch.get_default_dtype()
    if kind is kinds.BOOL_TO_LONG and common is torch.bool:
        return torch.int64, torch.int64
    result = common
    if kind is kinds.ALWAYS_BOOL:
        result = torch.bool
    if kind is kinds.COMPLEX_TO_FLOAT and common.is_complex:
        result = common.to_real()
    return get_computation_dtype(common), result


def dtype_or_default(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


def device_or_default(device: Any) -> Any:
    return torch.get_default_device() if device is None else device


def canonicalize_device(device: Any) -> torch.device:
    return torch.device(device)


# -- shapes and strides ----------------------------------------------------------------------------


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """`idx` counted from the front. IndexError out of range; a scalar has dimension 0 if `wrap_scalar`."""
    if rank == 0 and not wrap_scalar:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    return geometry.wrap_dim(idx, rank)


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """The same for one dimension, or for several."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, each, wrap_scalar) for each in indices)


def is_same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    return tuple(a) == tuple(b)


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of contiguous memory; if not `row_major` its last two dimensions are exchanged, as LAPACK has them.

    >>> make_contiguous_strides_for((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(strides) > 1:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def suggest_memory_format(x: Tensor) -> torch.memory_format:
    """The memory format in which a result of the same layout is made."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    known = formats.get(x.ndim)
    dense = known is not None and not x.is_contiguous() and x.is_contiguous(memory_format=known)
    return known if dense else torch.contiguous_format


def compare_tensor_meta(
    a: Tensor, b: Tensor, check_sizes: bool = True, check_strides: bool = False, *,
    allow_rhs_unbacked: bool = False, check_conj: bool = True,
) -> None:  # fmt: skip
    """MetadataMismatchError unless both have the same shape, dtype and device, and with `check_strides` the same strides.

    Strides of dimensions of size 1, and of tensors without elements, are not compared.
    """
    for each in (a, b):
        if not isinstance(each, Tensor):
            raise AssertionError(f"compare_tensor_meta: must be tensors, got {type(each)}")
    if check_sizes and not is_same_shape(a.shape, b.shape):
        raise MetadataMismatchError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype is not b.dtype:
        raise MetadataMismatchError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device:
        raise MetadataMismatchError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides and a.numel():
        for dim, size in enumerate(a.shape):
            if size > 1 and a.stride(dim) != b.stride(dim):
                raise MetadataMismatchError(
                    f"Stride mismatch! Strides are {a.stride()} and {b.stride()} (mismatched at {dim})!"
                )
    if check_conj and a.is_conj() != b.is_conj():
        raise MetadataMismatchError(
            f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}"
        )
    if a.is_neg() != b.is_neg():
        raise MetadataMismatchError(f"Neg mismatch! is_neg is set to {a.is_neg()} and {b.is_neg()}")


def check(b: bool, s: Callable[[], str], exc_type: type[Exception] = RuntimeError) -> None:
    """`exc_type` with the text of `s()` unless `b`. `torch._check` is its successor."""
    torch._check_with(exc_type, b, s)
