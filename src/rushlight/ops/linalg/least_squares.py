"""Least squares: by the factors of a matrix of full rank, else by its pseudoinverse."""

from __future__ import annotations

from rushlight.core import dtypes
from rushlight.core.type_info import finfo
from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, composite
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.decompositions import qr
from rushlight.ops.linalg.matrix_results import by_columns, named
from rushlight.ops.linalg.norms import vector_norm
from rushlight.ops.linalg.solve import pinv, solve_triangular

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def by_factors(a, b, rcond):
    """The X of least norm that minimises ||A X - B||, by the factors of the taller of A and A^H; None unless they tell that
    no singular value is below rcond * the largest: the norms of R and of its inverse bound both."""
    tall = a.shape[-2] >= a.shape[-1]
    q, r = qr(a if tall else a.mH)
    known = r.detach()
    one = function("eye")(known.shape[-1], dtype=known.dtype, device=known.device)
    inverse = solve_triangular(known, one, upper=True)
    bound = [vector_norm(x, dim=(-2, -1)) for x in (known, inverse)]
    if somewhere((2 * rcond * bound[0] * bound[1] < 1).logical_not()):
        return None
    if tall:
        return solve_triangular(r, q.mH @ b, upper=True)
    return q @ solve_triangular(r.mH, b, upper=False)


@composite(where="linalg")
def lstsq(input: Array, b: Array, rcond: float | None = None, *, driver: str | None = None):
    """(solution, residuals, rank, singular_values) of min ||A X - B||, A [..., m, n], B [..., m, k].

    The solution of least norm where there are several; singular values up to rcond * the largest
    count as zero ("gels": none; "gelsd": with the usual rcond where it is not between 0 and 1).
    `residuals` are filled for m > n where every rank is full; `singular_values` and `rank` as PyTorch's
    driver of that name fills them. RuntimeError for shapes, dtypes or drivers that do not fit.
    """
    name = "torch.linalg.lstsq"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if input.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got {input.dtype} and "
            f"{b.dtype}"
        )
    if check.dtype_name(input) not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
        raise RuntimeError("This function doesn't handle types other than float and double")
    if driver is not None and driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    driver = driver or "gelsy"
    vector = input.ndim - 1 == b.ndim and input.shape[:-1] == b.shape
    if vector:
        b = b.unsqueeze(-1)
    if not vector and input.shape[-2] != b.shape[-2 if b.ndim > 1 else -1]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-2 if b.ndim > 1 else -1}), got "
            f"{list(input.shape)} and {list(b.shape)}"
        )
    if b.ndim == 1:
        b, vector = b.unsqueeze(-1), True
    m, n = input.shape[-2:]
    if rcond is None or driver == "gels" or driver == "gelsd" and not 0 < rcond < 1:
        rcond = finfo(input.dtype).eps * max(m, n)
    solution = by_factors(input, b, rcond) if m and n else None
    if solution is None or driver in ("gelsd", "gelss"):
        from rushlight.ops.linalg.spectra import svdvals

        values = svdvals(input.detach())
    if solution is not None:
        rank = input.new_full(input.shape[:-2], min(m, n), dtype=dtypes.int64)
    else:
        solution = pinv(input, rtol=rcond) @ b
        above = values > rcond * values[..., :1] if values.shape[-1] else values
        rank = above.sum(-1).long()
    residuals = solution.reshape(-1)[:0].abs()
    full = input.is_meta or not somewhere(rank != n)
    if m > n and driver != "gelsy" and full:
        rest = input @ solution - b
        residuals = (rest * rest.conj_physical()).real.sum(-2)
    empty = residuals.detach().new_zeros((0,))
    return named(
        "linalg_lstsq",
        ("solution", "residuals", "rank", "singular_values"),
        (
            solution.squeeze(-1) if vector else by_columns(solution),
            residuals.squeeze(-1) if vector and residuals.numel() and residuals.ndim else residuals,
            rank if driver != "gels" else empty.long(),
            values if driver in ("gelsd", "gelss") else empty,
        ),
    )
