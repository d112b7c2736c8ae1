"""Convolutions, pooling, normalisation, dropout, padding and resizing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import rushlight
from rushlight.onnx.builder import CONVERSIONS, Builder, Operand, conversion
from rushlight.onnx.conversions.reductions import var


def _each(value: Any, n: int) -> list[int]:
    """A number for each spatial dimension."""
    value = [value] if isinstance(value, int) else [*value]
    return value * n if len(value) == 1 else value


def _convolution(nd: int) -> Any:
    def convert(
        g: Builder, x: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Operand:  # fmt: skip
        batched = x.rank == nd + 2
        x = x if batched else g.op("Unsqueeze", x, [0])
        dilation = _each(dilation, nd)
        kernel = [int(k) for k in weight.shape[2:]]
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            pads = [n // 2 for n in total] + [n - n // 2 for n in total]
        else:
            pads = 2 * _each(0 if padding == "valid" else padding, nd)
        found = g.op(
            "Conv", x, weight, bias, strides=_each(stride, nd), pads=pads, dilations=dilation, group=groups,
            kernel_shape=kernel,
        )  # fmt: skip
        return found if batched else g.op("Squeeze", found, [0])

    return convert


def _transposed(nd: int) -> Any:
    def convert(
        g: Builder, x: Operand, weight: Operand, bias: Operand | None = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Operand:  # fmt: skip
        return g.op(
            "ConvTranspose", x, weight, bias, strides=_each(stride, nd), pads=2 * _each(padding, nd),
            output_padding=_each(output_padding, nd), dilations=_each(dilation, nd), group=groups,
            kernel_shape=[int(k) for k in weight.shape[2:]],
        )  # fmt: skip

    return convert


def _max_pool(nd: int) -> Any:
    def convert(
        g: Builder, x: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Operand:  # fmt: skip
        if x.rank != nd + 2:
            raise NotImplementedError("pooling of an input without a batch")
        kernel = _each(kernel_size, nd)
        return g.op(
            "MaxPool", x, kernel_shape=kernel, strides=_each(stride, nd) if stride not in (None, [], ()) else kernel,
            pads=2 * _each(padding, nd), dilations=_each(dilation, nd), ceil_mode=int(ceil_mode),
        )  # fmt: skip

    return convert


def _avg_pool(nd: int) -> Any:
    def convert(
        g: Builder, x: Operand, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Operand:  # fmt: skip
        if divisor_override is not None or x.rank != nd + 2:
            raise NotImplementedError("divisor_override, or an input without a batch")
        kernel = _each(kernel_size, nd)
        return g.op(
            "AveragePool", x, kernel_shape=kernel, strides=_each(stride, nd) if stride not in (None, [], ()) else kernel,
            pads=2 * _each(padding, nd), ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
        )  # fmt: skip

    return convert


def _adaptive(nd: int, kind: str) -> Any:
    def convert(g: Builder, x: Operand, output_size: Any) -> Operand:
        target = [output_size] * nd if isinstance(output_size, int) else [*output_size]
        sizes = list(x.shape[-nd:])
        target = [s if w is None else w for w, s in zip(target, sizes, strict=True)]
        if all(w == 1 for w in target) and x.rank == nd + 2:
            return g.op(f"Global{kind}Pool", x)
        if None in sizes or x.rank != nd + 2:
            raise NotImplementedError("adaptive pooling of a dynamic size")
        if all(s % w == 0 for s, w in zip(sizes, target, strict=True)):
            kernel = [s // w for s, w in zip(sizes, target, strict=True)]
            return g.op(f"{kind}Pool", x, kernel_shape=kernel, strides=kernel)
        if kind != "Average":
            raise NotImplementedError(f"adaptive maxima from {sizes} to {target}")
        for k, (size, want) in enumerate(
            zip(sizes, target, strict=True)
        ):  # a product with the shares
            shares = np.zeros((size, want))
            for i in range(want):
                a, b = i * size // want, -(-(i + 1) * size // want)
                shares[a:b, i] = 1 / (b - a)
            last = [d for d in range(x.rank) if d != 2 + k] + [2 + k]
            x = g.op("MatMul", g.op("Transpose", x, perm=last), g.constant(shares, x.dtype))
            x = g.op("Transpose", x, perm=[int(d) for d in np.argsort(last)])
        return x

    return convert


def _adaptive_max(nd: int) -> Any:
    maxima = _adaptive(nd, "Max")

    def convert(g: Builder, x: Operand, output_size: Any) -> list[Operand]:
        return [maxima(g, x, output_size)]  # the operator's second result, the indices, has none

    return convert


for _n in (1, 2, 3):
    CONVERSIONS |= {
        f"conv{_n}d": _convolution(_n), f"conv_transpose{_n}d": _transposed(_n), f"max_pool{_n}d": _max_pool(_n),
        f"avg_pool{_n}d": _avg_pool(_n), f"adaptive_avg_pool{_n}d": _adaptive(_n, "Average"),
        f"adaptive_max_pool{_n}d": _adaptive_max(_n),
    }  # fmt: skip


def _filled(g: Builder, value: float, size: list, dtype: Any) -> Operand:
    """A tensor of one value: a constant, where the sizes are numbers."""
    if any(isinstance(n, Operand) for n in size):
        return g.op("Expand", g.constant(value, dtype), g.operand(size))
    return g.constant(np.full(size, value), dtype)


@conversion("batch_norm")
def batch_norm(
    g: Builder, x: Operand, weight: Operand | None, bias: Operand | None, mean: Operand | None, variance: Operand | None,
    training: bool, momentum: float, eps: float, cudnn: bool = True,
) -> Operand:  # fmt: skip
    ones, zeros = (_filled(g, value, [g.size(x, 1)], x.dtype) for value in (1.0, 0.0))
    if training or mean is None:
        axes = [d for d in range(x.rank) if d != 1]
        mean = g.op("ReduceMean", x, axes, keepdims=0)
        variance = var(g, x, axes, correction=0)
    return g.op("BatchNormalization", x, weight or ones, bias or zeros, mean, variance, epsilon=eps)


@conversion("instance_norm")
def instance_norm(
    g: Builder, x: Operand, mean: Any = None, variance: Any = None, weight: Operand | None = None,
    bias: Operand | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
    cudnn: bool = True,
) -> Operand:  # fmt: skip
    if not use_input_stats:
        return batch_norm(g, x, weight, bias, mean, variance, False, momentum, eps)
    ones, zeros = (_filled(g, value, [g.size(x, 1)], x.dtype) for value in (1.0, 0.0))
    return g.op("InstanceNormalization", x, weight or ones, bias or zeros, epsilon=eps)


@conversion("layer_norm")
def layer_norm(
    g: Builder, x: Operand, shape: Any, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Operand:  # fmt: skip
    weight = weight or _filled(g, 1.0, [*shape], x.dtype)
    bias = bias or _filled(g, 0.0, [*shape], x.dtype)  # onnxruntime 1.32 crashes without one
    return g.op("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps)


@conversion("rms_norm")
def rms_norm(
    g: Builder, x: Operand, shape: Any, weight: Operand | None = None, eps: float | None = None
) -> Operand:
    eps = rushlight.finfo(x.dtype).eps if eps is None else eps
    axes = [*range(-len(shape), 0)]
    mean = g.op("ReduceMean", g.op("Mul", x, x), axes, keepdims=1)
    found = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, g.constant(eps, x.dtype))))
    return found if weight is None else g.op("Mul", found, weight)


@conversion("group_norm")
def group_norm(
    g: Builder, x: Operand, groups: int, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Operand:  # fmt: skip
    ones, zeros = g.constant([1.0] * groups, x.dtype), g.constant([0.0] * groups, x.dtype)
    flat = g.op("Reshape", x, [0, groups, -1])
    found = g.op("InstanceNormalization", flat, ones, zeros, epsilon=eps)
    found = g.op("Reshape", found, g.op("Shape", x, dtype=rushlight.int64, shape=(x.rank,)))
    along = [-1, *[1] * (x.rank - 2)]
    if weight is not None:
        found = g.op("Mul", found, g.op("Reshape", weight, along))
    return found if bias is None else g.op("Add", found, g.op("Reshape", bias, along))


@conversion("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(g: Builder, x: Operand, p: float = 0.5, train: bool = True) -> Operand:
    if not train or not p:
        return replace(g.op("Identity", x), lengths=x.lengths)
    return g.op("Dropout", x, g.constant(p, rushlight.float32), g.constant(True, rushlight.bool))


@conversion("pad", "constant_pad_nd")
def pad(g: Builder, x: Operand, pad: Any, mode: Any = "constant", value: Any = None) -> Operand:
    if not isinstance(mode, str):
        mode, value = "constant", mode
    n = len(pad) // 2
    before, after = [*pad[0::2]][::-1], [*pad[1::2]][::-1]
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    if mode == "wrap" and g.opset < 19:
        raise NotImplementedError("circular padding before opset 19")
    axes = [*range(x.rank - n, x.rank)]
    return g.op(
        "Pad", x, g.operand([*before, *after]), g.constant(value or 0, x.dtype), axes, mode=mode
    )


def _resample(mode: str, antialias: bool = False) -> Any:
    """The conversion of an operator that resamples the dimensions behind the second."""

    def call(g: Builder, x: Operand, size: Any, *given: Any) -> Operand:
        align_corners, factors = given if len(given) == 2 else (False, *given)
        if align_corners:
            transformation = "align_corners"
        elif mode == "nearest":
            transformation = "asymmetric"
        else:
            transformation = "half_pixel" if mode == "nearest-exact" else "pytorch_half_pixel"
        rounding = {"nearest": "floor", "nearest-exact": "round_prefer_ceil"}
        options = {
            "mode": mode.removesuffix("-exact"), "coordinate_transformation_mode": transformation, "antialias": int(antialias),
            "nearest_mode": rounding.get(mode), "cubic_coeff_a": -0.75 if mode == "cubic" else None,
        }  # fmt: skip
        if factors is not None:
            scales = g.constant([1.0, 1.0, *factors], rushlight.float32)
            return g.op("Resize", x, None, scales, **options)
        known = g.result.shape[2:]
        target = [*size] if None in known else [*known]
        sizes = g.operand([g.size(x, 0), g.size(x, 1), *target])
        return g.op("Resize", x, None, None, sizes, **options)

    return call


for _n in (1, 2, 3):
    CONVERSIONS[f"upsample_nearest{_n}d"] = _resample("nearest")
    CONVERSIONS[f"_upsample_nearest_exact{_n}d"] = _resample("nearest-exact")
for _n, _name, _mode in (
    (1, "linear", "linear"), (2, "bilinear", "linear"), (3, "trilinear", "linear"), (2, "bicubic", "cubic"),
):  # fmt: skip
    CONVERSIONS[f"upsample_{_name}{_n}d"] = _resample(_mode)
    if _n == 2:
        CONVERSIONS[f"_upsample_{_name}2d_aa"] = _resample(_mode, True)


@conversion("cosine_similarity")
def cosine_similarity(
    g: Builder, a: Operand, b: Operand, dim: int = 1, eps: float = 1e-8
) -> Operand:
    product = g.op("ReduceSum", g.op("Mul", a, b), [dim], keepdims=0)
    sizes = [
        g.op("Max", g.op("ReduceL2", x, [dim], keepdims=0), g.constant(eps, x.dtype))
        for x in (a, b)
    ]
    return g.op("Div", product, g.op("Mul", *sizes))
