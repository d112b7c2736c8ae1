"""Distances between all pairs of rows."""

from __future__ import annotations

from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import to_shape

MODES = (
    None,
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)

SHORT = 32  # numbers of a row up to which a product takes longer than the differences
FEW = 1 << 18  # differences up to which their gradients take less time than products


@op(method=False)
def cdist(xp, x1: Array, x2: Array, p: float = 2.0, compute_mode: str | None = None):
    """The p-norm distances of all rows of x1 [..., n, k] to all rows of x2 [..., m, k]: [..., n, m].

    `compute_mode`: whether Euclidean distances are found by a matrix product, which is quick and rounds
    more; by default for more than 25 rows.

    >>> import rushlight as torch
    >>> torch.cdist(torch.zeros(1, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, a in (("X1", x1), ("X2", x2)):
        if a.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {a.ndim}D")
        if a.dtype.kind != "f":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {check.dtype_name(a)}"
            )
    if x1.dtype is not x2.dtype:
        expected, found = (check.dtype_name(a) for a in (x1, x2))
        raise RuntimeError(f"cdist: expected scalar type {expected} but found {found}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    product = compute_mode == MODES[2] or (
        compute_mode in MODES[:2] and max(x1.shape[-2], x2.shape[-2]) > 25
    )
    if product and p == 2 and x1.shape[-1] > SHORT:
        return xp.linalg.cdist(x1, x2)
    return xp.cdist(x1, x2, float(p))


def cdist_gradients(xp, g, x1, x2, result, p, needs):
    if p == 2 and result.size * x1.shape[-1] >= FEW:
        return NotImplemented
    g1 = g2 = None
    if needs[0]:
        g1 = xp.cdist_gradient(g, result, x1, x2, float(p))
        g1 = g1 if g1.shape == x1.shape else xp.sum_to(g1, x1.shape)
    if needs[1]:
        g2 = xp.cdist_gradient(g.swapaxes(-1, -2), result.swapaxes(-1, -2), x2, x1, float(p))
        g2 = g2 if g2.shape == x2.shape else xp.sum_to(g2, x2.shape)
    return g1, g2


def slopes(g, d, difference, p):
    """g times the derivative of distances d by the differences along the last dimension."""
    g, d = g.unsqueeze(-1), d.unsqueeze(-1)
    sign, size = difference.sgn(), difference.abs()
    if p == 0:
        return difference.new_zeros(difference.shape)
    if p == 1:
        return g * sign
    if p == float("inf"):
        return g * sign * (size == d)
    if p == 2:
        return (g * (difference / d)).masked_fill(d == 0, 0)
    share = sign * size.pow(p - 1) * (g / d.pow(p - 1))
    return share.masked_fill((d == 0) | (size == 0), 0)


def cdist_rule(g, x1, x2, result, p, needs):
    from rushlight.ops.linalg.matmul import adjoint_times, matmul

    if p == 2:  # g (x1 - x2) / d, summed over the pairs as two products
        share = (g / result).masked_fill(result == 0, 0)
        g1 = x1 * share.sum(-1, keepdim=True) - matmul(share, x2) if needs[0] else None
        if needs[1]:
            g2 = x2 * share.sum(-2).unsqueeze(-1) - adjoint_times(share, x1)
        else:
            g2 = None
    else:
        share = slopes(g, result, x1.unsqueeze(-2) - x2.unsqueeze(-3), p)
        g1 = share.sum(-2) if needs[0] else None
        g2 = -share.sum(-3) if needs[1] else None
    return (
        None if g1 is None else to_shape(g1, x1.shape),
        None if g2 is None else to_shape(g2, x2.shape),
    )


cdist.grad_all(cdist_rule, kernel=cdist_gradients)


@composite(method=False)
def pdist(input: Array, p: float = 2.0):
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]: a vector [n (n - 1) / 2]."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    check.floating("pdist", input, half=True)
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    return pairs_of_rows(input, p)


@op(name="_pdist_forward", node="PdistBackward0", method=False, out=False)
def pairs_of_rows(xp, input: Array, p: float):
    return xp.pdist(input, float(p))


def pairs_rule(g, input, result, p):
    i, j = function("triu_indices")(input.shape[0], input.shape[0], 1)
    share = slopes(g, result, input[i] - input[j], p)
    return input.new_zeros(input.shape).index_add(0, i, share).index_add(0, j, -share)


pairs_of_rows.grad(
    input=pairs_rule,
    kernel=lambda xp, g, input, result, p: xp.pdist_gradient(g, result, input, float(p)),
)


pdist.alias("nn.functional.pdist")
