"""Products of matrices and vectors on NumPy arrays.

Everything ends in `ndarray.dot` or `np.matmul`, that is in BLAS, which takes transposed matrices as
they are. Half types are multiplied in float32 and rounded once; integers wrap around as in C.
"""

from __future__ import annotations

from math import prod
from typing import NoReturn

import numpy as np

from rushlight.core import dtypes, geometry
from rushlight.core.dtype_sets import COMPLEX, F32, FULL, REDUCED

KERNELS = (
    "accumulate accumulate_activated adjoint_times bmm broadcast_to c_name check_bmm cross dot kron linear "
    "matmul mm mv outer outer_added times_adjoint trace vdot"
).split()

BLAS = FULL | COMPLEX


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in `torch.matmul`."""
    d = a.dtype
    if d is not b.dtype or d not in BLAS:
        return matmul_other(a, b)
    na, nb = a.ndim, b.ndim
    if na > 2 or nb > 2 or not na or not nb:
        return matmul_batched(a, b)
    try:
        r = a.dot(b)
    except ValueError:
        mismatch(a, b)
    return r


def matmul_other(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of dtypes that BLAS does not know."""
    d = a.dtype
    if not a.ndim or not b.ndim:
        mismatch(a, b)
    if d != b.dtype:
        different(a, b)
    if d in BLAS:  # equal to one of ours, but another object: an array made outside
        return matmul(a.view(dtypes.OF[d].np), b.view(dtypes.OF[d].np))
    if d in REDUCED:
        return rounded(matmul(a.astype(F32), b.astype(F32)), d)
    if d.kind == "b":
        refuse_bool(a, b)
    if a.shape[-1] != b.shape[-min(b.ndim, 2)]:
        mismatch(a, b)
    if a.ndim > 2 or b.ndim > 2:
        check_batches(a, b)
    return np.matmul(a, b)


def matmul_batched(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """At least one operand has more than two dimensions (or none, which is an error)."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-min(b.ndim, 2)]:
        mismatch(a, b)
    k = a.shape[-1]
    if b.ndim <= 2 or (a.ndim >= b.ndim and prod(b.shape[:-2]) == 1):
        # One matrix (or vector) for the whole batch: a single product. NumPy would loop.
        lead = a.shape[:-1]
        if b.ndim > 2:
            b = b.reshape(b.shape[-2:])
        return a.reshape(-1 if a.size else prod(lead), k).dot(b).reshape(lead + b.shape[1:])
    check_batches(a, b)
    return np.matmul(blas_strides(a), blas_strides(b))


def check_batches(a: np.ndarray, b: np.ndarray) -> None:
    if a.shape[:-2] != b.shape[:-2]:
        geometry.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # raises PyTorch's error


def blas_strides(a: np.ndarray) -> np.ndarray:
    """`a`, copied if BLAS cannot step through its matrices: `np.matmul` would fall back to loops."""
    if a.ndim < 2 or a.flags.c_contiguous:
        return a
    (n, m), (s, t), size = a.shape[-2:], a.strides[-2:], a.itemsize
    if (t == size and s >= m * size and not s % size) or (
        s == size and t >= n * size and not t % size
    ):
        return a
    return np.ascontiguousarray(a)


def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k, m]."""
    if a.ndim != 2 or b.ndim != 2:
        which = "self" if a.ndim != 2 else "mat2"
        raise RuntimeError(f"{which} must be a matrix, got shapes {list(a.shape)}, {list(b.shape)}")
    return matmul(a, b)


def mv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k]."""
    if a.ndim != 2 or b.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    return matmul(a, b)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[k] @ [k]."""
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    return matmul(a, b)


def vdot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """conj([k]) @ [k]."""
    return dot(a.conj() if a.dtype.kind == "c" else a, b)


def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All products of [n] and [m], of one dtype."""
    return np.multiply(a[:, None], b)


def outer_added(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input [n, m] + alpha * `outer`, in the order of `input` in memory; every step is rounded."""
    a = a if alpha == 1 else times(a, alpha)
    if not input.flags.c_contiguous and input.flags.f_contiguous:
        return outer_added(input.T, b, a, beta, 1).T
    return plus(outer(a, b), input, beta)


