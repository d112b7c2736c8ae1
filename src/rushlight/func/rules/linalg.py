"""Batching rules of linear algebra, whose operators take any dimensions in front of matrices."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.dispatch.batch import RULES, Batched, in_front, loop
from rushlight.func.rules.rules import behind, front, rule

for path in (
    "linalg.cholesky_ex linalg.lu_factor_ex linalg.qr geqrf linalg.ldl_factor_ex linalg.eigh internal.eigvalsh "
    "linalg.eig internal.eigvals linalg.svd internal.svdvals linalg.matrix_exp internal.cholesky_inverse_ex "
    "linalg.inv_ex linalg.det linalg.slogdet internal.unpacked internal.householder_product internal.ormqr"
).split():
    RULES[path] = front


@rule(
    "linalg.solve_triangular", "internal.cholesky_solved", "internal.lu_solved", "linalg.ldl_solve"
)
def solve(b: Batched) -> Any:
    """Matrices broadcast: ones stand between the batch and fewer dimensions."""
    names = [i for i in b.op.inputs if i != "pivots"]
    n = max(b.ndim(i) for i in names)
    changed = {i: in_front(b.expanded(i), n) for i in names}
    if "pivots" in b.named:
        changed["pivots"] = in_front(b.expanded("pivots"), n - 1)
    return b.call(**changed)


@rule("internal.solved")
def solved(b: Batched) -> Any:
    """What the factorization is for, is known here: the gradient solves again."""
    vector = b.named["vector"]
    A, B = b.expanded("A"), b.expanded("B")
    n = max(b.ndim("A"), b.ndim("B") + vector)
    result, info = b.call(
        A=in_front(A, n), B=in_front(B.unsqueeze(-1) if vector else B, n), vector=False
    )
    return (result.squeeze(-1) if vector else result), info


@rule("internal.pinv")
def pinv(b: Batched) -> Any:
    changed = {i: b.expanded(i) for i in b.op.inputs if i in b.has or i == "A"}
    return b.call(**changed)


@rule("_pdist_forward", "_grouped_mm")
def one_by_one(b: Batched) -> Any:
    return loop(b)


@rule("linalg.cross")
def cross(b: Batched) -> Any:
    n = b.ndim("input")
    if b.ndim("other") != n:
        b.call(input=torch.empty(b.shape("input")), other=torch.empty(b.shape("other")))  # raises
    return b.call(
        input=in_front(b.expanded("input"), n),
        other=in_front(b.expanded("other"), n),
        dim=behind(b.named["dim"], n),
    )
