"""Products of matrices in groups of different sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rushlight._backends import cpu as xp
from rushlight.core.dtype_sets import FLOATING
from rushlight.dispatch.registry import Array, composite, op

if TYPE_CHECKING:
    from rushlight.core.dtypes import dtype as DType


@op(name="_grouped_mm", node="GroupedMmBackward0", method=False, out=False)
def product_of_groups(xp, a: Array, b: Array, offs: Array | None):
    """The products of the groups that `offs` ends, in the dimension that both or one has cut."""
    if offs is None:
        return xp.bmm(a, b)
    ends = [0, *offs.tolist()]
    groups = [slice(i, j) for i, j in pairwise(ends)]
    n, m = a.shape[-2], b.shape[-1]
    if a.ndim == 2 and b.ndim == 2:  # cut where they are summed over
        out = xp.zeros((len(groups), n, m), a.dtype)
        for k, s in enumerate(groups):
            out[k] = xp.mm(a[:, s], b[s])
        return out
    out = xp.zeros((n, m), a.dtype)
    for k, s in enumerate(groups):
        if a.ndim == 2:
            out[s] = xp.mm(a[s], b[k])
        else:
            out[:, s] = xp.mm(a[k], b[:, s])
    return out


product_of_groups.grad(
    a=lambda g, b, offs: product_of_groups(g, b.mT, offs),
    b=lambda g, a, offs: product_of_groups(a.mT, g, offs),
)


@composite(where="nn.functional", inplace=False)
def grouped_mm(
    mat_a: Array,
    mat_b: Array,
    *,
    offs: Array | None = None,
    bias: Array | None = None,
    out_dtype: DType | None = None,
):
    """Products of groups of matrices; `offs` (int32) says where each group ends.

    (M, K) and (G, K, N): the rows of `mat_a` are cut, (M, N). (G, M, K) and (K, N): the columns of
    `mat_b`, (M, N). (M, K) and (K, N): the K, (G, M, N). Three dimensions both: no `offs`.

    >>> import rushlight as torch
    >>> a, b = torch.ones(4, 4), torch.arange(2.0).view(2, 1, 1).expand(2, 4, 4)
    >>> ends = torch.tensor([1, 4], dtype=torch.int32)
    >>> torch.nn.functional.grouped_mm(a, b, offs=ends)[:, 0]
    tensor([0., 4., 4., 4.])
    """
    for name, t in (("mat_a", mat_a), ("mat_b", mat_b)):
        if t.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d, not {t.ndim}d")
    if mat_a.dtype.np not in FLOATING:
        raise RuntimeError(
            "Expected mat_a to be Float32, BFloat16 or Float16 (or Float64) matrix, got "
            f"{mat_a.dtype.scalar_name}"
        )
    if mat_a.dtype is not mat_b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {xp.c_name(mat_a._array)} != "
            f"{xp.c_name(mat_b._array)}"
        )
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is not None and offs.dtype.name != "int32":
        raise RuntimeError(f"Offsets have to be int32, not {offs.dtype}")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    return product_of_groups(mat_a, mat_b, offs)
