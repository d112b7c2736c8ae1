"""Products of matrices and attention."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.onnx.builder import Builder, Operand, conversion


@conversion("matmul", "mm", "bmm", "mv", "dot", "__matmul__")
def matmul(g: Builder, a: Operand, b: Operand) -> Operand:
    return g.op("MatMul", a, b)


@conversion("linear")
def linear(g: Builder, x: Operand, weight: Operand, bias: Operand | None = None) -> Operand:
    if x.rank == 2 and weight.rank == 2:
        return g.op("Gemm", x, weight, bias, transB=1)
    product = g.op(
        "MatMul", x, g.op("Transpose", weight, perm=[1, 0]) if weight.rank == 2 else weight
    )
    return product if bias is None else g.op("Add", product, bias)


@conversion("addmm")
def addmm(g: Builder, c: Operand, a: Operand, b: Operand, beta: Any = 1, alpha: Any = 1) -> Operand:
    return g.op("Gemm", a, b, c, alpha=float(alpha), beta=float(beta))


@conversion("baddbmm", "addbmm", "addmv")
def baddbmm(
    g: Builder, c: Operand, a: Operand, b: Operand, beta: Any = 1, alpha: Any = 1
) -> Operand:
    product = g.op("MatMul", a, b)
    if alpha != 1:
        product = g.op("Mul", product, g.constant(alpha, a.dtype))
    if beta != 1:
        c = g.op("Mul", c, g.constant(beta, a.dtype))
    return g.op("Add", c, product)


@conversion("outer", "ger")
def outer(g: Builder, a: Operand, b: Operand) -> Operand:
    return g.op("Mul", g.op("Unsqueeze", a, [1]), g.op("Unsqueeze", b, [0]))


@conversion("einsum")
def einsum(g: Builder, equation: str, *operands: Any, path: Any = None) -> Operand:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return g.op("Einsum", *operands, equation=equation)


@conversion("bilinear")
def bilinear(
    g: Builder, a: Operand, b: Operand, weight: Operand, bias: Operand | None = None
) -> Operand:
    found = g.op("Einsum", a, weight, b, equation="...i,oij,...j->...o")
    return found if bias is None else g.op("Add", found, bias)


@conversion("scaled_dot_product_attention")
def attention(
    g: Builder, query: Operand, key: Operand, value: Operand, attn_mask: Operand | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Operand:  # fmt: skip
    if dropout_p or enable_gqa:
        raise NotImplementedError("attention with dropout or grouped queries")
    width = query.shape[-1]
    if scale is None and width is None:
        raise NotImplementedError("attention of a dynamic width")
    scale = width**-0.5 if scale is None else scale
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = g.op(
        "MatMul",
        g.op("Mul", query, g.constant(scale, query.dtype)),
        g.op("Transpose", key, perm=order),
    )
    lowest = g.constant(-float("inf"), query.dtype)
    if is_causal:
        size = [g.size(query, -2), g.size(key, -2)]
        ones = g.op(
            "Expand", g.constant(1.0, rushlight.float32), g.operand(size), shape=(None, None)
        )
        below = g.op(
            "Cast", g.op("Trilu", ones, upper=0), to=g.type_of(rushlight.bool), dtype=rushlight.bool
        )
        scores = g.op("Where", below, scores, lowest, dtype=query.dtype)
    if attn_mask is not None and attn_mask.dtype is rushlight.bool:
        scores = g.op("Where", attn_mask, scores, lowest, dtype=query.dtype)
    elif attn_mask is not None:
        scores = g.op("Add", scores, attn_mask)
    weights = g.op("Softmax", scores, axis=-1)
    if (
        attn_mask is not None and attn_mask.dtype is rushlight.bool
    ):  # a row without any entry is zero
        nan = g.op("IsNaN", weights, dtype=rushlight.bool)
        weights = g.op("Where", nan, g.constant(0.0, query.dtype), weights, dtype=query.dtype)
    return g.op("MatMul", weights, value)