def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[batch, n, k] @ [batch, k, m]."""
    check_bmm(a, b)
    d = a.dtype
    if d is b.dtype and d in BLAS and a.flags.c_contiguous and b.flags.c_contiguous:
        return np.matmul(a, b)
    return matmul(a, b)


def check_bmm(a: np.ndarray, b: np.ndarray) -> None:
    """RuntimeError unless both are batches of matrices that fit."""
    if a.ndim != 3 or b.ndim != 3:
        which = "batch1" if a.ndim != 3 else "batch2"
        raise RuntimeError(
            f"{which} must be a 3D tensor, got shapes {list(a.shape)} and {list(b.shape)}"
        )
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )


def adjoint(a: np.ndarray) -> np.ndarray:
    """The transposed matrices, conjugated when complex."""
    a = a.T if a.ndim == 2 else a.swapaxes(-1, -2)
    return a.conj() if a.dtype.kind == "c" else a


def times_adjoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""
    return matmul(a, adjoint(b))


def adjoint_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""
    return matmul(adjoint(a), b)


def linear(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """a [..., k] @ weight [m, k]ᵀ + bias [m]."""
    if a.ndim == 2 and a.dtype is weight.dtype and a.dtype in BLAS:
        try:
            r = a.dot(weight.T)
        except ValueError:
            mismatch(a, weight.T)
    else:
        if bias is not None and a.dtype != weight.dtype:
            x, y = dtypes.OF[a.dtype].scalar_name, dtypes.OF[weight.dtype].scalar_name
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {x} and {y}")
        if (
            a.dtype in REDUCED
            and a.dtype == weight.dtype
            and (bias is None or bias.dtype == a.dtype)
        ):
            return rounded(linear(*singles(a, weight, bias)), a.dtype)
        if a.ndim == 1 and weight.ndim == 2 and a.shape != weight.shape[1:]:
            mismatch(a[None], weight.T)
        if weight.ndim == 2 and a.ndim > 2 and a.shape[-1] != weight.shape[1]:
            mismatch(a, weight.T)
        r = matmul(a, weight.T)
    if bias is None:
        return r
    return plus(np.asarray(r), bias)


def singles(*arrays: np.ndarray | None) -> list:
    """Half types as float32."""
    return [None if a is None else a.astype(F32) for a in arrays]


def rounded(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        return a.astype(dtype)


def accumulate(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input + alpha * (a @ b); half types are rounded once."""
    if a.dtype in REDUCED and a.dtype == b.dtype == input.dtype:
        return rounded(accumulate(*singles(input, a, b), beta, alpha), a.dtype)
    r = np.asarray(matmul(a, b))
    return plus(r if alpha == 1 else times(r, alpha), input, beta)


def accumulate_activated(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float, act: str
) -> np.ndarray:
    """`gelu` or `relu` of `accumulate`, of matrices."""
    from rushlight._backends.reference import activation

    r = accumulate(input, a, b, beta, alpha)
    return activation.gelu(r) if act == "gelu" else activation.relu(r)


def plus(r: np.ndarray, bias: np.ndarray, scale: float = 1) -> np.ndarray:
    """r + scale * bias, into the fresh array `r`; bias is broadcast to its shape."""
    if bias.dtype != r.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {dtypes.OF[bias.dtype].scalar_name} and "
            f"{dtypes.OF[r.dtype].scalar_name}"
        )
    if scale == 0:  # not even a NaN in bias counts
        broadcast_to(bias, r.shape)
        return r
    if scale != 1:
        bias = times(bias, scale)
    try:
        return np.add(r, bias, out=r)
    except ValueError:
        broadcast_to(bias, r.shape)
        raise


def times(a: np.ndarray, scale: complex) -> np.ndarray:
    """a * scale in the dtype of `a`."""
    return a * (int(scale) if a.dtype.kind in "iu" else a.dtype.type(scale))


