"""Sums, means, extremes and running sums."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.onnx.builder import CONVERSIONS, Builder, Operand, conversion


def _axes(dim: Any) -> list[int] | None:
    return (
        None if dim is None or dim == [] or dim == () else [dim] if isinstance(dim, int) else [*dim]
    )


def _reduce(kind: str) -> Any:
    def convert(
        g: Builder, x: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Operand:
        x = g.cast(x, g.result.dtype)
        axes = _axes(dim)
        return (
            g.op(kind, x, axes, keepdims=int(keepdim))
            if axes is not None
            else g.op(kind, x, keepdims=0)
        )

    return convert


CONVERSIONS |= {
    "sum": _reduce("ReduceSum"), "mean": _reduce("ReduceMean"), "amax": _reduce("ReduceMax"),
    "amin": _reduce("ReduceMin"), "prod": _reduce("ReduceProd"), "logsumexp": _reduce("ReduceLogSumExp"),
}  # fmt: skip


def _extreme(kind: str, other: str, arg: str) -> Any:
    def convert(g: Builder, x: Operand, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Operand):
            return g.op(other, x, dim)
        if dim is None:
            return g.op(kind, x, keepdims=0)
        return [
            g.op(kind, x, [dim], keepdims=int(keepdim)),
            g.op(arg, x, axis=dim, keepdims=int(keepdim), dtype=rushlight.int64),
        ]

    return convert


def _arg(kind: str) -> Any:
    def convert(g: Builder, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
        if dim is None:
            flat = g.op("Reshape", x, [-1])
            return g.op(kind, flat, axis=0, keepdims=0, dtype=rushlight.int64)
        return g.op(kind, x, axis=dim, keepdims=int(keepdim), dtype=rushlight.int64)

    return convert


CONVERSIONS |= {
    "max": _extreme("ReduceMax", "Max", "ArgMax"), "min": _extreme("ReduceMin", "Min", "ArgMin"),
    "argmax": _arg("ArgMax"), "argmin": _arg("ArgMin"),
}  # fmt: skip


@conversion("any")
def any_(g: Builder, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _over_truth(g, x, "ReduceMax", dim, keepdim)


@conversion("all")
def all_(g: Builder, x: Operand, dim: Any = None, keepdim: bool = False) -> Operand:
    return _over_truth(g, x, "ReduceMin", dim, keepdim)


def _over_truth(g: Builder, x: Operand, kind: str, dim: Any, keepdim: bool) -> Operand:
    numbers = g.cast(g.cast(x, rushlight.bool), rushlight.int32)
    axes = _axes(dim)
    found = (
        g.op(kind, numbers, axes, keepdims=int(keepdim))
        if axes is not None
        else g.op(kind, numbers, keepdims=0)
    )
    return g.cast(found, rushlight.bool)


@conversion("var")
def var(
    g: Builder,
    x: Operand,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    correction: Any = None,
) -> Operand:
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    axes = _axes(dim)
    axes = [*range(x.rank)] if axes is None else axes
    mean = g.op("ReduceMean", x, axes, keepdims=1)
    away = g.op("Sub", x, mean)
    total = g.op("ReduceSum", g.op("Mul", away, away), axes, keepdims=int(keepdim))
    count: Any = 1
    for d in axes:
        count = g.compute("Mul", count, g.size(x, d))
    count = g.operand(g.compute("Sub", count, correction), x.dtype)
    return g.op("Div", total, count)


@conversion("std")
def std(g: Builder, x: Operand, *args: Any, **options: Any) -> Operand:
    return g.op("Sqrt", var(g, x, *args, **options))


@conversion("norm", "linalg_vector_norm")
def norm(
    g: Builder, x: Operand, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Operand:
    kind = {1: "ReduceL1", 2: "ReduceL2", "fro": "ReduceL2", None: "ReduceL2"}.get(p)
    if kind is None:
        raise NotImplementedError(f"a norm of order {p}")
    axes = _axes(dim)
    return (
        g.op(kind, x, axes, keepdims=int(keepdim))
        if axes is not None
        else g.op(kind, x, keepdims=0)
    )


@conversion("cumsum")
def cumsum(g: Builder, x: Operand, dim: int, dtype: Any = None) -> Operand:
    return g.op("CumSum", g.cast(x, g.result.dtype), g.constant(dim))