def broadcast_to(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`np.broadcast_to` with PyTorch's errors."""
    if a.ndim > len(shape):
        raise RuntimeError(
            f"expand(torch.{dtypes.OF[a.dtype].scalar_name}Tensor{{{list(a.shape)}}}, size={list(shape)}): "
            f"the number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({a.ndim})"
        )
    lead = len(shape) - a.ndim
    for i, n in reversed(list(enumerate(a.shape))):
        if n not in (1, shape[lead + i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[lead + i]}) must match the existing size ({n}) "
                f"at non-singleton dimension {lead + i}.  Target sizes: {list(shape)}.  Tensor sizes: "
                f"{list(a.shape)}"
            )
    return np.broadcast_to(a, shape)


# -- the errors ------------------------------------------------------------------------------------


def mismatch(a: np.ndarray, b: np.ndarray) -> NoReturn:
    """Raise PyTorch's error for operands of `matmul` whose sizes do not fit."""
    na, nb = a.ndim, b.ndim
    if not na or not nb:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {na}D and {nb}D"
        )
    if na == nb == 1:
        different_lengths(a, b)
    if nb == 1:
        n = prod(a.shape[:-1])
        raise RuntimeError(
            f"size mismatch, got input ({n}), mat ({n}x{a.shape[-1]}), vec ({b.shape[0]})"
        )
    if nb == 2:
        n = prod(a.shape[:-1])
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({n}x{a.shape[-1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    batch = prod(b.shape[:-2])
    raise RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a.shape[-1]}] but "
        f"got: [{batch}, {b.shape[-2]}]."
    )


def different_lengths(a: np.ndarray, b: np.ndarray) -> NoReturn:
    raise RuntimeError(
        f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same "
        f"number of elements, but got {a.size} and {b.size} elements respectively"
    )


C_NAMES = {"float32": "float", "float64": "double", "int64": "long long", "int32": "int",
           "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int16": "short", "int8": "signed char",
           "uint8": "unsigned char", "complex64": "c10::complex<float>",
           "complex128": "c10::complex<double>"}  # fmt: skip


def c_name(a: np.ndarray) -> str:
    """The dtype as PyTorch's messages on products name it."""
    name = dtypes.OF[a.dtype].name
    return C_NAMES.get(name, name)


def different(a: np.ndarray, b: np.ndarray) -> NoReturn:
    """Raise PyTorch's error for operands of different dtypes."""
    x, y = dtypes.OF[a.dtype], dtypes.OF[b.dtype]
    if a.ndim == b.ndim == 1:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {x.scalar_name} and "
            f"{y.scalar_name}"
        )
    if b.ndim == 1:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {y.scalar_name}, {x.scalar_name}, "
            f"and {y.scalar_name}"
        )
    if b.ndim > 2:
        raise RuntimeError(f"expected scalar type {x.scalar_name} but found {y.scalar_name}")
    raise RuntimeError(
        f"expected m1 and m2 to have the same dtype, but got: {c_name(a)} != {c_name(b)}"
    )


def refuse_bool(a: np.ndarray, b: np.ndarray) -> NoReturn:
    where = "addmm_impl_cpu_"
    if b.ndim == 1:
        where = "dot" if a.ndim == 1 else "addmv_impl_cpu"
    elif b.ndim > 2:
        where = "bmm"
    raise NotImplementedError(f"\"{where}\" not implemented for 'Bool'")


def cross(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    """The cross products of vectors along an axis of arrays that broadcast."""
    (x, y, z), (u, v, w) = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    return np.ascontiguousarray(np.stack((y * w - z * v, z * u - x * w, x * v - y * u), axis))


def kron(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The Kronecker product of two matrices of one dtype."""
    (m, n), (p, q) = a.shape, b.shape
    return (a[:, None, :, None] * b[:, None]).reshape(m * p, n * q)


def trace(a: np.ndarray) -> np.ndarray:
    """The sum of the diagonal of a matrix, added up in double precision; int64 of integers."""
    if a.dtype.kind in "iu":
        return np.asarray(a.trace(dtype=np.int64))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.asarray(a.diagonal().astype(wide).sum()).astype(a.dtype)
